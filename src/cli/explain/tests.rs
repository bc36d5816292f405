//! The shape of `explain` and `explain --json`, and who waits before whom.

use kube_rebootd_core::drain::Fate;
use kube_rebootd_core::gates::Gate;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::slot::{Waiter, Waiting};
use kube_rebootd_core::times::Times;

use super::cluster::placed;
use super::status::{Done, Later, Reason};
use super::*;

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn now() -> Now {
    Now {
        wall: time("2026-11-21T10:10:00Z"),
        boot: Duration::from_secs(10_000),
    }
}

/// A moment so many seconds from now.
fn at(seconds: i64) -> Duration {
    let now = i64::try_from(now().boot.as_secs()).expect("seconds");
    Duration::from_secs(u64::try_from(now + seconds).expect("not before the boot"))
}

/// What is on record of a node that waits for a gate and after a failed attempt.
fn status() -> Status {
    Status {
        running: Some(true),
        unit: Some("active".to_owned()),
        status: Some("reboot pending: node paused: the rack is moved".to_owned()),
        version: Some("1.2.3".to_owned()),
        node: Some("n1".to_owned()),
        group: Some("default".to_owned()),
        phase: Some(Phase::Pending),
        reasons: vec![Reason {
            trigger: "sentinel /run/reboot-required".to_owned(),
            words: "libc6".to_owned(),
            packages: vec!["libc6".to_owned()],
            since: time("2026-11-18T03:00:00Z"),
        }],
        kind: Some(kube_rebootd_core::kind::Kind::Reboot),
        since: Some(time("2026-11-18T03:00:00Z")),
        waits: vec!["node paused: the rack is moved".to_owned()],
        kept_by: Vec::new(),
        holders: Vec::new(),
        blockers: Vec::new(),
        hold: None,
        backoff: Some(Later {
            failures: 2,
            seconds_left: 300,
            why: "the drain failed: web-0 is blocked".to_owned(),
        }),
        kept_cordon: None,
        history: vec![Done {
            at: time("2026-11-01T03:00:00Z"),
            reasons: vec!["sentinel /run/reboot-required".to_owned()],
            packages: vec!["linux-image".to_owned()],
            since: vec![time("2026-10-31T20:00:00Z")],
            later: std::collections::BTreeMap::new(),
            times: Some(status::shape::took(Times {
                slot: Some(24_900),
                waits: [("Queued".to_owned(), 24_290)].into(),
                claim: 2,
                drain: 75,
                evicted: 12,
                boot: Some(48),
                verify: 31,
                ..Times::default()
            })),
            rolled_back: None,
            kind: kube_rebootd_core::kind::Kind::Reboot,
        }],
        problems: Vec::new(),
        config_error: Vec::new(),
        unread: false,
    }
}

fn trigger(name: &str, verdict: Verdict, words: &str, since: i64) -> view::Trigger {
    let asks = verdict == Verdict::Yes;
    view::Trigger {
        trigger: name.to_owned(),
        verdict,
        words: words.to_owned(),
        since: at(since),
        settles: asks.then(|| at(304)),
    }
}

fn gate(name: &str, state: State, why: Option<&str>, opens: Option<i64>) -> view::Gate {
    let untimed = state == State::Closed && opens.is_none();
    view::Gate {
        gate: name.to_owned(),
        state,
        why: why.map(str::to_owned),
        since: at(-600),
        opens: opens.map(at),
        opens_when: untimed.then(|| "when somebody ends it".to_owned()),
    }
}

fn view() -> view::View {
    let words = "a sentence that does not fit on one line beside its name, as it goes on and on, and so it is \
                 continued on the next one, below its beginning";
    view::View {
        reason: "Paused".to_owned(),
        triggers: vec![
            trigger("sentinel /run/reboot-required", Verdict::Yes, "libc6", -296),
            trigger("check dnf", Verdict::No, "", -7200),
            trigger(
                "check zypper",
                Verdict::Unknown,
                "no answer within 60s",
                -60,
            ),
            trigger("builtin kernel", Verdict::NotCleared, words, -900),
        ],
        gates: vec![
            gate(
                "node-paused",
                State::Closed,
                Some("node paused: the rack is moved"),
                None,
            ),
            gate("group-paused", State::Open, None, None),
            gate(
                "inhibitors",
                State::Unknown,
                Some("logind did not say"),
                None,
            ),
            gate("package-manager", State::NotLookedAt, None, None),
            gate("settle", State::Closed, Some("not settled yet"), Some(304)),
        ],
        limited: Some(time("2026-11-21T09:00:00Z")),
        flapping: Some(at(20)),
        ..view::View::default()
    }
}

