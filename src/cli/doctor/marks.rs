//! Whether the cluster keeps others from changing this Node's marks (I14), and whether a missing
//! DaemonSet pod can be told from a deleted DaemonSet.

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use kube_rebootd_core::names;
use serde_json::json;

use super::Check;
use super::grant::NOBODY;
use super::refused::{MANAGER, manifests, refused};
use crate::cluster::answer::{ApiError, CALL, call, found};
use crate::cluster::client::Clients;
use crate::cluster::lean::{Named, Node};

pub(super) const MARKS: &str = "node marks";
pub(super) const DAEMON_SETS: &str = "DaemonSets";
/// Any namespace would do: the right is asked for, and no DaemonSet is called so.
const ANYWHERE: &str = "kube-system";

/// A node may not read policies. Instead it tries, as a dry run, to set the one key that the policy
/// refuses to everybody: the refusal shows that the policy is bound and denies.
pub(super) async fn marks(clients: &Clients, namespace: &str) -> Check {
    let api: Api<Named<Node>> = Api::all(clients.node.clone());
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default().dry_run()
    };
    let patch = Patch::Merge(json!({"metadata": {"annotations": {(names::PROBE): "doctor"}}}));
    let tried = api.patch(&clients.name, &params, &patch);
    match call("probe the policy on Nodes (dry run)", CALL, tried).await {
        Err(ApiError::Invalid { message, .. }) if message.contains(names::PROBE) => {
            Check::ok(MARKS, "changed only by this node and by who may reboot it")
        }
        Ok(_) => Check::warn(
            MARKS,
            "whoever may write nodes/status, as network plugins may, can ask this node to reboot or take its slot label off: the policy kube-rebootd-node-marks is missing",
            manifests(namespace),
        ),
        Err(err) => refused(
            MARKS,
            &err,
            "a kubelet's credential may patch its own Node; another identity needs a ClusterRole with patch on nodes",
        ),
    }
}

/// Not found is the good answer: the question was allowed.
pub(super) async fn daemon_sets(coordinator: &Client, namespace: &str) -> Check {
    let api: Api<DaemonSet> = Api::namespaced(coordinator.clone(), ANYWHERE);
    match found(call("get a DaemonSet", CALL, api.get_metadata(NOBODY)).await) {
        Ok(_) => Check::ok(DAEMON_SETS, "may be asked for by name"),
        Err(err @ ApiError::Denied { .. }) => Check::warn(
            DAEMON_SETS,
            format!(
                "{err}; after a reboot a missing pod of a deleted DaemonSet is waited for until health.timeout"
            ),
            manifests(namespace),
        ),
        Err(err) => refused(DAEMON_SETS, &err, &manifests(namespace)),
    }
}
