//! When the Node's conditions are written, and when not (I2, I7).

use super::*;
use crate::condition::{Condition, Status};
use crate::effect::{Effect, Tell};
use crate::names;
use crate::reason::Reason;
use crate::scatter::share;

fn at(seconds: u64) -> Now {
    let boot = NOW + Duration::from_secs(seconds);
    Now { boot, ..now() }
}

/// This phase, as this machine's record has it.
fn step(machine: &Machine, phase: Phase, effect: Effect) -> Step {
    Step {
        phase,
        reason: Reason::of(phase),
        record: machine.facts.record.clone(),
        effect,
        wake: Some(NOW + Duration::from_secs(300_000)),
        status: phase.name().to_owned(),
        waits: None,
        would: None,
    }
}

fn policy(machine: &Machine) -> Policy {
    machine.policy(Some("n1"))
}

/// What is told at this moment; none: nothing yet.
fn tells(machine: &mut Machine, step: &Step, seconds: u64) -> Option<Tell> {
    let policy = policy(machine);
    match machine.tells(step.clone(), &policy, at(seconds)).effect {
        Effect::Tell(tell) => Some(tell),
        effect => {
            assert_eq!(effect, step.effect);
            None
        }
    }
}

/// It is told, and the Node shows it.
fn done(machine: &mut Machine, tell: Tell, seconds: u64) {
    let mut node = node(machine).clone();
    node.conditions.clone_from(&tell.conditions);
    node.annotations.extend(tell.annotations.clone());
    machine.told(node, tell, at(seconds).boot);
}

/// The first of these seconds in which something is told.
fn first(machine: &mut Machine, step: &Step, seconds: std::ops::Range<u64>) -> Option<u64> {
    seconds.into_iter().find(|second| {
        let mut machine = machine.clone();
        tells(&mut machine, step, *second).is_some()
    })
}

/// Told that it is idle, at second 0.
fn told() -> Machine {
    let mut machine = idle();
    let idle = step(&machine, Phase::Idle, Effect::Wait);
    let tell = tells(&mut machine, &idle, 0).expect("news");
    assert_eq!(tell.uid, "u");
    done(&mut machine, tell, 0);
    assert_eq!(tells(&mut machine, &idle, 1), None);
    machine
}

#[test]
fn a_state_is_told_soon_words_later_and_a_sign_of_life_each_hour() {
    let mut machine = told();
    let idle = step(&machine, Phase::Idle, Effect::Wait);
    let verifying = step(&machine, Phase::Verifying, Effect::Wait);
    let words = Step {
        status: "other words".to_owned(),
        ..idle.clone()
    };
    assert_eq!(first(&mut machine, &verifying, 1..20), Some(5));
    // Not all that saw the same change at the same moment write at the same moment.
    let part = |seconds| share(Duration::from_secs(seconds), &["n1", "tell"]).as_secs();
    assert_eq!(tells(&mut machine, &words, 30), None);
    let minute = (30 + part(60) + 1).max(60);
    assert_eq!(first(&mut machine, &words, 31..200), Some(minute));
    let hour = 3600 + part(360);
    let beat = first(&mut machine, &idle, 3000..5000).unwrap();
    assert!((hour..=hour + 1).contains(&beat), "{beat}");
    // One that is restarted again and again gives signs of life as well, but not at once.
    let mut again = super::idle();
    again.facts.node = machine.facts.node.clone();
    assert_eq!(tells(&mut again, &idle, 100), None);
    let beat = first(&mut again, &idle, 100..5000).unwrap();
    assert!(beat > 101 && beat <= 700, "{beat}");
}

#[test]
fn the_loop_wakes_when_something_is_to_be_told() {
    let mut machine = told();
    let policy = policy(&machine);
    let verifying = step(&machine, Phase::Verifying, Effect::Wait);
    let waits = machine.tells(verifying, &policy, at(1));
    assert_eq!(waits.wake, Some(at(5).boot));
}

/// A thousand nodes that one timer wakes do not write in one second.
#[test]
fn who_comes_to_wait_tells_so_within_thirty_seconds() {
    let mut moments = std::collections::BTreeSet::new();
    for number in 0..50 {
        let mut machine = told();
        machine.facts.record.request = Some(request());
        node(&mut machine).name = format!("n{number}");
        let queued = step(&machine, Phase::Queued, Effect::Wait);
        assert_eq!(tells(&mut machine, &queued, 100), None, "n{number}");
        moments.insert(first(&mut machine, &queued, 100..200).unwrap());
    }
    assert!(moments.len() >= 15, "{moments:?}");
    assert!(moments.last() <= Some(&130), "{moments:?}");
}

/// Found by reading: each of two states that came in turn began the time anew, and neither was ever told.
#[test]
fn a_state_that_changes_before_it_is_told_is_told_as_what_it_is_by_then() {
    let mut machine = told();
    machine.facts.record.request = Some(request());
    let [pending, queued] =
        [Phase::Pending, Phase::Queued].map(|phase| step(&machine, phase, Effect::Wait));
    let told = (100..200).find(|second| {
        let step = if second % 4 < 2 { &pending } else { &queued };
        tells(&mut machine, step, *second).is_some()
    });
    assert!(told.is_some_and(|second| second <= 131), "{told:?}");
}

