//! What really happened, judged by the API server's own record and never by the daemon's word.
//!
//! Writes are ordered by the resourceVersion of their answers: all objects of a bed live in one etcd,
//! whose revision counts every write, so no clock decides what came first (I5). Shows I1, I3 and I4.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::audit::Request;
use crate::bed::Bed;

/// Namespace of the slots.
const NAMESPACE: &str = "kube-rebootd";
/// What every key of ours begins with.
const PREFIX: &str = "kube-rebootd/";
/// The one key that stays after a hold (I10).
const HISTORY: &str = "kube-rebootd/history";
/// How a daemon that runs says who it is.
const OF_THE_DAEMON: [&str; 2] = ["kube-rebootd/group", "kube-rebootd/version"];
/// User-Agent of the daemon.
const DAEMON: &str = "kube-rebootd/";

/// A write after which a Lease has another holder than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Revision of the write: the order of all writes of a bed.
    pub revision: u64,
    /// When it was answered, for display only.
    pub at: jiff::Timestamp,
    /// Who wrote: the authenticated user, not whom it acted as.
    pub by: String,
    /// uid of the Lease.
    pub uid: String,
    pub from: Option<String>,
    pub to: Option<String>,
}

/// A stretch of revisions in which a node held a Lease.
#[derive(Debug)]
struct Hold {
    node: String,
    taken: u64,
    /// None: to the end of the record.
    given_up: Option<u64>,
    /// Who ended it.
    by: String,
}

/// The holders of a Lease, one change after the other.
pub fn holders(requests: &[Request], lease: &str) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for (revision, write) in writes(requests, "leases", NAMESPACE) {
        if write.name != lease {
            continue;
        }
        let Some(object) = &write.response else {
            continue;
        };
        let uid = text(&object["metadata"]["uid"]).unwrap_or_default();
        let to = text(&object["spec"]["holderIdentity"]);
        // Another uid is another Lease of the same name: it begins without a holder.
        let before = changes.last().filter(|before| before.uid == uid);
        let from = before.and_then(|before| before.to.clone());
        if from != to {
            changes.push(Change {
                revision,
                at: write.done,
                by: write.user.clone(),
                uid,
                from,
                to,
            });
        }
    }
    changes
}

/// I1: the Lease went from one holder to another only by being free in between, it was taken by nobody
/// for another node, and no node gave up what another one held.
pub fn one_holder_at_a_time(requests: &[Request], lease: &str) -> Result<(), String> {
    for change in holders(requests, lease) {
        let moment = format!("Lease {lease} at revision {}", change.revision);
        let writer = change.by.strip_prefix("system:node:");
        match (&change.from, &change.to) {
            (Some(from), Some(to)) => {
                return Err(format!(
                    "{moment}: {} took it from {from} for {to}",
                    change.by
                ));
            }
            (from, to) => {
                let subject = from.as_ref().or(to.as_ref());
                if let (Some(writer), Some(subject)) = (writer, subject)
                    && writer != subject
                {
                    return Err(format!("{moment}: {writer} wrote for {subject}"));
                }
            }
        }
    }
    Ok(())
}

/// The most Leases of `leases` that had a holder at the same time.
pub fn most_held_at_once(requests: &[Request], leases: &[String]) -> usize {
    let mut changes: Vec<(u64, &String, bool)> = Vec::new();
    for lease in leases {
        for change in holders(requests, lease) {
            changes.push((change.revision, lease, change.to.is_some()));
        }
    }
    changes.sort_unstable();
    let mut held: BTreeMap<&String, bool> = BTreeMap::new();
    let mut most = 0;
    for (_, lease, taken) in changes {
        held.insert(lease, taken);
        most = most.max(held.values().filter(|held| **held).count());
    }
    most
}

/// The most Nodes that were cordoned at the same time, by whomever (I13).
pub fn most_cordoned_at_once(requests: &[Request]) -> usize {
    let mut cordoned = BTreeSet::new();
    let mut most = 0;
    for (_, write) in writes(requests, "nodes", "") {
        let Some(node) = &write.response else {
            continue;
        };
        if node["spec"]["unschedulable"] == true {
            cordoned.insert(&write.name);
        } else {
            cordoned.remove(&write.name);
        }
        most = most.max(cordoned.len());
    }
    most
}

/// I1, I3: every cordon by the daemon fell into a hold of its node, of whichever Lease.
///
/// The number of cordons, so that a caller can tell "all in order" from "nothing happened".
pub fn cordons_while_holding(requests: &[Request]) -> Result<usize, String> {
    let holds = holds(requests);
    let mut cordons = 0;
    for (revision, write) in writes(requests, "nodes", "") {
        if !write.user_agent.starts_with(DAEMON) || !cordons_node(write) {
            continue;
        }
        cordons += 1;
        let held = holds.iter().any(|hold| {
            hold.node == write.name
                && hold.taken < revision
                && hold.given_up.is_none_or(|end| revision < end)
        });
        if !held {
            return Err(format!(
                "{} was cordoned at revision {revision} ({}) without holding a Lease",
                write.name, write.at
            ));
        }
    }
    Ok(cordons)
}

