//! `nodes` and `unlock` on a real API server (I3, I4).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use kube_rebootd::cli::nodes::{What, read};
use kube_rebootd::cli::unlock::{UnlockError, unlock};
use kube_rebootd::cluster::lease::{Leases, Took, stored};
use kube_rebootd::slot::Take;
use serde_json::json;

use crate::plane::{enter, make_slot};

#[tokio::test]
async fn unlock_clears_label_record_and_lease_and_a_node_may_not() {
    let host = enter().host().await;
    make_slot(&host.admin, "cli", "cli").await;
    let leases = Leases::new(host.clients.coordinator.clone(), "kube-rebootd", &host.name);
    let free = leases
        .get("cli", Duration::ZERO)
        .await
        .expect("read")
        .expect("there");
    let since = stored(Timestamp::now());
    let take = Take::of(&free, "kube-rebootd", since, false);
    let taken = leases.take(&take, Duration::ZERO).await;
    assert!(matches!(taken, Took::Ours(_)), "{taken:?}");
    let nodes: Api<Node> = Api::all(host.clients.node.clone());
    let marks = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": host.name,
        "labels": {"kube-rebootd/slot": "cli"},
        "annotations": {"kube-rebootd/state": "{", "kube-rebootd/history": "[]"}}});
    nodes
        .patch(
            &host.name,
            &PatchParams::apply("kube-rebootd"),
            &Patch::Apply(marks),
        )
        .await
        .expect("marked");
    let group = read(&host.admin, "kube-rebootd", "cli")
        .await
        .expect("a group");
    assert_eq!(group.rows.len(), 1);
    assert_eq!(group.rows[0].what, What::Holds("cli".to_owned()));
    assert_eq!(group.rows[0].stage.as_deref(), Some("unreadable"));

    let refused = unlock(&host.clients.node, "kube-rebootd", &host.name).await;
    assert!(
        matches!(refused, Err(UnlockError::NodeIdentity { .. })),
        "{refused:?}"
    );
    let done = unlock(&host.admin, "kube-rebootd", &host.name)
        .await
        .expect("unlocked");
    assert!(done.node);
    assert_eq!(done.leases, ["cli"]);
    let node = nodes.get(&host.name).await.expect("the Node");
    assert!(!node.labels().contains_key("kube-rebootd/slot"));
    assert!(!node.annotations().contains_key("kube-rebootd/state"));
    assert!(node.annotations().contains_key("kube-rebootd/history"));
    let lease = leases
        .get("cli", Duration::ZERO)
        .await
        .expect("read")
        .expect("there");
    assert_eq!((lease.holder, lease.acquire_time), (None, None));
    let again = unlock(&host.admin, "kube-rebootd", &host.name)
        .await
        .expect("nothing to do");
    assert!(!again.node && again.leases.is_empty());
}
