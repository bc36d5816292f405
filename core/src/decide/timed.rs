//! How the time of a cycle went: what the time after a step counts for, and which record takes the times with it.

use super::context::Step;
use crate::facts::Facts;
use crate::now::Now;
use crate::phase::Phase;
use crate::record::{Hold, Record, Stage};
use crate::times::{Spent, Times};

/// What the time after this step goes to; none: no cycle is under way, or what is left of it counts for nothing.
pub(crate) fn spent(step: &Step) -> Option<Spent> {
    let asked = step.record.hold.as_ref().is_some_and(Hold::asked);
    match step.phase {
        Phase::Pending | Phase::Queued => Some(Spent::Wait(step.reason.name())),
        Phase::Claiming => Some(Spent::Claim),
        Phase::Draining => Some(Spent::Drain),
        Phase::Rebooting => (!asked).then_some(Spent::LastLook),
        Phase::Verifying => Some(Spent::Verify),
        Phase::Undoing => Some(Spent::Undone),
        Phase::Idle | Phase::Drained | Phase::Releasing => None,
    }
}

/// `after`, the next record, with the times so far if it is written anyway; without them once the cycle is over.
pub(super) fn carried(facts: &Facts, after: Record, now: Now) -> Record {
    let before = &facts.record;
    let written = Record {
        times: before.times.clone(),
        ..after
    };
    if written == *before {
        return written;
    }
    let hold = written.hold.as_ref();
    let stage = hold.map(|hold| &hold.stage);
    let lasts = match stage {
        Some(Stage::Releasing) => false,
        Some(_) => true,
        None => written.request.is_some(),
    };
    let mut times = facts.times.clone();
    if before.hold.is_none() && stage == Some(&Stage::Taking) {
        times.again();
    }
    let asks = |hold: Option<&Hold>| hold.map_or(0, |hold| hold.asks);
    match stage {
        Some(Stage::Rebooting) if asks(hold) > asks(before.hold.as_ref()) => {
            times.asked = Some(now.wall);
        }
        // Whoever reboots the host after that does it for another reason.
        Some(Stage::Undoing(_)) => times.asked = None,
        _ => {}
    }
    let times = Some(times).filter(|times| lasts && *times != Times::default());
    Record { times, ..written }
}
