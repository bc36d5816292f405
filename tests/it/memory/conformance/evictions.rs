//! Evictions, under every sort of budget.

use std::time::Duration;

use serde_json::{Value, json};

use super::side::How::{DeleteBy, Merge, Post};
use super::side::Who::{Admin, Node};
use super::side::{BUDGET, POD, Side, both};

/// A pod of host `host` with `app: <name>`.
async fn pod(side: &mut Side, name: &str, host: usize, ready: bool) -> Value {
    let body = json!({"metadata": {"name": name, "labels": {"app": name}},
        "spec": {"nodeName": side.name(host), "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "c", "image": "i"}]}});
    let made = side.ask("", Admin, Post, POD, &body).await;
    let status = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}});
    let path = format!("{POD}/{name}/status");
    side.ask("", Admin, Merge("kubelet"), &path, &status).await;
    made
}

/// A budget over `app: <pod>` with this status.
async fn budget(side: &mut Side, name: &str, pod: &str, allowed: u64, healthy: u64, spec: Value) {
    let mut body = json!({"metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": pod}}}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        body["spec"][key] = value.clone();
    }
    side.ask("", Admin, Post, BUDGET, &body).await;
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed,
        "currentHealthy": healthy, "desiredHealthy": 1, "expectedPods": 2}});
    let path = format!("{BUDGET}/{name}/status");
    side.ask("", Admin, Merge("c"), &path, &status).await;
}

/// Asks until the server's caches know the pod and its budget.
async fn evict(side: &mut Side, what: &str, pod: &str, uid: Option<&Value>, dry: bool) {
    let path = format!(
        "{POD}/{pod}/eviction{}",
        if dry { "?dryRun=All" } else { "" }
    );
    let mut body = json!({"metadata": {"name": pod, "namespace": "default"}});
    if let Some(uid) = uid {
        body["deleteOptions"] = json!({"preconditions": {"uid": uid}});
    }
    side.ask(what, Node(0), Post, &path, &body).await;
}

/// As `kube-rebootd explain` asks: a dry run by the query and by the body.
async fn said_twice(side: &mut Side, what: &str, pod: &str, uid: &Value) {
    let path = format!("{POD}/{pod}/eviction?dryRun=All");
    let body = json!({"metadata": {"name": pod, "namespace": "default"},
        "deleteOptions": {"preconditions": {"uid": uid}, "dryRun": ["All"]}});
    side.ask(what, Node(0), Post, &path, &body).await;
}

/// The real server's admission and budget caches lag: a dry run says when they have followed.
async fn settled(side: &mut Side, pod: &str, wanted: u64) {
    settled_by(side, 0, pod, wanted).await;
}

/// For a pod of this host.
async fn settled_by(side: &mut Side, host: usize, pod: &str, wanted: u64) {
    for _ in 0..200 {
        let body = json!({"metadata": {"name": pod, "namespace": "default"}});
        let path = format!("{POD}/{pod}/eviction?dryRun=All");
        let said = side.ask("", Node(host), Post, &path, &body).await;
        let code = said["code"].as_u64().unwrap_or(201);
        if code == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{pod} never answered {wanted}");
}

#[tokio::test]
async fn i9_evictions_answer_as_a_real_server() {
    both(2, async |side| {
        let free = pod(side, "conf-free", 0, true).await;
        settled(side, "conf-free", 201).await;
        let (wrong, right) = (
            json!("00000000-0000-0000-0000-000000000000"),
            free["metadata"]["uid"].clone(),
        );
        evict(side, "dry run", "conf-free", None, true).await;
        said_twice(side, "dry run, said twice", "conf-free", &right).await;
        said_twice(side, "dry run, another uid", "conf-free", &wrong).await;
        evict(side, "another uid", "conf-free", Some(&wrong), false).await;
        evict(side, "evicted", "conf-free", Some(&right), false).await;
        evict(side, "again", "conf-free", Some(&right), false).await;
        side.get("terminating", Admin, &format!("{POD}/conf-free"))
            .await;
        evict(side, "nothing there", "conf-none", None, false).await;
        pod(side, "conf-theirs", 1, true).await;
        evict(side, "another's", "conf-theirs", None, false).await;
    })
    .await;
}

#[tokio::test]
async fn i9_budgets_answer_as_a_real_server() {
    both(1, async |side| {
        let full = pod(side, "conf-full", 0, true).await;
        settled(side, "conf-full", 201).await;
        budget(side, "conf-full", "conf-full", 0, 1, json!({})).await;
        settled(side, "conf-full", 429).await;
        evict(side, "no disruption allowed", "conf-full", None, false).await;
        evict(side, "dry run of it", "conf-full", None, true).await;
        said_twice(
            side,
            "the same, said twice",
            "conf-full",
            &full["metadata"]["uid"],
        )
        .await;
        budget(side, "conf-second", "conf-full", 0, 1, json!({})).await;
        settled(side, "conf-full", 500).await;
        evict(side, "two budgets", "conf-full", None, false).await;

        let one = pod(side, "conf-one", 0, true).await;
        let uid = one["metadata"]["uid"].clone();
        settled(side, "conf-one", 201).await;
        budget(side, "conf-one", "conf-one", 1, 2, json!({})).await;
        settled(side, "conf-one", 201).await;
        evict(side, "one allowed, tried", "conf-one", Some(&uid), true).await;
        said_twice(side, "tried, said twice", "conf-one", &uid).await;
        side.get("the budget then", Admin, &format!("{BUDGET}/conf-one"))
            .await;
        let wrong = json!("00000000-0000-0000-0000-000000000000");
        let another = "one allowed, another uid";
        evict(side, another, "conf-one", Some(&wrong), false).await;
        evict(side, "used up all the same", "conf-one", Some(&uid), false).await;
        side.get("the budget", Admin, &format!("{BUDGET}/conf-one"))
            .await;

        let always = json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"});
        for (what, name, healthy, spec, code) in [
            ("unready, enough healthy", "conf-sick", 1, json!({}), 201),
            ("unready, too few healthy", "conf-ill", 0, json!({}), 429),
            ("unready, always allowed", "conf-any", 0, always, 201),
        ] {
            pod(side, name, 0, false).await;
            settled(side, name, 201).await;
            budget(side, name, name, 0, healthy, spec).await;
            settled(side, name, code).await;
            evict(side, what, name, None, false).await;
        }

        pod(side, "conf-new", 0, true).await;
        settled(side, "conf-new", 201).await;
        let unseen = json!({"metadata": {"name": "conf-new"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "conf-new"}}}});
        side.ask("", Admin, Post, BUDGET, &unseen).await;
        settled(side, "conf-new", 429).await;
        let unlooked = "a budget nobody has looked at";
        evict(side, unlooked, "conf-new", None, false).await;
    })
    .await;
}

