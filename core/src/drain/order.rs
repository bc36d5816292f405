//! `[[drain.order]]`: pods that leave in groups, one after another (docs/design.md 7).
//!
//! A group begins when all pods of those before it have gone, or when it has waited for them for long enough: a pod that is stuck
//! holds the others up no longer than that. System-critical pods stay the last of all.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Drain;
use super::entry::{CRITICAL, Entry};
use crate::pod::Pod;
use crate::selector::PodSelector;

/// One `[[drain.order]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub name: String,
    /// Pods that one of these selects; empty: any.
    pub pods: Vec<PodSelector>,
    /// Pods of this priority or a higher one; none: whatever it is.
    pub priority: Option<i32>,
    /// How long the group waits for the one before it, once that has begun.
    pub wait: Duration,
}

impl Group {
    fn holds(&self, pod: &Pod) -> bool {
        let selected = self.pods.is_empty() || self.pods.iter().any(|one| one.matches(pod));
        selected && self.priority.is_none_or(|least| pod.priority >= least)
    }
}

/// Tier 0 are pods of no group, then comes each group, then the system-critical pods.
pub(super) fn tier(pod: &Pod, order: &[Group]) -> usize {
    if pod.priority >= CRITICAL {
        return order.len() + 1;
    }
    let group = order.iter().position(|group| group.holds(pod));
    group.map_or(0, |place| place + 1)
}

/// How far the groups are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Turn {
    /// The first tier that has pods, and the time of the drain at which it came to be the first.
    first: Option<(usize, Duration)>,
    /// The last tier whose pods are asked, but for the system-critical ones that have a rule of their own.
    open: usize,
}

impl Turn {
    pub(super) fn open(&self) -> usize {
        self.open
    }
}

impl Drain {
    /// Whose turn it is; and when the next group's turn comes if nothing changes.
    pub(super) fn turn(&mut self, now: Duration) -> Option<Duration> {
        let reading = self.clock.spent() + self.clock.unvouched(now);
        let tiers: BTreeSet<usize> = self.left.values().map(|entry| entry.tier).collect();
        let Some(first) = tiers.first().copied() else {
            self.turn = Turn::default();
            return None;
        };
        let since = match self.turn.first {
            Some((tier, since)) if tier == first => since,
            _ => reading,
        };
        (self.turn.first, self.turn.open) = (Some((first, since)), first);
        let mut begins = since;
        for tier in tiers.into_iter().skip(1) {
            // Past the last group are the system-critical pods.
            let group = self.policy.order.get(tier - 1)?;
            begins = begins.saturating_add(group.wait);
            if begins > reading {
                return Some(now.saturating_add(begins.saturating_sub(reading)));
            }
            self.turn.open = tier;
        }
        None
    }

    /// Pods whose group has not begun, and the name of the group that is next.
    pub(super) fn later(&self) -> Option<(usize, String)> {
        let (open, order) = (self.turn.open, &self.policy.order);
        let waits = |entry: &&Entry| entry.tier > open && !entry.critical;
        let later = self.left.values().filter(waits);
        let next = later.clone().map(|entry| entry.tier).min()?;
        let name = order.get(next - 1).map(|group| group.name.clone());
        Some((later.count(), name?))
    }
}
