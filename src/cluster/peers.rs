//! The other Nodes, through the coordinator client: who carries the slot label, how many are down or cordoned,
//! and which of the quorum are not Ready (I1, I8, I13).

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::try_join_all;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use kube_rebootd_core::beats::{Read, Shown};
use kube_rebootd_core::config::is_subdomain;
use kube_rebootd_core::names;
use kube_rebootd_core::peers::{Census, Peer, Peers};
use kube_rebootd_core::stale::Found;
use kube_rebootd_core::text::{self, NAME};

use crate::cluster::answer::{ApiError, CALL, call, found};
use crate::cluster::lean::{Lease, Named, Node};
use crate::cluster::node::ready;
use crate::cluster::table::{self, Row};

/// What is asked about the other Nodes, by consistent reads (without a resourceVersion): every labelled Node but `me`,
/// the names of the Leases of all groups, the Nodes that are down, and for a node of the `quorum` those of it that are
/// not Ready and the heartbeats of the rest.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub coordinator: &'a Client,
    pub namespace: &'a str,
    pub me: &'a str,
    pub quorum: bool,
    /// The boot time of the question.
    pub asked: Duration,
}

impl Question<'_> {
    /// The labels come first, as their list is short; the Nodes are looked at only if the labels say that this
    /// `matters`: that list has a row for every Node of the cluster.
    pub async fn list(
        self,
        matters: impl FnOnce(&Peers) -> bool,
    ) -> Result<(Peers, Read), ApiError> {
        let mut peers = self.claims().await?;
        let mut beats = Read::new();
        if matters(&peers) {
            beats = self.counts().await?.complete(&mut peers);
        }
        Ok((peers, beats))
    }

    /// All of it, and at once: what is asked one after another is older when a reboot rests on it.
    pub async fn list_all(self) -> Result<(Peers, Read), ApiError> {
        let (mut peers, counts) = tokio::try_join!(self.claims(), self.counts())?;
        let beats = counts.complete(&mut peers);
        Ok((peers, beats))
    }

    /// Who carries the label. Without a labelled Node the Leases are not asked for: nothing would be compared with them.
    async fn claims(self) -> Result<Peers, ApiError> {
        let not_asked = "they were not asked for";
        let mut peers = Peers {
            asked: self.asked,
            came: self.asked,
            labelled: Box::pin(labelled(self.coordinator, self.me)).await?,
            leases: BTreeSet::new(),
            census: Err(not_asked.to_owned()),
            quorum_down: Err(not_asked.to_owned()),
            counted: false,
        };
        if !peers.labelled.is_empty() {
            let leases: Api<Named<Lease>> =
                Api::namespaced(self.coordinator.clone(), self.namespace);
            let params = ListParams::default().labels(names::GROUP);
            let list = call("list names of Leases", CALL, leases.list(&params)).await?;
            peers.leases = (list.items.iter())
                .map(|lease| text::name(&lease.name_any(), NAME))
                .collect();
        }
        Ok(peers)
    }

    /// A count that is refused or cannot be read is an answer, not an error: it closes the budget, or says no to a
    /// quorum (I8).
    async fn counts(self) -> Result<Counts, ApiError> {
        // Each on the heap: together they are some 20 KB of stack in every future that waits for them.
        let (census, others) = tokio::join!(
            Box::pin(census(self.coordinator, self.me)),
            Box::pin(look_at_quorum(self.coordinator, self.me, self.quorum))
        );
        Ok(Counts {
            census: said(census)?,
            others: said(others)?,
        })
    }
}

/// How many Nodes are down, and who of the quorum.
struct Counts {
    census: Result<Census, String>,
    others: Result<Quorum, String>,
}

impl Counts {
    /// Completes `peers`; returns the heartbeats.
    fn complete(self, peers: &mut Peers) -> Read {
        let mut beats = Read::new();
        peers.census = self.census;
        peers.quorum_down = self.others.map(|others| {
            beats = others.beats;
            others.down
        });
        peers.counted = true;
        beats
    }
}

/// A refusal is an answer, in words; no answer, or one that new credentials may change, is an error.
fn said<T>(answer: Result<T, ApiError>) -> Result<Result<T, String>, ApiError> {
    match answer {
        Err(error) if error.unanswered() || error.unauthorized() => Err(error),
        answer => Ok(answer.map_err(|error| error.to_string())),
    }
}

async fn labelled(coordinator: &Client, me: &str) -> Result<Vec<Peer>, ApiError> {
    let nodes: Api<Node> = Api::all(coordinator.clone());
    let params = ListParams::default().labels(names::SLOT);
    // Whole Nodes, for their taints: there are no more than slots.
    let list = call("list labelled Nodes", CALL, nodes.list(&params)).await?;
    let labelled = list
        .items
        .iter()
        .filter(|node| node.name_any() != me)
        .map(|node| Peer {
            node: text::name(&node.name_any(), NAME),
            slot: node
                .labels()
                .get(names::SLOT)
                .map(|slot| text::name(slot, NAME))
                .unwrap_or_default(),
            quorum: names::QUORUM_ROLES
                .iter()
                .any(|role| node.labels().contains_key(*role)),
            out_of_service: out_of_service(node),
        });
    Ok(labelled.collect())
}

/// The other Nodes of the quorum.
#[derive(Default)]
struct Quorum {
    /// Those that are not Ready.
    down: Vec<String>,
    /// The heartbeats of the rest.
    beats: Read,
}

