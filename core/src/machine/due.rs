//! What is to be looked at now, and how soon again though nothing says that it changed (I7, I8).

use std::time::Duration;

use super::Machine;
use crate::drain::Mode;
use crate::health::{self, DaemonSet, Found};
use crate::now::Now;
use crate::phase::Phase;
use crate::record::Stage;

/// Between looks at the host when nothing said that it changed: inhibitors, `PreparingForShutdown`.
pub const HOST_POLL: Duration = Duration::from_secs(15);
/// In Idle every change wakes the loop by itself; this is for what no signal tells.
const IDLE: Duration = Duration::from_secs(300);
/// While the kubelet is awaited, how often its heartbeat Lease is read: that Lease cannot be watched by a node
/// (`cluster_access`), and the kubelet renews it every 10 s (`real::heartbeat`).
const PULSE: Duration = Duration::from_secs(2);
/// Between two looks at a `DaemonSet` that has no pod here: nothing tells when it is deleted, and a pod that comes is
/// seen by the watch.
const ABSENT: Duration = Duration::from_secs(30);
/// How often pods that close the gate before the cordon are listed again where their watch shows nothing.
const BLOCKING: Duration = Duration::from_secs(60);
/// How often it is looked for other Nodes meanwhile: a cluster rarely begins or ceases to have any.
const ALONE: Duration = Duration::from_secs(5 * 60);

impl Machine {
    /// Something is wanted or held: the host's own state matters.
    pub fn busy(&self) -> bool {
        self.facts.record.hold.is_some() || self.facts.observed.request.is_some()
    }

    /// A reboot is to be proved.
    pub fn verifying(&self) -> bool {
        self.phase() == Phase::Verifying
    }

    /// By the record alone.
    pub fn phase(&self) -> Phase {
        self.facts.record.phase(Some(&self.facts.boot))
    }

    /// How long until the next look, at most.
    pub fn poll(&self, now: Duration) -> Duration {
        let packages = self.memory.packages.poll(&self.facts.closed, now);
        let poll = if self.verifying() {
            PULSE
        } else if self.busy() {
            HOST_POLL
        } else {
            IDLE
        };
        poll.min(packages).min(self.alerts_poll(now))
    }

    /// The host is looked at when it said that something changed, and polled only while it matters.
    pub fn host_due(&self, now: Now) -> bool {
        let Some(host) = &self.memory.host else {
            return true;
        };
        let unknown = host.shutting_down.is_none();
        self.memory.host_changed || ((self.busy() || unknown) && now.since(host.read) >= HOST_POLL)
    }

    /// The kubelet's heartbeat is awaited.
    pub fn pulse_due(&self, now: Now) -> bool {
        let read = self.memory.pulse_read;
        self.verifying() && self.facts.started && read.is_none_or(|read| now.since(read) >= PULSE)
    }

    /// Package managers, and alerts: a reboot is wanted, or a hold has not rebooted the host yet, as far as is known. Also after logind
    /// was asked: it may have refused, and is then asked again.
    pub fn packages_matter(&self) -> bool {
        match self.phase() {
            Phase::Idle | Phase::Pending | Phase::Queued => self.facts.observed.request.is_some(),
            Phase::Claiming | Phase::Draining | Phase::Rebooting => true,
            Phase::Drained | Phase::Verifying | Phase::Releasing | Phase::Undoing => false,
        }
    }

    /// The own pods are watched: a slot is held, or pods would stop the drain.
    pub fn pods_matter(&self) -> bool {
        self.facts.record.hold.is_some() || self.blocked_before()
    }

    /// The `DaemonSet`s whose pod is absent, and that are to be looked for, once the node takes pods again.
    pub fn absent_due(&self, now: Now) -> Vec<DaemonSet> {
        let hold = self.facts.record.hold.as_ref().filter(|hold| {
            let takes = matches!(
                hold.stage,
                Stage::Drained | Stage::Uncordoned | Stage::Releasing
            );
            // Of one that was drained for somebody only in the boot of the hold: after another it is uncordoned first.
            let same = hold.stage != Stage::Drained || hold.boot == self.facts.boot;
            takes && same && self.verifying()
        });
        let marks = hold.and_then(|hold| hold.marks.as_ref());
        let (Some(marks), Some(pods)) = (marks, &self.memory.pods) else {
            return Vec::new();
        };
        if !self.config.health.pods || !self.facts.started {
            return Vec::new();
        }
        let due = |set: &&DaemonSet| match self.memory.found.get(*set) {
            Some((_, Found::Gone)) => false,
            Some((read, _)) => now.since(*read) >= ABSENT,
            None => true,
        };
        let late = self.facts.verifying > self.config.health.timeout;
        let asked = health::looked_at(marks, pods, late);
        asked.into_iter().filter(due).cloned().collect()
    }

    /// Something asks for a reboot, no slot is held, and pods would stop the drain, are protected, or reboot hosts themselves.
    pub(super) fn blocked_before(&self) -> bool {
        let others = !self.memory.protected.is_empty() || !self.memory.rivals.is_empty();
        self.stopped_before() || (self.waits() && others)
    }

    /// Of these, pods that would stop the drain.
    fn stopped_before(&self) -> bool {
        let known = self.memory.blocking.as_ref();
        self.waits() && known.is_some_and(|(_, blockers)| !blockers.is_empty())
    }

    /// A reboot is wanted, and no slot is held.
    pub(super) fn waits(&self) -> bool {
        self.facts.record.hold.is_none() && self.facts.observed.request.is_some()
    }

    /// Pods that would stop a drain, or are protected, are looked at before the queue: by one list, as waiting is long; while there are
    /// some, by a watch, which tells at once when the last of them has gone.
    pub fn blocking_due(&self, now: Now) -> bool {
        if self.blocked_before() && self.memory.pods.is_some() {
            return false;
        }
        let again = |read: Duration| self.blocked_before() && now.since(read) >= BLOCKING;
        let due = (self.memory.blocking.as_ref()).is_none_or(|(read, _)| again(*read));
        let due = due || self.tries_due(now);
        let wanted = self.config.drain.mode != Mode::Never
            || !self.config.gates.protection.none()
            || self.rivals_matter();
        self.facts.started && self.waits() && due && wanted
    }

    /// Whether there are other Nodes is to be looked at, while pods close the gate or would be refused: where there are none
    /// nothing is evicted, and those pods stop nothing.
    pub fn alone_due(&self, now: Now) -> bool {
        let due = (self.memory.alone).is_none_or(|(read, _)| now.since(read) >= ALONE);
        let refused = self.waits() && self.memory.tries.refuses();
        self.config.drain.mode == Mode::Auto && due && (self.stopped_before() || refused)
    }
}
