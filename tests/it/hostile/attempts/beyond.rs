//! Attempts beyond the slots: heartbeats, Nodes, pods, rights, other identities.

use serde_json::{Value, json};

use super::As::{Coordinator, Itself, Somebody};
use super::Harm::{Granted, Others, Outside};
use super::{Attempt, BEATS, LEASES, MERGE, NODES, SETS, annotations, delete, get, patch, post};

const PODS: &str = "/api/v1/namespaces/default/pods";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const COORDINATOR: (&str, &str) = (
    "Impersonate-User",
    "system:serviceaccount:kube-rebootd:coordinator",
);

pub(super) fn heartbeats(other: &str) -> Vec<Attempt> {
    let theirs = format!("{BEATS}/{other}");
    let waits = json!({"metadata": {"labels": {"kube-rebootd/waiting": null}}});
    let fresh = json!({"metadata": {"name": "n99"}, "spec": {"holderIdentity": "n99"}});
    vec![
        patch(
            Others,
            "take another's waiting record away",
            Itself,
            MERGE,
            &theirs,
            waits.clone(),
        ),
        patch(
            Others,
            "take another's waiting record away, as the coordinator",
            Coordinator,
            MERGE,
            &theirs,
            waits,
        ),
        delete(Others, "delete another's heartbeat", Itself, &theirs),
        post(
            Others,
            "make a heartbeat for a node that is none",
            Itself,
            BEATS,
            fresh,
        ),
    ]
}

pub(super) fn marks(me: &str, other: &str) -> Vec<Attempt> {
    let theirs = format!("{NODES}/{other}");
    let own = format!("{NODES}/{me}");
    let label = |value: Value| json!({"metadata": {"labels": {"kube-rebootd/slot": value}}});
    let role = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}});
    vec![
        patch(
            Others,
            "take the slot label off another's Node",
            Itself,
            MERGE,
            &theirs,
            label(Value::Null),
        ),
        patch(
            Others,
            "put a slot label on another's Node",
            Itself,
            MERGE,
            &theirs,
            label(json!("free")),
        ),
        patch(
            Others,
            "put a slot label on another's Node, as the coordinator",
            Coordinator,
            MERGE,
            &theirs,
            label(json!("free")),
        ),
        patch(
            Others,
            "ask another Node to reboot",
            Itself,
            MERGE,
            &theirs,
            annotations("kube-rebootd/reboot", "x"),
        ),
        patch(
            Others,
            "ask another Node to reboot, as the coordinator",
            Coordinator,
            MERGE,
            &theirs,
            annotations("kube-rebootd/reboot", "x"),
        ),
        patch(
            Others,
            "lift the pause of another Node",
            Itself,
            MERGE,
            &theirs,
            annotations("kube-rebootd/paused", Value::Null),
        ),
        patch(
            Others,
            "call itself a control-plane node",
            Itself,
            MERGE,
            &own,
            role,
        ),
    ]
}

pub(super) fn nodes(me: &str, other: &str) -> Vec<Attempt> {
    let theirs = format!("{NODES}/{other}");
    let own = format!("{NODES}/{me}");
    let cordon = json!({"spec": {"unschedulable": true}});
    let taint = json!({"spec": {"taints": [{"key": "evil", "effect": "NoExecute"}]}});
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    vec![
        patch(
            Outside,
            "cordon another Node",
            Itself,
            MERGE,
            &theirs,
            cordon.clone(),
        ),
        patch(
            Outside,
            "cordon another Node as the coordinator",
            Coordinator,
            MERGE,
            &theirs,
            cordon,
        ),
        patch(
            Outside,
            "say that another Node is not Ready",
            Itself,
            MERGE,
            &format!("{theirs}/status"),
            ready,
        ),
        patch(Outside, "taint itself", Itself, MERGE, &own, taint),
        delete(Outside, "delete another Node", Itself, &theirs),
        delete(
            Outside,
            "delete another Node as the coordinator",
            Coordinator,
            &theirs,
        ),
        delete(Outside, "delete its own Node", Itself, &own),
        post(
            Outside,
            "make a Node",
            Itself,
            NODES,
            json!({"metadata": {"name": "n98"}}),
        ),
    ]
}

pub(super) fn pods(other: &str) -> Vec<Attempt> {
    let victim = format!("{PODS}/victim");
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "victim"}});
    let theirs = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{other}");
    vec![
        post(
            Outside,
            "evict a pod of another node",
            Itself,
            &format!("{victim}/eviction"),
            eviction.clone(),
        ),
        post(
            Outside,
            "evict a pod as the coordinator",
            Coordinator,
            &format!("{victim}/eviction"),
            eviction,
        ),
        delete(Outside, "delete a pod of another node", Itself, &victim),
        delete(
            Outside,
            "delete a pod as the coordinator",
            Coordinator,
            &victim,
        ),
        get(Outside, "list the pods of another node", Itself, &theirs),
        get(
            Outside,
            "list pods as the coordinator",
            Coordinator,
            &theirs,
        ),
        get(
            Outside,
            "list DaemonSets as the coordinator",
            Coordinator,
            SETS,
        ),
        patch(
            Outside,
            "change a DaemonSet as the coordinator",
            Coordinator,
            MERGE,
            &format!("{SETS}/proxy"),
            annotations("evil", "x"),
        ),
        get(
            Outside,
            "read Secrets as the coordinator",
            Coordinator,
            "/api/v1/namespaces/kube-rebootd/secrets",
        ),
    ]
}

