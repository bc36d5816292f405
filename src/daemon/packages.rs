//! What package managers do, looked at while it matters: nothing is begun beside them, nor right after (I2, I8).

use std::time::Duration;

use kube_rebootd_core::facts::Facts;
use kube_rebootd_core::gates::{Closed, Gate, Packages};
use kube_rebootd_core::now::Now;
use kube_rebootd_core::phase::Phase;

use super::Daemon;
use crate::host::outdated::{Locks, Working};

/// How often one that works is looked at, when nothing else is in the way: none tells when it has finished.
const POLL: Duration = Duration::from_secs(2);
/// After so long the slow poll will do: its lock was left behind, or it waits for a person.
const EAGER: Duration = Duration::from_secs(5 * 60);
/// Scripts and configuration management call one again and again, with pauses.
const QUIET: Duration = Duration::from_secs(30);

/// What was seen of them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    locks: Locks,
    now: Option<Result<Option<Working>, String>>,
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
}

impl Daemon {
    /// At every turn: hooks that write a sentinel run before their package manager is done.
    pub(super) async fn packages(&mut self, now: Now) {
        let seen = &mut self.memory.packages;
        if !matter(&self.facts) {
            (seen.now, seen.since) = (None, None);
            return;
        }
        let found = seen.locks.look(&self.root).await;
        if let Ok(Some(working)) = &found {
            seen.last = Some((working.who, now.boot));
        }
        seen.now = Some(found);
        seen.since = match seen.known(now) {
            Packages::Quiet => None,
            Packages::Work(_) | Packages::Rest(..) | Packages::Unknown(_) => {
                seen.since.or(Some(now.boot))
            }
        };
    }
}

/// A reboot is wanted, or a hold has not rebooted the host yet, as far as is known. Also after logind was asked: it may
/// have refused, and is then asked again.
fn matter(facts: &Facts) -> bool {
    match facts.record.phase(Some(&facts.boot)) {
        Phase::Idle | Phase::Pending | Phase::Queued => facts.observed.request.is_some(),
        Phase::Claiming | Phase::Draining | Phase::Rebooting => true,
        Phase::Verifying | Phase::Releasing | Phase::Undoing => false,
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
        seen.now = Some(Ok(None));
        assert_eq!(seen.known(now), Packages::Quiet);
        seen.since = Some(now.boot);
        assert_eq!(seen.poll(&[closed], now.boot), POLL);
    }
}
