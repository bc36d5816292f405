//! The own Node: cordon, label and release beside the writes of others.

use serde_json::{Value, json};

use super::super::{ANNOTATIONS, annotated};
use super::side::{How, NODE, Side, Who, both};

const OURS: &str = "kube-rebootd";

async fn get(side: &mut Side, path: &str) -> Value {
    side.get("", Who::Admin, path).await
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
        let me = Who::Node(0);
        let (set, nothing) = (full(side, &node), none(side, &node));
        side.ask("dry run", me, How::Force(OURS), &format!("{path}?dryRun=All"), &set).await;
        side.ask("all of ours", me, How::Force(OURS), &path, &at(&node, set.clone())).await;
        side.ask("again", me, How::Force(OURS), &path, &set).await;
        side.ask("an old version", me, How::Force(OURS), &path, &at(&node, set.clone())).await;
        let part = json!({"metadata": {"name": side.name(0), "labels": {"kube-rebootd/slot": "conf"}}, "spec": {}});
        side.ask("a part", me, How::Force(OURS), &path, &part).await;
        side.ask("nothing", me, How::Force(OURS), &path, &nothing).await;
        side.ask("nothing again", me, How::Force(OURS), &path, &nothing).await;
        let theirs = format!("{NODE}/{}", side.name(1));
        let there = get(side, &theirs).await;
        let mut other = full(side, &there);
        other["metadata"]["name"] = json!(side.name(1));
        side.ask("another's", me, How::Force(OURS), &theirs, &other).await;
        let taint = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
        side.ask("a taint", me, How::Merge(OURS), &path, &taint).await;
        let label = |key: &str| json!({"metadata": {"labels": {key: "x"}}});
        for key in ["a.b/c", "node.kubernetes.io/exclude-from-external-load-balancers",
            "node-role.kubernetes.io/worker", "node-restriction.kubernetes.io/a"] {
            side.ask(key, me, How::Merge(OURS), &path, &label(key)).await;
        }
        let condition = json!({"status": {"conditions": [{"type": "DrainInProgress", "status": "True"}]}});
        side.ask("a condition", me, How::Merge(OURS), &format!("{path}/status"), &condition).await;
        side.ask("a delete", me, How::Delete, &path, &json!(null)).await;
    })
    .await;
}

#[tokio::test]
async fn cordons_of_others_are_as_on_a_real_server() {
    both(1, async |side| {
        let path = format!("{NODE}/{}", side.name(0));
        let node = get(side, &path).await;
        let me = Who::Node(0);
        let (set, nothing) = (full(side, &node), none(side, &node));
        let cordon = |on: bool| json!({"spec": {"unschedulable": on}});
        side.ask("cordon", Who::Admin, How::Merge("kubectl-cordon"), &path, &cordon(true)).await;
        side.ask("ours too", me, How::Force(OURS), &path, &set).await;
        side.ask("ours no more", me, How::Force(OURS), &path, &nothing).await;
        side.ask("uncordon", Who::Admin, How::Merge("kubectl-uncordon"), &path, &cordon(false)).await;
        side.ask("ours", me, How::Force(OURS), &path, &set).await;
        side.ask("cordon of ours", Who::Admin, How::Merge("kubectl-cordon"), &path, &cordon(true)).await;
        side.ask("theirs unmoved", me, How::Force(OURS), &path, &nothing).await;
        side.ask("ours", me, How::Force(OURS), &path, &set).await;
        let cordoned = get(side, &path).await;
        side.ask("uncordon of ours", Who::Admin, How::Merge("kubectl-uncordon"), &path, &cordon(false)).await;
        side.ask("cordoned silently again, but", me, How::Force(OURS), &path, &at(&cordoned, set.clone())).await;
        let mend = json!({"metadata": {"uid": node["metadata"]["uid"],
            "resourceVersion": cordoned["metadata"]["resourceVersion"]}, "spec": {"unschedulable": null}});
        side.ask("a mend of an old version", me, How::Merge(OURS), &path, &mend).await;
        side.ask("without force", me, How::Apply(OURS), &path, &set).await;
        let mut git = json!({"metadata": {"name": side.name(0), "labels": {"kube-rebootd/slot": "theirs"}},
            "spec": {"unschedulable": false}});
        side.ask("gitops", Who::Admin, How::Force("argocd"), &path, &git).await;
        side.ask("without force", me, How::Apply(OURS), &path, &set).await;
        side.ask("with force", me, How::Force(OURS), &path, &set).await;
        side.ask("nothing", me, How::Force(OURS), &path, &nothing).await;
        git["spec"]["unschedulable"] = json!(true);
        git["metadata"]["labels"]["kube-rebootd/slot"] = json!("conf");
        side.ask("ours", me, How::Force(OURS), &path, &set).await;
        side.ask("a dump of it", Who::Admin, How::Force("argocd"), &path, &git).await;
        side.ask("nothing", me, How::Force(OURS), &path, &nothing).await;
    })
    .await;
}

