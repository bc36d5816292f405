//! `mode = "observe"`: what would be done now, and nothing of it (docs/design.md 10).
//!
//! No slot, and so never a cordon or a reboot; no waiting record either, which would name a node that
//! never takes its turn; no Lease is made, no stale one cleared. Only reads, and few: this state is a long one.

use super::context::{Context, LOOK_AGAIN, Step, too_few};
use super::{mark, queue};
use crate::effect::Effect;
use crate::node::Seen;
use crate::phase::Phase;
use crate::reason::Reason;
use crate::record::Record;
use crate::slot::Lease;

/// Every gate is open: says what comes next for an active node.
pub(super) fn decide(context: &Context, record: Record) -> Step {
    let phase = Phase::Pending;
    let would = match look(context) {
        Ok(would) => would,
        Err(effect) => {
            let step = context.step(phase, *effect, "observing: looking at the slots");
            return Step { record, ..step };
        }
    };
    let status = format!("observing: would {would}");
    let step = mark::without_record(
        context,
        Record {
            waiting: None,
            ..record
        },
        phase,
        status,
        None,
    );
    Step {
        reason: Reason::Observing,
        would: Some(would),
        ..step
    }
}

/// After "would"; an error is what must be read first.
fn look(context: &Context) -> Result<String, Box<Effect>> {
    let quorum = match &context.facts.node {
        Seen::Present(node) => node.quorum(),
        Seen::Unknown => return Err(Box::new(Effect::ReadNode)),
        Seen::Absent => return Ok("wait: this node is not registered".to_owned()),
    };
    if let Err(why) = &context.facts.listed {
        return Ok(format!("wait: {why}"));
    }
    let group: Vec<&Lease> = queue::group(context).collect();
    if group.is_empty() {
        return Ok(format!("wait: {}", queue::cure(context)));
    }
    let opens = queue::interval(context, &group);
    let free: Vec<&Lease> = (group.iter().copied())
        .filter(|lease| lease.open())
        .collect();
    if free.is_empty() {
        return Ok(format!("wait: {}", queue::busy(context, &group)));
    }
    if opens > context.now.boot {
        return Ok("wait: coordination.min_interval is not over".to_owned());
    }
    // Nothing rests on it: it may be as old as a look at a phase that waits.
    let recent = |asked| context.now.since(asked) < LOOK_AGAIN;
    let peers = context.facts.peers.as_ref();
    let Some(peers) = peers.filter(|peers| recent(peers.asked)) else {
        return Err(Box::new(Effect::ListPeers));
    };
    let me = context.me;
    let claims: Vec<_> = (free.iter())
        .map(|lease| (*lease, peers.claims(&lease.name, me, quorum)))
        .collect();
    if queue::undecided(peers, &claims) {
        // Read before this slot was free.
        return Err(Box::new(Effect::ListPeers));
    }
    let lease = match queue::pick(claims.into_iter()) {
        Ok(lease) => lease,
        Err(why) => return Ok(format!("wait: {why}")),
    };
    Ok(match too_few(context, peers) {
        Some(why) => format!("wait: {why}"),
        None => format!("take slot {}", lease.name),
    })
}
