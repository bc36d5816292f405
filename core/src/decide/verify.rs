//! Verifying: a new boot with a record of a hold (I3, I4, I6, I7). Entering it writes nothing: it is
//! derived from the boot and the record.

use std::time::Duration;

use super::context::{Context, Step};
use super::held::{Holding, advance, keeping};
use super::release::backing_off;
use crate::boot::Boot;
use crate::booted;
use crate::effect::Effect;
use crate::facts::Point;
use crate::history::Past;
use crate::kind::Kind;
use crate::names;
use crate::node::{Node, Seen};
use crate::node_fields::{self, NodeFields};
use crate::phase::Phase;
use crate::record::{Backoff, HISTORY_MAX, Hold, Record, Stage};
use crate::slot::Keys;
use crate::trigger::{Latched, Request, Settled, wish};

pub(super) fn decide(context: &Context, hold: &Hold) -> Step {
    let node = match &context.facts.node {
        Seen::Unknown => {
            return context.step(
                Phase::Verifying,
                Effect::ReadNode,
                "verifying: reading the own Node",
            );
        }
        Seen::Absent => return late(context, "the node is not registered"),
        Seen::Present(node) => node.as_ref(),
    };
    if hold.node_uid.as_ref() != Some(&node.uid) {
        return adopt(context, hold, node);
    }
    if hold.stage == Stage::Releasing {
        return match health(context) {
            Err(missing) => late(context, &missing),
            Ok(()) => again(context),
        };
    }
    // Also where an uncordon was written ahead and did not land, and the host rebooted once more.
    if hold.stage != Stage::Uncordoned || node_fields::ours(node) {
        match &context.facts.host_health {
            Err(missing) => return unhealthy(context, hold, node, &missing.join("; ")),
            Ok(()) if hold.stage != Stage::Uncordoned => return uncordon(context, hold, node),
            Ok(()) => {}
        }
    }
    let set = set(context, hold, &context.facts.record, node);
    // Whoever keeps the label off, or changes it, keeps a node that is proved from nothing.
    let proved = context.applied(hold) && health(context).is_ok();
    if !proved && !shows(context, node, hold, &set) {
        return reapply(context, hold, node);
    }
    if context.applied(hold)
        && let Some(left) = node_fields::leftovers(node, &set, Some(hold))
    {
        return context.step(
            Phase::Verifying,
            Effect::Mend(left),
            "verifying: uncordoning",
        );
    }
    match health(context) {
        Err(missing) => unhealthy(context, hold, node, &missing),
        Ok(()) => settle(context, hold, node),
    }
}

/// All of ours on the Node. Who labels itself keeps others from the slot, so the label is set only while the Lease names
/// this node. One that is there stays until the node is proved, whatever the Lease says: a Lease can be emptied or made
/// anew by others, and then the label alone says that this node is down (I1). `unlock` takes it off itself.
fn set(context: &Context, hold: &Hold, record: &Record, node: &Node) -> NodeFields {
    let mut set = context.set(record, node);
    if !labelled(hold, node) && !ours(context, hold) {
        set.labels.remove(names::SLOT);
    }
    set
}

fn labelled(hold: &Hold, node: &Node) -> bool {
    node.labels.get(names::SLOT) == Some(&hold.take.lease)
}

/// The Lease names this node, as far as is known, and can be asked.
fn ours(context: &Context, hold: &Hold) -> bool {
    matches!(context.holding(hold), Holding::Yes) && context.facts.denied.is_none()
}

/// What must be read before a label is set that is not there; none: it is there, or not to be set. An unlock frees the
/// Lease first, then takes the label off: only a Lease that was read after the Node was found without says that it is ours
/// still, and a watch may lag.
fn unread(context: &Context, hold: &Hold, node: &Node) -> Option<Effect> {
    if labelled(hold, node) || !ours(context, hold) {
        return None;
    }
    let Some(seen) = node.read else {
        return Some(Effect::ReadNode);
    };
    let lease = context.lease(&hold.take.lease)?;
    let since = lease.read.is_some_and(|read| read >= seen);
    (!since).then(|| Effect::ReadLease(lease.name.clone()))
}

