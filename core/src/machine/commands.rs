//! What the commands of the gate said, and whether that is new enough (I2, I8).
//!
//! An answer counts for a while. Once a slot is held, only one that was asked for after the own label was there counts; once
//! the node is drained, only one from after that, and before logind is asked again, only one from when that is due.

use std::time::Duration;

use super::Machine;
use crate::decide::{armed, labelled, next_ask};
use crate::gates::{Commands, Gate};
use crate::hook::{Answer, reasons};
use crate::now::Now;
use crate::record::{Hold, Stage};

/// A command of the gate, as whoever runs it knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// In messages.
    pub name: String,
    /// How long an answer counts, from when it was asked for.
    pub lasts: Duration,
    /// The last answer, and the boot time at which it was asked for.
    pub answer: Option<(Duration, Answer)>,
}

/// All of them, in the order in which they are told; or why it is not known which there are. None: nobody has looked.
pub(super) type Seen = Option<Result<Vec<Asked>, String>>;

impl Machine {
    /// From which boot time on the commands, and Prometheus, must have been asked for their answers to count. None: nothing
    /// rests on them.
    pub fn answers_after(&self, now: Duration) -> Option<Duration> {
        if !self.packages_matter() || self.keeps() {
            return None;
        }
        let hold = self.facts.record.hold.as_ref();
        Some(hold.map_or(Duration::ZERO, |hold| self.moment(hold, now)))
    }

    /// What asks for the reboot, for them.
    pub fn reasons(&self) -> String {
        let request = self.facts.observed.request.as_ref();
        request.map(reasons).unwrap_or_default()
    }

    pub(super) fn keeps(&self) -> bool {
        let request = self.facts.observed.request.as_ref();
        request.is_some_and(crate::trigger::Request::keeps)
    }

    fn moment(&self, hold: &Hold, now: Duration) -> Duration {
        match hold.stage {
            Stage::Claiming => labelled(&self.facts, hold),
            Stage::Draining | Stage::Rebooting => {
                let drained = self.memory.done.map(|done| done + self.config.reboot.delay);
                let within = hold.granted_within(self.config.reboot_within(hold.granted));
                let again = next_ask(&self.facts, within, hold);
                let again = again.filter(|_| !armed(&self.facts, hold));
                // A run that begins before it does not count.
                let past = |moment: &Duration| *moment <= now;
                drained.filter(past).max(again.filter(past))
            }
            Stage::Taking
            | Stage::Drained
            | Stage::Uncordoned
            | Stage::Releasing
            | Stage::Undoing(_) => None,
        }
        .unwrap_or_default()
    }

    /// What they say now.
    pub(super) fn commands(&self, now: Now) -> Commands {
        let all = match &self.memory.commands {
            // Nothing rests on it now; whatever does must look first (I8).
            None => return Commands::Unlisted("nobody has looked yet".to_owned()),
            Some(Err(why)) => return Commands::Unlisted(why.clone()),
            Some(Ok(all)) => all,
        };
        let after = self.answers_after(now.boot).unwrap_or_default();
        let (mut unknown, mut awaited) = (None, None);
        for one in all {
            let name = || one.name.clone();
            let new = |asked: Duration| asked >= after && now.since(asked) <= one.lasts;
            match &one.answer {
                Some((asked, answer)) if new(*asked) => match answer {
                    Answer::Yes => {}
                    Answer::NotNow(why) => return Commands::NotNow(name(), why.clone()),
                    Answer::Unknown(why) => {
                        unknown.get_or_insert_with(|| Commands::Unknown(name(), why.clone()));
                    }
                },
                _ => {
                    awaited.get_or_insert_with(|| Commands::Awaited(name()));
                }
            }
        }
        unknown.or(awaited).unwrap_or(Commands::Yes)
    }

    /// Since when all that counts was asked for, if each has answered.
    pub(super) fn commands_asked(&self, now: Now) -> Option<Duration> {
        if self.keeps() || self.forced(Gate::Commands, now) {
            return Some(Duration::MAX);
        }
        let Some(Ok(all)) = &self.memory.commands else {
            return None;
        };
        let asked = |one: &Asked| {
            let asked = one.answer.as_ref().map(|(asked, _)| *asked);
            asked.filter(|asked| now.since(*asked) <= one.lasts)
        };
        // Without any there is nothing to wait for.
        all.iter().map(asked).min().unwrap_or(Some(Duration::MAX))
    }

    /// What the commands said last, or why it is not known which there are.
    pub fn saw_commands(&mut self, seen: Result<Vec<Asked>, String>) {
        self.memory.commands = Some(seen);
    }

    /// Nothing rests on them: what they said is void.
    pub fn forget_commands(&mut self) {
        self.memory.commands = None;
    }
}
