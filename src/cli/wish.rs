//! `pause`, `resume`, `reboot` and `cancel`: what a person wishes of nodes and of groups, from anywhere.
//!
//! Each is an annotation on a Node or a slot, which kubectl sets as well (docs/operating.md); the node's own daemon does the
//! rest, at its next look. What somebody else wrote there is left alone, and told.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use kube_rebootd_core::condition::{Kind, Status};
use kube_rebootd_core::names;
use kube_rebootd_core::node::Node;
use kube_rebootd_core::slot::Lease;
use kube_rebootd_core::text::{self, WORDS};
use serde_json::{Value, json};

use crate::cluster::answer::{ApiError, CALL, call, found};
use crate::cluster::lean::{Lease as LeaseObject, Named, Node as NodeObject};
use crate::cluster::lease::Leases;
use crate::cluster::node;

/// On what an API server's audit log and `managedFields` show.
const MANAGER: &str = "kube-rebootd-cli";

/// What is wished; with the words that are to stand on the Node or slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    Pause(String),
    Resume,
    Reboot(String),
    Cancel,
}

impl Wish {
    fn key(&self) -> &'static str {
        match self {
            Self::Pause(_) | Self::Resume => names::PAUSED,
            Self::Reboot(_) | Self::Cancel => names::REBOOT,
        }
    }

    /// What is to stand there; none: nothing.
    fn words(&self) -> Option<&str> {
        match self {
            Self::Pause(words) | Self::Reboot(words) => Some(words),
            Self::Resume | Self::Cancel => None,
        }
    }

    /// The patch that makes it so; none: it is so already.
    fn patch(&self, before: Option<&str>) -> Option<Value> {
        if before.is_some() == self.words().is_some() {
            return None;
        }
        Some(json!({"metadata": {"annotations": {(self.key()): self.words()}}}))
    }
}

/// Has this node know the wish; what came of it, for people.
pub async fn node(client: &Client, name: &str, wish: &Wish) -> Result<String, ApiError> {
    let nodes: Api<NodeObject> = Api::all(client.clone());
    let what = format!("get Node {name}");
    let Some(object) = found(call(&what, CALL, nodes.get(name)).await)? else {
        return Err(ApiError::Other {
            what,
            message: "there is no such Node; kubectl get nodes shows all".to_owned(),
            code: 404,
        });
    };
    let there = node::read(&object, None);
    let before = there.annotations.get(wish.key()).map(String::as_str);
    if let Some(patch) = wish.patch(before) {
        let nodes: Api<Named<NodeObject>> = Api::all(client.clone());
        let what = format!("change Node {name}");
        let patch = Patch::Merge(patch);
        call(&what, CALL, nodes.patch(name, &params(), &patch)).await?;
    }
    Ok(format!("node {name}: {}", of_node(&there, wish, before)))
}

/// Has the slots of this group know a pause or its end, or all slots of the namespace; what came of it, for people.
pub async fn slots(
    client: &Client,
    namespace: &str,
    group: Option<&str>,
    wish: &Wish,
) -> Result<Vec<String>, ApiError> {
    let leases = Leases::new(client.clone(), namespace, "");
    let mut slots = leases.all(Duration::ZERO).await?;
    slots.retain(|lease| group.is_none_or(|group| lease.group == group));
    if slots.is_empty() {
        let of = group.map_or_else(String::new, |group| format!(" of group {group}"));
        return Err(ApiError::Other {
            what: "look for slots".to_owned(),
            message: format!(
                "no Lease{of} is in namespace {namespace}; kube-rebootd nodes names the groups, --namespace another namespace"
            ),
            code: 404,
        });
    }
    let api: Api<Named<LeaseObject>> = Api::namespaced(client.clone(), namespace);
    let mut lines = Vec::new();
    for slot in slots {
        if let Some(patch) = wish.patch(slot.paused.as_deref()) {
            let what = format!("change Lease {}", slot.name);
            let patch = Patch::Merge(patch);
            call(&what, CALL, api.patch(&slot.name, &params(), &patch)).await?;
        }
        lines.push(format!("slot {}: {}", slot.name, of_slot(&slot, wish)));
    }
    Ok(lines)
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// What a node that was like this does of it.
fn of_node(node: &Node, wish: &Wish, before: Option<&str>) -> String {
    let shown = node.conditions.iter();
    let shown = shown.clone().find(|one| one.kind == Kind::RebootRequired);
    let silent = match shown {
        Some(_) => "",
        None => "; no daemon ever reported there: does kube-rebootd run on it?",
    };
    match (wish, before) {
        (Wish::Pause(_), None) => format!("paused{silent}"),
        (Wish::Pause(_), Some(why)) => format!("was paused before, which stays: {why}"),
        (Wish::Resume, Some(why)) => format!("not paused any more (it was: {why}){silent}"),
        (Wish::Resume, None) => "was not paused".to_owned(),
        (Wish::Reboot(words), None) => {
            format!("asked to reboot when it is its turn: {words}{silent}")
        }
        (Wish::Reboot(_), Some(words)) => format!("was asked before, which stays: {words}"),
        (Wish::Cancel, before) => {
            let done = before.map_or_else(
                || "nobody asked it by annotation".to_owned(),
                |words| format!("not asked any more (it was: {words})"),
            );
            let shown = shown.filter(|one| one.status == Status::True);
            match shown.map(|one| one.reason.as_str()) {
                Some("Rebooting") => {
                    format!("{done}; its host goes down now, too late to be stopped")
                }
                Some("Verifying" | "Unhealthy" | "Releasing" | "NotReleased") => {
                    format!("{done}; it has rebooted already")
                }
                Some(_) if before.is_none() => {
                    format!(
                        "{done}; what else asks it stays: kube-rebootd nodes shows it, kube-rebootd pause {} stops it",
                        node.name
                    )
                }
                Some(_) | None => done,
            }
        }
    }
}

/// What becomes of a slot that was like this.
fn of_slot(slot: &Lease, wish: &Wish) -> String {
    let holder = slot.holder.as_deref().map_or_else(String::new, |holder| {
        format!(
            "; {holder}, which holds it, goes on, reboot included: kube-rebootd pause {holder} stops that one too"
        )
    });
    match (wish.words(), &slot.paused) {
        (None, Some(why)) => format!("open (it was paused: {why})"),
        (None, None) => "was not paused".to_owned(),
        (Some(_), None) => format!("paused{holder}"),
        (Some(_), Some(why)) => format!("was paused before, which stays: {why}{holder}"),
    }
}

/// What stands there where nobody gives a reason: who, and when. The same words again would be no new wish for a while after
/// the reboot (I10).
pub fn by(user: &str, now: jiff::Timestamp) -> String {
    let seconds = now.strftime("%Y-%m-%dT%H:%M:%SZ");
    let user = if user.is_empty() { "somebody" } else { user };
    text::clean(&format!("by {user}, {seconds}"), WORDS)
}