/// The apply of `set` for this step of the hold has landed: the record there says so, or this process had the answer, as
/// full annotations may have had no room for the record.
fn shows(context: &Context, node: &Node, hold: &Hold, set: &NodeFields) -> bool {
    let label = |labels: &Keys| labels.get(names::SLOT).cloned();
    let there = node_fields::recorded(node).and_then(|record| record.hold);
    let landed = there.is_some_and(|there| there.same(hold) && there.step == hold.step);
    label(&node.labels) == label(&set.labels) && (landed || context.applied(hold))
}

fn put(context: &Context, hold: &Hold, record: Record, node: &Node, status: &str) -> Step {
    if let Some(first) = unread(context, hold, node) {
        return context.step(Phase::Verifying, first, status);
    }
    let record = keeping(context, record, node);
    let point = Point::of_record(&record);
    let set = set(context, hold, &record, node);
    Step {
        record,
        ..context.step(Phase::Verifying, Effect::Apply { set, point }, status)
    }
}

/// Not healthy. Somebody may have freed the slot meanwhile, which is said; label and cordon stay as they are, as the node
/// is down, until it is healthy.
fn unhealthy(context: &Context, hold: &Hold, node: &Node, missing: &str) -> Step {
    let words = "verifying: asking whether the slot is still held";
    match context.holding(hold) {
        Holding::Yes => late(context, missing),
        // Where Leases cannot be read there is nothing to ask, and health is waited for all the same.
        Holding::Ask if context.facts.denied.is_some() || context.facts.listed.is_err() => {
            late(context, missing)
        }
        Holding::Ask => context.step(
            Phase::Verifying,
            Effect::ReadLease(hold.take.lease.clone()),
            words,
        ),
        Holding::Lost => {
            let lease = &hold.take.lease;
            let kept = if labelled(hold, node) {
                "the label of this node keeps others from it until the node is healthy, or until an admin's kube-rebootd \
                 unlock takes it off"
            } else {
                "what was cordoned stays so until the node is healthy"
            };
            late(
                context,
                &format!("{missing}; slot {lease} was taken away, {kept}"),
            )
        }
    }
}

/// Both steps of docs/design.md 9.
pub(super) fn health(context: &Context) -> Result<(), String> {
    let missing = context.facts.host_health.as_ref().err().or(context
        .facts
        .pod_health
        .as_ref()
        .err());
    missing.map_or(Ok(()), |missing| Err(missing.join("; ")))
}

/// The host rebooted once more while the slot was given up: counted already, but not proved.
fn again(context: &Context) -> Step {
    let mut record = context.facts.record.clone();
    // What the Node carried of it after the state file was lost says nothing of what was settled.
    let (boot, now) = (&context.facts.boot, context.now.boot);
    let hold = record.hold.as_ref();
    let settled = record.settled.take();
    let done = hold.map_or(Kind::Reboot, |hold| Kind::between(&hold.boot, boot));
    let served = || record.request.clone().and_then(|it| it.served_by(done).0);
    let settled = settled.unwrap_or_else(|| Settled::by(done, served().as_ref(), boot, now));
    record.settled = Some(Settled {
        boot: boot.clone(),
        proved_boot: now,
        // What this boot brought is not compared with anything.
        missed: None,
        ..settled
    });
    Step {
        record,
        ..context.step(
            Phase::Releasing,
            Effect::Wait,
            "healthy: giving the slot up",
        )
    }
}

/// Still waiting: past `health.timeout` the same, said louder; the slot is kept, the rollout stops.
pub(super) fn late(context: &Context, missing: &str) -> Step {
    let status = if context.facts.verifying > context.policy.health_timeout {
        format!("not healthy within health.timeout: {missing}")
    } else {
        format!("verifying: {missing}")
    };
    context.stay(Phase::Verifying, status)
}

