//! Which pods of the cluster wait for room on a node, and when that is to be asked (I2, I5, I7, I8).
//!
//! They are listed beside the loop, before the queue and once more after the own label is there. After the cordon nobody asks: then
//! the pods of this very drain may wait, and to undo it for them would have it begin anew, without end.
//!
//! A pod counts once it has waited for `gates.capacity_wait`, by what the scheduler wrote and this host's wall clock, or by how long
//! this process has seen it wait, whichever is longer. So clocks that differ close the gate early, or late by that time at most.

use std::time::Duration;

use jiff::Timestamp;

use super::Machine;
use crate::decide::labelled;
use crate::gates::{Capacity, Gate};
use crate::now::Now;
use crate::phase::Phase;

/// Between two lists while nothing is known to wait: before the cordon there is one more. A thousand nodes may wait at once.
const PERIOD: Duration = Duration::from_secs(300);
/// While the gate is closed: at most some eight lists a second of a thousand nodes.
const CLOSED: Duration = Duration::from_secs(120);
/// After an attempt without an answer.
const RETRY: Duration = Duration::from_secs(30);
/// What was asked for longer ago is not known any more: [`PERIOD`], and a question that takes long.
const OLD: Duration = Duration::from_secs(600);
/// An answer always comes; where none does, this is no reason to stop asking. Longer than all pages of a list may take.
const LOST: Duration = Duration::from_secs(240);

/// A pod for which the scheduler found no room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unplaced {
    pub uid: String,
    /// Namespace and name.
    pub path: String,
    /// Since when, by the clock of the scheduler's host; none: it does not say.
    pub since: Option<Timestamp>,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    pub pods: Vec<Unplaced>,
    /// There are more, which were not looked at.
    pub more: bool,
}

/// How long one has waited.
#[derive(Debug, Clone)]
struct Waiting {
    uid: String,
    path: String,
    waited: Duration,
}

#[derive(Debug, Clone)]
struct Answer {
    asked: Duration,
    /// Boot time at which the times in it were true.
    at: Duration,
    /// Those that wait, the longest-waiting first, and whether there are more; or why they may not be listed.
    said: Result<(Vec<Waiting>, bool), String>,
}

/// What was seen of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// When they were asked for last.
    asked: Option<Duration>,
    /// No answer came to that, and why.
    trouble: Option<String>,
    answer: Option<Answer>,
}

impl Answer {
    /// How long `waiting` has waited now.
    fn waited(&self, waiting: &Waiting, now: Duration) -> Duration {
        waiting.waited + now.saturating_sub(self.at)
    }

    /// Those that have waited for `wait`, and whether there are more.
    fn counts(&self, wait: Duration, now: Duration) -> Result<(Vec<&Waiting>, bool), &str> {
        let (all, more) = self.said.as_ref().map_err(String::as_str)?;
        let long = |one: &&Waiting| self.waited(one, now) >= wait;
        Ok((all.iter().filter(long).collect(), *more))
    }
}

impl Seen {
    fn known(&self, now: Now) -> Option<&Answer> {
        let answer = self.answer.as_ref();
        answer.filter(|answer| now.since(answer.asked) <= OLD)
    }
}

impl Machine {
    /// From which boot time on they must have been asked for. None: nothing rests on it.
    fn capacity_after(&self) -> Option<Duration> {
        if self.config.gates.capacity_wait.is_zero() {
            return None;
        }
        match self.phase() {
            Phase::Idle | Phase::Pending | Phase::Queued => {
                let request = self.facts.observed.request.as_ref();
                request.map(|_| Duration::ZERO)
            }
            Phase::Claiming => {
                let hold = self.facts.record.hold.as_ref();
                let labelled = hold.and_then(|hold| labelled(&self.facts, hold));
                Some(labelled.unwrap_or_default())
            }
            Phase::Draining
            | Phase::Drained
            | Phase::Rebooting
            | Phase::Verifying
            | Phase::Releasing
            | Phase::Undoing => None,
        }
    }

