//! Which hooks are looked at, and what the rounds of those that change something count for (I3, I6, I8).

use super::*;
use crate::hook::{Hook, Last, Said, Stand};
use crate::record::Why;

fn undoing() -> Machine {
    let mut machine = held(Stage::Undoing(Why::Withdrawn));
    machine.facts.record.hold.as_mut().unwrap().hooked = true;
    machine
}

fn released() -> Machine {
    let mut machine = releasing();
    machine.facts.record.hold.as_mut().unwrap().hooked = true;
    machine
}

#[test]
fn each_stage_of_a_hold_has_its_hooks() {
    let rows: [(Of, Option<Hook>); 11] = [
        (idle, None),
        (wanted, None),
        (|| held(Stage::Taking), None),
        (|| held(Stage::Claiming), Some(Hook::PreDrain)),
        (|| held(Stage::Draining), Some(Hook::PreReboot)),
        (|| held(Stage::Rebooting), None),
        (|| booted(Stage::Rebooting), Some(Hook::PostBoot)),
        (|| held(Stage::Undoing(Why::Withdrawn)), None),
        (undoing, Some(Hook::Undo)),
        (releasing, None),
        (released, Some(Hook::Undo)),
    ];
    for (number, (machine, hook)) in rows.into_iter().enumerate() {
        let mut machine = machine();
        assert_eq!(machine.hooks_wanted(), hook, "row {number}");
        machine.facts.started = false;
        assert_eq!(machine.hooks_wanted(), None, "row {number} at a start");
    }
}

fn at(seconds: u64) -> Now {
    let boot = NOW + Duration::from_secs(seconds);
    Now { boot, ..now() }
}

/// How those stand that run before the cordon.
fn stand(machine: &mut Machine) -> Stand {
    machine.judge(&[], now());
    machine.facts.hooks.pre_drain.clone()
}

fn some(running: bool, last: Option<Last>) -> Stand {
    Stand::Some { running, last }
}

#[test]
fn i8_what_is_not_known_of_them_is_told_apart() {
    let mut machine = held(Stage::Claiming);
    assert_eq!(stand(&mut machine), Stand::Unlooked);
    let denied = || "denied".to_owned();
    for (hook, there, stands) in [
        (Hook::PreDrain, Err(denied()), Stand::Unknown(denied())),
        (Hook::PreDrain, Ok(false), Stand::None),
        (Hook::Undo, Ok(false), Stand::Unlooked),
        (Hook::PreDrain, Ok(true), some(false, None)),
    ] {
        machine.forget_hooks();
        machine.saw_hooks(hook, there);
        assert_eq!(stand(&mut machine), stands);
    }
    machine.forget_hooks();
    assert_eq!(stand(&mut machine), Stand::Unlooked);
}

