//! Tables: what each state of a node shows, and that all of it is bounded and documented.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::boot::Boot;
use crate::config::Config;
use crate::drain::{Blocker, PodRef};
use crate::effect::Effect;
use crate::gates::{Closed, Force};
use crate::history::Past;
use crate::record::{Backoff, Hold, Record};
use crate::slot::{Lease, Take, Waiting};
use crate::times::Times;
use crate::trigger::{self, BY_PERSON, Keeper, Latched, Request};

fn wall(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

fn policy() -> Policy {
    Policy::of(&Config::default(), Some("n1"), "kube-rebootd", "workers")
}

fn facts() -> Facts {
    Facts::of_a_start(Boot::unknown(), Record::default())
}

fn step(phase: Phase, reason: Reason, record: Record) -> Step {
    Step {
        phase,
        reason,
        record,
        effect: Effect::Wait,
        wake: None,
        status: String::new(),
        waits: None,
        would: None,
    }
}

fn asks(triggers: &[&str]) -> Request {
    let reason = |trigger: &&str| trigger::Reason {
        trigger: (*trigger).to_owned(),
        pkgs: BTreeSet::new(),
        words: String::new(),
        since: wall(0),
        since_boot: Duration::ZERO,
        later: std::collections::BTreeMap::new(),
        kind: crate::kind::Kind::Reboot,
        mark: None,
    };
    Request {
        since: wall(0),
        reasons: triggers.iter().map(reason).collect(),
        latched: vec![Latched {
            by: BY_PERSON.to_owned(),
            reason: "words of somebody".to_owned(),
            at: wall(0),
            boot: None,
            ended: false,
            kind: crate::kind::Kind::Reboot,
        }],
    }
}

fn page(step: &Step, facts: &Facts) -> Page {
    Page::of(step, facts, &policy(), &Counters::default())
}

/// The samples of a family that are not 0, as `labels value`, at 100 seconds.
fn says(page: &Page, family: Family) -> String {
    let found = page.families.iter().find(|(one, _)| *one == family);
    let (_, samples) = found.expect("it is shown");
    let values = samples.iter().map(|sample| {
        let value = sample.value.at(wall(100));
        (sample.labels.join(","), value)
    });
    let shown = values.filter(|(_, value)| *value > 0.0);
    let lines = shown.map(|(labels, value)| format!("{labels} {value}").trim().to_owned());
    lines.collect::<Vec<_>>().join("; ")
}

#[test]
fn a_node_without_a_wish_shows_nothing_but_itself() {
    let page = page(
        &step(Phase::Idle, Reason::Idle, Record::default()),
        &facts(),
    );
    for (family, _) in &page.families {
        let expected = match family {
            Family::Running | Family::ReloadSuccessful => "1".to_owned(),
            Family::Info => format!("{},workers,active 1", env!("CARGO_PKG_VERSION")),
            Family::Phase | Family::Reason => "Idle 1".to_owned(),
            _ => String::new(),
        };
        assert_eq!(says(&page, *family), expected, "{family:?}");
    }
}

#[test]
fn a_drain_shows_how_long_it_lasts_and_what_holds_it_up() {
    let lease = Lease::free("default", "workers");
    let take = Take::of(&lease, "kube-rebootd", wall(40), false);
    let record = Record {
        hold: Some(Hold {
            drain_spent: 7,
            ..Hold::begin(take, Boot::unknown())
        }),
        request: Some(asks(&["kernel"])),
        waiting: Some(Waiting {
            group: "workers".to_owned(),
            since: wall(10),
        }),
        ..Record::default()
    };
    let blocker = Blocker {
        pod: PodRef {
            namespace: "shop".to_owned(),
            name: "cart-0".to_owned(),
            uid: "u".to_owned(),
        },
        why: "words".into(),
        budget: None,
    };
    let mut facts = facts();
    let step = step(Phase::Draining, Reason::BlockedByPod, record);
    assert_eq!(says(&page(&step, &facts), Family::DrainSeconds), "7");
    facts.drain = Drained::Going {
        escalate: Vec::new(),
        deleted: false,
        evict: Vec::new(),
        words: String::new(),
        spent: Duration::from_millis(8500),
        confirm: false,
        unseen: false,
        wake: None,
        blocked: vec![blocker],
    };
    facts.closed = vec![Closed {
        gate: Gate::Inhibitors,
        why: "words".into(),
        opens: None,
    }];
    let page = page(&step, &facts);
    for (family, expected) in [
        (Family::Phase, "Draining 1"),
        (Family::Reason, "BlockedByPod 1"),
        (Family::RebootRequired, "1"),
        (Family::RequiredSince, "1790000000"),
        (Family::TriggerAsks, "kernel 1; kube-rebootd reboot 1"),
        (Family::GateClosed, "inhibitors 1"),
        (Family::WaitingSeconds, "90"),
        (Family::HoldingSeconds, "60"),
        (Family::DrainSeconds, "8.5"),
        (Family::BlockedPods, "1"),
        (Family::VerifySeconds, ""),
    ] {
        assert_eq!(says(&page, family), expected, "{family:?}");
    }
}

#[test]
fn after_the_boot_it_shows_the_proof_and_the_past() {
    let times = Times {
        slot: None,
        drain: 30,
        boot: Some(45),
        verify: 60,
        ..Times::default()
    };
    let last = Past {
        times: Some(times),
        ..Past::of(None, wall(50))
    };
    let record = Record {
        backoff: Some(Backoff {
            failures: 3,
            boot: Boot::unknown(),
            until: Duration::ZERO,
            why: String::new(),
        }),
        history: vec![last, Past::of(None, wall(-5))],
        ..Record::default()
    };
    let mut facts = facts();
    facts.verifying = Duration::from_secs(12);
    let step = step(Phase::Verifying, Reason::Unhealthy, record);
    let page = page(&step, &facts);
    assert_eq!(says(&page, Family::VerifySeconds), "12");
    assert_eq!(says(&page, Family::LastReboot), "1790000050");
    assert_eq!(
        says(&page, Family::LastStages),
        "drain 30; boot 45; verify 60"
    );
    assert_eq!(says(&page, Family::FailedAttempts), "3");
    // Of an answer that is not known, nobody says that a reboot is required.
    let unknown = step_unknown();
    let page = self::page(&unknown, &facts);
    assert_eq!(says(&page, Family::RebootRequired), "");
}

/// A person who wants the node drained wants no reboot: nobody is told that one is overdue.
#[test]
fn maintenance_is_no_wish_for_a_reboot() {
    let mut request = asks(&[]);
    Keeper::Person
        .begins()
        .clone_into(&mut request.latched[0].by);
    let record = Record {
        request: Some(request),
        ..Record::default()
    };
    let step = step(Phase::Drained, Reason::Maintenance, record);
    let page = page(&step, &facts());
    assert_eq!(says(&page, Family::RebootRequired), "");
    assert_eq!(says(&page, Family::RequiredSince), "");
    assert_eq!(says(&page, Family::TriggerAsks), "kube-rebootd drain 1");
}

fn step_unknown() -> Step {
    step(Phase::Idle, Reason::TriggerUnknown, Record::default())
}

/// Prometheus refuses a page with the same series twice, and keeps every series that there ever was.
#[test]
fn i14_labels_are_bounded_and_no_series_is_there_twice() {
    let long = "/".repeat(5000);
    let (one, other) = (format!("{long}a"), format!("{long}b"));
    let mut names: Vec<String> = (0..200).map(|n| format!("check {n}\n\u{1b}[31m")).collect();
    names.extend([one, other]);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let record = Record {
        request: Some(asks(&names)),
        ..Record::default()
    };
    let page = page(&step(Phase::Pending, Reason::Pending, record), &facts());
    let mut all = 0;
    for (family, samples) in &page.families {
        let series: BTreeSet<_> = samples.iter().map(|sample| &sample.labels).collect();
        assert_eq!(series.len(), samples.len(), "{family:?}");
        for sample in samples {
            assert_eq!(sample.labels.len(), family.labels().len(), "{family:?}");
            let label =
                |label: &String| label.chars().count() <= NAME && !label.contains(['\n', '\u{1b}']);
            assert!(sample.labels.iter().all(label), "{sample:?}");
        }
        all += samples.len();
    }
    assert!(all < 250, "{all}");
}

/// <https://prometheus.io/docs/practices/naming/>; promtool looks at more of them.
#[test]
fn names_follow_the_conventions() {
    let mut names = BTreeSet::new();
    for family in Family::ALL {
        let name = family.name();
        assert!(names.insert(name), "{name}");
        assert!(name.starts_with("kube_rebootd_"), "{name}");
        let counter = family.kind() == Kind::Counter;
        assert_eq!(name.ends_with("_total"), counter, "{name}");
        assert!(family.help().ends_with('.'), "{name}");
    }
    let stopped = Page::stopped();
    assert_eq!(stopped.families.len(), 1);
    assert_eq!(says(&stopped, Family::Running), "");
}

#[test]
fn operating_md_has_a_row_for_every_family() {
    let page = include_str!("../../../docs/operating.md");
    let (_, page) = page.split_once("## Metrics and alerts").unwrap();
    let (page, _) = page.split_once("\n## ").unwrap();
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `kube_rebootd_"))
        .collect();
    assert_eq!(rows.len(), Family::ALL.len());
    for (family, row) in Family::ALL.into_iter().zip(rows) {
        let labels = family.labels();
        let labels = match labels {
            [] => String::new(),
            labels => format!("{{{}}}", labels.join(",")),
        };
        let begin = format!("| `{}{labels}` |", family.name());
        assert!(row.starts_with(&begin), "{begin} is not in: {row}");
    }
    for fault in Fault::ALL {
        assert!(page.contains(&format!("`{}`", fault.name())), "{fault:?}");
    }
}

/// Found by review: `live-patches` was left out.
#[test]
fn operating_md_names_every_gate_of_the_metric() {
    let page = include_str!("../../../docs/operating.md");
    let mut rows = page.lines();
    let row = rows.find(|line| line.starts_with("| `kube_rebootd_gate_closed{gate}`"));
    let (_, named) = row.unwrap().split_once("closed gate: ").unwrap();
    let named: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
    assert_eq!(named, Gate::ALL.map(Gate::name));
}

/// Found by review: `capacity` was left out.
#[test]
fn operating_md_names_every_gate_that_may_be_forced() {
    let page = include_str!("../../../docs/operating.md");
    let (_, page) = page
        .split_once("**A request that waits too long.**")
        .unwrap();
    let (_, page) = page.split_once("What\nmay be listed: ").unwrap();
    let (named, _) = page.split_once(" where they block").unwrap();
    let named: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
    let words: Vec<&str> = Force::WORDS.iter().map(|(word, _)| *word).collect();
    assert_eq!(named, words);
}
