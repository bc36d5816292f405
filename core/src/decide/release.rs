//! Releasing and Undoing: uncordon, own label (confirmed), what hooks have done, Lease last (I3, I4).

use std::time::Duration;

use super::context::{Context, Step};
use super::held::{Holding, apply};
use super::hooks;
use crate::backoff::doubled;
use crate::effect::Effect;
use crate::facts::{Mended, Point};
use crate::names;
use crate::node::{Node, Seen};
use crate::node_fields::{self, Leftovers};
use crate::phase::Phase;
use crate::record::{Backoff, Guard, Hold, Record, Why};
use crate::scatter::share;
use crate::slot::{GiveUp, hints};
use crate::trigger::wish;

/// How old the list of waiters may be: whom it names is a hint. Longer than any call may take, so that a
/// slow API server cannot keep a slot from being given up.
const HINT_AGE: Duration = Duration::from_secs(60);
/// The longest back-off, before jitter.
const BACKOFF_MAX: Duration = Duration::from_secs(6 * 3600);

/// Takes everything of the hold back; `undone`: nothing was rebooted, and why.
pub(super) fn decide(context: &Context, hold: &Hold, undone: Option<&Why>) -> Step {
    let phase = if undone.is_some() {
        Phase::Undoing
    } else {
        Phase::Releasing
    };
    let words = match undone {
        Some(why) => format!("undoing: {}", why.words()),
        None => "healthy: giving the slot up".to_owned(),
    };
    if undone.is_some() && context.facts.shutting_down {
        // A cordon taken off now would bring pods onto a host that goes down.
        return context.stay(phase, "the host is shutting down");
    }
    if undone.is_some() && context.facts.evicting > 0 {
        // One that landed after the uncordon would take a pod off a node that is in use. Each has a time limit (I7).
        let status = format!("{words}; waiting for the answers to evictions");
        return context.stay(phase, status);
    }
    if let Some(step) = clean(context, hold, phase, undone.is_none(), &words) {
        return step;
    }
    if let Some(step) = hooks::taken_back(context, hold, phase, &words) {
        return step;
    }
    match context.holding(hold) {
        Holding::Ask => {
            // The Node is as it was before the hold; what is left to do is said, and tried again and again.
            let words = match &context.facts.denied {
                Some(why) => format!(
                    "{words}; the node is uncordoned, but slot {} cannot be given up: {why}",
                    hold.take.lease
                ),
                None => words,
            };
            context.step(phase, Effect::ReadLease(hold.take.lease.clone()), words)
        }
        Holding::Lost => done(context, undone),
        Holding::Yes => give_up(context, hold, phase, undone, words),
    }
}

/// The Node part; None when nothing of the hold is left there, confirmed by a consistent read.
fn clean(
    context: &Context,
    hold: &Hold,
    phase: Phase,
    rebooted: bool,
    words: &str,
) -> Option<Step> {
    let node = match &context.facts.node {
        Seen::Unknown => return Some(context.step(phase, Effect::ReadNode, words)),
        Seen::Absent => return None,
        Seen::Present(node) => node.as_ref(),
    };
    let record = &context.facts.record;
    let set = context.set(record, node);
    if !context.applied(hold) {
        // Nothing is there that this apply could take away: its being refused keeps no slot.
        let refused = context.facts.refused.as_ref();
        if refused.is_some_and(|refused| refused.point == Point::of(hold)) {
            if node.read.is_none() {
                return Some(context.step(phase, Effect::ReadNode, words));
            }
            if !node_fields::marked(node) {
                return None;
            }
        }
        return Some(apply(context, phase, record.clone(), node, words));
    }
    if node.read.is_none() && node_fields::marked(node) {
        return Some(context.step(phase, Effect::ReadNode, words));
    }
    // Once: whoever sets a record or a wish again keeps nobody from the slot. A label does, and a cordon of ours.
    let done = |left: &Leftovers| {
        let same = |one: &Mended| one.point == Point::of(hold) && one.left.same(left);
        context.facts.mended.iter().any(same) && left.labels.is_empty() && !left.cordon
    };
    let left = node_fields::leftovers(node, &set, Some(hold));
    if let Some(left) = left.filter(|left| !done(left)) {
        return Some(context.step(phase, Effect::Mend(left), words));
    }
    let wish = asked(node);
    let asks = rebooted && served(record, node) && !done(&wish);
    asks.then(|| context.step(phase, Effect::Mend(wish), words))
}

