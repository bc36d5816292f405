//! The other Nodes, through the coordinator client: who carries the slot label, how many are down or cordoned,
//! and which of the quorum are not Ready (I1, I8, I13).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::try_join_all;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use serde_json::Value;

use crate::beats::{Read, Shown};
use crate::budget::Census;
use crate::cluster::answer::{ApiError, CALL, call, found};
use crate::cluster::lean::{Lease, Named, Node};
use crate::cluster::node::ready;
use crate::config::is_subdomain;
use crate::names;
use crate::slot::{Peer, Peers};
use crate::stale::Found;
use crate::text::{self, NAME};

/// One row for each Node with what `kubectl get nodes` prints, and without the Node: a list of full Nodes
/// is many times as large (proved: kubernetes.md).
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
/// The column with the Nodes' names.
const NAME_COLUMN: &str = "Name";
/// In the column Status when the Node is cordoned.
const CORDONED: &str = "SchedulingDisabled";
/// What the column Status of a Node begins with when its condition Ready is True; else it is `NotReady`,
/// or `Unknown` without that condition, and `,SchedulingDisabled` may follow any of them (Kubernetes
/// pkg/printers/internalversion/printers.go, printNode; proved).
const READY: &str = "Ready";

/// Every labelled Node but `me`, the names of the Leases of all groups, the Nodes that are down, and for a node
/// of the `quorum` those of it that are not Ready, by consistent reads (without a resourceVersion) asked for at
/// boot time `asked`.
///
/// The labels come first, as their list is short; the Nodes are looked at only if the labels say that this
/// `matters`: that list has a row for every Node of the cluster. Without a labelled Node the Leases are not asked for: nothing would be compared with them. A count that
/// is refused or cannot be read is an answer, not an error: it closes the budget, or says no to a quorum (I8).
pub async fn list(
    coordinator: &Client,
    namespace: &str,
    me: &str,
    quorum: bool,
    asked: Duration,
    matters: impl FnOnce(&Peers) -> bool,
) -> Result<Peers, ApiError> {
    let not_asked = "they were not asked for";
    let mut peers = Peers {
        asked,
        came: asked,
        labelled: Box::pin(labelled(coordinator, me)).await?,
        leases: BTreeSet::new(),
        census: Err(not_asked.to_owned()),
        quorum_beats: BTreeMap::new(),
        quorum_down: Err(not_asked.to_owned()),
        counted: false,
    };
    if !peers.labelled.is_empty() {
        let leases: Api<Named<Lease>> = Api::namespaced(coordinator.clone(), namespace);
        let params = ListParams::default().labels(names::GROUP);
        let list = call("list names of Leases", CALL, leases.list(&params)).await?;
        peers.leases = (list.items.iter())
            .map(|lease| text::name(&lease.name_any(), NAME))
            .collect();
    }
    if matters(&peers) {
        // Each on the heap: together they are some 20 KB of stack in every future that waits for them.
        let (census, others) = tokio::join!(
            Box::pin(census(coordinator, me)),
            Box::pin(look_at_quorum(coordinator, me, quorum))
        );
        peers.census = said(census)?;
        peers.quorum_down = said(others)?.map(|others| {
            peers.quorum_beats = others.beats;
            others.down
        });
        peers.counted = true;
    }
    Ok(peers)
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
        async move {
            let table = table(coordinator, what, &selector).await?;
            Ok::<_, ApiError>((rows(what, &table, me)?.down, others(&table, me)))
        }
    };
    let [first, second, third, fourth] = names::QUORUM_ROLES.map(role);
    let (first, second, third, fourth) = tokio::try_join!(first, second, third, fourth)?;
    let (down, all): (Vec<_>, Vec<_>) = [first, second, third, fourth].into_iter().unzip();
    let [down, all] = [down, all].map(|names| names.into_iter().flatten().collect::<BTreeSet<_>>());
    let beats = all.difference(&down).map(|node| beat(coordinator, node));
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

/// A list in Table format (apimachinery meta/v1 `Table`), as far as it is looked at. A server that does
/// not know the format sends a plain list, which has none of it.
#[derive(Deserialize)]
struct Table {
    #[serde(rename = "columnDefinitions", default)]
    columns: Vec<Column>,
    /// A server may say null for none.
    #[serde(default)]
    rows: Option<Vec<Row>>,
}

