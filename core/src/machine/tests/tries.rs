//! Evictions that are tried before a cordon: when, and what is told of them (I8, I9).

use super::*;
use crate::drain::Mode;

type Change = fn(&mut Machine);

fn web() -> Pod {
    pod("web", "ReplicaSet")
}

fn full() -> EvictAnswer {
    let says = "The disruption budget web needs 2 healthy pods and has 2 currently";
    EvictAnswer::Budget(says.to_owned())
}

/// Its one pod is tried, and this is answered.
fn tried(machine: &mut Machine, answer: &EvictAnswer) -> usize {
    let tries = machine.tries();
    let number = tries.len();
    let answers = tries.into_iter().map(|one| (one, answer.clone()));
    machine.tried(answers.collect());
    number
}

fn told(machine: &mut Machine) -> usize {
    machine.judge(&[], now());
    machine.facts.refusing.len()
}

fn later(hours: u64) -> Now {
    Now {
        boot: NOW + Duration::from_secs(hours * 3600),
        ..now()
    }
}

/// With the own pods as they are listed before the queue.
fn listed(machine: &mut Machine, at: Now) {
    machine.listed_before(&[web()], at);
}

/// Nobody has looked what to try.
fn fresh() -> Machine {
    let mut machine = wanted();
    machine.memory.tries = super::super::tries::Seen::default();
    machine
}

#[test]
fn i9_each_request_tries_its_evictions_once_and_again_after_hours() {
    let mut machine = fresh();
    assert!(machine.blocking_due(now()), "the pods are listed for it");
    listed(&mut machine, now());
    assert!(!machine.blocking_due(now()));
    assert_eq!(tried(&mut machine, &full()), 1);
    assert_eq!(told(&mut machine), 1);
    listed(&mut machine, later(5));
    assert_eq!(machine.tries(), []);
    assert!(machine.blocking_due(later(6)));
    listed(&mut machine, later(6));
    assert_eq!(tried(&mut machine, &EvictAnswer::Accepted), 1);
    assert_eq!(told(&mut machine), 0, "by the newest answer");
    // The next request tries anew.
    machine.facts.observed.request = None;
    assert_eq!(told(&mut machine), 0);
    machine.facts.observed.request = Some(request());
    assert!(machine.blocking_due(now()));
}

#[test]
fn i9_nothing_is_tried_where_nothing_would_be_evicted() {
    let rows: [(&str, Change); 5] = [
        ("never", |m| m.config.drain.mode = Mode::Never),
        ("alone", |m| m.saw_alone(Some(true), now())),
        ("not wanted", |m| m.facts.observed.request = None),
        ("held", |m| {
            m.facts.record.hold = Some(hold(Stage::Claiming));
        }),
        ("not begun", |m| m.facts.started = false),
    ];
    for (what, change) in rows {
        let mut machine = fresh();
        change(&mut machine);
        listed(&mut machine, now());
        assert_eq!(machine.tries(), [], "{what}");
    }
}

/// It is told until the cordon; then the drain itself meets the budget.
#[test]
fn who_would_be_refused_is_told_until_the_drain_begins() {
    for (stage, tells) in [
        (None, 1),
        (Some(Stage::Taking), 1),
        (Some(Stage::Claiming), 1),
        (Some(Stage::Draining), 0),
        (Some(Stage::Rebooting), 0),
    ] {
        let mut machine = fresh();
        listed(&mut machine, now());
        tried(&mut machine, &full());
        let mut record = machine.facts.record.clone();
        record.hold = stage.clone().map(hold);
        machine.wrote(record);
        assert_eq!(told(&mut machine), tells, "{stage:?}");
        assert_eq!(machine.tries(), []);
        if stage.is_some() {
            // The hold is undone: the next one tries anew.
            let record = Record {
                hold: None,
                ..machine.facts.record.clone()
            };
            machine.wrote(record);
            assert!(machine.blocking_due(now()), "{stage:?}");
        }
    }
}

/// In a cluster of one Node nothing is evicted: whether it is one is looked at before anything is told.
#[test]
fn a_node_that_is_alone_tells_of_no_budget() {
    let mut machine = fresh();
    listed(&mut machine, now());
    assert!(!machine.alone_due(now()));
    tried(&mut machine, &full());
    assert!(machine.alone_due(now()));
    machine.saw_alone(Some(true), now());
    assert_eq!(told(&mut machine), 0);
    machine.saw_alone(Some(false), now());
    assert_eq!(told(&mut machine), 1);
    // Another configuration may evict others.
    machine.configure(Config::default());
    assert_eq!(told(&mut machine), 0);
}
