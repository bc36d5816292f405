//! The two clocks of a host: wall time for display and windows, `CLOCK_BOOTTIME` for durations
//! (I5: neither is compared with another machine's).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use kube_rebootd_core::now::Now;

/// Where [`Now`] comes from.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The host's clocks.
    Real,
    /// Starts at the given moment and follows tokio's clock, which a test may pause.
    Virtual {
        /// What [`Clock::now`] says at `since`.
        start: Now,
        /// Tokio's time at `start`.
        since: Instant,
        /// Seconds that somebody set the wall clock forward; negative: back.
        set: Arc<AtomicI64>,
    },
}

impl Clock {
    /// A clock that reads `start` now.
    pub fn starting_at(start: Now) -> Self {
        Self::Virtual {
            start,
            since: Instant::now(),
            set: Arc::default(),
        }
    }

    /// Sets a virtual wall clock forward by so many seconds (back, when negative); all its clones
    /// follow. The boot clock is not touched, as on a host.
    pub fn set_wall(&self, seconds: i64) {
        if let Self::Virtual { set, .. } = self {
            set.fetch_add(seconds, Ordering::Relaxed);
        }
    }

    /// The present moment.
    pub fn now(&self) -> Now {
        match self {
            Self::Real => Now {
                wall: Timestamp::now(),
                boot: uptime(),
            },
            Self::Virtual { start, since, set } => {
                let passed = since.elapsed();
                let set = SignedDuration::from_secs(set.load(Ordering::Relaxed));
                let wall = start.wall.saturating_add(set);
                let wall = wall.and_then(|wall| wall.saturating_add(passed));
                Now {
                    wall: wall.unwrap_or(start.wall),
                    boot: start.boot + passed,
                }
            }
        }
    }
}

/// Time since the kernel started, by `CLOCK_BOOTTIME` (it goes on during suspend).
fn uptime() -> Duration {
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
        clock.clone().set_wall(-7200);
        assert_eq!(clock.now().wall, Timestamp::from_second(-3600).unwrap());
        assert_eq!(clock.now().boot, Duration::from_secs(3605));
    }

    #[test]
    fn real_time_moves_forward() {
        let first = Clock::Real.now();
        assert!(first.boot > Duration::ZERO);
        assert!(Clock::Real.now().boot >= first.boot);
    }
}
