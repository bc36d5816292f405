//! No hold: Idle, Pending, and what must be put right first (I3, I6, I10).

use super::held::undo;
use super::mark::without_record;
use super::{At, Step, apply, observe, queue, rehearse, start};
use crate::facts::{Effect, Point};
use crate::gates::Gate;
use crate::names;
use crate::node::{Node, Seen};
use crate::node_fields;
use crate::phase::Phase;
use crate::record::{Backoff, Hold, Record, Why};
use crate::trigger::{Reason, Request};

/// Cleans up what a hold left, then follows the request.
pub(super) fn decide(at: &At) -> Step {
    if let Some(step) = stray(at) {
        return step;
    }
    let record = at.facts.record.clone();
    let Some(request) = &record.request else {
        return idle(at, record);
    };
    if let Some(why) = blocked(at, &record, request) {
        return pending(at, record, &why);
    }
    if at.policy.observe {
        return observe::decide(at, record);
    }
    queue::decide(at, record)
}

/// Something of a hold is left although none is on record.
pub(super) fn strays(at: &At) -> bool {
    stray(at).is_some()
}

/// A Lease that names us though no hold is on record (a late first take, an admin's edit), or
/// anything of a hold on the Node: undone before anything else.
fn stray(at: &At) -> Option<Step> {
    let me = at.policy.me.as_str();
    if let Some(lease) = at
        .facts
        .leases
        .values()
        .find(|lease| lease.holder.as_deref() == Some(me))
    {
        if lease.read.is_none() {
            let effect = Effect::ReadLease(lease.name.clone());
            return Some(at.step(
                Phase::Idle,
                effect,
                "asking about a slot that names this node",
            ));
        }
        let hold = Hold {
            boot: at.facts.boot.clone(),
            ..start::found(at, lease)
        };
        return Some(undo(at, &hold, Why::NoHold));
    }
    let Seen::Present(node) = &at.facts.node else {
        return None;
    };
    kept(at, node).or_else(|| unmark(at, node))
}

/// A cordon kept for a person ends with `resume` (the pause is gone), their uncordon, or a new Node.
fn kept(at: &At, node: &Node) -> Option<Step> {
    let kept = at.facts.record.kept.as_ref()?;
    let ended = kept.node_uid != node.uid
        || !node.unschedulable
        || !node.annotations.contains_key(names::PAUSED);
    if !ended {
        // The record of the hold that ended must not be taken for one that goes on.
        let stale = node_fields::recorded(node).is_some_and(|there| there.hold.is_some());
        let record = at.facts.record.clone();
        return stale.then(|| apply(at, Phase::Idle, record, node, "keeping the cordon"));
    }
    if node.read.is_none() {
        return Some(at.step(Phase::Idle, Effect::ReadNode, "reading the own Node"));
    }
    let record = Record {
        kept: None,
        ..at.facts.record.clone()
    };
    Some(apply(
        at,
        Phase::Idle,
        record,
        node,
        "uncordoning: the node is no longer paused",
    ))
}

/// Label, record or cordon of ours without a hold.
fn unmark(at: &At, node: &Node) -> Option<Step> {
    if at.facts.record.kept.is_some() || !node_fields::marked(node) {
        return None;
    }
    let status = "clearing what an earlier hold left on the Node";
    if node.read.is_none() {
        return Some(at.step(Phase::Idle, Effect::ReadNode, status));
    }
    let set = at.set(&at.facts.record, node);
    let applied = at
        .facts
        .applied
        .is_some_and(|applied| applied.point == Point::default());
    match node_fields::leftovers(node, &set, false) {
        Some(left) if applied => Some(at.step(Phase::Idle, Effect::Mend(left), status)),
        _ => Some(apply(
            at,
            Phase::Idle,
            at.facts.record.clone(),
            node,
            status,
        )),
    }
}

/// Nothing asks for a reboot.
fn idle(at: &At, mut record: Record) -> Step {
    // What failed or flapped of late is forgotten with time, not with the request.
    let (boot, now) = (&at.facts.boot, at.now.boot);
    record.backoff = (record.backoff).filter(|backoff| backoff.left(boot, now) > 0);
    record.flaps = record.flaps.filter(|flaps| flaps.left(boot, now) > 0);
    record.waiting = None;
    let observed = &at.facts.observed;
    let status = match (observed.uncleared.as_slice(), observed.unknown.as_slice()) {
        ([], []) => "idle: no reboot needed".to_owned(),
        ([], [(trigger, why), ..]) => {
            format!("idle: no reboot needed, but {trigger} gives no answer: {why}")
        }
        (uncleared, _) => {
            let left = record.settled.as_ref();
            let left = left.and_then(|settled| settled.left(&at.facts.boot, at.now));
            let until = left.and_then(|left| at.now.wall.checked_add(left).ok());
            let until = until.map_or_else(String::new, |until| {
                format!(" (and stays away until {})", until.strftime("%H:%M UTC"))
            });
            format!(
                "idle: the last reboot did not clear {}; ignored until it has gone once{until} or its reasons change",
                names_of(uncleared)
            )
        }
    };
    without_record(at, record, Phase::Idle, status, None)
}

