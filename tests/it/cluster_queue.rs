//! What a queue asks a real API server: how many Nodes are down, when the last hold ended, and whether a
//! holder is gone for good (I5, I8).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube_rebootd::cluster::lease::{Leases, Took, stored};
use kube_rebootd::cluster::peers;
use kube_rebootd_core::budget::{MaxUnavailable, used_up};
use kube_rebootd_core::names;
use kube_rebootd_core::slot::{GiveUp, Lease, Take};
use kube_rebootd_core::stale::{Found, Held, Look};
use serde_json::{Value, json};

use crate::plane::{Host, enter, make_node, make_slot};

const AT: Duration = Duration::from_secs(1);

fn leases(host: &Host) -> Leases {
    Leases::new(host.clients.coordinator.clone(), "kube-rebootd", &host.name)
}

async fn get(host: &Host, name: &str) -> Lease {
    let lease = leases(host).get(name, AT).await.expect("read");
    lease.expect("there")
}

async fn take(host: &Host, name: &str) {
    let lease = get(host, name).await;
    let since = stored(Timestamp::now());
    let take = Take::of(&lease, "kube-rebootd", since, false);
    let took = leases(host).take(&take, AT).await;
    assert!(matches!(took, Took::Ours(_)), "{took:?}");
}

fn given_up(lease: &Lease, last_hold: &str) -> GiveUp {
    GiveUp {
        lease: lease.name.clone(),
        resource_version: lease.resource_version.clone(),
        next: vec!["n7".to_owned()],
        last_hold: last_hold.to_owned(),
    }
}

