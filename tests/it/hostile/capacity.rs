//! The right to list the pods of all namespaces, under each grant: missing, granted, and taken back (I8, I11).

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use kube_rebootd::cluster::answer::ApiError;
use kube_rebootd::cluster::capacity::unplaced;
use kube_rebootd::cluster::client::{Access, Connector};
use kube_rebootd::cluster::manifests::{Grant, shared, with_capacity};
use serde_json::json;

use super::Scene;
use super::doctor::Doctor;
use crate::plane::{Plane, until};

const POD: &str = "no-room";
const ROLES: &str = "clusterrole,clusterrolebinding";

/// A pod that the scheduler has no room for, as it says it: there is no scheduler here.
async fn waits(admin: &Client) {
    let pods: Api<Pod> = Api::namespaced(admin.clone(), "default");
    let pod = json!({"metadata": {"name": POD},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod = serde_json::from_value(pod).expect("a pod");
    pods.create(&PostParams::default(), &pod)
        .await
        .expect("made");
    let status = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "lastTransitionTime": "2026-11-21T10:00:00Z"}]}});
    let params = PatchParams::default();
    let patched = pods.patch_status(POD, &params, &Patch::Merge(status)).await;
    patched.expect("patched");
}

pub(super) async fn is_granted_and_taken_back(
    plane: &Plane,
    scene: &Scene,
    doctor: &Doctor,
    grant: &Grant,
) {
    let access = Access {
        prove_node: matches!(grant, Grant::Strict(_)),
        ..plane.access(&scene.good.name)
    };
    let clients = Connector::new(access).connect().await.expect("clients");
    waits(&scene.admin).await;
    let refused = unplaced(&clients.coordinator).await;
    assert!(
        matches!(refused, Err(ApiError::Denied { code: 403, .. })),
        "{grant:?}: {refused:?}"
    );
    doctor.misses_the_pods(grant).await;
    let text = with_capacity(&shared(grant).expect("manifests"), grant);
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    plane.kubectl(&apply, &text);
    let listed = until("the pods to be listed", || async {
        unplaced(&clients.coordinator).await.ok()
    })
    .await;
    let found = listed.pods.iter().find(|pod| pod.path == "default/no-room");
    let since = found.and_then(|pod| pod.since).expect("it waits");
    assert_eq!(since.to_string(), "2026-11-21T10:00:00Z");
    assert!(!listed.more);
    doctor.lists_the_pods(grant).await;
    for name in [
        "kube-rebootd-capacity",
        "kube-rebootd-capacity-as-coordinator",
    ] {
        plane.kubectl(&["delete", "--ignore-not-found", ROLES, name], "");
    }
    until("the right to be gone", || async {
        unplaced(&clients.coordinator).await.err()
    })
    .await;
    plane.kubectl(&["delete", "--now", "pod", POD], "");
}
