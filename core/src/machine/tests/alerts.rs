//! When each is asked, and how long its answer counts (I2, I8).

use std::path::Path;

use super::commands::label;
use super::*;

use crate::config;
use crate::gates::Gate;

const TWO: &str = "[[gates.prometheus]]\nname = \"a\"\nurl = \"http://a\"\n[[gates.prometheus]]\nname = \"b\"\nurl = \"http://b\"\non_error = \"open\"\n";

fn machine() -> Machine {
    let mut machine = wanted();
    machine.config = config::parse(Path::new("c"), TWO).unwrap().config;
    machine
}

fn at(seconds: u64) -> Now {
    Now {
        boot: NOW + Duration::from_secs(seconds),
        ..now()
    }
}

/// Asks whom it is time to ask.
fn ask(machine: &mut Machine, seconds: u64) -> Vec<String> {
    let due = machine.alerts_due(at(seconds));
    for name in &due {
        machine.asks_alerts(name, at(seconds));
    }
    due
}

fn say(machine: &mut Machine, seconds: u64, said: [Result<Option<&str>, &str>; 2]) {
    for (name, said) in ["a", "b"].into_iter().zip(said) {
        let said = said
            .map(|one| one.map(str::to_owned))
            .map_err(str::to_owned);
        machine.saw_alerts(name, at(seconds).boot, said);
    }
}

fn closed(machine: &mut Machine, seconds: u64) -> bool {
    machine.judge(&[], at(seconds));
    machine
        .facts
        .closed
        .iter()
        .any(|one| one.gate == Gate::Alerts)
}

#[test]
fn i8_nothing_is_open_before_each_has_answered_nor_long_after() {
    let mut machine = machine();
    assert!(closed(&mut machine, 0));
    assert_eq!(ask(&mut machine, 0), ["a", "b"]);
    assert!(ask(&mut machine, 1).is_empty(), "they are asked once");
    assert!(closed(&mut machine, 1));
    say(&mut machine, 0, [Ok(None), Err("away")]);
    assert!(!closed(&mut machine, 2), "one is away that may be");
    assert_eq!(machine.take_warnings().len(), 1);
    // The second look comes sooner, as one failed.
    assert!(ask(&mut machine, 29).is_empty());
    assert_eq!(ask(&mut machine, 30), ["a", "b"]);
    say(&mut machine, 30, [Err("away"), Err("away")]);
    assert!(machine.take_warnings().is_empty(), "it is said once");
    assert!(closed(&mut machine, 31));
    assert_eq!(ask(&mut machine, 60), ["a", "b"]);
    say(&mut machine, 60, [Ok(None), Ok(None)]);
    assert!(!closed(&mut machine, 61));
    assert!(ask(&mut machine, 119).is_empty());
    assert!(!closed(&mut machine, 240));
    assert!(closed(&mut machine, 241), "too old");
    assert_eq!(ask(&mut machine, 120), ["a", "b"]);
    say(&mut machine, 120, [Ok(Some("active alerts: A")), Ok(None)]);
    assert!(closed(&mut machine, 121));
}

#[test]
fn nobody_is_asked_for_what_nobody_wants() {
    let mut machine = machine();
    machine.facts.observed.request = None;
    assert!(ask(&mut machine, 0).is_empty());
    assert_eq!(machine.alerts_poll(NOW), Duration::MAX);
}

/// Before the cordon and before the fence each is asked anew; meanwhile nothing is given up.
#[test]
fn i2_with_a_slot_each_is_asked_anew_at_both_moments() {
    let mut machine = machine();
    machine.memory.pods = Some(Vec::new());
    ask(&mut machine, 0);
    say(&mut machine, 0, [Ok(None), Ok(None)]);
    for (stage, seconds) in [(Stage::Claiming, 10), (Stage::Rebooting, 20)] {
        let since = at(seconds).boot;
        machine.facts.record.hold = Some(hold(stage.clone()));
        if stage == Stage::Claiming {
            label(&mut machine, since);
        } else {
            machine.memory.done = Some(since);
        }
        assert!(closed(&mut machine, seconds), "{stage:?}");
        assert_eq!(machine.facts.answers.awaited, [Gate::Alerts], "{stage:?}");
        assert_eq!(ask(&mut machine, seconds), ["a", "b"], "{stage:?}");
        say(&mut machine, seconds, [Ok(None), Err("away")]);
        assert!(!closed(&mut machine, seconds + 1), "{stage:?}");
        assert_eq!(machine.facts.answers.awaited, [], "both have answered");
        assert_eq!(machine.facts.answers.asked, Some(since), "{stage:?}");
    }
    // A daemon that starts anew, or reads its configuration again, knows nothing.
    machine.memory.alerts = crate::machine::alerts::Seen::default();
    assert!(closed(&mut machine, 30), "nothing is done");
    let answers = &machine.facts.answers;
    assert_eq!(answers.awaited, [Gate::Alerts], "nor given up for that");
    assert_eq!(answers.asked, None);
    ask(&mut machine, 30);
    // What speaks against it, and whoever fails, ends the hold although another is awaited.
    for (one, other) in [
        (Err("away"), None),
        (Ok(Some("A")), None),
        (Err("away"), Some(())),
    ] {
        machine.saw_alerts(
            "a",
            at(30).boot,
            one.map(|one| one.map(str::to_owned)).map_err(str::to_owned),
        );
        if other.is_some() {
            machine.saw_alerts("b", at(30).boot, Ok(None));
        }
        assert!(closed(&mut machine, 31), "{one:?}");
        assert_eq!(machine.facts.answers.awaited, [], "{one:?}");
    }
}

/// Who hangs is awaited, and its question is asked again when it has certainly failed.
#[test]
fn i7_i8_one_that_never_answers_stays_awaited() {
    let mut machine = machine();
    machine.facts.record.hold = Some(hold(Stage::Claiming));
    assert_eq!(ask(&mut machine, 0), ["a", "b"]);
    machine.saw_alerts("b", at(0).boot, Ok(None));
    assert_eq!(ask(&mut machine, 60), ["b"], "the other one is asked");
    assert!(closed(&mut machine, 100));
    assert_eq!(machine.facts.answers.awaited, [Gate::Alerts]);
    assert_eq!(ask(&mut machine, 180), ["a"]);
}

/// Nothing is rebooted then.
#[test]
fn they_are_not_asked_while_somebody_keeps_the_node_drained() {
    let mut machine = machine();
    let request = machine.facts.observed.request.as_mut().unwrap();
    request.latched[0].by = crate::trigger::Keeper::Person.begins().to_owned();
    assert!(ask(&mut machine, 0).is_empty());
    assert!(!closed(&mut machine, 0), "it speaks against no drain");
    assert_eq!(machine.alerts_asked(at(0)), Some(Duration::MAX));
}