    /// They are to be asked for now: whoever does tells it by [`Self::asks_capacity`].
    pub fn capacity_due(&mut self, now: Now) -> bool {
        let Some(after) = self.capacity_after() else {
            // What was seen is void.
            self.memory.capacity = Seen::default();
            return false;
        };
        let seen = &self.memory.capacity;
        let Some(asked) = seen.asked else {
            return true;
        };
        let answered = seen.answer.as_ref().map(|answer| answer.asked) == Some(asked);
        let pause = match (&seen.answer, &seen.trouble) {
            (_, Some(_)) => RETRY,
            (Some(_), None) if answered && asked < after => return true,
            (Some(answer), None) if answered => {
                let wait = self.config.gates.capacity_wait;
                match answer.counts(wait, now.boot) {
                    Ok((long, false)) if long.is_empty() => PERIOD,
                    Ok(_) | Err(_) => CLOSED,
                }
            }
            _ => LOST,
        };
        now.since(asked) >= pause
    }

    /// They are asked for now.
    pub fn asks_capacity(&mut self, now: Now) {
        let seen = &mut self.memory.capacity;
        (seen.asked, seen.trouble) = (Some(now.boot), None);
    }

    /// What was answered to what was asked for at `asked`: which there are, or why they may not be listed.
    pub fn saw_capacity(&mut self, asked: Duration, said: Result<Listed, String>, now: Now) {
        let seen = &mut self.memory.capacity;
        if seen.asked != Some(asked) {
            // Nobody waits for it any more.
            return;
        }
        let before = seen.answer.take();
        let waited = |uid: &str| {
            let before = before.as_ref()?;
            let (all, _) = before.said.as_ref().ok()?;
            let one = all.iter().find(|one| one.uid == uid)?;
            Some(before.waited(one, now.boot))
        };
        let said = said.map(|listed| {
            let all = listed.pods.into_iter().map(|pod| {
                let told = pod.since.map(|since| now.wall.duration_since(since));
                let told = told.and_then(|told| Duration::try_from(told).ok());
                Waiting {
                    waited: told
                        .unwrap_or_default()
                        .max(waited(&pod.uid).unwrap_or_default()),
                    uid: pod.uid,
                    path: pod.path,
                }
            });
            let mut all: Vec<Waiting> = all.collect();
            all.sort_by(|one, other| (other.waited, &one.path).cmp(&(one.waited, &other.path)));
            (all, listed.more)
        });
        let at = now.boot;
        seen.answer = Some(Answer { asked, at, said });
    }

    /// No answer came to what was asked for at `asked`: what was known before stands until it is too old.
    pub fn missed_capacity(&mut self, asked: Duration, why: String) {
        let seen = &mut self.memory.capacity;
        if seen.asked == Some(asked) {
            seen.trouble = Some(why);
        }
    }

    /// What the gate rests on.
    pub(super) fn capacity(&self, now: Now) -> Capacity {
        let Some(after) = self.capacity_after() else {
            return Capacity::Ignored;
        };
        let (seen, wait) = (&self.memory.capacity, self.config.gates.capacity_wait);
        let known = seen.known(now).filter(|answer| answer.asked >= after);
        match known.map(|answer| answer.counts(wait, now.boot)) {
            None => Capacity::Asked(seen.trouble.clone()),
            Some(Err(why)) => Capacity::Refused(why.to_owned()),
            Some(Ok((long, more))) => Capacity::Listed {
                count: long.len(),
                longest: long.first().map(|one| one.path.clone()),
                wait,
                more,
            },
        }
    }

    /// Since when what counts was asked for, if it was answered.
    pub(super) fn capacity_asked(&self, now: Now) -> Option<Duration> {
        if self.capacity_after().is_none() || self.forced(Gate::Capacity, now) {
            // There is nothing to wait for.
            return Some(Duration::MAX);
        }
        self.memory.capacity.known(now).map(|answer| answer.asked)
    }
}
