//! Events about the own Node, which `kubectl describe node` shows.
//!
//! They are of core/v1, as the role of nodes allows no others before Kubernetes 1.36, and in the namespace `default`, where
//! those of Nodes belong. A task of its own writes them: nothing rests on one, and nobody waits for one (I7).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event as Object, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use kube_rebootd_core::condition::Event;
use kube_rebootd_core::names;
use serde_json::json;
use tokio::sync::mpsc;
use tracing::{Instrument, debug, info};

use crate::cluster::answer::{ApiError, call};

mod told;

pub use told::{Tale, Told, about};

/// Where Kubernetes keeps the Events of what has no namespace.
const NAMESPACE: &str = "default";
/// For one request.
const LIMIT: Duration = Duration::from_secs(5);
/// So many wait while one is written; the next are dropped.
const QUEUE: usize = 16;
/// So often one that happens again is counted, as `kubectl` shows it ("x3 over 10m"): somebody may make a node come and go
/// between two reasons all the time.
const COUNTED: Duration = Duration::from_secs(60);
/// Characters of a Node's name in that of an Event, which must not exceed 253 with what follows it.
const NODE_NAME: usize = 200;

/// The way to the task that writes; the task ends with it.
#[derive(Debug)]
pub struct Events(mpsc::Sender<Letter>);

/// An Event, and whom it is about.
struct Letter {
    client: Client,
    node: String,
    uid: String,
    event: Event,
    at: Timestamp,
}

impl Events {
    /// Begins the task, which writes one Event after the other.
    pub fn start() -> Self {
        let (send, letters) = mpsc::channel(QUEUE);
        tokio::spawn(write(letters).in_current_span());
        Self(send)
    }

    /// Has an Event written about the Node of this name and uid, at `at` on the host's clock.
    pub fn tell(&self, client: Client, node: &str, uid: &str, event: Event, at: Timestamp) {
        let letter = Letter {
            client,
            node: node.to_owned(),
            uid: uid.to_owned(),
            event,
            at,
        };
        if self.0.try_send(letter).is_err() {
            debug!("an Event is dropped: {QUEUE} wait already");
        }
    }
}

/// One that was written, and how often it has happened. There are as many as reasons, and a few more.
struct Written {
    name: String,
    uid: String,
    event: Event,
    count: u32,
    /// When the API server was last told.
    told: Timestamp,
}

async fn write(mut letters: mpsc::Receiver<Letter>) {
    let mut written = Vec::new();
    let mut trouble = String::new();
    while let Some(letter) = letters.recv().await {
        let words = match said(&letter, &mut written).await {
            Ok(()) => String::new(),
            Err(err) => err.to_string(),
        };
        if !words.is_empty() && words != trouble {
            info!("the Node's Events cannot be written, which changes nothing else: {words}");
        }
        trouble = words;
    }
}

/// Counts the Event, or writes it.
async fn said(letter: &Letter, written: &mut Vec<Written>) -> Result<(), ApiError> {
    let api: Api<Object> = Api::namespaced(letter.client.clone(), NAMESPACE);
    // A Node that was registered anew has none of them.
    written.retain(|one| one.uid == letter.uid);
    if let Some(place) = written.iter().position(|one| one.event == letter.event) {
        let known = &mut written[place];
        known.count += 1;
        if letter.at.duration_since(known.told).unsigned_abs() < COUNTED {
            return Ok(());
        }
        known.told = letter.at;
        let patch = json!({"count": known.count, "lastTimestamp": Time(seconds(letter.at))});
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let counted = api.patch(&known.name, &params, &patch);
        match call("count an Event of the Node", LIMIT, counted).await {
            Ok(_) => return Ok(()),
            // The API server keeps them for an hour, unless it is told otherwise.
            Err(ApiError::Gone { .. }) => drop(written.swap_remove(place)),
            Err(err) => return Err(err),
        }
    }
    let name = name(letter);
    let object = object(letter, &name);
    let params = PostParams {
        field_manager: Some(names::NODE_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let made = api.create(&params, &object);
    call("write an Event of the Node", LIMIT, made).await?;
    written.push(Written {
        name,
        uid: letter.uid.clone(),
        event: letter.event,
        count: 1,
        told: letter.at,
    });
    Ok(())
}

/// As other components name theirs: the object's name, and the time.
fn name(letter: &Letter) -> String {
    let node: String = letter.node.chars().take(NODE_NAME).collect();
    let node = node.trim_end_matches(['.', '-']);
    format!("{node}.{:x}", letter.at.as_nanosecond())
}

fn object(letter: &Letter, name: &str) -> Object {
    let at = Some(Time(seconds(letter.at)));
    let kind = if letter.event.warning() {
        "Warning"
    } else {
        "Normal"
    };
    Object {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(letter.node.clone()),
            uid: Some(letter.uid.clone()),
            ..ObjectReference::default()
        },
        reason: Some(letter.event.reason.name().to_owned()),
        message: Some(letter.event.message()),
        type_: Some(kind.to_owned()),
        source: Some(EventSource {
            component: Some(names::NODE_MANAGER.to_owned()),
            host: Some(letter.node.clone()),
        }),
        reporting_component: Some(names::NODE_MANAGER.to_owned()),
        reporting_instance: Some(letter.node.clone()),
        first_timestamp: at.clone(),
        last_timestamp: at,
        count: Some(1),
        ..Object::default()
    }
}

/// These times have no fractions.
fn seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
