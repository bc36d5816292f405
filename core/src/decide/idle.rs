//! No hold: Idle, Pending, and what must be put right first (I3, I6, I10).

use super::context::{Context, Step};
use super::held::{apply, undo};
use super::mark::{show, without_record};
use super::{observe, queue, rehearse, start};
use crate::effect::Effect;
use crate::facts::Point;
use crate::gates::Gate;
use crate::names;
use crate::node::{Node, Seen};
use crate::node_fields;
use crate::phase::Phase;
use crate::reason::Reason;
use crate::record::{Backoff, Hold, Record, Why};
use crate::trigger::{self, Request};

/// Cleans up what a hold left, then follows the request.
pub(super) fn decide(context: &Context) -> Step {
    if let Some(step) = stray(context) {
        return step;
    }
    let mut record = context.facts.record.clone();
    record.guard = record
        .guard
        .filter(|guard| guard.lasts(&context.facts.boot, context.now.boot));
    let until = record.guard.as_ref().map(|guard| guard.until);
    let mut step = follow(context, record);
    // Nothing else says that this time is over.
    if let Some(until) = until {
        step.wake = Some(step.wake.map_or(until, |wake| wake.min(until)));
    }
    step
}

fn follow(context: &Context, record: Record) -> Step {
    let Some(request) = &record.request else {
        return idle(context, record);
    };
    if let Some(why) = blocked(context, &record, request) {
        return pending(context, record, &why);
    }
    if context.policy.observe {
        return observe::decide(context, record);
    }
    queue::decide(context, record)
}

/// Something of a hold is left although none is on record.
pub(super) fn strays(context: &Context) -> bool {
    stray(context).is_some()
}

/// A Lease that names us though no hold is on record (a late first take, an admin's edit), or
/// anything of a hold on the Node: undone before anything else.
fn stray(context: &Context) -> Option<Step> {
    let me = context.me;
    if let Some(lease) = context
        .facts
        .leases
        .values()
        .find(|lease| lease.holder.as_deref() == Some(me))
    {
        if lease.read.is_none() {
            let effect = Effect::ReadLease(lease.name.clone());
            return Some(context.step(
                Phase::Idle,
                effect,
                "asking about a slot that names this node",
            ));
        }
        let hold = Hold {
            boot: context.facts.boot.clone(),
            // The mark is on disk before a hook runs, and there is a record without it.
            hooked: false,
            ..start::found(context, lease)
        };
        return Some(undo(context, &hold, Why::NoHold));
    }
    let Seen::Present(node) = &context.facts.node else {
        return None;
    };
    let left = kept(context, node).or_else(|| unmark(context, node));
    left.or_else(|| unguard(context, node))
}

/// A cordon kept for a person ends with `resume` (the pause is gone), their uncordon, or a new Node.
fn kept(context: &Context, node: &Node) -> Option<Step> {
    let kept = context.facts.record.kept.as_ref()?;
    let ended = kept.node_uid != node.uid
        || !node.unschedulable
        || !node.annotations.contains_key(names::PAUSED);
    if !ended {
        // The record of the hold that ended must not be taken for one that goes on.
        let stale = node_fields::recorded(node).is_some_and(|there| there.hold.is_some());
        let record = context.facts.record.clone();
        return stale.then(|| apply(context, Phase::Idle, record, node, "keeping the cordon"));
    }
    if node.read.is_none() {
        return Some(context.step(Phase::Idle, Effect::ReadNode, "reading the own Node"));
    }
    let record = Record {
        kept: None,
        ..context.facts.record.clone()
    };
    Some(apply(
        context,
        Phase::Idle,
        record,
        node,
        "uncordoning: the node is no longer paused",
    ))
}

/// Label, record or cordon of ours without a hold.
fn unmark(context: &Context, node: &Node) -> Option<Step> {
    if context.facts.record.kept.is_some() || !node_fields::marked(node) {
        return None;
    }
    let status = "clearing what an earlier hold left on the Node";
    if node.read.is_none() {
        return Some(context.step(Phase::Idle, Effect::ReadNode, status));
    }
    let set = context.set(&context.facts.record, node);
    let applied = context
        .facts
        .applied
        .is_some_and(|applied| applied.point == Point::default());
    match node_fields::leftovers(node, &set, None) {
        Some(left) if applied => Some(context.step(Phase::Idle, Effect::Mend(left), status)),
        _ => Some(apply(
            context,
            Phase::Idle,
            context.facts.record.clone(),
            node,
            status,
        )),
    }
}

