//! Locks that somebody holds against a shutdown: which block a reboot, and which is the kubelet's (I2, I14).

use crate::text::{self, WORDS};

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
    /// being ignored by root.
    pub fn blocks_reboot(&self) -> bool {
        self.mode == "block" && self.of_shutdown()
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
