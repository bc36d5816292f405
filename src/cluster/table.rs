//! Nodes as a table: one row for each with what `kubectl get nodes` prints, and without the Node (I8, I13).

use http::header::ACCEPT;
use kube::Client;
use kube_rebootd_core::config::is_subdomain;
use serde::Deserialize;
use serde_json::Value;

use crate::cluster::answer::{ApiError, CALL, call};

/// A list of full Nodes is many times as large (docs/reliability.md).
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
/// The column with the Nodes' names.
const NAME: &str = "Name";
/// The column with [`READY`] and [`CORDONED`].
const STATUS: &str = "Status";
/// What it begins with when the Node's condition Ready is True; else it is `NotReady`, or `Unknown` without that
/// condition, and `,SchedulingDisabled` may follow any of them (Kubernetes
/// pkg/printers/internalversion/printers.go, printNode; `cluster_queue`).
const READY: &str = "Ready";
/// One of the words after it when the Node is cordoned.
const CORDONED: &str = "SchedulingDisabled";

/// One Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) ready: bool,
    pub(super) cordoned: bool,
}

/// A list in Table format (apimachinery meta/v1 `Table`), as far as it is looked at. A server that does
/// not know the format sends a plain list, which has none of it.
#[derive(Deserialize)]
struct Table {
    #[serde(rename = "columnDefinitions", default)]
    columns: Vec<Column>,
    /// A server may say null for none.
    #[serde(default)]
    rows: Option<Vec<Cells>>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
}

#[derive(Deserialize)]
struct Cells {
    cells: Vec<Value>,
}

impl Table {
    /// All rows or none: one that cannot be read is no Node that is Ready, and none that can be counted (I8).
    fn rows(&self) -> Result<Vec<Row>, String> {
        let column = |wanted: &str| {
            let found = (self.columns.iter()).position(|column| column.name == wanted);
            found.ok_or_else(|| format!("the answer is no table with a column {wanted}"))
        };
        let (name, status) = (column(NAME)?, column(STATUS)?);
        let rows = self.rows.iter().flatten();
        rows.map(|row| row.read(name, status)).collect()
    }
}

impl Cells {
    fn read(&self, name: usize, status: usize) -> Result<Row, String> {
        let cell = |column: usize| self.cells.get(column).and_then(Value::as_str);
        let (Some(name), Some(status)) = (cell(name), cell(status)) else {
            return Err("a row of the table has no name or no status".to_owned());
        };
        if !is_subdomain(name) {
            return Err("a row of the table has a name that no Node can have".to_owned());
        }
        let mut words = status.split(',');
        Ok(Row {
            name: name.to_owned(),
            ready: words.next() == Some(READY),
            cordoned: words.any(|word| word == CORDONED),
        })
    }
}

/// The Nodes that `selector` names, which is empty or begins with `&`.
pub(super) async fn nodes(
    coordinator: &Client,
    what: &str,
    selector: &str,
) -> Result<Vec<Row>, ApiError> {
    let path = format!("/api/v1/nodes?includeObject=None{selector}");
    let request = http::Request::get(path)
        .header(ACCEPT, TABLE)
        .body(Vec::new())
        .map_err(|error| odd(what, error.to_string()))?;
    let table: Table = call(what, CALL, coordinator.request(request)).await?;
    table.rows().map_err(|message| odd(what, message))
}

/// An answer that is none.
pub(super) fn odd(what: &str, message: String) -> ApiError {
    ApiError::Other {
        what: what.to_owned(),
        message,
        code: 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn i8_a_damaged_table_has_every_row_or_none(value in garble::json(json!({
            "columnDefinitions": [{"name": "Name"}, {"name": "Status"}],
            "rows": [{"cells": ["n2", "NotReady"]}, {"cells": ["n3", "Ready"]}, {"cells": ["n4", "Unknown"]}]}))) {
            let Ok(table) = serde_json::from_value::<Table>(value.clone()) else { return Ok(()) };
            let Ok(rows) = table.rows() else { return Ok(()) };
            let all = value["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
            prop_assert_eq!(rows.len(), all.len());
            // Only a word Ready in its row makes a Node one that is up.
            for (row, cells) in rows.iter().zip(all) {
                let said = cells["cells"].as_array().is_some_and(|cells| cells.iter().any(|cell| cell == "Ready"));
                prop_assert!(said || !row.ready, "{value}");
            }
        }
    }

    fn read(table: Value) -> Result<Vec<Row>, String> {
        serde_json::from_value::<Table>(table)
            .expect("a body")
            .rows()
    }

    #[test]
    fn a_node_is_ready_only_when_its_status_begins_with_that_word() {
        for (status, ready, cordoned) in [
            ("Ready", true, false),
            ("Ready,SchedulingDisabled", true, true),
            ("NotReady", false, false),
            ("NotReady,SchedulingDisabled", false, true),
            ("Unknown", false, false),
            ("ReadyOrNot", false, false),
            ("", false, false),
        ] {
            let rows = read(json!({
                "columnDefinitions": [{"name": "Name"}, {"name": "Status"}, {"name": "Roles"}],
                "rows": [{"cells": ["n2", status, ""]}],
            }));
            let name = "n2".to_owned();
            assert_eq!(
                rows,
                Ok(vec![Row {
                    name,
                    ready,
                    cordoned
                }]),
                "{status}"
            );
        }
    }

    #[test]
    fn i8_what_is_no_table_of_nodes_is_not_read() {
        let columns = json!([{"name": "Name"}, {"name": "Status"}]);
        for body in [
            json!({"kind": "NodeList", "items": []}),
            json!({"columnDefinitions": [{"name": "Name"}], "rows": []}),
            json!({"rows": []}),
            json!({"columnDefinitions": columns, "rows": [{"cells": ["n2"]}]}),
            json!({"columnDefinitions": columns, "rows": [{"cells": ["n2", null]}]}),
            // Once it was left out, and a quorum was complete without it.
            json!({"columnDefinitions": columns, "rows": [{"cells": ["../n2", "Ready"]}]}),
        ] {
            assert!(read(body.clone()).is_err(), "{body}");
        }
    }
}
