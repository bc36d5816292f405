//! The drain's clocks: time counts from one answer of the API server to the next (I7).
//!
//! That the server was silent is known only afterwards: a watch reports it up to 90 s late, an eviction after its time
//! limit. So time counts only once an answer shows that the server was there. Until then it is assumed to count, but
//! only to know when to look again.

use std::time::Duration;

#[derive(Debug, Clone, Default)]
pub(super) struct Clock {
    spent: Duration,
    /// Since a pod left, without the time in which nothing could stall.
    still: Duration,
    /// The last answer: up to here all is counted. None: not begun.
    heard: Option<Duration>,
    /// From here on the API server is known to be silent.
    silent: Option<Duration>,
}

impl Clock {
    pub(super) fn new(spent: Duration) -> Self {
        Self {
            spent,
            ..Self::default()
        }
    }

    /// Time counts from `now` on: what passed since the last answer does not.
    pub(super) fn anew(&mut self, now: Duration) {
        (self.heard, self.silent) = (Some(now), None);
    }

    /// Time counts from the first call on.
    pub(super) fn begin(&mut self, now: Duration) {
        self.heard.get_or_insert(now);
    }

    /// An answer came at `at`; `stalls`: a pod that should leave was there.
    pub(super) fn heard(&mut self, at: Duration, stalls: bool) {
        if self.heard.is_some_and(|heard| at <= heard) {
            return;
        }
        let passed = self.unvouched(at);
        self.spent += passed;
        if stalls {
            self.still += passed;
        }
        self.heard = Some(at);
        self.silent = None;
    }

    /// What was sent at `from` has no answer; zero: nothing since the last one is to be believed.
    pub(super) fn lost(&mut self, from: Duration) {
        let from = from.max(self.heard.unwrap_or(from));
        self.silent = Some(self.silent.map_or(from, |silent| silent.min(from)));
    }

    /// The last answer has ended a silence that was kept up until now.
    pub(super) fn resume(&mut self) {
        self.silent = None;
    }

    /// A pod left.
    pub(super) fn left(&mut self) {
        self.still = Duration::ZERO;
    }

    /// Time spent, as far as answers vouch for it.
    pub(super) fn spent(&self) -> Duration {
        self.spent
    }

    pub(super) fn still(&self) -> Duration {
        self.still
    }

    /// Time that counts as soon as an answer comes.
    pub(super) fn unvouched(&self, now: Duration) -> Duration {
        let until = self.silent.map_or(now, |silent| silent.min(now));
        self.heard
            .map_or(Duration::ZERO, |heard| until.saturating_sub(heard))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn i7_silence_counts_from_the_last_answer_or_from_what_was_sent() {
        let mut clock = Clock::new(secs(5));
        clock.begin(secs(100));
        clock.heard(secs(110), true);
        assert_eq!((clock.spent(), clock.still()), (secs(15), secs(10)));
        // A watch that reports late: nothing since the last answer.
        assert_eq!(clock.unvouched(secs(190)), secs(80));
        clock.lost(Duration::ZERO);
        assert_eq!(clock.unvouched(secs(200)), Duration::ZERO);
        clock.heard(secs(7200), true);
        assert_eq!((clock.spent(), clock.still()), (secs(15), secs(10)));
        // An eviction: from when it was sent.
        clock.lost(secs(7203));
        clock.heard(secs(8000), false);
        assert_eq!((clock.spent(), clock.still()), (secs(18), secs(10)));
        // What is as old as the last answer, or older, ends no silence.
        clock.lost(secs(8000));
        clock.heard(secs(8000), true);
        assert_eq!(clock.unvouched(secs(9000)), Duration::ZERO);
        clock.left();
        assert_eq!(clock.still(), Duration::ZERO);
    }

    #[derive(Debug, Clone, Copy)]
    enum Said {
        Heard,
        /// What was sent so many seconds ago has no answer.
        Lost(u64),
    }

    proptest! {
        /// Against the plain account: a second counts when no loss reaches over it.
        #[test]
        fn i7_no_second_of_a_known_silence_counts(
            turns in prop::collection::vec((1..100_u64, prop_oneof![
                Just(Said::Heard), (0..120_u64).prop_map(Said::Lost)]), 1..40),
        ) {
            let mut clock = Clock::new(Duration::ZERO);
            clock.begin(Duration::ZERO);
            let (mut now, mut heard, mut counted) = (0_u64, 0_u64, 0_u64);
            let mut silent: Option<u64> = None;
            for (pass, said) in turns {
                now += pass;
                match said {
                    Said::Heard => {
                        clock.heard(secs(now), true);
                        counted += (heard..now).filter(|second| silent.is_none_or(|from| *second < from)).count() as u64;
                        (heard, silent) = (now, None);
                    }
                    Said::Lost(ago) => {
                        let from = now.saturating_sub(ago).max(heard);
                        clock.lost(secs(now.saturating_sub(ago)));
                        silent = Some(silent.map_or(from, |before| before.min(from)));
                    }
                }
                prop_assert_eq!(clock.spent(), secs(counted));
            }
        }
    }
}
