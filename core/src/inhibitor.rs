//! Locks that somebody holds against a shutdown: which block a reboot, and which is the kubelet's (I2, I14).

use crate::text::{self, WORDS};

/// Who the daemon's own lock is by (`reboot.guard`).
pub const OWN: &str = "kube-rebootd";

/// What, who, why, mode, uid and pid, as logind lists them.
pub type Row = (String, String, String, String, u32, u32);

/// One lock that somebody holds against a shutdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inhibitor {
    /// Colon-separated: `shutdown`, `sleep`, `idle`...
    pub what: String,
    /// The program, in its own words.
    pub who: String,
    /// Its reason, in its own words.
    pub why: String,
    /// `block`, `delay` or `block-weak`.
    pub mode: String,
    /// User of the holder.
    pub uid: u32,
    /// Process of the holder.
    pub pid: u32,
}

impl Inhibitor {
    /// Who and why are chosen by whoever takes the lock: any local user may (I14).
    pub fn of((what, who, why, mode, uid, pid): Row) -> Self {
        Self {
            what,
            who: text::clean(&who, WORDS),
            why: text::clean(&why, WORDS),
            mode,
            uid,
            pid,
        }
    }

    /// Whether it blocks a reboot. `delay` only delays, and `block-weak` (from 257) is made for
    /// being ignored by root. The daemon's own is let go before the reboot, and is no reason to wait.
    pub fn blocks_reboot(&self) -> bool {
        self.mode == "block" && self.of_shutdown() && !self.is_own()
    }

    /// The lock of `reboot.guard`, of this daemon or of the one before. Any local user may take a lock of this name, but
    /// not as root (I14).
    pub fn is_own(&self) -> bool {
        self.mode == "block" && self.of_shutdown() && self.uid == 0 && self.who == OWN
    }

    fn of_shutdown(&self) -> bool {
        self.what.split(':').any(|what| what == "shutdown")
    }

    /// The kubelet's delay lock, which it takes only with `GracefulNodeShutdown` (Kubernetes
    /// `pkg/kubelet/nodeshutdown`, `systemd/inhibit_linux.go`: who "kubelet", why "Kubelet needs time to handle node
    /// shutdown"; `real::graceful`). Distributions with a kubelet in a program of another name have the same words. Any
    /// local user may take a lock of these words, but not as root (I14).
    pub fn kubelets_delay(&self) -> bool {
        let shutdown = self.why.to_lowercase().contains("node shutdown");
        let kubelet = self.uid == 0 && (self.who == "kubelet" || shutdown);
        self.mode == "delay" && self.of_shutdown() && kubelet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(what: &str, who: &str, why: &str, mode: &str, uid: u32) -> Inhibitor {
        let [what, who, why, mode] = [what, who, why, mode].map(str::to_owned);
        Inhibitor::of((what, who, why, mode, uid, 7))
    }

    #[test]
    fn i8_only_a_lock_that_blocks_a_shutdown_blocks_the_reboot() {
        for (what, mode, blocks) in [
            ("shutdown", "block", true),
            ("sleep:shutdown:idle", "block", true),
            ("sleep:idle", "block", false),
            ("handle-shutdown-key", "block", false),
            ("shutdown", "delay", false),
            ("shutdown", "block-weak", false),
        ] {
            let lock = lock(what, "who", "why", mode, 0);
            assert_eq!(lock.blocks_reboot(), blocks, "{what} {mode}");
        }
    }

    #[test]
    fn i14_the_daemons_own_lock_is_one_of_root_by_its_name() {
        for (what, who, mode, uid, own) in [
            ("shutdown", OWN, "block", 0, true),
            ("shutdown", OWN, "block", 1000, false),
            ("shutdown", "backup", "block", 0, false),
            ("shutdown", OWN, "delay", 0, false),
            ("sleep", OWN, "block", 0, false),
        ] {
            let lock = lock(what, who, "why", mode, uid);
            assert_eq!(lock.is_own(), own, "{what} {who} {mode} {uid}");
            let blocks = what == "shutdown" && mode == "block" && !own;
            assert_eq!(lock.blocks_reboot(), blocks, "{what} {who} {mode} {uid}");
        }
    }

    #[test]
    fn i14_the_kubelets_delay_is_one_of_root_in_its_words() {
        const WHY: &str = "Kubelet needs time to handle node shutdown";
        for (what, who, why, mode, uid, kubelets) in [
            ("shutdown", "kubelet", WHY, "delay", 0, true),
            ("shutdown", "kubelet", "other words", "delay", 0, true),
            ("shutdown", "k3s", WHY, "delay", 0, true),
            ("shutdown", "k3s", "other words", "delay", 0, false),
            ("shutdown", "kubelet", WHY, "block", 0, false),
            ("sleep", "kubelet", WHY, "delay", 0, false),
            ("shutdown", "kubelet", WHY, "delay", 1000, false),
            ("shutdown", "k3s", WHY, "delay", 1000, false),
        ] {
            let lock = lock(what, who, why, mode, uid);
            let told = lock.kubelets_delay();
            assert_eq!(told, kubelets, "{what} {who} {why} {mode} {uid}");
        }
    }
}
