//! Gates that close while the slot is held (I2): what it costs to give up decides how long they are waited for.

use super::table::{about_to_reboot, about_to_take, shut};
use super::*;

fn at(stage: Stage, drain: Drained, gate: Gate) -> Step {
    decide(&facts_at(stage, drain, gate), &policy(), now())
}

fn facts_at(stage: Stage, drain: Drained, gate: Gate) -> Facts {
    let mut facts = about_to_reboot();
    facts.record.hold.as_mut().unwrap().stage = stage;
    facts.drain = drain;
    facts.closed.push(Closed { gate, ..shut() });
    facts
}

fn stage(step: &Step) -> Stage {
    step.record.hold.as_ref().unwrap().stage.clone()
}

fn undoing(step: &Step) -> bool {
    stage(step) == Stage::Undoing(Why::Gate("shut".to_owned()))
}

fn ago(seconds: u64) -> Drained {
    Drained::Done {
        at: NOW.checked_sub(Duration::from_secs(seconds)).unwrap(),
    }
}

fn going() -> Drained {
    Drained::Unmounting {
        words: "1 volume left".to_owned(),
        wake: None,
    }
}

const PASSING: [Gate; 2] = [Gate::Inhibitors, Gate::PackageManager];

#[test]
fn i2_a_drain_goes_on_beside_what_may_end_before_it_does() {
    for gate in PASSING {
        let step = at(Stage::Draining, going(), gate);
        assert_eq!(stage(&step), Stage::Draining, "{gate:?}");
        assert_eq!(step.status, "draining: 1 volume left", "{gate:?}");
        for seconds in [0, 299] {
            let step = at(Stage::Draining, ago(seconds), gate);
            assert_eq!(stage(&step), Stage::Draining, "{gate:?} {seconds}");
            assert_eq!(step.status, "drained: shut");
            assert!(step.wake.unwrap() <= NOW + Duration::from_secs(300));
        }
    }
}

#[test]
fn i2_a_drained_node_gives_up_what_does_not_end() {
    for gate in PASSING {
        for seconds in [300, 5000] {
            let step = at(Stage::Draining, ago(seconds), gate);
            assert!(undoing(&step), "{gate:?} {seconds}: {step:?}");
        }
        // Nothing is evicted yet, or logind was to be asked in this very moment.
        assert!(undoing(&at(Stage::Claiming, going(), gate)), "{gate:?}");
        assert!(undoing(&at(Stage::Rebooting, ago(0), gate)), "{gate:?}");
    }
}

/// Found by reading: a delay longer than the patience left none.
#[test]
fn the_patience_with_a_gate_begins_after_the_delay() {
    let policy = Policy {
        delay: Duration::from_secs(3600),
        ..policy()
    };
    for (seconds, stays) in [(3600, true), (3899, true), (3900, false)] {
        let mut facts = about_to_reboot();
        facts.record.hold.as_mut().unwrap().stage = Stage::Draining;
        facts.drain = ago(seconds);
        facts.closed.push(shut());
        let step = decide(&facts, &policy, now());
        assert_eq!(
            stage(&step) == Stage::Draining,
            stays,
            "{seconds}: {step:?}"
        );
    }
}

#[test]
fn what_opens_at_no_time_ends_a_drain_at_once() {
    for gate in [Gate::NodePaused, Gate::Settle, Gate::MinUptime] {
        assert!(undoing(&at(Stage::Draining, going(), gate)), "{gate:?}");
    }
}

/// Found by reading: apt that began while the heartbeats of other control-plane nodes were waited for undid the drain.
#[test]
fn what_opens_by_itself_is_waited_for_until_logind_is_asked() {
    for gate in [Gate::Inhibitors, Gate::PackageManager] {
        let mut facts = facts_at(Stage::Rebooting, ago(0), gate);
        let hold = facts.record.hold.as_mut().unwrap();
        (hold.asks, hold.asked) = (0, None);
        let step = decide(&facts, &policy(), now());
        assert_eq!(
            (stage(&step), &step.effect),
            (Stage::Rebooting, &Effect::Wait)
        );
        assert!(
            step.waits.is_some() && step.status.contains("shut"),
            "{step:?}"
        );
        // Its time is that of the stage.
        assert!(!rests(&facts, &step));
        facts.in_stage = Duration::from_secs(300);
        let step = decide(&facts, &policy(), now());
        assert!(undoing(&step), "{gate:?}");
    }
}

/// Found by reading: a slot was taken while somebody else's shutdown was under way, and held as long as the host was off.
#[test]
fn no_slot_is_taken_while_the_host_shuts_down() {
    let mut facts = about_to_take();
    assert!(matches!(
        decide(&facts, &policy(), now()).effect,
        Effect::Take(_)
    ));
    facts.shutting_down = true;
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.phase, Phase::Pending);
    assert!(
        matches!(&step.effect, Effect::Mark(shown) if !shown.ready),
        "{:?}",
        step.effect
    );
    assert!(
        step.status.contains("the host is shutting down"),
        "{}",
        step.status
    );
}
