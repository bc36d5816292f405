//! `pause`, `resume`, `reboot` and `cancel`: what a person wishes of nodes and of groups, from anywhere.
//!
//! Each is an annotation on a Node or a slot, which kubectl sets as well (docs/operating.md); the node's own daemon does the
//! rest, at its next look. What is said of a node beside that are its daemon's last words: they are older than the wish.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use kube_rebootd_core::config::is_subdomain;
use kube_rebootd_core::names;
use kube_rebootd_core::reason::Reason;
use kube_rebootd_core::slot::Lease;
use kube_rebootd_core::text::{self, WORDS};
use kube_rebootd_core::trigger::BY_ANNOTATION;
use serde_json::{Value, json};

use super::nodes::{Member, age, member};
use crate::cluster::answer::{ApiError, CALL, call, found};
use crate::cluster::lean::{Lease as LeaseObject, Named, Node as NodeObject};
use crate::cluster::lease::{self, Leases};
use crate::cluster::node;

/// What an API server's audit log and `managedFields` show.
const MANAGER: &str = "kube-rebootd-cli";

/// So often what changes meanwhile is read again.
const TRIES: u32 = 5;

/// What is wished; with the words that are to stand on the Node or slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    Pause(String),
    /// Of what is paused for this reason; none: whatever the reason.
    Resume(Option<String>),
    Reboot(String),
    Cancel,
}

impl Wish {
    fn key(&self) -> &'static str {
        match self {
            Self::Pause(_) | Self::Resume(_) => names::PAUSED,
            Self::Reboot(_) | Self::Cancel => names::REBOOT,
        }
    }

    /// The patch that makes it so, of the object as it was read; none: it stays as it is.
    fn patch(&self, before: Option<&str>, uid: &str, version: &str) -> Option<Value> {
        let words = match (self, before) {
            (Self::Pause(words), None) => Some(words),
            // The same words may have been served already, and new ones are a new wish (docs/design.md 4).
            (Self::Reboot(words), before) if before != Some(words) => Some(words),
            (Self::Resume(Some(only)), Some(before)) if only != before => return None,
            (Self::Resume(_) | Self::Cancel, Some(_)) => None,
            _ => return None,
        };
        Some(json!({"metadata": {
            "uid": uid,
            "resourceVersion": version,
            "annotations": {(self.key()): words},
        }}))
    }
}

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub enum WishError {
    #[error("there is no Node {0}; kubectl get nodes shows all")]
    NoNode(String),
    #[error(
        "no Lease{} is in namespace {namespace}; `nodes` names the groups, --namespace another namespace",
        group.as_ref().map_or_else(String::new, |group| format!(" of group {group}"))
    )]
    NoSlots {
        namespace: String,
        /// None: of any.
        group: Option<String>,
    },
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// How this program is called again, for the same cluster.
#[derive(Debug, Clone)]
pub struct Again {
    pub program: &'static str,
    /// What stands behind the verb: kubeconfig, context and namespace; empty, or with a space before it.
    pub options: String,
}

impl Again {
    fn verb(&self, verb: &str, whom: &str) -> String {
        format!("{} {verb} {whom}{}", self.program, self.options)
    }
}

/// Has this node know the wish; what came of it, for people.
pub async fn node(
    client: &Client,
    name: &str,
    wish: &Wish,
    again: &Again,
    now: Timestamp,
) -> Result<String, WishError> {
    let nodes: Api<NodeObject> = Api::all(client.clone());
    let what = format!("get Node {name}");
    let mut tries = TRIES;
    let object = loop {
        let Some(object) = found(call(&what, CALL, nodes.get(name)).await)? else {
            return Err(WishError::NoNode(name.to_owned()));
        };
        match change(&nodes, &object, wish).await {
            Err(ApiError::Conflict { .. }) if tries > 1 => tries -= 1,
            done => {
                done?;
                break object;
            }
        }
    };
    let there = node::read(&object, None);
    let before = there.annotations.get(wish.key()).map(String::as_str);
    let shows = member(&object, now);
    let mut lines = vec![format!("node {name}: {}", done(wish, before, "node"))];
    lines.extend(beside(&shows, wish, before, again));
    lines.push(last_words(&shows, now));
    Ok(lines.join("\n  "))
}

/// Writes the wish on the Node as it was read: what somebody writes meanwhile is not written over.
async fn change(nodes: &Api<NodeObject>, object: &NodeObject, wish: &Wish) -> Result<(), ApiError> {
    let there = node::read(object, None);
    let before = there.annotations.get(wish.key()).map(String::as_str);
    let Some(patch) = wish.patch(before, &there.uid, &there.resource_version) else {
        return Ok(());
    };
    let nodes: Api<Named<NodeObject>> = Api::all(nodes.clone().into_client());
    let (what, patch) = (format!("change Node {}", there.name), Patch::Merge(patch));
    call(&what, CALL, nodes.patch(&there.name, &params(), &patch)).await?;
    Ok(())
}

