//! Gates that close while the slot is held (I2): what it costs to give up decides how long they are waited for.

use super::table::{about_to_reboot, about_to_take, own, shut};
use super::*;

fn at(stage: Stage, drain: Drained, gate: Gate) -> Step {
    let mut facts = about_to_reboot();
    facts.record.hold.as_mut().unwrap().stage = stage;
    facts.drain = drain;
    facts.closed.push(Closed { gate, ..shut() });
    decide(&facts, &policy(), now())
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

fn passing() -> impl Iterator<Item = Gate> {
    Gate::ALL.into_iter().filter(|gate| gate.passing())
}

/// Every gate at every moment: before the take, before the cordon, in the drain, once drained, and before logind.
#[test]
fn i2_each_gate_at_each_moment() {
    for gate in Gate::ALL {
        let shuts = |mut facts: Facts| {
            facts.closed.push(Closed { gate, ..shut() });
            decide(&facts, &policy(), now())
        };
        let step = shuts(about_to_take());
        assert_eq!(step.phase, Phase::Pending, "{gate:?}: {step:?}");
        assert!(
            step.record.waiting.is_some() && !matches!(step.effect, Effect::Take(_)),
            "it keeps its place, and takes nothing: {gate:?}: {step:?}"
        );
        assert!(undoing(&shuts(about_to_cordon())), "{gate:?}");
        let step = at(Stage::Draining, going(), gate);
        if gate.passing() {
            assert_eq!(stage(&step), Stage::Draining, "{gate:?}");
            assert_eq!(step.status, "draining: 1 volume left", "{gate:?}");
        } else {
            assert!(undoing(&step), "{gate:?}: {step:?}");
        }
        for seconds in [0, 299, 300, 5000] {
            let step = at(Stage::Draining, ago(seconds), gate);
            if gate.passing() && seconds < 300 {
                assert_eq!(stage(&step), Stage::Draining, "{gate:?} {seconds}");
                assert_eq!(step.status, "drained: shut", "{gate:?} {seconds}");
                assert!(step.wake.unwrap() <= NOW + Duration::from_secs(300));
            } else {
                assert!(undoing(&step), "{gate:?} {seconds}: {step:?}");
            }
        }
        // Logind was to be asked in this very moment.
        assert!(undoing(&at(Stage::Rebooting, ago(0), gate)), "{gate:?}");
    }
}

/// What costs a drain to give up is what goes by itself. A new gate is put there by hand.
#[test]
fn which_gates_a_drained_node_waits_for() {
    let waited: Vec<Gate> = passing().collect();
    let those = [
        Gate::Inhibitors,
        Gate::PackageManager,
        Gate::ApiServers,
        Gate::Commands,
        Gate::Users,
    ];
    assert_eq!(waited, those);
}

fn answered(seconds: u64) -> Answers {
    Answers {
        asked: NOW.checked_sub(Duration::from_secs(seconds)),
        awaited: Vec::new(),
    }
}

/// The label was there 10 s ago, the drain ended 20 s ago, and logind was asked 30 s ago: again 10 s later.
#[test]
fn i2_whom_gates_ask_must_have_answered_what_was_asked_late_enough() {
    let mut drained = about_to_reboot();
    drained.record.hold.as_mut().unwrap().stage = Stage::Draining;
    drained.drain = ago(20);
    let mut again = about_to_reboot();
    again.fenced = None;
    again.record.hold.as_mut().unwrap().asked = NOW.checked_sub(Duration::from_secs(30));
    for (what, facts, seconds) in [
        ("before the cordon", about_to_cordon(), 10),
        ("drained", drained, 20),
        ("before logind is asked again", again, 20),
    ] {
        for (answers, waits) in [
            (answered(seconds), false),
            (answered(seconds + 1), true),
            (Answers::default(), true),
        ] {
            let mut facts = facts.clone();
            facts.answers = answers;
            let step = decide(&facts, &policy(), now());
            let words = "waiting for the answers of the gate's commands";
            assert_eq!(step.status.contains(words), waits, "{what}: {step:?}");
            assert_eq!(step.effect == Effect::Wait, waits, "{what}: {step:?}");
            let soon = NOW + Duration::from_secs(1);
            assert!(!waits || step.wake == Some(soon), "{what}: {step:?}");
        }
    }
}

#[test]
fn i7_i8_whoever_is_awaited_ends_no_hold_but_by_the_time_of_its_stage() {
    let gates = [
        (Gate::Commands, "gate's commands"),
        (Gate::Alerts, "the answer of Prometheus"),
    ];
    let stages = [
        (about_to_cordon(), Stage::Claiming),
        (about_to_reboot(), Stage::Rebooting),
    ];
    let all = gates
        .iter()
        .flat_map(|gate| stages.iter().map(move |stage| (gate, stage)));
    for ((gate, words), (facts, stage)) in all {
        let (mut facts, stage) = (facts.clone(), stage.clone());
        facts.answers.asked = None;
        facts.closed.push(Closed {
            gate: *gate,
            ..shut()
        });
        // It has answered, and it was no yes.
        assert!(undoing(&decide(&facts, &policy(), now())), "{stage:?}");
        facts.answers.awaited = vec![*gate];
        let step = decide(&facts, &policy(), now());
        assert_eq!(self::stage(&step), stage, "{step:?}");
        assert_eq!(step.effect, Effect::Wait, "{step:?}");
        // Another gate ends it all the same.
        facts.closed.push(shut());
        assert!(undoing(&decide(&facts, &policy(), now())), "{stage:?}");
        facts.closed.pop();
        facts.in_stage = Duration::from_secs(300);
        let step = decide(&facts, &policy(), now());
        let late =
            matches!(self::stage(&step), Stage::Undoing(Why::Reboot(why)) if why.contains(words));
        assert!(late, "{step:?}");
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

/// Its slot is taken and labelled, and nothing speaks against it: the cordon comes next.
pub(super) fn about_to_cordon() -> Facts {
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.stage, hold.asks, hold.asked) = (Stage::Claiming, 0, None);
    let text = facts.record.annotation().unwrap();
    let ago = |seconds| NOW.checked_sub(Duration::from_secs(seconds));
    let node = own(&mut facts);
    node.unschedulable = false;
    node.cordon_owners.clear();
    node.annotations.insert(names::STATE.to_owned(), text);
    node.read = ago(10);
    facts.applied = None;
    facts.peers = about_to_take().peers;
    facts.peers.as_mut().unwrap().asked = ago(1).unwrap();
    facts.marks = Some(Marks::default());
    facts.host_read = Some(NOW);
    facts.mark = Mark::None;
    facts
}

/// Found by reading: a node whose host was being powered off went on to cordon itself, and was off with the slot.
#[test]
fn nothing_is_cordoned_while_the_host_shuts_down() {
    let mut facts = about_to_cordon();
    assert!(matches!(
        decide(&facts, &policy(), now()).effect,
        Effect::Apply { .. }
    ));
    facts.shutting_down = true;
    let step = decide(&facts, &policy(), now());
    assert_eq!(
        (step.phase, &step.effect),
        (Phase::Claiming, &Effect::Wait),
        "{}",
        step.status
    );
    assert_eq!(step.record, facts.record);
}
