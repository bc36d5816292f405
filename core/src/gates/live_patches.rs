//! Live patches of the running kernel, where only a newer kernel asks for the reboot.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{State, shut_until, unknown};
use crate::now::Now;

/// What is known of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LivePatches {
    /// None is applied, or they keep nothing waiting: `gates.live_patch_wait` is 0, something else asks for the reboot as
    /// well, or the node is cordoned for it.
    Ignored,
    /// None is applied, and has not been for long enough.
    Settling {
        /// Boot time at which it has, or at which patches keep nothing waiting any more.
        until: Duration,
    },
    /// They could not be read.
    Unknown {
        /// Boot time up to which they keep the reboot waiting, as if there were some.
        until: Duration,
    },
    Applied {
        /// Their names, for people.
        names: String,
        /// Boot time up to which they keep the reboot waiting.
        until: Duration,
    },
}

pub(super) fn live_patches(patches: &LivePatches, now: Now) -> State {
    match patches {
        LivePatches::Ignored => State::Open,
        LivePatches::Settling { until }
        | LivePatches::Unknown { until }
        | LivePatches::Applied { until, .. }
            if *until <= now.boot =>
        {
            State::Open
        }
        LivePatches::Settling { until } => shut_until(
            format!(
                "only a newer kernel asks for the reboot, and no live patch is applied to the running one, which may be so for a moment \
                 only: it waits until {}",
                shown(*until, now)
            ),
            *until,
        ),
        LivePatches::Unknown { until } => unknown(format!(
            "only a newer kernel asks for the reboot, and it is not known whether live patches are applied: /sys/kernel/livepatch cannot \
             be read; it waits until {} (gates.live_patch_wait)",
            shown(*until, now)
        )),
        LivePatches::Applied { names, until } => shut_until(
            format!(
                "only a newer kernel asks for the reboot, and live patches are applied to the running one ({names}): it waits until {} \
                 (gates.live_patch_wait)",
                shown(*until, now)
            ),
            *until,
        ),
    }
}

/// The wall time of this boot time, up to the next whole minute: nothing waits any more then.
fn shown(until: Duration, now: Now) -> String {
    let left = SignedDuration::try_from(until.saturating_sub(now.boot));
    let at = left.ok().and_then(|left| now.wall.checked_add(left).ok());
    let up = SignedDuration::from_millis(59_999);
    let at = at.and_then(|at| at.checked_add(up).ok());
    let at = at.unwrap_or(Timestamp::MAX);
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}
