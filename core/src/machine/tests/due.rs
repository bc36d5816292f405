//! What is to be looked at, and when again (I7, I8).

use super::*;
use crate::drain::Mode;

#[test]
fn what_matters_in_which_phase_and_how_often_it_is_looked() {
    let after = Stage::Uncordoned;
    let undoing = Stage::Undoing(crate::record::Why::Withdrawn);
    for (what, machine, busy, verifying, packages, pods, poll) in vec![
        ("idle", idle(), false, false, false, false, 300),
        ("wanted", wanted(), true, false, true, false, 15),
        ("taking", held(Stage::Taking), true, false, true, true, 15),
        (
            "claiming",
            held(Stage::Claiming),
            true,
            false,
            true,
            true,
            15,
        ),
        (
            "draining",
            held(Stage::Draining),
            true,
            false,
            true,
            true,
            15,
        ),
        (
            "rebooting",
            held(Stage::Rebooting),
            true,
            false,
            true,
            true,
            15,
        ),
        ("undoing", held(undoing), true, false, false, true, 15),
        (
            "booted",
            booted(Stage::Rebooting),
            true,
            true,
            false,
            true,
            2,
        ),
        ("uncordoned", booted(after), true, true, false, true, 2),
        ("releasing", releasing(), true, false, false, true, 15),
    ] {
        assert_eq!(machine.busy(), busy, "{what}");
        assert_eq!(machine.verifying(), verifying, "{what}");
        assert_eq!(machine.packages_matter(), packages, "{what}");
        assert_eq!(machine.pods_matter(), pods, "{what}");
        assert_eq!(machine.poll(NOW), Duration::from_secs(poll), "{what}");
    }
    // A hold whose request has gone is busy all the same.
    let mut machine = held(Stage::Draining);
    machine.facts.observed.request = None;
    assert!(machine.busy() && machine.packages_matter());
}

#[test]
fn the_host_is_looked_at_when_it_says_so_and_polled_while_it_matters() {
    let rows: [(&str, Of, u64, bool, bool); 6] = [
        ("idle", idle, 9_999, false, false),
        ("logind did not answer", idle, 14, true, false),
        ("logind did not answer", idle, 15, true, true),
        ("wanted", wanted, 14, false, false),
        ("wanted", wanted, 15, false, true),
        ("held", || held(Stage::Draining), 15, false, true),
    ];
    for (what, machine, seconds, unknown, due) in rows {
        let mut machine = machine();
        machine.memory.host = None;
        assert!(machine.host_due(now()), "{what}: never looked");
        let mut host = host(ago(seconds));
        if unknown {
            host.shutting_down = None;
        }
        machine.saw_host(host.clone());
        assert_eq!(machine.host_due(now()), due, "{what}: {seconds} s");
        machine.host_changed();
        assert!(machine.host_due(now()), "{what}: it said so");
        machine.saw_host(host);
        assert_eq!(machine.host_due(now()), due, "{what}: looked again");
    }
}

#[test]
fn the_heartbeat_is_read_every_two_seconds_while_it_is_awaited() {
    let due = |mut machine: Machine, read: Option<Duration>| {
        if let Some(read) = read {
            machine.pulse_read(Now {
                boot: read,
                ..now()
            });
        }
        machine.pulse_due(now())
    };
    let late = ago(2) + Duration::from_millis(1);
    for (read, yes) in [(None, true), (Some(late), false), (Some(ago(2)), true)] {
        assert_eq!(due(booted(Stage::Rebooting), read), yes, "{read:?}");
        assert!(!due(held(Stage::Rebooting), read), "before the boot");
        let mut early = booted(Stage::Rebooting);
        early.facts.started = false;
        assert!(!due(early, read), "before the record is merged");
    }
}

/// A `DaemonSet` whose pod was here before, and is not.
fn absent(stage: Stage) -> Machine {
    let mut machine = booted(stage);
    let mut pod = pod("cni", "DaemonSet");
    let marks = Marks::take(std::slice::from_ref(&pod));
    assert_eq!(marks.daemon_sets.len(), 1);
    machine.facts.record.hold.as_mut().unwrap().marks = Some(marks);
    "another".clone_into(&mut pod.controller.as_mut().unwrap().uid);
    machine.saw_pods(Some(vec![pod]), None);
    machine
}

