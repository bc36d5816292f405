//! Before a slot is taken: would the API server let this node set on its own Node what a hold needs (I3)?
//!
//! A policy, a webhook or full annotations refuse the cordon only when the slot is held and others wait for it.
//! A dry run of that very apply shows it before the take; it changes nothing.

use std::time::Duration;

use super::context::{Context, Step};
use crate::effect::Effect;
use crate::facts::Rehearsed;
use crate::node::{Node, Seen};
use crate::node_fields::NodeFields;
use crate::phase::Phase;
use crate::record::{Hold, Record, Stage};
use crate::slot::{Lease, Take};

/// A yes is believed so long: what could refuse changes rarely, and the apply itself may still be refused.
const GOOD: Duration = Duration::from_secs(10 * 60);
/// After a no it is tried again this much later.
const AGAIN: Duration = Duration::from_secs(5 * 60);

/// The dry run that is due before `lease` is taken; none: it was answered with a yes not long ago.
pub(super) fn before_a_take(context: &Context, record: &Record, lease: &Lease) -> Option<Step> {
    let good =
        context.facts.rehearsed.as_ref().is_some_and(|rehearsed| {
            rehearsed.said.is_ok() && context.now.since(rehearsed.at) <= GOOD
        });
    if good {
        return None;
    }
    let Seen::Present(node) = &context.facts.node else {
        return None;
    };
    let status = "queued: trying what a hold sets on this Node";
    let effect = Effect::Rehearse(set(context, record, lease, node));
    Some(Step {
        record: record.clone(),
        ..context.step(Phase::Queued, effect, status)
    })
}

/// The last dry run was refused: why, and when it is tried again.
pub(super) fn refused(context: &Context) -> Option<(String, Duration)> {
    let Some(Rehearsed {
        at: asked,
        said: Err(why),
    }) = &context.facts.rehearsed
    else {
        return None;
    };
    let opens = *asked + AGAIN;
    (context.now.boot < opens).then(|| {
        let why = format!("what a hold sets on this Node would be refused: {why}");
        (why, opens)
    })
}

/// All that the hold would set while the node is drained, as far as it is known before the take.
fn set(context: &Context, record: &Record, lease: &Lease, node: &Node) -> NodeFields {
    let take = Take::of(
        lease,
        &context.policy.namespace,
        context.now.wall,
        node.quorum(),
    );
    let hold = Hold {
        stage: Stage::Draining,
        node_uid: Some(node.uid.clone()),
        guards: context.policy.guards(),
        excluded: context.policy.excludes(),
        marks: context.facts.marks.clone(),
        before: context.before(None),
        ..Hold::begin(take, context.facts.boot.clone())
    };
    let record = Record {
        hold: Some(hold),
        ..record.clone()
    };
    NodeFields::of(&record, node)
}
