//! Who holds a slot of the group, or claims one, by its Leases and the labels of Nodes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::record::Record;
use kube_rebootd_core::slot::Lease;

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

/// Holders and claims; `claims`: the slot that a Node is labelled with, and how far its hold is.
pub(super) fn held(
    slots: &[Lease],
    others: &[Lease],
    claims: &BTreeMap<String, (String, Option<String>)>,
) -> Vec<Row> {
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
pub(super) fn labelled(claims: &BTreeMap<String, (String, Option<String>)>) -> Vec<Row> {
    let row = |(node, (slot, stage)): (&String, &(String, Option<String>))| Row {
        node: node.clone(),
        what: What::Labelled(slot.clone()),
        since: None,
        stage: stage.clone(),
    };
    claims.iter().map(row).collect()
}
