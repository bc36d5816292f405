//! Evictions on a real API server (I9): what the answers mean and that the precondition arrives.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod as Object;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{PartialObjectMeta, Patch, PatchParams, PostParams};
use kube_rebootd::clock::Clock;
use kube_rebootd::cluster::pods::{OwnPods, read};
use kube_rebootd::cluster::watch::{Select, Signs, Watch};
use kube_rebootd_core::drain::{Escalated, How, PodRef};
use kube_rebootd_core::pod::{EvictAnswer, Patience};
use serde_json::{Value, json};

use crate::plane::{Host, enter, until};

/// A running pod of the node with the label `app: <name>`.
async fn pod(host: &Host, name: &str) -> PodRef {
    let pods: Api<Object> = Api::namespaced(host.admin.clone(), "default");
    let body = json!({"metadata": {"name": name, "labels": {"app": name}},
        "spec": {"nodeName": host.name, "containers": [{"name": "c", "image": "i"}]}});
    let object = serde_json::from_value(body).expect("a Pod");
    let object = pods
        .create(&PostParams::default(), &object)
        .await
        .expect("a Pod");
    let running = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(running))
        .await
        .expect("running");
    PodRef {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: object.metadata.uid.expect("a UID"),
    }
}

/// A budget over `app: <pod>` that its controller has just found to allow nothing.
async fn budget(host: &Host, name: &str, pod: &str) {
    allowing(host, name, pod, 0).await;
}

/// The same with so many evictions that it allows.
async fn allowing(host: &Host, name: &str, pod: &str, allowed: u32) {
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(host.admin.clone(), "default");
    let body = json!({"metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": pod}}}});
    let object = serde_json::from_value(body).expect("a budget");
    budgets
        .create(&PostParams::default(), &object)
        .await
        .expect("a budget");
    let found = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed, "desiredHealthy": 1, "expectedPods": 1 + allowed}});
    budgets
        .patch_status(name, &PatchParams::default(), &Patch::Merge(found))
        .await
        .expect("a status");
}

/// Evicts until the server's admission cache knows the pod and the answer is another.
async fn evict(host: &Host, pod: &PodRef) -> EvictAnswer {
    let own = OwnPods::new(host.clients.node.clone(), &host.name);
    let api: Api<Object> = Api::namespaced(host.clients.node.clone(), "default");
    until("the pod in the server's cache", || async {
        api.get(&pod.name).await.ok()
    })
    .await;
    own.evict(pod).await
}

#[tokio::test]
async fn i9_the_uid_is_a_precondition() {
    let host = enter().host().await;
    let right = pod(&host, "uid").await;
    let wrong = PodRef {
        uid: "00000000-0000-0000-0000-000000000000".to_owned(),
        ..right.clone()
    };
    assert_eq!(evict(&host, &wrong).await, EvictAnswer::LookAgain);
    let own = OwnPods::new(host.clients.node.clone(), &host.name);
    let there = own.list().await.expect("a list");
    assert_eq!(there.len(), 1);
    assert!(!there[0].terminating && there[0].ready);
    assert_eq!(evict(&host, &right).await, EvictAnswer::Accepted);
    let gone = own.list().await.expect("a list");
    assert!(gone.iter().all(|pod| pod.terminating), "{gone:?}");
}

#[tokio::test]
async fn i9_budgets_answer_by_name() {
    let host = enter().host().await;
    let one = pod(&host, "one").await;
    budget(&host, "first", "one").await;
    let answer = until("the budget", || async {
        match evict(&host, &one).await {
            EvictAnswer::Budget(why) => Some(why),
            EvictAnswer::Busy { .. } | EvictAnswer::Unanswered { .. } => None,
            other => panic!("{other:?}"),
        }
    })
    .await;
    assert!(answer.contains("first"), "{answer}");
    budget(&host, "second", "one").await;
    until("two budgets", || async {
        match evict(&host, &one).await {
            EvictAnswer::TwoBudgets(why) => Some(why),
            EvictAnswer::Budget(_) | EvictAnswer::Busy { .. } | EvictAnswer::Unanswered { .. } => {
                None
            }
            other => panic!("{other:?}"),
        }
    })
    .await;
}

