//! What asks for a reboot (I8, I10): the Node's annotation, a scheduled shutdown, and what hinders it.

use super::*;
use crate::config::{Adoption, Mode};
use crate::history::Past;
use crate::names;
use crate::shutdown::Scheduled;
use crate::trigger::BY_ANNOTATION;

/// An hour ahead.
fn scheduled(kind: &str) -> Option<Scheduled> {
    let at = (wall() + Duration::from_secs(3600)).as_microsecond();
    Scheduled::of(kind, u64::try_from(at).unwrap())
}

/// Somebody has scheduled a reboot, which is to be taken over.
fn adopting() -> Machine {
    let mut machine = idle();
    machine.config.triggers.scheduled_shutdown = Adoption::Adopt;
    machine.memory.host.as_mut().unwrap().scheduled = scheduled("reboot");
    machine
}

#[test]
fn the_annotation_of_the_node_asks_while_it_is_there() {
    let asks = |change: fn(&mut Machine)| {
        let mut machine = idle();
        let annotations = &mut node(&mut machine).annotations;
        annotations.insert(names::REBOOT.to_owned(), "please".to_owned());
        change(&mut machine);
        machine.observe(&[], now());
        machine.facts.observed.request.is_some()
    };
    assert!(asks(|_| {}));
    assert!(!asks(
        |machine| machine.config.triggers.node_annotation = false
    ));
    assert!(!asks(|machine| node(machine).annotations.clear()));
    // What was asked for stays while the Node is not known, and ends with the Node.
    let before = |machine: &mut Machine| {
        let mut request = request();
        BY_ANNOTATION.clone_into(&mut request.latched[0].by);
        machine.facts.record.request = Some(request);
    };
    for (node, stays) in [(Seen::Unknown, true), (Seen::Absent, false)] {
        let mut machine = idle();
        before(&mut machine);
        machine.facts.node = node;
        machine.observe(&[], now());
        assert_eq!(machine.facts.observed.request.is_some(), stays);
    }
    let mut machine = idle();
    before(&mut machine);
    machine.config.triggers.node_annotation = false;
    machine.facts.node = Seen::Unknown;
    machine.observe(&[], now());
    assert!(machine.facts.observed.request.is_none(), "not listened to");
}

/// What is changed, in words; whether it is taken over.
type Row = (&'static str, fn(&mut Machine), bool);

#[test]
fn i8_a_scheduled_reboot_is_taken_over_where_nothing_hinders_it() {
    let rows: [Row; 9] = [
        ("nothing hinders it", |_| {}, true),
        ("observing", |m| m.config.mode = Mode::Observe, false),
        ("not begun", |m| m.facts.started = false, false),
        (
            "the slot is being given up",
            |m| m.facts.record.hold = Some(hold(Stage::Releasing)),
            false,
        ),
        (
            "a slot is held",
            |m| m.facts.record.hold = Some(hold(Stage::Draining)),
            true,
        ),
        ("no look at the host", |m| m.memory.host = None, false),
        (
            "it goes down already",
            |m| m.memory.host.as_mut().unwrap().shutting_down = Some(true),
            false,
        ),
        (
            "a cancellation of 4 s ago",
            |m| {
                let boot = ago(4);
                m.cancelled(Now { boot, ..now() });
            },
            false,
        ),
        (
            "a cancellation of 5 s ago",
            |m| {
                let boot = ago(5);
                m.cancelled(Now { boot, ..now() });
            },
            true,
        ),
    ];
    for (what, change, adopts) in rows {
        let mut machine = adopting();
        change(&mut machine);
        machine.observe(&[], now());
        assert_eq!(machine.facts.adopts.is_some(), adopts, "{what}");
        let wanted = &machine.facts.observed.request;
        assert_eq!(wanted.is_some(), adopts, "{what}");
    }
}

/// What goes around slot and drain is said once for each change, but for the reboot that this node asked for itself.
#[test]
fn what_goes_around_the_drain_is_said_once() {
    let hinder = |m: &mut Machine| m.config.mode = Mode::Observe;
    let mut machine = adopting();
    hinder(&mut machine);
    let said = |machine: &mut Machine| {
        machine.observe(&[], now());
        machine.take_warnings()
    };
    let first = said(&mut machine);
    assert_eq!(first.len(), 1);
    assert!(first[0].ends_with(": mode is \"observe\""), "{first:?}");
    assert_eq!(said(&mut machine).len(), 0);
    machine.memory.host.as_mut().unwrap().scheduled = scheduled("poweroff");
    assert_eq!(said(&mut machine).len(), 1);
    machine.memory.host.as_mut().unwrap().scheduled = None;
    assert_eq!(said(&mut machine).len(), 0);
    machine.memory.host.as_mut().unwrap().scheduled = scheduled("poweroff");
    assert_eq!(said(&mut machine).len(), 1, "it has come again");

    for (what, stage, asks, preparing, number) in [
        ("not asked yet", Stage::Rebooting, 0, Some(false), 1),
        ("asked", Stage::Rebooting, 1, Some(false), 0),
        (
            "asked, and undone since",
            Stage::Undoing(crate::record::Why::Lost),
            1,
            Some(false),
            1,
        ),
        ("it goes down", Stage::Rebooting, 0, Some(true), 0),
        ("it may go down", Stage::Rebooting, 0, None, 0),
    ] {
        let mut machine = adopting();
        machine.config.triggers.scheduled_shutdown = Adoption::Warn;
        let hold = Hold {
            asks,
            ..hold(stage)
        };
        machine.facts.record.hold = Some(hold);
        machine.memory.host.as_mut().unwrap().shutting_down = preparing;
        assert_eq!(said(&mut machine).len(), number, "{what}");
    }
}

#[test]
fn i10_the_daily_limit_is_that_of_the_configuration() {
    let mut machine = idle();
    machine.facts.record.history = vec![Past::of(Some(&request()), wall()); 2];
    for past in &mut machine.facts.record.history {
        past.automatic = true;
    }
    for (most, limited) in [(3, false), (2, true), (1, true)] {
        machine.config.reboot.max_per_day = most;
        machine.observe(&[], now());
        assert_eq!(machine.facts.limited.is_some(), limited, "{most}");
    }
}

/// The Node's heartbeat counts from when the boot is to be proved.
#[test]
fn i8_the_kubelets_life_is_followed_after_the_boot_only() {
    let quiet = idle().memory.pulse;
    let early = || {
        let mut machine = booted(Stage::Rebooting);
        machine.facts.started = false;
        machine
    };
    let rows: [(&str, Of, bool); 3] = [
        ("booted", || booted(Stage::Rebooting), true),
        ("before the record is merged", early, false),
        ("before the boot", || held(Stage::Rebooting), false),
    ];
    for (what, of, follows) in rows {
        let mut machine = of();
        machine.observe(&[], now());
        assert_eq!(machine.memory.pulse != quiet, follows, "{what}");
    }
}
