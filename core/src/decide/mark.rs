//! The waiting record on the own heartbeat Lease, once nothing waits any more.

use std::time::Duration;

use super::{Context, Step, queue};
use crate::facts::Effect;
use crate::phase::Phase;
use crate::record::Record;
use crate::slot::Mark;

/// Takes the waiting record away if the own heartbeat Lease shows one, else waits.
pub(super) fn without_record(
    context: &Context,
    record: Record,
    phase: Phase,
    status: String,
    wake: Option<Duration>,
) -> Step {
    let again = queue::again_shown(context).filter(|again| context.now.boot < *again);
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