/// What `explain` asks: however often, the pod stays and its budget allows what it allowed.
#[tokio::test]
async fn i9_a_dry_run_evicts_nothing_and_takes_nothing_from_the_budget() {
    let host = enter().host().await;
    let tried = pod(&host, "tried").await;
    allowing(&host, "one-left", "tried", 1).await;
    let own = OwnPods::new(host.clients.node.clone(), &host.name);
    // Until the server's caches know pod and budget.
    until("the dry run", || async {
        (own.would_evict(&tried).await == EvictAnswer::Accepted).then_some(())
    })
    .await;
    for _ in 0..5 {
        assert_eq!(own.would_evict(&tried).await, EvictAnswer::Accepted);
    }
    let pods = own.list().await.expect("a list");
    assert!(pods.iter().all(|pod| !pod.terminating), "{pods:?}");
    assert_eq!(pods.len(), 1);
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(host.admin.clone(), "default");
    let left = budgets.get("one-left").await.expect("the budget").status;
    let left = left.expect("a status");
    assert_eq!(left.disruptions_allowed, 1);
    assert_eq!(left.disrupted_pods.unwrap_or_default().len(), 0);
    // Another pod of that name would be another's.
    let wrong = PodRef {
        uid: "00000000-0000-0000-0000-000000000000".to_owned(),
        ..tried.clone()
    };
    assert_eq!(own.would_evict(&wrong).await, EvictAnswer::LookAgain);
    // A budget that allows nothing says so, by its name.
    let full = pod(&host, "held").await;
    budget(&host, "none-left", "held").await;
    let why = until("the refusal", || async {
        match own.would_evict(&full).await {
            EvictAnswer::Budget(why) => Some(why),
            _ => None,
        }
    })
    .await;
    assert!(why.contains("none-left"), "{why}");
    // What was accepted as a dry run is accepted in earnest.
    assert_eq!(own.evict(&tried).await, EvictAnswer::Accepted);
}

#[tokio::test]
async fn i9_a_pod_of_another_node_or_none_is_looked_at_again() {
    let plane = enter();
    let (one, two) = (plane.host().await, plane.host().await);
    let theirs = pod(&two, "theirs").await;
    let own = OwnPods::new(one.clients.node.clone(), &one.name);
    assert_eq!(own.evict(&theirs).await, EvictAnswer::LookAgain);
    let none = PodRef {
        name: "none".to_owned(),
        ..theirs
    };
    assert_eq!(own.evict(&none).await, EvictAnswer::LookAgain);
}