/// A request that may not queue yet: why, and when that ends if it is known.
struct Blocked {
    why: String,
    /// The same without countdowns, where it is not the gates that are closed.
    waits: Option<String>,
    opens: Option<std::time::Duration>,
}

impl Blocked {
    fn new(why: impl Into<String>, waits: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            waits: Some(waits.into()),
            opens: None,
        }
    }

    fn until(self, opens: std::time::Duration) -> Self {
        let opens = Some(opens);
        Self { opens, ..self }
    }
}

fn blocked(at: &At, record: &Record, request: &Request) -> Option<Blocked> {
    let facts = at.facts;
    if !facts.writable {
        let why = "the state file cannot be written";
        return Some(Blocked::new(why, why));
    }
    // The slot would be held while the host is off, for as long as it is.
    if facts.shutting_down {
        let why = "the host is shutting down";
        return Some(Blocked::new(why, why));
    }
    if request.automatic()
        && let Some(until) = facts.limited
    {
        let waits = "reboot.max_per_day is reached";
        let why = format!("{waits}; next automatic reboot after {until}");
        return Some(Blocked::new(why, waits));
    }
    if let Some(flaps) = &record.flaps
        && request.automatic()
        && let Some(until) = flaps.waits(&facts.boot, at.now.boot)
    {
        let left = at.left(until);
        let waits = format!(
            "what asks for it came and went {} times of late",
            flaps.times
        );
        let why = format!("{waits}; it counts again in {left} if it stays");
        return Some(Blocked::new(why, waits).until(until));
    }
    if let Some(backoff) = &record.backoff
        && backing_off(at, record)
    {
        let left = at.left(backoff.until);
        let last = &backoff.why;
        let failures = match backoff.failures {
            1 => "1 failed attempt".to_owned(),
            failures => format!("{failures} failed attempts"),
        };
        let why = format!("{failures}, next in {left}: {last}");
        let waits = format!("{failures}, the next is later: {last}");
        return Some(Blocked::new(why, waits).until(backoff.until));
    }
    if let Some((why, opens)) = rehearse::refused(at) {
        return Some(Blocked::new(why.clone(), why).until(opens));
    }
    if facts.closed.is_empty() {
        return None;
    }
    let why = facts
        .closed
        .iter()
        .map(|gate| gate.why.as_str())
        .collect::<Vec<_>>()
        .join("; ");
    let opens = facts.closed.iter().filter_map(|gate| gate.opens).min();
    let waits = None;
    Some(Blocked { why, waits, opens })
}

fn pending(at: &At, record: Record, blocked: &Blocked) -> Step {
    let waits = blocked.waits.clone();
    Step {
        waits,
        ..held_up(at, record, blocked)
    }
}

fn held_up(at: &At, mut record: Record, blocked: &Blocked) -> Step {
    let status = format!("reboot pending: {}", blocked.why);
    let (phase, opens) = (Phase::Pending, blocked.opens);
    if at.policy.observe {
        record.waiting = None;
    }
    if record.waiting.is_none() && !awaits_group(at) {
        return without_record(at, record, phase, status, opens);
    }
    let mut step = at.stay(phase, status);
    step.wake = step
        .wake
        .map(|stay| opens.map_or(stay, |opens| stay.min(opens)));
    if awaits_group(at) {
        return queue::paused(at, record, step);
    }
    // Nobody is to keep a turn for a node that cannot take it; its place it keeps.
    queue::show(at, Step { record, ..step }, false)
}

/// A pause of the whole group is all that is in the way of an active node.
pub(super) fn awaits_group(at: &At) -> bool {
    let facts = at.facts;
    let mut closed = facts.closed.iter();
    !at.policy.observe
        && facts.writable
        && facts.record.request.is_some()
        && !facts.closed.is_empty()
        && closed.all(|closed| closed.gate == Gate::GroupPaused)
        && !backing_off(at, &facts.record)
        && !flapping(at, &facts.record)
        && facts.limited.is_none()
        && !facts.shutting_down
}

/// What asks for a reboot came and went, and is not believed yet.
fn flapping(at: &At, record: &Record) -> bool {
    let flaps = record.flaps.as_ref();
    flaps.is_some_and(|flaps| flaps.waits(&at.facts.boot, at.now.boot).is_some())
}

/// A failed attempt was so short a time ago that the next one waits.
fn backing_off(at: &At, record: &Record) -> bool {
    let of_this_boot = |backoff: &&Backoff| backoff.boot == at.facts.boot;
    let backoff = record.backoff.as_ref().filter(of_this_boot);
    backoff.is_some_and(|backoff| at.now.boot < backoff.until)
}

/// Triggers by name, for one sentence.
pub(super) fn names_of(reasons: &[Reason]) -> String {
    reasons
        .iter()
        .map(|reason| reason.trigger.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}
