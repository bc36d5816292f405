//! Which gate follows from which fact (I2, I8).

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::condition::Status;
use crate::config;
use crate::drain::{Mode, Unmanaged};
use crate::gates::Gate;
use crate::inhibitor::Inhibitor;
use crate::names;
use crate::peers::{Census, Peers};
use crate::pod::Shield;
use crate::rivals::Rival;
use crate::shutdown::Scheduled;
use crate::users::{Session, Users};
use crate::windows::Windows;

fn closed(machine: &mut Machine) -> Vec<Gate> {
    machine.judge(&[], now());
    machine.facts.closed.iter().map(|one| one.gate).collect()
}

fn why(machine: &mut Machine, gate: Gate) -> Option<String> {
    machine.judge(&[], now());
    let mut closed = machine.facts.closed.iter();
    let one = closed.find(|one| one.gate == gate)?;
    Some(one.why.to_string())
}

fn seen(machine: &mut Machine) -> &mut HostNow {
    machine.memory.host.as_mut().unwrap()
}

fn slot(machine: &mut Machine, name: &str, paused: Option<&str>) {
    let lease = Lease {
        paused: paused.map(str::to_owned),
        ..Lease::free(name, "default")
    };
    machine.facts.leases.insert(name.to_owned(), lease);
}

/// Every day of the year is excluded.
fn never() -> Windows {
    Windows::new(Vec::new(), vec!["01-01..12-31".parse().unwrap()])
}

fn alice() -> Session {
    Session {
        id: "1".to_owned(),
        user: "alice".to_owned(),
        terminal: "pts/0".to_owned(),
        remote: String::new(),
        idle: None,
    }
}

fn prometheus(machine: &mut Machine) {
    let table = "[[gates.prometheus]]\nurl = \"http://a\"";
    machine.config.gates = config::parse(Path::new("c"), table).unwrap().config.gates;
}