/// The Node was registered anew, or its UID is not known: the hold goes on with this one. Whatever
/// cordon it carries now was not on the one we labelled.
///
/// One registered anew shows neither slot nor cordon: pods would come before the host is proved, and others
/// would not see that it is down (I1). It is marked before the new UID is on record, so that a crash in
/// between repeats it; only a Node that was really replaced, as from any other an admin's unlock may have
/// taken both, and only while the slot is ours.
pub(super) fn adopt(context: &Context, hold: &Hold, node: &Node) -> Step {
    let replaced = hold.node_uid.is_some();
    // Not found without a record, which may have been lost later.
    let taken = hold.boot != Boot::unknown();
    let adopted = Hold {
        node_uid: Some(node.uid.clone()),
        foreign_cordon: if replaced {
            node_fields::foreign_cordon(node)
        } else {
            // Before the Node was labelled no cordon of ours was on it.
            hold.foreign_cordon || (taken && node_fields::foreign_cordon(node))
        },
        ..hold.clone()
    };
    let shown = matches!(
        hold.stage,
        Stage::Claiming | Stage::Draining | Stage::Drained | Stage::Rebooting
    );
    let record = advance(context, &adopted, hold.stage.clone());
    let point = Point::of_record(&record);
    // Where its annotations are full the record is not there.
    let landed = labelled(hold, node) && context.facts.applied.is_some_and(|it| it.point == point);
    if replaced && shown && !landed && !node_fields::knows(node, hold) {
        let step = |effect| {
            let words = "verifying: marking the own Node anew";
            context.step(Phase::Verifying, effect, words)
        };
        match context.holding(hold) {
            Holding::Lost => {}
            // It would wait for ever, and without the slot this Node must not be marked (I1).
            Holding::Yes | Holding::Ask if context.facts.denied.is_some() => {}
            Holding::Ask => return step(Effect::ReadLease(hold.take.lease.clone())),
            Holding::Yes => {
                if let Some(first) = unread(context, hold, node) {
                    return step(first);
                }
                let set = context.set(&record, node);
                return step(Effect::Apply { set, point });
            }
        }
    }
    let mut record = record;
    if replaced
        && !landed
        && hold.stage == Stage::Drained
        && let Some(hold) = &mut record.hold
    {
        // It shows no cordon of ours, and nobody took one off: proved, and then drained anew, it is what was wished for.
        hold.stage = Stage::Draining;
    }
    Step {
        record,
        ..context.step(
            Phase::Verifying,
            Effect::Wait,
            "verifying: found the own Node",
        )
    }
}

/// The host is healthy: let pods come, so that the DaemonSets' can be judged. A paused node keeps its
/// cordon: that is how a person keeps it out.
fn uncordon(context: &Context, hold: &Hold, node: &Node) -> Step {
    let record = advance(context, hold, Stage::Uncordoned);
    put(
        context,
        hold,
        record,
        node,
        "verifying: the host is healthy, uncordoning",
    )
}

fn reapply(context: &Context, hold: &Hold, node: &Node) -> Step {
    if node.read.is_none() {
        return context.step(
            Phase::Verifying,
            Effect::ReadNode,
            "verifying: reading the own Node",
        );
    }
    let record = context.facts.record.clone();
    put(context, hold, record, node, "verifying: uncordoning")
}

