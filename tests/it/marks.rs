//! The shipped policy on Nodes, on a real API server: our labels and annotations change only by the node
//! itself and by who may `reboot` it, and no kubelet is ever kept from writing its status (I14).

use http::Request;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::client::Body;
use kube::{Api, Client};
use kube_rebootd_core::names::QUORUM_ROLES;
use serde_json::{Value, json};

use crate::memory::merge;
use crate::plane::{Host, enter, make_node, make_slot, until};

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";
const POLICY: &str = "kube-rebootd-node-marks";

/// Who they are: a network plugin and others with the rights that such programs have.
const PEOPLE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: marks-writer}
rules:
- {apiGroups: [''], resources: [nodes, nodes/status], verbs: [get, create, patch, update, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: marks-writer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: marks-writer}
subjects:
- {kind: ServiceAccount, namespace: default, name: plugin}
- {kind: ServiceAccount, namespace: default, name: operator}
- {kind: ServiceAccount, namespace: default, name: helper}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: marks-operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kube-rebootd-operator}
subjects: [{kind: ServiceAccount, namespace: default, name: operator}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: marks-admin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, namespace: default, name: admin}]
";

const PLUGIN: &str = "system:serviceaccount:default:plugin";
const OPERATOR: &str = "system:serviceaccount:default:operator";
/// Who may `reboot` one Node only.
const HELPER: &str = "system:serviceaccount:default:helper";
/// By RBAC, not by the group that RBAC never asks about.
const ADMIN: &str = "system:serviceaccount:default:admin";

/// One request about a Node.
#[derive(Debug, Clone)]
struct Write {
    verb: &'static str,
    kind: &'static str,
    path: String,
    body: Value,
}

async fn send(client: &Client, write: &Write, who: Option<&str>) -> (u16, String) {
    let mut request = Request::builder()
        .method(write.verb)
        .uri(&write.path)
        .header("Content-Type", write.kind);
    if let Some(who) = who {
        request = request.header("Impersonate-User", who);
    }
    let body = write.body.to_string().into_bytes();
    let request = request.body(Body::from(body)).expect("a request");
    let answer = client.send(request).await.expect("an answer");
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect_bytes().await.expect("a body");
    let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let message = said["message"].as_str().unwrap_or_default().to_owned();
    (code, message)
}

/// The plane with those people, and a node that has every mark, once the policy is in force.
async fn scene() -> Host {
    let plane = enter();
    let host = plane.host().await;
    plane.kubectl(&["apply", "--server-side", "-f", "-"], PEOPLE);
    // A slot that exists, of another group: a label without one would stop every other test's daemon.
    make_slot(&host.admin, "held", "marks").await;
    reset(&host).await;
    in_force(&host).await;
    host
}

async fn in_force(host: &Host) {
    until("the policy on Nodes to be in force", || async {
        let probe = json!({"metadata": {"annotations": {"kube-rebootd/probe": "x"}}});
        let path = format!("/api/v1/nodes/{}?dryRun=All", host.name);
        let write = Write {
            verb: "PATCH",
            kind: MERGE,
            path,
            body: probe,
        };
        let (code, said) = send(&host.clients.node, &write, None).await;
        (code == 422 && said.contains("kube-rebootd/probe")).then_some(())
    })
    .await;
    // The rights of those people are known to the server as well.
    until("the rights", || async {
        let path = format!("/api/v1/nodes/{}?dryRun=All", host.name);
        let write = Write {
            verb: "PATCH",
            kind: MERGE,
            path,
            body: json!({"metadata": {"annotations": {"kube-rebootd/paused": "else"}}}),
        };
        let mut all = true;
        for who in [OPERATOR, ADMIN] {
            all &= send(&host.admin, &write, Some(who)).await.0 == 200;
        }
        all.then_some(())
    })
    .await;
}

/// Every mark is there, with its own value.
async fn reset(host: &Host) {
    let nodes: Api<Node> = Api::all(host.admin.clone());
    let marks = json!({"metadata": {
        "labels": {"kube-rebootd/slot": "held", "kube-rebootd/x": null},
        "annotations": {"kube-rebootd/reboot": "asked", "kube-rebootd/paused": "why",
            "kube-rebootd/state": "its own", "kube-rebootd/history": "its own"}}});
    let params = PatchParams::default();
    let patched = nodes.patch(&host.name, &params, &Patch::Merge(marks)).await;
    patched.expect("marked");
}