/// The cells Status of the Table as the API server sends it, by name.
async fn statuses(host: &Host) -> Vec<(String, String)> {
    let request = http::Request::get("/api/v1/nodes?includeObject=None")
        .header("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
        .body(Vec::new())
        .expect("a request");
    let table: Value = host
        .clients
        .coordinator
        .request(request)
        .await
        .expect("a table");
    assert_eq!(table["kind"], "Table");
    let rows = table["rows"].as_array().expect("rows");
    let text = |cell: &Value| cell.as_str().expect("a string").to_owned();
    rows.iter()
        .map(|row| {
            assert!(row["object"].is_null(), "no object was asked for: {row}");
            (text(&row["cells"][0]), text(&row["cells"][1]))
        })
        .collect()
}

#[tokio::test]
async fn i8_nodes_that_are_not_ready_are_counted_from_a_table() {
    let host = enter().host().await;
    let nodes: Api<Node> = Api::all(host.admin.clone());
    let params = PatchParams::default();
    // None is Ready and schedulable at any moment: another test counts on that.
    for (name, ready, cordoned, status) in [
        ("table-on", Some("True"), true, "Ready,SchedulingDisabled"),
        ("table-off", Some("False"), false, "NotReady"),
        ("table-silent", Some("Unknown"), false, "NotReady"),
        (
            "table-out",
            Some("False"),
            true,
            "NotReady,SchedulingDisabled",
        ),
        ("table-new", None, false, "Unknown"),
        ("table-held", Some("False"), false, "NotReady"),
    ] {
        make_node(&host.admin, name).await;
        let cordon = json!({"spec": {"unschedulable": cordoned}});
        nodes
            .patch(name, &params, &Patch::Merge(cordon))
            .await
            .expect("cordoned");
        if let Some(ready) = ready {
            let body = json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
            let done = nodes.patch_status(name, &params, &Patch::Merge(body)).await;
            done.expect("a status");
        }
        let all = statuses(&host).await;
        let row = all.iter().find(|(row, _)| row == name).expect("a row");
        assert_eq!(row.1, status, "{name}");
    }
    // Of a Lease that exists: a label without one would keep every daemon of the plane from taking.
    make_slot(&host.admin, "elsewhere", "elsewhere").await;
    let label = json!({"metadata": {"labels": {(names::SLOT): "elsewhere"}}});
    nodes
        .patch("table-held", &params, &Patch::Merge(label))
        .await
        .expect("labelled");

    let question = host.others(false, AT);
    let (seen, _) = question.list(|_| true).await.expect("a list");
    let census = seen.census.clone().expect("counted");
    let (uncounted, _) = question.list(|_| false).await.expect("a list");
    assert!(
        !uncounted.counted && uncounted.census.is_err(),
        "the labels decided"
    );
    let down = |name: &str| census.down.iter().any(|down| down == name);
    for name in [
        "table-off",
        "table-silent",
        "table-out",
        "table-new",
        "table-held",
    ] {
        assert!(down(name), "{name} is not Ready: {census:?}");
    }
    assert!(!down("table-on"), "{census:?}");
    assert!(!down(&host.name), "the own Node is no other: {census:?}");
    assert!(census.nodes > census.down.len(), "the own one is counted");

    // What is down by a hold does not count; other tests have Nodes that are down too.
    let held = census
        .down
        .iter()
        .filter(|name| seen.labelled.iter().any(|peer| peer.node == **name));
    let others = u32::try_from(census.down.len() - held.count()).expect("a number");
    assert!(used_up(&seen, MaxUnavailable::Number(others), false).is_some());
    assert_eq!(
        used_up(&seen, MaxUnavailable::Number(others + 1), false),
        None
    );

    // The node's own identity may not list Nodes: that closes the budget, it is no error to wait for.
    let refused = peers::census(&host.clients.node, &host.name)
        .await
        .expect_err("refused");
    assert!(
        !refused.unanswered() && refused.to_string().contains("count Nodes"),
        "{refused}"
    );
}

/// What a person does when a host is off for good.
async fn taint(admin: &kube::Client, name: &str) {
    let nodes: Api<Node> = Api::all(admin.clone());
    let taint =
        json!({"key": names::OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"});
    let patch = Patch::Merge(json!({"spec": {"taints": [taint]}}));
    nodes
        .patch(name, &PatchParams::default(), &patch)
        .await
        .expect("tainted");
}

/// What its kubelet says of a Node.
async fn ready(node: &kube::Client, name: &str, status: &str) {
    let nodes: Api<Node> = Api::all(node.clone());
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(ready))
        .await
        .expect("a status");
}

#[tokio::test]
async fn i5_a_waiter_clears_the_slot_of_a_node_that_is_gone_and_no_other() {
    let plane = enter();
    let (holder, waiter) = (plane.host().await, plane.host().await);
    make_slot(&waiter.admin, "gone", "gone").await;
    take(&holder, "gone").await;
    let there = async |name: &str| {
        let coordinator = &waiter.clients.coordinator;
        peers::find(coordinator, name).await.expect("an answer")
    };
    assert_eq!(there(&holder.name).await, Found::Present);
    taint(&waiter.admin, &holder.name).await;
    assert_eq!(there(&holder.name).await, Found::OutOfService);
    // As for Kubernetes itself, the taint says nothing on a Node that is Ready: whoever may taint Nodes frees no slot
    // of a node that lives (I14).
    ready(&holder.clients.node, &holder.name, "True").await;
    assert_eq!(there(&holder.name).await, Found::Present);
    ready(&holder.clients.node, &holder.name, "False").await;
    assert_eq!(there(&holder.name).await, Found::OutOfService);
    // A kubelet may not say so of itself, nor take it back.
    let own: Api<Node> = Api::all(holder.clients.node.clone());
    let back = Patch::Merge(json!({"spec": {"taints": []}}));
    let refused = own
        .patch(&holder.name, &PatchParams::default().dry_run(), &back)
        .await;
    let words = refused.map(drop).expect_err("refused").to_string();
    assert!(words.contains("not allowed to modify taints"), "{words}");
    let nodes: Api<Node> = Api::all(waiter.admin.clone());
    nodes
        .delete(&holder.name, &DeleteParams::default())
        .await
        .expect("deleted");
    for name in [
        holder.name.as_str(),
        "never-was",
        "no/name",
        "No Name",
        "",
        "..",
    ] {
        assert_eq!(there(name).await, Found::Absent, "{name:?}");
    }
    // A waiter may not ask as itself: no answer is not an absence.
    let node = peers::find(&waiter.clients.node, &holder.name).await;
    assert!(node.is_err(), "{node:?}");

    let seen = get(&waiter, "gone").await;
    let look = Look::next(
        None,
        Held::of(&seen).expect("held"),
        AT,
        Some(Found::Absent),
    );
    assert_eq!(look.held.holder, holder.name);
    assert!(look.ripe(Duration::ZERO));
    // The Lease was touched since it was looked at: nothing is cleared.
    let touch = json!({"metadata": {"annotations": {"a": "b"}}});
    let api: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(waiter.admin.clone(), "kube-rebootd");
    api.patch("gone", &PatchParams::default(), &Patch::Merge(touch))
        .await
        .expect("touched");
    let old = leases(&waiter).give_up(&given_up(&seen, "old"), AT).await;
    assert!(old.is_err(), "{old:?}");
    let now = get(&waiter, "gone").await;
    assert_eq!(now.holder.as_ref(), Some(&holder.name));
    // The shipped policy and roles let a waiter do it.
    let freed = leases(&waiter)
        .give_up(&given_up(&now, "cleared"), AT)
        .await
        .expect("cleared");
    assert_eq!((freed.holder, freed.acquire_time), (None, None));
    assert_eq!(freed.last_hold.as_deref(), Some("cleared"));
    take(&waiter, "gone").await;
}

#[tokio::test]
async fn i5_the_end_of_each_hold_is_seen_on_the_own_clock() {
    let plane = enter();
    let (one, two) = (plane.host().await, plane.host().await);
    make_slot(&one.admin, "ends", "ends").await;
    let at = |seconds| Duration::from_secs(seconds);
    let mut seen = get(&two, "ends").await.follow(None, at(10));
    assert_eq!((seen.last_hold.clone(), seen.last_seen), (None, None));
    for (round, begin) in [(1, 20), (2, 40)] {
        take(&one, "ends").await;
        seen = get(&two, "ends").await.follow(Some(&seen), at(begin));
        assert_eq!(seen.held, Some(at(begin)));
        let before = seen.last_seen;
        let again = get(&two, "ends").await.follow(Some(&seen), at(begin + 1));
        assert_eq!((again.held, again.last_seen), (Some(at(begin)), before));
        let give_up = given_up(&get(&one, "ends").await, &format!("round {round}"));
        leases(&one).give_up(&give_up, AT).await.expect("given up");
        seen = get(&two, "ends").await.follow(Some(&seen), at(begin + 10));
        assert_eq!((seen.held, seen.last_seen), (None, Some(at(begin + 10))));
        assert_eq!(seen.freed, Some(at(begin + 10)));
    }
    // At first sight it counts from then, however long ago it was.
    let first = get(&one, "ends").await.follow(None, at(99));
    assert_eq!(first.last_seen, Some(at(99)));
}
