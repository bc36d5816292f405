//! The own Node on a real API server: cordon, label and release beside others' writes (I3, I11).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node as Object;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube_rebootd::clock::Clock;
use kube_rebootd::cluster::answer::ApiError;
use kube_rebootd::cluster::node::{OwnNode, read};
use kube_rebootd::cluster::watch::{Select, Signs, Watch};
use kube_rebootd_core::boot::Boot;
use kube_rebootd_core::names;
use kube_rebootd_core::node::Node;
use kube_rebootd_core::node_fields::{Leftovers, NodeFields, foreign_cordon, leftovers};
use kube_rebootd_core::record::Hold;
use kube_rebootd_core::slot::{Keys, Lease, Take};
use serde_json::{Value, json};

use crate::plane::{Host, SOON, enter, make_node};

const AT: Duration = Duration::from_secs(1);

fn own(host: &Host) -> OwnNode {
    OwnNode::new(host.clients.node.clone(), &host.name)
}

async fn get(host: &Host) -> Node {
    own(host).get(AT).await.expect("read").expect("there")
}

/// Everything of a hold.
fn full(node: &Node) -> NodeFields {
    NodeFields {
        uid: node.uid.clone(),
        resource_version: String::new(),
        unschedulable: true,
        labels: Keys::from([(names::SLOT.to_owned(), "default".to_owned())]),
        annotations: Keys::from([(names::STATE.to_owned(), "{}".to_owned())]),
    }
}

/// Nothing of a hold.
fn empty(node: &Node) -> NodeFields {
    NodeFields {
        uid: node.uid.clone(),
        ..NodeFields::default()
    }
}

/// A hold that cordoned a Node which nobody had cordoned.
fn hold() -> Hold {
    let lease = Lease::free("default", "default");
    let take = Take::of(&lease, "kube-rebootd", Timestamp::UNIX_EPOCH, false);
    let boot = Boot {
        id: "b".to_owned(),
        userspace: 1,
    };
    Hold::begin(take, boot)
}

async fn apply(host: &Host, set: &NodeFields) -> Node {
    own(host).apply(set, AT).await.expect("applied")
}

async fn admin(host: &Host, manager: &str, body: Value) {
    let nodes: Api<Object> = Api::all(host.admin.clone());
    let params = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    nodes
        .patch(&host.name, &params, &Patch::Merge(body))
        .await
        .expect("patched");
}

/// The kubelet's part is played: the fake runtime of a host never fills it.
#[tokio::test]
async fn volumes_in_use_are_read_and_watched() {
    let host = enter().host().await;
    let own = own(&host);
    let select = Select {
        labels: None,
        fields: Some(own.fields()),
        ..Select::default()
    };
    let mut watch = Watch::start(
        "watch own Node",
        own.api(),
        select,
        Signs::Bookmarks,
        Clock::Real,
        |node| read(node, None),
    );
    let nodes: Api<Object> = Api::all(host.admin.clone());
    let volume = "kubernetes.io/csi/ebs.csi.aws.com^vol-1";
    for expected in [vec![volume.to_owned()], Vec::new()] {
        let body = json!({"status": {"volumesInUse": expected}});
        nodes
            .patch_status(&host.name, &PatchParams::default(), &Patch::Merge(body))
            .await
            .expect("a status");
        assert_eq!(get(&host).await.volumes_in_use, expected);
        loop {
            let seen = watch.view().items.unwrap_or_default();
            if seen.values().any(|node| node.volumes_in_use == expected) {
                break;
            }
            tokio::time::timeout(SOON, watch.changed())
                .await
                .expect("an event");
        }
    }
}

