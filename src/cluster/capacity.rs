//! Pods of the whole cluster that wait for room on a node, through the coordinator client: the right to list them is an option of the
//! manifests (docs/design.md 10; I8, I11).

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use kube_rebootd_core::machine::{Listed, Unplaced};
use kube_rebootd_core::text::{self, NAME};
use serde::Deserialize;

use crate::cluster::answer::{ApiError, CALL, call};
use crate::cluster::lean::{self, Lean};

/// Those that no node has: the scheduler's queue. Without a node's name the API server's cache has an index of them.
const FIELDS: &str = "spec.nodeName=,status.phase=Pending";
/// Of one answer: whoever may make pods can give each a megabyte or more, and an answer is in memory as a whole.
const PAGE: u32 = 20;
/// Of one look, whatever is found: pods with scheduling gates have no node either, and never count. A thousand pods.
const PAGES: usize = 50;
/// For all of them.
const WITHIN: Duration = Duration::from_secs(60);
/// Longer than any UID that the API server makes (36).
const UID: usize = 64;

/// A pod, as far as it is looked at.
type Object = Lean<Pod, Spec, Status>;

#[derive(Clone, Debug, Deserialize)]
struct Spec {
    priority: Option<i32>,
}

#[derive(Clone, Debug, Deserialize)]
struct Status {
    conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type", default)]
    type_: String,
    #[serde(default)]
    status: String,
    reason: Option<String>,
    last_transition_time: Option<String>,
}

/// Lists them, page by page.
pub async fn unplaced(coordinator: &Client) -> Result<Listed, ApiError> {
    let what = "list the pods of all namespaces that have no node";
    let look = tokio::time::timeout(WITHIN, pages(coordinator, what));
    look.await.unwrap_or_else(|_| {
        Err(ApiError::Unreachable {
            what: what.to_owned(),
            message: format!("not all of them within {} s", WITHIN.as_secs()),
        })
    })
}

async fn pages(coordinator: &Client, what: &str) -> Result<Listed, ApiError> {
    let api: Api<Object> = Api::all(coordinator.clone());
    let mut params = ListParams::default().fields(FIELDS).limit(PAGE);
    let mut listed = Listed::default();
    for _ in 0..PAGES {
        let page = call(what, CALL, api.list(&params)).await?;
        listed.pods.extend(page.items.iter().filter_map(read));
        let token = page.metadata.continue_.filter(|token| !token.is_empty());
        listed.more = token.is_some();
        let Some(token) = token else { break };
        params = params.continue_token(&token);
    }
    Ok(listed)
}

