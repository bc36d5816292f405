//! The Events about one Node that its daemon wrote, for people.

use http::Request;
use jiff::Timestamp;
use kube::Client;
use kube_rebootd_core::names;
use kube_rebootd_core::text::{self, MESSAGE, NAME};
use serde::{Deserialize, Serialize};

use super::NAMESPACE;
use crate::cluster::answer::{ApiError, CALL, call};
use crate::cluster::lean;

/// There are as many as reasons, and they go after an hour; but whoever may write Events can write more (I14).
const MOST: u32 = 500;

/// One that happened, once or again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Told {
    /// When it happened last, by the clock of its host; null: that cannot be read.
    pub at: Option<Timestamp>,
    pub warning: bool,
    pub reason: String,
    pub message: String,
    /// How often.
    pub count: u32,
}

/// What is looked at of a list of them ([`lean`]).
#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    reason: Option<String>,
    message: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    count: Option<i64>,
    last_timestamp: Option<String>,
}

/// Those about the Node of this name, which is one that a Node can have; the newest first.
pub async fn about(client: &Client, node: &str) -> Result<Vec<Told>, ApiError> {
    let what = "list Events of the Node";
    let fields = format!(
        "involvedObject.kind=Node,involvedObject.name={node},source={}",
        names::NODE_MANAGER
    );
    let path = format!("/api/v1/namespaces/{NAMESPACE}/events?limit={MOST}&fieldSelector={fields}");
    let request = Request::get(path).body(Vec::new());
    let request = request.map_err(|err| ApiError::Other {
        what: what.to_owned(),
        message: err.to_string(),
        code: 0,
    })?;
    let list: List = call(what, CALL, client.request(request)).await?;
    let mut all: Vec<Told> = list.items.into_iter().map(told).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.at));
    Ok(all)
}

fn told(item: Item) -> Told {
    let at = item.last_timestamp.as_deref().map(lean::time);
    Told {
        at: at.filter(|at| *at != Timestamp::MAX),
        warning: item.kind.as_deref() == Some("Warning"),
        reason: text::clean(&item.reason.unwrap_or_default(), NAME),
        message: text::clean(&item.message.unwrap_or_default(), MESSAGE),
        count: item
            .count
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(1),
    }
}
