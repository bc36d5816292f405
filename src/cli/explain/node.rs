//! `explain NODE`: why a node is where it is, from the cluster alone, and so from anywhere.
//!
//! It rests on what the API server shows to whoever asks: the Node with the words of its daemon, the slots, who waits, Events, and
//! dry runs of evictions (I9). Conditions and annotations may be written by others as well: it is for people. What cannot be read
//! is said, and all the rest is shown. Nothing is changed.

use std::time::Duration;

use jiff::Timestamp;
use kube::{Api, Client};
use kube_rebootd_core::condition::Kind;
use kube_rebootd_core::config::{Config, is_label_value};
use kube_rebootd_core::names;
use kube_rebootd_core::node::Node;
use kube_rebootd_core::node_fields::recorded;
use kube_rebootd_core::reason::Reason;
use kube_rebootd_core::slot::{Lease, Waiter, Waiting};
use kube_rebootd_core::text::{self, NAME};
use serde::Serialize;
use serde_json::Value;

use super::cluster::{self, Asker, placed};
use super::{Drain, Queue};
use crate::cli::nodes::{self, Member, Parts, Row, Shown};
use crate::cli::status::{self, Done};
use crate::cluster::answer::{ApiError, CALL, call, found};
use crate::cluster::events::{Tale, Told, about};
use crate::cluster::heartbeat;
use crate::cluster::lean::Node as Object;
use crate::cluster::lease::Leases;
use crate::cluster::node;

#[cfg(test)]
mod tests;
mod words;

pub(in crate::cli) use words::page;

/// Which node.
#[derive(Clone, Copy)]
pub struct Which<'a> {
    pub node: &'a str,
    /// Of the slots.
    pub namespace: &'a str,
    /// Its `[drain]` judges the pods.
    pub config: &'a Config,
    /// This host is that node, and asks with its own credential.
    pub own: bool,
}

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum Unseen {
    #[error("there is no Node {0}, and no slot is held by it; kubectl get nodes shows all")]
    NoNode(String),
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// `explain NODE --json`, stable: all keys that `nodes --json` has of a node, and these. Keys are added, never renamed or removed.
/// A key without a value is `null`, times are RFC 3339 in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Seen {
    #[serde(flatten)]
    pub member: Member,
    /// There is such a Node; null: it cannot be seen.
    pub exists: Option<bool>,
    /// Since when `ready` is what it is, by the clock of whoever wrote it.
    pub ready_since: Option<Timestamp>,
    /// Its daemon has told nothing for longer than it ever waits, or never anything, or its clock is ahead.
    pub silent: bool,
    /// Who is on record for the cordon: field managers.
    pub cordoned_by: Vec<String>,
    /// Why somebody asks for its reboot by annotation.
    pub wish: Option<String>,
    /// The conditions for maintenance that the Node has.
    pub maintenance: Vec<Maintained>,
    /// The last reboots, newest first.
    pub history: Vec<Done>,
    pub namespace: String,
    /// Whose slots are shown: the group of the slot that it holds, or its daemon's, or the configured one.
    pub slots_of: String,
    /// null: they cannot be seen.
    pub slots: Option<Vec<Value>>,
    /// What it has to do with these slots: holds or claims one, or waits.
    pub place: Vec<Place>,
    /// The place among those who wait for a slot; null: this node does not, or that cannot be seen.
    pub queue: Option<Queue>,
    /// What a drain would do now.
    pub drain: Drain,
    /// Those of the last hour in its daemon's name, newest first; whoever may write Events can write them as well; null: they cannot be seen.
    pub events: Option<Vec<Told>>,
    /// There are more of them than were read: newer ones may be among those.
    pub more_events: bool,
    /// What could not be looked at.
    pub hidden: Vec<Hidden>,
    /// Where `[drain]` is the node's own.
    #[serde(skip)]
    own: bool,
    /// For people.
    #[serde(skip)]
    states: Vec<(String, String)>,
}

/// One of the Node's conditions for maintenance, whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Maintained {
    pub condition: &'static str,
    pub status: &'static str,
    /// `KubeRebootd`, or another writer's.
    pub reason: String,
    pub message: String,
    pub since: Option<Timestamp>,
}

/// As one of the `queue` of `nodes --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    pub what: &'static str,
    pub slot: Option<String>,
    pub since: Option<Timestamp>,
    pub stage: Option<String>,
    /// For people.
    #[serde(skip)]
    words: String,
}

/// What could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hidden {
    /// `node`, `slots`, `queue` or `events`.
    pub what: &'static str,
    /// What is wanted to see it, where that was the answer (403); null: it failed otherwise.
    pub right: Option<String>,
    pub why: String,
}

