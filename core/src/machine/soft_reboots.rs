//! Whether this host does the soft-reboot that is asked for (I8).

use super::Machine;
use crate::gates::SoftReboots;
use crate::kind::{self, Kinds};

/// What `reboot.command` does nobody knows.
const BY_COMMAND: &str = "reboot.command reboots it, and may do anything";

impl Machine {
    /// logind does not know what a soft-reboot is, and says so. Another systemd may be installed than runs.
    pub fn no_soft_reboots(&mut self, why: String) {
        self.memory.no_soft_reboots = Some(why);
    }

    /// What becomes of those who ask, as it is configured and as the host is.
    pub(super) fn kinds(&self) -> Kinds {
        self.config.kinds(self.memory.staged.is_some())
    }

    pub(super) fn soft_reboots(&self) -> SoftReboots {
        if !self.facts.kind().soft() {
            return SoftReboots::NotWanted;
        }
        match self.lacks_soft_reboots() {
            Some(why) => SoftReboots::Lacking(why),
            None if self.systemd().is_some() => SoftReboots::Done,
            None => SoftReboots::Unknown,
        }
    }

    /// Why it does none, as far as is known.
    pub(super) fn lacks_soft_reboots(&self) -> Option<String> {
        if self.kinds().by_command {
            return Some(BY_COMMAND.to_owned());
        }
        let refused = self.memory.no_soft_reboots.as_ref().map(|why| {
            format!("{why}; another version may run: systemctl restart systemd-logind kube-rebootd")
        });
        refused.or_else(|| kind::lacking(self.systemd()?))
    }

    fn systemd(&self) -> Option<&str> {
        self.memory.host.as_ref()?.systemd.as_deref()
    }
}
