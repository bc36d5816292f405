//! Claiming: the take's answer, the label, the peers, the budget, the gates, the hooks; then the cordon (I1, I2, I5,
//! I8, I13).

use std::ops::ControlFlow::{Break, Continue};
use std::time::Duration;

use super::context::{Context, Step, too_few};
use super::held::{
    Holding, Needs, advance, apply, in_time, same_node, still_ours, undo, unopposed,
};
use super::hooks;
use super::release::backoff;
use crate::effect::Effect;
use crate::facts::{Facts, Point};
use crate::node::{Node, Seen};
use crate::node_fields;
use crate::peers::{Census, Claims, Peers};
use crate::phase::Phase;
use crate::record::{Hold, Record, Stage, Why};
use crate::slot::{Mark, TakeSaid};

/// A request on its way that had no answer can land this long after it was sent: the API server's
/// own request timeout (60 s) and some network.
const LATE: Duration = Duration::from_secs(75);
/// How long the smallest name of colliding control-plane nodes waits to be alone (I13).
const ALONE: Duration = Duration::from_secs(30);
/// How often it looks.
const ALONE_AGAIN: Duration = Duration::from_secs(1);

/// A take on record: sent again unchanged until its fate is known.
pub(super) fn taking(context: &Context, hold: &Hold) -> Step {
    let send = || {
        let status = format!("taking slot {}", hold.take.lease);
        context.step(Phase::Claiming, Effect::Take(hold.take.clone()), status)
    };
    match &context.facts.take.said {
        None => send(),
        Some(TakeSaid::Taken) => taken(context, hold),
        Some(TakeSaid::Conflict(when)) => believe(context, hold, *when),
        Some(TakeSaid::Refused(why)) => match context.facts.take.unanswered {
            Some(last) if context.now.boot < last + LATE => context.wait(
                Phase::Claiming,
                last + LATE,
                "waiting for a take that may still land",
            ),
            Some(last) => believe(context, hold, last + LATE),
            None => refused(context, why),
        },
    }
}

/// A policy or a role refuses the take, and would again: a failed attempt, after which the next one waits.
fn refused(context: &Context, why: &str) -> Step {
    let mut record = Record {
        hold: None,
        ..context.facts.record.clone()
    };
    record.backoff = Some(backoff(context, &record, &Why::Refused(why.to_owned())));
    Step {
        record,
        ..context.step(Phase::Pending, Effect::Wait, "the take was refused")
    }
}

/// A consistent read asked for after `when` decides.
fn believe(context: &Context, hold: &Hold, when: Duration) -> Step {
    let read = context.lease(&hold.take.lease).and_then(|lease| lease.read);
    let absent = context.facts.absent.get(&hold.take.lease).copied();
    if read.max(absent).is_none_or(|asked| asked < when) {
        let effect = Effect::ReadLease(hold.take.lease.clone());
        return context.step(Phase::Claiming, effect, "asking who got the slot");
    }
    match context.holding(hold) {
        Holding::Yes => taken(context, hold),
        Holding::Lost | Holding::Ask => not_taken(context),
    }
}

fn taken(context: &Context, hold: &Hold) -> Step {
    if !context.facts.writable {
        return undo(context, hold, Why::Unwritable);
    }
    let record = advance(context, hold, Stage::Claiming);
    let status = format!("took slot {}", hold.take.lease);
    Step {
        record,
        ..context.step(Phase::Claiming, Effect::Wait, status)
    }
}

fn not_taken(context: &Context) -> Step {
    let record = Record {
        hold: None,
        ..context.facts.record.clone()
    };
    Step {
        record,
        ..context.step(Phase::Queued, Effect::Wait, "another node took the slot")
    }
}

/// The slot is taken: make it known, look who else claims, then cordon.
pub(super) fn decide(context: &Context, hold: &Hold) -> Step {
    let step = match claimed(context, hold) {
        Continue((node, peers)) => cordon(context, hold, node, peers),
        Break(step) => step,
    };
    in_time(context, hold, step)
}