/// What somebody who steers reboots would write: set, changed and taken off.
fn steering() -> Vec<Value> {
    let note = |key: &str, value: Value| json!({"metadata": {"annotations": {(key): value}}});
    let label = |key: &str, value: Value| json!({"metadata": {"labels": {(key): value}}});
    let mut all = vec![
        label("kube-rebootd/slot", Value::Null),
        label("kube-rebootd/slot", json!("another")),
        label("kube-rebootd/x", json!("other")),
        note("kube-rebootd/y", json!("any other key")),
    ];
    for key in ["reboot", "paused", "state", "history"] {
        let key = format!("kube-rebootd/{key}");
        all.push(note(&key, Value::Null));
        all.push(note(&key, json!("")));
        all.push(note(&key, json!("another")));
    }
    all
}

/// The same change as each kind of request, to the Node and to its status.
async fn ways(host: &Host, change: &Value) -> Vec<Write> {
    let nodes: Api<Node> = Api::all(host.admin.clone());
    let mut whole =
        serde_json::to_value(nodes.get(&host.name).await.expect("a Node")).expect("a Node as JSON");
    whole["apiVersion"] = json!("v1");
    whole["kind"] = json!("Node");
    // An update that is refused for its resourceVersion would prove nothing.
    for field in ["resourceVersion", "managedFields"] {
        whole["metadata"]
            .as_object_mut()
            .expect("metadata")
            .remove(field);
    }
    merge(&mut whole, change);
    let mut apply = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": host.name}});
    merge(&mut apply, change);
    let mut writes = Vec::new();
    for path in [
        format!("/api/v1/nodes/{}", host.name),
        format!("/api/v1/nodes/{}/status", host.name),
    ] {
        let write = |verb, kind, body: &Value| Write {
            verb,
            kind,
            path: format!("{path}?fieldManager=m&force=true"),
            body: body.clone(),
        };
        let plain = |verb, kind, body: &Value| Write {
            path: path.clone(),
            ..write(verb, kind, body)
        };
        writes.push(plain("PATCH", MERGE, change));
        writes.push(plain("PATCH", STRATEGIC, change));
        writes.push(plain("PUT", JSON, &whole));
        let removal = change["metadata"].to_string().contains("null");
        if !removal {
            // By an apply, somebody takes off only what is its own.
            writes.push(write("PATCH", APPLY, &apply));
        }
        for (field, entries) in change["metadata"].as_object().expect("an object") {
            for (key, value) in entries.as_object().expect("an object") {
                let path = format!("/metadata/{field}/{}", key.replace('/', "~1"));
                let op = if value.is_null() {
                    json!([{"op": "remove", "path": path}])
                } else {
                    json!([{"op": "add", "path": path, "value": value}])
                };
                writes.push(plain("PATCH", PATCH, &op));
            }
        }
    }
    writes
}

#[tokio::test]
async fn i14_a_network_plugin_can_neither_request_nor_pause_nor_take_a_label_off() {
    let host = scene().await;
    let mut tried = 0;
    for change in steering() {
        for write in ways(&host, &change).await {
            let (code, said) = send(&host.admin, &write, Some(PLUGIN)).await;
            assert!(
                code == 422 && said.contains(POLICY) && said.contains("kube-rebootd-operator"),
                "{write:?}: {code} {said}"
            );
            tried += 1;
        }
    }
    // Sixteen changes, two resources, four or five kinds of request each.
    assert!(tried >= 16 * 2 * 4, "{tried}");
    // All that is its business is done as before.
    for (path, body) in [
        (
            "",
            json!({"metadata": {"annotations": {"example.com/pods": "10.0.0.0/24"}}}),
        ),
        (
            "/status",
            json!({"status": {"conditions": [{"type": "NetworkUnavailable", "status": "False"}]}}),
        ),
        (
            "/status",
            json!({"metadata": {"labels": {"example.com/x": "y"}}}),
        ),
    ] {
        let write = Write {
            verb: "PATCH",
            kind: STRATEGIC,
            path: format!("/api/v1/nodes/{}{path}", host.name),
            body,
        };
        let (code, said) = send(&host.admin, &write, Some(PLUGIN)).await;
        assert_eq!(code, 200, "{write:?}: {said}");
    }
}