/// One that waits for room. Not one that is being deleted; not one of a DaemonSet, as that fits on its node or on none; and not
/// one of a negative priority, by which autoscalers keep room for others.
fn read(object: &Object) -> Option<Unplaced> {
    let mut owners = object.owner_references().iter();
    let of_a_node = owners.any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet");
    let priority = object.spec.as_ref().and_then(|spec| spec.priority);
    let low = priority.is_some_and(|priority| priority < 0);
    if object.meta().deletion_timestamp.is_some() || of_a_node || low {
        return None;
    }
    let conditions = object.status.as_ref()?.conditions.as_ref()?;
    let waits = |one: &&Condition| {
        let reason = one.reason.as_deref();
        one.type_ == "PodScheduled" && one.status == "False" && reason == Some("Unschedulable")
    };
    let condition = conditions.iter().find(waits)?;
    let namespace = object.namespace().unwrap_or_default();
    Some(Unplaced {
        uid: text::name(&object.uid().unwrap_or_default(), UID),
        path: text::name(&format!("{namespace}/{}", object.name_any()), NAME),
        since: condition.last_transition_time.as_deref().map(lean::time),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    fn meta(uid: usize) -> Value {
        json!({"namespace": "shop", "name": format!("web-{uid}"), "uid": uid.to_string()})
    }

    fn pod(uid: usize, reason: &str) -> Value {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": reason});
        json!({"metadata": meta(uid), "spec": {}, "status": {"phase": "Pending", "conditions": [condition]}})
    }

    /// What is found, and in how many requests, where so many pods are gated before one that waits for room.
    async fn behind(gated: usize) -> (Listed, usize) {
        let asked = std::sync::Arc::new(AtomicUsize::new(0));
        let requests = std::sync::Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let page = requests.fetch_add(1, Ordering::Relaxed);
            async move {
                // A server takes some time for it.
                tokio::time::sleep(Duration::from_millis(100)).await;
                let query = request.uri().query().unwrap_or_default();
                let limit = query.split('&').find_map(|one| one.strip_prefix("limit="));
                let limit: usize = limit.and_then(|it| it.parse().ok()).expect("a limit");
                let first = page * limit;
                let all = (first..(first + limit).min(gated + 1)).map(|uid| {
                    pod(
                        uid,
                        if uid < gated {
                            "SchedulingGated"
                        } else {
                            "Unschedulable"
                        },
                    )
                });
                let more = if first + limit <= gated { "more" } else { "" };
                let list = json!({"apiVersion": "v1", "kind": "PodList",
                    "metadata": {"continue": more}, "items": all.collect::<Vec<_>>()});
                let body = Body::from(serde_json::to_vec(&list)?);
                Ok::<_, serde_json::Error>(Response::new(body))
            }
        });
        let listed = unplaced(&Client::new(service, "default")).await;
        (listed.expect("a list"), asked.load(Ordering::Relaxed))
    }

    /// Found by reading: pods that never count were looked at for a minute, in pages of up to a hundred megabytes.
    #[tokio::test(start_paused = true)]
    async fn i7_i8_of_many_pods_with_scheduling_gates_a_thousand_are_looked_at() {
        let (listed, asked) = behind(900).await;
        assert_eq!((listed.pods.len(), listed.more, asked), (1, false, 46));
        assert_eq!(listed.pods[0].path, "shop/web-900");
        let (listed, asked) = behind(100_000).await;
        assert_eq!((listed.pods.len(), asked), (0, 50));
        // The gate says that it is not known.
        assert!(listed.more);
    }

    fn looked(metadata: &Value, spec: &Value, condition: &Value) -> Option<Unplaced> {
        let object = json!({"metadata": metadata, "spec": spec,
            "status": {"phase": "Pending", "conditions": [condition]}});
        read(&serde_json::from_value(object).expect("a pod"))
    }

    #[test]
    fn a_pod_waits_for_room_when_the_scheduler_says_so_and_another_node_could_have_it() {
        let meta = json!({"namespace": "shop", "name": "web", "uid": "u"});
        let (spec, at) = (json!({}), "2026-11-21T10:00:00Z");
        let waits = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "lastTransitionTime": at});
        let owned = |kind: &str, controls: bool| {
            let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o",
                "controller": controls});
            json!({"namespace": "shop", "name": "web", "uid": "u", "ownerReferences": [owner]})
        };
        let deleted =
            json!({"namespace": "shop", "name": "web", "uid": "u", "deletionTimestamp": at});
        let said = |status: &str, reason: &str| json!({"type": "PodScheduled", "status": status, "reason": reason});
        let rows = [
            ("it waits", &meta, &spec, &waits, true),
            (
                "of a ReplicaSet",
                &owned("ReplicaSet", true),
                &spec,
                &waits,
                true,
            ),
            (
                "of a DaemonSet",
                &owned("DaemonSet", true),
                &spec,
                &waits,
                false,
            ),
            (
                "beside a DaemonSet",
                &owned("DaemonSet", false),
                &spec,
                &waits,
                true,
            ),
            ("it is deleted", &deleted, &spec, &waits, false),
            (
                "of no priority",
                &meta,
                &json!({"priority": 0}),
                &waits,
                true,
            ),
            (
                "it keeps room",
                &meta,
                &json!({"priority": -10}),
                &waits,
                false,
            ),
            (
                "gated",
                &meta,
                &spec,
                &said("False", "SchedulingGated"),
                false,
            ),
            (
                "scheduled",
                &meta,
                &spec,
                &said("True", "Unschedulable"),
                false,
            ),
            (
                "another condition",
                &meta,
                &spec,
                &json!({"type": "Ready", "status": "False"}),
                false,
            ),
        ];
        for (what, meta, spec, condition, counts) in rows {
            let read = looked(meta, spec, condition);
            assert_eq!(read.is_some(), counts, "{what}: {read:?}");
        }
        let read = looked(&meta, &spec, &waits).expect("it waits");
        assert_eq!((read.uid.as_str(), read.path.as_str()), ("u", "shop/web"));
        assert_eq!(read.since, Some(at.parse().expect("a time")));
        let silent = looked(&meta, &spec, &said("False", "Unschedulable")).expect("it waits");
        assert_eq!(silent.since, None);
        let hostile = json!({"namespace": "shop", "name": "a\u{1b}[2J", "uid": "u"});
        let read = looked(&hostile, &spec, &waits).expect("it waits");
        assert!(!read.path.contains('\u{1b}'), "{read:?}");
    }
}
