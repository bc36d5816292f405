//! The two clocks, as an argument. Pure code never reads one itself.

use std::time::Duration;

use jiff::Timestamp;

/// A moment, by both clocks of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Wall clock (`CLOCK_REALTIME`): for display, history and `max_per_day`, never for safety (I5).
    pub wall: Timestamp,
    /// Time since boot including suspend (`CLOCK_BOOTTIME`): for every deadline within one boot.
    pub boot: Duration,
}

impl Now {
    /// How long ago `then` was, on the boot clock.
    pub fn since(&self, then: Duration) -> Duration {
        self.boot.saturating_sub(then)
    }
}

/// A moment for tests: long enough after the boot that there is time before it.
#[cfg(test)]
pub(crate) mod fixed {
    use super::{Duration, Now, Timestamp};

    /// By the boot clock.
    pub(crate) const NOW: Duration = Duration::from_secs(10_000);

    /// By the wall clock.
    pub(crate) fn wall() -> Timestamp {
        Timestamp::from_second(1_790_000_000).unwrap()
    }

    /// By both.
    pub(crate) fn now() -> Now {
        Now {
            wall: wall(),
            boot: NOW,
        }
    }
}
