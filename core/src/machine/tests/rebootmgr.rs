//! What rebootmgr's clients ask: what it changes, when it is refused, and what they are shown.

use super::*;
use crate::config::Mode;
use crate::gates::Gate;
use crate::kind::Kind;
use crate::order::{Order, OrderError};
use crate::rebootmgr::{Ask, BY, BY_NOW, No, Stands};

const PLAIN: Ask = Ask::Reboot {
    kind: Kind::Reboot,
    now: false,
};
const NOW_ONE: Ask = Ask::Reboot {
    kind: Kind::Reboot,
    now: true,
};

fn asked(machine: &mut Machine, ask: Ask) {
    let ordered = machine.rebootmgr_asks(ask, now()).expect("it is done");
    machine.ordered(ordered);
    machine.observe(&[], now());
    machine.judge(&[], now());
}

fn by(machine: &Machine) -> Vec<&str> {
    let request = machine.facts.record.request.as_ref();
    let latched = request.map_or(&[][..], |request| &request.latched);
    latched.iter().map(|wish| wish.by.as_str()).collect()
}

fn stands(machine: &Machine, phase: Phase) -> Stands {
    machine.rebootmgr_shows(phase, "").stands
}

#[test]
fn a_reboot_is_a_wish_of_this_boot_until_it_is_taken_back() {
    let mut machine = idle();
    assert_eq!(stands(&machine, Phase::Idle), Stands::Nothing);
    asked(&mut machine, PLAIN);
    assert_eq!(by(&machine), [BY]);
    let request = machine.facts.record.request.clone().expect("a request");
    assert_eq!(request.latched[0].boot, Some(boot("now")));
    assert_eq!(stands(&machine, Phase::Idle), Stands::Waits);
    assert_eq!(stands(&machine, Phase::Draining), Stands::Due);
    assert_eq!(stands(&machine, Phase::Verifying), Stands::Nothing);
    // As rebootmgr has it, also with `now`.
    for ask in [PLAIN, NOW_ONE] {
        assert_eq!(machine.rebootmgr_asks(ask, now()).err(), Some(No::Asked));
    }
    asked(&mut machine, Ask::Cancel);
    assert_eq!(machine.facts.record.request, None);
    assert_eq!(stands(&machine, Phase::Idle), Stands::Nothing);
    let again = machine.rebootmgr_asks(Ask::Cancel, now());
    assert_eq!(again.err(), Some(No::NotAsked));
}

/// I10: updaters ask by themselves, so it is counted; `now` is a person's.
#[test]
fn i10_only_now_is_a_persons() {
    for (ask, is, persons) in [(PLAIN, BY, false), (NOW_ONE, BY_NOW, true)] {
        let mut machine = idle();
        asked(&mut machine, ask);
        assert_eq!(by(&machine), [is]);
        let request = machine.facts.record.request.clone().expect("a request");
        assert_eq!(request.automatic(), !persons);
        assert_eq!(request.urgent(), persons);
    }
}

/// Whoever rebooted the host has done what was asked for.
#[test]
fn i10_a_reboot_that_was_asked_for_is_not_done_twice() {
    let mut machine = idle();
    asked(&mut machine, PLAIN);
    machine.facts.boot = boot("next");
    machine.observe(&[], now());
    assert_eq!(machine.facts.observed.request, None);
}

/// `rebootmgrctl cancel` ends its own alone, `kube-rebootd cancel` all that was asked on this host.
#[test]
fn each_cancel_knows_whose_it_is() {
    let mut machine = idle();
    let person = Order::reboot("firmware", false, None);
    let ordered = machine.order(&person, now()).expect("done");
    machine.ordered(ordered);
    let nothing = machine.rebootmgr_asks(Ask::Cancel, now());
    assert_eq!(nothing.err(), Some(No::NotAsked));
    asked(&mut machine, PLAIN);
    assert_eq!(by(&machine), [BY_PERSON, BY]);
    let mut other = machine.clone();
    asked(&mut machine, Ask::Cancel);
    assert_eq!(by(&machine), [BY_PERSON]);
    // A person's wish that is made anew leaves it alone.
    let ordered = other.order(&person, now()).expect("done");
    other.ordered(ordered);
    assert_eq!(by(&other), [BY, BY_PERSON]);
    let ordered = other.order(&Order::Cancel, now()).expect("done");
    assert_eq!(ordered.record.request, None);
    assert!(ordered.words[0].contains(BY), "{:?}", ordered.words);
}

#[test]
fn what_would_pass_for_served_is_refused() {
    let mut unread = wanted();
    unread.facts.started = false;
    let mut observing = idle();
    observing.config.mode = Mode::Observe;
    let mut down = idle();
    down.facts.shutting_down = true;
    for (machine, why) in [
        (&unread, OrderError::Starting),
        (&observing, OrderError::Observing),
        (&down, OrderError::GoingDown),
        (&booted(Stage::Rebooting), OrderError::Proving),
    ] {
        let said = machine.rebootmgr_asks(PLAIN, now()).err();
        assert_eq!(said, Some(No::Order(why)));
    }
    // What was asked for is what the host goes down for.
    let mut asking = held(Stage::Rebooting);
    let ordered = asking.rebootmgr_asks(PLAIN, now()).expect("done");
    asking.ordered(ordered);
    asking.facts.record.hold.as_mut().expect("a hold").asks = 1;
    for ask in [PLAIN, Ask::Cancel] {
        let said = asking.rebootmgr_asks(ask, now()).err();
        assert_eq!(said, Some(No::Order(OrderError::GoingDown)), "{ask:?}");
    }
}

#[test]
fn a_pause_is_shown() {
    let mut machine = idle();
    asked(&mut machine, PLAIN);
    assert!(!machine.rebootmgr_shows(Phase::Pending, "").disabled);
    let paused = crate::names::PAUSED.to_owned();
    let node = node(&mut machine);
    node.annotations.insert(paused, "disk".to_owned());
    machine.observe(&[], now());
    machine.judge(&[], now());
    let closed = &machine.facts.closed;
    assert!(closed.iter().any(|one| one.gate == Gate::NodePaused));
    assert!(machine.rebootmgr_shows(Phase::Pending, "").disabled);
    let mut observing = idle();
    observing.config.mode = Mode::Observe;
    assert!(observing.rebootmgr_shows(Phase::Idle, "").disabled);
}