/// A node may set it on itself, and it is ours by ownership.
#[tokio::test]
async fn i3_what_load_balancers_look_at_goes_with_the_set_and_leaves_others_alone() {
    let host = enter().host().await;
    let (key, value) = names::EXCLUDED;
    let before = get(&host).await;
    let excluded = NodeFields {
        labels: [(key.to_owned(), value.to_owned())].into(),
        ..empty(&before)
    };
    let node = apply(&host, &excluded).await;
    assert_eq!(node.guarded, [key]);
    let node = apply(&host, &empty(&node)).await;
    assert!(!node.labels.contains_key(key) && node.guarded.is_empty());
    let excluded = NodeFields {
        labels: excluded.labels,
        ..empty(&node)
    };
    apply(&host, &excluded).await;
    let theirs = json!({"metadata": {"labels": {key: "false"}}});
    admin(&host, "kubectl-label", theirs).await;
    let node = get(&host).await;
    assert!(node.guarded.is_empty(), "{:?}", node.guarded);
    let node = apply(&host, &empty(&node)).await;
    assert_eq!(node.labels.get(key).map(String::as_str), Some("false"));
    admin(
        &host,
        "kubectl-label",
        json!({"metadata": {"labels": {key: null}}}),
    )
    .await;
}

/// A node may set them on itself. They are ours by ownership, and whoever changes one takes it over.
#[tokio::test]
async fn i3_what_keeps_autoscalers_away_goes_with_the_set_and_leaves_others_alone() {
    let host = enter().host().await;
    let before = get(&host).await;
    let [(first, _), (second, _), (third, _)] = names::GUARDS;
    let guards = NodeFields {
        annotations: names::GUARDS
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..empty(&before)
    };
    let node = apply(&host, &guards).await;
    assert_eq!(node.guarded, [first, second, third]);
    let theirs = json!({"metadata": {"annotations": {first: "false"}}});
    admin(&host, "kubectl-annotate", theirs).await;
    let node = get(&host).await;
    assert_eq!(node.guarded, [second, third]);
    let node = apply(&host, &empty(&node)).await;
    assert!(node.guarded.is_empty(), "{:?}", node.guarded);
    let there = |key: &str| node.annotations.get(key).map(String::as_str);
    let all = [there(first), there(second), there(third)];
    assert_eq!(all, [Some("false"), None, None]);
}

#[tokio::test]
async fn i3_all_of_ours_comes_and_goes_with_the_set() {
    let host = enter().host().await;
    let before = get(&host).await;
    let node = apply(&host, &full(&before)).await;
    assert!(node.unschedulable && !foreign_cordon(&node));
    assert_eq!(node.cordon_owners, [names::NODE_MANAGER]);
    assert_eq!(
        node.labels.get(names::SLOT).map(String::as_str),
        Some("default")
    );
    // A partial set drops what it does not name.
    let part = NodeFields {
        unschedulable: false,
        annotations: Keys::new(),
        ..full(&before)
    };
    let node = apply(&host, &part).await;
    assert!(!node.unschedulable && !node.annotations.contains_key(names::STATE));
    assert!(node.labels.contains_key(names::SLOT));
    let node = apply(&host, &empty(&before)).await;
    assert!(!node.labels.contains_key(names::SLOT));
}

#[tokio::test]
async fn i3_a_cordon_of_somebody_else_survives_the_release() {
    let host = enter().host().await;
    admin(
        &host,
        "kubectl-cordon",
        json!({"spec": {"unschedulable": true}}),
    )
    .await;
    let before = get(&host).await;
    assert_eq!(before.cordon_owners, ["kubectl-cordon"]);
    let node = apply(&host, &full(&before)).await;
    assert!(foreign_cordon(&node), "{:?}", node.cordon_owners);
    let node = apply(&host, &empty(&before)).await;
    assert!(node.unschedulable);
    assert_eq!(node.cordon_owners, ["kubectl-cordon"]);
    assert_eq!(leftovers(&node, &empty(&before), Some(&hold())), None);
}

