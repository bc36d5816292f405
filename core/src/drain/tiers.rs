//! Whom to ask next: ordinary pods first, group by group, siblings behind one speaker, so many at once (I9).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::entry::{Ask, Entry, PodRef};
use super::pace::Pace;
use super::{Drain, ROUNDS, Sent, earliest};

/// A tier left with only budget-blocked pods for this long opens the next: a storage engine's pod may
/// be released only when its consumers are gone.
pub(super) const TIER_WAIT: Duration = Duration::from_secs(30);

impl Drain {
    /// Whether system-critical pods may be evicted yet.
    pub(super) fn critical_open(&mut self, now: Duration) -> bool {
        let mut ordinary = self.left.values().filter(|entry| !entry.critical);
        let Some(first) = ordinary.next() else {
            self.stuck_since = None;
            return true;
        };
        if !std::iter::once(first)
            .chain(ordinary)
            .all(|entry| entry.budget_blocked() || self.waits_for_sibling(entry))
        {
            self.stuck_since = None;
            return false;
        }
        let since = *self.stuck_since.get_or_insert(now);
        now.saturating_sub(since) >= TIER_WAIT
    }

    /// A sibling asks the budget for it.
    fn waits_for_sibling(&self, entry: &Entry) -> bool {
        self.speaker(entry).is_some_and(Entry::budget_blocked)
    }

    /// The sibling that asks for a pod, if another does.
    pub(super) fn speaker(&self, entry: &Entry) -> Option<&Entry> {
        let controller = entry.controller.as_ref().filter(|_| entry.may_be_asked())?;
        let speaker = self.speakers.get(controller)?;
        self.left.get(speaker).filter(|_| *speaker != entry.pod.uid)
    }

    /// Marks as many as may be asked now; the wake-up is that of the next retry.
    pub(super) fn choose(
        &mut self,
        critical: bool,
        now: Duration,
    ) -> (Vec<PodRef>, Option<Duration>) {
        let mut room = (self.policy.parallelism.max(1)).saturating_sub(self.sent.len());
        let mut on_their_way: BTreeMap<String, u32> = BTreeMap::new();
        for sent in self.sent.values() {
            if let Some(controller) = &sent.controller {
                *on_their_way.entry(controller.clone()).or_default() += 1;
            }
        }
        let (mut evict, mut wake) = (Vec::new(), None);
        let (open, groups) = (self.turn.open(), self.policy.order.len());
        let tiers: BTreeSet<usize> = self.left.values().map(|entry| entry.tier).collect();
        // Whoever is to leave first has the room first when more than one tier is open.
        let tiers = tiers
            .into_iter()
            .filter(|tier| *tier <= open || (critical && *tier > groups));
        for tier in tiers {
            for (uid, entry) in &mut self.left {
                if entry.tier != tier || !entry.may_be_asked() || entry.round > ROUNDS {
                    continue;
                }
                let Ask::From(mut from) = entry.ask else {
                    continue;
                };
                if let Some(controller) = &entry.controller {
                    let pace = self.paces.entry(controller.clone()).or_default();
                    let others = on_their_way.get(controller).copied().unwrap_or(0);
                    let speaker = self.speakers.get(controller);
                    if others >= pace.at_once() || speaker.is_some_and(|it| it != uid) {
                        // Their answer wakes.
                        continue;
                    }
                    from = from.max(pace.from());
                }
                if from > now {
                    wake = earliest(wake, Some(from));
                } else if room > 0 {
                    room -= 1;
                    entry.ask = Ask::Asked;
                    entry.asked.get_or_insert(now);
                    let controller = entry.controller.clone();
                    if let Some(controller) = &controller {
                        *on_their_way.entry(controller.clone()).or_default() += 1;
                        if self.paces.get(controller).is_some_and(Pace::limited) {
                            self.speakers.insert(controller.clone(), uid.clone());
                        }
                    }
                    self.sent.insert(
                        uid.clone(),
                        Sent {
                            at: now,
                            controller,
                            escalates: None,
                        },
                    );
                    evict.push(entry.pod.clone());
                }
            }
        }
        (evict, wake)
    }
}
