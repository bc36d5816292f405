//! What a hostile node tries: every write to Leases, Nodes, pods and rights that it could think of.

mod beyond;
mod slots;

use serde_json::{Value, json};

/// As whom the request is sent, by the node's own credential.
#[derive(Debug, Clone, Copy)]
pub(super) enum As {
    /// The node's identity as it is.
    Itself,
    /// As the coordinator, in each way of saying which node it is.
    Coordinator,
    /// With these impersonation headers.
    Somebody(&'static [(&'static str, &'static str)]),
}

/// What it would do to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Harm {
    /// What the daemon on that node needs.
    Needed,
    /// Reboots stop, come in another order, or something untrue is said; nobody goes down by it.
    Stops,
    /// Another node's hold, or a decision of an admin.
    Others,
    /// What an admin came to grant to `ServiceAccounts` in general.
    Granted,
    /// What has nothing to do with slots.
    Outside,
}

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) what: &'static str,
    pub(super) harm: Harm,
    pub(super) who: As,
    pub(super) verb: &'static str,
    /// Content type; empty without a body.
    pub(super) kind: &'static str,
    pub(super) path: String,
    pub(super) body: Value,
}

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-rebootd/leases";
const BEATS: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const NODES: &str = "/api/v1/nodes";
const SETS: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets";
const MERGE: &str = "application/merge-patch+json";
const PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

use As::{Coordinator, Itself};
use Harm::{Needed, Stops};

fn get(harm: Harm, what: &'static str, who: As, path: &str) -> Attempt {
    Attempt {
        what,
        harm,
        who,
        verb: "GET",
        kind: "",
        path: path.to_owned(),
        body: Value::Null,
    }
}

fn delete(harm: Harm, what: &'static str, who: As, path: &str) -> Attempt {
    Attempt {
        verb: "DELETE",
        ..get(harm, what, who, path)
    }
}

fn post(harm: Harm, what: &'static str, who: As, path: &str, body: Value) -> Attempt {
    Attempt {
        verb: "POST",
        kind: JSON,
        body,
        ..get(harm, what, who, path)
    }
}

fn patch(
    harm: Harm,
    what: &'static str,
    who: As,
    kind: &'static str,
    path: &str,
    body: Value,
) -> Attempt {
    Attempt {
        verb: "PATCH",
        kind,
        body,
        ..get(harm, what, who, path)
    }
}

/// A merge patch of a slot as the coordinator.
fn slot(harm: Harm, what: &'static str, name: &str, body: Value) -> Attempt {
    let path = format!("{LEASES}/{name}");
    patch(harm, what, Coordinator, MERGE, &path, body)
}

/// An apply of a slot as the coordinator, with force.
fn apply(harm: Harm, what: &'static str, name: &str, manager: &str, body: &Value) -> Attempt {
    let path = format!("{LEASES}/{name}?fieldManager={manager}&force=true");
    let mut object = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name}});
    for (key, value) in body.as_object().expect("an object") {
        if key == "metadata" {
            for (key, value) in value.as_object().expect("an object") {
                object["metadata"][key] = value.clone();
            }
        } else {
            object[key] = value.clone();
        }
    }
    patch(harm, what, Coordinator, APPLY, &path, object)
}

fn annotations(key: &str, value: impl Into<Value>) -> Value {
    let value: Value = value.into();
    json!({"metadata": {"annotations": {(key): value}}})
}

/// `me` tries; `other` holds the slot `held`, `me` holds `own`, nobody `free`, and `shut` is paused.
pub(super) fn attempts(me: &str, other: &str) -> Vec<Attempt> {
    [
        needed(me),
        stops(me, other),
        slots::holders(me, other),
        slots::records(other),
        slots::objects(me, other),
        slots::missing_default(me),
        beyond::heartbeats(other),
        beyond::marks(me, other),
        beyond::nodes(me, other),
        beyond::pods(other),
        beyond::rights(me),
        beyond::somebody(other),
        beyond::granted(),
    ]
    .concat()
}

fn needed(me: &str) -> Vec<Attempt> {
    let own = format!("{NODES}/{me}");
    let paused = json!({"metadata": {"labels": {"kube-rebootd/group": "default", "kube-rebootd/protocol": "1"},
        "annotations": {"kube-rebootd/paused": "new"}}});
    let given_up = json!({"metadata": {"annotations": {"kube-rebootd/role": null,
        "kube-rebootd/next": "n7", "kube-rebootd/last-hold": "x"}},
        "spec": {"holderIdentity": null, "acquireTime": null}});
    let taken = json!({"metadata": {"annotations": {"kube-rebootd/role": "worker"}},
        "spec": {"holderIdentity": me, "acquireTime": "2026-11-21T10:00:00.000000Z"}});
    vec![
        get(Needed, "read the slots", Coordinator, LEASES),
        get(Needed, "read all Nodes", Coordinator, NODES),
        get(
            Needed,
            "read a DaemonSet by its name",
            Coordinator,
            &format!("{SETS}/proxy"),
        ),
        get(
            Needed,
            "read all heartbeats, to see who waits",
            Coordinator,
            BEATS,
        ),
        apply(
            Needed,
            "take a free slot in its own name",
            "free",
            me,
            &taken,
        ),
        slot(
            Needed,
            "give its own slot up, with hints and records",
            "own",
            given_up,
        ),
        apply(
            Needed,
            "make the missing slot `default`, free and paused",
            "default",
            "kube-rebootd-setup",
            &paused,
        ),
        patch(
            Needed,
            "cordon itself",
            Itself,
            MERGE,
            &own,
            json!({"spec": {"unschedulable": true}}),
        ),
    ]
}

fn stops(me: &str, other: &str) -> Vec<Attempt> {
    let label = |value: &str| json!({"metadata": {"labels": {"kube-rebootd/slot": value}}});
    let own = format!("{NODES}/{me}");
    let beat = format!("{BEATS}/{me}");
    let waits = json!({"metadata": {"labels": {"kube-rebootd/waiting": "g"},
        "annotations": {"kube-rebootd/since": "1970-01-01T00:00:00Z"}}});
    let role = json!({"metadata": {"labels": {"node.kubernetes.io/microk8s-controlplane": ""}}});
    let lie = json!({"metadata": {"generateName": "lie-"}, "reason": "Rebooted", "message": "fine", "type": "Normal",
        "involvedObject": {"kind": "Node", "name": other, "apiVersion": "v1"}});
    vec![
        slot(
            Stops,
            "take a second slot while it holds one",
            "free",
            json!({"spec": {"holderIdentity": me}}),
        ),
        slot(
            Stops,
            "pause an open slot",
            "free",
            annotations("kube-rebootd/paused", "x"),
        ),
        patch(
            Stops,
            "say on its own Node that it holds the slot of another",
            Itself,
            MERGE,
            &own,
            label("held"),
        ),
        patch(
            Stops,
            "say on its own Node that it holds a slot that does not exist",
            Itself,
            MERGE,
            &own,
            label("none"),
        ),
        patch(
            Stops,
            "call itself a control-plane node, as those of MicroK8s are called",
            Itself,
            MERGE,
            &own,
            role,
        ),
        patch(
            Stops,
            "say that it has waited since 1970",
            Itself,
            MERGE,
            &beat,
            waits,
        ),
        post(
            Stops,
            "say in an Event that another Node rebooted",
            Itself,
            "/api/v1/namespaces/default/events",
            lie,
        ),
    ]
}