/// Deletes with options, as `[[drain.escalate]]` does.
async fn delete(side: &mut Side, what: &str, pod: &str, uid: &Value, grace: Option<u64>) {
    let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions",
        "preconditions": {"uid": uid}});
    if let Some(grace) = grace {
        body["gracePeriodSeconds"] = json!(grace);
    }
    let path = format!("{POD}/{pod}");
    side.ask(what, Node(0), DeleteBy, &path, &body).await;
}

#[tokio::test]
async fn i9_deletions_and_shorter_grace_periods_answer_as_a_real_server() {
    both(2, async |side| {
        let wrong = json!("00000000-0000-0000-0000-000000000000");
        let held = pod(side, "conf-past", 0, true).await["metadata"]["uid"].clone();
        settled(side, "conf-past", 201).await;
        budget(side, "conf-past", "conf-past", 0, 1, json!({})).await;
        settled(side, "conf-past", 429).await;
        delete(
            side,
            "past a budget, another uid",
            "conf-past",
            &wrong,
            None,
        )
        .await;
        delete(side, "past a budget", "conf-past", &held, Some(20)).await;
        let path = format!("{POD}/conf-past");
        side.get("terminating", Admin, &path).await;
        delete(side, "again, longer", "conf-past", &held, Some(25)).await;
        side.get("as before", Admin, &path).await;
        delete(side, "again, shorter", "conf-past", &held, Some(5)).await;
        side.get("shorter", Admin, &path).await;

        let slow = pod(side, "conf-slow", 0, true).await["metadata"]["uid"].clone();
        settled(side, "conf-slow", 201).await;
        evict(side, "evicted", "conf-slow", Some(&slow), false).await;
        budget(side, "conf-slow", "conf-slow", 0, 1, json!({})).await;
        let path = format!("{POD}/conf-slow");
        for (what, uid, grace) in [
            ("evicted again, shorter", &slow, 10),
            ("evicted again, longer", &slow, 20),
            // The last one: after a refused one the real server (1.37) gives the next one second, whatever it asks for.
            ("evicted again, another uid", &wrong, 5),
        ] {
            let body = json!({"metadata": {"name": "conf-slow", "namespace": "default"},
                "deleteOptions": {"preconditions": {"uid": uid}, "gracePeriodSeconds": grace}});
            let eviction = format!("{path}/eviction");
            side.ask(what, Node(0), Post, &eviction, &body).await;
            side.get("its grace period", Admin, &path).await;
        }

        let theirs = pod(side, "conf-other", 1, true).await["metadata"]["uid"].clone();
        settled_by(side, 1, "conf-other", 201).await;
        delete(side, "another's", "conf-other", &theirs, None).await;
        delete(side, "nothing there", "conf-none", &theirs, None).await;
    })
    .await;
}
