//! What package managers do, looked at while it matters: nothing is begun beside them, nor right after (I2, I8).

use std::time::Duration;

use super::Daemon;
use crate::facts::Facts;
use crate::gates::{Closed, Gate, Packages};
use crate::host::outdated::{Locks, Working};
use crate::now::Now;

/// How often one that works is looked at, when nothing else is in the way: none tells when it has finished.
const POLL: Duration = Duration::from_secs(2);
/// After that many looks the slow poll will do: its lock was left behind, or it waits for a person.
const LOOKS: u32 = 150;
/// Scripts and configuration management call one again and again, with pauses.
const QUIET: Duration = Duration::from_secs(30);

/// What was seen of them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    locks: Locks,
    now: Option<Result<Option<Working>, String>>,
    /// Who worked last, and when that was seen last.
    last: Option<(&'static str, Duration)>,
    /// That many times without a pause.
    looks: u32,
}

impl Seen {
    /// How long until the next look, at most.
    pub(super) fn poll(&self, closed: &[Closed]) -> Duration {
        let alone = closed.iter().all(|one| one.gate == Gate::PackageManager);
        if alone && !closed.is_empty() && self.looks < LOOKS {
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
            // Or nobody asks.
            (Some(Ok(None)) | None, _) => Packages::Quiet,
        }
    }
}

impl Daemon {
    /// At every turn: hooks that write a sentinel run before their package manager is done.
    pub(super) async fn packages(&mut self, now: Now) {
        let seen = &mut self.memory.packages;
        if !matter(&self.facts) {
            seen.now = None;
            return;
        }
        let found = seen.locks.look(&self.root).await;
        seen.looks = match &found {
            Ok(Some(working)) => {
                seen.last = Some((working.who, now.boot));
                seen.looks.saturating_add(1)
            }
            Ok(None) | Err(_) => 0,
        };
        seen.now = Some(found);
    }
}

/// A reboot is wanted, and logind was not asked.
fn matter(facts: &Facts) -> bool {
    match &facts.record.hold {
        Some(hold) => hold.boot == facts.boot && !hold.asked(),
        None => facts.observed.request.is_some(),
    }
}