pub(super) fn rights(me: &str) -> Vec<Attempt> {
    let policy = format!("{POLICIES}/kube-rebootd");
    let binding = format!("{BINDINGS}/kube-rebootd");
    let role = format!("{RBAC}/namespaces/kube-rebootd/roles/coordinator");
    let more = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let admin = json!({"metadata": {"name": "evil"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": format!("system:node:{me}")}]});
    let token = "/api/v1/namespaces/kube-rebootd/serviceaccounts/coordinator/token";
    let ask = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let bindings = format!("{RBAC}/clusterrolebindings");
    let flow = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/kube-rebootd";
    vec![
        delete(Outside, "delete the policy", Itself, &policy),
        delete(
            Outside,
            "delete the policy as the coordinator",
            Coordinator,
            &policy,
        ),
        delete(Outside, "delete the policy's binding", Itself, &binding),
        delete(
            Outside,
            "delete the policy's binding as the coordinator",
            Coordinator,
            &binding,
        ),
        delete(
            Outside,
            "delete the binding of the policy on Nodes",
            Itself,
            &format!("{BINDINGS}/kube-rebootd-node-marks"),
        ),
        delete(
            Outside,
            "delete the binding of the policy on Nodes as the coordinator",
            Coordinator,
            &format!("{BINDINGS}/kube-rebootd-node-marks"),
        ),
        delete(
            Outside,
            "delete the FlowSchema as the coordinator",
            Coordinator,
            flow,
        ),
        patch(
            Outside,
            "widen the coordinator's Role",
            Itself,
            MERGE,
            &role,
            more.clone(),
        ),
        patch(
            Outside,
            "widen the coordinator's Role as the coordinator",
            Coordinator,
            MERGE,
            &role,
            more,
        ),
        post(
            Outside,
            "bind itself to cluster-admin",
            Itself,
            &bindings,
            admin.clone(),
        ),
        post(
            Outside,
            "bind itself to cluster-admin as the coordinator",
            Coordinator,
            &bindings,
            admin,
        ),
        post(
            Outside,
            "ask for the coordinator's token",
            Itself,
            token,
            ask.clone(),
        ),
        post(
            Outside,
            "ask for the coordinator's token as the coordinator",
            Coordinator,
            token,
            ask,
        ),
    ]
}

pub(super) fn somebody(other: &str) -> Vec<Attempt> {
    const USER: &str = "Impersonate-User";
    const GROUP: &str = "Impersonate-Group";
    const N2: &[(&str, &str)] = &[(USER, "system:node:n2"), (GROUP, "system:nodes")];
    let act = |what, headers| get(Outside, what, Somebody(headers), LEASES);
    let theirs = format!("{NODES}/{other}");
    vec![
        act("act as an admin", &[(USER, "admin")]),
        act(
            "act as an admin's group",
            &[(USER, "evil"), (GROUP, "system:masters")],
        ),
        act(
            "act as the coordinator in an admin's group",
            &[COORDINATOR, (GROUP, "system:masters")],
        ),
        act(
            "act as the coordinator with a UID",
            &[COORDINATOR, ("Impersonate-Uid", "0")],
        ),
        act(
            "act as the coordinator with another extra value",
            &[COORDINATOR, ("Impersonate-Extra-evil", "x")],
        ),
        act(
            "act as the coordinator and as two nodes of it",
            &[
                COORDINATOR,
                ("Impersonate-Extra-node", "n1"),
                ("Impersonate-Extra-node", "n2"),
            ],
        ),
        act(
            "act as another ServiceAccount of the namespace",
            &[(USER, "system:serviceaccount:kube-rebootd:default")],
        ),
        act(
            "act as a ServiceAccount of kube-system",
            &[(
                USER,
                "system:serviceaccount:kube-system:clusterrole-aggregation-controller",
            )],
        ),
        act(
            "act as itself without the group of nodes",
            &[(USER, "system:node:n1")],
        ),
        patch(
            Outside,
            "act as another node",
            Somebody(N2),
            MERGE,
            &theirs,
            json!({"spec": {"unschedulable": true}}),
        ),
    ]
}

pub(super) fn granted() -> Vec<Attempt> {
    let what = "read what an admin lets every ServiceAccount read";
    let path = "/api/v1/namespaces/kube-system/configmaps";
    vec![get(Granted, what, Coordinator, path)]
}
