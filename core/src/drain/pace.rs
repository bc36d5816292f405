//! When a controller's next pod may be tried at a budget: a budget says no, never when (I9).
//!
//! A node cannot read budgets. What it can see is how long after one pod's eviction the next was allowed:
//! the time a replacement takes to be ready. That time is learned per controller, so that most tries are
//! accepted and few are refused, whether replacements take a second or a minute.

use std::time::Duration;

use crate::backoff::doubled;

/// As long as nothing is learned: the time from an accepted eviction to the next try, and the first pause after a
/// refusal.
const FIRST: Duration = Duration::from_secs(1);
/// The shortest time between two tries: an answer itself takes some milliseconds.
const LEAST: Duration = Duration::from_millis(50);
/// The longest time between two tries: a budget that somebody else freed should be noticed soon.
const MOST: Duration = Duration::from_secs(15);
/// After a refusal a third of the learned time is waited, and twice as long after each further one.
const PAUSE: u32 = 3;
/// But at least a quarter of it: the first repeat comes half-way to what was enough last time, the second at that time.
const SOON: u32 = 4;
/// The next time that is learned may be longer than the last by a fifth: replacements differ.
const SLACK: u32 = 5;
/// A learned time that was enough is shortened by a 256th, times the square of how often it was enough in a row: the
/// longer it was enough, the more of it may be too much.
const SHORTER: u32 = 256;

/// One controller's budget, as far as its answers tell.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    /// It refused once.
    limited: bool,
    /// Pods that were accepted.
    pods: u32,
    /// When a pod was last accepted.
    accepted: Option<Duration>,
    /// Refusals since then.
    refusals: u32,
    /// Pods that were accepted at once, one after another.
    hits: u32,
    /// From one accepted eviction to the next try, as learned.
    wait: Option<Duration>,
    /// How long the last replacement took at most.
    enough: Duration,
    /// A learned time was too short once: it is known from both sides.
    bounded: bool,
    /// The next try.
    from: Duration,
}

impl Pace {
    /// A budget limits its pods: one asks for all.
    pub(super) fn limited(&self) -> bool {
        self.limited
    }

    /// How many of its pods may be on their way at once: as many as were accepted so far, so that a budget
    /// of one refuses once and not for every pod there is.
    pub(super) fn at_once(&self) -> u32 {
        if self.limited { 1 } else { self.pods.max(1) }
    }

    /// No try before this boot time.
    pub(super) fn from(&self) -> Duration {
        self.from
    }

    pub(super) fn accepted(&mut self, now: Duration) {
        if self.limited
            && let Some(before) = self.accepted
        {
            self.learn(now.saturating_sub(before));
        }
        (self.accepted, self.refusals) = (Some(now), 0);
        self.pods = self.pods.saturating_add(1);
        if self.limited {
            self.from = now.saturating_add(self.wait.unwrap_or(FIRST));
        }
    }

    /// A replacement was there after `passed`.
    fn learn(&mut self, passed: Duration) {
        let late = passed + passed / SLACK;
        let wait = match self.wait {
            None => passed,
            // One slow replacement is not believed at once.
            Some(wait) if self.refusals > 0 => late.min(wait * 3 / 2),
            Some(wait) if !self.bounded => wait * 2 / 3,
            Some(wait) => wait.saturating_sub(wait * self.hits.min(4).pow(2) / SHORTER),
        };
        self.hits = if self.refusals == 0 { self.hits + 1 } else { 0 };
        self.enough = passed;
        self.wait = Some(wait.clamp(LEAST, MOST));
    }

    /// `jitter`: from 0 to 1000, the same for the same pod, so that several nodes do not ask as one.
    pub(super) fn refused(&mut self, jitter: u32, now: Duration) {
        self.limited = true;
        self.bounded |= self.wait.is_some();
        let passed = now.saturating_sub(self.accepted.unwrap_or(now));
        let left = self.enough.saturating_sub(passed);
        let gap = match (self.wait, self.refusals) {
            (None, refusals) => doubled(FIRST, refusals, MOST),
            (Some(wait), 0) => (left / 2).max(wait / SOON),
            (Some(wait), 1) => left.max(wait / PAUSE),
            (Some(wait), refusals) => doubled(wait / PAUSE, refusals - 1, MOST),
        };
        let gap = gap.clamp(LEAST, MOST);
        self.refusals = self.refusals.saturating_add(1);
        self.from = now.saturating_add(gap + gap * jitter / 8000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evicts `pods` of a budget that allows the next one `ready` (by the number of the pod) after the last;
    /// how long that took and how often it refused.
    fn run(pods: u32, ready: impl Fn(u32) -> Duration) -> (Duration, u32) {
        let mut pace = Pace::default();
        let (mut now, mut free, mut refusals) = (Duration::ZERO, Duration::ZERO, 0);
        for pod in 0..pods {
            loop {
                now = now.max(pace.from());
                if now >= free {
                    pace.accepted(now);
                    free = now + ready(pod);
                    break;
                }
                pace.refused(pod * 100 % 1000, now);
                refusals += 1;
            }
        }
        (now, refusals)
    }

    #[test]
    fn a_budget_is_tried_about_when_it_allows_the_next() {
        for millis in [400, 1000, 1700, 4000, 12_000] {
            let ready = Duration::from_millis(millis);
            let (took, refusals) = run(11, |_| ready);
            let most = ready * 10 * 3 / 2 + 2 * FIRST;
            assert!(took <= most, "{millis} ms: {took:?}");
            assert!(refusals <= 7, "{millis} ms: {refusals}");
        }
    }

    #[test]
    fn replacements_that_differ_by_half_cost_little() {
        let ready = |pod: u32| Duration::from_millis(1000 + u64::from(pod * 7919 % 11) * 50);
        let floor: Duration = (0..10).map(ready).sum();
        let (took, refusals) = run(11, ready);
        assert!(took <= floor * 3 / 2, "{took:?} of {floor:?}");
        assert!(refusals <= 6, "{refusals}");
    }

    #[test]
    fn one_slow_replacement_does_not_slow_all_others() {
        let ready = |pod: u32| Duration::from_secs(if pod == 3 { 10 } else { 1 });
        let (took, refusals) = run(31, ready);
        assert!(took <= Duration::from_secs(60), "{took:?}");
        assert!(refusals <= 20, "{refusals}");
    }

    #[test]
    fn a_budget_that_is_freed_at_last_is_noticed_within_seconds() {
        let mut pace = Pace::default();
        let mut now = Duration::ZERO;
        let mut refusals = 0;
        while now < Duration::from_secs(3600) {
            pace.refused(1000, now);
            refusals += 1;
            assert!(pace.from().saturating_sub(now) <= MOST + MOST / 8);
            now = pace.from();
        }
        assert!(refusals < 300, "{refusals}");
    }

    #[test]
    fn without_a_refusal_nothing_waits() {
        let mut pace = Pace::default();
        for millis in [0, 1, 2] {
            pace.accepted(Duration::from_millis(millis));
            assert_eq!(pace.from(), Duration::ZERO);
        }
    }
}
