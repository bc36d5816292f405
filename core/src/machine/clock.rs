//! Whether the host's clock is synchronized, and when that is to be looked at (I7, I8).

use std::time::Duration;

use super::Machine;
use super::gates::cordoned;
use crate::gates::Clock;
use crate::now::Now;
use crate::trigger::Request;

/// How often one that was synchronized is looked at: without a server it stays within a second of the true time for hours, and each
/// look may start systemd-timedated.
const AGAIN: Duration = Duration::from_secs(5 * 60);
/// How often one that was not, or of which nobody knows.
const SOON: Duration = Duration::from_secs(30);
/// What was seen longer ago is not known any more.
const OLD: Duration = Duration::from_secs(15 * 60);

/// When it was looked at, and what was said.
pub(super) type Seen = Option<(Duration, Option<bool>)>;

impl Machine {
    /// Windows, or the age of the request, are about to decide on a drain.
    fn clock_matters(&self) -> bool {
        let request = self.facts.observed.request.as_ref();
        let hold = self.facts.record.hold.as_ref();
        self.config.gates.rest_on_clock()
            && request.is_some_and(|request| !Request::urgent(request))
            && !hold.is_some_and(|hold| cordoned(&hold.stage))
    }

    /// It is to be looked at.
    pub fn clock_due(&self, now: Now) -> bool {
        self.clock_matters()
            && self.memory.clock.is_none_or(|(read, said)| {
                let rest = if said == Some(true) { AGAIN } else { SOON };
                now.since(read) >= rest
            })
    }

    /// It is synchronized, or not; none: nobody could say.
    pub fn saw_clock(&mut self, synchronized: Option<bool>, now: Now) {
        self.memory.clock = Some((now.boot, synchronized));
    }

    pub(super) fn clock(&self, now: Now) -> Clock {
        if !self.clock_matters() {
            return Clock::Unused;
        }
        let fresh = |(read, _): &(Duration, Option<bool>)| now.since(*read) <= OLD;
        match self.memory.clock.filter(fresh) {
            Some((_, Some(true))) => Clock::Synchronized,
            Some((_, Some(false))) => Clock::Free,
            Some((_, None)) | None => Clock::Unknown,
        }
    }
}
