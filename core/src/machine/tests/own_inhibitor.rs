//! When every other shutdown is inhibited.

use super::*;
use crate::config::Mode;
use crate::record::Why;

fn guarded(mut machine: Machine) -> Machine {
    machine.config.reboot.guard = true;
    machine
}

fn asked(of: Stage) -> Machine {
    let mut machine = held(of);
    let hold = machine.facts.record.hold.as_mut().unwrap();
    (hold.asks, hold.asked) = (1, Some(ago(1)));
    machine
}

#[test]
fn i2_every_shutdown_but_the_own_is_inhibited() {
    let rows: [(&str, Of, bool); 9] = [
        ("nothing is wanted", idle, true),
        ("it waits", wanted, true),
        ("it drains", || held(Stage::Draining), true),
        ("before the ask", || held(Stage::Rebooting), true),
        ("asked, or about to be", || asked(Stage::Rebooting), false),
        ("given up", || asked(Stage::Undoing(Why::Withdrawn)), true),
        ("kept drained", || held(Stage::Drained), false),
        ("after the boot", || booted(Stage::Rebooting), true),
        ("given back", || booted(Stage::Releasing), true),
    ];
    for (what, machine, inhibits) in rows {
        assert!(!machine().inhibits(), "{what}, without reboot.guard");
        assert_eq!(guarded(machine()).inhibits(), inhibits, "{what}");
    }
}

/// Who only watches, or only gives back what a daemon held, keeps nobody from anything.
#[test]
fn i11_an_observer_inhibits_nothing() {
    let mut machine = guarded(idle());
    machine.config.mode = Mode::Observe;
    assert!(!machine.inhibits());
    let mut machine = guarded(idle());
    machine.tells_nothing();
    assert!(!machine.inhibits());
}
