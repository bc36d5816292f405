//! A hold whose holder is gone for good: when a waiter may clear it (docs/design.md 5, "A slot whose holder is gone").
//!
//! Keeps I5: a slot never expires by time. What clears it is that the holder's Node does not exist, seen
//! again and again by one waiter on its own boot clock; time alone only says when to look.

use std::time::Duration;

use jiff::Timestamp;

use crate::scatter::share;
use crate::slot::Lease;

/// A hold that lasts is looked into only after this long on the waiter's own clock: a drain with its
/// default timeout and a boot are over by then.
const LONG: Duration = Duration::from_secs(30 * 60);
/// From one look to the next, at least; as much again is spread over the waiters, so that a group of
/// thousands asks a few times a second at most.
const EVERY: Duration = Duration::from_secs(5 * 60);
/// Looks further apart than this do not count as one absence: the Node may have been there in between.
const GAP: Duration = Duration::from_secs(20 * 60);

/// One hold of another node, as its Lease tells it: another holder or acquire time is another hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub lease: String,
    pub uid: String,
    pub holder: String,
    pub acquire_time: Option<Timestamp>,
}

impl Held {
    /// The hold of a Lease that is held.
    pub fn of(lease: &Lease) -> Option<Self> {
        Some(Self {
            lease: lease.name.clone(),
            uid: lease.uid.clone(),
            holder: lease.holder.clone()?,
            acquire_time: lease.acquire_time,
        })
    }
}

/// What a consistent read shows of a holder's Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Present,
    /// It is there, but a person tainted it `node.kubernetes.io/out-of-service`: its host is off.
    OutOfService,
    Absent,
}

/// What consistent reads of a holder's Node have shown, on the boot clock of who reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub held: Held,
    /// When the last read was asked for.
    pub asked: Duration,
    /// Every read since this one answered 404, or showed a Node that is out of service; none: the last one
    /// found the Node in service, or had no answer.
    pub absent: Option<Duration>,
    /// The last read showed the Node, out of service.
    pub out_of_service: bool,
}

impl Lease {
    /// This as the successor of what was known before: remembers when this daemon saw it become free, its hold begin
    /// and the last hold end. What was there at first sight counts from then: nobody else's clock is asked for how
    /// long (I5).
    #[must_use]
    pub fn follow(self, before: Option<&Self>, seen: Duration) -> Self {
        let freed = match before {
            Some(before) if before.uid == self.uid && self.open() => {
                if before.open() {
                    before.freed
                } else {
                    Some(seen)
                }
            }
            _ => None,
        };
        let last_seen = self.last_hold.as_ref().and_then(|last| {
            before
                .filter(|before| before.last_hold.as_ref() == Some(last))
                .and_then(|before| before.last_seen)
                .or(Some(seen))
        });
        let held = Held::of(&self).and_then(|held| {
            before
                .filter(|before| Held::of(before) == Some(held))
                .and_then(|before| before.held)
                .or(Some(seen))
        });
        Self {
            freed,
            last_seen,
            held,
            ..self
        }
    }
}

impl Look {
    /// The look at `held` that was asked for at `asked` and what it `found`; none: the API server did not say.
    /// Only another that shows the Node gone, soon after the last one, goes on counting.
    pub fn next(before: Option<&Self>, held: Held, asked: Duration, found: Option<Found>) -> Self {
        let goes_on = before
            .filter(|before| before.held == held && asked.saturating_sub(before.asked) <= GAP)
            .and_then(|before| before.absent);
        let absent = match found {
            Some(Found::Absent | Found::OutOfService) => Some(goes_on.unwrap_or(asked)),
            Some(Found::Present) | None => None,
        };
        Self {
            held,
            asked,
            absent,
            out_of_service: found == Some(Found::OutOfService),
        }
    }

    /// The Node was gone for `stale_after` when this look was asked for.
    pub fn ripe(&self, stale_after: Duration) -> bool {
        self.absent
            .is_some_and(|since| self.asked.saturating_sub(since) >= stale_after)
    }

