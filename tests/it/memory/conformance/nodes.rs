//! The own Node: cordon, label and release beside the writes of others.

use serde_json::{Value, json};

use super::super::{ANNOTATIONS, annotated};
use super::side::How::{Apply, Delete, Force, Get, Merge, Post, Strategic};
use super::side::Who::{Admin, Node};
use super::side::{NODE, Side, both, rows};

const OURS: &str = "kube-rebootd";

async fn get(side: &mut Side, path: &str) -> Value {
    side.get("", Admin, path).await
}

/// Everything of a hold.
fn full(side: &Side, node: &Value) -> Value {
    json!({"metadata": {"name": side.name(0), "uid": node["metadata"]["uid"],
        "labels": {"kube-rebootd/slot": "conf"}, "annotations": {"kube-rebootd/state": "{}"}},
        "spec": {"unschedulable": true}})
}

/// Nothing of a hold.
fn none(side: &Side, node: &Value) -> Value {
    json!({"metadata": {"name": side.name(0), "uid": node["metadata"]["uid"]}, "spec": {}})
}

fn at(node: &Value, mut body: Value) -> Value {
    body["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"].clone();
    body
}

#[tokio::test]
async fn the_own_node_answers_as_a_real_server() {
    both(2, async |side| {
        let path = format!("{NODE}/{}", side.name(0));
        let node = get(side, &path).await;
        let me = Node(0);
        let (set, nothing) = (full(side, &node), none(side, &node));
        let part = json!({"metadata": {"name": side.name(0), "labels": {"kube-rebootd/slot": "conf"}}, "spec": {}});
        let theirs = format!("{NODE}/{}", side.name(1));
        rows! { side:
            "dry run", me, Force(OURS), format!("{path}?dryRun=All"), set;
            "all of ours", me, Force(OURS), path, at(&node, set.clone());
            "again", me, Force(OURS), path, set;
            "an old version", me, Force(OURS), path, at(&node, set.clone());
            "a part", me, Force(OURS), path, part;
            "nothing", me, Force(OURS), path, nothing;
            "nothing again", me, Force(OURS), path, nothing;
        }
        let there = get(side, &theirs).await;
        let mut other = full(side, &there);
        other["metadata"]["name"] = json!(side.name(1));
        let taint = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
        let label = |key: &str| json!({"metadata": {"labels": {key: "x"}}});
        rows! { side:
            "another's", me, Force(OURS), theirs, other;
            "a taint", me, Merge(OURS), path, taint;
        }
        for key in ["a.b/c", "node.kubernetes.io/exclude-from-external-load-balancers",
            "node-role.kubernetes.io/worker", "node-restriction.kubernetes.io/a"] {
            side.ask(key, me, Merge(OURS), &path, &label(key)).await;
        }
        let condition = json!({"status": {"conditions": [{"type": "DrainInProgress", "status": "True"}]}});
        rows! { side:
            "a condition", me, Merge(OURS), format!("{path}/status"), condition;
            "a delete", me, Delete, path, json!(null);
        }
    })
    .await;
}

/// What the daemon tells of itself: by type, beside the kubelet's own conditions and those of others.
#[tokio::test]
async fn conditions_are_merged_by_type_as_on_a_real_server() {
    both(2, async |side| {
        let path = format!("{NODE}/{}", side.name(0));
        let (status, theirs) = (format!("{path}/status"), format!("{NODE}/{}/status", side.name(1)));
        let node = get(side, &path).await;
        let me = Node(0);
        let time = "2026-11-24T03:04:05Z";
        let one = |kind: &str, status: &str, message: &str| json!({"type": kind, "status": status,
            "reason": "Idle", "message": message, "lastHeartbeatTime": time, "lastTransitionTime": time});
        let told = |conditions: Value| json!({"metadata": {"uid": node["metadata"]["uid"]},
            "status": {"conditions": conditions}});
        let gone = |kind: &str| json!({"type": kind, "$patch": "delete"});
        rows! { side:
            "the kubelet's", Admin, Strategic("kubelet"), status,
                told(json!([one("MemoryPressure", "False", ""), one("Ready", "True", "")]));
            "the first of ours", me, Strategic(OURS), status, told(json!([one("RebootRequired", "False", "")]));
            "the same", me, Strategic(OURS), status, told(json!([one("RebootRequired", "False", "")]));
            "another word", me, Strategic(OURS), status, told(json!([one("RebootRequired", "True", "b")]));
            "one more", me, Strategic(OURS), status,
                told(json!([one("RebootRequired", "True", "c"), one("Drained", "True", "c")]));
            "the kubelet's again", Admin, Strategic("kubelet"), status,
                told(json!([one("Ready", "False", ""), one("DiskPressure", "False", "")]));
            "no word", me, Strategic(OURS), status, told(json!([one("Drained", "False", "")]));
            "of another Node", me, Strategic(OURS), theirs, told(json!([one("Drained", "False", "")]));
            "taken away", me, Strategic(OURS), status,
                told(json!([gone("RebootRequired"), gone("Drained")]));
            "again", me, Strategic(OURS), status, told(json!([gone("RebootRequired")]));
            "deleted", Admin, Delete, path, json!(null);
            "of no Node", me, Strategic(OURS), status, told(json!([one("Drained", "False", "")]));
            "made again", Admin, Post, NODE, json!({"metadata": {"name": side.name(0)}});
            "of the Node before", me, Strategic(OURS), status, told(json!([one("Drained", "False", "")]));
        }
    })
    .await;
}

