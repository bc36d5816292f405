//! When the pods that wait for room are asked for, and which of them count (I5, I8).

use jiff::SignedDuration;

use super::commands::label;
use super::*;

use crate::gates::{Gate, State};
use crate::machine::{Listed, Unplaced};
use crate::reason::Reason;

const WAIT: u64 = 900;

fn machine() -> Machine {
    let mut machine = wanted();
    machine.config.gates.capacity_wait = Duration::from_secs(WAIT);
    machine
}

fn at(seconds: u64) -> Now {
    Now {
        boot: NOW + Duration::from_secs(seconds),
        wall: now().wall + SignedDuration::from_secs(seconds.try_into().unwrap()),
    }
}

/// It is time to ask, and somebody does.
fn ask(machine: &mut Machine, seconds: u64) -> bool {
    let due = machine.capacity_due(at(seconds));
    if due {
        machine.asks_capacity(at(seconds));
    }
    due
}

/// One that waits since so many seconds before the start, by the scheduler's clock.
fn pod(name: &str, since: Option<i64>) -> Unplaced {
    Unplaced {
        uid: name.to_owned(),
        path: format!("shop/{name}"),
        since: since.map(|since| now().wall - SignedDuration::from_secs(since)),
    }
}

fn list(machine: &mut Machine, asked: u64, pods: &[Unplaced], more: bool) {
    let pods = pods.to_vec();
    let listed = Ok(Listed { pods, more });
    machine.saw_capacity(at(asked).boot, listed, at(asked));
}

fn state(machine: &mut Machine, seconds: u64) -> State {
    machine.judge(&[], at(seconds));
    let mut all = machine.facts.gates.iter();
    let found = all.find(|one| one.gate == Gate::Capacity).unwrap();
    plain(&found.state)
}

fn closed(machine: &mut Machine, seconds: u64) -> bool {
    match state(machine, seconds) {
        State::Open => false,
        State::Closed { .. } | State::Unknown { .. } => true,
        other => panic!("{other:?}"),
    }
}

#[test]
fn i8_nothing_is_open_before_the_first_answer_nor_long_after_the_last() {
    let mut machine = machine();
    assert!(closed(&mut machine, 0));
    assert!(ask(&mut machine, 0));
    assert!(!ask(&mut machine, 1), "once");
    assert!(closed(&mut machine, 1));
    list(&mut machine, 0, &[], false);
    assert!(!closed(&mut machine, 2));
    assert!(!ask(&mut machine, 299) && ask(&mut machine, 300));
    // No answer: what was known stands, and it is asked again soon.
    machine.missed_capacity(at(300).boot, "away".to_owned());
    assert!(!closed(&mut machine, 301));
    assert!(!ask(&mut machine, 329) && ask(&mut machine, 330));
    machine.missed_capacity(at(330).boot, "away".to_owned());
    assert!(!closed(&mut machine, 600));
    let why = "asking which pods wait for room on a node: away".into();
    assert_eq!(state(&mut machine, 601), State::Unknown { why });
    // One that never comes.
    assert!(ask(&mut machine, 610) && !ask(&mut machine, 849) && ask(&mut machine, 850));
    list(&mut machine, 610, &[], false);
    assert!(closed(&mut machine, 851), "nobody waits for that one");
    machine.saw_capacity(at(850).boot, Err("denied; cure".to_owned()), at(851));
    let why = "not known whether pods wait for room on a node: denied; cure";
    assert_eq!(state(&mut machine, 852), State::Unknown { why: why.into() });
    // Found by reading: the Node's condition said neither why nor what to do, and that nobody has to look.
    let reason = Reason::of_gates(&machine.facts.closed);
    assert_eq!(machine.facts.closed[0].why.steady(), why);
    assert!(reason == Reason::PodsNotKnown && reason.needs_person());
    assert!(!ask(&mut machine, 969) && ask(&mut machine, 970));
}

