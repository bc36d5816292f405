//! Tables of wishes that are taken back while a slot is held: gates were passed for them, which nobody asks again (I2).

use super::table::about_to_reboot;
use super::*;
use crate::fleet_lock;
use crate::trigger::{BY_ANNOTATION, BY_NOW, BY_PERSON};

/// The slot is held at this stage in this boot, logind was not asked, and these ask besides the sentinel.
fn held(stage: Stage, latched: Vec<Latched>) -> Facts {
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.stage, hold.asks, hold.asked) = (stage, 0, None);
    ask(&mut facts, latched);
    facts
}

fn ask(facts: &mut Facts, latched: Vec<Latched>) {
    let all = Some(Request {
        latched,
        ..request()
    });
    facts.record.request.clone_from(&all);
    facts.observed.request = all;
}

fn wish(by: &str) -> Latched {
    Latched {
        by: by.to_owned(),
        ..kept(Keeper::Person, false)
    }
}

/// What the next step makes of the hold, written ahead.
fn step_of(facts: &mut Facts) -> Hold {
    let step = decide(facts, &policy(), now());
    facts.record = step.record;
    facts.record.hold.clone().unwrap()
}

/// Found by reading: `kube-rebootd hold --wait` that was over in the drain left a reboot at noon, as windows are asked before
/// the take, and a wish to keep the node drained waits for none.
#[test]
fn i2_what_was_taken_for_a_wish_ends_with_it_whatever_else_asks() {
    for by in [
        Keeper::Person.begins(),
        Keeper::Script.begins(),
        BY_PERSON,
        BY_ANNOTATION,
        fleet_lock::BY,
    ] {
        let mut facts = held(Stage::Claiming, vec![wish(by)]);
        let hold = step_of(&mut facts);
        assert_eq!(hold.askers.len(), 1, "{by}");
        for stage in [Stage::Claiming, Stage::Draining, Stage::Rebooting] {
            facts.record.hold = Some(Hold {
                stage,
                ..hold.clone()
            });
            ask(&mut facts, Vec::new());
            let before = facts.clone();
            let undone = step_of(&mut facts).stage;
            assert_eq!(undone, Stage::Undoing(Why::Withdrawn), "{by}");
            facts = before;
            // It stays: so does the hold.
            ask(&mut facts, vec![wish(by)]);
            let goes_on = step_of(&mut facts).stage;
            assert!(!matches!(goes_on, Stage::Undoing(_)), "{by}: {goes_on:?}");
        }
    }
}

#[test]
fn i2_what_asks_by_itself_goes_on() {
    // Another word of the same person takes nothing back.
    let mut facts = held(Stage::Claiming, vec![wish(BY_PERSON)]);
    let hold = step_of(&mut facts);
    facts.record.hold = Some(Hold {
        stage: Stage::Draining,
        ..hold
    });
    ask(&mut facts, vec![wish(BY_NOW)]);
    assert!(!matches!(step_of(&mut facts).stage, Stage::Undoing(_)));
    // Who came after the cordon has opened no gate.
    let mut facts = held(Stage::Draining, vec![wish(BY_PERSON)]);
    assert_eq!(step_of(&mut facts).askers.len(), 0);
    ask(&mut facts, Vec::new());
    assert!(!matches!(step_of(&mut facts).stage, Stage::Undoing(_)));
    // Once logind may have been asked the host may be on its way down.
    let mut facts = held(Stage::Rebooting, Vec::new());
    let hold = facts.record.hold.as_mut().unwrap();
    hold.askers = BTreeSet::from([BY_PERSON.to_owned()]);
    (hold.asks, hold.asked) = (1, Some(NOW));
    assert!(!matches!(step_of(&mut facts).stage, Stage::Undoing(_)));
}