#[tokio::test]
async fn cordons_of_others_are_as_on_a_real_server() {
    both(1, async |side| {
        let path = format!("{NODE}/{}", side.name(0));
        let node = get(side, &path).await;
        let me = Node(0);
        let (set, nothing) = (full(side, &node), none(side, &node));
        let cordon = |on: bool| json!({"spec": {"unschedulable": on}});
        rows! { side:
            "cordon", Admin, Merge("kubectl-cordon"), path, cordon(true);
            "ours too", me, Force(OURS), path, set;
            "ours no more", me, Force(OURS), path, nothing;
            "uncordon", Admin, Merge("kubectl-uncordon"), path, cordon(false);
            "ours", me, Force(OURS), path, set;
            "cordon of ours", Admin, Merge("kubectl-cordon"), path, cordon(true);
            "theirs unmoved", me, Force(OURS), path, nothing;
            "ours", me, Force(OURS), path, set;
        }
        let cordoned = get(side, &path).await;
        let mend = at(
            &cordoned,
            json!({"metadata": {"uid": node["metadata"]["uid"]}, "spec": {"unschedulable": null}}),
        );
        let name = side.name(0).to_owned();
        let git = |slot: &str, cordon: bool| {
            json!({"metadata": {"name": name, "labels": {"kube-rebootd/slot": slot}},
            "spec": {"unschedulable": cordon}})
        };
        rows! { side:
            "uncordon of ours", Admin, Merge("kubectl-uncordon"), path, cordon(false);
            "cordoned silently again, but", me, Force(OURS), path, at(&cordoned, set.clone());
            "a mend of an old version", me, Merge(OURS), path, mend;
            "without force", me, Apply(OURS), path, set;
            "gitops", Admin, Force("argocd"), path, git("theirs", false);
            "without force", me, Apply(OURS), path, set;
            "with force", me, Force(OURS), path, set;
            "nothing", me, Force(OURS), path, nothing;
            "ours", me, Force(OURS), path, set;
            "a dump of it", Admin, Force("argocd"), path, git("conf", true);
            "nothing", me, Force(OURS), path, nothing;
        }
    })
    .await;
}

#[tokio::test]
async fn wiped_managed_fields_are_as_on_a_real_server() {
    both(1, async |side| {
        let path = format!("{NODE}/{}", side.name(0));
        let node = get(side, &path).await;
        let me = Node(0);
        let (set, nothing) = (full(side, &node), none(side, &node));
        let wipe = json!({"metadata": {"managedFields": [{}]}});
        rows! { side:
            "ours", me, Force(OURS), path, set;
            "wiped", Admin, Merge("restore"), path, wipe;
            "nothing", me, Force(OURS), path, nothing;
        }
        let left = get(side, &path).await;
        let mend = json!({"metadata": {"uid": left["metadata"]["uid"],
            "labels": {"kube-rebootd/slot": null}, "annotations": {"kube-rebootd/state": null}},
            "spec": {"unschedulable": null}});
        let cordon = json!({"spec": {"unschedulable": true}});
        rows! { side:
            "mended", me, Merge(OURS), path, at(&left, mend);
            "wiped", Admin, Merge("restore"), path, wipe;
            "an untracked cordon", Admin, Merge("kubectl-cordon"), path, cordon;
            "ours", me, Force(OURS), path, set;
            "nothing", me, Force(OURS), path, nothing;
        }
    })
    .await;
}

