//! The start: three records that may disagree become one (I6, docs/design.md 6 "Every start").

use super::context::{Context, Step};
use super::timed;
use crate::boot::Boot;
use crate::effect::Effect;
use crate::facts::Facts;
use crate::history::Past;
use crate::node::Seen;
use crate::node_fields;
use crate::phase::Phase;
use crate::record::{Hold, Record, Stage};
use crate::slot::{Lease, Take};

/// Before the Leases of all groups and the own Node were read nothing is decided: a phase on record
/// waits where it is (I7). What needs the own Node alone is not kept waiting by the Leases.
pub(super) fn decide(context: &Context) -> Step {
    let unlisted = context.facts.listed.is_err() && !alone(context);
    if unlisted || context.facts.node == Seen::Unknown {
        return read(context.facts);
    }
    let record = recover(context);
    Step {
        record,
        ..context.step(phase(context.facts), Effect::Begin, "starting")
    }
}

/// The three reads, and which node this is.
pub(super) fn read(facts: &Facts) -> Step {
    let status = match &facts.listed {
        Err(why) => format!("starting: {why}"),
        Ok(()) => "starting: reading the own Node".to_owned(),
    };
    Step::of(facts, phase(facts), Effect::ReadStart, status)
}

/// Of the state file alone, for display until the API server answers. A request is looked at anew.
fn phase(facts: &Facts) -> Phase {
    let held = facts.record.hold.as_ref();
    held.map_or(Phase::Idle, |_| facts.record.phase(Some(&facts.boot)))
}

/// A hold goes on although the Leases cannot be read: both records tell of the same one, and it is past its
/// take. After a new boot the node is proved and uncordoned, in the same boot it is undone; both are done
/// with its own identity. Only the end of the hold waits for the Lease.
fn alone(context: &Context) -> bool {
    let carried = match &context.facts.node {
        Seen::Present(node) => node_fields::recorded(node).and_then(|there| there.hold),
        Seen::Absent | Seen::Unknown => None,
    };
    let hold = match (&context.facts.record.hold, &carried) {
        (Some(file), Some(node)) if !file.same(node) => return false,
        (Some(file), _) => file,
        (None, Some(node)) if nothing_on_disk(context) => node,
        (None, _) => return false,
    };
    hold.stage != Stage::Taking
}

/// File, Node annotation and Leases, merged.
fn recover(context: &Context) -> Record {
    let mut record = context.facts.record.clone();
    let there = match &context.facts.node {
        Seen::Present(node) => node_fields::recorded(node),
        Seen::Absent | Seen::Unknown => None,
    };
    let mine = |hold: &Hold| {
        context
            .facts
            .leases
            .values()
            .any(|lease| hold.matches(lease, context.me))
    };
    let carried = there.as_ref().and_then(|there| there.hold.clone());
    let from_node = match (&record.hold, &carried) {
        (Some(file), Some(node)) if file.same(node) => node.step > file.step,
        (Some(file), Some(node)) => mine(node) && !mine(file),
        // A file that knows of no hold has finished it: only a Lease or a lost file says otherwise.
        (None, Some(node)) => mine(node) || nothing_on_disk(context),
        (_, None) => false,
    };
    if let Some(there) = there {
        if from_node {
            // A file that is not the newest does not say whether hooks have run.
            record.hold = carried.map(|hold| Hold {
                hooked: true,
                ..hold
            });
            record.request = there.request.or(record.request);
            record.times = there.times.or(record.times);
        }
        record.kept = record.kept.or(there.kept);
    }
    if record.hold.is_none() && nothing_on_disk(context) {
        record.hold = orphan(context);
    }
    if record.history.is_empty() {
        record.history = history(&context.facts.node);
    }
    if from_node {
        return record;
    }
    timed::carried(context.facts, record, context.now)
}

/// There was no state file, or none that could be used.
fn nothing_on_disk(context: &Context) -> bool {
    context.facts.record == Record::default()
}

/// A Lease of ours without any record: a reinstalled host. Its boot before is not known, so only a
/// healthy host ends the hold.
fn orphan(context: &Context) -> Option<Hold> {
    let held = |lease: &&Lease| lease.holder.as_deref() == Some(context.me);
    let lease = context.facts.leases.values().find(held)?;
    Some(Hold {
        stage: Stage::Claiming,
        boot: Boot::unknown(),
        ..found(context, lease)
    })
}

/// A hold as the Lease alone tells it.
pub(super) fn found(context: &Context, lease: &Lease) -> Hold {
    let since = lease.acquire_time.unwrap_or_default();
    let take = Take::of(lease, &context.policy.namespace, since, lease.control_plane);
    Hold {
        step: 0,
        stage: Stage::Claiming,
        foreign_cordon: true,
        hooked: true,
        ..Hold::begin(take, Boot::unknown())
    }
}

/// The history that outlives the disk.
fn history(node: &Seen) -> Vec<Past> {
    let Seen::Present(node) = node else {
        return Vec::new();
    };
    node.annotations
        .get(crate::names::HISTORY)
        .and_then(|text| serde_json::from_str::<Vec<Past>>(text).ok())
        .into_iter()
        .flatten()
        .map(Past::cleaned)
        .collect()
}