/// What keeps autoscalers from the Node has had its time, or no record knows of it; nor of what load balancers look at.
fn unguard(context: &Context, node: &Node) -> Option<Step> {
    let (boot, now) = (&context.facts.boot, context.now.boot);
    let mut record = context.facts.record.clone();
    record.guard = record.guard.filter(|guard| guard.lasts(boot, now));
    // What is refused keeps no reboot waiting: the next apply names it no more either.
    let refused = (context.facts.refused.as_ref()).is_some_and(|it| it.point == Point::default());
    if refused || !node_fields::keeps_away(node, &context.set(&record, node)) {
        return None;
    }
    let phase = record.phase(Some(boot));
    let status = "letting autoscalers and load balancers have the Node again";
    if node.read.is_none() {
        return Some(context.step(phase, Effect::ReadNode, status));
    }
    Some(apply(context, phase, record, node, status))
}

/// Nothing asks for a reboot.
fn idle(context: &Context, mut record: Record) -> Step {
    // What failed or flapped of late is forgotten with time, not with the request.
    let (boot, now) = (&context.facts.boot, context.now.boot);
    record.backoff = (record.backoff).filter(|backoff| backoff.left(boot, now) > 0);
    record.flaps = record.flaps.filter(|flaps| flaps.left(boot, now) > 0);
    record.waiting = None;
    if let Some(missed) = did_not_take(context, &record) {
        let status = format!(
            "idle: the update did not take: {missed}; not tried again until another is to come, or somebody asks"
        );
        return Step {
            reason: Reason::RolledBack,
            ..without_record(context, record, Phase::Idle, status, None)
        };
    }
    let observed = &context.facts.observed;
    let (reason, status) = match (observed.uncleared.as_slice(), observed.unknown.as_slice()) {
        ([], []) => (Reason::Idle, "idle: no reboot needed".to_owned()),
        ([], [(trigger, why), ..]) => (
            Reason::TriggerUnknown,
            format!("idle: no reboot needed, but {trigger} gives no answer: {why}"),
        ),
        (uncleared, _) => {
            let left = record.settled.as_ref();
            let left = left.and_then(|settled| settled.left(&context.facts.boot, context.now));
            let until = left.and_then(|left| context.now.wall.checked_add(left).ok());
            let until = until.map_or_else(String::new, |until| {
                format!(" (and stays away until {})", until.strftime("%H:%M UTC"))
            });
            let status = format!(
                "idle: the last reboot did not clear {}; ignored until it has gone once{until} or its reasons change",
                names_of(uncleared)
            );
            (Reason::NotCleared, status)
        }
    };
    Step {
        reason,
        ..without_record(context, record, Phase::Idle, status, None)
    }
}

/// What the reboot to this boot was to bring, and did not.
fn did_not_take(context: &Context, record: &Record) -> Option<String> {
    let settled = record.settled.as_ref();
    let settled = settled.filter(|settled| settled.boot == context.facts.boot)?;
    settled.missed.clone()
}

/// A request that may not queue yet: why, and when that ends if it is known.
struct Blocked {
    reason: Reason,
    why: String,
    /// The same without countdowns, where it is not the gates that are closed.
    waits: Option<String>,
    opens: Option<std::time::Duration>,
}