/// Has the slots of this group know a pause or its end, or all slots of the namespace; what came of each, for people.
pub async fn slots(
    client: &Client,
    namespace: &str,
    group: Option<&str>,
    wish: &Wish,
    again: &Again,
) -> Result<Vec<Result<String, WishError>>, WishError> {
    let leases = Leases::new(client.clone(), namespace, "");
    let mut slots = leases.all(Duration::ZERO).await?;
    slots.retain(|lease| group.is_none_or(|group| lease.group == group));
    if slots.is_empty() {
        return Err(WishError::NoSlots {
            namespace: namespace.to_owned(),
            group: group.map(str::to_owned),
        });
    }
    let api: Api<LeaseObject> = Api::namespaced(client.clone(), namespace);
    let mut lines = Vec::new();
    for slot in slots {
        // One that fails keeps no other back.
        lines.push(one_slot(&leases, &api, slot, wish, again).await);
    }
    Ok(lines)
}

async fn one_slot(
    leases: &Leases,
    api: &Api<LeaseObject>,
    mut slot: Lease,
    wish: &Wish,
    again: &Again,
) -> Result<String, WishError> {
    let name = slot.name.clone();
    let what = format!("change Lease {name}");
    let mut tries = TRIES;
    let after = loop {
        let before = slot.paused.as_deref();
        let Some(patch) = wish.patch(before, &slot.uid, &slot.resource_version) else {
            break slot.clone();
        };
        let patch = Patch::Merge(patch);
        match call(&what, CALL, api.patch(&name, &params(), &patch)).await {
            Ok(after) => break lease::read(&after, None),
            Err(conflict @ ApiError::Conflict { .. }) => {
                tries -= 1;
                let read = leases.get(&name, Duration::ZERO).await?;
                slot = read.filter(|_| tries > 0).ok_or(conflict)?;
            }
            Err(err) => return Err(err.into()),
        }
    };
    let done = done(wish, slot.paused.as_deref(), "slot");
    Ok(format!(
        "slot {name}: {done}{}",
        holder(&after, wish, again)
    ))
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// What was done where this stood before.
fn done(wish: &Wish, before: Option<&str>, what: &str) -> String {
    match (wish, before) {
        (Wish::Pause(_), None) => "paused".to_owned(),
        (Wish::Pause(_), Some(why)) => format!("was paused before, which stays: {why}"),
        (Wish::Resume(_), None) => "was not paused".to_owned(),
        (Wish::Resume(Some(only)), Some(why)) if only != why => format!("stays paused: {why}"),
        (Wish::Resume(_), Some(why)) if what == "slot" => format!("open (it was paused: {why})"),
        (Wish::Resume(_), Some(why)) => format!("not paused any more (it was: {why})"),
        (Wish::Reboot(words), None) => format!("asked to reboot when it is its turn: {words}"),
        (Wish::Reboot(words), Some(before)) => {
            format!("asked to reboot when it is its turn: {words} (it was asked before: {before})")
        }
        (Wish::Cancel, None) => "nobody asked it by annotation".to_owned(),
        (Wish::Cancel, Some(words)) => {
            format!("not asked by annotation any more (it was: {words})")
        }
    }
}

/// What a person may not expect of a node that was like this.
fn beside(shows: &Member, wish: &Wish, before: Option<&str>, again: &Again) -> Vec<String> {
    let reason = shows.reason.as_deref().and_then(Reason::of_name);
    let name = &shows.node;
    let mut lines = Vec::new();
    match wish {
        Wish::Reboot(_) => {
            if let Some(why) = &shows.paused {
                lines.push(format!("but it is paused ({why}): {}", again.verb("resume", name)));
            }
            let under_way = [
                Reason::Rebooting,
                Reason::Verifying,
                Reason::Unhealthy,
                Reason::Releasing,
                Reason::NotReleased,
            ];
            if reason.is_some_and(|reason| under_way.contains(&reason)) {
                let cancel = again.verb("cancel", name);
                lines.push(format!("it is in the middle of a reboot already, and this is another one after it: {cancel} takes it back"));
            }
        }
        Wish::Cancel => {
            if shows.message.as_deref().is_some_and(|said| others_ask(said, before)) {
                let pause = again.verb("pause", name);
                lines.push(format!("what else asks for its reboot goes on to do so; {pause} stops it"));
            }
        }
        Wish::Pause(_) => lines.extend(match reason {
            Some(Reason::Claiming | Reason::Draining | Reason::BlockedByBudget | Reason::PodDeleted) => Some(
                "it undoes its drain, keeps its cordon until it is resumed, and the next node of a group that is not paused goes on"
                    .to_owned(),
            ),
            Some(Reason::Maintenance) => Some(
                "somebody keeps it drained: this ends that, and gives its slot to the next node, unless its host has rebooted since"
                    .to_owned(),
            ),
            Some(Reason::Verifying | Reason::Unhealthy | Reason::Releasing) => {
                Some("it has rebooted already, and keeps its cordon until it is resumed".to_owned())
            }
            _ => None,
        }),
        Wish::Resume(_) => {}
    }
    if matches!(wish, Wish::Pause(_) | Wish::Cancel) && reason == Some(Reason::Rebooting) {
        lines.push("it may be too late: it was about to reboot".to_owned());
    }
    lines
}

/// Whether the words of a condition name anything that asks for the reboot, beside this annotation.
fn others_ask(said: &str, annotation: Option<&str>) -> bool {
    let Some((_, asks)) = said.rsplit_once("asked for by ") else {
        return false;
    };
    let own = match annotation {
        Some(words) => asks.replacen(&format!("{BY_ANNOTATION} ({words})"), "", 1),
        // It was taken off a moment ago, and the daemon has not told yet.
        None if asks.starts_with(BY_ANNOTATION) => String::new(),
        None => asks.to_owned(),
    };
    own.chars().any(char::is_alphanumeric)
}

/// What its daemon said before it knew of the wish.
fn last_words(shows: &Member, now: Timestamp) -> String {
    match (&shows.message, shows.told) {
        (None, _) => "no daemon ever reported there: does kube-rebootd run on it?".to_owned(),
        (Some(said), Some(told)) => format!("it last said, {} ago: {said}", age(now, told)),
        (Some(said), None) => format!("it last said: {said}"),
    }
}

/// Who holds a paused slot goes on.
fn holder(slot: &Lease, wish: &Wish, again: &Again) -> String {
    let (Some(holder), Wish::Pause(_)) = (&slot.holder, wish) else {
        return String::new();
    };
    // Whoever takes a slot may write any name there, and a person copies this line (I14).
    if !is_subdomain(holder) {
        return "; it is held by a name that no node can have".to_owned();
    }
    match &slot.going_down {
        Some(_) => format!("; {holder}, which holds it, goes down now, or has rebooted already"),
        None => format!(
            "; {holder}, which holds it, goes on, reboot included: {} stops that one too; where somebody keeps it drained it \
             does not reboot, and a pause would end that: {} tells",
            again.verb("pause", holder),
            again.verb("explain", holder)
        ),
    }
}

/// What stands there where nobody gives a reason: who, and when. The same words again would be no new wish for a while after
/// the reboot (I10).
pub fn by(user: &str, now: Timestamp) -> String {
    let seconds = now.strftime("%Y-%m-%dT%H:%M:%SZ");
    let user = if user.is_empty() { "somebody" } else { user };
    text::clean(&format!("by {user}, {seconds}"), WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_else_asks_is_told_from_the_annotation() {
        let both = "draining; asked for by sentinel /run/reboot-required (linux), node annotation (new firmware)";
        let alone = "draining; asked for by node annotation (new firmware)";
        for (said, annotation, others) in [
            (both, Some("new firmware"), true),
            (both, None, true),
            (alone, Some("new firmware"), false),
            (alone, None, false),
            ("idle: no reboot needed", Some("new firmware"), false),
        ] {
            assert_eq!(
                others_ask(said, annotation),
                others,
                "{said} {annotation:?}"
            );
        }
    }

    /// Found by an operator who was never there: a pause ended a colleague's maintenance, and a second `reboot` in the middle of
    /// a reboot made another one, and nobody said so.
    #[test]
    fn what_a_wish_would_end_or_repeat_is_said() {
        let again = Again {
            program: "kube-rebootd",
            options: String::new(),
        };
        let now = Timestamp::UNIX_EPOCH;
        let said = |reason: &str, wish: &Wish| {
            let object = json!({"metadata": {"name": "n1"}, "status": {"conditions": [
                {"type": "RebootRequired", "status": "True", "reason": reason, "message": "words"}]}});
            let object = serde_json::from_value(object).expect("a Node");
            beside(&member(&object, now), wish, None, &again).join("\n")
        };
        let pause = Wish::Pause("the rack is moved".to_owned());
        let reboot = Wish::Reboot("new firmware".to_owned());
        for (reason, wish, words) in [
            ("Maintenance", &pause, "somebody keeps it drained"),
            ("Draining", &pause, "undoes its drain"),
            ("Verifying", &pause, "has rebooted already"),
            ("Verifying", &reboot, "kube-rebootd cancel n1 takes it back"),
            ("Rebooting", &reboot, "another one after it"),
            ("Maintenance", &reboot, ""),
            ("Queued", &reboot, ""),
            ("Idle", &pause, ""),
        ] {
            let said = said(reason, wish);
            assert!(said.contains(words), "{reason}: {said}");
            assert_eq!(said.is_empty(), words.is_empty(), "{reason}: {said}");
        }
    }

    #[test]
    fn only_what_stands_for_this_reason_is_taken_away() {
        let mine = Wish::Resume(Some("a bad kernel".to_owned()));
        assert!(mine.patch(Some("a bad kernel"), "u", "7").is_some());
        assert_eq!(mine.patch(Some("training until Friday"), "u", "7"), None);
        let stays = done(&mine, Some("training until Friday"), "slot");
        assert_eq!(stays, "stays paused: training until Friday");
        assert!(
            Wish::Resume(None)
                .patch(Some("training until Friday"), "u", "7")
                .is_some()
        );
    }
}
