//! The waiting record on the own heartbeat Lease: shown while this node waits, taken away once it does not.

use std::time::Duration;

use super::context::{Context, Step};
use crate::effect::Effect;
use crate::phase::Phase;
use crate::record::Record;
use crate::slot::{Mark, Shown};

/// An API server that refused to show this node's place is asked again after so long.
const REFUSED_AGAIN: Duration = Duration::from_secs(300);
/// A heartbeat Lease that is not there yet is looked for again after so long: a kubelet that has just joined makes
/// it within seconds, and tries as often as this (Kubernetes `pkg/kubelet`, a quarter of
/// `nodeLeaseDurationSeconds`).
const MISSING_AGAIN: Duration = Duration::from_secs(10);

/// This step, unless the own kube-node-lease Lease must first show the place that is on record, and whether
/// this node is ready.
pub(super) fn show(context: &Context, step: Step, ready: bool) -> Step {
    let Some(place) = step.record.waiting.clone() else {
        return step;
    };
    let wanted = Shown { place, ready };
    let again = again_shown(context);
    if context.facts.mark == Mark::Shown(wanted.clone()) {
        return step;
    }
    if let Some(again) = again.filter(|again| context.now.boot < *again) {
        let wake = step.wake.map_or(again, |wake| wake.min(again));
        return Step {
            wake: Some(wake),
            ..step
        };
    }
    Step {
        effect: Effect::Mark(wanted),
        ..step
    }
}

/// Takes the waiting record away if the own heartbeat Lease shows one, else waits.
pub(super) fn without_record(
    context: &Context,
    record: Record,
    phase: Phase,
    status: String,
    wake: Option<Duration>,
) -> Step {
    let again = again_shown(context).filter(|again| context.now.boot < *again);
    let effect = match context.facts.mark {
        Mark::None => Effect::Wait,
        // Refused a short time ago.
        Mark::Shown(_) | Mark::Unknown if again.is_some() => Effect::Wait,
        Mark::Shown(_) => Effect::Unmark,
        Mark::Unknown => Effect::ReadMark,
    };
    let wait = context.stay(phase, status);
    let wake = wake.into_iter().chain(again).min();
    let wake = wake.map_or(wait.wake, |wake| wait.wake.map(|stay| stay.min(wake)));
    Step {
        record,
        effect,
        wake,
        ..wait
    }
}

/// When the own heartbeat Lease is written again after a refusal; none: at once.
fn again_shown(context: &Context) -> Option<Duration> {
    context.facts.hidden.map(|hidden| {
        let pause = if hidden.missing {
            MISSING_AGAIN
        } else {
            REFUSED_AGAIN
        };
        hidden.at + pause
    })
}
