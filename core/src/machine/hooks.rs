//! The hooks around a hold: which directory is looked at, when a round of its hooks is due, and what the last one said
//! (I4, I7, I8).
//!
//! A round runs beside the loop, and what it says is known to one process alone: a fresh daemon runs it anew. So nothing from
//! before the boot counts, and nothing of another hold.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::Machine;
use crate::hook::{AGAIN, Hook, Last, Said, Stand, Standing, reasons, steady};
use crate::now::Now;
use crate::phase::Phase;
use crate::record::Stage;

/// What is known of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Where this turn has looked, and whether there are any; or why that is not known, in words.
    looked: BTreeMap<Hook, Result<bool, String>>,
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
    runs: bool,
    /// The last of the same that has ended: itself, or while it runs the one before it.
    last: Option<Last>,
}

impl Machine {
    /// The directory that is to be looked at, at each turn: what the stage of the hold rests on.
    pub fn hooks_wanted(&self) -> Option<Hook> {
        let hold = self.facts.record.hold.as_ref();
        let hold = hold.filter(|_| self.facts.started)?;
        match self.phase() {
            Phase::Claiming => (hold.stage != Stage::Taking).then_some(Hook::PreDrain),
            Phase::Draining => Some(Hook::PreReboot),
            Phase::Verifying => Some(Hook::PostBoot),
            Phase::Releasing | Phase::Undoing => hold.hooked.then_some(Hook::Undo),
            Phase::Idle | Phase::Pending | Phase::Queued | Phase::Drained | Phase::Rebooting => {
                None
            }
        }
    }

    /// What is looked at besides, after that: what comes later in a hold in which no hook has run yet, and what would take it
    /// back. None: all that is to be seen was seen.
    pub fn hooks_ahead(&self) -> Option<Hook> {
        let hold = self.facts.record.hold.as_ref()?;
        let first: &[Hook] = match self.hooks_wanted()? {
            Hook::PreDrain if !hold.hooked => &[Hook::PreDrain, Hook::PreReboot],
            Hook::PreReboot if !hold.hooked => &[Hook::PreReboot],
            _ => return None,
        };
        let looked = &self.memory.hooks.looked;
        if let Some(next) = first.iter().find(|hook| !looked.contains_key(hook)) {
            return Some(*next);
        }
        // Where there are none nothing has to be taken back.
        let any = first
            .iter()
            .any(|hook| looked.get(hook) != Some(&Ok(false)));
        (any && !looked.contains_key(&Hook::Undo)).then_some(Hook::Undo)
    }

    /// Whether there are hooks of this kind, or why that is not known, in words.
    pub fn saw_hooks(&mut self, hook: Hook, there: Result<bool, String>) {
        self.memory.hooks.looked.insert(hook, there);
    }

    /// Nothing rests on any: what was seen of their directories is void.
    pub fn forget_hooks(&mut self) {
        self.memory.hooks.looked.clear();
    }

    /// The host and its kubelet are healthy, and the hooks that say whether the rest is are to be run.
    pub fn post_boot_due(&self, now: Now) -> bool {
        if !self.memory.hooks.healthy {
            return false;
        }
        match self.stand(Hook::PostBoot) {
            Stand::Some {
                running: false,
                last,
            } => last.is_none_or(|last| last.said != Said::Well && now.since(last.ended) >= AGAIN),
            Stand::Unlooked | Stand::Unknown(_) | Stand::None | Stand::Some { .. } => false,
        }
    }

    /// A round is begun.
    pub fn hooks_begin(&mut self, hook: Hook, now: Now) {
        let Some(hold) = &self.facts.record.hold else {
            return;
        };
        let round = Round {
            hook,
            hold: hold.take.acquire_time,
            begun: now.boot,
            runs: true,
            last: self.last(hook).cloned(),
        };
        self.memory.hooks.round = Some(round);
    }