/// All annotations of a Node share one bound, and whoever may write its status may fill them.
#[tokio::test]
async fn full_annotations_are_as_on_a_real_server() {
    both(1, async |side| {
        let path = format!("{NODE}/{}", side.name(0));
        let node = get(side, &path).await;
        let me = Node(0);
        let mut set = full(side, &node);
        let held = side.ask("", me, Force(OURS), &path, &set).await;
        let room = ANNOTATIONS - annotated(&held) - "filler".len();
        let fill =
            |bytes: usize| json!({"metadata": {"annotations": {"filler": "x".repeat(bytes)}}});
        let status = format!("{path}/status");
        side.ask(
            "one byte too many",
            Admin,
            Merge("other"),
            &status,
            &fill(room + 1),
        )
        .await;
        let filled = side
            .ask("", Admin, Merge("other"), &status, &fill(room))
            .await;
        assert_eq!(annotated(&filled), ANNOTATIONS, "{:?}", filled["message"]);
        set["metadata"]["annotations"]["kube-rebootd/state"] = json!("{ }");
        side.ask("a longer record", me, Force(OURS), &path, &set)
            .await;
        set["metadata"]["annotations"] = json!({});
        let uncordoned = side.ask("", me, Force(OURS), &path, &set).await;
        assert!(uncordoned["kind"] == "Node", "{}", uncordoned["message"]);
        let empty = json!({"metadata": {"annotations": {"filler": null}}});
        rows! { side:
            "without a record", Admin, Merge("other"), status, empty;
            "with one", me, Force(OURS), path, full(side, &node);
        }
    })
    .await;
}

#[tokio::test]
async fn a_release_without_a_spec_is_as_on_a_real_server() {
    both(1, async |side| {
        let path = format!("{NODE}/{}", side.name(0));
        let node = get(side, &path).await;
        let me = Node(0);
        let without = json!({"metadata": {"name": side.name(0)}});
        rows! { side:
            "ours", me, Force(OURS), path, full(side, &node);
            "no spec", me, Force(OURS), path, without;
            "an empty one", me, Force(OURS), path, none(side, &node);
            "no spec now", me, Force(OURS), path, without;
        }
    })
    .await;
}

#[tokio::test]
async fn a_deleted_or_replaced_node_is_as_on_a_real_server() {
    both(1, async |side| {
        let path = format!("{NODE}/{}", side.name(0));
        let node = get(side, &path).await;
        let me = Node(0);
        let set = full(side, &node);
        let mend =
            json!({"metadata": {"uid": node["metadata"]["uid"]}, "spec": {"unschedulable": null}});
        let mut nameless = set.clone();
        nameless["metadata"].as_object_mut().unwrap().remove("uid");
        rows! { side:
            "deleted", Admin, Delete, path, json!(null);
            "ours on nothing", me, Force(OURS), path, set;
            "with a version", me, Force(OURS), path, at(&node, set.clone());
            "a mend of nothing", me, Merge(OURS), path, mend;
            "gone", me, Get, path, json!(null);
            "made again", Admin, Post, NODE, json!({"metadata": {"name": side.name(0)}});
            "ours on the next", me, Force(OURS), path, set;
            "with the old version", me, Force(OURS), path, at(&node, set.clone());
            "a mend of the next", me, Merge(OURS), path, mend;
            "deleted", Admin, Delete, path, json!(null);
            "back to life without a uid", me, Force(OURS), path, nameless;
        }
    })
    .await;
}

/// The role of nodes allows those of core/v1 in every release.
#[tokio::test]
async fn events_about_the_own_node_answer_as_a_real_server() {
    both(1, async |side| {
        let all = "/api/v1/namespaces/default/events";
        let name = format!("{}.1", side.name(0));
        let event = json!({"metadata": {"name": name, "namespace": "default"}, "reason": "Idle",
            "involvedObject": {"kind": "Node", "name": side.name(0)}, "count": 1,
            "source": {"component": OURS}});
        let one = format!("{all}/{name}");
        let count = |count: u32| json!({"count": count});
        rows! { side:
            "an Event", Node(0), Post, all, event;
            "the same", Node(0), Post, all, event;
            "again", Node(0), Merge(OURS), one, count(2);
            "none", Node(0), Merge(OURS), format!("{all}/none"), count(2);
        }
        let about = |node: &str| format!("{all}?fieldSelector=involvedObject.kind%3DNode%2CinvolvedObject.name%3D{node}%2Csource%3Dkube-rebootd");
        let (own, none) = (about(side.name(0)), about("none"));
        side.get("those of the Node", Admin, &own).await;
        side.get("those of no Node", Admin, &none).await;
        side.get("those of the Node as the node", Node(0), &own).await;
    })
    .await;
}
