//! When the Node's conditions are written (I7): soon after a state changed, seldom where only words did, and never in the
//! way of what matters.
//!
//! Nothing is told between the last reads and logind, and a refusal keeps nothing waiting: it is tried again later.

use std::time::Duration;

use jiff::Timestamp;

use super::Machine;
use super::conditions;
use crate::condition::{self, Condition, Difference, Event, Kind};
use crate::decide::{Policy, Step};
use crate::effect::{Effect, Tell};
use crate::facts::Facts;
use crate::names;
use crate::node::{Node, Seen};
use crate::notice::Notice;
use crate::now::Now;
use crate::phase::Phase;
use crate::reason::Reason;
use crate::record::Hold;
use crate::scatter::share;
use crate::slot::Keys;

/// Between two writes where the state changed: a state that comes and goes is not written each time.
const STATE: Duration = Duration::from_secs(5);
/// The same where only words changed: every write goes to all that watch Nodes.
const WORDS: Duration = Duration::from_secs(60);
/// So many changes of state within [`FLAPS`] are written soon, the next ones as words are: a gate that opens and closes all
/// day is not to be written each time.
const STATES: usize = 6;
const FLAPS: Duration = Duration::from_secs(10 * 60);
/// A condition that does not change is written again so often, as a sign of life; plus up to a tenth.
const HEARTBEAT: Duration = Duration::from_secs(60 * 60);
/// After a start within this time: one that is restarted each hour gives signs of life as well.
const STARTED: Duration = Duration::from_secs(10 * 60);
/// After a refusal, or where somebody takes away what is written: a person must mend that first.
const REFUSED: Duration = Duration::from_secs(10 * 60);
/// After a request without an answer.
const UNANSWERED: Duration = Duration::from_secs(60);
/// Nodes that come to wait at the same moment tell so within this time.
const SPREAD: Duration = Duration::from_secs(30);
/// A trigger without an answer is told when it has had none for so long: at a start, and while a package manager works, none
/// has one.
const UNSURE: Duration = Duration::from_secs(10 * 60);
/// A node that does one thing after another and never comes to rest, as its requests are refused, tells what it does.
const RESTLESS: Duration = Duration::from_secs(10);

/// What was told, and when something may be told again.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    /// When this process could tell for the first time.
    begun: Option<Duration>,
    /// The last write, and what it was if it was answered.
    at: Option<Duration>,
    last: Option<Tell>,
    /// When states changed of late.
    states: Vec<Duration>,
    /// How much the Node has not shown yet, and since when.
    news: Option<(Difference, Duration)>,
    not_before: Duration,
    /// Why the last one failed, as it was said.
    trouble: Option<String>,
    /// Since when no step was a wait.
    restless: Option<Duration>,
    quiet: bool,
    /// Annotations were refused: conditions are told without them until this boot time.
    bare: Option<Duration>,
}

/// Where in the daemon's work a word fits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// Nothing else is to be done now.
    Idle,
    /// Before the reads that the reboot rests on: after them nothing is told.
    Last,
    None,
}

impl Machine {
    /// This step, or first what is to be told; with when that is due at the latest.
    pub(super) fn tells(&mut self, step: Step, policy: &Policy, now: Now) -> Step {
        let Seen::Present(node) = &self.facts.node else {
            return step;
        };
        let room = self.memory.told.room(&step, &self.facts, now.boot);
        if room == Room::None || policy.me.is_none() {
            return step;
        }
        let wanted = Tell {
            uid: node.uid.clone(),
            conditions: conditions::wanted(&step, &self.facts, policy, &node.conditions, now.wall),
            annotations: match room {
                // Were they refused, the reboot would wait for a second try.
                Room::Last => Keys::new(),
                Room::Idle | Room::None => self.memory.told.introduces(policy, node, now.boot),
            },
            event: None,
            topic: None,
        };
        let due = (self.memory.told).due(wanted, node, &step, room, now.boot);
        match due {
            Ok(tell) => Step {
                effect: Effect::Tell(tell),
                ..step
            },
            Err(due) if step.effect == Effect::Wait => {
                let wake = Some(step.wake.map_or(due, |wake| wake.min(due)));
                Step { wake, ..step }
            }
            Err(_) => step,
        }
    }

    /// What people are told of it besides, once it is written.
    pub fn notice(&self, node: &Node, tell: &Tell, wall: Timestamp) -> Option<Notice> {
        let topic = tell.topic?;
        let ours = |one: &&Condition| one.kind == Kind::RebootRequired;
        let required = tell.conditions.iter().find(ours)?;
        Some(Notice {
            topic,
            node: node.name.clone(),
            group: self.group(),
            reason: required.reason.clone(),
            message: required.message.clone(),
            at: wall,
        })
    }

    /// It was written, and this is what the Node is now.
    pub fn told(&mut self, node: Node, tell: Tell, at: Duration) {
        self.read_node(Some(node));
        let told = &mut self.memory.told;
        told.trouble = None;
        told.at = Some(at);
        told.states
            .retain(|state| at.saturating_sub(*state) <= FLAPS);
        if !(told.last.as_ref()).is_some_and(|last| same_states(&last.conditions, &tell.conditions))
        {
            told.states.push(at);
        }
        told.last = Some(tell);
    }

