//! The two clocks of a host: wall time for display and windows, `CLOCK_BOOTTIME` for durations
//! (I5: neither is compared with another machine's).

use std::time::Duration;

use jiff::Timestamp;
use nix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use crate::now::Now;

/// Where [`Now`] comes from.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// The host's clocks.
    Real,
    /// Starts at the given moment and follows tokio's clock, which a test may pause.
    Virtual {
        /// What [`Clock::now`] says at `since`.
        start: Now,
        /// Tokio's time at `start`.
        since: Instant,
    },
}

impl Clock {
    /// A clock that reads `start` now.
    pub fn starting_at(start: Now) -> Self {
        Self::Virtual {
            start,
            since: Instant::now(),
        }
    }

    /// The present moment.
    pub fn now(&self) -> Now {
        match self {
            Self::Real => Now {
                wall: Timestamp::now(),
                boot: uptime(),
            },
            Self::Virtual { start, since } => {
                let passed = since.elapsed();
                Now {
                    wall: start.wall.checked_add(passed).unwrap_or(Timestamp::MAX),
                    boot: start.boot + passed,
                }
            }
        }
    }
}

/// Time since the kernel started, by `CLOCK_BOOTTIME` (it goes on during suspend).
pub fn uptime() -> Duration {
    // Linux has had CLOCK_BOOTTIME since 2.6.39: the call has no way left to fail.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn virtual_time_follows_tokio() {
        let start = Now {
            wall: Timestamp::UNIX_EPOCH,
            boot: Duration::from_secs(5),
        };
        let clock = Clock::starting_at(start);
        tokio::time::advance(Duration::from_secs(3600)).await;
        let now = clock.now();
        assert_eq!(now.wall, Timestamp::from_second(3600).unwrap());
        assert_eq!(now.boot, Duration::from_secs(3605));
    }

    #[test]
    fn real_time_moves_forward() {
        let first = Clock::Real.now();
        assert!(first.boot > Duration::ZERO);
        assert!(Clock::Real.now().boot >= first.boot);
    }
}