/// What is changed, in words; the one gate that it closes.
type Row = (&'static str, fn(&mut Machine), Gate);

#[test]
fn i2_i8_which_gate_follows_from_which_fact() {
    assert_eq!(closed(&mut wanted()), []);
    let rows: [Row; 14] = [
        (
            "no word of the shutdown",
            |m| seen(m).shutting_down = None,
            Gate::Inhibitors,
        ),
        (
            "no word of the inhibitors",
            |m| seen(m).inhibitors = None,
            Gate::Inhibitors,
        ),
        (
            "an inhibitor",
            |m| {
                let row = ["shutdown", "backup", "runs", "block"].map(str::to_owned);
                let [what, who, why, mode] = row;
                seen(m).inhibitors = Some(vec![Inhibitor::of((what, who, why, mode, 0, 1))]);
            },
            Gate::Inhibitors,
        ),
        (
            "a Prometheus that nobody has asked",
            prometheus,
            Gate::Alerts,
        ),
        (
            "a paused Node",
            |m| {
                let annotations = &mut node(m).annotations;
                annotations.insert(names::PAUSED.to_owned(), "disk".to_owned());
            },
            Gate::NodePaused,
        ),
        (
            "a paused group",
            |m| slot(m, "default", Some("why")),
            Gate::GroupPaused,
        ),
        (
            "no window",
            |m| m.config.gates.windows = never(),
            Gate::Windows,
        ),
        (
            "no look at package managers",
            Machine::forget_packages,
            Gate::PackageManager,
        ),
        (
            "a look at them that failed",
            |m| m.saw_packages(Err("denied".to_owned()), now()),
            Gate::PackageManager,
        ),
        (
            "up for a short time",
            |m| m.config.gates.min_uptime = NOW + Duration::from_secs(1),
            Gate::MinUptime,
        ),
        (
            "a reason of a trigger that is not configured",
            |m| m.facts.observed.request.as_mut().unwrap().latched.clear(),
            Gate::Settle,
        ),
        (
            "a taint of an autoscaler",
            |m| node(m).taints = vec![names::AUTOSCALER_TAINTS[1].to_owned()],
            Gate::Autoscaler,
        ),
        (
            "an unwanted condition",
            |m| condition(m, "Kernel", Status::True),
            Gate::Conditions,
        ),
        (
            "a pod that would stop the drain",
            |m| m.memory.blocking = Some((NOW, vec![blocker()])),
            Gate::BlockingPods,
        ),
    ];
    for (what, change, gate) in rows {
        let mut machine = wanted();
        change(&mut machine);
        assert_eq!(closed(&mut machine), [gate], "{what}");
    }
}

#[test]
fn i8_what_nobody_has_looked_at_closes_what_rests_on_it() {
    // Nothing is known of the pods.
    let mut machine = wanted();
    machine.memory.blocking = None;
    assert_eq!(
        closed(&mut machine),
        [Gate::BlockingPods, Gate::ProtectedPods, Gate::Rivals]
    );
    // Nothing is known of the Node.
    let mut machine = wanted();
    machine.facts.node = Seen::Unknown;
    let all = [Gate::NodePaused, Gate::Autoscaler];
    assert_eq!(closed(&mut machine), all);
    condition(&mut machine, "Kernel", Status::False);
    let all = [Gate::NodePaused, Gate::Autoscaler, Gate::Conditions];
    assert_eq!(closed(&mut machine), all);
    // No Node, no pause, no taint and no condition.
    machine.facts.node = Seen::Absent;
    assert_eq!(closed(&mut machine), []);
}

/// `gates.conditions` names `Kernel`, and the Node, if it is known, has this condition.
fn condition(machine: &mut Machine, kind: &str, status: Status) {
    machine.config.gates.conditions = vec!["Kernel".parse().unwrap()];
    if let Seen::Present(node) = &mut machine.facts.node {
        node.reported.insert(kind.to_owned(), status);
    }
}

#[test]
fn i8_a_condition_closes_as_it_is_configured_and_one_that_nobody_reports_does_not() {
    for (kind, status, shuts) in [
        ("Kernel", Status::True, true),
        ("Kernel", Status::Unknown, true),
        ("Kernel", Status::False, false),
        ("Other", Status::True, false),
    ] {
        for stage in [None, Some(Stage::Claiming), Some(Stage::Draining)] {
            let mut machine = wanted();
            machine.facts.record.hold = stage.clone().map(hold);
            condition(&mut machine, kind, status);
            let said = why(&mut machine, Gate::Conditions);
            assert_eq!(said.is_some(), shuts, "{kind} {status} {stage:?}");
        }
    }
}

/// What an autoscaler thinks of a node that this drain empties ends no drain.
#[test]
fn taints_of_autoscalers_count_before_the_cordon() {
    for key in names::AUTOSCALER_TAINTS {
        for (stage, shuts) in [
            (None, true),
            (Some(Stage::Taking), true),
            (Some(Stage::Claiming), true),
            (Some(Stage::Draining), false),
            (Some(Stage::Rebooting), false),
        ] {
            let mut machine = wanted();
            machine.facts.record.hold = stage.clone().map(hold);
            node(&mut machine).taints = vec![key.to_owned()];
            let said = why(&mut machine, Gate::Autoscaler);
            assert_eq!(said.is_some(), shuts, "{key} {stage:?}");
        }
    }
}

/// Found by reading: cluster-autoscaler may leave the taint on a node for days, and the node waited for as long.
#[test]
fn i5_a_candidate_of_an_autoscaler_waits_for_half_an_hour_by_the_taints_time_or_from_its_first_sight()
 {
    const HALF: u64 = 1_800;
    let later = |seconds: u64| Now {
        boot: NOW + Duration::from_secs(seconds),
        wall: wall(),
    };
    for (what, age, left) in [
        ("just marked", Some(0), HALF),
        ("marked ten minutes ago", Some(600), HALF - 600),
        ("marked days ago", Some(300_000), 0),
        ("marked in the future", Some(-300_000), HALF),
        ("not known when", None, HALF),
    ] {
        let mut machine = wanted();
        node(&mut machine).taints = vec![names::CANDIDATE.to_owned()];
        node(&mut machine).candidate = age.map(|age| wall() - jiff::SignedDuration::from_secs(age));
        for (seconds, shut) in [
            (0, left > 0),
            (left.saturating_sub(1), left > 0),
            (left, false),
        ] {
            machine.judge(&[], later(seconds));
            let all = machine.facts.closed.iter();
            let closed = all.clone().find(|one| one.gate == Gate::Autoscaler);
            let opens = closed.map(|closed| closed.opens);
            let until = Some(NOW + Duration::from_secs(left));
            assert_eq!(opens, shut.then_some(until), "{what} {seconds}");
        }
        // Marked anew it waits anew; one that is about to be deleted waits for as long as it takes.
        node(&mut machine).candidate = Some(wall() + jiff::SignedDuration::from_secs(1));
        machine.judge(&[], later(left));
        assert_eq!(machine.facts.closed.len(), 1, "{what}");
        node(&mut machine)
            .taints
            .push(names::AUTOSCALER_TAINTS[0].to_owned());
        machine.judge(&[], later(left + 10 * HALF));
        let [closed] = machine.facts.closed.as_slice() else {
            panic!("{what}: {:?}", machine.facts.closed)
        };
        assert_eq!(closed.opens, None, "{what}");
        assert!(!closed.why.contains(names::CANDIDATE), "{}", closed.why);
    }
}

#[test]
fn i8_who_is_logged_in_closes_the_gate_of_users_and_so_does_a_silent_logind() {
    let mut machine = wanted();
    seen(&mut machine).sessions = None;
    assert_eq!(closed(&mut machine), [Gate::Users], "no word of them");
    seen(&mut machine).sessions = Some(vec![alice()]);
    assert_eq!(closed(&mut machine), [Gate::Users], "somebody at work");
    machine.config.gates.users = Users::Ignore;
    assert_eq!(closed(&mut machine), [], "nobody is asked");
    machine.config.gates.users = Users::Warn;
    machine.memory.host = None;
    let all = [Gate::Inhibitors, Gate::Rivals, Gate::Users];
    assert_eq!(closed(&mut machine), all, "no look at the host");
}

/// The facts of the host go with the gates: when it was looked at, whether it goes down, and by whose order.
#[test]
fn i8_what_the_host_says_is_a_fact_and_what_it_does_not_say_is_none() {
    let scheduled = Scheduled::of("reboot", 1_800_000_000_000_000);
    let mut machine = wanted();
    seen(&mut machine).shutting_down = Some(true);
    seen(&mut machine).scheduled.clone_from(&scheduled);
    machine.judge(&[], now());
    let facts = &machine.facts;
    assert_eq!((facts.host_read, facts.shutting_down), (Some(NOW), true));
    assert_eq!(facts.scheduled, scheduled);
    machine.memory.host = None;
    machine.judge(&[], now());
    let facts = &machine.facts;
    assert_eq!((facts.host_read, facts.shutting_down), (None, false));
    assert_eq!(facts.scheduled, None);
}

#[test]
fn since_when_a_gate_is_closed_counts_without_a_break() {
    let mut machine = wanted();
    for (shuts, seconds, since) in [
        (false, 0, None),
        (true, 10, Some(10)),
        (true, 20, Some(10)),
        (false, 30, None),
        (true, 40, Some(40)),
    ] {
        seen(&mut machine).inhibitors = (!shuts).then(Vec::new);
        let at = |seconds| NOW + Duration::from_secs(seconds);
        let boot = at(seconds);
        machine.judge(&[], Now { boot, ..now() });
        assert_eq!(machine.facts.closed_since, since.map(at), "{seconds}");
    }
}

#[test]
fn a_group_is_paused_when_all_of_its_slots_are() {
    let annotation = names::PAUSED;
    for (slots, words) in [
        (&[][..], None),
        (&[("a", None)], None),
        (&[("a", Some("disk")), ("b", None)], None),
        (
            &[("a", Some("disk"))],
            Some(format!("disk (annotation {annotation} of Lease a)")),
        ),
        (
            &[("a", Some("")), ("b", Some("disk"))],
            Some(format!("annotation {annotation} of Lease a, b")),
        ),
    ] {
        let mut machine = wanted();
        for (name, paused) in slots {
            slot(&mut machine, name, *paused);
        }
        // Another group's are no matter.
        let other = Lease::free("other", "other");
        machine.facts.leases.insert("other".to_owned(), other);
        let words = words.map(|words| format!("group paused: {words}"));
        assert_eq!(why(&mut machine, Gate::GroupPaused), words, "{slots:?}");
        // It never affects a holder.
        machine.facts.record.hold = Some(hold(Stage::Claiming));
        assert_eq!(why(&mut machine, Gate::GroupPaused), None, "{slots:?}");
    }
}

fn listed(asked: Duration, nodes: usize, counted: bool) -> Peers {
    Peers {
        asked,
        came: asked,
        labelled: Vec::new(),
        leases: BTreeSet::new(),
        census: Ok(Census {
            nodes,
            ..Census::default()
        }),
        quorum_down: Ok(Vec::new()),
        counted,
    }
}

/// Pods that have nowhere to go stop no drain: whether there are others is told by the last look, of either kind.
#[test]
fn i8_a_cluster_is_taken_for_one_node_only_by_the_last_look() {
    let (early, late) = (ago(20), ago(10));
    for (looked, peers, alone) in [
        (None, None, false),
        (Some((early, true)), None, true),
        (Some((early, false)), None, false),
        (None, Some(listed(early, 1, true)), true),
        (None, Some(listed(early, 2, true)), false),
        (None, Some(listed(early, 1, false)), false),
        (Some((early, true)), Some(listed(late, 2, true)), false),
        (Some((early, false)), Some(listed(late, 1, true)), true),
        (Some((late, true)), Some(listed(early, 2, true)), true),
        (Some((early, true)), Some(listed(late, 2, false)), true),
        (
            Some((early, true)),
            Some(Peers {
                census: Err("denied".to_owned()),
                ..listed(late, 1, true)
            }),
            false,
        ),
    ] {
        let mut machine = wanted();
        machine.memory.alone = looked;
        machine.facts.peers.clone_from(&peers);
        machine.memory.blocking = Some((NOW, vec![blocker()]));
        let gates = closed(&mut machine);
        assert_eq!(gates.is_empty(), alone, "{looked:?} {peers:?}");
    }
}

/// Before the cordon they close a gate; after it they are the drain's own matter. With a slot the watch is asked first.
#[test]
fn i2_pods_that_would_stop_the_drain_close_a_gate_before_the_cordon() {
    let some = || Some((NOW, vec![blocker()]));
    let none = || Some((NOW, Vec::new()));
    let (bare, fine) = (|| Some(vec![pod("bare", "")]), || Some(Vec::new()));
    let (open, unknown, shut) = (
        None,
        Some("not known which pods"),
        Some("1 pod would block"),
    );
    for (what, stage, pods, listed, then) in [
        ("not looked", None, None, None, unknown),
        ("not listed, but watched", None, bare(), None, unknown),
        ("listed", None, None, some(), shut),
        ("none listed", None, bare(), none(), open),
        ("taking", Some(Stage::Taking), None, some(), shut),
        ("taking, seen", Some(Stage::Taking), fine(), some(), open),
        (
            "claiming, seen",
            Some(Stage::Claiming),
            bare(),
            none(),
            shut,
        ),
        // After a restart, until the watch has listed.
        ("claiming, unseen", Some(Stage::Claiming), None, None, open),
        ("draining", Some(Stage::Draining), bare(), some(), open),
        ("rebooting", Some(Stage::Rebooting), bare(), some(), open),
    ] {
        let mut machine = wanted();
        machine.config.drain.policy.unmanaged = Unmanaged::Block;
        machine.facts.record.hold = stage.map(hold);
        machine.memory.pods = pods;
        machine.memory.blocking = listed;
        let said = why(&mut machine, Gate::BlockingPods);
        let begins = |words| said.as_deref().is_some_and(|said| said.starts_with(words));
        assert!(then.map_or(said.is_none(), begins), "{what}: {said:?}");
    }
    for (mode, shuts) in [(Mode::Never, false), (Mode::Always, true)] {
        let mut machine = wanted();
        machine.config.drain.mode = mode;
        machine.memory.blocking = some();
        assert_eq!(why(&mut machine, Gate::BlockingPods).is_some(), shuts);
    }
}

/// It is not to be disturbed; with seconds, for so long from now on.
fn shielded(seconds: Option<u64>) -> Pod {
    let shield = seconds.map(|seconds| Shield::DoNotDisruptFor(Duration::from_secs(seconds)));
    Pod {
        shield: Some(shield.unwrap_or(Shield::SafeToEvict)),
        started: Some(wall()),
        ..pod("db", "ReplicaSet")
    }
}

/// As pods that would stop the drain, but whether or not anything is evicted: the reboot ends them.
#[test]
fn i2_protected_pods_close_a_gate_before_the_cordon() {
    let one = || Some(vec![shielded(None)]);
    let (open, unknown, shut) = (
        None,
        Some("not known which pods"),
        Some("1 pod is protected"),
    );
    for (what, stage, pods, listed, then) in [
        ("not looked", None, None, None, unknown),
        ("listed", None, None, one(), shut),
        ("none listed", None, one(), Some(Vec::new()), open),
        ("taking", Some(Stage::Taking), None, one(), shut),
        (
            "taking, seen",
            Some(Stage::Taking),
            Some(Vec::new()),
            one(),
            open,
        ),
        (
            "claiming, seen",
            Some(Stage::Claiming),
            one(),
            Some(Vec::new()),
            shut,
        ),
        ("claiming, unseen", Some(Stage::Claiming), None, None, open),
        ("draining", Some(Stage::Draining), one(), one(), open),
        ("rebooting", Some(Stage::Rebooting), one(), one(), open),
    ] {
        for mode in [Mode::Auto, Mode::Never] {
            let mut machine = wanted();
            machine.config.drain.mode = mode;
            machine.memory.blocking = None;
            if let Some(pods) = &listed {
                machine.listed_before(pods, now());
            }
            machine.facts.record.hold = stage.clone().map(hold);
            machine.memory.pods = pods.clone();
            let said = why(&mut machine, Gate::ProtectedPods);
            let begins = |words| said.as_deref().is_some_and(|said| said.starts_with(words));
            assert!(then.map_or(said.is_none(), begins), "{what}: {said:?}");
            // Nobody looks.
            machine.config.gates.protection.annotations = false;
            assert_eq!(why(&mut machine, Gate::ProtectedPods), None, "{what}");
        }
    }
}

/// The time of a protected pod is over without any word of the API server; then its watch ends.
#[test]
fn a_pod_is_protected_for_its_time() {
    let mut machine = wanted();
    machine.listed_before(&[shielded(Some(60))], now());
    for (seconds, shuts) in [(0, true), (59, true), (60, false)] {
        let later = Now {
            wall: wall() + jiff::SignedDuration::from_secs(seconds),
            ..now()
        };
        machine.seen_before_cordon(later);
        machine.judge(&[], later);
        let closed: Vec<Gate> = machine.facts.closed.iter().map(|one| one.gate).collect();
        assert_eq!(closed.contains(&Gate::ProtectedPods), shuts, "{seconds}");
        assert_eq!(machine.pods_matter(), shuts, "{seconds}");
    }
}

#[test]
fn a_pod_that_the_configuration_names_is_protected() {
    for (selector, shuts) in [("shop:", true), ("bank:", false), ("app=db", false)] {
        let mut machine = wanted();
        machine.config.gates.protection.blocking = vec![selector.parse().unwrap()];
        machine.listed_before(&[pod("web", "ReplicaSet")], now());
        let closed = closed(&mut machine);
        assert_eq!(
            closed == [Gate::ProtectedPods],
            shuts,
            "{selector} {closed:?}"
        );
    }
}

#[test]
fn the_watch_tells_when_the_last_protected_pod_has_gone() {
    let mut machine = wanted();
    machine.listed_before(&[shielded(None)], now());
    machine.saw_pods(Some(vec![shielded(None)]), None);
    machine.seen_before_cordon(now());
    assert_eq!(closed(&mut machine), [Gate::ProtectedPods]);
    assert!(
        !machine.alone_due(now()),
        "it is the same in a cluster of one Node"
    );
    machine.saw_pods(Some(Vec::new()), None);
    machine.seen_before_cordon(now());
    assert_eq!(closed(&mut machine), []);
}

/// While some of them are there, their watch tells when the last has gone; else nothing of it is believed.
#[test]
fn the_watch_tells_when_the_last_pod_that_would_stop_the_drain_has_gone() {
    let judged = |before: Option<usize>, watched: Option<usize>, change: fn(&mut Machine)| {
        let mut machine = wanted();
        machine.config.drain.policy.unmanaged = Unmanaged::Block;
        let blockers = |number: usize| (ago(9), vec![blocker(); number]);
        machine.memory.blocking = before.map(blockers);
        let bare = |number: usize| {
            (0..number)
                .map(|one| pod(&format!("bare-{one}"), ""))
                .collect()
        };
        machine.memory.pods = watched.map(bare);
        change(&mut machine);
        machine.seen_before_cordon(now());
        let known = machine.memory.blocking;
        known.map(|(read, blockers)| (read, blockers.len()))
    };
    for (before, watched, then) in [
        (Some(1), Some(0), Some((NOW, 0))),
        (Some(1), Some(2), Some((NOW, 2))),
        (Some(1), None, Some((ago(9), 1))),
        (Some(0), Some(1), Some((ago(9), 0))),
        (None, Some(1), None),
    ] {
        assert_eq!(
            judged(before, watched, |_| {}),
            then,
            "{before:?} {watched:?}"
        );
    }
    let slot = |m: &mut Machine| m.facts.record.hold = Some(hold(Stage::Claiming));
    assert_eq!(judged(Some(1), Some(0), slot), Some((ago(9), 1)));
    let none = |m: &mut Machine| m.facts.observed.request = None;
    assert_eq!(judged(Some(1), Some(0), none), Some((ago(9), 1)));
}

fn kured() -> Pod {
    Pod {
        rival: Some(Rival::Kured),
        ..pod("kured", "DaemonSet")
    }
}

/// Before the cordon, and where nothing is evicted as well.
#[test]
fn i1_i8_another_reboot_daemon_closes_a_gate_before_the_cordon() {
    type Change = fn(&mut Machine);
    let (unknown, shut) = (
        "not known whether another daemon",
        "may reboot this host, too",
    );
    let rows: [(&str, Change, Option<&str>); 7] = [
        ("nobody", |_| {}, None),
        ("a pod", |m| m.listed_before(&[kured()], now()), Some(shut)),
        (
            "a unit",
            |m| seen(m).rivals = Some(vec!["zincati.service".to_owned()]),
            Some(shut),
        ),
        (
            "another unit",
            |m| seen(m).rivals = Some(vec!["sshd.service".to_owned()]),
            None,
        ),
        ("no word of units", |m| seen(m).rivals = None, Some(unknown)),
        (
            "no list of pods",
            |m| m.memory.blocking = None,
            Some(unknown),
        ),
        (
            "a pod, and no word of units",
            |m| {
                m.listed_before(&[kured()], now());
                seen(m).rivals = None;
            },
            Some(shut),
        ),
    ];
    for (what, change, then) in rows {
        for blocks in [true, false] {
            let mut machine = wanted();
            machine.config.drain.mode = Mode::Never;
            machine.config.gates.rivals = blocks;
            change(&mut machine);
            let said = why(&mut machine, Gate::Rivals);
            let says = |words| said.as_deref().is_some_and(|said| said.contains(words));
            let then = then.filter(|_| blocks);
            assert!(then.map_or(said.is_none(), says), "{what}: {said:?}");
        }
    }
}

#[test]
fn another_reboot_daemon_ends_no_drain_and_is_seen_live_with_the_slot() {
    for (stage, shuts) in [
        (Stage::Claiming, true),
        (Stage::Draining, false),
        (Stage::Rebooting, false),
    ] {
        let mut machine = held(stage.clone());
        machine.memory.pods = Some(vec![kured()]);
        let said = why(&mut machine, Gate::Rivals);
        assert_eq!(said.is_some(), shuts, "{stage:?}: {said:?}");
    }
    // Before the slot their watch tells when the last has gone.
    let mut machine = wanted();
    machine.listed_before(&[kured()], now());
    assert!(machine.pods_matter());
    machine.config.gates.rivals = false;
    machine.listed_before(&[kured()], now());
    assert!(!machine.pods_matter());
}
