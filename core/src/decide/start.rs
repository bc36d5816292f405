//! The start: three records that may disagree become one (I6, docs/design.md 6 "Every start").

use super::{At, Step};
use crate::boot::Boot;
use crate::facts::Effect;
use crate::node::Seen;
use crate::node_fields;
use crate::phase::Phase;
use crate::record::{Hold, Record, Stage};
use crate::slot::{Lease, Take};
use crate::trigger::Past;

/// Before the Leases of all groups and the own Node were read nothing is decided: a phase on record
/// waits where it is (I7). What needs the own Node alone is not kept waiting by the Leases.
pub(super) fn decide(at: &At) -> Step {
    // Of the state file alone, for display until the API server answers. A request is looked at anew.
    let record = &at.facts.record;
    let held = record.hold.as_ref();
    let phase = held.map_or(Phase::Idle, |_| record.phase(Some(&at.facts.boot)));
    let unlisted = at.facts.listed.is_err() && !alone(at);
    if unlisted || at.facts.node == Seen::Unknown {
        let status = match &at.facts.listed {
            Err(why) => format!("starting: {why}"),
            Ok(()) => "starting: reading the own Node".to_owned(),
        };
        return at.step(phase, Effect::ReadStart, status);
    }
    let record = recover(at);
    Step {
        record,
        ..at.step(phase, Effect::Begin, "starting")
    }
}

/// A hold goes on although the Leases cannot be read: both records tell of the same one, and it is past its
/// take. After a new boot the node is proved and uncordoned, in the same boot it is undone; both are done
/// with its own identity. Only the end of the hold waits for the Lease.
fn alone(at: &At) -> bool {
    let carried = match &at.facts.node {
        Seen::Present(node) => node_fields::recorded(node).and_then(|there| there.hold),
        Seen::Absent | Seen::Unknown => None,
    };
    let hold = match (&at.facts.record.hold, &carried) {
        (Some(file), Some(node)) if !file.same(node) => return false,
        (Some(file), _) => file,
        (None, Some(node)) if nothing_on_disk(at) => node,
        (None, _) => return false,
    };
    hold.stage != Stage::Taking
}

/// File, Node annotation and Leases, merged.
fn recover(at: &At) -> Record {
    let mut record = at.facts.record.clone();
    let there = match &at.facts.node {
        Seen::Present(node) => node_fields::recorded(node),
        Seen::Absent | Seen::Unknown => None,
    };
    let mine = |hold: &Hold| {
        at.facts
            .leases
            .values()
            .any(|lease| hold.matches(lease, &at.policy.me))
    };
    let carried = there.as_ref().and_then(|there| there.hold.clone());
    let from_node = match (&record.hold, &carried) {
        (Some(file), Some(node)) if file.same(node) => node.step > file.step,
        (Some(file), Some(node)) => mine(node) && !mine(file),
        // A file that knows of no hold has finished it: only a Lease or a lost file says otherwise.
        (None, Some(node)) => mine(node) || nothing_on_disk(at),
        (_, None) => false,
    };
    if let Some(there) = there {
        if from_node {
            record.hold = carried;
            record.request = there.request.or(record.request);
        }
        record.kept = record.kept.or(there.kept);
    }
    if record.hold.is_none() && nothing_on_disk(at) {
        record.hold = orphan(at);
    }
    if record.history.is_empty() {
        record.history = history(&at.facts.node);
    }
    record
}

/// There was no state file, or none that could be used.
fn nothing_on_disk(at: &At) -> bool {
    at.facts.record == Record::default()
}

/// A Lease of ours without any record: a reinstalled host. Its boot before is not known, so only a
/// healthy host ends the hold.
fn orphan(at: &At) -> Option<Hold> {
    let held = |lease: &&Lease| lease.holder.as_deref() == Some(at.policy.me.as_str());
    let lease = at.facts.leases.values().find(held)?;
    Some(Hold {
        stage: Stage::Claiming,
        boot: Boot::unknown(),
        ..found(at, lease)
    })
}

/// A hold as the Lease alone tells it.
pub(super) fn found(at: &At, lease: &Lease) -> Hold {
    let since = lease.acquire_time.unwrap_or_default();
    let take = Take::of(lease, &at.policy.namespace, since, lease.control_plane);
    Hold {
        step: 0,
        stage: Stage::Claiming,
        foreign_cordon: true,
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
