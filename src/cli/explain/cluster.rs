//! What `explain` asks the API server, with the host's own credential: who waits before this node, and what would become of its
//! pods. Reads and dry runs alone (I9, I11).

use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use jiff::Timestamp;
use kube_rebootd_core::config::{Config, DrainMode};
use kube_rebootd_core::drain::{Fate, PodRef, undrained};
use kube_rebootd_core::pod::Pod;
use kube_rebootd_core::record::Record;
use kube_rebootd_core::slot::{Waiter, Waiting};
use kube_rebootd_core::text::{MESSAGE, clean};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::cli::access;
use crate::cluster::client::Clients;
use crate::cluster::pods::OwnPods;
use crate::cluster::{heartbeat, peers};
use crate::layers;
use crate::root::Root;

/// All dry runs together: a person waits for them.
const WITHIN: Duration = Duration::from_secs(30);

/// What was asked here and now.
pub(super) struct Asked {
    pub(super) queue: Option<Queue>,
    pub(super) drain: Drain,
}

/// The place of this node among those of its group that wait for a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Queue {
    pub since: Timestamp,
    /// From 1; null: the others are not known.
    pub place: Option<usize>,
    /// How many wait, this node included.
    pub waiting: Option<usize>,
    /// Who has waited longer, the longest first.
    pub before: Vec<Before>,
    /// Why the others are not known.
    pub problem: Option<String>,
}

/// One that has waited longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Before {
    pub node: String,
    /// null: it does not say.
    pub since: Option<Timestamp>,
    /// False: a gate of it is closed, or an attempt failed; slots pass it by.
    pub ready: bool,
}

/// What a drain would do now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Drain {
    /// Pods would be evicted; null: not known.
    pub evicts: Option<bool>,
    /// Why none would be.
    pub why: Option<String>,
    pub pods: Vec<Fated>,
    /// Why not all of it is known.
    pub problem: Option<String>,
}

/// What would become of one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fated {
    /// namespace/name
    pub pod: String,
    /// `evicted`, `refused`, `blocks`, `awaited`, `stays` or `unknown`.
    pub fate: &'static str,
    pub why: Option<String>,
    /// The budget that refuses.
    pub budget: Option<String>,
}

/// Asks all of it; what cannot be had says why.
pub(super) async fn ask(root: &Root, file: Option<&Path>, record: &Record) -> Asked {
    match reached(root, file).await {
        Ok((config, clients)) => Asked {
            queue: queue(&clients, record.waiting.as_ref()).await,
            drain: drain(&clients, &config, record).await,
        },
        Err(problem) => Asked {
            queue: (record.waiting.as_ref()).map(|place| placed(place, "", Err(problem.clone()))),
            drain: Drain {
                problem: Some(problem),
                ..Drain::default()
            },
        },
    }
}

async fn reached(root: &Root, file: Option<&Path>) -> Result<(Config, Clients), String> {
    let loaded = layers::load_for_root(root, file).map_err(|err| err.to_string())?;
    let clients = access::host(root, &loaded.config).await;
    let clients = clients.map_err(|err| clean(&err.to_string(), MESSAGE))?;
    Ok((loaded.config, clients))
}

async fn queue(clients: &Clients, place: Option<&Waiting>) -> Option<Queue> {
    let place = place?;
    let me = &clients.name;
    let others = heartbeat::list(&clients.coordinator, &place.group, me).await;
    Some(placed(place, me, others.map_err(|err| err.to_string())))
}

/// By the order in which a slot that is given up names them.
pub(super) fn placed(place: &Waiting, me: &str, others: Result<Vec<Waiter>, String>) -> Queue {
    let unknown = Queue {
        since: place.since,
        place: None,
        waiting: None,
        before: Vec::new(),
        problem: None,
    };
    let others = match others {
        Ok(others) => others,
        Err(why) => {
            let problem = Some(why);
            return Queue { problem, ..unknown };
        }
    };
    let waiting = Some(others.len() + 1);
    let longer = |other: &Waiter| (other.since, other.node.as_str()) < (place.since, me);
    let before = others.into_iter().filter(longer).map(|other| Before {
        node: other.node,
        since: Some(other.since).filter(|since| *since != Timestamp::MAX),
        ready: other.ready,
    });
    let before: Vec<Before> = before.collect();
    Queue {
        place: Some(before.len() + 1),
        waiting,
        before,
        ..unknown
    }
}

async fn drain(clients: &Clients, config: &Config, record: &Record) -> Drain {
    let mode = config.drain.mode;
    let mut problem = None;
    // What was counted at the cordon stays true for the hold.
    let alone = match &record.hold {
        Some(hold) if hold.alone => true,
        _ if mode != DrainMode::Auto => false,
        _ => match peers::others(&clients.coordinator, &clients.name).await {
            Ok(others) => !others,
            // As the daemon: who cannot look does not know that it is alone (I8).
            Err(err) => {
                problem = Some(err.to_string());
                false
            }
        },
    };
    if let Some(why) = undrained(mode, alone) {
        return Drain {
            evicts: Some(false),
            why: Some(why.to_owned()),
            pods: Vec::new(),
            problem,
        };
    }
    let own = OwnPods::new(clients.node.clone(), &clients.name);
    match own.list().await {
        Ok(pods) => Drain {
            evicts: Some(true),
            why: None,
            pods: fates(&own, &pods, config).await,
            problem,
        },
        Err(err) => Drain {
            evicts: Some(true),
            problem: Some(err.to_string()),
            ..Drain::default()
        },
    }
}

/// What would become of each pod, in the order of their names. No more dry runs are on their way at once than a drain sends.
async fn fates(own: &OwnPods, pods: &[Pod], config: &Config) -> Vec<Fated> {
    let policy = &config.drain.policy;
    let mut fates: Vec<(&Pod, Option<Fate>)> = pods
        .iter()
        .map(|pod| (pod, Fate::judged(pod, policy)))
        .collect();
    fates.sort_by_key(|(pod, _)| pod.path());
    let open = fates
        .iter()
        .enumerate()
        .filter(|(_, (_, fate))| fate.is_none());
    let open: Vec<(usize, &Pod)> = open.map(|(index, (pod, _))| (index, *pod)).collect();
    let tries = stream::iter(open).map(async |(index, pod)| {
        let answer = own.would_evict(&PodRef::of(pod)).await;
        (index, Fate::tried(pod, answer))
    });
    let mut tries = Box::pin(tries.buffer_unordered(policy.parallelism.max(1)));
    let end = Instant::now() + WITHIN;
    while let Ok(Some((index, fate))) = timeout_at(end, tries.next()).await {
        if let Some((_, known)) = fates.get_mut(index) {
            *known = Some(fate);
        }
    }
    drop(tries);
    fates
        .into_iter()
        .map(|(pod, fate)| fated(pod, fate))
        .collect()
}

pub(super) fn fated(pod: &Pod, fate: Option<Fate>) -> Fated {
    let late = || Fate::Unknown {
        why: format!("was not asked about within {} s", WITHIN.as_secs()),
    };
    let (fate, why, budget) = match fate.unwrap_or_else(late) {
        Fate::Evicted => ("evicted", None, None),
        Fate::Refused { why, budget } => ("refused", Some(why), budget),
        Fate::Blocks { why } => ("blocks", Some(why.to_owned()), None),
        Fate::Awaited { why } => ("awaited", Some(why.to_owned()), None),
        Fate::Stays { why } => ("stays", Some(why.to_owned()), None),
        Fate::Unknown { why } => ("unknown", Some(why), None),
    };
    Fated {
        pod: pod.path(),
        fate,
        why,
        budget,
    }
}