/// A stage, what stands in its directories before the cordon and before the reboot, and where is looked.
type Ahead = (Stage, [Result<bool, String>; 2], &'static [Hook]);

/// What is looked at, in this order; by then a directory has hooks, has none, or cannot be read.
#[test]
fn i8_before_the_first_hook_runs_it_is_looked_at_what_takes_it_back() {
    use Hook::{PreDrain, PreReboot, Undo};
    let (some, none) = (Ok(true), Ok(false));
    let bad = || Err("denied".to_owned());
    let rows: [Ahead; 7] = [
        (
            Stage::Claiming,
            [none.clone(), none.clone()],
            &[PreDrain, PreReboot],
        ),
        (
            Stage::Claiming,
            [some.clone(), none.clone()],
            &[PreDrain, PreReboot, Undo],
        ),
        (
            Stage::Claiming,
            [none.clone(), some.clone()],
            &[PreDrain, PreReboot, Undo],
        ),
        (
            Stage::Claiming,
            [bad(), none.clone()],
            &[PreDrain, PreReboot, Undo],
        ),
        (Stage::Draining, [some.clone(), none.clone()], &[PreReboot]),
        (
            Stage::Draining,
            [none.clone(), some.clone()],
            &[PreReboot, Undo],
        ),
        (Stage::Draining, [none.clone(), bad()], &[PreReboot, Undo]),
    ];
    for (stage, there, all) in rows {
        for hooked in [false, true] {
            let mut machine = held(stage.clone());
            machine.facts.record.hold.as_mut().unwrap().hooked = hooked;
            let mut looked = Vec::new();
            let mut next = machine.hooks_wanted();
            while let Some(hook) = next {
                looked.push(hook);
                let [drain, reboot] = &there;
                let there = match hook {
                    PreDrain => drain.clone(),
                    PreReboot => reboot.clone(),
                    _ => Ok(true),
                };
                machine.saw_hooks(hook, there);
                next = machine.hooks_ahead();
            }
            let all = if hooked { &all[..1] } else { all };
            assert_eq!(looked, all, "{stage:?} {there:?}");
            machine.judge(&[], now());
            let known = machine.facts.hooks.undo != Stand::Unlooked;
            assert_eq!(known, looked.contains(&Undo));
        }
    }
}

#[test]
fn rounds_in_a_row_are_counted_and_another_hold_begins_anew() {
    let mut machine = held(Stage::Claiming);
    machine.saw_hooks(Hook::PreDrain, Ok(true));
    let shut = || Said::NotNow("hook a says not now: x".to_owned());
    let last = |said, begun, ended, failures| {
        Some(Last {
            said,
            first: at(1).boot,
            begun: at(begun).boot,
            ended: at(ended).boot,
            failures,
        })
    };
    machine.hooks_begin(Hook::PreDrain, at(1));
    assert_eq!(stand(&mut machine), some(true, None));
    machine.hooks_ended(shut(), at(3));
    assert_eq!(stand(&mut machine), some(false, last(shut(), 1, 3, 1)));
    // What it said is there while the next one runs.
    machine.hooks_begin(Hook::PreDrain, at(33));
    assert_eq!(stand(&mut machine), some(true, last(shut(), 1, 3, 1)));
    machine.hooks_ended(shut(), at(34));
    assert_eq!(stand(&mut machine), some(false, last(shut(), 33, 34, 2)));
    machine.hooks_begin(Hook::PreDrain, at(64));
    machine.hooks_ended(Said::Well, at(65));
    assert_eq!(
        stand(&mut machine),
        some(false, last(Said::Well, 64, 65, 2))
    );
    // It runs on when the hold is another, and is nothing to that.
    machine.hooks_begin(Hook::PreDrain, at(70));
    let hold = machine.facts.record.hold.as_mut().unwrap();
    hold.take.acquire_time = Timestamp::UNIX_EPOCH;
    assert_eq!(stand(&mut machine), some(true, None));
    machine.hooks_ended(Said::Well, at(71));
    assert_eq!(stand(&mut machine), some(false, None));
}

/// A pod that came late was drained after it.
#[test]
fn i2_a_round_from_before_the_end_of_the_drain_is_none() {
    let mut machine = held(Stage::Draining);
    machine.saw_hooks(Hook::PreReboot, Ok(true));
    let counts = |machine: &Machine| match machine.hooks_stand().pre_reboot {
        Stand::Some { last, .. } => last.is_some(),
        other => panic!("{other:?}"),
    };
    machine.hooks_begin(Hook::PreReboot, at(5));
    machine.hooks_ended(Said::Well, at(9));
    for (done, yes) in [
        (None, false),
        (Some(4), true),
        (Some(5), true),
        (Some(6), false),
    ] {
        machine.memory.done = done.map(|seconds| at(seconds).boot);
        assert_eq!(counts(&machine), yes, "{done:?}");
    }
}

#[test]
fn what_is_not_taken_back_is_said_once_for_each_hook_that_fails() {
    let mut machine = undoing();
    let failed = |hook: &str, words: &str| Said::Failed(format!("hook {hook} failed: {words}"));
    for (said, warns) in [
        (failed("undo.d/a", "x"), true),
        (failed("undo.d/a", "y"), false),
        (failed("undo.d/b", "x"), true),
        (Said::Well, false),
    ] {
        machine.hooks_begin(Hook::Undo, now());
        machine.hooks_ended(said.clone(), now());
        let words = machine.take_warnings().join("");
        assert_eq!(
            words.contains("the slot is kept until the hooks of undo.d end well"),
            warns,
            "{said:?}"
        );
    }
    // Others are seen by what becomes of the hold.
    let mut machine = held(Stage::Claiming);
    machine.hooks_begin(Hook::PreDrain, now());
    machine.hooks_ended(failed("pre-drain.d/a", "x"), now());
    assert_eq!(machine.take_warnings(), [""; 0]);
}

/// Found by review: somebody who had mended a hook waited for half an hour with the slot held, and was told that nothing waits.
#[test]
fn a_person_who_mended_a_hook_has_it_run_again_at_once() {
    for machine in [undoing, released] {
        let mut machine = machine();
        let stand = |machine: &mut Machine| {
            machine.judge(&[], at(1));
            machine.facts.hooks.undo.clone()
        };
        machine.saw_hooks(Hook::Undo, Ok(true));
        machine.hooks_begin(Hook::Undo, now());
        machine.hooks_ended(Said::Failed("no quorum".to_owned()), now());
        assert!(matches!(
            stand(&mut machine),
            Stand::Some { last: Some(_), .. }
        ));
        let ordered = machine.order(&crate::order::Order::Retry, at(1)).unwrap();
        let words = ["the hooks of undo.d are run again now, after this: no quorum"];
        assert_eq!(ordered.words, words);
        machine.ordered(ordered);
        assert_eq!(stand(&mut machine), some(false, None));
    }
}

/// Found by review: with the file of a hook that hangs the slot went, and the hook ended beside the next holder.
#[test]
fn i6_a_hook_that_runs_is_waited_for_though_its_file_is_gone() {
    let mut machine = undoing();
    machine.hooks_begin(Hook::Undo, now());
    machine.saw_hooks(Hook::Undo, Ok(false));
    machine.judge(&[], now());
    assert_eq!(machine.facts.hooks.undo, some(true, None));
    machine.hooks_ended(Said::Failed("killed".to_owned()), now());
    machine.judge(&[], now());
    assert_eq!(machine.facts.hooks.undo, Stand::None);
}
