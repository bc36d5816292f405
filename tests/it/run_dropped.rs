//! The daemon itself where something in the API server takes away on its way what a hold sets on the Node: a mutating
//! webhook does that in life, here a `MutatingAdmissionPolicy`, which servers have from 1.36 on (I3, I4).

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::{Value, json};

use crate::plane::{Plane, enter, make_slot, until};
use crate::run_queue::Running;

/// What is taken away.
struct Dropped {
    /// In CEL.
    there: &'static str,
    /// As a JSON pointer.
    path: &'static str,
    /// What the daemon calls it.
    words: &'static str,
}

const LABEL: Dropped = Dropped {
    there: "has(object.metadata.labels) && 'kube-rebootd/slot' in object.metadata.labels",
    path: "/metadata/labels/kube-rebootd~1slot",
    words: "kube-rebootd/slot",
};
const CORDON: Dropped = Dropped {
    there: "has(object.spec.unschedulable)",
    path: "/spec/unschedulable",
    words: "spec.unschedulable",
};

/// In which requests it is taken away.
#[derive(Clone, Copy)]
enum From {
    All,
    /// Not from those that are tried first: a webhook that has just been installed.
    WhatIsStored,
}

/// The policy for one Node, which goes with the value.
struct Policy<'a> {
    plane: &'a Plane,
    name: &'static str,
}

impl<'a> Policy<'a> {
    fn install(
        plane: &'a Plane,
        name: &'static str,
        dropped: &Dropped,
        from: From,
        node: &str,
    ) -> Self {
        let stored = json!([{"name": "stored", "expression": "request.dryRun != true"}]);
        let conditions = match from {
            From::All => json!([]),
            From::WhatIsStored => stored,
        };
        let remove = format!(
            "{} ? [JSONPatch{{op: 'remove', path: '{}'}}] : []",
            dropped.there, dropped.path
        );
        let api = "admissionregistration.k8s.io/v1";
        let objects = [
            json!({
                "apiVersion": api, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
                "spec": {
                    "failurePolicy": "Fail", "reinvocationPolicy": "Never", "matchConditions": conditions,
                    "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                        "operations": ["UPDATE"], "resources": ["nodes"], "resourceNames": [node]}]},
                    "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": remove}}],
                },
            }),
            json!({
                "apiVersion": api, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name},
                "spec": {"policyName": name},
            }),
        ];
        for object in objects {
            plane.kubectl(&["create", "-f", "-"], &object.to_string());
        }
        Self { plane, name }
    }
}

impl Drop for Policy<'_> {
    fn drop(&mut self) {
        for kind in ["mutatingadmissionpolicybinding", "mutatingadmissionpolicy"] {
            self.plane.try_kubectl(&["delete", kind, self.name], "");
        }
    }
}

/// A daemon of the group `name` that wants a reboot, with the policy in force for its Node.
async fn scene(name: &'static str, dropped: &Dropped, from: From) -> (Running, Policy<'static>) {
    let plane = enter();
    let admin = plane.admin().await;
    make_slot(&admin, name, name).await;
    let daemon = Running::start(name, "max_unavailable = 100000\n").await;
    let node = daemon.node.name.as_str();
    let policy = Policy::install(plane, name, dropped, from, node);
    let patch = |change: Value| {
        let change = json!([change]).to_string();
        let words = [
            "patch",
            "node",
            node,
            "--type=json",
            "-o=json",
            "-p",
            &change,
        ];
        plane.try_kubectl(&words, "")
    };
    until("the policy to be in force", || async {
        let value = if dropped.path == CORDON.path {
            json!(true)
        } else {
            json!(name)
        };
        let (_, said) = patch(json!({"op": "add", "path": dropped.path, "value": value}));
        let node: Value = serde_json::from_str(&said).expect("a Node");
        let stayed = node.pointer(dropped.path).is_some();
        if stayed {
            // The daemon may have been quicker: it takes off a label that it has not set.
            patch(json!({"op": "remove", "path": dropped.path}));
        }
        (!stayed).then_some(())
    })
    .await;
    daemon.cli.write("/run/reboot-required", "");
    (daemon, policy)
}

/// Nothing of a hold is there, and nobody was asked for a reboot.
async fn at_rest(daemon: &Running, slot: &str) {
    until("nothing of a hold is left", || async {
        let nodes: Api<Node> = Api::all(daemon.node.admin.clone());
        let node = nodes.get(&daemon.node.name).await.expect("a Node");
        let labels = node.metadata.labels.unwrap_or_default();
        let cordoned = node.spec.and_then(|spec| spec.unschedulable) == Some(true);
        let held = daemon.lease(slot).await.holder.is_some();
        (!held && !cordoned && !labels.contains_key("kube-rebootd/slot")).then_some(())
    })
    .await;
    assert_eq!(daemon.cli.bus.knobs().reboots, 0);
}

#[tokio::test]
async fn i3_what_would_be_dropped_from_the_node_is_seen_before_a_slot_is_taken() {
    let (mut daemon, _policy) = scene("dropped-before", &LABEL, From::All).await;
    let status = daemon.wait_status("would be refused").await;
    assert!(status.contains(LABEL.words), "{status}");
    let lease = daemon.lease("dropped-before").await;
    assert_eq!((lease.holder, lease.last_hold), (None, None), "never taken");
    at_rest(&daemon, "dropped-before").await;
}

/// The dry run says yes, and the apply is changed all the same.
#[tokio::test]
async fn i3_i4_a_hold_whose_label_is_dropped_is_undone_and_says_so() {
    undone("dropped-label", &LABEL).await;
}

#[tokio::test]
async fn i3_i4_a_hold_whose_cordon_is_dropped_is_undone_and_says_so() {
    undone("dropped-cordon", &CORDON).await;
}

async fn undone(name: &'static str, dropped: &Dropped) {
    let (mut daemon, _policy) = scene(name, dropped, From::WhatIsStored).await;
    let status = daemon.wait_status("did not stay").await;
    assert!(status.contains(dropped.words), "{status}");
    until("the slot was taken, and given up", || async {
        daemon.lease(name).await.last_hold
    })
    .await;
    at_rest(&daemon, name).await;
    let log = daemon.log();
    assert!(
        log.contains("does an admission webhook change Nodes?"),
        "{log}"
    );
}