    /// It was not, and why; `refused`: for good.
    ///
    /// Whoever may write on Nodes can fill their annotations (256 KiB): the conditions are told all the same.
    pub fn not_told(&mut self, tell: &Tell, why: &str, refused: bool, at: Duration) {
        let told = &mut self.memory.told;
        if refused && !tell.annotations.is_empty() {
            let first = told.bare.replace(at + HEARTBEAT).is_none();
            if first {
                self.say(format!(
                    "group and version cannot be written on the Node: {why}"
                ));
            }
            return;
        }
        told.not_before = at + if refused { REFUSED } else { UNANSWERED };
        if !refused {
            // It may have been done: what the Node shows then is not another's doing.
            told.last = None;
        }
        if told.trouble.as_deref() != Some(why) {
            told.trouble = Some(why.to_owned());
            self.say(format!("the Node's conditions cannot be written: {why}"));
        }
    }

    /// For who only gives back: there will be nobody to say that it is over.
    pub fn tells_nothing(&mut self) {
        self.memory.told.quiet = true;
    }

    /// What takes away all that this daemon told; none: there is nothing.
    pub fn untells(&self) -> Option<Tell> {
        let Seen::Present(node) = &self.facts.node else {
            return None;
        };
        let ours = condition::ours(&node.conditions);
        let mut annotations = node.annotations.clone();
        annotations.retain(|key, _| names::OF_THE_DAEMON.contains(&key.as_str()));
        (!ours.is_empty() || !annotations.is_empty()).then(|| Tell {
            uid: node.uid.clone(),
            conditions: ours,
            annotations,
            event: None,
            topic: None,
        })
    }
}

impl Told {
    /// This process only gives back.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    fn room(&mut self, step: &Step, facts: &Facts, now: Duration) -> Room {
        let waits = step.effect == Effect::Wait || step.phase == Phase::Rebooting;
        let since = *self.restless.get_or_insert(now);
        if waits {
            self.restless = None;
        }
        if self.quiet || !facts.started || step.record != facts.record {
            return Room::None;
        }
        match (step.phase, &step.effect) {
            (Phase::Rebooting, Effect::Confirm { .. }) => Room::Last,
            // It has minutes for it, and somebody may have to look at it meanwhile. After the fence nothing is told (I2).
            (Phase::Rebooting, Effect::Wait)
                if step.reason == Reason::AwaitsUpdater
                    && !facts.record.hold.as_ref().is_some_and(Hold::asked) =>
            {
                Room::Idle
            }
            (Phase::Rebooting, _) => Room::None,
            (_, Effect::Wait) => Room::Idle,
            _ if now >= since + RESTLESS => Room::Idle,
            _ => Room::None,
        }
    }

    /// Who this daemon is, as far as the Node does not say so.
    fn introduces(&self, policy: &Policy, node: &Node, now: Duration) -> Keys {
        if self.bare.is_some_and(|until| now < until) {
            return Keys::new();
        }
        let all = [
            (names::GROUP, policy.group.as_str()),
            (names::VERSION, env!("CARGO_PKG_VERSION")),
        ];
        let lacks = |(key, value): &(&str, &str)| {
            node.annotations.get(*key).map(String::as_str) != Some(*value)
        };
        let lacking = all.into_iter().filter(lacks);
        lacking
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    /// What is to be told now, or else when.
    fn due(
        &mut self,
        wanted: Tell,
        node: &Node,
        step: &Step,
        room: Room,
        now: Duration,
    ) -> Result<Tell, Duration> {
        let begun = *self.begun.get_or_insert(now);
        let difference = condition::difference(&wanted.conditions, &node.conditions);
        let difference = if wanted.annotations.is_empty() {
            difference
        } else {
            difference.max(Difference::Words)
        };
        let since = self.news(difference, now);
        let last = self.last.as_ref().filter(|tell| tell.uid == node.uid);
        let known = last.is_some() || self.last.is_none();
        let at = self.at.filter(|_| known);
        let after = |pause: Duration| at.map_or(now, |at| at + pause);
        let taken_away = last.is_some_and(|tell| same(&tell.conditions, &wanted.conditions));
        let part = |time: Duration| share(time, &[&node.name, "tell"]);
        let due = match difference {
            Difference::None => match at {
                Some(at) => at + HEARTBEAT + part(HEARTBEAT / 10),
                None => begun + part(STARTED),
            },
            _ if taken_away => after(REFUSED),
            Difference::Words => after(WORDS).max(since + part(WORDS)),
            Difference::State if room == Room::Last => now,
            Difference::State if step.reason == Reason::TriggerUnknown => since + UNSURE,
            Difference::State => {
                let flaps = self.states.len() >= STATES;
                let pause = if flaps { WORDS } else { STATE };
                let spread = match step.phase {
                    // Only who waits is one of many.
                    Phase::Pending | Phase::Queued => part(SPREAD),
                    _ => Duration::ZERO,
                };
                after(pause).max(since + spread)
            }
        };
        let due = due.max(self.not_before);
        if now < due {
            return Err(due);
        }
        Ok(Tell {
            event: Event::of(&wanted.conditions, &node.conditions),
            topic: condition::topic(&wanted.conditions, &node.conditions),
            ..wanted
        })
    }

    /// Since when the Node has not shown what it is to show, whatever that was meanwhile.
    fn news(&mut self, difference: Difference, now: Duration) -> Duration {
        let known = self.news.filter(|(before, _)| *before == difference);
        let since = known.map_or(now, |(_, since)| since);
        self.news = Some((difference, since));
        since
    }
}

/// The same kinds in the same states.
fn same_states(one: &[Condition], other: &[Condition]) -> bool {
    let state = |one: &Condition| (one.kind, one.status, one.reason.clone());
    one.iter().map(state).eq(other.iter().map(state))
}

fn same(one: &[Condition], other: &[Condition]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.says(other))
}
