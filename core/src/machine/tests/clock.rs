//! When the clock is looked at, and for how long an answer counts (I8).

use super::*;
use crate::gates::Gate;

const WINDOW: &str = "[[windows]]\nstart = \"00:00\"\nend = \"24:00\"\ntime_zone = \"UTC\"\n";

fn later(seconds: u64) -> Now {
    let now = now();
    Now {
        boot: now.boot + Duration::from_secs(seconds),
        ..now
    }
}

fn machine(text: &str) -> Machine {
    let mut machine = wanted();
    let parsed = crate::config::parse(std::path::Path::new("c"), text).unwrap();
    machine.config.gates = parsed.config.gates;
    machine.memory.clock = None;
    machine.judge(&[], now());
    machine
}

fn closed(machine: &mut Machine, now: Now) -> bool {
    machine.judge(&[], now);
    let mut closed = machine.facts.closed.iter();
    closed.any(|one| one.gate == Gate::Clock)
}

#[test]
fn i8_an_answer_counts_for_a_quarter_of_an_hour() {
    let mut machine = machine(WINDOW);
    assert!(closed(&mut machine, now()), "nobody has looked");
    for (said, shut, again) in [
        (None, true, 30),
        (Some(false), true, 30),
        (Some(true), false, 300),
    ] {
        machine.saw_clock(said, now());
        assert_eq!(closed(&mut machine, now()), shut, "{said:?}");
        assert!(!machine.clock_due(later(again - 1)), "{said:?}");
        assert!(machine.clock_due(later(again)), "{said:?}");
    }
    assert!(!closed(&mut machine, later(15 * 60)));
    assert!(
        closed(&mut machine, later(15 * 60 + 1)),
        "too old to be known"
    );
}

#[test]
fn it_is_looked_at_only_where_something_rests_on_it() {
    let ignored = format!("{WINDOW}[gates]\nunsynchronized_clock = \"ignore\"\n");
    for (text, due) in [
        ("", false),
        (WINDOW, true),
        ("[gates]\nexclude_dates = [\"12-24\"]\n", true),
        (
            "[gates]\nforce_after = \"14d\"\nforce = [\"users\"]\n",
            true,
        ),
        (ignored.as_str(), false),
    ] {
        let mut machine = machine(text);
        assert_eq!(machine.clock_due(now()), due, "{text}");
        assert_eq!(closed(&mut machine, now()), due, "{text}");
        machine.facts.observed.request = None;
        assert!(!machine.clock_due(now()), "nothing is wanted");
    }
}