/// The Node annotation that asks for a reboot is the one that this reboot was for. One that was set or changed
/// since logind was asked is a new request and stays.
fn served(record: &Record, node: &Node) -> bool {
    let asked = record
        .settled
        .as_ref()
        .and_then(|it| it.annotation.as_ref());
    let there = node.annotations.get(names::REBOOT);
    there.is_some_and(|text| asked == Some(&wish(text)))
}

/// The annotation that asked for the reboot that is done: set again, it is a new request.
fn asked(node: &Node) -> Leftovers {
    Leftovers {
        uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        annotations: vec![names::REBOOT.to_owned()],
        ..Leftovers::default()
    }
}

fn give_up(
    context: &Context,
    hold: &Hold,
    phase: Phase,
    undone: Option<&Why>,
    words: String,
) -> Step {
    let waiters = context.facts.waiters.as_ref();
    let next = match (undone, waiters) {
        // The others are as many too many: nobody is sent to look.
        (Some(Why::Budget(_)), _) => Vec::new(),
        // A list that cannot be had is no reason to keep the slot: it is given up without naming anybody.
        (_, Some(list)) if list.hopeless() => Vec::new(),
        (_, Some(list)) if list.failed == 0 && context.now.since(list.asked) <= HINT_AGE => {
            hints(&list.list, context.me)
        }
        (_, Some(_) | None) => return context.step(phase, Effect::ListWaiters, words),
    };
    let Some(lease) = context.lease(&hold.take.lease) else {
        return context.step(phase, Effect::ReadLease(hold.take.lease.clone()), words);
    };
    let outcome = match undone {
        None => "rebooted",
        Some(Why::Maintained) => "kept drained",
        Some(_) => "undone",
    };
    let effect = Effect::GiveUp(GiveUp {
        lease: lease.name.clone(),
        resource_version: lease.resource_version.clone(),
        next,
        last_hold: format!(
            "{} from {} to {}: {outcome}",
            context.me, hold.take.acquire_time, context.now.wall
        ),
    });
    context.step(phase, effect, words)
}

/// The hold is over. A failed attempt backs off, and its place in the queue stays; a reboot ends both.
fn done(context: &Context, undone: Option<&Why>) -> Step {
    let guards = context.facts.record.hold.as_ref();
    // Who has all given back wants nothing of ours to stay.
    let guards = guards.is_some_and(|hold| hold.guards) && undone != Some(&Why::Ordered);
    let mut record = Record {
        hold: None,
        guard: (guards && context.policy.guards()).then(|| Guard {
            boot: context.facts.boot.clone(),
            until: (context.now.boot).saturating_add(context.policy.autoscaler_protect),
        }),
        ..context.facts.record.clone()
    };
    let phase = match undone {
        None => {
            record.waiting = None;
            Phase::Idle
        }
        Some(why) => {
            // Who kept the node drained has ended that, and was heard.
            record.request = (record.request).and_then(|request| request.without(|it| it.ended));
            if why.backs_off() {
                record.backoff = Some(backoff(context, &record, why));
            } else if matches!(why, Why::Gate(_)) && !context.policy.observe {
                // What the hold itself closes, as an alert that the drain causes, would otherwise begin and end it for ever.
                record.backoff = Some(after(context, &record, why.words(), 1));
            }
            Phase::Pending
        }
    };
    Step {
        record,
        ..context.step(phase, Effect::Wait, "the slot is given up")
    }
}

/// After an attempt that failed so.
pub(super) fn backoff(context: &Context, record: &Record, why: &Why) -> Backoff {
    backing_off(context, record, why.words())
}

/// Doubles from `reboot.retry` to six hours, with up to a tenth of jitter.
pub(super) fn backing_off(context: &Context, record: &Record, why: String) -> Backoff {
    after(context, record, why, 0)
}

/// The same, where the first `free` failures in a row wait for nothing.
fn after(context: &Context, record: &Record, why: String, free: u32) -> Backoff {
    let before = record.backoff.as_ref();
    let left = |backoff: &Backoff| backoff.left(&context.facts.boot, context.now.boot);
    let failures = before.map_or(0, left) + 1;
    let delay = match (failures - 1).checked_sub(free) {
        Some(before) => doubled(context.policy.retry, before, BACKOFF_MAX),
        None => Duration::ZERO,
    };
    let jitter = share(delay / 10, &[context.me, &failures.to_string()]);
    Backoff {
        failures,
        boot: context.facts.boot.clone(),
        until: context.now.boot + delay + jitter,
        why,
    }
}