/// Found by review: a network plugin took the role off a control-plane node that was down, and the next one went down.
#[tokio::test]
async fn i13_i14_a_network_plugin_cannot_change_who_forms_the_quorum() {
    let host = scene().await;
    let write = |path: &str, role: &str, value: Value| Write {
        verb: "PATCH",
        kind: MERGE,
        path: format!("/api/v1/nodes/{}{path}", host.name),
        body: json!({"metadata": {"labels": {(role): value}}}),
    };
    for role in QUORUM_ROLES {
        for value in [json!(""), Value::Null] {
            let status = write("/status", role, value.clone());
            let (code, said) = send(&host.admin, &status, Some(PLUGIN)).await;
            assert!(
                code == 422 && said.contains(POLICY),
                "{role}: {code} {said}"
            );
            // Installers and clouds give roles so, and who may reboot the node may do it in any way.
            let (code, said) = send(&host.admin, &write("", role, value), Some(PLUGIN)).await;
            assert_eq!(code, 200, "{role}: {said}");
        }
        let (code, said) = send(&host.admin, &write("/status", role, json!("")), Some(ADMIN)).await;
        assert_eq!(code, 200, "{role}: {said}");
        let (code, said) = send(
            &host.admin,
            &write("/status", role, Value::Null),
            Some(ADMIN),
        )
        .await;
        assert_eq!(code, 200, "{role}: {said}");
    }
}

#[tokio::test]
async fn i14_the_node_an_operator_and_an_admin_change_the_marks() {
    let host = scene().await;
    let one_only = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: marks-helper}}\n\
         rules: [{{apiGroups: [''], resources: [nodes], resourceNames: [{}], verbs: [reboot]}}]\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: marks-helper}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: marks-helper}}\n\
         subjects: [{{kind: ServiceAccount, namespace: default, name: helper}}]\n",
        host.name
    );
    let plane = enter();
    plane.kubectl(&["apply", "--server-side", "-f", "-"], &one_only);
    let change = json!({"metadata": {"annotations": {"kube-rebootd/reboot": "by the helper"}}});
    let helper = |name: &str| Write {
        verb: "PATCH",
        kind: MERGE,
        path: format!("/api/v1/nodes/{name}"),
        body: change.clone(),
    };
    until("the helper's right", || async {
        let (code, _) = send(&host.admin, &helper(&host.name), Some(HELPER)).await;
        (code == 200).then_some(())
    })
    .await;
    let other = plane.host().await;
    let (code, said) = send(&host.admin, &helper(&other.name), Some(HELPER)).await;
    assert!(code == 422 && said.contains(POLICY), "{code} {said}");

    let itself = (&host.clients.node, None);
    for (client, who) in [
        itself,
        (&host.admin, Some(OPERATOR)),
        (&host.admin, Some(ADMIN)),
        (&host.admin, None),
    ] {
        for change in steering() {
            reset(&host).await;
            let write = Write {
                verb: "PATCH",
                kind: MERGE,
                path: format!("/api/v1/nodes/{}", host.name),
                body: change,
            };
            let (code, said) = send(client, &write, who).await;
            assert_eq!(code, 200, "{who:?} {write:?}: {said}");
        }
    }
}