#[tokio::test]
async fn i3_a_release_leaves_what_nobody_owns_in_the_spec() {
    let host = enter().host().await;
    let nodes: Api<Object> = Api::all(host.admin.clone());
    let taints = async || {
        let node = nodes.get(&host.name).await.expect("the Node");
        node.spec.and_then(|spec| spec.taints).unwrap_or_default()
    };
    // The server puts not-ready on a new Node, as nobody's field.
    let there = taints().await;
    assert!(!there.is_empty());
    let before = get(&host).await;
    apply(&host, &full(&before)).await;
    let without = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": host.name}});
    let own_api: Api<Object> = Api::all(host.clients.node.clone());
    let params = PatchParams::apply(names::NODE_MANAGER).force();
    let refused = own_api
        .patch(&host.name, &params, &Patch::Apply(without))
        .await;
    assert!(
        refused.is_err(),
        "an apply without spec works now: simplify the body"
    );
    let node = apply(&host, &empty(&before)).await;
    assert!(!node.unschedulable);
    assert_eq!(taints().await, there);
}

#[tokio::test]
async fn i3_only_the_record_tells_whose_an_untracked_cordon_is() {
    let host = enter().host().await;
    admin(
        &host,
        "restore",
        json!({"metadata": {"managedFields": [{}]}}),
    )
    .await;
    // Fields of an object without managedFields are tracked from its first apply on.
    admin(
        &host,
        "kubectl-cordon",
        json!({"spec": {"unschedulable": true}}),
    )
    .await;
    let before = get(&host).await;
    assert!(foreign_cordon(&before) && before.cordon_owners.is_empty());
    apply(&host, &full(&before)).await;
    let node = apply(&host, &empty(&before)).await;
    assert_eq!(node.cordon_owners, ["before-first-apply"]);
    assert!(node.unschedulable);
    assert_eq!(leftovers(&node, &empty(&before), None), None);
    let wrong = leftovers(&node, &empty(&before), Some(&hold()));
    assert!(
        wrong.is_some_and(|left| left.cordon),
        "the caller must know"
    );
}

#[tokio::test]
async fn i3_what_others_own_with_another_value_is_forced() {
    let host = enter().host().await;
    let body = json!({"metadata": {"labels": {(names::SLOT): "theirs"}}, "spec": {"unschedulable": false}});
    let nodes: Api<Object> = Api::all(host.admin.clone());
    let mut dump = body.clone();
    dump["apiVersion"] = json!("v1");
    dump["kind"] = json!("Node");
    let params = PatchParams::apply("argocd");
    nodes
        .patch(&host.name, &params, &Patch::Apply(dump))
        .await
        .expect("applied");
    let before = get(&host).await;
    let node = apply(&host, &full(&before)).await;
    assert!(node.unschedulable);
    assert_eq!(
        node.labels.get(names::SLOT).map(String::as_str),
        Some("default")
    );
}

#[tokio::test]
async fn i3_wiped_managed_fields_leave_a_cordon_and_mend_removes_it() {
    let host = enter().host().await;
    let before = get(&host).await;
    apply(&host, &full(&before)).await;
    admin(
        &host,
        "restore",
        json!({"metadata": {"managedFields": [{}]}}),
    )
    .await;
    let node = apply(&host, &empty(&before)).await;
    assert!(node.unschedulable && node.labels.contains_key(names::SLOT));
    let left = leftovers(&node, &empty(&before), Some(&hold())).expect("something is left");
    assert!(left.cordon, "{:?}", node.cordon_owners);
    let node = own(&host).mend(&left, AT).await.expect("mended");
    assert!(!node.unschedulable && !node.labels.contains_key(names::SLOT));
    assert!(!node.annotations.contains_key(names::STATE));
}