#[test]
fn i5_a_pod_counts_by_what_the_scheduler_wrote_or_by_how_long_it_was_seen() {
    let said = |names: &str| State::Closed {
        why: format!(
            "pods have waited for room on a node for longer than gates.capacity_wait (15m): {names}"
        )
        .into(),
        opens: None,
    };
    for (what, since, from) in [
        ("it has waited already", Some(1_000), 2),
        ("it waits since half of that", Some(450), 450),
        ("its time is not known", None, 900),
        ("the scheduler's clock is ahead", Some(-100_000), 900),
    ] {
        let mut machine = machine();
        ask(&mut machine, 0);
        list(&mut machine, 0, &[pod("big", since)], false);
        for seconds in [2, 299, 449, 450, 599, 899, 900, 1_000] {
            if ask(&mut machine, seconds) {
                list(&mut machine, seconds, &[pod("big", since)], false);
            }
            let shut = seconds >= from;
            let then = if shut { said("shop/big") } else { State::Open };
            assert_eq!(state(&mut machine, seconds), then, "{what} {seconds}");
        }
    }
    let mut machine = machine();
    ask(&mut machine, 0);
    let three = [
        pod("a", Some(901)),
        pod("b", Some(5_000)),
        pod("c", Some(1)),
    ];
    list(&mut machine, 0, &three, true);
    assert_eq!(state(&mut machine, 1), said("shop/b and 1 more"));
    let reason = Reason::of_gates(&machine.facts.closed);
    assert_eq!(reason, Reason::PodsUnschedulable);
    assert_eq!(
        machine.facts.closed[0].why.steady(),
        "pods have waited for room on a node for longer than gates.capacity_wait (15m)",
        "no name that changes with each pod"
    );
    assert!(!ask(&mut machine, 119) && ask(&mut machine, 120));
    list(&mut machine, 120, &[], true);
    let more = "not known whether pods wait for room on a node: so many pods have none that not all of them were looked at";
    let why = more.into();
    assert_eq!(state(&mut machine, 121), State::Unknown { why });
}

#[test]
fn i2_with_the_slot_it_is_asked_anew_and_after_the_cordon_never() {
    let mut machine = machine();
    machine.memory.pods = Some(Vec::new());
    ask(&mut machine, 0);
    list(&mut machine, 0, &[], false);
    machine.facts.record.hold = Some(hold(Stage::Claiming));
    label(&mut machine, at(10).boot);
    assert!(closed(&mut machine, 10));
    assert_eq!(machine.facts.answers.awaited, [Gate::Capacity]);
    assert!(ask(&mut machine, 10));
    list(&mut machine, 10, &[], false);
    assert!(!closed(&mut machine, 12));
    assert_eq!(machine.facts.answers.awaited, []);
    assert_eq!(machine.capacity_asked(at(12)), Some(at(10).boot));
    for stage in [Stage::Draining, Stage::Rebooting, Stage::Drained] {
        machine.facts.record.hold = Some(hold(stage.clone()));
        assert!(!ask(&mut machine, 400), "{stage:?}");
        assert_eq!(state(&mut machine, 400), State::Open, "{stage:?}");
        assert_eq!(machine.capacity_asked(at(400)), Some(Duration::MAX));
    }
}

#[test]
fn nobody_is_asked_for_what_nobody_wants() {
    let mut off = wanted();
    assert!(!ask(&mut off, 0) && !closed(&mut off, 0));
    let mut machine = machine();
    machine.facts.observed.request = None;
    assert!(!ask(&mut machine, 0));
    // A drain for somebody makes pods wait as well.
    let mut machine = self::machine();
    let request = machine.facts.observed.request.as_mut().unwrap();
    request.latched[0].by = crate::trigger::Keeper::Person.begins().to_owned();
    assert!(ask(&mut machine, 0) && closed(&mut machine, 0));
}

/// Whoever waits for a closed gate is told sooner that it has opened.
#[test]
fn a_closed_gate_is_looked_at_more_often() {
    for (waited, again) in [(1_000, 120), (1, 300)] {
        let mut machine = machine();
        ask(&mut machine, 0);
        list(&mut machine, 0, &[pod("big", Some(waited))], false);
        assert_eq!(closed(&mut machine, 1), waited == 1_000);
        assert!(!ask(&mut machine, again - 1) && ask(&mut machine, again));
    }
}
