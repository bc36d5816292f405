//! The other Nodes, through the coordinator client: who carries the slot label, how many are down, and
//! whether any could take pods (I1, I8, I13).

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use serde_json::Value;

use crate::budget::Census;
use crate::cluster::answer::{ApiError, CALL, call};
use crate::cluster::node::{ready, unschedulable};
use crate::config::is_subdomain;
use crate::names;
use crate::slot::{Peer, Peers};
use crate::text::{self, NAME};

/// One row for each Node with what `kubectl get nodes` prints, and without the Node: a list of full Nodes
/// is many times as large (proved: kubernetes.md).
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
/// What the column Status of a Node begins with when its condition Ready is True; else it is `NotReady`,
/// or `Unknown` without that condition, and `,SchedulingDisabled` may follow any of them (Kubernetes
/// pkg/printers/internalversion/printers.go, printNode; proved).
const READY: &str = "Ready";

/// Nodes per page: full Nodes are some 10 KB each, and the first page nearly always decides.
const PAGE: u32 = 100;

/// Every labelled Node but `me`, the names of the Leases of all groups, and the Nodes that are down, by
/// consistent reads (without a resourceVersion) asked for at boot time `asked`.
///
/// Without a labelled Node the Leases are not asked for: nothing would be compared with them. A count that
/// is refused or cannot be read is an answer, not an error: it closes the budget (I8).
pub async fn list(
    coordinator: &Client,
    namespace: &str,
    me: &str,
    asked: Duration,
) -> Result<Peers, ApiError> {
    let nodes: Api<Node> = Api::all(coordinator.clone());
    let params = ListParams::default().labels(names::SLOT);
    let list = call("list labelled Nodes", CALL, nodes.list_metadata(&params)).await?;
    let labelled: Vec<Peer> = list
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
        })
        .collect();
    let mut peers = Peers {
        asked,
        labelled,
        leases: std::collections::BTreeSet::new(),
        census: match census(coordinator, me).await {
            Err(error) if error.unanswered() || error.unauthorized() => return Err(error),
            census => census.map_err(|error| error.to_string()),
        },
    };
    if !peers.labelled.is_empty() {
        let leases: Api<Lease> = Api::namespaced(coordinator.clone(), namespace);
        let params = ListParams::default().labels(names::GROUP);
        let list = call("list names of Leases", CALL, leases.list_metadata(&params)).await?;
        peers.leases = (list.items.iter())
            .map(|lease| text::name(&lease.name_any(), NAME))
            .collect();
    }
    Ok(peers)
}

/// A list in Table format (apimachinery meta/v1 `Table`), as far as it is looked at. A server that does
/// not know the format sends a plain list, which has none of it.
#[derive(Deserialize)]
struct Table {
    #[serde(rename = "columnDefinitions", default)]
    columns: Vec<Column>,
    #[serde(default)]
    rows: Vec<Row>,
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
    let odd = |message: String| ApiError::Other {
        what: what.to_owned(),
        message,
        code: 0,
    };
    let request = http::Request::get("/api/v1/nodes?includeObject=None")
        .header(http::header::ACCEPT, TABLE)
        .body(Vec::new())
        .map_err(|error| odd(error.to_string()))?;
    let table: Table = call(what, CALL, coordinator.request(request)).await?;
    count(&table, me).map_err(odd)
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
    let (name, status) = (column("Name")?, column("Status")?);
    if table.rows.is_empty() {
        return Err("the answer is a table without any Node".to_owned());
    }
    let mut census = Census::default();
    for row in &table.rows {
        let cell = |column: usize| row.cells.get(column).and_then(Value::as_str);
        let (Some(name), Some(status)) = (cell(name), cell(status)) else {
            return Err("a row of the table has no name or no status".to_owned());
        };
        census.nodes += 1;
        if name != me && status.split(',').next() != Some(READY) {
            census.down.push(text::name(name, NAME));
        }
    }
    Ok(census)
}

/// Whether a Node of this name exists, by a consistent read. What can be no Node's name is not asked for:
/// it would be another path.
pub async fn exists(coordinator: &Client, name: &str) -> Result<bool, ApiError> {
    if !is_subdomain(name) {
        return Ok(false);
    }
    let nodes: Api<Node> = Api::all(coordinator.clone());
    let what = format!("look for Node {name}");
    let node = call(&what, CALL, nodes.get_metadata_opt(name)).await?;
    Ok(node.is_some())
}

/// Another Ready and schedulable Node exists: evicted pods have somewhere to go. Stops at the first.
pub async fn others_schedulable(coordinator: &Client, me: &str) -> Result<bool, ApiError> {
    let nodes: Api<Node> = Api::all(coordinator.clone());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = call("list Nodes", CALL, nodes.list(&params)).await?;
        let fit = |node: &Node| node.name_any() != me && ready(node) && !unschedulable(node);
        if page.items.iter().any(fit) {
            return Ok(true);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(false),
        }
    }
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
            let up = table.rows.iter().filter(|row| row.cells.iter().any(|cell| cell == "Ready")).count();
            prop_assert!(census.down.len() + up >= rows, "{value}");
        }
    }

    #[test]
    fn i8_a_table_without_a_node_is_not_one_of_all_nodes() {
        // This daemon's own Node is one.
        let columns = json!([{"name": "Name"}, {"name": "Status"}]);
        for body in [
            json!({"columnDefinitions": columns, "rows": []}),
            json!({"columnDefinitions": columns}),
            json!({"columnDefinitions": columns, "rows": null}),
        ] {
            let counted = serde_json::from_value(body.clone())
                .map_err(|error| error.to_string())
                .and_then(|table| count(&table, "n1"));
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
    }

    #[test]
    fn i8_what_is_no_table_of_nodes_is_not_counted() {
        for body in [
            json!({"kind": "NodeList", "items": []}),
            json!({"columnDefinitions": [{"name": "Name"}], "rows": []}),
            json!({"columnDefinitions": [{"name": "Name"}, {"name": "Status"}],
                "rows": [{"cells": ["n2"]}]}),
            json!({"columnDefinitions": [{"name": "Name"}, {"name": "Status"}],
                "rows": [{"cells": ["n2", null]}]}),
        ] {
            assert!(counted(body.clone()).is_err(), "{body}");
        }
    }
}