#[tokio::test]
async fn wiped_managed_fields_are_as_on_a_real_server() {
    both(1, async |side| {
        let path = format!("{NODE}/{}", side.name(0));
        let node = get(side, &path).await;
        let me = Who::Node(0);
        let (set, nothing) = (full(side, &node), none(side, &node));
        let wipe = json!({"metadata": {"managedFields": [{}]}});
        side.ask("ours", me, How::Force(OURS), &path, &set).await;
        side.ask("wiped", Who::Admin, How::Merge("restore"), &path, &wipe)
            .await;
        side.ask("nothing", me, How::Force(OURS), &path, &nothing)
            .await;
        let left = get(side, &path).await;
        let mend = json!({"metadata": {"uid": left["metadata"]["uid"],
            "resourceVersion": left["metadata"]["resourceVersion"],
            "labels": {"kube-rebootd/slot": null}, "annotations": {"kube-rebootd/state": null}},
            "spec": {"unschedulable": null}});
        side.ask("mended", me, How::Merge(OURS), &path, &mend).await;
        side.ask("wiped", Who::Admin, How::Merge("restore"), &path, &wipe)
            .await;
        let cordon = json!({"spec": {"unschedulable": true}});
        side.ask(
            "an untracked cordon",
            Who::Admin,
            How::Merge("kubectl-cordon"),
            &path,
            &cordon,
        )
        .await;
        side.ask("ours", me, How::Force(OURS), &path, &set).await;
        side.ask("nothing", me, How::Force(OURS), &path, &nothing)
            .await;
    })
    .await;
}

/// All annotations of a Node share one bound, and whoever may write its status may fill them.
#[tokio::test]
async fn full_annotations_are_as_on_a_real_server() {
    both(1, async |side| {
        let path = format!("{NODE}/{}", side.name(0));
        let node = get(side, &path).await;
        let me = Who::Node(0);
        let mut set = full(side, &node);
        let held = side.ask("", me, How::Force(OURS), &path, &set).await;
        let room = ANNOTATIONS - annotated(&held) - "filler".len();
        let fill =
            |bytes: usize| json!({"metadata": {"annotations": {"filler": "x".repeat(bytes)}}});
        let status = format!("{path}/status");
        side.ask(
            "one byte too many",
            Who::Admin,
            How::Merge("other"),
            &status,
            &fill(room + 1),
        )
        .await;
        let filled = side
            .ask("", Who::Admin, How::Merge("other"), &status, &fill(room))
            .await;
        assert_eq!(annotated(&filled), ANNOTATIONS, "{:?}", filled["message"]);
        set["metadata"]["annotations"]["kube-rebootd/state"] = json!("{ }");
        side.ask("a longer record", me, How::Force(OURS), &path, &set)
            .await;
        set["metadata"]["annotations"] = json!({});
        let uncordoned = side.ask("", me, How::Force(OURS), &path, &set).await;
        assert!(uncordoned["kind"] == "Node", "{}", uncordoned["message"]);
        let empty = json!({"metadata": {"annotations": {"filler": null}}});
        side.ask(
            "without a record",
            Who::Admin,
            How::Merge("other"),
            &status,
            &empty,
        )
        .await;
        side.ask("with one", me, How::Force(OURS), &path, &full(side, &node))
            .await;
    })
    .await;
}

#[tokio::test]
async fn a_release_without_a_spec_is_as_on_a_real_server() {
    both(1, async |side| {
        let path = format!("{NODE}/{}", side.name(0));
        let node = get(side, &path).await;
        let me = Who::Node(0);
        side.ask("ours", me, How::Force(OURS), &path, &full(side, &node))
            .await;
        let without = json!({"metadata": {"name": side.name(0)}});
        side.ask("no spec", me, How::Force(OURS), &path, &without)
            .await;
        side.ask(
            "an empty one",
            me,
            How::Force(OURS),
            &path,
            &none(side, &node),
        )
        .await;
        side.ask("no spec now", me, How::Force(OURS), &path, &without)
            .await;
    })
    .await;
}

#[tokio::test]
async fn a_deleted_or_replaced_node_is_as_on_a_real_server() {
    both(1, async |side| {
        let path = format!("{NODE}/{}", side.name(0));
        let node = get(side, &path).await;
        let me = Who::Node(0);
        let set = full(side, &node);
        side.ask("deleted", Who::Admin, How::Delete, &path, &json!(null))
            .await;
        side.ask("ours on nothing", me, How::Force(OURS), &path, &set)
            .await;
        side.ask(
            "with a version",
            me,
            How::Force(OURS),
            &path,
            &at(&node, set.clone()),
        )
        .await;
        let mend =
            json!({"metadata": {"uid": node["metadata"]["uid"]}, "spec": {"unschedulable": null}});
        side.ask("a mend of nothing", me, How::Merge(OURS), &path, &mend)
            .await;
        side.get("gone", me, &path).await;
        let again = json!({"metadata": {"name": side.name(0)}});
        side.ask("made again", Who::Admin, How::Post, NODE, &again)
            .await;
        side.ask("ours on the next", me, How::Force(OURS), &path, &set)
            .await;
        side.ask(
            "with the old version",
            me,
            How::Force(OURS),
            &path,
            &at(&node, set.clone()),
        )
        .await;
        side.ask("a mend of the next", me, How::Merge(OURS), &path, &mend)
            .await;
        let mut nameless = set.clone();
        nameless["metadata"].as_object_mut().unwrap().remove("uid");
        side.ask("deleted", Who::Admin, How::Delete, &path, &json!(null))
            .await;
        side.ask(
            "back to life without a uid",
            me,
            How::Force(OURS),
            &path,
            &nameless,
        )
        .await;
    })
    .await;
}
