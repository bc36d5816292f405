//! Live patches of the running kernel, where only a newer kernel asks for the reboot.

use std::time::Duration;

use super::{State, shut_until, unknown};
use crate::now::Now;
use crate::text::span;

/// What is known of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LivePatches {
    /// None is applied, or they keep nothing waiting: `gates.live_patch_wait` is 0, something else asks for the reboot as
    /// well, or the node is cordoned for it.
    Ignored,
    /// They could not be read.
    Unknown,
    Applied {
        /// Their names, for people.
        names: String,
        /// `gates.live_patch_wait`.
        wait: Duration,
        /// Boot time up to which they keep the reboot waiting.
        until: Duration,
    },
}

pub(super) fn live_patches(patches: &LivePatches, now: Now) -> State {
    match patches {
        LivePatches::Ignored => State::Open,
        LivePatches::Unknown => unknown(
            "not known whether live patches are applied to the running kernel: /sys/kernel/livepatch cannot be read",
        ),
        LivePatches::Applied { until, .. } if *until <= now.boot => State::Open,
        LivePatches::Applied { names, wait, until } => shut_until(
            format!(
                "only a newer kernel asks for the reboot, and live patches are applied to the running one ({names}): gates.live_patch_wait ({})",
                span(*wait)
            ),
            *until,
        ),
    }
}