impl Table {
    fn rows(&self) -> &[Row] {
        self.rows.as_deref().unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct Column {
    name: String,
}

#[derive(Deserialize)]
struct Row {
    cells: Vec<Value>,
}

/// Counts all Nodes and names those but `me` that are not Ready, by a consistent read.
pub async fn census(coordinator: &Client, me: &str) -> Result<Census, ApiError> {
    let what = "count Nodes";
    let table = table(coordinator, what, "").await?;
    if table.rows().is_empty() {
        return Err(odd(
            what,
            "the answer is a table without any Node".to_owned(),
        ));
    }
    rows(what, &table, me)
}

fn odd(what: &str, message: String) -> ApiError {
    ApiError::Other {
        what: what.to_owned(),
        message,
        code: 0,
    }
}

/// The Nodes that `selector` names, as a table.
async fn table(coordinator: &Client, what: &str, selector: &str) -> Result<Table, ApiError> {
    let path = format!("/api/v1/nodes?includeObject=None{selector}");
    let request = http::Request::get(path)
        .header(http::header::ACCEPT, TABLE)
        .body(Vec::new())
        .map_err(|error| odd(what, error.to_string()))?;
    call(what, CALL, coordinator.request(request)).await
}

fn rows(what: &str, table: &Table, me: &str) -> Result<Census, ApiError> {
    count(table, me).map_err(|message| odd(what, message))
}

/// The names in a table that was counted, but `me`. What can be no Node's name is not asked for.
fn others(table: &Table, me: &str) -> Vec<String> {
    let name = table
        .columns
        .iter()
        .position(|column| column.name == NAME_COLUMN);
    let cells = table
        .rows()
        .iter()
        .filter_map(|row| row.cells.get(name?)?.as_str());
    let others = cells.filter(|name| *name != me && is_subdomain(name));
    others.map(str::to_owned).collect()
}

/// A row that cannot be read is no Node that is Ready, and no Node that can be counted (I8).
fn count(table: &Table, me: &str) -> Result<Census, String> {
    let column = |wanted: &str| {
        let found = table
            .columns
            .iter()
            .position(|column| column.name == wanted);
        found.ok_or_else(|| format!("the answer is no table with a column {wanted}"))
    };
    let (name, status) = (column(NAME_COLUMN)?, column("Status")?);
    let mut census = Census::default();
    for row in table.rows() {
        let cell = |column: usize| row.cells.get(column).and_then(Value::as_str);
        let (Some(name), Some(status)) = (cell(name), cell(status)) else {
            return Err("a row of the table has no name or no status".to_owned());
        };
        census.nodes += 1;
        if name == me {
            continue;
        }
        let mut words = status.split(',');
        if words.next() != Some(READY) {
            census.down.push(text::name(name, NAME));
            continue;
        }
        if words.any(|word| word == CORDONED) {
            census.cordoned.push(text::name(name, NAME));
        }
    }
    Ok(census)
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
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::garble;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn i8_a_damaged_table_counts_every_row_or_nothing(value in garble::json(json!({
            "columnDefinitions": [{"name": "Name"}, {"name": "Status"}],
            "rows": [{"cells": ["n2", "NotReady"]}, {"cells": ["n3", "Ready"]}, {"cells": ["n4", "Unknown"]}]}))) {
            let Ok(table) = serde_json::from_value::<Table>(value.clone()) else { return Ok(()) };
            let rows = value["rows"].as_array().map_or(0, Vec::len);
            let Ok(census) = count(&table, "n1") else { return Ok(()) };
            prop_assert_eq!(census.nodes, rows);
            // Only a word Ready in its row makes a Node one that is up.
            let up = table.rows().iter().filter(|row| row.cells.iter().any(|cell| cell == "Ready")).count();
            prop_assert!(census.down.len() + up >= rows, "{value}");
        }
    }

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

    fn counted(table: Value) -> Result<Census, String> {
        count(&serde_json::from_value(table).expect("a body"), "n1")
    }

    #[test]
    fn a_node_counts_as_down_unless_its_status_begins_with_ready() {
        let table = json!({
            "columnDefinitions": [{"name": "Name"}, {"name": "Status"}, {"name": "Roles"}],
            "rows": [
                {"cells": ["n1", "NotReady", ""]},
                {"cells": ["n2", "Ready", ""]},
                {"cells": ["n3", "Ready,SchedulingDisabled", ""]},
                {"cells": ["n4", "NotReady,SchedulingDisabled", ""]},
                {"cells": ["n5", "Unknown", ""]},
                {"cells": ["n6", "ReadyOrNot", ""]},
            ],
        });
        let census = counted(table).expect("counted");
        assert_eq!(census.nodes, 6);
        assert_eq!(census.down, ["n4", "n5", "n6"], "the own Node is no other");
        assert_eq!(
            census.cordoned,
            ["n3"],
            "one that is down is not counted twice"
        );
    }

    #[test]
    fn i8_what_is_no_table_of_nodes_is_not_counted() {
        for body in [
            json!({"kind": "NodeList", "items": []}),
            json!({"columnDefinitions": [{"name": "Name"}], "rows": []}),
            json!({"rows": []}),
            json!({"columnDefinitions": [{"name": "Name"}, {"name": "Status"}],
                "rows": [{"cells": ["n2"]}]}),
            json!({"columnDefinitions": [{"name": "Name"}, {"name": "Status"}],
                "rows": [{"cells": ["n2", null]}]}),
        ] {
            assert!(counted(body.clone()).is_err(), "{body}");
        }
    }
}
