//! What is added to the sentence of STATUS, and how a hold is summed up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::booted::Booted;
use crate::effect::Effect;
use crate::gates::{Gate, Standing};
use crate::reason::Reason as Short;
use crate::record::Record;
use crate::slot::{Lease, Take};
use crate::trigger::Reason;

fn boot(id: &str) -> Boot {
    Boot {
        id: id.to_owned(),
        userspace: 0,
    }
}

fn request() -> Request {
    let since = "2026-11-24T02:00:00Z".parse().expect("a time");
    Request {
        since,
        reasons: vec![Reason {
            trigger: "check dnf".to_owned(),
            pkgs: BTreeSet::from(["glibc".to_owned(), "kernel".to_owned()]),
            words: "2 updates".to_owned(),
            since,
            since_boot: Duration::ZERO,
            later: BTreeMap::new(),
            kind: Kind::Reboot,
            mark: None,
        }],
        latched: Vec::new(),
    }
}

fn times() -> Times {
    Times {
        waits: BTreeMap::from([("Queued".to_owned(), 60), ("Settling".to_owned(), 600)]),
        drain: 125,
        evicted: 2,
        boot: Some(45),
        verify: 20,
        ..Times::default()
    }
}

fn hold(stage: Stage, asks: u32) -> Hold {
    let lease = Lease::free("default", "default");
    let take = Take::of(&lease, "kube-rebootd", Timestamp::UNIX_EPOCH, false);
    Hold {
        stage,
        asks,
        ..Hold::begin(take, boot("a"))
    }
}

fn facts(hold: Option<Hold>, now: &str) -> Facts {
    let record = Record {
        hold,
        request: Some(request()),
        ..Record::default()
    };
    Facts {
        times: times(),
        ..Facts::of_a_start(boot(now), record)
    }
}

fn step(phase: Phase, record: Record) -> Step {
    Step {
        phase,
        reason: Short::of(phase),
        record,
        effect: Effect::Wait,
        wake: None,
        status: "status".to_owned(),
        waits: None,
        would: None,
    }
}

/// Whoever finds a host that rebooted outside of its window finds why.
#[test]
fn a_claim_tells_which_gates_were_passed_over() {
    let mut facts = facts(Some(hold(Stage::Taking, 0)), "a");
    let record = facts.record.clone();
    let standing = |gate, state| Standing {
        gate,
        state,
        since: Duration::ZERO,
    };
    let why = "outside of the windows".into();
    facts.gates = vec![
        standing(Gate::Windows, State::Forced { why }),
        standing(Gate::Users, State::Open),
    ];
    let said = sentence(&step(Phase::Claiming, record), &facts, Some(Phase::Queued));
    assert_eq!(
        said,
        "status, after a wait of 11m (Settling 10m, Queued 1m); the request is older than gates.force_after, which passes over: outside of the windows"
    );
}

#[test]
fn after_a_boot_it_is_told_what_came_up() {
    let runs = |kernel: &str| Booted {
        kernel: kernel.to_owned(),
        ..Booted::default()
    };
    let mut asked = hold(Stage::Rebooting, 1);
    asked.before.booted = Some(runs("6.1.0-28"));
    let mut facts = facts(Some(asked), "b");
    let record = facts.record.clone();
    let mut said = |came: Option<Booted>| {
        facts.before.booted = came;
        let step = step(Phase::Verifying, record.clone());
        sentence(&step, &facts, None)
    };
    let begins = "the host has rebooted, 45s after it was asked to";
    assert_eq!(
        said(Some(runs("6.1.0-29"))),
        format!("{begins}: kernel 6.1.0-29 (before: 6.1.0-28) came up; status")
    );
    assert_eq!(
        said(Some(runs("6.1.0-28"))),
        format!("{begins}: the same kernel 6.1.0-28 came up; status")
    );
    assert_eq!(said(None), format!("{begins}; status"));
}

