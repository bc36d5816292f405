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

    #[test]
    fn i8_what_was_not_looked_at_is_not_quiet() {
        let now = Now {
            wall: jiff::Timestamp::UNIX_EPOCH,
            boot: Duration::from_secs(1_000),
        };
        let mut seen = Seen::default();
        assert!(matches!(seen.known(now), Packages::Unknown(_)));
        let closed = Closed {
            gate: Gate::PackageManager,
            why: String::new(),
            opens: None,
        };
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
}
