//! What the configured Prometheus servers said, and when each is to be asked (I2, I7, I8).
//!
//! They are asked beside the loop, which never waits. An answer counts from when it was asked for, and not for long, and
//! only if it was asked for late enough: as for the commands of the gate, [`Machine::answers_after`] says since when.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Machine;
use crate::alerts::{Asks, OnError, Source};
use crate::gates::{Gate, Said, Server};
use crate::now::Now;

/// Between two questions while a reboot waits and nothing is known to be active. Longer than the longest answer takes.
const PERIOD: Duration = Duration::from_secs(60);
/// While the gate is closed: whoever waits for it does not wait much longer than it takes.
const CLOSED: Duration = Duration::from_secs(30);
/// While a slot is held, and others wait for it.
const HELD: Duration = Duration::from_secs(15);
/// What was asked for longer ago is not known any more: a question and its two requests, of 30 s each, with a rest.
const OLD: Duration = Duration::from_secs(180);

/// What was seen of one.
#[derive(Debug, Clone, Default)]
pub(super) struct One {
    /// When it was asked last.
    asked: Option<Duration>,
    answer: Option<Answer>,
}

#[derive(Debug, Clone)]
struct Answer {
    asked: Duration,
    /// What speaks against a reboot, in words; or why it could not be asked.
    said: Result<Option<String>, String>,
}

/// What was seen of all, by name.
pub(super) type Seen = BTreeMap<String, One>;

impl One {
    /// It was asked then, and not again since.
    pub(super) fn was_asked(&self, at: Duration) -> bool {
        self.asked == Some(at)
    }

    /// It is asked now.
    pub(super) fn asks(&mut self, now: Now) {
        self.asked = Some(now.boot);
    }

    /// What it said that was asked for at `asked`.
    pub(super) fn answers(&mut self, asked: Duration, said: Result<Option<String>, String>) {
        self.answer = Some(Answer { asked, said });
    }

    /// Its last answer, while that is not too old, and when it was asked for.
    pub(super) fn last(&self, now: Now) -> Option<(Duration, &Result<Option<String>, String>)> {
        self.known(now).map(|answer| (answer.asked, &answer.said))
    }

    /// How long between two questions; `held`: a slot is held, and others wait for it.
    pub(super) fn period(&self, held: bool) -> Duration {
        let answer = self.answer.as_ref();
        let quiet = answer.is_none_or(|answer| answer.said == Ok(None));
        if held {
            HELD
        } else if quiet {
            PERIOD
        } else {
            CLOSED
        }
    }

    /// Its last answer, while that is not too old.
    fn known(&self, now: Now) -> Option<&Answer> {
        let answer = self.answer.as_ref();
        answer.filter(|answer| now.since(answer.asked) <= OLD)
    }

    /// How long until it is to be asked; `since`: its answer has to be one that was asked for since then.
    pub(super) fn rest(&self, period: Duration, since: Duration, now: Duration) -> Duration {
        let Some(asked) = self.asked else {
            return Duration::ZERO;
        };
        let answered = self.answer.as_ref().map(|answer| answer.asked) == Some(asked);
        let due = match (answered, asked < since) {
            (true, true) => return Duration::ZERO,
            (true, false) => asked.saturating_add(period),
            // An answer always comes; where none does, this is no reason to stop asking.
            (false, _) => asked.saturating_add(OLD),
        };
        due.saturating_sub(now)
    }
}

impl Machine {
    /// Whom to ask now, by name: whoever asks tells it by [`Self::asks_alerts`].
    pub fn alerts_due(&mut self, now: Now) -> Vec<String> {
        let Some(after) = self.answers_after(now.boot) else {
            // Nothing rests on it: what was said is void.
            self.memory.alerts.clear();
            return Vec::new();
        };
        let names = self.config.gates.prometheus.iter().map(|one| &one.name);
        let due = names.filter(|name| self.alerts_rest(name, after, now.boot).is_zero());
        due.cloned().collect()
    }

    /// It is asked now.
    pub fn asks_alerts(&mut self, name: &str, now: Now) {
        let one = self.memory.alerts.entry(name.to_owned()).or_default();
        one.asked = Some(now.boot);
    }

    /// What it said that was asked for at `asked`.
    pub fn saw_alerts(
        &mut self,
        name: &str,
        asked: Duration,
        said: Result<Option<String>, String>,
    ) {
        // Nobody asks it any more.
        let Some(one) = self.memory.alerts.get_mut(name) else {
            return;
        };
        let failed = |answer: &Answer| answer.said.is_err();
        let before = one.answer.as_ref().is_some_and(failed);
        let mut sources = self.config.gates.prometheus.iter();
        let open = sources.any(|it| it.name == name && it.on_error == OnError::Open);
        let words = match &said {
            Err(why) if open && !before => Some(format!(
                "Prometheus {name:?} cannot be asked, and counts as if nothing were active: {why}"
            )),
            _ => None,
        };
        one.answer = Some(Answer { asked, said });
        if let Some(words) = words {
            self.say(words);
        }
    }

    fn alerts_rest(&self, name: &str, after: Duration, now: Duration) -> Duration {
        let seen = &self.memory.alerts;
        let quiet = |one: &One| {
            let answer = one.answer.as_ref();
            answer.is_none_or(|answer| answer.said == Ok(None))
        };
        let period = if self.facts.record.hold.is_some() {
            HELD
        } else if seen.values().all(quiet) {
            PERIOD
        } else {
            CLOSED
        };
        let one = seen.get(name);
        one.map_or(Duration::ZERO, |one| one.rest(period, after, now))
    }

    /// How long until the next question, at most.
    pub(super) fn alerts_poll(&self, now: Duration) -> Duration {
        let Some(after) = self.answers_after(now) else {
            return Duration::MAX;
        };
        let names = self.config.gates.prometheus.iter().map(|one| &one.name);
        let rests = names.map(|name| self.alerts_rest(name, after, now));
        rests.min().unwrap_or(Duration::MAX)
    }

    /// What each said, as far as it counts.
    pub(super) fn servers(&self, now: Now) -> Vec<Server<'_>> {
        let after = self.answers_after(now.boot).unwrap_or_default();
        let sources = self.config.gates.prometheus.iter();
        let server = sources.map(|source| {
            let one = self.memory.alerts.get(&source.name);
            let said = match one
                .and_then(|one| one.known(now))
                .filter(|answer| answer.asked >= after)
            {
                None => Said::Asked,
                Some(answer) => match &answer.said {
                    Ok(None) => Said::Nothing,
                    Ok(Some(words)) => Said::Against(words),
                    Err(why) => Said::Failed(why),
                },
            };
            Server {
                name: &source.name,
                on_error: source.on_error,
                query: matches!(source.asks, Asks::Query(_)),
                said,
            }
        });
        server.collect()
    }

    /// Since when all that counts was asked for, if each has answered.
    pub(super) fn alerts_asked(&self, now: Now) -> Option<Duration> {
        if self.keeps() || self.forced(Gate::Alerts, now) {
            return Some(Duration::MAX);
        }
        let asked = |source: &Source| {
            let one = self.memory.alerts.get(&source.name);
            one.and_then(|one| one.known(now))
                .map(|answer| answer.asked)
        };
        let sources = self.config.gates.prometheus.iter();
        // Without any there is nothing to wait for.
        sources.map(asked).min().unwrap_or(Some(Duration::MAX))
    }
}
