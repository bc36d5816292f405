//! What the files of this folder share: the step that they answer with, and what a decision rests on.

use std::time::Duration;

use super::policy::Policy;
use crate::before::Before;
use crate::budget;
use crate::drain::Mode;
use crate::effect::Effect;
use crate::facts::{Facts, Point};
use crate::gates::Gate;
use crate::node::Node;
use crate::node_fields::NodeFields;
use crate::now::Now;
use crate::peers::Peers;
use crate::phase::Phase;
use crate::reason::Reason;
use crate::record::{Hold, Record};
use crate::slot::Lease;
use crate::text::span;

/// How old a look at the host may be when a take, a cordon or a reboot rests on it (I2).
pub(super) const FRESH: Duration = Duration::from_secs(5);
/// How old an answer of the API server may be when the next request rests on it. No proof of anything, that is the order
/// of the requests and the conditions of the writes; but what is older is asked for again. Longer than what
/// belongs together takes from the slowest server that is still believed to answer (15 s a request).
pub(super) const RECENT: Duration = Duration::from_secs(60);
/// A person's look at a phase that waits: when to decide again although nothing changed. Long, as
/// every change wakes the daemon by itself.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(300);
/// How soon it is looked whether those whom a gate asks are asked: each answer wakes by itself.
const ANSWERS_AGAIN: Duration = Duration::from_secs(1);

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub phase: Phase,
    /// Why it is there.
    pub reason: Reason,
    /// To be durable before the effect.
    pub record: Record,
    pub effect: Effect,
    /// Boot time at which to decide again though nothing changed.
    pub wake: Option<Duration>,
    /// One sentence for people: what this phase does or waits for.
    pub status: String,
    /// What keeps a request pending beside gates, or in the queue beside holders, in words that change only when that
    /// changes: no countdowns.
    pub waits: Option<String>,
    /// What an observer would do, for the journal.
    pub would: Option<String>,
}

impl Step {
    /// `effect`, with the record as it is.
    pub(super) fn of(
        facts: &Facts,
        phase: Phase,
        effect: Effect,
        status: impl Into<String>,
    ) -> Self {
        Self {
            phase,
            reason: Reason::of(phase),
            record: facts.record.clone(),
            effect,
            wake: None,
            status: status.into(),
            waits: None,
            would: None,
        }
    }
}

/// What one decision rests on, as its parts share it.
pub(super) struct Context<'a> {
    pub(super) facts: &'a Facts,
    pub(super) policy: &'a Policy,
    /// Name of the own Node.
    pub(super) me: &'a str,
    pub(super) now: Now,
}

impl<'a> Context<'a> {
    /// None as long as the name of the own Node is not known.
    pub(super) fn of(facts: &'a Facts, policy: &'a Policy, now: Now) -> Option<Self> {
        let me = policy.me.as_deref()?;
        Some(Self {
            facts,
            policy,
            me,
            now,
        })
    }

    pub(super) fn step(&self, phase: Phase, effect: Effect, status: impl Into<String>) -> Step {
        Step::of(self.facts, phase, effect, status)
    }

    pub(super) fn wait(&self, phase: Phase, wake: Duration, status: impl Into<String>) -> Step {
        let mut step = self.step(phase, Effect::Wait, status);
        step.wake = Some(wake);
        step
    }

    /// Waits for a change that wakes by itself.
    pub(super) fn stay(&self, phase: Phase, status: impl Into<String>) -> Step {
        self.wait(phase, self.now.boot + LOOK_AGAIN, status)
    }

    /// What of the host is to be on record in `hold`, to be compared after the reboot.
    pub(super) fn before(&self, hold: Option<&Hold>) -> Before {
        let earlier = hold.map(|hold| &hold.before);
        self.facts.before.clone().or(earlier)
    }

    /// A look at the host that began at `asked` still counts.
    pub(super) fn fresh(&self, asked: Option<Duration>) -> bool {
        asked.is_some_and(|asked| self.now.since(asked) <= FRESH)
    }

    /// Waits for whom gates ask beside the loop; `where_it_is` in words.
    pub(super) fn answers(&self, phase: Phase, where_it_is: &str) -> Step {
        let awaits = |gate| self.facts.answers.awaited.contains(&gate);
        let (alerts, commands) = (awaits(Gate::Alerts), awaits(Gate::Commands));
        let waits = match (alerts, commands) {
            (true, true) => "waiting for the answers of Prometheus and of the gate's commands",
            (true, false) => "waiting for the answer of Prometheus",
            (false, false) if awaits(Gate::Capacity) => {
                "waiting for the list of pods that wait for room"
            }
            (false, false) if awaits(Gate::ApiServers) => {
                "waiting for the answers of the other API servers"
            }
            (false, _) => "waiting for the answers of the gate's commands",
        };
        let status = format!("{where_it_is}: {waits}");
        Step {
            waits: (phase == Phase::Rebooting).then(|| waits.to_owned()),
            ..self.wait(phase, self.now.boot + ANSWERS_AGAIN, status)
        }
    }

    /// An answer of the API server that was asked for at `asked` still counts.
    pub(super) fn recent(&self, asked: Duration) -> bool {
        self.now.since(asked) <= RECENT
    }

    /// How long it is until then, in whole seconds and never none.
    pub(super) fn left(&self, then: Duration) -> String {
        let seconds = then.saturating_sub(self.now.boot).as_secs() + 1;
        span(Duration::from_secs(seconds))
    }

    /// All of ours that `node` should carry with `record`; where that was refused, as little as it takes.
    pub(super) fn set(&self, record: &Record, node: &Node) -> NodeFields {
        let refused = self.facts.refused.as_ref();
        if refused.is_some_and(|refused| refused.point == Point::of_record(record)) {
            return NodeFields::least(record, node);
        }
        NodeFields::of(record, node)
    }

    pub(super) fn lease(&self, name: &str) -> Option<&Lease> {
        self.facts.leases.get(name)
    }
}

/// What keeps every node from a slot while the Nodes are as `peers` shows them: too many are down, or none
/// could take the pods of this one.
pub(super) fn too_few(context: &Context, peers: &Peers) -> Option<String> {
    let no_room = || budget::no_room(peers).filter(|_| context.policy.drain == Mode::Auto);
    budget::used_up(
        peers,
        context.policy.max_unavailable,
        context.policy.count_cordoned,
    )
    .or_else(no_room)
}