    /// The round has ended.
    pub fn hooks_ended(&mut self, said: Said, now: Now) {
        let Some(round) = &mut self.memory.hooks.round else {
            return;
        };
        let before = round.last.take();
        let failures = before.as_ref().map_or(0, |last| last.failures);
        let was = before.as_ref().and_then(|last| last.said.no());
        let news = said
            .no()
            .filter(|why| round.hook == Hook::Undo && was.map(steady) != Some(steady(why)));
        let news =
            news.map(|why| format!("{why}; the slot is kept until the hooks of undo.d end well"));
        round.runs = false;
        round.last = Some(Last {
            first: before.map_or(round.begun, |last| last.first),
            begun: round.begun,
            ended: now.boot,
            failures: failures.saturating_add((said != Said::Well).into()),
            said,
        });
        if let Some(words) = news {
            self.say(words);
        }
    }

    /// Why the hooks of `undo.d` wait until they are run again, if they do.
    pub(super) fn undo_waits(&self) -> Option<&str> {
        let round = self.memory.hooks.round.as_ref()?;
        let last = self.last(Hook::Undo)?;
        last.said.no().filter(|_| !round.runs)
    }

    /// A person has mended what they need: they are run again at once.
    pub(super) fn undo_again(&mut self) {
        if self.undo_waits().is_some() {
            self.memory.hooks.round = None;
        }
    }

    /// What asks for the reboot, for them: what the hold is for.
    pub fn hold_reasons(&self) -> String {
        let request = self.facts.record.request.as_ref();
        request.map(reasons).unwrap_or_default()
    }

    /// From when on a round must have been begun to count. None: none counts.
    fn counts_from(&self, hook: Hook) -> Option<Duration> {
        match hook {
            Hook::PreDrain | Hook::Undo => Some(Duration::ZERO),
            // A pod that came late was drained after it.
            Hook::PreReboot => self.memory.done,
            // One of this proof.
            Hook::PostBoot => self.memory.verifying,
            Hook::Gate => None,
        }
    }

    /// The last round of this kind that has ended, if it is one of this hold and counts.
    fn last(&self, hook: Hook) -> Option<&Last> {
        let hold = self.facts.record.hold.as_ref()?;
        let round = self.memory.hooks.round.as_ref()?;
        let same = (round.hook, round.hold) == (hook, hold.take.acquire_time);
        let last = round.last.as_ref().filter(|_| same)?;
        (last.begun >= self.counts_from(hook)?).then_some(last)
    }

    fn hooks_run(&self) -> bool {
        let round = self.memory.hooks.round.as_ref();
        round.is_some_and(|round| round.runs)
    }

    fn stand(&self, hook: Hook) -> Stand {
        match self.memory.hooks.looked.get(&hook) {
            None => Stand::Unlooked,
            Some(Err(why)) => Stand::Unknown(why.clone()),
            // One that still runs is waited for, whatever became of its file.
            Some(Ok(false)) if !self.hooks_run() => Stand::None,
            Some(Ok(_)) => Stand::Some {
                running: self.hooks_run(),
                last: self.last(hook).cloned(),
            },
        }
    }

    /// How those stand that the stage of the hold runs.
    pub(super) fn hooks_stand(&self) -> Standing {
        match self.hooks_wanted() {
            Some(Hook::PreDrain | Hook::PreReboot | Hook::Undo) => Standing {
                pre_drain: self.stand(Hook::PreDrain),
                pre_reboot: self.stand(Hook::PreReboot),
                undo: self.stand(Hook::Undo),
            },
            Some(Hook::Gate | Hook::PostBoot) | None => Standing::default(),
        }
    }

    /// What the hooks say of the host that is to be proved; or what is missing, in words. What is not known is no yes (I8).
    pub(super) fn post_boot(&self) -> Result<(), String> {
        let directory = Hook::PostBoot.directory();
        match self.stand(Hook::PostBoot) {
            Stand::None => Ok(()),
            Stand::Unlooked => Err(format!(
                "not known which hooks there are in {directory}: nobody has looked yet"
            )),
            Stand::Unknown(why) => Err(why),
            Stand::Some { last, .. } => match last.map(|last| last.said) {
                Some(Said::Well) => Ok(()),
                Some(Said::NotNow(why) | Said::Failed(why)) => Err(why),
                None => Err(format!("the hooks of {directory} have not answered yet")),
            },
        }
    }
}
