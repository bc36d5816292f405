//! Who holds a slot of the group, or claims one, by its Leases and the labels of Nodes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::record::Record;
use kube_rebootd_core::slot::{Lease, Waiter};
use serde_json::{Value, json};

/// One line of the group's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub node: String,
    pub what: What,
    /// Wall clock of whoever wrote it; for display only (I5).
    pub since: Option<Timestamp>,
    /// How far the hold is, by the record on the Node.
    pub stage: Option<String>,
}

/// What a node has to do with the group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    Holds(String),
    /// Its Node carries the label, but the Lease is not its own.
    Claims(String),
    /// Its Node carries a label that names no slot of any group: nobody takes a slot while that is so.
    Strays(String),
    /// There are no slots in the namespace at all: those of the label are in another one, or deleted.
    Elsewhere(String),
    /// Its Node carries the label of this slot, whose Lease the person may not see.
    Labelled(String),
    Waits,
    /// It keeps its place, but a gate is closed or a failed attempt is too recent.
    NotReady,
}

impl What {
    /// For people.
    pub(in crate::cli) fn words(&self) -> String {
        match self {
            Self::Holds(slot) => format!("holds {slot}"),
            Self::Claims(slot) => format!("claims {slot}, which is not its own"),
            Self::Strays(slot) => format!("claims {slot}, which is no slot: nobody begins"),
            Self::Elsewhere(slot) => format!("claims {slot}, of another namespace or deleted"),
            Self::Labelled(slot) => format!("claims {slot}, whose Lease cannot be seen"),
            Self::Waits => "waits".to_owned(),
            Self::NotReady => "waits, but not now".to_owned(),
        }
    }

    /// For scripts, with the slot.
    pub(in crate::cli) fn name(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Holds(slot) => ("holds", Some(slot)),
            Self::Claims(slot) => ("claims", Some(slot)),
            Self::Strays(slot) => ("strays", Some(slot)),
            Self::Elsewhere(slot) => ("elsewhere", Some(slot)),
            Self::Labelled(slot) => ("labelled", Some(slot)),
            Self::Waits => ("waits", None),
            Self::NotReady => ("waits-not-now", None),
        }
    }
}

/// A slot that nobody holds and nobody paused.
pub(in crate::cli) const FREE: &str = "free";

/// How a slot stands, for people.
pub(in crate::cli) fn state(slot: &Lease) -> String {
    let state = match (&slot.paused, &slot.holder) {
        (Some(why), None) => format!("paused: {why}"),
        (Some(why), Some(holder)) => format!("held by {holder}, then paused: {why}"),
        (None, Some(holder)) => format!("held by {holder}"),
        (None, None) => FREE.to_owned(),
    };
    let unusable = slot.unusable();
    let unusable = unusable.map_or_else(String::new, |why| format!(" (no slot: {why})"));
    format!("{state}{unusable}")
}

/// The same for scripts.
pub(in crate::cli) fn slot(slot: &Lease) -> Value {
    json!({"slot": slot.name, "holder": slot.holder, "since": slot.acquire_time, "paused": slot.paused,
           "unusable": slot.unusable()})
}

/// By the Node: the slot that it is labelled with, and how far its hold is by the record there.
pub(super) type Claims = BTreeMap<String, Claim>;
pub(super) type Claim = (String, Option<String>);

/// Holders and claims.
pub(super) fn held(slots: &[Lease], others: &[Lease], claims: &Claims) -> Vec<Row> {
    let mut rows = Vec::new();
    for slot in slots {
        if let Some(holder) = &slot.holder {
            rows.push(Row {
                node: holder.clone(),
                what: What::Holds(slot.name.clone()),
                since: slot.acquire_time,
                stage: claims.get(holder).and_then(|(_, stage)| stage.clone()),
            });
        }
    }
    for (node, (slot, stage)) in claims {
        let named = |leases: &[Lease]| leases.iter().any(|lease| lease.name == *slot);
        let here = slots.iter().find(|lease| lease.name == *slot);
        let what = match here {
            Some(lease) if lease.holder.as_ref() == Some(node) => continue,
            Some(_) => What::Claims(slot.clone()),
            None if named(others) => continue,
            None if slots.is_empty() && others.is_empty() => What::Elsewhere(slot.clone()),
            None => What::Strays(slot.clone()),
        };
        rows.push(Row {
            node: node.clone(),
            what,
            since: None,
            stage: stage.clone(),
        });
    }
    rows
}

/// One that waits.
pub(super) fn waits(waiter: Waiter) -> Row {
    Row {
        node: waiter.node,
        what: if waiter.ready {
            What::Waits
        } else {
            What::NotReady
        },
        since: Some(waiter.since).filter(|since| *since != Timestamp::MAX),
        stage: None,
    }
}

/// How far the hold of a record is, in a word.
pub(super) fn stage(text: &str) -> String {
    let word = match Record::decode(text) {
        Err(_) => "unreadable",
        Ok(record) if record.hold.is_none() => "kept",
        Ok(record) => match record.phase(None) {
            // The record changes once the node is healthy.
            Phase::Rebooting => "rebooting or verifying",
            phase => return phase.name().to_lowercase(),
        },
    };
    word.to_owned()
}

/// The same where the Leases cannot be seen.
pub(super) fn labelled(claims: &Claims) -> Vec<Row> {
    let row = |(node, (slot, stage)): (&String, &(String, Option<String>))| Row {
        node: node.clone(),
        what: What::Labelled(slot.clone()),
        since: None,
        stage: stage.clone(),
    };
    claims.iter().map(row).collect()
}
