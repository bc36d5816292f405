//! What the tokens of the pods on a compromised node can do to other nodes, with and without the shipped
//! policy on Nodes (I14). Network plugins and CSI drivers run on every node and often may write all Nodes.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::attempts::{As, Attempt, Harm};
use super::doctor::Doctor;
use super::{Outcome, Scene, send};
use crate::plane::Plane;

const NODES: &str = "/api/v1/nodes";
const MERGE: &str = "application/merge-patch+json";
const BINDING: &str = "validatingadmissionpolicybinding/kube-rebootd-node-marks";
const TITLE: &str = "What the token of a pod on it can do";

/// A network plugin as it is usually installed, and a CSI driver that labels Nodes and attaches volumes.
const PLUGINS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: network-plugin}
rules:
- {apiGroups: [''], resources: [nodes, pods, namespaces], verbs: [get, list, watch]}
- {apiGroups: [''], resources: [nodes/status], verbs: [patch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: csi-driver}
rules:
- {apiGroups: [''], resources: [nodes], verbs: [get, list, watch, patch, update]}
- {apiGroups: [storage.k8s.io], resources: [volumeattachments], verbs: [get, list, watch, patch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: network-plugin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: network-plugin}
subjects: [{kind: ServiceAccount, namespace: kube-system, name: network-plugin}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: csi-driver}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: csi-driver}
subjects: [{kind: ServiceAccount, namespace: kube-system, name: csi-driver}]
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {name: theirs}
spec: {attacher: example, nodeName: n2, source: {persistentVolumeName: v}}
";

/// The columns: who, and whether it is the network plugin's way (`nodes/status`).
const WHO: [(&str, bool); 2] = [
    ("system:serviceaccount:kube-system:network-plugin", true),
    ("system:serviceaccount:kube-system:csi-driver", false),
];

/// One line: what, the object's path when it is no Node, and the merge patch.
struct Row {
    what: &'static str,
    /// One of our marks: the policy must refuse it, and without the policy it must be possible.
    mark: bool,
    verb: &'static str,
    path: Option<&'static str>,
    body: Value,
}

fn node(mark: bool, what: &'static str, body: Value) -> Row {
    Row {
        what,
        mark,
        verb: "PATCH",
        path: None,
        body,
    }
}

fn elsewhere(what: &'static str, verb: &'static str, path: &'static str, body: Value) -> Row {
    Row {
        what,
        mark: false,
        verb,
        path: Some(path),
        body,
    }
}

fn rows() -> Vec<Row> {
    let label = |key: &str, value: Value| json!({"metadata": {"labels": {(key): value}}});
    let note = |key: &str, value: Value| json!({"metadata": {"annotations": {(key): value}}});
    let slots = "/apis/coordination.k8s.io/v1/namespaces/kube-rebootd/leases/held";
    vec![
        node(
            true,
            "ask another Node to reboot",
            note("kube-rebootd/reboot", json!("now")),
        ),
        node(
            true,
            "withdraw what an admin asked another Node for",
            note("kube-rebootd/reboot", Value::Null),
        ),
        node(
            true,
            "pause another Node",
            note("kube-rebootd/paused", json!("x")),
        ),
        node(
            true,
            "lift the pause of another Node",
            note("kube-rebootd/paused", Value::Null),
        ),
        node(
            true,
            "take the slot label off another's Node",
            label("kube-rebootd/slot", Value::Null),
        ),
        node(
            true,
            "put another slot's label on another's Node",
            label("kube-rebootd/slot", json!("own")),
        ),
        node(
            true,
            "forge the record of another's hold",
            note("kube-rebootd/state", json!("{}")),
        ),
        node(
            true,
            "delete the history of another Node",
            note("kube-rebootd/history", Value::Null),
        ),
        node(
            true,
            "set any other key kube-rebootd/... on another Node",
            label("kube-rebootd/x", json!("x")),
        ),
        node(
            false,
            "change what `coordination.group_label` names, where that is no key kube-rebootd/...",
            label("example.com/pool", json!("x")),
        ),
        node(
            false,
            "call another Node a control-plane node",
            label("node-role.kubernetes.io/control-plane", json!("")),
        ),
        node(
            false,
            "take the role of an etcd node off another Node",
            label("node-role.kubernetes.io/etcd", Value::Null),
        ),
        node(
            false,
            "say that another Node is not Ready",
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
        ),
        node(
            false,
            "cordon another Node",
            json!({"spec": {"unschedulable": true}}),
        ),
        elsewhere(
            "say that another's volume is detached",
            "PATCH",
            "/apis/storage.k8s.io/v1/volumeattachments/theirs",
            json!({"metadata": {"annotations": {"x": "y"}}}),
        ),
        elsewhere(
            "read the slots",
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/kube-rebootd/leases",
            Value::Null,
        ),
        elsewhere(
            "empty another's slot",
            "PATCH",
            slots,
            json!({"spec": {"holderIdentity": null}}),
        ),
    ]
}

/// Tries one line with one token; a status is written to `nodes/status`, whoever tries.
async fn attempt(scene: &Scene, row: &Row, (who, by_status): (&str, bool)) -> Outcome {
    let other = &scene.good.name;
    let path = match row.path {
        Some(path) => path.to_owned(),
        None if by_status || row.body.get("status").is_some() => {
            format!("{NODES}/{other}/status")
        }
        None => format!("{NODES}/{other}"),
    };
    let attempt = Attempt {
        what: row.what,
        harm: Harm::Others,
        who: As::Itself,
        verb: row.verb,
        kind: if row.body.is_null() { "" } else { MERGE },
        path,
        body: row.body.clone(),
    };
    scene.mark(true).await;
    let before = scene.good_node().await;
    let mut outcome = send(&scene.admin, &attempt, &[("Impersonate-User", who)]).await;
    assert!(
        outcome.done() || matches!(outcome.code, 403 | 422),
        "{} by {who}: neither done nor refused: {outcome:?}",
        row.what
    );
    // A patch of nodes/status resets the spec and answers 200: what counts is what came of it.
    if row.path.is_none() && outcome.done() && scene.good_node().await == before {
        outcome = Outcome {
            code: 200,
            message: "nothing changed".to_owned(),
        };
    }
    outcome
}

impl Scene {
    /// Sets every mark on the Node that has something to lose, or takes what is not the scene's off.
    async fn mark(&self, marked: bool) {
        let value = |text: &str| if marked { json!(text) } else { Value::Null };
        let nodes: Api<Node> = Api::all(self.admin.clone());
        let marks = json!({
            "metadata": {
                "labels": {"kube-rebootd/slot": "held", "kube-rebootd/x": null,
                    "example.com/pool": null, "node-role.kubernetes.io/control-plane": null,
                    "node-role.kubernetes.io/etcd": value("")},
                "annotations": {"kube-rebootd/reboot": value("an admin's"),
                    "kube-rebootd/paused": value("an admin's"),
                    "kube-rebootd/state": value("its own"),
                    "kube-rebootd/history": value("its own")},
            },
            "spec": {"unschedulable": null},
        });
        let params = PatchParams::default();
        let name = &self.good.name;
        let patched = nodes.patch(name, &params, &Patch::Merge(marks)).await;
        patched.expect("marked");
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let patched = nodes
            .patch_status(name, &params, &Patch::Merge(ready))
            .await;
        patched.expect("Ready");
    }

    /// What of that Node somebody could change.
    async fn good_node(&self) -> Value {
        let nodes: Api<Node> = Api::all(self.admin.clone());
        let node = nodes.get(&self.good.name).await.expect("a Node");
        let meta = &node.metadata;
        json!([meta.labels, meta.annotations, node.spec, node.status])
    }
}

impl Outcome {
    fn came_of_it(&self) -> bool {
        self.done() && self.message != "nothing changed"
    }
}

/// The table; the plane has a strict grant, which these tokens have nothing to do with.
pub(super) async fn table(plane: &Plane, scene: &Scene, doctor: &Doctor) -> String {
    plane.kubectl(&["apply", "-f", "-"], PLUGINS);
    doctor.sees_the_policy_on_nodes(true).await;
    let with = column(scene).await;
    plane.kubectl(&["delete", BINDING], "");
    doctor.sees_the_policy_on_nodes(false).await;
    let without = column(scene).await;
    let mut text = format!(
        "| {TITLE} | network plugin's | CSI driver's | network plugin's, without the policy | CSI driver's, without the policy |\n|---|---|---|---|---|\n"
    );
    for ((row, with), without) in rows().iter().zip(&with).zip(&without) {
        let cells: Vec<&str> = [with, without]
            .into_iter()
            .flatten()
            .map(|o| if o.came_of_it() { "yes" } else { "no" })
            .collect();
        let _ = writeln!(text, "| {} | {} |", row.what, cells.join(" | "));
        if row.mark {
            for outcome in with {
                assert_eq!(outcome.code, 422, "{}: {outcome:?}", row.what);
            }
            // Else the refusal would prove nothing.
            for outcome in without {
                assert!(outcome.came_of_it(), "{}: {outcome:?}", row.what);
            }
        }
    }
    text
}

async fn column(scene: &Scene) -> Vec<[Outcome; 2]> {
    let mut outcomes = Vec::new();
    for row in rows() {
        let mut pair = Vec::new();
        for who in WHO {
            pair.push(attempt(scene, &row, who).await);
        }
        outcomes.push(pair.try_into().expect("two of them"));
    }
    scene.mark(false).await;
    outcomes
}