fn waiter(node: &str, since: &str, ready: bool) -> Waiter {
    Waiter {
        node: node.to_owned(),
        since: time(since),
        ready,
    }
}

fn place() -> Waiting {
    Waiting {
        group: "default".to_owned(),
        since: time("2026-11-21T09:00:00Z"),
    }
}

fn fated(pod: &str, fate: Fate) -> Fated {
    let (namespace, name) = pod.split_once('/').expect("namespace/name");
    let object =
        serde_json::json!({"metadata": {"namespace": namespace, "name": name, "uid": "u"}});
    let object = serde_json::from_value(object).expect("a pod");
    cluster::fated(&crate::cluster::pods::read(&object), Some(fate))
}

fn asked() -> Asked {
    let others = vec![
        waiter("n7", "2026-11-21T08:00:00Z", false),
        waiter("n3", "2026-11-21T08:30:00Z", true),
        waiter("n9", "2026-11-21T09:30:00Z", true),
    ];
    let refused = |pod| {
        let why = "The disruption budget db needs 2 healthy pods and has 2 currently".to_owned();
        let budget = Some("shop/db".to_owned());
        fated(pod, Fate::Refused { why, budget })
    };
    let stays = |pod| {
        let why = "is a DaemonSet's: it runs again after the reboot";
        fated(pod, Fate::Stays { why })
    };
    let lost = Fate::Unknown {
        why: "no answer within 15s".to_owned(),
    };
    Asked {
        queue: Some(placed(&place(), "n1", Ok(others))),
        drain: Drain {
            evicts: Some(true),
            pods: vec![
                stays("kube-system/kube-proxy-x2p4q"),
                stays("kube-system/node-exporter-8k2lm"),
                refused("shop/db-0"),
                refused("shop/db-1"),
                fated("shop/late-0", lost),
                fated("shop/web-0", Fate::Evicted),
            ],
            ..Drain::default()
        },
    }
}

fn known() -> Known {
    Known {
        now: now(),
        status: status(),
        view: view(),
        record: kube_rebootd_core::record::Record::default(),
    }
}

#[test]
fn the_json_is_stable() {
    let explained = explained(known(), asked());
    insta::assert_snapshot!(serde_json::to_string_pretty(&explained).expect("JSON"));
    let page = text::page(&explained, now());
    let long = page.lines().find(|line| line.chars().count() > 100);
    assert_eq!(long, None, "{page}");
    insta::assert_snapshot!(page);
}

/// Whoever reads `status` finds the same words under the same keys.
#[test]
fn it_has_all_that_status_has() {
    let explained = explained(known(), asked());
    let all = serde_json::to_value(&explained).expect("JSON");
    let status = serde_json::to_value(status()).expect("JSON");
    for (key, value) in status.as_object().expect("an object") {
        assert_eq!(all[key], *value, "{key}");
    }
}

#[test]
fn what_is_over_limits_nothing() {
    let limits = |view: &view::View, status: &Status| -> Vec<&str> {
        let limits = limits(status, view, now());
        limits.into_iter().map(|limit| limit.limit).collect()
    };
    assert_eq!(limits(&view(), &status()), ["back-off", "flapping"]);
    let day = view::View {
        limited: Some(time("2026-11-21T11:00:00Z")),
        flapping: Some(at(0)),
        ..view()
    };
    let mut over = status();
    over.backoff.as_mut().expect("one").seconds_left = 0;
    assert_eq!(limits(&day, &over), ["max-per-day"]);
}

