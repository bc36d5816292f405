//! The kubelets' Leases in kube-node-lease: the own one as heartbeat and as waiting record, all of
//! them as the list of waiters (docs/design.md 5; I11).
//!
//! The own Lease can be read and patched by the node, not watched; label and annotation survive the
//! kubelet's renewals (`real::heartbeat`).

use jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use kube_rebootd_core::names;
use kube_rebootd_core::slot::{Crowd, Keys, MANY, Shown, Waiter, Waiting};
use kube_rebootd_core::text::{self, NAME};
use serde_json::{Value, json};

use crate::cluster::answer::{ApiError, CALL, call, found};
use crate::cluster::lean::{self, Lease, Named};

/// The own kube-node-lease Lease, through the node client.
#[derive(Clone)]
pub struct Heartbeat {
    api: Api<Lease>,
    /// To write: the answer has nothing but metadata.
    marks: Api<Named<Lease>>,
    node: String,
}

/// What the own Lease shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// `spec.renewTime`: compared for change only (I5).
    pub renewed: Option<Timestamp>,
    pub waiting: Option<Shown>,
}

impl Heartbeat {
    pub fn new(node: Client, name: &str) -> Self {
        Self {
            api: Api::namespaced(node.clone(), names::NODE_LEASES),
            marks: Api::namespaced(node, names::NODE_LEASES),
            node: name.to_owned(),
        }
    }

    /// None on 404: the kubelet has not made it yet.
    pub async fn get(&self) -> Result<Option<Beat>, ApiError> {
        let lease = found(call("get own heartbeat", CALL, self.api.get(&self.node)).await)?;
        Ok(lease.map(|lease| Beat {
            renewed: lease
                .spec
                .as_ref()
                .and_then(|spec| spec.renew_time.as_deref())
                .map(lean::time),
            waiting: waiting(lease.labels(), lease.annotations()),
        }))
    }

    /// Shows that this node waits. A missing Lease is the kubelet's to make: [`ApiError::Gone`].
    pub async fn mark(&self, shown: &Shown) -> Result<(), ApiError> {
        let since = shown.place.since.to_string();
        let not_ready = if shown.ready {
            Value::Null
        } else {
            json!("true")
        };
        self.patch(json!(shown.place.group), json!(since), not_ready)
            .await
    }

    /// Takes the waiting record away; a missing Lease has none.
    pub async fn clear(&self) -> Result<(), ApiError> {
        match self.patch(Value::Null, Value::Null, Value::Null).await {
            Err(ApiError::Gone { .. }) => Ok(()),
            answer => answer,
        }
    }

    async fn patch(&self, group: Value, since: Value, not_ready: Value) -> Result<(), ApiError> {
        let patch = Patch::Merge(json!({"metadata": {
            "labels": {(names::WAITING): group},
            "annotations": {(names::SINCE): since, (names::NOT_READY): not_ready},
        }}));
        let params = PatchParams {
            field_manager: Some(names::NODE_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let request = self.marks.patch(&self.node, &params, &patch);
        call("write waiting record", CALL, request).await.map(drop)
    }
}

fn waiting(labels: &Keys, annotations: &Keys) -> Option<Shown> {
    let place = Waiting {
        group: text::name(labels.get(names::WAITING)?, NAME),
        since: since(annotations),
    };
    let ready = ready(annotations);
    Some(Shown { place, ready })
}

/// A record of a daemon that does not know the annotation is one of a node that is ready.
fn ready(annotations: &Keys) -> bool {
    !annotations.contains_key(names::NOT_READY)
}

/// An unreadable time counts as the latest: it gains nobody a place.
fn since(annotations: &Keys) -> Timestamp {
    annotations
        .get(names::SINCE)
        .and_then(|since| since.parse().ok())
        .unwrap_or(Timestamp::MAX)
}

fn waiter(lease: &Named<Lease>) -> Waiter {
    Waiter {
        node: text::name(&lease.name_any(), NAME),
        since: since(lease.annotations()),
        ready: ready(lease.annotations()),
    }
}

/// The group's waiters but `me`, longest-waiting first, through the coordinator client.
pub async fn list(coordinator: &Client, group: &str, me: &str) -> Result<Vec<Waiter>, ApiError> {
    Ok(page(coordinator, group, me, None).await?.others)
}

/// Whether few or many others wait, and who if they are few. A thousand nodes may ask this within a minute, so
/// the answer is one page.
pub async fn count(coordinator: &Client, group: &str, me: &str) -> Result<Crowd, ApiError> {
    page(coordinator, group, me, Some(MANY)).await
}

async fn page(
    coordinator: &Client,
    group: &str,
    me: &str,
    limit: Option<u32>,
) -> Result<Crowd, ApiError> {
    let api: Api<Named<Lease>> = Api::namespaced(coordinator.clone(), names::NODE_LEASES);
    let mut params = ListParams::default().labels(&format!("{}={group}", names::WAITING));
    params.limit = limit;
    let list = call("list waiters", CALL, api.list(&params)).await?;
    let many = list
        .metadata
        .continue_
        .is_some_and(|token| !token.is_empty());
    let mut others: Vec<Waiter> = list
        .items
        .iter()
        .filter(|lease| lease.name_any() != me)
        .map(waiter)
        .collect();
    others.sort_by(|a, b| a.since.cmp(&b.since).then_with(|| a.node.cmp(&b.node)));
    Ok(Crowd { others, many })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn i8_only_a_time_gains_a_place(text in any::<String>(), second in 0..4_000_000_000_i64) {
            let shown = |text: &str| since(&Keys::from([(names::SINCE.to_owned(), text.to_owned())]));
            if text.parse::<Timestamp>().is_err() {
                prop_assert_eq!(shown(&text), Timestamp::MAX);
            }
            let time = Timestamp::from_second(second).expect("a time");
            prop_assert_eq!(shown(&time.to_string()), time);
        }
    }

    #[test]
    fn an_unreadable_since_gains_no_place() {
        let labels = Keys::from([(names::WAITING.to_owned(), "default".to_owned())]);
        let bad = Keys::from([(names::SINCE.to_owned(), "long ago".to_owned())]);
        let found = waiting(&labels, &bad).expect("waits");
        assert_eq!(found.place.since, Timestamp::MAX);
        assert_eq!(waiting(&Keys::new(), &bad), None);
    }
}