/// The label is on the Node; of the others, listed after that, none claims the slot as well, and enough are up.
fn claimed<'a>(context: &Context<'a>, hold: &Hold) -> Needs<(&'a Node, &'a Peers)> {
    let phase = Phase::Claiming;
    let node = same_node(context, hold, phase)?;
    still_ours(context, hold, phase)?;
    unopposed(context, hold, |_| true)?;
    if !node_fields::carries(node, hold) {
        return Break(label(context, hold, node));
    }
    let Some(labelled) = labelled(context.facts, hold) else {
        return Break(context.step(phase, Effect::ReadNode, "reading the own Node"));
    };
    let after = |peers: &&Peers| peers.asked > labelled;
    let Some(peers) = context.facts.peers.as_ref().filter(after) else {
        let status = "looking for others that claim the slot";
        return Break(context.step(phase, Effect::ListPeers, status));
    };
    match peers.claims(&hold.take.lease, context.me, node.quorum()) {
        Claims::Clear => {}
        Claims::Collision(why) => return Break(undo(context, hold, Why::Collision(why))),
        Claims::Quorum { who, first } => {
            let patient = first && context.now.since(labelled) < ALONE && context.applied(hold);
            if !patient {
                return Break(undo(context, hold, Why::Quorum(who)));
            }
            let status = format!("waiting to be the only control-plane node that is down: {who}");
            if context.now.since(peers.came) >= ALONE_AGAIN {
                return Break(context.step(phase, Effect::ListPeers, status));
            }
            return Break(context.wait(phase, peers.came + ALONE_AGAIN, status));
        }
    }
    if let Some(why) = too_few(context, peers) {
        return Break(undo(context, hold, Why::Budget(why)));
    }
    Continue((node, peers))
}

/// When the label was surely there: our own apply was answered, or a consistent read shows it. A list
/// of peers asked for before that is no second look: its own label may have come after theirs.
pub(crate) fn labelled(facts: &Facts, hold: &Hold) -> Option<Duration> {
    let applied = facts
        .applied
        .filter(|applied| applied.point == Point::of(hold));
    let Seen::Present(node) = &facts.node else {
        return None;
    };
    if !node_fields::carries(node, hold) {
        return None;
    }
    applied.map(|applied| applied.at).or(node.read)
}

/// The label and the record on the own Node, before anything that could disturb a pod.
fn label(context: &Context, hold: &Hold, node: &Node) -> Step {
    let record = Record {
        hold: Some(Hold {
            node_uid: Some(node.uid.clone()),
            foreign_cordon: node_fields::foreign_cordon(node),
            guards: context.policy.guards(),
            ..hold.clone()
        }),
        ..context.facts.record.clone()
    };
    apply(
        context,
        Phase::Claiming,
        record,
        node,
        format!("claiming slot {}", hold.take.lease),
    )
}

/// Gates are read again while holding, and the Nodes counted again if waiting for the pods took long; then
/// the cordon begins the drain.
fn cordon(context: &Context, hold: &Hold, node: &Node, peers: &Peers) -> Step {
    let phase = Phase::Claiming;
    let Some(marks) = &context.facts.marks else {
        return context.stay(phase, "listing the pods of this node");
    };
    if !context.fresh(context.facts.host_read) {
        return context.step(phase, Effect::ReadHost, "checking the gates");
    }
    if !(context.facts).asked_since(labelled(context.facts, hold)) {
        return context.answers(phase, "the node is not cordoned yet");
    }
    if let Break(step) = hooks::before_the_cordon(context, hold) {
        return step;
    }
    if !context.recent(peers.asked) {
        let status = "looking for others that are down";
        return context.step(phase, Effect::ListPeers, status);
    }
    // For a reboot the slot is right, and proved after it; a host that goes off is not to take its pods down first.
    if context.facts.shutting_down {
        return context.stay(phase, "the host is shutting down");
    }
    // Nobody is to name a node that holds a slot. Its place stays on record until the request has ended.
    if let Mark::Shown(_) = context.facts.mark {
        return context.step(phase, Effect::Unmark, "leaving the queue");
    }
    let alone = peers.census.as_ref().is_ok_and(Census::alone);
    let before = Hold {
        foreign_cordon: node_fields::foreign_cordon(node),
        alone,
        // The only node takes all traffic until it goes down.
        excluded: context.policy.excludes() && !alone && node_fields::may_exclude(node),
        marks: Some(marks.clone()),
        before: context.before(Some(hold)),
        ..hold.clone()
    };
    let record = advance(context, &before, Stage::Draining);
    apply(context, Phase::Draining, record, node, "cordoning the node")
}