#[tokio::test]
async fn i14_no_kubelet_is_kept_from_its_status_and_no_controller_from_deleting_a_node() {
    let host = scene().await;
    let nodes: Api<Node> = Api::all(host.admin.clone());
    let status = |name: &str| Write {
        verb: "PATCH",
        kind: STRATEGIC,
        path: format!("/api/v1/nodes/{name}/status"),
        body: json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}}),
    };
    // With every mark; with none, and no labels or annotations at all.
    let (code, said) = send(&host.clients.node, &status(&host.name), None).await;
    assert_eq!(code, 200, "{said}");
    let bare = json!([{"op": "remove", "path": "/metadata/labels"}, {"op": "remove", "path": "/metadata/annotations"}]);
    let bare = Write {
        verb: "PATCH",
        kind: PATCH,
        path: format!("/api/v1/nodes/{}", host.name),
        body: bare,
    };
    assert_eq!(send(&host.admin, &bare, None).await.0, 200);
    let (code, said) = send(&host.clients.node, &status(&host.name), None).await;
    assert_eq!(code, 200, "{said}");
    // The kubelet's own identity sets a mark where there were no annotations.
    let more = json!({"metadata": {"annotations": {"kube-rebootd/reboot": "me"}}});
    let own = Write {
        verb: "PATCH",
        kind: MERGE,
        path: format!("/api/v1/nodes/{}", host.name),
        body: more,
    };
    assert_eq!(send(&host.clients.node, &own, None).await.0, 200);
    // A Node with far more labels than any has in life: its kubelet goes on writing, and the marks are
    // protected even in the very request that makes it so large.
    let mut labels = serde_json::Map::new();
    for number in 0..10_000 {
        labels.insert(format!("a{number}"), json!(""));
    }
    let large = |marks: Value| {
        let mut body = json!({"metadata": {"labels": labels}});
        merge(&mut body, &marks);
        Write {
            verb: "PATCH",
            kind: MERGE,
            path: format!("/api/v1/nodes/{}/status", host.name),
            body,
        }
    };
    let asks = json!({"metadata": {"annotations": {"kube-rebootd/paused": "by it"}}});
    let (code, said) = send(&host.admin, &large(asks.clone()), Some(PLUGIN)).await;
    assert!(code == 422 && said.contains(POLICY), "{code} {said}");
    let (code, said) = send(&host.admin, &large(json!({})), Some(PLUGIN)).await;
    assert_eq!(code, 200, "{said}");
    let (code, said) = send(&host.clients.node, &status(&host.name), None).await;
    assert_eq!(code, 200, "{said}");
    let small = Write {
        path: format!("/api/v1/nodes/{}/status", host.name),
        body: asks,
        ..own.clone()
    };
    let (code, said) = send(&host.admin, &small, Some(PLUGIN)).await;
    assert!(code == 422 && said.contains(POLICY), "{code} {said}");

    // The node lifecycle controller deletes a Node with marks.
    reset(&host).await;
    let delete = Write {
        verb: "DELETE",
        kind: JSON,
        path: format!("/api/v1/nodes/{}", host.name),
        body: json!({}),
    };
    let (code, said) = send(&host.admin, &delete, Some(PLUGIN)).await;
    assert_eq!(code, 200, "{said}");
    // Its kubelet registers it with a mark (--node-labels); nobody else makes one so.
    let marked = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name,
            "labels": {"kube-rebootd/slot": "held"}}})
    };
    let create = |body: Value| Write {
        verb: "POST",
        kind: JSON,
        path: "/api/v1/nodes".to_owned(),
        body,
    };
    let (code, said) = send(&host.admin, &create(marked(&host.name)), Some(PLUGIN)).await;
    assert!(code == 422 && said.contains(POLICY), "{code} {said}");
    let (code, said) = send(&host.clients.node, &create(marked(&host.name)), None).await;
    assert_eq!(code, 201, "{said}");
    let mut nameless = marked("");
    nameless["metadata"] = json!({"generateName": "marks-", "labels": {"kube-rebootd/slot": "x"}});
    let (code, said) = send(&host.admin, &create(nameless), Some(PLUGIN)).await;
    assert!(code == 422 && said.contains(POLICY), "{code} {said}");
    nodes
        .delete(&host.name, &DeleteParams::default())
        .await
        .expect("deleted");
    // A Node without marks is made by whoever may make Nodes.
    make_node(&host.admin, &host.name).await;
    let plain = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"generateName": "marks-"}});
    let (code, said) = send(&host.admin, &create(plain), Some(PLUGIN)).await;
    assert_eq!(code, 201, "{said}");
}