#[test]
fn i8_a_daemon_set_without_a_pod_is_looked_for_until_it_is_gone() {
    let due = |machine: &Machine| machine.absent_due(now()).len();
    for (stage, number) in [
        (Stage::Rebooting, 0),
        (Stage::Uncordoned, 1),
        (Stage::Releasing, 1),
    ] {
        assert_eq!(due(&absent(stage.clone())), number, "{stage:?}");
    }
    let changes: [fn(&mut Machine); 6] = [
        |machine| machine.facts.started = false,
        |machine| machine.config.health.pods = false,
        |machine| machine.memory.pods = None,
        |machine| machine.saw_pods(Some(vec![pod("cni", "DaemonSet")]), None),
        |machine| machine.facts.record.hold.as_mut().unwrap().marks = None,
        // Nothing was rebooted.
        |machine| machine.facts.record.hold.as_mut().unwrap().boot = boot("now"),
    ];
    for (row, change) in changes.into_iter().enumerate() {
        let mut machine = absent(Stage::Uncordoned);
        change(&mut machine);
        assert_eq!(due(&machine), 0, "{row}");
    }
    for (found, seconds, number) in [
        (Found::Wanted, 29, 0),
        (Found::Wanted, 30, 1),
        (Found::Unreadable("denied".to_owned()), 30, 1),
        (Found::Gone, 9_999, 0),
    ] {
        let mut machine = absent(Stage::Uncordoned);
        let set = machine.absent_due(now()).remove(0);
        let then = Now {
            boot: ago(seconds),
            ..now()
        };
        machine.saw_daemon_set(set, found.clone(), then);
        assert_eq!(due(&machine), number, "{found:?} {seconds}");
    }
}

/// What blocks was listed so long ago.
fn blocked(seconds: u64) -> Machine {
    let mut machine = wanted();
    machine.memory.blocking = Some((ago(seconds), vec![blocker()]));
    machine
}

#[test]
fn pods_that_would_stop_a_drain_are_listed_once_and_again_while_there_are_some() {
    let mut never = wanted();
    never.memory.blocking = None;
    let change = |change: fn(&mut Machine)| {
        let mut machine = never.clone();
        change(&mut machine);
        machine
    };
    for (what, machine, due) in vec![
        ("never listed", never.clone(), true),
        ("not begun", change(|m| m.facts.started = false), false),
        (
            "not wanted",
            change(|m| m.facts.observed.request = None),
            false,
        ),
        (
            "held",
            change(|m| m.facts.record.hold = Some(hold(Stage::Claiming))),
            false,
        ),
        (
            "nothing is evicted, but protected",
            change(|m| m.config.drain.mode = Mode::Never),
            true,
        ),
        (
            "nothing is evicted or protected, and no other daemon looked for",
            change(|m| {
                m.config.drain.mode = Mode::Never;
                m.config.gates.protection.annotations = false;
                m.config.gates.rivals = false;
            }),
            false,
        ),
        (
            "nothing is evicted or protected",
            change(|m| {
                m.config.drain.mode = Mode::Never;
                m.config.gates.protection.annotations = false;
            }),
            true,
        ),
        (
            "everything is",
            change(|m| m.config.drain.mode = Mode::Always),
            true,
        ),
        (
            "none, long ago",
            change(|m| m.memory.blocking = Some((Duration::ZERO, Vec::new()))),
            false,
        ),
        ("one, 59 s ago", blocked(59), false),
        ("one, a minute ago", blocked(60), true),
    ] {
        assert_eq!(machine.blocking_due(now()), due, "{what}");
    }
    // Their watch tells; a watch from before tells nothing of pods that are not looked for yet.
    let mut watched = blocked(60);
    watched.saw_pods(Some(Vec::new()), None);
    assert!(!watched.blocking_due(now()));
    let mut early = never.clone();
    early.saw_pods(Some(Vec::new()), None);
    assert!(early.blocking_due(now()));
    // Another configuration may see others.
    let mut configured = blocked(0);
    assert!(!configured.blocking_due(now()));
    configured.configure(Config::default());
    assert!(configured.blocking_due(now()));
}

#[test]
fn other_nodes_are_looked_for_while_pods_would_stop_the_drain() {
    let looked = |seconds: Option<u64>, change: fn(&mut Machine)| {
        let mut machine = blocked(0);
        if let Some(seconds) = seconds {
            let then = Now {
                boot: ago(seconds),
                ..now()
            };
            machine.saw_alone(Some(false), then);
        }
        change(&mut machine);
        machine.alone_due(now())
    };
    for (seconds, due) in [(None, true), (Some(299), false), (Some(300), true)] {
        assert_eq!(looked(seconds, |_| {}), due, "{seconds:?}");
    }
    assert!(looked(Some(0), |machine| machine.saw_alone(None, now())));
    assert!(!looked(None, |machine| machine.config.drain.mode = Mode::Always));
    assert!(!looked(None, |machine| machine.listed_before(&[], now())));
    assert!(!looked(None, |machine| machine.facts.observed.request = None));
    // Then the own pods are watched, too.
    assert!(blocked(0).pods_matter());
}