impl Seen {
    /// It waits for a slot.
    fn waits(&self) -> bool {
        let reason = self.member.reason.as_deref().and_then(Reason::of_name);
        matches!(reason, Some(Reason::Queued | Reason::TooFewAvailable))
    }

    /// Whether the node needs a person is not known: the Node or the slots were not seen.
    pub fn unsure(&self) -> bool {
        self.judged_by().next().is_some()
    }

    /// The same, and not for a missing right alone: an answer failed, and the next one may not.
    pub fn failed(&self) -> bool {
        self.judged_by().any(|one| one.right.is_none())
    }

    /// What was not seen of all that the judgement rests on.
    fn judged_by(&self) -> impl Iterator<Item = &Hidden> {
        let rests = |one: &&Hidden| matches!(one.what, "node" | "slots");
        self.hidden.iter().filter(rests)
    }
}

/// The Node, as far as it can be seen.
enum Found {
    There(Box<Object>),
    Gone,
    Hidden,
}

impl Found {
    fn object(&self) -> Option<&Object> {
        match self {
            Self::There(object) => Some(object),
            Self::Gone | Self::Hidden => None,
        }
    }

    fn exists(&self) -> Option<bool> {
        match self {
            Self::There(_) => Some(true),
            Self::Gone => Some(false),
            Self::Hidden => None,
        }
    }
}

/// What was read of one node, and what could not be.
struct Reads {
    node: Found,
    leases: Option<Vec<Lease>>,
    waiters: Option<Vec<Waiter>>,
    events: Option<Tale>,
    hidden: Vec<Hidden>,
}

/// Asks all of it: `client` for Nodes, Leases and Events, `pods` for the pods; `now` gives the ages.
pub async fn ask(
    which: Which<'_>,
    client: &Client,
    pods: &Client,
    now: Timestamp,
) -> Result<Seen, Unseen> {
    let name = which.node;
    let nodes: Api<Object> = Api::all(client.clone());
    let leases = Leases::new(client.clone(), which.namespace, "");
    let what = format!("get Node {name}");
    let (node, leases, events) = tokio::join!(
        call(&what, CALL, nodes.get(name)),
        leases.all(Duration::ZERO),
        about(client, name, now)
    );
    let mut hidden = Vec::new();
    let node = match found(node) {
        Err(err @ ApiError::Denied { code: 403, .. }) => {
            hide::<()>("node", "get Nodes", Err(err), &mut hidden);
            Found::Hidden
        }
        // Whoever does not answer to this answers to nothing.
        node => node?.map_or(Found::Gone, |object| Found::There(Box::new(object))),
    };
    let right = format!("list Leases in the namespace {}", which.namespace);
    let leases = hide("slots", &right, leases, &mut hidden);
    let group = group(which, node.object(), leases.as_deref());
    let right = format!("list Leases in the namespace {}", names::NODE_LEASES);
    let waiters = heartbeat::list(client, &group, "").await;
    let waiters = hide("queue", &right, waiters, &mut hidden);
    let events = hide(
        "events",
        "list Events in the namespace default",
        events,
        &mut hidden,
    );
    let reads = Reads {
        node,
        leases,
        waiters,
        events,
        hidden,
    };
    let asker = Asker {
        cluster: client,
        pods,
        is_node: which.own,
    };
    let drain = drain(which, &asker, &reads).await;
    seen(which, &group, reads, drain, now)
}

/// What a failed answer hides; the right is named only where that is what is missing.
fn hide<T>(
    what: &'static str,
    right: &str,
    answer: Result<T, ApiError>,
    hidden: &mut Vec<Hidden>,
) -> Option<T> {
    answer
        .map_err(|err| {
            hidden.push(Hidden {
                what,
                right: matches!(err, ApiError::Denied { code: 403, .. }).then(|| right.to_owned()),
                why: err.to_string(),
            });
        })
        .ok()
}

/// Whose slots are to be looked at.
fn group(which: Which<'_>, node: Option<&Object>, leases: Option<&[Lease]>) -> String {
    let held = leases.into_iter().flatten();
    let mut held = held.filter(|lease| lease.holder.as_deref() == Some(which.node));
    let told = || {
        let node = node::read(node?, None);
        let told = node.annotations.get(names::GROUP)?;
        Some(text::name(told, NAME))
    };
    let held = held.next().map(|lease| lease.group.clone());
    let configured = || which.config.coordination.group.to_string();
    // It goes into a selector.
    let told = || told().filter(|told| is_label_value(told));
    held.or_else(told).unwrap_or_else(configured)
}

