//! What every phase of a hold rests on: the slot, the Node, the label and the cordon are still this hold's (I1-I3). And how
//! a hold goes on, or back.

use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

use super::context::{Context, Step};
use super::timed;
use crate::effect::Effect;
use crate::facts::Point;
use crate::gates::Gate;
use crate::names;
use crate::node::{Node, Seen};
use crate::node_fields;
use crate::phase::Phase;
use crate::record::{Hold, Kept, Record, Stage, Why};
use crate::trigger::{Latched, Request, wish};

/// How long a stage before logind may take that has nothing to wait for but answers; then it undoes (I2, I7).
const DEADLINE: Duration = Duration::from_secs(5 * 60);

/// What a phase needs before it goes on; `Break`: the step that comes instead, which finds it out, makes it so or undoes.
pub(super) type Needs<T> = ControlFlow<Step, T>;

/// Whether the slot is still ours (I2): a watch alone is not believed when it says no.
pub(super) enum Holding {
    Yes,
    Lost,
    /// Ask the API server.
    Ask,
}

impl<'a> Context<'a> {
    pub(super) fn holding(&self, hold: &Hold) -> Holding {
        match self.lease(&hold.take.lease) {
            Some(lease) if hold.matches(lease, self.me) => Holding::Yes,
            Some(lease) if lease.read.is_some() => Holding::Lost,
            None if self.facts.absent.contains_key(&hold.take.lease) => Holding::Lost,
            Some(_) | None => Holding::Ask,
        }
    }

    /// The own Node, or the step that finds out; a Node that is gone is the caller's to judge.
    pub(super) fn node(&self, phase: Phase) -> Needs<Option<&'a Node>> {
        match &self.facts.node {
            Seen::Unknown => Break(self.step(phase, Effect::ReadNode, "reading the own Node")),
            Seen::Absent => Continue(None),
            Seen::Present(node) => Continue(Some(node)),
        }
    }

    /// The apply of this step of the hold was answered in this process.
    pub(super) fn applied(&self, hold: &Hold) -> bool {
        self.facts
            .applied
            .is_some_and(|applied| applied.point == Point::of(hold))
    }
}

/// `hold` at its next stage, in a record.
pub(super) fn advance(context: &Context, hold: &Hold, stage: Stage) -> Record {
    let mut record = context.facts.record.clone();
    record.hold = Some(Hold {
        step: hold.step + 1,
        stage,
        ..hold.clone()
    });
    record
}

/// The step that applies the whole set of ours, with `record` durable first.
pub(super) fn apply(
    context: &Context,
    phase: Phase,
    record: Record,
    node: &Node,
    status: impl Into<String>,
) -> Step {
    let record = keeping(context, record, node);
    // As it will be on disk.
    let record = timed::carried(context.facts, record, context.now);
    let effect = Effect::Apply {
        set: context.set(&record, node),
        point: Point::of_record(&record),
    };
    Step {
        record,
        ..context.step(phase, effect, status)
    }
}

/// `record`, whose apply is next: where that would take the cordon of the hold off and a person has paused the Node, it is
/// kept (I3), whatever ended the hold and whenever the pause came. An order to give all back keeps nothing.
pub(super) fn keeping(context: &Context, mut record: Record, node: &Node) -> Record {
    let (Some(hold), None) = (&record.hold, &record.kept) else {
        return record;
    };
    let ends = match &hold.stage {
        Stage::Taking | Stage::Claiming | Stage::Draining | Stage::Drained | Stage::Rebooting => {
            false
        }
        Stage::Undoing(why) => *why != Why::Ordered,
        Stage::Uncordoned | Stage::Releasing => true,
    };
    let same = hold.node_uid.as_ref() == Some(&node.uid);
    let ours = !hold.foreign_cordon && node_fields::ours_or_unowned(node);
    if let Some(why) = node.annotations.get(names::PAUSED)
        && ends
        && same
        && ours
    {
        record.kept = Some(Kept {
            node_uid: node.uid.clone(),
            since: context.now.wall,
            why: wish(why),
        });
    }
    record
}

/// Nothing was rebooted: from here on only take back (I3, I4).
pub(super) fn undo(context: &Context, hold: &Hold, why: Why) -> Step {
    let why = why.bounded();
    let mut record = context.facts.record.clone();
    if why == Why::Uncordoned {
        // Who uncordons a node that is kept drained wants that to end: it is not drained again.
        let request = record.request.take();
        record.request = request.and_then(|request| request.without(Latched::keeps));
    }
    let status = format!("undoing: {}", why.words());
    record.hold = Some(Hold {
        step: hold.step + 1,
        stage: Stage::Undoing(why),
        ..hold.clone()
    });
    // The effect comes with the next decision: the intent is durable first.
    Step {
        record,
        ..context.step(Phase::Undoing, Effect::Wait, status)
    }
}

