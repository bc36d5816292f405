//! Drained: kept so for a person or a script, over reboots, until that is taken back; then the host is proved (I1, I3, I4).
//!
//! The daemon reboots nothing meanwhile, and gives nothing up by itself: somebody may have the host open.

use std::ops::ControlFlow::{Break, Continue};

use super::context::{Context, Step};
use super::held::{Holding, Needs, cordoned, same_node, still_ours, undo};
use super::verify::{adopt, health, late};
use crate::effect::Effect;
use crate::names;
use crate::node::Node;
use crate::phase::Phase;
use crate::record::{Hold, Why};
use crate::trigger::Request;

pub(super) fn decide(context: &Context, hold: &Hold) -> Step {
    let ready = if hold.boot == context.facts.boot {
        unopposed(context, hold)
    } else {
        after_boot(context, hold)
    };
    match ready {
        Continue(()) => context.stay(Phase::Drained, words(context)),
        Break(step) => step,
    }
}

/// Who keeps it so, and what ends it.
fn words(context: &Context) -> String {
    let request = context.facts.record.request.as_ref();
    let kept = request.into_iter().flat_map(Request::kept);
    let each = kept.map(|(keeper, wish)| {
        let (by, ends) = (keeper.begins(), keeper.ends());
        format!("for {by} ({}), until {ends}", wish.reason)
    });
    format!("drained: kept so {}", each.collect::<Vec<_>>().join("; "))
}

/// In the boot of the hold: the slot, the Node and the cordon are still this hold's, and nobody has paused the node.
fn unopposed(context: &Context, hold: &Hold) -> Needs<()> {
    let phase = Phase::Drained;
    still_ours(context, hold, phase)?;
    let node = same_node(context, hold, phase)?;
    if let Some(why) = node.annotations.get(names::PAUSED) {
        return Break(undo(context, hold, Why::Paused(why.clone())));
    }
    cordoned(context, hold, phase).map_continue(|_: &Node| ())
}

/// After a reboot of whoever works here: nothing is given up before the host is proved (I4), not even a slot that was taken
/// away; and no pause is needed, as nothing is begun.
fn after_boot(context: &Context, hold: &Hold) -> Needs<()> {
    let phase = Phase::Drained;
    let Some(node) = context.node(phase)? else {
        return Break(context.stay(phase, "drained: the node is not registered"));
    };
    if hold.node_uid.as_ref() != Some(&node.uid) {
        return Break(adopt(context, hold, node));
    }
    if node.unschedulable {
        return Continue(());
    }
    if node.read.is_none() {
        let words = "asking whether the node was uncordoned";
        return Break(context.step(phase, Effect::ReadNode, words));
    }
    // A person's uncordon ends it, as it does before a reboot.
    let mut record = context.facts.record.clone();
    if let Some(request) = &mut record.request {
        request.end();
    }
    Break(Step {
        record,
        ..context.step(
            Phase::Verifying,
            Effect::Wait,
            "verifying: somebody uncordoned the node",
        )
    })
}

/// Nobody keeps the node drained any more, and it was not rebooted: what was worked on is proved before pods come back.
pub(super) fn over(context: &Context, hold: &Hold) -> Step {
    let phase = Phase::Verifying;
    if let Break(step) = same_node(context, hold, phase) {
        return step;
    }
    match context.holding(hold) {
        // As it is proved the node is cordoned, and so nobody is harmed by a wait for the API server.
        Holding::Ask if context.facts.denied.is_none() && context.facts.listed.is_ok() => {
            let effect = Effect::ReadLease(hold.take.lease.clone());
            return context.step(phase, effect, "asking whether the slot is still held");
        }
        Holding::Lost => return undo(context, hold, Why::Lost),
        Holding::Ask | Holding::Yes => {}
    }
    match health(context) {
        Err(missing) => late(context, &missing),
        Ok(()) => undo(context, hold, Why::Maintained),
    }
}