    /// When `me` looks again: every now and then, and once exactly when it may be ripe.
    pub(crate) fn again(&self, me: &str, stale_after: Duration) -> Duration {
        let next = self.asked + EVERY + share(EVERY, &[me, &self.held.lease, "look"]);
        match self.absent.map(|since| since + stale_after) {
            Some(ripe) if ripe > self.asked => next.min(ripe),
            Some(_) | None => next,
        }
    }
}

/// When `me` first looks into a hold it has seen since `held`. Who wants stale holds cleared sooner than
/// by default also wants them looked into sooner.
pub(crate) fn first_look(me: &str, lease: &str, held: Duration, stale_after: Duration) -> Duration {
    let long = LONG.min(stale_after);
    held + long + share(long / 6, &[me, lease, "look"])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STALE: Duration = Duration::from_secs(30 * 60);

    fn held(holder: &str) -> Held {
        Held {
            lease: "default".to_owned(),
            uid: "u".to_owned(),
            holder: holder.to_owned(),
            acquire_time: None,
        }
    }

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(60 * minutes)
    }

    /// Looks at these minutes, each with its answer.
    fn looks(answers: &[(u64, Option<Found>)]) -> Look {
        let mut look = None;
        for (minute, found) in answers {
            look = Some(Look::next(
                look.as_ref(),
                held("n7"),
                minutes(*minute),
                *found,
            ));
        }
        look.expect("a look")
    }

    #[test]
    fn i5_only_an_absence_without_a_break_is_ripe() {
        let (gone, there, silent) = (Some(Found::Absent), Some(Found::Present), None);
        let off = Some(Found::OutOfService);
        let cases = [
            (vec![(0, gone)], false),
            (vec![(0, gone), (10, gone), (20, gone), (29, gone)], false),
            (vec![(0, gone), (10, gone), (20, gone), (30, gone)], true),
            (vec![(0, gone), (10, there), (20, gone), (30, gone)], false),
            (vec![(0, gone), (10, silent), (20, gone), (30, gone)], false),
            (vec![(0, gone), (10, gone), (20, gone), (30, there)], false),
            (vec![(0, gone), (10, gone), (20, gone), (30, silent)], false),
            // Nobody looked for half an hour.
            (vec![(0, gone), (30, gone)], false),
            (vec![(0, there), (10, gone), (25, gone), (40, gone)], true),
            // Out of service by a person's word counts as gone.
            (vec![(0, off), (10, off), (20, off), (30, off)], true),
            (vec![(0, off), (10, off), (20, gone), (30, off)], true),
            (vec![(0, off), (10, there), (20, off), (30, off)], false),
        ];
        for (answers, ripe) in cases {
            assert_eq!(looks(&answers).ripe(STALE), ripe, "{answers:?}");
        }
    }

    #[test]
    fn i5_another_hold_begins_anew() {
        let before = looks(&[(0, Some(Found::Absent)), (15, Some(Found::Absent))]);
        for other in [
            held("n8"),
            Held {
                uid: "other".to_owned(),
                ..held("n7")
            },
            Held {
                acquire_time: Some(Timestamp::UNIX_EPOCH),
                ..held("n7")
            },
        ] {
            let look = Look::next(Some(&before), other, minutes(30), Some(Found::Absent));
            assert_eq!(look.absent, Some(minutes(30)));
        }
    }

    #[test]
    fn a_look_says_whether_a_person_put_the_node_out_of_service() {
        for (found, out_of_service) in [
            (Some(Found::OutOfService), true),
            (Some(Found::Absent), false),
            (Some(Found::Present), false),
            (None, false),
        ] {
            assert_eq!(looks(&[(0, found)]).out_of_service, out_of_service);
        }
    }

    #[test]
    fn the_look_that_may_be_ripe_comes_exactly_then() {
        let look = looks(&[(0, Some(Found::Absent)), (15, Some(Found::Absent))]);
        // Sooner than the next look that comes every now and then, and only as long as it is ahead.
        assert_eq!(look.again("n1", minutes(17)), minutes(17));
        assert!(look.again("n1", minutes(15)) >= minutes(20));
        assert!(look.again("n1", STALE) < minutes(25));
    }

    #[test]
    fn i5_a_lease_is_followed_on_the_own_clock() {
        let free = Lease {
            last_hold: Some("n7 1".to_owned()),
            ..Lease::free("default", "default")
        };
        let paused = Lease {
            paused: Some("by hand".to_owned()),
            ..free.clone()
        };
        let held = Lease {
            holder: Some("n7".to_owned()),
            acquire_time: Some(Timestamp::UNIX_EPOCH),
            ..free.clone()
        };
        let times = |lease: Lease| (lease.freed, lease.last_seen, lease.held);
        let (one, two, three) = (minutes(1), minutes(2), minutes(3));

        // At first sight: nobody knows for how long it is free, so that nobody waits for a hint.
        assert_eq!(
            times(free.clone().follow(None, one)),
            (None, Some(one), None)
        );
        let held_since = held.clone().follow(None, one);
        assert_eq!(times(held_since.clone()), (None, Some(one), Some(one)));
        // The same again changes nothing.
        let again = held.clone().follow(Some(&held_since), two);
        assert_eq!(times(again), (None, Some(one), Some(one)));

        // It becomes free, with the end of a hold to remember, and stays so.
        let ended = Lease {
            last_hold: Some("n7 2".to_owned()),
            ..free.clone()
        };
        let freed = ended.clone().follow(Some(&held_since), two);
        assert_eq!(times(freed.clone()), (Some(two), Some(two), None));
        let still = ended.clone().follow(Some(&freed), three);
        assert_eq!(times(still), (Some(two), Some(two), None));
        let resumed = free.clone().follow(Some(&paused), two);
        assert_eq!(resumed.freed, Some(two));
        assert_eq!(paused.follow(Some(&freed), three).freed, None);

        // Another object, another hold: what was seen of the one before says nothing.
        let replaced = Lease {
            uid: "another".to_owned(),
            ..ended
        };
        assert_eq!(replaced.follow(Some(&held_since), two).freed, None);
        let other = Lease {
            holder: Some("n8".to_owned()),
            ..held
        };
        assert_eq!(other.follow(Some(&held_since), two).held, Some(two));
    }

    #[test]
    fn looks_are_spread_over_the_waiters() {
        let first = |node: usize| first_look(&format!("n{node}"), "default", minutes(1), STALE);
        let look = looks(&[(31, Some(Found::Present))]);
        let next = |node: usize| look.again(&format!("n{node}"), STALE);
        let mut firsts: Vec<Duration> = (0..100).map(first).collect();
        let mut nexts: Vec<Duration> = (0..100).map(next).collect();
        for (times, from, to) in [(&mut firsts, 31, 36), (&mut nexts, 36, 41)] {
            times.sort_unstable();
            times.dedup();
            assert!(times.len() > 95, "{} different", times.len());
            assert!(times[0] >= minutes(from) && times[times.len() - 1] < minutes(to));
            assert!(times[times.len() - 1].saturating_sub(times[0]) > minutes(4));
        }
    }

    proptest! {
        /// However the looks fall, ripe means: the first and the last are `stale_after` apart, all in
        /// between said 404, and none was more than the gap after the one before.
        #[test]
        fn i5_ripe_is_never_less_than_stale_after_of_404(
            answers in prop::collection::vec((0u64..25, prop::option::weighted(0.95, prop::bool::weighted(0.1))), 1..20),
        ) {
            let (mut minute, mut look, mut since) = (0, None::<Look>, None::<u64>);
            for (step, found) in answers {
                minute += step;
                let found = found.map(|there| if there { Found::Present } else { Found::Absent });
                if found != Some(Found::Absent) {
                    since = None;
                } else if since.is_none() || step > 20 {
                    since = Some(minute);
                }
                let next = Look::next(look.as_ref(), held("n7"), minutes(minute), found);
                prop_assert_eq!(next.ripe(STALE), since.is_some_and(|since| minute - since >= 30));
                prop_assert!(next.again("n1", STALE) > next.asked);
                look = Some(next);
            }
        }
    }
}
