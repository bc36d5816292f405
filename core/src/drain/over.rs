//! Whether a drain is over, and how: by its pods, its timeout, or because nothing moves (I8).

use std::time::Duration;

use super::entry::Entry;
use super::policy::{OnTimeout, Policy};
use super::{Drain, earliest};
use crate::pod::Pod;
use crate::text::span;

/// So many times `timeout` a drain takes at most: after the first it waits only for pods that are within their own grace,
/// and a pod may ask for a grace of years.
const PATIENCE: u32 = 2;

/// Why a drain cannot see the end of this pod, which is terminating already; none: it can.
pub(super) fn too_long(pod: &Pod, policy: &Policy) -> Option<String> {
    let grace = Duration::from_secs(pod.grace_seconds);
    let selected = policy.escalate.iter().filter(|one| one.selects(pod));
    let grace = selected.fold(grace, |grace, one| one.ends_within(grace));
    let patience = policy.timeout.saturating_mul(PATIENCE);
    // With "reboot" the drain ends all the same.
    let waits = policy.on_timeout == OnTimeout::Abort;
    (waits && pod.terminating && grace > patience).then(|| {
        format!(
            "is terminating and may take {} to end (its grace period), longer than twice drain.timeout",
            span(grace)
        )
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    Drained,
    Failed,
    /// Expired, but pods are still within their own grace.
    Grace,
}

impl Drain {
    /// When something ends, if nothing changes.
    pub(super) fn deadline(&self, now: Duration) -> Option<Duration> {
        // Zero: only an answer helps, and that wakes by itself.
        let due = Some(self.due(now)).filter(|due| !due.is_zero());
        earliest(due.map(|due| now + due), self.grace_ends(now))
    }

    /// When the grace of a pod ends, or the patience with all of them.
    pub(super) fn grace_ends(&self, now: Duration) -> Option<Duration> {
        let ends = self
            .left
            .values()
            .flat_map(|e| [e.grace_end(now), e.own_end(now)]);
        let grace = ends.flatten().min()?;
        let spent = self.clock.spent() + self.clock.unvouched(now);
        let left = self.patience().saturating_sub(spent);
        // Zero: as above.
        let end = (!left.is_zero()).then_some(now + left);
        earliest(end, Some(grace))
    }

    /// How long this drain may take.
    fn patience(&self) -> Duration {
        self.policy.timeout.saturating_mul(PATIENCE)
    }

    /// How long until `timeout` or `stall`, unless the API server turns out to have been silent.
    pub(super) fn due(&self, now: Duration) -> Duration {
        let unvouched = self.clock.unvouched(now);
        let (spent, still) = (self.clock.spent(), self.clock.still());
        let timeout = self.policy.timeout.saturating_sub(spent + unvouched);
        if !self.stalls() || self.only_patient(now) {
            return timeout;
        }
        timeout.min(self.policy.stall.saturating_sub(still + unvouched))
    }

    /// Somebody is left who should leave: a Job takes the time it takes.
    pub(super) fn stalls(&self) -> bool {
        self.hurried().next().is_some()
    }

    /// Whoever holds the drain up was given time of its own, which is not over; a pod for which such a sibling asks waits with it.
    pub(super) fn only_patient(&self, now: Duration) -> bool {
        let patient = |entry: &Entry| entry.own_end(now).is_some();
        let waits = |entry| patient(entry) || self.speaker(entry).is_some_and(patient);
        self.stalls() && self.hurried().all(waits)
    }

    /// Those who should leave now.
    fn hurried(&self) -> impl Iterator<Item = &Entry> {
        // The system-critical ones are not asked before the ordinary ones have left, nor a group before its turn.
        let ordinary = self.left.values().any(|entry| !entry.critical);
        let tier = self
            .left
            .values()
            .filter(move |entry| entry.critical != ordinary)
            .filter(|entry| entry.critical || entry.tier <= self.turn.open());
        tier.filter(|entry| !entry.may_finish())
    }

    pub(super) fn expired(&self, now: Duration) -> bool {
        let stalled = self.clock.still() >= self.policy.stall && !self.only_patient(now);
        self.clock.spent() >= self.policy.timeout || stalled
    }

    pub(super) fn over(&self, now: Duration) -> Option<Over> {
        if !self.synced || self.blind {
            return None;
        }
        if self.left.is_empty() {
            return Some(Over::Drained);
        }
        if !self.expired(now) {
            return None;
        }
        let patient = self.clock.spent() < self.patience();
        let waits = |entry: &Entry| entry.grace_end(now).or(entry.own_end(now)).is_some();
        let in_grace = |entry: &Entry| patient && waits(entry);
        match self.policy.on_timeout {
            OnTimeout::Abort if self.left.values().all(in_grace) => Some(Over::Grace),
            OnTimeout::Abort => Some(Over::Failed),
            OnTimeout::Reboot if self.left.values().any(in_grace) => Some(Over::Grace),
            OnTimeout::Reboot => Some(Over::Drained),
        }
    }

    /// A pod is left that has time of its own.
    pub(super) fn patient(&self, now: Duration) -> bool {
        self.left.values().any(|entry| entry.own_end(now).is_some())
    }

    pub(super) fn why(&self) -> String {
        let left = self.left.len();
        let pods = if left == 1 { "pod" } else { "pods" };
        if self.clock.spent() >= self.patience() {
            format!(
                "{left} {pods} left after twice drain.timeout of {}",
                span(self.policy.timeout)
            )
        } else if self.clock.spent() >= self.policy.timeout {
            format!(
                "{left} {pods} left after drain.timeout of {}",
                span(self.policy.timeout)
            )
        } else {
            format!(
                "no pod went away for drain.stall of {}, {left} remain",
                span(self.policy.stall)
            )
        }
    }
}