/// I4: whoever gave its Lease up had taken its own cordon away before.
pub fn uncordoned_before_give_up(requests: &[Request]) -> Result<(), String> {
    let applies: Vec<(u64, &Request)> = writes(requests, "nodes", "")
        .into_iter()
        .filter(|(_, write)| write.user_agent.starts_with(DAEMON))
        .collect();
    for hold in holds(requests) {
        let Some(end) = hold.given_up else { continue };
        // An admin's unlock is no give-up.
        if hold.by != format!("system:node:{}", hold.node) {
            continue;
        }
        let last = applies
            .iter()
            .rfind(|(revision, write)| *revision < end && write.name == hold.node);
        if let Some((revision, write)) = last
            && cordons_node(write)
        {
            return Err(format!(
                "{} gave up at revision {end} with the cordon of revision {revision} still there",
                hold.node
            ));
        }
    }
    Ok(())
}

/// After a cycle nothing is left but the history: no cordon, label or other annotation on the Nodes, no
/// waiting record on their heartbeat Leases, no holder in the group.
pub fn nothing_left(bed: &Bed, hosts: &[&str], group: &str) -> Result<(), String> {
    let get = |args: &[&str]| -> Result<Value, String> {
        let said = bed
            .kubectl(&[args, &["-o", "json"]].concat())
            .map_err(|err| format!("{err:#}"))?;
        serde_json::from_str(&said).map_err(|err| format!("kubectl {args:?}: {err}"))
    };
    let mut left = Vec::new();
    for host in hosts {
        let node = get(&["get", "node", host])?;
        if node["spec"]["unschedulable"] == true {
            left.push(format!("Node {host}: cordon"));
        }
        left.extend(keys(&node).map(|key| format!("Node {host}: {key}")));
        let beat = get(&["-n", "kube-node-lease", "get", "lease", host])?;
        left.extend(keys(&beat).map(|key| format!("Lease kube-node-lease/{host}: {key}")));
    }
    let selector = format!("kube-rebootd/group={group}");
    let leases = get(&["-n", NAMESPACE, "get", "leases", "-l", &selector])?;
    let leases = leases["items"].as_array().cloned().unwrap_or_default();
    if leases.is_empty() {
        return Err(format!("the group {group} has no Lease"));
    }
    for lease in leases {
        if let Some(holder) = text(&lease["spec"]["holderIdentity"]) {
            left.push(format!(
                "Lease {}: holder {holder}",
                lease["metadata"]["name"]
            ));
        }
    }
    if left.is_empty() {
        return Ok(());
    }
    Err(left.join("; "))
}

/// Keys of ours on an object, but those that stay.
fn keys(object: &Value) -> impl Iterator<Item = String> {
    ["labels", "annotations"].into_iter().flat_map(|kind| {
        let keys = object["metadata"][kind].as_object().into_iter().flatten();
        keys.map(|(key, _)| key)
            .filter(|key| key.starts_with(PREFIX) && *key != HISTORY)
            .filter(|key| !OF_THE_DAEMON.contains(&key.as_str()))
            .map(move |key| format!("{kind} {key}"))
    })
}

/// Every hold of every Lease.
fn holds(requests: &[Request]) -> Vec<Hold> {
    let mut leases: Vec<&str> = writes(requests, "leases", NAMESPACE)
        .iter()
        .map(|(_, write)| write.name.as_str())
        .collect();
    leases.sort_unstable();
    leases.dedup();
    let mut holds = Vec::new();
    for lease in leases {
        let mut open: Option<Hold> = None;
        for change in holders(requests, lease) {
            if let Some(hold) = open.take() {
                holds.push(Hold {
                    given_up: Some(change.revision),
                    by: change.by.clone(),
                    ..hold
                });
            }
            open = change.to.map(|node| Hold {
                node,
                taken: change.revision,
                given_up: None,
                by: String::new(),
            });
        }
        holds.extend(open);
    }
    holds
}

/// Writes that succeeded, with their revision, in the order etcd did them.
fn writes<'a>(requests: &'a [Request], resource: &str, namespace: &str) -> Vec<(u64, &'a Request)> {
    let mut writes: Vec<(u64, &Request)> = requests
        .iter()
        .filter(|request| request.resource == resource && request.namespace == namespace)
        .filter(|request| matches!(request.verb.as_str(), "create" | "update" | "patch"))
        .filter(|request| matches!(request.code, 200 | 201) && !request.uri.contains("dryRun="))
        .filter_map(|request| Some((revision(request)?, request)))
        .collect();
    // Stable: a write that changed nothing carries the revision of the one before it.
    writes.sort_by_key(|(revision, _)| *revision);
    writes
}

fn revision(request: &Request) -> Option<u64> {
    request.response.as_ref()?["metadata"]["resourceVersion"]
        .as_str()?
        .parse()
        .ok()
}

fn cordons_node(write: &Request) -> bool {
    write
        .request
        .as_ref()
        .is_some_and(|body| body["spec"]["unschedulable"] == true)
}

/// A string that says something.
fn text(value: &Value) -> Option<String> {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests;