/// A gate that opens and closes all day is not written each time, nor a drain that one budget after another holds up.
#[test]
fn a_state_that_flaps_is_told_once_a_minute_in_the_end() {
    for [one, other] in [
        [Reason::Pending, Reason::Queued],
        [Reason::Draining, Reason::BlockedByBudget],
    ] {
        let mut machine = told();
        machine.facts.record.request = Some(request());
        let phase = match one {
            Reason::Draining => [Phase::Draining, Phase::Draining],
            _ => [Phase::Pending, Phase::Queued],
        };
        let [mut first, mut second] = phase.map(|phase| step(&machine, phase, Effect::Wait));
        (first.reason, second.reason) = (one, other);
        let mut writes = 0;
        for moment in 10..3_610 {
            let step = if moment / 40 % 2 == 0 {
                &first
            } else {
                &second
            };
            if let Some(tell) = tells(&mut machine, step, moment) {
                done(&mut machine, tell, moment);
                writes += 1;
            }
        }
        assert!((20..=66).contains(&writes), "{one}: {writes} in an hour");
    }
}

/// I8: a check that has not answered yet, as after each start, is not told at once; one that never answers is.
#[test]
fn i8_a_trigger_without_an_answer_is_told_after_ten_minutes() {
    let mut machine = told();
    let unknown = Step {
        reason: Reason::TriggerUnknown,
        ..step(&machine, Phase::Idle, Effect::Wait)
    };
    assert_eq!(tells(&mut machine, &unknown, 100), None);
    assert_eq!(first(&mut machine, &unknown, 101..1_000), Some(700));
}

/// I2: no request comes between the last reads and logind; a drain too short to be told is told before them.
#[test]
fn i2_nothing_is_told_between_the_last_reads_and_logind() {
    let mut machine = told();
    machine.facts.record.hold = Some(hold(Stage::Rebooting));
    let confirm = Effect::Confirm {
        lease: "default".to_owned(),
        quorum: false,
    };
    let fence = Effect::Fence(crate::slot::Fence {
        lease: "default".to_owned(),
        resource_version: "1".to_owned(),
        words: String::new(),
    });
    let lease = Effect::ReadLease("default".to_owned());
    for effect in [
        Effect::Wait,
        Effect::ReadHost,
        lease,
        fence,
        Effect::AskReboot,
    ] {
        let step = step(&machine, Phase::Rebooting, effect);
        assert_eq!(tells(&mut machine, &step, 1_000), None);
    }
    let confirm = step(&machine, Phase::Rebooting, confirm);
    let tell = tells(&mut machine, &confirm, 1).expect("before the reads, however soon");
    assert_eq!(tell.conditions[0].reason, "Rebooting");
    done(&mut machine, tell, 1);
    assert_eq!(tells(&mut machine, &confirm, 2), None, "once");
}

/// I6: what must be durable is, before anything is told of it.
#[test]
fn i6_a_record_that_is_not_written_yet_comes_first() {
    let mut machine = told();
    let mut verifying = step(&machine, Phase::Verifying, Effect::Wait);
    verifying.record.request = Some(request());
    assert_eq!(tells(&mut machine, &verifying, 100), None);
}

#[test]
fn i7_a_refusal_rests_ten_minutes_and_silence_one() {
    for (refused, pause) in [(true, 600), (false, 60)] {
        let mut machine = told();
        let verifying = step(&machine, Phase::Verifying, Effect::Wait);
        let tell = tells(&mut machine, &verifying, 10).expect("news");
        for _ in 0..2 {
            machine.not_told(&tell, "no", refused, at(10).boot);
        }
        let warnings = machine.take_warnings();
        assert_eq!(warnings.len(), 1, "once: {warnings:?}");
        assert_eq!(first(&mut machine, &verifying, 10..1_000), Some(10 + pause));
    }
}

/// A webhook, or a custom agent, that takes it away each time is not answered each time.
#[test]
fn what_somebody_takes_away_is_told_again_after_ten_minutes() {
    let mut machine = told();
    let idle = step(&machine, Phase::Idle, Effect::Wait);
    node(&mut machine).conditions.clear();
    assert_eq!(first(&mut machine, &idle, 1..1_000), Some(600));
    // Registered anew it is another Node.
    node(&mut machine).uid = "v".to_owned();
    assert_eq!(first(&mut machine, &idle, 1..1_000), Some(1));
}

/// Found by reading: what came after a write without an answer, and was as before it, waited ten minutes.
#[test]
fn a_write_that_may_have_been_done_is_no_writing_of_others() {
    let mut machine = told();
    let [idle, verifying] =
        [Phase::Idle, Phase::Verifying].map(|phase| step(&machine, phase, Effect::Wait));
    let tell = tells(&mut machine, &verifying, 10).expect("news");
    machine.not_told(&tell, "no answer", false, at(15).boot);
    node(&mut machine).conditions = tell.conditions;
    assert_eq!(first(&mut machine, &idle, 15..1_000), Some(75));
}

