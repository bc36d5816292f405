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
