//! In which phase a record tells that its node is: the one table for the decision, `status` and `nodes` (I4, I6).

use super::{Record, Stage};
use crate::boot::Boot;
use crate::kind::Kind;
use crate::phase::Phase;
use crate::trigger::Request;

impl Record {
    /// Somebody wants the node drained.
    pub(crate) fn keeps(&self) -> bool {
        self.request.as_ref().is_some_and(Request::keeps)
    }

    /// Of the reboot that is asked for, or was; none: none is.
    pub fn kind(&self) -> Option<Kind> {
        let hold = self.hold.as_ref().filter(|hold| hold.asked());
        let request = self.request.as_ref().filter(|it| it.reboots());
        hold.map(|hold| hold.kind).or(request.map(Request::kind))
    }

    /// The phase that the record alone tells, in this boot; without one, as if nothing had happened since it was written.
    /// Whether a request is Pending or Queued is a guess: gates are not on record.
    pub fn phase(&self, boot: Option<&Boot>) -> Phase {
        let Some(hold) = &self.hold else {
            return match (&self.request, &self.waiting) {
                (None, _) => Phase::Idle,
                (Some(_), None) => Phase::Pending,
                (Some(_), Some(_)) => Phase::Queued,
            };
        };
        let rebooted = boot.is_some_and(|boot| *boot != hold.boot);
        let settled = |boot: &Boot| self.settled.as_ref().is_some_and(|it| it.boot == *boot);
        match hold.stage {
            // Whether there is a hold at all is not known yet, whatever the boot.
            Stage::Taking => Phase::Claiming,
            // Power that went while the slot was given up makes one more boot to prove.
            Stage::Releasing if boot.is_none_or(settled) => Phase::Releasing,
            Stage::Uncordoned if boot.is_none() => Phase::Verifying,
            // Over reboots, and health is proved after it in the same boot as well.
            Stage::Drained if self.keeps() => Phase::Drained,
            Stage::Drained => Phase::Verifying,
            _ if rebooted => Phase::Verifying,
            Stage::Claiming => Phase::Claiming,
            Stage::Draining => Phase::Draining,
            Stage::Rebooting => Phase::Rebooting,
            // Only a new boot leads to the first two: of the same boot, nothing was rebooted.
            Stage::Uncordoned | Stage::Releasing | Stage::Undoing(_) => Phase::Undoing,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Why;
    use super::super::tests::{boot, held};
    use super::*;
    use crate::trigger::Settled;

    /// One table for the decision, `status` and `nodes`: once there were four, and they differed.
    #[test]
    fn a_phase_follows_from_the_record_and_the_boot() {
        let (same, later) = (boot("a"), boot("b"));
        let undoing = || Stage::Undoing(Why::Withdrawn);
        for (stage, here, after, unknown) in [
            (
                Stage::Taking,
                Phase::Claiming,
                Phase::Claiming,
                Phase::Claiming,
            ),
            (
                Stage::Claiming,
                Phase::Claiming,
                Phase::Verifying,
                Phase::Claiming,
            ),
            (
                Stage::Draining,
                Phase::Draining,
                Phase::Verifying,
                Phase::Draining,
            ),
            (
                Stage::Rebooting,
                Phase::Rebooting,
                Phase::Verifying,
                Phase::Rebooting,
            ),
            (
                Stage::Uncordoned,
                Phase::Undoing,
                Phase::Verifying,
                Phase::Verifying,
            ),
            (
                Stage::Releasing,
                Phase::Undoing,
                Phase::Verifying,
                Phase::Releasing,
            ),
            (undoing(), Phase::Undoing, Phase::Verifying, Phase::Undoing),
        ] {
            let mut record = held(stage, 0);
            let phases =
                |record: &Record| [Some(&same), Some(&later), None].map(|boot| record.phase(boot));
            assert_eq!(phases(&record), [here, after, unknown], "{record:?}");
            // Only what is released rests on a proof.
            record.settled = Some(Settled::of(None, &later, Duration::ZERO));
            let releasing = record
                .hold
                .as_ref()
                .is_some_and(|hold| hold.stage == Stage::Releasing);
            let proved = if releasing { Phase::Releasing } else { after };
            assert_eq!(phases(&record), [here, proved, unknown], "{record:?}");
        }
        assert_eq!(Record::default().phase(Some(&same)), Phase::Idle);
    }
}
