//! What package managers do: nothing is begun beside them, nor right after (I2, I8).

use std::fmt;
use std::time::Duration;

use crate::gates::{Closed, Gate, Packages};
use crate::now::Now;

/// How often one that works is looked at, when nothing else is in the way: none tells when it has finished.
const POLL: Duration = Duration::from_secs(2);
/// After so long the slow poll will do: its lock was left behind, or it waits for a person.
const EAGER: Duration = Duration::from_secs(5 * 60);
/// Scripts and configuration management call one again and again, with pauses.
const QUIET: Duration = Duration::from_secs(30);

/// A package manager that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageManager {
    pub who: &'static str,
    /// Which process, and how to go on when there is none.
    pub how: String,
}

impl fmt::Display for PackageManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} works{}", self.who, self.how)
    }
}

/// What was seen of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    now: Option<Result<Option<PackageManager>, String>>,
    /// Who worked last, and when that was seen last.
    last: Option<(&'static str, Duration)>,
    /// Since when it has not been quiet.
    since: Option<Duration>,
}

impl Seen {
    /// How long until the next look, at most.
    pub(super) fn poll(&self, closed: &[Closed], now: Duration) -> Duration {
        let alone = closed.iter().all(|one| one.gate == Gate::PackageManager);
        let since = self.since.filter(|_| alone && !closed.is_empty());
        if since.is_some_and(|since| now.saturating_sub(since) < EAGER) {
            POLL
        } else {
            Duration::MAX
        }
    }

    pub(super) fn known(&self, now: Now) -> Packages {
        match (&self.now, &self.last) {
            (Some(Err(why)), _) => Packages::Unknown(why.clone()),
            (Some(Ok(Some(working))), _) => Packages::Work(working.to_string()),
            (Some(Ok(None)), Some((who, at))) if now.since(*at) < QUIET => {
                Packages::Rest(who, *at + QUIET)
            }
            (Some(Ok(None)), _) => Packages::Quiet,
            // Nothing rests on it now; what ever does must look first (I8).
            (None, _) => Packages::Unknown("nobody has looked yet".to_owned()),
        }
    }

    /// Nothing rests on it: what was seen of now is void.
    pub(super) fn forget(&mut self) {
        (self.now, self.since) = (None, None);
    }

    /// What a look found.
    pub(super) fn look(&mut self, found: Result<Option<PackageManager>, String>, now: Now) {
        if let Ok(Some(working)) = &found {
            self.last = Some((working.who, now.boot));
        }
        self.now = Some(found);
        self.since = match self.known(now) {
            Packages::Quiet => None,
            Packages::Work(_) | Packages::Rest(..) | Packages::Unknown(_) => {
                self.since.or(Some(now.boot))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now {
            wall: jiff::Timestamp::UNIX_EPOCH,
            boot: Duration::from_secs(1_000 + seconds),
        }
    }

    fn closed(gate: Gate) -> Closed {
        Closed {
            gate,
            why: "".into(),
            opens: None,
        }
    }

    type Found = Result<Option<PackageManager>, String>;

    fn apt() -> PackageManager {
        PackageManager {
            who: "apt",
            how: " (process 7)".to_owned(),
        }
    }

    #[test]
    fn i8_what_was_not_looked_at_is_not_quiet() {
        let now = at(0);
        let mut seen = Seen::default();
        assert!(matches!(seen.known(now), Packages::Unknown(_)));
        let closed = closed(Gate::PackageManager);
        // Nobody waits for it, so that nobody looks every two seconds.
        assert_eq!(
            seen.poll(std::slice::from_ref(&closed), now.boot),
            Duration::MAX
        );
        seen.look(Ok(None), now);
        assert_eq!(seen.known(now), Packages::Quiet);
        seen.since = Some(now.boot);
        assert_eq!(seen.poll(&[closed], now.boot), POLL);
    }

    /// Seconds of each look, what it finds, what follows from that.
    #[test]
    fn i2_it_is_quiet_half_a_minute_after_the_last_one_worked() {
        let work = || Packages::Work("apt works (process 7)".to_owned());
        let rest = |until| Packages::Rest("apt", at(until).boot);
        let denied = || Packages::Unknown("denied".to_owned());
        let mut seen = Seen::default();
        for (seconds, found, then) in [
            (0, Ok(None), Packages::Quiet),
            (10, Ok(Some(apt())), work()),
            (20, Ok(None), rest(40)),
            (39, Ok(None), rest(40)),
            (40, Ok(None), Packages::Quiet),
            (50, Ok(Some(apt())), work()),
            (60, Ok(Some(apt())), work()),
            // One look that says nothing does not shorten the rest.
            (61, Err("denied".to_owned()), denied()),
            (89, Ok(None), rest(90)),
            (90, Ok(None), Packages::Quiet),
        ] {
            seen.look(found, at(seconds));
            assert_eq!(seen.known(at(seconds)), then, "{seconds} s");
        }
        // What was seen is void where nobody looks; who worked last is not.
        seen.look(Ok(Some(apt())), at(100));
        seen.forget();
        assert!(matches!(seen.known(at(101)), Packages::Unknown(_)));
        seen.look(Ok(None), at(102));
        assert_eq!(seen.known(at(102)), rest(130));
    }

    #[test]
    fn it_is_looked_every_two_seconds_while_nothing_else_is_in_the_way() {
        let polls = |found: &[Found], gates: &[Gate], seconds: u64| {
            let mut seen = Seen::default();
            for (second, one) in found.iter().enumerate() {
                seen.look(one.clone(), at(second as u64));
            }
            let closed: Vec<Closed> = gates.iter().copied().map(closed).collect();
            seen.poll(&closed, at(seconds).boot) == POLL
        };
        let alone = &[Gate::PackageManager][..];
        for (what, found, gates, seconds, yes) in [
            ("works", &[Ok(Some(apt()))][..], alone, 0, true),
            ("not known", &[Err("denied".to_owned())], alone, 0, true),
            ("rests", &[Ok(Some(apt())), Ok(None)], alone, 1, true),
            ("works for 5 min", &[Ok(Some(apt()))], alone, 299, true),
            ("works for longer", &[Ok(Some(apt()))], alone, 300, false),
            // It has not been quiet since it began.
            (
                "still works",
                &[Ok(Some(apt())), Ok(Some(apt()))],
                alone,
                300,
                false,
            ),
            ("quiet", &[Ok(None)], alone, 0, false),
            (
                "quiet in between",
                &[Ok(None), Ok(Some(apt()))],
                alone,
                300,
                true,
            ),
            ("no gate is closed", &[Ok(Some(apt()))], &[], 0, false),
            (
                "another gate, too",
                &[Ok(Some(apt()))],
                &[Gate::PackageManager, Gate::Inhibitors],
                0,
                false,
            ),
        ] {
            assert_eq!(polls(found, gates, seconds), yes, "{what}");
        }
    }
}
