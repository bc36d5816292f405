//! The hooks around a hold: which directory is looked at, when a round of its hooks is due, and what the last one said
//! (I4, I7, I8).
//!
//! A round runs beside the loop, and what it says is known to one process alone: a fresh daemon asks anew. So nothing from
//! before the boot counts, and nothing of another hold.

use std::time::Duration;

use jiff::Timestamp;

use super::Machine;
use crate::hook::{Hook, Said, reasons};
use crate::now::Now;

/// From the end of a round that did not end well to the next one.
const AGAIN: Duration = Duration::from_secs(30);

/// What is known of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Where was looked last, and whether there are any; or why that is not known. None: nobody has looked.
    looked: Option<(Hook, Result<bool, String>)>,
    /// The last round.
    round: Option<Round>,
    /// The host and its kubelet were healthy, as they were judged last.
    pub(super) healthy: bool,
}

/// One round.
#[derive(Debug, Clone)]
struct Round {
    hook: Hook,
    /// Acquire time of the hold that it is for.
    hold: Timestamp,
    begun: Duration,
    /// When it ended.
    ended: Option<Duration>,
    /// What it says; while it runs, what the one before it said of the same.
    said: Option<Said>,
}

impl Machine {
    /// The directory that is to be looked at, at each turn.
    pub fn hooks_wanted(&self) -> Option<Hook> {
        (self.facts.started && self.verifying()).then_some(Hook::PostBoot)
    }

    /// Whether there are hooks of this kind, or why that is not known.
    pub fn saw_hooks(&mut self, hook: Hook, there: Result<bool, String>) {
        self.memory.hooks.looked = Some((hook, there));
    }

    /// Nothing rests on any: what was seen of their directories is void.
    pub fn forget_hooks(&mut self) {
        self.memory.hooks.looked = None;
    }

    /// Since the host and its kubelet are healthy, the hooks that say whether the rest is are to be run, if no round runs.
    pub fn post_boot_due(&self, now: Now) -> bool {
        let there = self.memory.hooks.looked == Some((Hook::PostBoot, Ok(true)));
        let Some(since) = self
            .memory
            .verifying
            .filter(|_| self.memory.hooks.healthy && there)
        else {
            return false;
        };
        match &self.memory.hooks.round {
            Some(round) if round.ended.is_none() => false,
            round => match round.as_ref().filter(|round| self.proves(round, since)) {
                None => true,
                Some(round) => {
                    let rested = round.ended.is_some_and(|ended| now.since(ended) >= AGAIN);
                    round.said != Some(Said::Well) && rested
                }
            },
        }
    }

    /// A round is begun.
    pub fn hooks_begin(&mut self, hook: Hook, now: Now) {
        let Some(hold) = &self.facts.record.hold else {
            return;
        };
        let hold = hold.take.acquire_time;
        let before = self.memory.hooks.round.take();
        let same = before.filter(|one| (one.hook, one.hold) == (hook, hold));
        self.memory.hooks.round = Some(Round {
            hook,
            hold,
            begun: now.boot,
            ended: None,
            // A yes counts for what was asked then, and for nothing later.
            said: same
                .and_then(|one| one.said)
                .filter(|said| *said != Said::Well),
        });
    }

    /// The round has ended.
    pub fn hooks_ended(&mut self, said: Said, now: Now) {
        if let Some(round) = &mut self.memory.hooks.round {
            round.ended = Some(now.boot);
            round.said = Some(said);
        }
    }

    /// What asks for the reboot, for them: what the hold is for.
    pub fn hold_reasons(&self) -> String {
        let request = self.facts.record.request.as_ref();
        request.map(reasons).unwrap_or_default()
    }

    /// This round is one of the proof that began then.
    fn proves(&self, round: &Round, since: Duration) -> bool {
        let hold = self.facts.record.hold.as_ref();
        let same = hold.is_some_and(|hold| hold.take.acquire_time == round.hold);
        round.hook == Hook::PostBoot && same && round.begun >= since
    }

    /// What the hooks say of the host whose proof began then; or what is missing, in words. What is not known is no yes (I8).
    pub(super) fn post_boot(&self, since: Duration) -> Result<(), String> {
        let directory = Hook::PostBoot.directory();
        match &self.memory.hooks.looked {
            Some((Hook::PostBoot, Ok(false))) => return Ok(()),
            Some((Hook::PostBoot, Ok(true))) => {}
            Some((Hook::PostBoot, Err(why))) => return Err(unlisted(Hook::PostBoot, why)),
            _ => return Err(unlisted(Hook::PostBoot, "nobody has looked yet")),
        }
        let round = self.memory.hooks.round.as_ref();
        let said = round
            .filter(|round| self.proves(round, since))
            .and_then(|round| round.said.as_ref());
        match said {
            Some(Said::Well) => Ok(()),
            Some(Said::NotNow(words) | Said::Failed(words)) => Err(words.clone()),
            None => Err(format!("the hooks of {directory} have not answered yet")),
        }
    }
}

/// It is not known which hooks there are.
fn unlisted(hook: Hook, why: &str) -> String {
    format!(
        "not known which hooks there are in {}: {why}",
        hook.directory()
    )
}
