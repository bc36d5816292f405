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
    /// When it happened last, by the clock of its host; null: that cannot be read, or is still to come.
    pub at: Option<Timestamp>,
    pub warning: bool,
    pub reason: String,
    pub message: String,
    /// How often.
    pub count: u32,
}

/// Those that were read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tale {
    /// The newest first; those without a time last.
    pub events: Vec<Told>,
    /// The server has more, and nobody knows whether they are newer.
    pub more: bool,
}

/// What is looked at of a list of them ([`lean`]).
#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Vec<Item>,
    #[serde(default)]
    metadata: Meta,
}

#[derive(Deserialize, Default)]
struct Meta {
    #[serde(rename = "continue")]
    next: Option<String>,
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

/// Those about the Node of this name, which is one that a Node can have, as they are at `now`.
pub async fn about(client: &Client, node: &str, now: Timestamp) -> Result<Tale, ApiError> {
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
    Ok(read(list, now))
}

/// One that is still to come is no newer than the real ones, which it would push out (I14).
fn read(list: List, now: Timestamp) -> Tale {
    let items = list.items.into_iter();
    let mut events: Vec<Told> = items.map(|item| told(item, now)).collect();
    events.sort_by_key(|one| std::cmp::Reverse(one.at));
    Tale {
        events,
        more: list.metadata.next.is_some_and(|token| !token.is_empty()),
    }
}

fn told(item: Item, now: Timestamp) -> Told {
    let at = item.last_timestamp.as_deref().map(lean::time);
    Told {
        at: at.filter(|at| !lean::ahead(*at, now)),
        warning: item.kind.as_deref() == Some("Warning"),
        reason: text::clean(&item.reason.unwrap_or_default(), NAME),
        message: text::clean(&item.message.unwrap_or_default(), MESSAGE),
        count: item
            .count
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Found by an attacker: whoever may write Events in `default` pushed the real ones out by the year 9999.
    #[test]
    fn i14_an_event_of_the_future_comes_after_those_that_were() {
        let now = "2026-11-21T10:00:00Z".parse().expect("a time");
        let event = |reason: &str, at: &str| json!({"reason": reason, "lastTimestamp": at});
        let list = |next: &str| {
            let items = [
                event("Forged", "2100-01-01T00:00:00Z"),
                event("Old", "2026-11-21T09:00:00Z"),
                event("Unreadable", "soon"),
                // A clock may be a little ahead.
                event("New", "2026-11-21T10:05:00Z"),
            ];
            let list = json!({"metadata": {"continue": next}, "items": items});
            read(serde_json::from_value(list).expect("a list"), now)
        };
        let tale = list("");
        let seen = tale.events.iter();
        let seen: Vec<_> = seen
            .map(|one| (one.reason.as_str(), one.at.is_some()))
            .collect();
        assert_eq!(
            seen,
            [
                ("New", true),
                ("Old", true),
                ("Forged", false),
                ("Unreadable", false)
            ]
        );
        assert!(!tale.more && list("token").more);
        let bare = serde_json::from_value(json!({"items": []})).expect("a list");
        assert_eq!(read(bare, now), Tale::default());
    }
}