async fn drain(which: Which<'_>, asker: &Asker<'_>, reads: &Reads) -> Drain {
    if matches!(reads.node, Found::Gone) {
        return Drain {
            evicts: Some(false),
            why: Some("there is no such Node".to_owned()),
            ..Drain::default()
        };
    }
    let node = reads.node.object();
    let record = node.and_then(|node| recorded(&node::read(node, None)));
    // What was counted at the cordon stays true for the hold.
    let alone = record.and_then(|record| record.hold);
    let alone = alone.is_some_and(|hold| hold.alone);
    cluster::drain(asker, which.node, which.config, alone).await
}

/// What follows from all that was read.
fn seen(
    which: Which<'_>,
    group: &str,
    reads: Reads,
    drain: Drain,
    now: Timestamp,
) -> Result<Seen, Unseen> {
    let name = which.node;
    let (exists, object) = (reads.node.exists(), reads.node.object());
    let node = object.map(|object| node::read(object, None));
    let parts = Parts {
        leases: reads.leases,
        nodes: object.into_iter().map(Shown::read).collect(),
        waiters: reads.waiters.clone().unwrap_or_default(),
        hidden: Vec::new(),
    };
    let slots_seen = parts.leases.is_some();
    let all = nodes::together(which.namespace, group, parts, now);
    let mut rows = all.rows.into_iter();
    let own = |row: &Row| row.node == name;
    let place: Vec<Place> = rows.by_ref().filter(own).map(placed_at).collect();
    let member = all.nodes.into_iter().find(|member| member.node == name);
    let member = match (member, exists) {
        (Some(member), Some(_)) => member,
        (None, Some(_)) => return Err(Unseen::NoNode(name.to_owned())),
        // A holder whose Node cannot be seen is no holder whose Node is gone.
        (_, None) => nodes::unseen(name),
    };
    let silent = exists == Some(true) && nodes::silent(member.told, now);
    let queue = reads.waiters.and_then(|all| queue(name, group, all));
    Ok(Seen {
        exists,
        ready_since: object.and_then(node::ready_since),
        silent,
        cordoned_by: node.as_ref().map(cordoned_by).unwrap_or_default(),
        wish: node
            .as_ref()
            .and_then(|node| node.annotations.get(names::REBOOT).cloned()),
        maintenance: node.as_ref().map(maintenance).unwrap_or_default(),
        history: (node.as_ref())
            .map(nodes::history)
            .unwrap_or_default()
            .into_iter()
            .map(status::done)
            .collect(),
        namespace: which.namespace.to_owned(),
        slots_of: group.to_owned(),
        states: (all.slots.iter())
            .map(|slot| (slot.name.clone(), nodes::state(slot)))
            .collect(),
        slots: slots_seen.then(|| all.slots.iter().map(nodes::slot).collect()),
        place,
        queue,
        drain,
        more_events: reads.events.as_ref().is_some_and(|tale| tale.more),
        events: reads.events.map(|tale| tale.events),
        hidden: reads.hidden,
        own: which.own,
        member,
    })
}

fn placed_at(row: Row) -> Place {
    let words = row.what.words();
    let (what, slot) = row.what.name();
    Place {
        what,
        slot: slot.map(str::to_owned),
        since: row.since,
        stage: row.stage,
        words,
    }
}

/// By the order in which a slot that is given up names those who wait; none: the node does not.
fn queue(name: &str, group: &str, all: Vec<Waiter>) -> Option<Queue> {
    let (own, others): (Vec<Waiter>, Vec<Waiter>) =
        all.into_iter().partition(|waiter| waiter.node == name);
    let own = own.into_iter().next()?;
    let place = Waiting {
        group: group.to_owned(),
        since: own.since,
    };
    Some(placed(&place, name, Ok(others)))
}

/// Field managers are what their requests say.
fn cordoned_by(node: &Node) -> Vec<String> {
    if !node.unschedulable {
        return Vec::new();
    }
    let owners = node.cordon_owners.iter();
    owners.map(|owner| text::clean(owner, NAME)).collect()
}

fn maintenance(node: &Node) -> Vec<Maintained> {
    let others = node.conditions.iter();
    let others = others.filter(|one| one.kind != Kind::RebootRequired);
    others
        .map(|one| Maintained {
            condition: one.kind.name(),
            status: one.status.name(),
            reason: one.reason.clone(),
            message: one.message.clone(),
            since: one.since.filter(|since| *since != Timestamp::MAX),
        })
        .collect()
}
