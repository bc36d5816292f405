//! What one process knows beside the record and the facts; a restart begins it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use jiff::Timestamp;

use super::{alerts, autoscaler, capacity, clock, commands, hooks, packages, tell, tries};
use crate::booted::Booted;
use crate::drain::{Blocker, Drain, Escalated, PodRef};
use crate::facts::Facts;
use crate::gates::Stretch;
use crate::health::{DaemonSet, Found, Pulse};
use crate::inhibitor::Inhibitor;
use crate::pod::Pod;
use crate::protected::Protected;
use crate::record::Stage;
use crate::rivals::Sign;
use crate::shutdown::Scheduled;
use crate::times::Spent;
use crate::users::Session;

/// Whether the watch of the own pods tells how they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sight {
    #[default]
    Seen,
    /// The API server is silent as a whole.
    Silent,
    /// Only this watch fails.
    Unseen,
}

/// The host, at one look.
#[derive(Debug, Clone)]
pub struct HostNow {
    /// Boot time of the look.
    pub read: Duration,
    pub shutting_down: Option<bool>,
    pub inhibitors: Option<Vec<Inhibitor>>,
    /// The kubelet ends the pods at a shutdown; false also when logind did not say.
    pub graceful: bool,
    /// None when systemd did not say, or was not asked; so with the next.
    pub system_state: Option<String>,
    /// Units that have failed.
    pub failed: Option<BTreeSet<String>>,
    pub boot_complete: Option<bool>,
    /// Who is logged in; none when logind did not say, or was not asked.
    pub sessions: Option<Vec<Session>>,
    /// Units of other reboot daemons that are active; none when systemd did not say, or was not asked.
    pub rivals: Option<Vec<String>>,
    /// Live patches that are applied to the running kernel; none when they could not be read, or were not to be.
    pub live_patches: Option<Vec<String>>,
    /// None: nothing is scheduled, or it is not known, and then neither is `shutting_down`.
    pub scheduled: Option<Scheduled>,
    /// systemd's version; none when it did not say, or was not asked.
    pub systemd: Option<String>,
}

/// A stage of a hold, and since when this process has worked on it without a rest.
#[derive(Debug, Clone, Copy)]
struct Working {
    hold: Timestamp,
    stage: Discriminant<Stage>,
    since: Duration,
}

/// What one process knows beside the record; a restart begins it anew.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// What was said about the scheduled shutdown last.
    pub(super) warned: Option<String>,
    /// The scheduled shutdown was cancelled, or it was tried, then.
    pub(super) cancelled: Option<Duration>,
    pub(super) host: Option<HostNow>,
    /// Boot time since which each look at the host has found no live patch.
    pub(super) unpatched_since: Option<Duration>,
    /// What came up with this boot.
    pub(super) booted: Option<Booted>,
    /// The deployment that the next boot is to bring.
    pub(super) staged: Option<String>,
    /// The host said that something changed after that look.
    pub(super) host_changed: bool,
    pub(super) clock: clock::Seen,
    pub(super) pods: Option<Vec<Pod>>,
    pub(super) sight: Sight,
    /// When the API server was last heard, if the drain does not know yet.
    pub(super) heard: Option<Duration>,
    /// The same of an answer, with when it was asked for.
    pub(super) answered: Option<(Duration, Duration)>,
    pub(super) drain: Option<Drain>,
    /// This process has begun the hold itself.
    pub(super) begun: bool,
    /// Pods the drain wants evicted and nobody asked for yet.
    pub(super) queue: Vec<PodRef>,
    /// Pods that are to be escalated, chosen and not asked for yet.
    pub(super) escalate: Vec<Escalated>,
    /// Since when nothing is left that must go.
    pub(super) done: Option<Duration>,
    pub(super) packages: packages::Seen,
    pub(super) commands: commands::Seen,
    pub(super) hooks: hooks::Seen,
    pub(super) alerts: alerts::Seen,
    pub(super) capacity: capacity::Seen,
    /// The other API servers.
    pub(super) api_servers: Option<alerts::One>,
    pub(super) candidate: Option<autoscaler::Candidate>,
    /// Pods that would stop the drain, and when they were listed.
    pub(super) blocking: Option<(Duration, Vec<Blocker>)>,
    /// Pods that a reboot waits for, by the same look.
    pub(super) protected: Vec<Protected>,
    /// Pods of other daemons that reboot hosts, by the same look.
    pub(super) rivals: Vec<Sign>,
    /// Evictions that are tried before the cordon.
    pub(super) tries: tries::Seen,
    /// Whether the cluster has no other Node, and when that was looked at.
    pub(super) alone: Option<(Duration, bool)>,
    /// Pods without a controller that stay, as last listed before the cordon.
    pub(super) unmanaged: Vec<PodRef>,
    pub(super) pulse: Pulse,
    pub(super) pulse_read: Option<Duration>,
    pub(super) verifying: Option<Duration>,
    pub(super) giving_back: Option<Duration>,
    /// DaemonSets that had no pod here: when they were looked for, and what was found.
    pub(super) found: BTreeMap<DaemonSet, (Duration, Found)>,
    /// What is not waited for any longer after the boot, and was said.
    pub(super) waived: Vec<String>,
    working: Option<Working>,
    /// What the time since then goes to (boot clock).
    pub(super) spent: Option<(Spent, Duration)>,
    pub(super) told: tell::Told,
    /// logind does not know what a soft-reboot is, in its own words.
    pub(super) no_soft_reboots: Option<String>,
    /// When each session was warned of the reboot, by its id; those that have ended are forgotten.
    pub(super) warned_users: BTreeMap<String, Duration>,
    /// For how long they have been waited for.
    pub(super) waits_for_users: Option<Stretch>,
    /// All were told of the drain of this hold.
    pub(super) drain_told: bool,
}

impl Memory {
    /// How long this process has worked on this stage of the hold without a rest.
    pub(super) fn in_stage(&mut self, facts: &Facts, now: Duration) -> Duration {
        // A start that has no answers yet works on no stage.
        let hold = facts.record.hold.as_ref().filter(|_| facts.started);
        let Some(hold) = hold.filter(|hold| hold.boot == facts.boot) else {
            self.working = None;
            return Duration::ZERO;
        };
        let begins = Working {
            hold: hold.take.acquire_time,
            stage: discriminant(&hold.stage),
            since: now,
        };
        let known = self
            .working
            .filter(|known| known.hold == begins.hold && known.stage == begins.stage);
        let working = self.working.insert(known.unwrap_or(begins));
        now.saturating_sub(working.since)
    }

    /// It waits for something that has a time of its own.
    pub(super) fn rests(&mut self) {
        self.working = None;
    }

    /// Another hold, or none: what was known of the last one is void.
    pub(super) fn forget_hold(&mut self) {
        self.drain = None;
        self.begun = true;
        self.queue.clear();
        self.escalate.clear();
        self.done = None;
        self.blocking = None;
        self.protected.clear();
        self.rivals.clear();
        self.tries.forget_hold();
        self.verifying = None;
        self.giving_back = None;
        self.found.clear();
        self.drain_told = false;
        self.waived.clear();
    }
}