/// Found by reading: where the API server refuses what is to be done now, no step is ever a wait, and the Node showed for
/// hours what was so before.
#[test]
fn who_never_comes_to_rest_is_told_of_as_well() {
    let undoing = Stage::Undoing(crate::record::Why::Withdrawn);
    for (phase, stage, effect) in [
        (Phase::Undoing, Some(undoing), Effect::ListWaiters),
        (Phase::Verifying, Some(Stage::Uncordoned), Effect::ReadNode),
        (Phase::Queued, None, Effect::ListPeers),
    ] {
        let mut machine = told();
        machine.facts.record.hold = stage.map(hold);
        let idle = step(&machine, Phase::Idle, Effect::Wait);
        let asks = step(&machine, phase, effect);
        assert_eq!(tells(&mut machine, &idle, 99), None);
        assert_eq!(tells(&mut machine, &asks, 100), None, "most end at once");
        let seconds = (101..200).find(|second| tells(&mut machine, &asks, *second).is_some());
        assert!(
            (Some(110)..=Some(140)).contains(&seconds),
            "{phase} {seconds:?}"
        );
    }
}

#[test]
fn who_only_gives_back_tells_nothing_and_takes_away_what_was_told() {
    let mut machine = told();
    machine.tells_nothing();
    let verifying = step(&machine, Phase::Verifying, Effect::Wait);
    assert_eq!(first(&mut machine, &verifying, 1..100), None);
    let foreign = Condition {
        kind: crate::condition::Kind::MaintenancePlanned,
        status: Status::True,
        reason: "AdminRequested".to_owned(),
        message: String::new(),
        since: None,
    };
    node(&mut machine).conditions.push(foreign);
    let gone = machine.untells().expect("something was told");
    let kinds: Vec<&str> = (gone.conditions.iter())
        .map(|one| one.kind.name())
        .collect();
    assert_eq!(kinds, ["RebootRequired"]);
    let keys: Vec<&str> = gone.annotations.keys().map(String::as_str).collect();
    assert_eq!(keys, names::OF_THE_DAEMON);
    node(&mut machine).conditions.clear();
    assert!(machine.untells().is_some());
    node(&mut machine).annotations.clear();
    assert_eq!(machine.untells(), None);
}

#[test]
fn nothing_is_told_before_the_start_is_over_or_of_a_node_that_is_not_known() {
    let mut starting = idle();
    starting.facts.started = false;
    let mut absent = idle();
    absent.facts.node = Seen::Absent;
    for mut machine in [starting, absent] {
        let idle = step(&machine, Phase::Idle, Effect::Wait);
        assert_eq!(tells(&mut machine, &idle, 0), None);
    }
    let mut machine = idle();
    let idle = step(&machine, Phase::Idle, Effect::Wait);
    let nameless = machine.policy(None);
    assert_eq!(machine.tells(idle, &nameless, now()).effect, Effect::Wait);
}

/// Group and version are written when they are others, within a minute, and then no more.
#[test]
fn a_daemon_says_who_it_is() {
    let mut machine = told();
    let shown = node(&mut machine).annotations.clone();
    assert_eq!(shown[names::GROUP], "default");
    assert_eq!(shown[names::VERSION], env!("CARGO_PKG_VERSION"));
    let idle = step(&machine, Phase::Idle, Effect::Wait);
    assert_eq!(first(&mut machine, &idle, 1..1_000), None);
    // As after an update, in the next process.
    machine.memory.told = super::super::tell::Told::default();
    let old = |machine: &mut Machine| {
        let annotations = &mut node(machine).annotations;
        annotations.insert(names::VERSION.to_owned(), "0.0.1".to_owned());
    };
    old(&mut machine);
    let mut seconds = 1..62;
    let told = seconds.find_map(|second| Some((second, tells(&mut machine, &idle, second)?)));
    let (soon, tell) = told.expect("within a minute");
    assert_eq!(
        tell.annotations.len(),
        1,
        "what the Node has is not written again"
    );
    assert_eq!(tell.event, None);
    done(&mut machine, tell, soon);
    // A tool that writes them as well.
    old(&mut machine);
    assert_eq!(first(&mut machine, &idle, soon..1_000), Some(soon + 600));
}

/// The annotations of a Node may be full: whoever may write on it can fill them.
#[test]
fn i14_annotations_that_are_refused_keep_no_condition_back() {
    let mut machine = idle();
    let idle = step(&machine, Phase::Idle, Effect::Wait);
    let tell = tells(&mut machine, &idle, 0).expect("news");
    assert!(!tell.annotations.is_empty());
    machine.not_told(&tell, "too long", true, at(1).boot);
    let tell = tells(&mut machine, &idle, 1).expect("at once");
    assert!(tell.annotations.is_empty() && !tell.conditions.is_empty());
    done(&mut machine, tell, 2);
    assert_eq!(first(&mut machine, &idle, 3..3_601), None);
    let tell = tells(&mut machine, &idle, 3_601 + 60).expect("an hour later they are tried again");
    assert!(!tell.annotations.is_empty());
}