/// `step`, or the undoing when its stage has had its time: it names what was waited for.
pub(super) fn in_time(context: &Context, hold: &Hold, step: Step) -> Step {
    let same = step.record.hold.as_ref().map(|hold| &hold.stage) == Some(&hold.stage);
    if context.facts.in_stage < DEADLINE || !same || step.effect == Effect::AskReboot {
        return step;
    }
    let why = format!(
        "{} took longer than {} min, the API server is slow or silent, or refuses; the last step was: {}",
        step.phase,
        DEADLINE.as_secs() / 60,
        step.status
    );
    undo(context, hold, Why::Reboot(why))
}

/// Nothing ends the hold, or its undoing. Gates as `heeded` says: each costs more the further the hold is.
pub(super) fn unopposed(
    context: &Context,
    hold: &Hold,
    heeded: impl Fn(Gate) -> bool,
) -> Needs<()> {
    match objection(context, hold, heeded) {
        Some(why) => Break(undo(context, hold, why)),
        None => Continue(()),
    }
}

/// What ends a hold before logind was asked.
fn objection(context: &Context, hold: &Hold, heeded: impl Fn(Gate) -> bool) -> Option<Why> {
    if !context.facts.writable {
        return Some(Why::Unwritable);
    }
    if context.facts.record.request.is_none() && !hold.asked() {
        return Some(Why::Withdrawn);
    }
    // Windows, live patches and others may have been passed for a wish alone. What else asks queues anew, with all gates (I2).
    let asks = |by: &String| {
        let request = context.facts.record.request.iter();
        let mut wishes = request.flat_map(|request| &request.latched);
        wishes.any(|wish| wish.asker() == by)
    };
    if !hold.asked() && !hold.askers.iter().all(asks) {
        return Some(Why::Withdrawn);
    }
    if let Seen::Present(node) = &context.facts.node
        && let Some(why) = node.annotations.get(names::PAUSED)
    {
        return Some(Why::Paused(why.clone()));
    }
    if context.policy.observe {
        return Some(Why::Gate("mode is \"observe\"".to_owned()));
    }
    // A person's wish may have been taken back meanwhile, and what is left is counted (I10).
    let automatic = |request: &Request| request.automatic() && !hold.asked();
    if context.facts.limited.is_some()
        && context.facts.record.request.as_ref().is_some_and(automatic)
    {
        return Some(Why::Gate("reboot.max_per_day is reached".to_owned()));
    }
    let mut closed = context.facts.closed.iter();
    // Who has not answered yet is waited for, by the phase that needs the answer.
    let awaited = |gate: Gate| context.facts.answers.awaited.contains(&gate);
    let gate = closed.find(|closed| heeded(closed.gate) && !awaited(closed.gate))?;
    Some(Why::Gate(gate.why.to_string()))
}

/// The Node this hold labelled is there, or why the hold ends.
pub(super) fn same_node<'a>(context: &Context<'a>, hold: &Hold, phase: Phase) -> Needs<&'a Node> {
    let Some(node) = context.node(phase)? else {
        return Break(undo(context, hold, Why::NodeReplaced));
    };
    match &hold.node_uid {
        Some(uid) if *uid != node.uid => Break(undo(context, hold, Why::NodeReplaced)),
        _ => Continue(node),
    }
}

/// The slot is ours, or the step that finds out, or the undoing.
pub(super) fn still_ours(context: &Context, hold: &Hold, phase: Phase) -> Needs<()> {
    match context.holding(hold) {
        Holding::Yes => Continue(()),
        Holding::Lost => Break(undo(context, hold, Why::Lost)),
        Holding::Ask => {
            let effect = Effect::ReadLease(hold.take.lease.clone());
            Break(context.step(phase, effect, "asking whether the slot is still held"))
        }
    }
}

/// The cordon of this hold is on the Node, or the step that puts it there, or the cancelling by
/// somebody's uncordon: seen by a consistent read, as a watch may lag behind our own apply.
pub(super) fn cordoned<'a>(context: &Context<'a>, hold: &Hold, phase: Phase) -> Needs<&'a Node> {
    let node = same_node(context, hold, phase)?;
    if !node_fields::carries(node, hold) {
        if node.read.is_none() {
            return Break(context.step(phase, Effect::ReadNode, "reading the own Node"));
        }
        // The label came before the cordon: where it is gone somebody took it, and whoever looked since
        // may have taken the slot (I1). Setting it again would be one claim too many.
        if !node_fields::knows(node, hold) {
            return Break(undo(context, hold, Why::Lost));
        }
        // Cordoned by an earlier step of this hold, and not any more: somebody uncordoned it beside this step.
        if !node.unschedulable && node_fields::cordoned_before(node, hold) {
            return Break(undo(context, hold, Why::Uncordoned));
        }
        let record = context.facts.record.clone();
        return Break(apply(context, phase, record, node, "cordoning the node"));
    }
    if node.unschedulable {
        return Continue(node);
    }
    Break(match node.read {
        Some(_) => undo(context, hold, Why::Uncordoned),
        None => context.step(
            phase,
            Effect::ReadNode,
            "asking whether the node was uncordoned",
        ),
    })
}
