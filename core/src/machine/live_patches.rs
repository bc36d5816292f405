//! Whether a reboot that only a newer kernel asks for waits, as the running one is patched live (docs/design.md 10).

use std::time::Duration;

use super::Machine;
use super::gates::cordoned;
use super::memory::HostNow;
use crate::gates::LivePatches;
use crate::trigger::Request;

/// So many patches are named.
const NAMED: usize = 3;
/// For so long none must have been applied. Who reloads them takes them off first, and after a boot they come late; each takes
/// until every task has left the code that changes, most often seconds, at times a minute.
const SETTLE: Duration = Duration::from_secs(180);

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

    /// Which are applied, by a look just now.
    pub(super) fn saw_patches(&mut self, host: &HostNow) {
        let last = self.memory.host.as_ref().map(|last| last.read);
        // Looks that lie further apart leave time enough for others to come and go.
        let goes_on = last.is_some_and(|last| host.read.saturating_sub(last) <= SETTLE);
        let since = self.memory.unpatched_since.filter(|_| goes_on);
        let none = host.live_patches.as_ref().is_some_and(Vec::is_empty);
        self.memory.unpatched_since = none.then(|| since.unwrap_or(host.read));
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
            Some(names) if names.is_empty() => {
                let since = self.memory.unpatched_since.unwrap_or(host.read);
                LivePatches::Settling {
                    until: since.saturating_add(SETTLE).min(until),
                }
            }
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
