//! What `explain` asks the API server: who waits before this node, and what would become of its pods. Without the name of a node
//! the host's own credential asks. Reads and dry runs alone (I9, I11).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use jiff::Timestamp;
use kube::Client;
use kube_rebootd_core::config::{Config, DrainMode};
use kube_rebootd_core::drain::{Fate, PodRef, undrained};
use kube_rebootd_core::pod::Pod;
use kube_rebootd_core::record::Record;
use kube_rebootd_core::slot::{Waiter, Waiting};
use kube_rebootd_core::text::{MESSAGE, clean};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::cli::identity;
use crate::cluster::answer::ApiError;
use crate::cluster::client::Clients;
use crate::cluster::pods::OwnPods;
use crate::cluster::{heartbeat, peers, rights};
use crate::layers;
use crate::root::Root;

/// All dry runs together, and whether they may be sent: a person waits for them.
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
            drain: own_drain(&clients, &config, record).await,
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
    let clients = identity::host(root, &loaded.config).await;
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

async fn own_drain(clients: &Clients, config: &Config, record: &Record) -> Drain {
    let asker = Asker {
        cluster: &clients.coordinator,
        pods: &clients.node,
        is_node: true,
    };
    // What was counted at the cordon stays true for the hold.
    let alone = record.hold.as_ref().is_some_and(|hold| hold.alone);
    drain(&asker, &clients.name, config, alone).await
}

/// Whose clients ask.
pub(super) struct Asker<'a> {
    /// May look at Nodes.
    pub(super) cluster: &'a Client,
    /// May look at pods.
    pub(super) pods: &'a Client,
    /// It drains as this identity: what is denied to it is denied to the drain.
    pub(super) is_node: bool,
}

/// What a drain of the node would do by this configuration; `alone`: it is known that the cluster has no other Node.
pub(super) async fn drain(asker: &Asker<'_>, name: &str, config: &Config, alone: bool) -> Drain {
    let mode = config.drain.mode;
    let mut problem = None;
    let alone = match alone {
        true => true,
        false if mode != DrainMode::Auto => false,
        false => match peers::others(asker.cluster, name).await {
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
    let own = OwnPods::new(asker.pods.clone(), name);
    match own.list().await {
        Ok(pods) => Drain {
            evicts: Some(true),
            why: None,
            pods: fates(asker, &own, &pods, config).await,
            problem,
        },
        Err(err) => Drain {
            evicts: Some(true),
            problem: Some(err.to_string()),
            ..Drain::default()
        },
    }
}

/// Why this person's dry run of an eviction would say nothing about the drain's, by the namespace: the right is the node's.
/// `may` asks for it in a namespace, or in all, and has until `end`; no more than `most` questions are on their way at once.
async fn not_asked(
    may: impl AsyncFn(Option<String>) -> Result<bool, ApiError>,
    namespaces: &BTreeSet<&str>,
    most: usize,
    end: Instant,
) -> BTreeMap<String, String> {
    if namespaces.is_empty() || timeout_at(end, may(None)).await == Ok(Ok(true)) {
        return BTreeMap::new();
    }
    let late = format!(
        "is not tried: whether it may be was not answered within {} s",
        WITHIN.as_secs()
    );
    let known = |namespace: &&str| ((*namespace).to_owned(), late.clone());
    let mut why: BTreeMap<String, String> = namespaces.iter().map(known).collect();
    let names: Vec<String> = why.keys().cloned().collect();
    let may = &may;
    let asked = stream::iter(names).map(async |namespace| {
        let answer = may(Some(namespace.clone())).await;
        (namespace, answer)
    });
    let mut asked = Box::pin(asked.buffer_unordered(most.max(1)));
    while let Ok(Some((namespace, answer))) = timeout_at(end, asked.next()).await {
        let words = match answer {
            Ok(true) => {
                why.remove(&namespace);
                continue;
            }
            Ok(false) => format!(
                "is not tried: that wants the right to create pods/eviction in the namespace {namespace}"
            ),
            Err(err) => format!("is not tried: {err}"),
        };
        why.insert(namespace, words);
    }
    why
}

/// What would become of each pod, in the order of their names. No more dry runs are on their way at once than a drain sends.
async fn fates(asker: &Asker<'_>, own: &OwnPods, pods: &[Pod], config: &Config) -> Vec<Fated> {
    let policy = &config.drain.policy;
    let mut fates: Vec<(&Pod, Option<Fate>)> = pods
        .iter()
        .map(|pod| (pod, Fate::judged(pod, policy)))
        .collect();
    fates.sort_by_key(|(pod, _)| pod.path());
    let open = fates.iter().filter(|(_, fate)| fate.is_none());
    let namespaces = open.map(|(pod, _)| pod.namespace.as_str()).collect();
    let end = Instant::now() + WITHIN;
    let most = policy.parallelism;
    let may = async |namespace: Option<String>| {
        if asker.is_node {
            return Ok(true);
        }
        rights::evicts(asker.pods, namespace.as_deref()).await
    };
    let not_asked = not_asked(may, &namespaces, most, end).await;
    for (pod, fate) in fates.iter_mut().filter(|(_, fate)| fate.is_none()) {
        let why = not_asked.get(&pod.namespace).cloned();
        *fate = why.map(|why| Fate::Unknown { why });
    }
    let open = fates
        .iter()
        .enumerate()
        .filter(|(_, (_, fate))| fate.is_none());
    let open: Vec<(usize, &Pod)> = open.map(|(index, (pod, _))| (index, *pod)).collect();
    let tries = stream::iter(open).map(async |(index, pod)| {
        let answer = own.would_evict(&PodRef::of(pod)).await;
        (index, Fate::tried(&pod.namespace, answer))
    });
    let mut tries = Box::pin(tries.buffer_unordered(most.max(1)));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by an attacker: a silent server was waited for 15 s in each namespace, one after another.
    #[tokio::test(start_paused = true)]
    async fn who_may_evict_is_asked_within_the_limit_of_all() {
        let names: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
        let namespaces = names.iter().map(String::as_str).collect();
        let begin = Instant::now();
        let silent = async |namespace: Option<String>| {
            let quick = namespace.as_deref() == Some("n0");
            let long = if quick { 1 } else { 15 };
            tokio::time::sleep(Duration::from_secs(long)).await;
            Ok(false)
        };
        let why = not_asked(silent, &namespaces, 5, begin + WITHIN).await;
        assert!(begin.elapsed() <= WITHIN, "{:?}", begin.elapsed());
        assert_eq!(why.len(), 40, "none is tried whose right is not known");
        assert!(why["n0"].contains("wants the right"), "{}", why["n0"]);
        assert!(
            why["n9"].contains("was not answered within 30 s"),
            "{}",
            why["n9"]
        );
        let allowed = async |namespace: Option<String>| Ok(namespace.as_deref() == Some("n1"));
        let why = not_asked(allowed, &namespaces, 5, Instant::now() + WITHIN).await;
        assert!(why.len() == 39 && !why.contains_key("n1"));
        let all = async |namespace: Option<String>| Ok(namespace.is_none());
        let why = not_asked(all, &namespaces, 5, Instant::now() + WITHIN).await;
        assert!(why.is_empty());
    }
}