#[test]
fn a_transition_tells_what_ended_and_how_long_that_took() {
    let rebooted = "the host has rebooted, 45s after it was asked to; status";
    let other = "the host has rebooted, and was not asked to by kube-rebootd; status";
    let asks = "a reboot is required: check dnf (2 updates), packages glibc, kernel; status";
    let rows = [
        (None, Phase::Idle, None, "b", "status"),
        (None, Phase::Queued, None, "a", asks),
        (Some(Phase::Idle), Phase::Pending, None, "a", asks),
        (Some(Phase::Pending), Phase::Queued, None, "a", "status"),
        (Some(Phase::Undoing), Phase::Pending, None, "a", "status"),
        (
            Some(Phase::Queued),
            Phase::Idle,
            None,
            "a",
            "status; what asked for it is gone",
        ),
        (
            Some(Phase::Queued),
            Phase::Claiming,
            Some(hold(Stage::Taking, 0)),
            "a",
            "status, after a wait of 11m (Settling 10m, Queued 1m)",
        ),
        (
            Some(Phase::Claiming),
            Phase::Draining,
            Some(hold(Stage::Draining, 0)),
            "a",
            "slot default is taken: status, to drain it",
        ),
        (
            Some(Phase::Draining),
            Phase::Draining,
            Some(hold(Stage::Draining, 0)),
            "a",
            "status",
        ),
        (
            Some(Phase::Draining),
            Phase::Rebooting,
            Some(hold(Stage::Rebooting, 0)),
            "a",
            "status; the drain took 2m 5s (2 pods evicted)",
        ),
        (
            None,
            Phase::Verifying,
            Some(hold(Stage::Rebooting, 1)),
            "b",
            rebooted,
        ),
        (
            None,
            Phase::Verifying,
            Some(hold(Stage::Draining, 0)),
            "b",
            other,
        ),
        (
            Some(Phase::Drained),
            Phase::Verifying,
            Some(hold(Stage::Drained, 0)),
            "a",
            "status",
        ),
        (
            Some(Phase::Verifying),
            Phase::Releasing,
            Some(hold(Stage::Releasing, 1)),
            "b",
            "status; the host and the pods of DaemonSets were proved in 20s",
        ),
        (
            Some(Phase::Draining),
            Phase::Undoing,
            Some(hold(Stage::Undoing(Why::Lost), 0)),
            "a",
            "status; the drain had taken 2m 5s (2 pods evicted)",
        ),
    ];
    for (before, phase, hold, now, wanted) in rows {
        let facts = facts(hold, now);
        let said = sentence(&step(phase, facts.record.clone()), &facts, before);
        assert_eq!(said, wanted, "{before:?} {phase:?}");
    }
}

#[test]
fn the_uncordon_tells_what_was_proved_in_mid_phase() {
    let facts = facts(Some(hold(Stage::Rebooting, 1)), "b");
    let mut record = facts.record.clone();
    record.hold = Some(hold(Stage::Uncordoned, 1));
    let said = sentence(
        &step(Phase::Verifying, record),
        &facts,
        Some(Phase::Verifying),
    );
    assert_eq!(
        said,
        "status; systemd, kubelet and static pods were proved in 20s"
    );
}

#[test]
fn a_hold_is_summed_up_once_it_is_over() {
    let over = |facts: &Facts| {
        let record = Record {
            hold: None,
            ..facts.record.clone()
        };
        Ended::of(&step(Phase::Idle, record), facts)
    };
    let mut rebooted = facts(Some(hold(Stage::Releasing, 1)), "b");
    let past = Past::of(Some(&request()), Timestamp::UNIX_EPOCH);
    let taken = "2026-11-24T02:11:05Z".parse().expect("a time");
    rebooted.record.history = vec![past.took(times(), taken)];
    rebooted.record.request = None;
    rebooted.times = Times::default();
    let ended = over(&rebooted).expect("it is over");
    assert_eq!(ended.outcome.name(), "rebooted");
    assert_eq!(
        ended.words(),
        "rebooted for check dnf (glibc, kernel), first seen 2026-11-24T02:00:00Z: slot after 11m 5s (Settling 10m, \
         Queued 1m), drain 2m 5s (2 pods evicted), boot 45s, verified in 20s"
    );
    let words = "kernel 6.1.0-29 was to come up, and 6.1.0-28 came again";
    rebooted.record.history[0].rolled_back = Some(words.to_owned());
    let ended = over(&rebooted).expect("it is over");
    assert_eq!(ended.outcome.name(), "rolled-back");
    assert_eq!(
        ended.words(),
        "rebooted for check dnf (glibc, kernel), first seen 2026-11-24T02:00:00Z, but the update did not take (kernel \
         6.1.0-29 was to come up, and 6.1.0-28 came again): slot after 11m 5s (Settling 10m, Queued 1m), drain 2m 5s (2 \
         pods evicted), boot 45s, verified in 20s"
    );
    let undone = facts(Some(hold(Stage::Undoing(Why::Lost), 0)), "a");
    let ended = over(&undone).expect("it is over");
    assert_eq!(
        ended.outcome,
        Outcome::Undone("the slot was taken away".to_owned())
    );
    assert_eq!(
        ended.words(),
        "not rebooted for check dnf (glibc, kernel), first seen 2026-11-24T02:00:00Z: the slot was taken away; drain \
         2m 5s (2 pods evicted)"
    );
    let mut kept = facts(Some(hold(Stage::Undoing(Why::Maintained), 0)), "a");
    kept.record.request = None;
    assert_eq!(
        over(&kept).expect("it is over").words(),
        "kept drained: drain 2m 5s (2 pods evicted)"
    );
}

#[test]
fn what_is_no_use_of_a_slot_is_not_summed_up() {
    let lost = Hold {
        boot: Boot::unknown(),
        ..hold(Stage::Undoing(Why::NoHold), 0)
    };
    for (hold, why) in [
        (None, "no hold"),
        (Some(hold(Stage::Taking, 0)), "another node took it"),
        (Some(lost), "its record was lost"),
    ] {
        let facts = facts(hold, "a");
        let over = Record {
            hold: None,
            ..facts.record.clone()
        };
        assert_eq!(
            Ended::of(&step(Phase::Pending, over), &facts),
            None,
            "{why}"
        );
    }
    let going = facts(Some(hold(Stage::Undoing(Why::Lost), 0)), "a");
    let step = step(Phase::Undoing, going.record.clone());
    assert_eq!(Ended::of(&step, &going), None, "it goes on");
}
