//! Attempts on slots: who holds them, their records, the objects themselves.

use serde_json::{Value, json};

use super::As::{Coordinator, Itself};
use super::Harm::Others;
use super::{Attempt, LEASES, MERGE, PATCH, annotations, apply, delete, patch, post, slot};
use crate::memory::merge;

pub(super) fn holders(me: &str, other: &str) -> Vec<Attempt> {
    let holder = |name: Value| json!({"spec": {"holderIdentity": name}});
    let remove = json!([{"op": "remove", "path": "/spec/holderIdentity"}]);
    let held = format!("{LEASES}/held");
    vec![
        patch(
            Others,
            "empty another's slot without acting as the coordinator",
            Itself,
            MERGE,
            &held,
            holder(Value::Null),
        ),
        slot(Others, "empty another's slot", "held", holder(Value::Null)),
        slot(
            Others,
            "empty another's slot by an empty name",
            "held",
            holder(json!("")),
        ),
        patch(
            Others,
            "empty another's slot by a JSON patch",
            Coordinator,
            PATCH,
            &held,
            remove,
        ),
        apply(
            Others,
            "empty another's slot as that node's field manager",
            "held",
            other,
            &json!({}),
        ),
        slot(
            Others,
            "put its own name over another's",
            "held",
            holder(json!(me)),
        ),
        apply(
            Others,
            "put its own name over another's by force",
            "held",
            me,
            &holder(json!(me)),
        ),
        slot(
            Others,
            "pass its own slot to another",
            "own",
            holder(json!(other)),
        ),
        slot(
            Others,
            "put another's name into a free slot",
            "free",
            holder(json!(other)),
        ),
        slot(
            Others,
            "put a name that no node has into a free slot",
            "free",
            holder(json!("ghost")),
        ),
        slot(
            Others,
            "change since when another holds",
            "held",
            json!({"spec": {"acquireTime": "1970-01-01T00:00:00.000000Z"}}),
        ),
        slot(
            Others,
            "change a free slot's other fields",
            "free",
            json!({"spec": {"leaseTransitions": 7}}),
        ),
    ]
}

pub(super) fn records(other: &str) -> Vec<Attempt> {
    vec![
        slot(
            Others,
            "open a slot that an admin paused",
            "shut",
            annotations("kube-rebootd/paused", Value::Null),
        ),
        slot(
            Others,
            "give another reason for an admin's pause",
            "shut",
            annotations("kube-rebootd/paused", "x"),
        ),
        slot(
            Others,
            "say who is next on another's slot",
            "held",
            annotations("kube-rebootd/next", other),
        ),
        slot(
            Others,
            "say who is next on a free slot",
            "free",
            annotations("kube-rebootd/next", other),
        ),
        slot(
            Others,
            "change when a free slot was last held",
            "free",
            annotations("kube-rebootd/last-hold", "x"),
        ),
        slot(
            Others,
            "change the role of another's hold",
            "held",
            annotations("kube-rebootd/role", "worker"),
        ),
        slot(
            Others,
            "pause an open slot with 100 kB of a reason",
            "free",
            annotations("kube-rebootd/paused", "x".repeat(100_000)),
        ),
        slot(
            Others,
            "leave 100 kB of hints on its own slot",
            "own",
            annotations("kube-rebootd/next", "x".repeat(100_000)),
        ),
        slot(
            Others,
            "leave annotations of its own on a slot",
            "own",
            annotations("evil", "x"),
        ),
    ]
}

pub(super) fn objects(me: &str, other: &str) -> Vec<Attempt> {
    let label = |key: &str, value: &str| json!({"metadata": {"labels": {(key): value}}});
    let owner = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Node", "name": other, "uid": "0"}]}});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata":
        {"name": "more", "labels": {"kube-rebootd/group": "g"}}});
    let mut put = post(
        Others,
        "replace its own slot's object",
        Coordinator,
        &format!("{LEASES}/own"),
        lease.clone(),
    );
    put.verb = "PUT";
    put.body["metadata"]["name"] = json!("own");
    vec![
        put,
        slot(
            Others,
            "move a slot to another group",
            "free",
            label("kube-rebootd/group", "evil"),
        ),
        slot(
            Others,
            "raise a slot's protocol",
            "free",
            label("kube-rebootd/protocol", "9"),
        ),
        slot(
            Others,
            "give a slot a finalizer",
            "free",
            json!({"metadata": {"finalizers": ["evil/x"]}}),
        ),
        slot(Others, "give a slot an owner", "free", owner),
        delete(
            Others,
            "delete another's slot",
            Coordinator,
            &format!("{LEASES}/held"),
        ),
        delete(
            Others,
            "delete its own slot",
            Coordinator,
            &format!("{LEASES}/own"),
        ),
        delete(Others, "delete all slots", Coordinator, LEASES),
        delete(
            Others,
            "delete a slot without acting as the coordinator",
            Itself,
            &format!("{LEASES}/held"),
        ),
        post(Others, "make one more slot", Coordinator, LEASES, lease),
        apply(
            Others,
            "make one more slot by apply",
            "more",
            me,
            &label("kube-rebootd/group", "g"),
        ),
    ]
}

pub(super) fn missing_default(me: &str) -> Vec<Attempt> {
    let made = |what, body: Value| {
        let mut object = json!({"metadata": {"labels": {"kube-rebootd/group": "default", "kube-rebootd/protocol": "1"},
            "annotations": {"kube-rebootd/paused": "new"}}});
        merge(&mut object, &body);
        apply(Others, what, "default", "kube-rebootd-setup", &object)
    };
    let meta = |body: Value| json!({"metadata": body});
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": me, "uid": "0"}]);
    vec![
        made(
            "make the missing slot `default`, held",
            json!({"spec": {"holderIdentity": me}}),
        ),
        made(
            "make it for another group",
            meta(json!({"labels": {"kube-rebootd/group": "g"}})),
        ),
        made("make it open", meta(json!({"annotations": null}))),
        made(
            "make it of a higher protocol",
            meta(json!({"labels": {"kube-rebootd/protocol": "9"}})),
        ),
        made(
            "make it with labels of its own",
            meta(json!({"labels": {"evil": "x"}})),
        ),
        made(
            "make it with annotations of its own",
            meta(json!({"annotations": {"evil": "x"}})),
        ),
        made(
            "make it with 100 kB of a reason for the pause",
            meta(json!({"annotations": {"kube-rebootd/paused": "x".repeat(100_000)}})),
        ),
        made(
            "make it with a finalizer",
            meta(json!({"finalizers": ["evil/x"]})),
        ),
        made(
            "make it with an owner",
            meta(json!({"ownerReferences": owner})),
        ),
    ]
}