/// Found by reading: the three oldest of all reboots were shown as the last ones.
#[test]
fn the_last_reboots_are_the_newest() {
    let mut known = known();
    let days = [20, 19, 18, 17].map(|day| format!("2026-11-{day}T03:00:00Z"));
    let newest = &known.status.history[0];
    let all = days.iter().map(|day| Done {
        at: time(day),
        ..newest.clone()
    });
    known.status.history = all.collect();
    let page = text::page(&explained(known, asked()), now());
    let (_, last) = page.split_once("Last reboots").expect("a section");
    let shown = days.iter().map(|day| last.contains(day.as_str()));
    assert_eq!(shown.collect::<Vec<_>>(), [true, true, true, false]);
}

#[test]
fn i8_what_nobody_sees_is_not_known() {
    let mut blind = known();
    blind.view = view::View::default();
    blind.status.running = Some(false);
    let problem = || "no kubeconfig".to_owned();
    let asked = Asked {
        queue: Some(placed(&place(), "", Err(problem()))),
        drain: Drain {
            problem: Some(problem()),
            ..Drain::default()
        },
    };
    let explained = explained(blind, asked);
    let queue = explained.queue.as_ref().expect("it waits");
    assert_eq!((queue.place, queue.waiting), (None, None));
    assert_eq!(explained.drain.evicts, None);
    let page = text::page(&explained, now());
    assert_eq!(
        page.matches("not known: the daemon does not run").count(),
        2,
        "{page}"
    );
    assert_eq!(page.matches("no kubeconfig").count(), 2, "{page}");
    assert!(!page.contains("no pod is on this node"), "{page}");
}

/// As a slot that is given up names them: the longest first, equals by their names.
#[test]
fn a_place_is_after_all_that_have_waited_longer() {
    let (before, same, after) = (
        "2026-11-21T08:00:00Z",
        "2026-11-21T09:00:00Z",
        "2026-11-21T10:00:00Z",
    );
    for (others, place_of, names) in [
        (vec![], 1, vec![]),
        (vec![("n9", before)], 2, vec!["n9"]),
        (vec![("n0", same), ("n2", same)], 2, vec!["n0"]),
        (vec![("n0", after)], 1, vec![]),
    ] {
        let all = others.len() + 1;
        let others = others.iter().map(|(node, since)| waiter(node, since, true));
        let queue = placed(&place(), "n1", Ok(others.collect()));
        let found: Vec<&str> = queue.before.iter().map(|one| one.node.as_str()).collect();
        assert_eq!((queue.place, queue.waiting), (Some(place_of), Some(all)));
        assert_eq!(found, names);
    }
}

/// A node that waits for its turn, as docs/operating.md shows it.
fn queued() -> (Known, Asked) {
    let mut known = known();
    let status = &mut known.status;
    status.phase = Some(Phase::Queued);
    status.status = Some("queued: default is held by n5".to_owned());
    status.waits = vec!["default is held by n5".to_owned()];
    status.holders = vec![view::Holder {
        slot: "default".to_owned(),
        node: "n5".to_owned(),
    }];
    status.backoff = None;
    let mut kernel = trigger("builtin kernel", Verdict::No, "", -7200);
    kernel.since = at(-9000);
    let mut sentinel = trigger(
        "sentinel /run/reboot-required",
        Verdict::Yes,
        "libc6",
        -9000,
    );
    sentinel.settles = Some(at(-9000));
    known.view = view::View {
        reason: "Queued".to_owned(),
        triggers: vec![
            sentinel,
            kernel,
            trigger("node annotation", Verdict::No, "", -9000),
        ],
        gates: Gate::ALL
            .iter()
            .map(|one| gate(one.name(), State::Open, None, None))
            .collect(),
        ..view::View::default()
    };
    let mut asked = asked();
    asked.drain.pods.retain(|pod| pod.fate != "unknown");
    (known, asked)
}

#[test]
fn the_manual_shows_what_is_printed() {
    let (known, asked) = queued();
    let page = text::page(&explained(known, asked), now());
    let quoted: Vec<String> = page
        .lines()
        .map(|line| format!("    {line}").trim_end().to_owned())
        .collect();
    let quoted = quoted.join("\n");
    let manual = include_str!("../../../docs/operating.md");
    assert!(
        manual.contains(&quoted),
        "docs/operating.md is to have:\n{quoted}"
    );
}
