//! Whom to ask next: ordinary pods first, siblings behind one speaker, so many at once (I9).

use std::time::Duration;

use super::entry::{Ask, Entry, PodRef};
use super::{Drain, ROUNDS, earliest};

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
        let speaker = entry
            .controller
            .as_ref()
            .and_then(|uid| self.speakers.get(uid));
        entry.may_be_asked()
            && matches!(speaker, Some(Some(uid)) if *uid != entry.pod.uid
                && self.left.get(uid).is_some_and(Entry::budget_blocked))
    }

    /// Marks as many as may be asked now; the wake-up is that of the next retry.
    pub(super) fn choose(
        &mut self,
        critical: bool,
        now: Duration,
    ) -> (Vec<PodRef>, Option<Duration>) {
        let asked = self
            .left
            .values()
            .filter(|entry| matches!(entry.ask, Ask::Asked(_)));
        let mut room = self.policy.parallelism.max(1).saturating_sub(asked.count());
        let (mut evict, mut wake) = (Vec::new(), None);
        // Ordinary pods have the room first when both tiers are open.
        for tier in [false, true].into_iter().take(1 + usize::from(critical)) {
            for (uid, entry) in &mut self.left {
                if entry.critical != tier || !entry.may_be_asked() || entry.round > ROUNDS {
                    continue;
                }
                let Ask::From(from) = entry.ask else { continue };
                let speaker = entry
                    .controller
                    .as_ref()
                    .and_then(|controller| self.speakers.get_mut(controller));
                if let Some(Some(other)) = &speaker
                    && other != uid
                {
                    continue;
                }
                if from > now {
                    wake = earliest(wake, Some(from));
                } else if room > 0 {
                    room -= 1;
                    entry.ask = Ask::Asked(now);
                    if let Some(speaker) = speaker {
                        *speaker = Some(uid.clone());
                    }
                    evict.push(entry.pod.clone());
                }
            }
        }
        (evict, wake)
    }
}