/// What whoever may patch a pod can make the API server store, and no type of k8s-openapi reads: times after the last
/// day that jiff knows, and fields nested deeper than `serde_json` goes.
fn unreadable() -> [(&'static str, Value); 3] {
    let entry = |time: &str, fields: Value| {
        json!({"metadata": {"managedFields": [{"manager": "tenant", "operation": "Update", "apiVersion": "v1",
            "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields}]}})
    };
    let deep = (0..130).fold(json!({}), |inner, _| json!({"f:a": inner}));
    let some = || json!({"f:metadata": {"f:labels": {"f:app": {}}}});
    [
        ("late", entry("9999-12-31T23:59:59Z", some())),
        ("five", entry("9999-12-31T23:59:59-23:00", some())),
        ("deep", entry("2026-01-01T00:00:00Z", deep)),
    ]
}

/// Found by reading: one such pod made every list and every watch of its node fail, so that the node could not drain.
#[tokio::test]
async fn i7_i14_a_pod_that_k8s_openapi_cannot_read_blinds_no_node() {
    let host = enter().host().await;
    let own = OwnPods::new(host.clients.node.clone(), &host.name);
    let pods: Api<PartialObjectMeta<Object>> = Api::namespaced(host.admin.clone(), "default");
    let select = Select {
        labels: None,
        fields: Some(own.fields()),
        ..Select::default()
    };
    let mut watch = Watch::start(
        "watch pods",
        own.api(),
        select,
        Signs::Bookmarks,
        Clock::Real,
        read,
    );
    let mut met = Vec::new();
    for (number, (name, body)) in unreadable().into_iter().enumerate() {
        pod(&host, name).await;
        let (params, patch) = (PatchParams::default(), Patch::Merge(body));
        // The answer is what this client cannot read, or a refusal.
        match pods.patch_metadata(name, &params, &patch).await {
            Err(kube::Error::SerdeError(error)) => met.push(format!("{name}: {error}")),
            other => println!("{name}: {:?}", other.map(drop)),
        }
        let list = own.list().await.expect("a list");
        assert_eq!(list.len(), number + 1, "{name}");
        until("the pod in the watch", || {
            let view = watch.view();
            async move { (view.items?.len() == number + 1).then_some(()) }
        })
        .await;
        assert_eq!(watch.view().trouble, None, "{name}");
    }
    assert_eq!(met.len(), 3, "the server stores them all: {met:?}");
}

/// What `[[drain.escalate]]` does: budgets are asked by no deletion, and none of a pod that ends; the UID counts for both.
#[tokio::test]
async fn i9_a_deletion_passes_a_budget_and_hits_exactly_this_pod() {
    let host = enter().host().await;
    let held = pod(&host, "past").await;
    budget(&host, "past", "past").await;
    until("the budget", || async {
        matches!(evict(&host, &held).await, EvictAnswer::Budget(_)).then_some(())
    })
    .await;
    let own = OwnPods::new(host.clients.node.clone(), &host.name);
    let delete = |pod: &PodRef, grace: Option<u64>| Escalated {
        pod: pod.clone(),
        how: How::Delete(grace.map(Duration::from_secs)),
    };
    let wrong = PodRef {
        uid: "00000000-0000-0000-0000-000000000000".to_owned(),
        ..held.clone()
    };
    let said = own.escalate(&delete(&wrong, None)).await;
    assert_eq!(said, EvictAnswer::LookAgain);
    let there = own.list().await.expect("a list");
    assert!(there.iter().all(|pod| !pod.terminating), "{there:?}");
    let said = own.escalate(&delete(&held, Some(25))).await;
    assert_eq!(said, EvictAnswer::Accepted);
    let ends = own.list().await.expect("a list");
    assert!(
        ends.iter()
            .all(|pod| pod.terminating && pod.grace_seconds == 25),
        "{ends:?}"
    );
    // One of another node, by NodeRestriction.
    let other = enter().host().await;
    let theirs = pod(&other, "theirs-to-delete").await;
    let said = own.escalate(&delete(&theirs, None)).await;
    assert_eq!(said, EvictAnswer::LookAgain);
    let none = PodRef {
        name: "nobody".to_owned(),
        ..held
    };
    let said = own.escalate(&delete(&none, None)).await;
    assert_eq!(said, EvictAnswer::LookAgain);
}

#[tokio::test]
async fn i9_an_eviction_again_shortens_the_grace_period_and_asks_no_budget() {
    let host = enter().host().await;
    let slow = pod(&host, "ends-slowly").await;
    let own = OwnPods::new(host.clients.node.clone(), &host.name);
    assert_eq!(evict(&host, &slow).await, EvictAnswer::Accepted);
    budget(&host, "ends-slowly", "ends-slowly").await;
    let shorten = |pod: &PodRef, seconds| Escalated {
        pod: pod.clone(),
        how: How::Grace(Duration::from_secs(seconds)),
    };
    let wrong = PodRef {
        uid: "00000000-0000-0000-0000-000000000000".to_owned(),
        ..slow.clone()
    };
    for (seconds, grace) in [(10, 10), (20, 10), (1, 1)] {
        let said = own.escalate(&shorten(&slow, seconds)).await;
        assert_eq!(said, EvictAnswer::Accepted);
        let ends = own.list().await.expect("a list");
        assert!(
            ends.iter()
                .all(|pod| pod.terminating && pod.grace_seconds == grace),
            "{seconds}: {ends:?}"
        );
    }
    // The last one: after a refused one the server (1.37) gives the next one second, whatever it asks for.
    let said = own.escalate(&shorten(&wrong, 1)).await;
    assert_eq!(said, EvictAnswer::LookAgain);
    assert_eq!(own.list().await.expect("a list").len(), 1, "it ends itself");
}

/// By default a kubelet's credential may do what `doctor` asks about.
#[tokio::test]
async fn i11_a_node_may_delete_its_own_pods_without_a_grant_of_ours() {
    let host = enter().host().await;
    let may = kube_rebootd::cluster::rights::deletes(&host.clients.node).await;
    assert!(may.expect("an answer"));
}

/// The annotation comes through the watch's view of a pod as well as a list's: it is the same reading.
#[tokio::test]
async fn i14_how_long_a_pod_says_that_it_takes_is_read_from_its_annotation() {
    let host = enter().host().await;
    let pods: Api<Object> = Api::namespaced(host.admin.clone(), "default");
    let own = OwnPods::new(host.clients.node.clone(), &host.name);
    for (name, value, patience) in [
        ("asks", "30m", Patience::Asked(Duration::from_secs(1800))),
        (
            "asks-badly",
            "soon",
            Patience::Unreadable("soon".to_owned()),
        ),
    ] {
        pod(&host, name).await;
        let annotated = json!({"metadata": {"annotations": {"kube-rebootd/drain-timeout": value}}});
        pods.patch(name, &PatchParams::default(), &Patch::Merge(annotated))
            .await
            .expect("an annotation");
        let all = own.list().await.expect("a list");
        let found = all.into_iter().find(|pod| pod.name == name);
        assert_eq!(found.expect("the pod").patience, Some(patience));
    }
}
