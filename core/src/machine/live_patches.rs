//! Whether a reboot that only a newer kernel asks for waits, as the running one is patched live (docs/design.md 10).

use std::time::Duration;

use super::Machine;
use super::gates::cordoned;
use crate::gates::LivePatches;
use crate::trigger::Request;

/// So many patches are named.
const NAMED: usize = 3;

impl Machine {
    /// Whether the live patches of the running kernel are to be read; also while nothing is wanted, as of users.
    pub fn live_patches_matter(&self) -> bool {
        !self.config.gates.live_patch_wait.is_zero()
    }

    /// Boot time since which a newer kernel, and nothing else, asks for a reboot that has not begun.
    fn newer_kernel_since(&self) -> Option<Duration> {
        let hold = self.facts.record.hold.as_ref();
        let request = self.facts.observed.request.as_ref();
        let request = request.filter(|_| !hold.is_some_and(|hold| cordoned(&hold.stage)))?;
        let running = self.memory.booted.as_ref().map(|it| it.kernel.as_str());
        Request::newer_kernel_since(request, running)
    }

    pub(super) fn live_patches(&self) -> LivePatches {
        let wait = self.config.gates.live_patch_wait;
        let since = self
            .newer_kernel_since()
            .filter(|_| self.live_patches_matter());
        let (Some(since), Some(host)) = (since, &self.memory.host) else {
            return LivePatches::Ignored;
        };
        // What cannot be read has the same end: the reboot must not wait for ever (I7).
        let until = since.saturating_add(wait);
        match &host.live_patches {
            None => LivePatches::Unknown { until },
            Some(names) if names.is_empty() => LivePatches::Ignored,
            Some(names) => LivePatches::Applied {
                names: some(names),
                until,
            },
        }
    }
}

fn some(names: &[String]) -> String {
    let first = names.get(..NAMED).unwrap_or(names).join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