/// Found by review: no load balancer sent anything there any more.
#[tokio::test]
async fn i3_wiped_managed_fields_leave_a_label_for_load_balancers_and_mend_removes_it() {
    let host = enter().host().await;
    let (key, value) = names::EXCLUDED;
    let before = get(&host).await;
    let set = NodeFields {
        labels: [(key.to_owned(), value.to_owned())].into(),
        ..empty(&before)
    };
    apply(&host, &set).await;
    let wiped = json!({"metadata": {"managedFields": [{}]}});
    admin(&host, "restore", wiped).await;
    let node = apply(&host, &empty(&before)).await;
    assert_eq!(node.labels.get(key).map(String::as_str), Some(value));
    // A hold that did not set it leaves it alone.
    assert_eq!(leftovers(&node, &empty(&before), Some(&hold())), None);
    let excluded = Hold {
        excluded: true,
        ..hold()
    };
    let left = leftovers(&node, &empty(&before), Some(&excluded));
    let left = left.unwrap_or_else(|| panic!("{:?}", node.exclusion_owners));
    let node = own(&host).mend(&left, AT).await.expect("mended");
    assert!(!node.labels.contains_key(key));
}

#[tokio::test]
async fn i3_an_old_version_overwrites_nobodys_uncordon() {
    let host = enter().host().await;
    let before = get(&host).await;
    let cordoned = apply(&host, &full(&before)).await;
    admin(
        &host,
        "kubectl-uncordon",
        json!({"spec": {"unschedulable": false}}),
    )
    .await;
    let set = NodeFields {
        resource_version: cordoned.resource_version.clone(),
        ..full(&before)
    };
    let error = own(&host).apply(&set, AT).await.expect_err("stale");
    assert!(matches!(error, ApiError::Conflict { .. }), "{error:?}");
    let left = Leftovers {
        uid: cordoned.uid,
        resource_version: cordoned.resource_version,
        cordon: true,
        ..Leftovers::default()
    };
    let error = own(&host).mend(&left, AT).await.expect_err("stale");
    assert!(matches!(error, ApiError::Conflict { .. }), "{error:?}");
    assert!(!get(&host).await.unschedulable);
}

#[tokio::test]
async fn i6_a_deleted_or_replaced_node_is_not_brought_back() {
    let host = enter().host().await;
    let before = get(&host).await;
    let nodes: Api<Object> = Api::all(host.admin.clone());
    nodes
        .delete(&host.name, &DeleteParams::default())
        .await
        .expect("deleted");
    let deleted = own(&host).apply(&full(&before), AT).await;
    assert!(
        matches!(deleted, Err(ApiError::UidMismatch { .. })),
        "{deleted:?}"
    );
    assert_eq!(own(&host).get(AT).await, Ok(None));
    make_node(&host.admin, &host.name).await;
    let replaced = own(&host).apply(&full(&before), AT).await;
    assert!(
        matches!(replaced, Err(ApiError::UidMismatch { .. })),
        "{replaced:?}"
    );
    assert!(!get(&host).await.unschedulable);
}

/// Found by reading: whoever may write `nodes/status`, as network plugins may, could store a time that no type of
/// k8s-openapi reads, and the node could not read its own Node any more: it kept cordon and slot.
#[tokio::test]
async fn i7_i14_a_node_with_a_time_that_jiff_does_not_know_is_read() {
    let host = enter().host().await;
    let nodes: Api<Object> = Api::all(host.admin.clone());
    let late = "9999-12-31T23:59:59Z";
    let deep = (0..130).fold(json!({}), |inner, _| json!({"f:a": inner}));
    let body = json!({
        "metadata": {"managedFields": [
            {"manager": "kubectl-cordon", "operation": "Update", "apiVersion": "v1", "time": late,
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}},
            {"manager": "deep", "operation": "Update", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": deep}]},
        "status": {"conditions": [{"type": "Late", "status": "True", "lastHeartbeatTime": late}]}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(body));
    let patched = nodes.patch_status(&host.name, &params, &patch).await;
    assert!(
        matches!(patched, Err(kube::Error::SerdeError(_))),
        "{patched:?}"
    );
    assert!(
        nodes.get(&host.name).await.is_err(),
        "as it was read before"
    );
    let node = get(&host).await;
    let held = apply(&host, &full(&node)).await;
    assert!(held.unschedulable && held.labels.contains_key(names::SLOT));
    let free = apply(&host, &empty(&held)).await;
    assert!(!free.labels.contains_key(names::SLOT));
}