impl Blocked {
    fn new(reason: Reason, why: impl Into<String>, waits: impl Into<String>) -> Self {
        Self {
            reason,
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

fn blocked(context: &Context, record: &Record, request: &Request) -> Option<Blocked> {
    let facts = context.facts;
    if !facts.writable {
        let why = "the state file cannot be written";
        return Some(Blocked::new(Reason::StateNotWritable, why, why));
    }
    // The slot would be held while the host is off, for as long as it is.
    if facts.shutting_down {
        let why = "the host is shutting down";
        return Some(Blocked::new(Reason::ShuttingDown, why, why));
    }
    if request.automatic()
        && let Some(until) = facts.limited
    {
        let waits = "reboot.max_per_day is reached";
        let why = format!("{waits}; next automatic reboot after {until}");
        return Some(Blocked::new(Reason::LimitReached, why, waits));
    }
    if let Some(flaps) = &record.flaps
        && request.automatic()
        && let Some(until) = flaps.waits(&facts.boot, context.now.boot)
    {
        let left = context.left(until);
        let waits = format!(
            "what asks for it came and went {} times of late",
            flaps.times
        );
        let why = format!("{waits}; it counts again in {left} if it stays");
        return Some(Blocked::new(Reason::Flapping, why, waits).until(until));
    }
    if let Some(backoff) = &record.backoff
        && backing_off(context, record)
    {
        let left = context.left(backoff.until);
        let last = &backoff.why;
        let failures = match backoff.failures {
            1 => "1 failed attempt".to_owned(),
            failures => format!("{failures} failed attempts"),
        };
        let why = format!("{failures}, next in {left}: {last}");
        let waits = format!("{failures}, the next is later: {last}");
        let reason = Reason::of_failures(backoff.failures);
        return Some(Blocked::new(reason, why, waits).until(backoff.until));
    }
    if let Some((why, opens)) = rehearse::refused(context) {
        return Some(Blocked::new(Reason::NodeRefused, why.clone(), why).until(opens));
    }
    if facts.closed.is_empty() {
        return None;
    }
    let why = facts
        .closed
        .iter()
        .map(|gate| &*gate.why)
        .collect::<Vec<_>>()
        .join("; ");
    let opens = facts.closed.iter().filter_map(|gate| gate.opens).min();
    Some(Blocked {
        reason: Reason::of_gates(&facts.closed),
        why,
        waits: None,
        opens,
    })
}

fn pending(context: &Context, record: Record, blocked: &Blocked) -> Step {
    let waits = blocked.waits.clone();
    Step {
        reason: blocked.reason,
        waits,
        ..held_up(context, record, blocked)
    }
}

fn held_up(context: &Context, mut record: Record, blocked: &Blocked) -> Step {
    let status = format!("reboot pending: {}", blocked.why);
    let (phase, opens) = (Phase::Pending, blocked.opens);
    if context.policy.observe {
        record.waiting = None;
    }
    if record.waiting.is_none() && !awaits_group(context) {
        return without_record(context, record, phase, status, opens);
    }
    let mut step = context.stay(phase, status);
    step.wake = step
        .wake
        .map(|stay| opens.map_or(stay, |opens| stay.min(opens)));
    if awaits_group(context) {
        return queue::paused(context, record, step);
    }
    // Nobody is to keep a turn for a node that cannot take it; its place it keeps.
    show(context, Step { record, ..step }, false)
}

/// A pause of the whole group is all that is in the way of an active node.
pub(super) fn awaits_group(context: &Context) -> bool {
    let facts = context.facts;
    let mut closed = facts.closed.iter();
    !context.policy.observe
        && facts.writable
        && facts.record.request.is_some()
        && !facts.closed.is_empty()
        && closed.all(|closed| closed.gate == Gate::GroupPaused)
        && !backing_off(context, &facts.record)
        && (by_person(&facts.record)
            || !flapping(context, &facts.record) && facts.limited.is_none())
        && !facts.shutting_down
}

/// What a person asks for is not counted, and need not last.
fn by_person(record: &Record) -> bool {
    let request = record.request.as_ref();
    request.is_some_and(|request| !request.automatic())
}

/// What asks for a reboot came and went, and is not believed yet.
fn flapping(context: &Context, record: &Record) -> bool {
    let flaps = record.flaps.as_ref();
    flaps.is_some_and(|flaps| flaps.waits(&context.facts.boot, context.now.boot).is_some())
}

/// A failed attempt was so short a time ago that the next one waits.
fn backing_off(context: &Context, record: &Record) -> bool {
    let of_this_boot = |backoff: &&Backoff| backoff.boot == context.facts.boot;
    let backoff = record.backoff.as_ref().filter(of_this_boot);
    backoff.is_some_and(|backoff| context.now.boot < backoff.until)
}

/// Triggers by name, for one sentence.
pub(super) fn names_of(reasons: &[trigger::Reason]) -> String {
    reasons
        .iter()
        .map(|reason| reason.trigger.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}