/// Proved: the request is settled and the history written before anything is given back.
fn settle(context: &Context, hold: &Hold, node: &Node) -> Step {
    let mut record = advance(context, hold, Stage::Releasing);
    let request = record.request.take();
    let done = Kind::between(&hold.boot, &context.facts.boot);
    // The same kernel goes on over a soft-reboot.
    let another = !done.soft();
    let missed = booted::missed(&hold.before, &context.facts.before, request.as_ref());
    // What is staged comes with a shutdown, and not after a power cut: one that was not asked for was no attempt.
    // Neither was a soft-reboot that was cut short by the power.
    let missed = missed.filter(|_| another && hold.asked() && !hold.kind.soft());
    let whole = request.clone();
    // What wants a full reboot is not served by a soft one.
    let (served, left) = request.map_or((None, None), |request| request.served_by(done));
    // Where that was asked for it was an attempt that failed; else somebody else has soft-rebooted the host.
    let failed = left.is_some() && hold.asked();
    let failed = failed.then(|| ONLY_SOFT.to_owned());
    if !found_in_this_boot(context, hold) {
        let missed = missed.as_ref().map(|missed| wish(&missed.words));
        let past = Past {
            rolled_back: missed.or_else(|| failed.clone()),
            kind: done,
            ..past(context, hold, whole.as_ref())
        };
        record.history.insert(0, past);
        record.history.truncate(HISTORY_MAX);
    }
    let boot = &context.facts.boot;
    let mut settled = Settled::by(done, served.as_ref(), boot, context.now.boot);
    if whole.is_none()
        && !found_in_this_boot(context, hold)
        && let Some(text) = node.annotations.get(names::REBOOT)
    {
        // What was asked for is lost: the annotation that is there counts as served, else it would be twice (I10).
        settled.serves(&wish(text), done);
    }
    // Whoever wants the node drained wants it still: the host rebooted before it was.
    record.request = served.and_then(Request::after_reboot);
    let tried = record.backoff.take();
    if let Some(words) = failed {
        if left
            .as_ref()
            .is_some_and(|left| left.latched.iter().any(once))
        {
            settled.missed = Some(words.clone());
        }
        record.request = Request::with(record.request, left.and_then(|left| left.without(once)));
        // Each attempt ends in another boot, and the pause is to grow with each all the same (I10).
        record.backoff = tried.map(|tried| Backoff {
            boot: boot.clone(),
            until: context.now.boot,
            ..tried
        });
        record.backoff = Some(backing_off(context, &record, words));
    } else {
        record.request = Request::with(record.request, left);
    }
    if let Some(missed) = &missed {
        settled.did_not_take(missed);
        let words = format!("the update did not take: {}", missed.words);
        record.backoff = Some(backing_off(context, &record, words));
    }
    // With what was on record: in this boot a trigger that comes late has not gone yet.
    record.settled = Some(settled.after(record.settled.take()));
    record.waiting = None;
    let status = match missed {
        Some(missed) => format!(
            "healthy, but the update did not take: {}; giving the slot up",
            missed.words
        ),
        None => "healthy: giving the slot up".to_owned(),
    };
    Step {
        record,
        ..context.step(Phase::Releasing, Effect::Wait, status)
    }
}

/// A full reboot was asked for.
const ONLY_SOFT: &str = "a full reboot was to come, and the host has only soft-rebooted";

/// Asks for one attempt. A person whose full reboot was asked for, and did not come, is told and may ask again: no limit counts what
/// a person asks for, and it would begin anew without end (I10). So may a client of FleetLock, which looks at its host after each
/// boot. All else asks on until a full reboot has served it.
fn once(wish: &Latched) -> bool {
    wish.boot.is_some() && wish.may_ask_again()
}

/// This reboot, and how the time of its cycle went.
fn past(context: &Context, hold: &Hold, request: Option<&Request>) -> Past {
    let past = Past::of(request, context.now.wall);
    past.took(context.facts.times.clone(), hold.take.acquire_time)
}

/// A slot that was found without a record and was taken since this boot began: the record is lost, but
/// nothing was rebooted. Told by the wall clock, which is good enough for the history and for nothing else.
fn found_in_this_boot(context: &Context, hold: &Hold) -> bool {
    let uptime = context
        .now
        .since(Duration::from_micros(context.facts.boot.userspace));
    let began = context.now.wall.checked_sub(uptime);
    hold.boot == Boot::unknown() && began.is_ok_and(|began| began < hold.take.acquire_time)
}