/// The Nodes but `me` with a role of the quorum, a few rows for each role, and the heartbeats of those that are Ready.
async fn look_at_quorum(coordinator: &Client, me: &str, quorum: bool) -> Result<Quorum, ApiError> {
    if !quorum {
        return Ok(Quorum::default());
    }
    let what = "look which control-plane Nodes are Ready";
    let role = |role: &str| {
        let selector = format!("&labelSelector={}", role.replace('/', "%2F"));
        async move { table::nodes(coordinator, what, &selector).await }
    };
    let [first, second, third, fourth] = names::QUORUM_ROLES.map(role);
    let (first, second, third, fourth) = tokio::try_join!(first, second, third, fourth)?;
    let rows = [first, second, third, fourth].into_iter().flatten();
    // A node may have several of the roles, and may change between the reads: then it is not Ready.
    let (ready, down): (Vec<_>, Vec<_>) =
        rows.filter(|row| row.name != me).partition(|row| row.ready);
    let [ready, down] = [ready, down].map(|rows| {
        rows.into_iter()
            .map(|row| row.name)
            .collect::<BTreeSet<_>>()
    });
    let beats = ready.difference(&down).map(|node| beat(coordinator, node));
    Ok(Quorum {
        beats: try_join_all(beats).await?.into_iter().collect(),
        down: down.into_iter().collect(),
    })
}

/// The node's heartbeat; none where there is no such Lease. The coordinator may list these Leases, not get one.
async fn beat(coordinator: &Client, node: &str) -> Result<(String, Option<Shown>), ApiError> {
    let api: Api<Lease> = Api::namespaced(coordinator.clone(), names::NODE_LEASES);
    let params = ListParams::default().fields(&format!("metadata.name={node}"));
    let what = format!("look for the heartbeat of Node {node}");
    let list = call(&what, CALL, api.list(&params)).await?;
    let spec = list.items.into_iter().next().and_then(|lease| lease.spec);
    let shown = spec.and_then(|spec| {
        let lasts = spec.lease_duration_seconds.unwrap_or_default();
        Some(Shown {
            renewed: spec.renew_time?,
            lasts: Duration::from_secs(u64::try_from(lasts).unwrap_or_default()),
        })
    });
    Ok((node.to_owned(), shown))
}

/// Whether the cluster has a Node but `me`, by a consistent read of two rows.
pub async fn others(coordinator: &Client, me: &str) -> Result<bool, ApiError> {
    let what = "look for other Nodes";
    let rows = table::nodes(coordinator, what, "&limit=2").await?;
    Ok(rows.is_empty() || rows.iter().any(|row| row.name != me))
}

/// Counts all Nodes and names those but `me` that are not Ready, by a consistent read.
pub async fn census(coordinator: &Client, me: &str) -> Result<Census, ApiError> {
    let what = "count Nodes";
    let rows = table::nodes(coordinator, what, "").await?;
    if rows.is_empty() {
        let why = "the answer is a table without any Node";
        return Err(table::odd(what, why.to_owned()));
    }
    Ok(count(&rows, me))
}

fn count(rows: &[Row], me: &str) -> Census {
    let mut census = Census {
        nodes: rows.len(),
        ..Census::default()
    };
    for row in rows.iter().filter(|row| row.name != me) {
        if !row.ready {
            census.down.push(row.name.clone());
        } else if row.cordoned {
            census.cordoned.push(row.name.clone());
        }
    }
    census
}

/// What a consistent read shows of the Node of this name. What can be no Node's name is not asked for: it would
/// be another path.
pub async fn find(coordinator: &Client, name: &str) -> Result<Found, ApiError> {
    if !is_subdomain(name) {
        return Ok(Found::Absent);
    }
    let nodes: Api<Node> = Api::all(coordinator.clone());
    let what = format!("look for Node {name}");
    let node = found(call(&what, CALL, nodes.get(name)).await)?;
    Ok(match node {
        None => Found::Absent,
        Some(node) if out_of_service(&node) => Found::OutOfService,
        Some(_) => Found::Present,
    })
}

/// A person says that the host is off, and that what ran on it may run elsewhere (Kubernetes, "Non-graceful node
/// shutdown handling"). As for Kubernetes itself, the taint means nothing on a Node that is Ready (`pkg/controller/podgc`):
/// its host is not off. A kubelet may not set taints on a Node that exists (`NodeRestriction`).
fn out_of_service(node: &Node) -> bool {
    if ready(node) {
        return false;
    }
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.is_some_and(|taints| {
        taints
            .iter()
            .any(|taint| taint.key == names::OUT_OF_SERVICE)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// This daemon's own Node is one.
    #[tokio::test]
    async fn i8_a_table_without_a_node_is_not_one_of_all_nodes() {
        let columns = json!([{"name": "Name"}, {"name": "Status"}]);
        for body in [
            json!({"columnDefinitions": columns, "rows": []}),
            json!({"columnDefinitions": columns}),
            json!({"columnDefinitions": columns, "rows": null}),
        ] {
            let answer = serde_json::to_vec(&body).expect("a body");
            let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
                let answer = kube::client::Body::from(answer.clone());
                async move { Ok::<_, std::io::Error>(http::Response::new(answer)) }
            });
            let counted = census(&Client::new(service, "default"), "n1").await;
            assert!(counted.is_err(), "{body}: {counted:?}");
        }
    }

    #[test]
    fn a_node_that_is_down_is_not_counted_twice_and_the_own_one_is_no_other() {
        let row = |name: &str, ready: bool, cordoned: bool| Row {
            name: name.to_owned(),
            ready,
            cordoned,
        };
        let rows = [
            row("n1", false, true),
            row("n2", true, false),
            row("n3", true, true),
            row("n4", false, true),
            row("n5", false, false),
        ];
        let census = count(&rows, "n1");
        assert_eq!(census.nodes, 5);
        assert_eq!(census.down, ["n4", "n5"]);
        assert_eq!(census.cordoned, ["n3"]);
    }
}
