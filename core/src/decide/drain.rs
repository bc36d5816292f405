//! Draining: from the cordon until the last list shows nothing that must go (I1, I2, I9).

use std::ops::ControlFlow::{Break, Continue};
use std::time::Duration;

use super::context::{Context, RECENT, Step};
use super::held::{Needs, advance, apply, cordoned, in_time, still_ours, undo, unopposed};
use super::hooks;
use crate::effect::Effect;
use crate::facts::{Drained, Facts};
use crate::node::Node;
use crate::phase::Phase;
use crate::reason::Reason;
use crate::record::{Hold, Stage, Why};

pub(super) fn decide(context: &Context, hold: &Hold) -> Step {
    let step = match ready(context, hold) {
        Continue(node) => since(context, drain(context, hold, node)),
        Break(step) => step,
    };
    match step.effect {
        // Pods, the delay and passing gates have times of their own.
        Effect::Wait | Effect::Evict(_) | Effect::Escalate(_) if !listing(context.facts) => step,
        _ => in_time(context, hold, step),
    }
}

/// Nothing is known of the pods yet, or any more, so that only an answer is waited for.
fn listing(facts: &Facts) -> bool {
    matches!(
        facts.drain,
        Drained::Starting | Drained::Going { unseen: true, .. }
    )
}

/// A wait before the cordon, of a drain or of a reboot for what has a time of its own: pods, gates, logind; not for an answer.
pub fn rests(facts: &Facts, step: &Step) -> bool {
    let own = match step.phase {
        // Hooks have time limits of their own.
        Phase::Claiming => step.waits.is_some(),
        Phase::Draining => !listing(facts),
        // A heartbeat that never comes is to end the stage.
        Phase::Rebooting => step.waits.is_none() || step.reason == Reason::AwaitsUpdater,
        _ => false,
    };
    own && step.effect == Effect::Wait
}

/// Slot, Node and cordon are still this hold's, and nothing speaks against it.
fn ready<'a>(context: &Context<'a>, hold: &Hold) -> Needs<&'a Node> {
    let phase = Phase::Draining;
    still_ours(context, hold, phase)?;
    // Not known is asked, not undone: whether it is paused, and whether it is there, is the same read.
    context.node(phase)?;
    unopposed(context, hold, |gate| !gate.passing())?;
    // Last, as it may set the cordon again after a crash: never without the slot (I1).
    cordoned(context, hold, phase)
}

fn drain(context: &Context, hold: &Hold, node: &Node) -> Step {
    let phase = Phase::Draining;
    match &context.facts.drain {
        Drained::Starting => context.stay(phase, "draining: listing pods"),
        Drained::Failed { why } => undo(context, hold, Why::Drain(why.clone())),
        Drained::Resting { words, waits, wake } => {
            let left = wake.map_or_else(String::new, |end| {
                format!("; it ends in {}", context.left(end))
            });
            let mut step = context.stay(phase, format!("draining: {words}{left}"));
            step.waits = Some(waits.clone());
            sooner(step, *wake)
        }
        Drained::Going {
            evict,
            escalate,
            words,
            spent,
            confirm,
            wake,
            unseen: _,
            blocked,
            deleted,
        } => {
            let effect = match (escalate.as_slice(), evict.as_slice()) {
                ([], []) if *confirm => Effect::ReadNode,
                ([], []) => Effect::Wait,
                ([], pods) => Effect::Evict(pods.to_vec()),
                (pods, _) => Effect::Escalate(pods.to_vec()),
            };
            let mut step = context.stay(phase, format!("draining: {words}"));
            checkpoint(&mut step, spent.as_secs());
            Step {
                reason: Reason::of_blockers(blocked, *deleted),
                effect,
                ..sooner(step, *wake)
            }
        }
        Drained::Unmounting { words, wake } => {
            let step = context.stay(phase, format!("draining: {words}"));
            sooner(step, *wake)
        }
        Drained::Done { at: done } => drained(context, hold, node, *done),
    }
}

/// With the moment of the cordon on record, once: a daemon that starts over, and a pod that comes late, begin no wait anew.
fn since(context: &Context, mut step: Step) -> Step {
    if let Some((hold, since)) = step.record.hold.as_mut().zip(context.facts.cordoned) {
        hold.cordoned.get_or_insert(since);
    }
    step
}

/// Looks again at `wake`, if that is sooner.
fn sooner(step: Step, wake: Option<Duration>) -> Step {
    let wake = wake.map_or(step.wake, |wake| step.wake.map(|stay| stay.min(wake)));
    Step { wake, ..step }
}

/// The drain's clock is kept on disk now and then, so that a daemon that restarts over and over does
/// not drain for ever.
const CHECKPOINT_SECS: u64 = 30;

fn checkpoint(step: &mut Step, spent: u64) {
    if let Some(hold) = &mut step.record.hold
        && spent >= hold.drain_spent + CHECKPOINT_SECS
    {
        hold.drain_spent = spent;
    }
}

/// How long a drained node keeps its slot for a gate that closed meanwhile: a transaction of a package manager takes
/// less, and who waits for the slot should not wait for a backup.
const PASSES: Duration = Duration::from_secs(5 * 60);

/// Drained: the configured delay, the gates, one more list, then the intent to reboot.
fn drained(context: &Context, hold: &Hold, node: &Node, done: Duration) -> Step {
    let phase = Phase::Draining;
    // Who works on the host waits for no delay; gates are about reboots.
    let keeps = context.facts.record.keeps();
    let due = if keeps {
        done
    } else {
        done + context.policy.delay
    };
    if context.now.boot < due {
        return context.wait(phase, due, "drained: waiting for reboot.delay");
    }
    if let Some(closed) = context.facts.closed.first() {
        // From when both the delay was over and a gate was closed: what came late has its time too.
        let since = context.facts.closed_since.unwrap_or(due).max(due);
        let until = since + PASSES;
        if context.now.boot >= until {
            return undo(context, hold, Why::Gate(closed.why.to_string()));
        }
        let step = context.stay(phase, format!("drained: {}", closed.why));
        return sooner(step, Some(closed.opens.unwrap_or(until).min(until)));
    }
    if !keeps && !context.facts.asked_since(Some(due)) {
        return context.answers(phase, "drained");
    }
    if !keeps && let Break(step) = hooks::before_the_reboot(context, hold) {
        return step;
    }
    let list = context.facts.last_list.as_ref();
    let Some(list) = list.filter(|list| list.asked >= due && context.recent(list.asked)) else {
        return context.step(
            phase,
            Effect::ListPods,
            "drained: listing the pods once more",
        );
    };
    if !list.clean {
        // The watch shows it soon; if it never does, another list.
        let again = list.asked + RECENT + Duration::from_secs(1);
        return sooner(
            context.stay(phase, "draining: a pod came late"),
            Some(again),
        );
    }
    let ready = Hold {
        marks: Some(merge(hold, list)),
        ..hold.clone()
    };
    let (stage, phase, words) = if keeps {
        (Stage::Drained, Phase::Drained, "drained: to be kept so")
    } else {
        (
            Stage::Rebooting,
            Phase::Rebooting,
            "drained: about to reboot",
        )
    };
    let record = advance(context, &ready, stage);
    apply(context, phase, record, node, words)
}

/// Which DaemonSets were ready is what was seen before the cordon; the containers are those of now.
fn merge(hold: &Hold, list: &crate::facts::LastList) -> crate::health::Marks {
    match &hold.marks {
        Some(before) => before.clone().with_containers_of(&list.marks),
        None => list.marks.clone(),
    }
}
