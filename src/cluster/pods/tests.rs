//! Answers to an eviction, and pods as they are read (I8, I9).

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn of(body: Value) -> EvictAnswer {
    answer(&serde_json::from_value(body).expect("a Status"))
}

#[test]
fn i9_every_answer_of_the_table() {
    let budget = "The disruption budget web needs 5 healthy pods and has 5 currently";
    let blocked = of(json!({"code": 429, "reason": "TooManyRequests",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": {"causes": [{"reason": "DisruptionBudget", "message": budget}]}}));
    assert_eq!(blocked, EvictAnswer::Budget(budget.to_owned()));
    let busy = of(json!({"code": 429, "message": "too many", "details": {"retryAfterSeconds": 3}}));
    assert!(matches!(
        busy,
        EvictAnswer::Busy {
            retry_after: Some(3),
            ..
        }
    ));
    let two = of(
        json!({"code": 500, "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}),
    );
    assert!(matches!(two, EvictAnswer::TwoBudgets(_)));
    let webhook = of(json!({"code": 500, "message": "failed calling webhook"}));
    assert!(matches!(webhook, EvictAnswer::Unanswered { .. }));
    let elsewhere = of(
        json!({"code": 403, "message": "pods \"a\" is forbidden: node \"n1\" can only evict pods with spec.nodeName set to itself"}),
    );
    assert_eq!(elsewhere, EvictAnswer::LookAgain);
    let ending = of(json!({"code": 403, "message": "x",
        "details": {"causes": [{"reason": "NamespaceTerminating"}]}}));
    assert_eq!(ending, EvictAnswer::NamespaceTerminating);
    for code in [404, 409] {
        assert_eq!(of(json!({"code": code})), EvictAnswer::LookAgain);
    }
    for code in [400, 403, 422] {
        assert!(matches!(of(json!({"code": code})), EvictAnswer::Refused(_)));
    }
}

#[tokio::test]
async fn i7_a_refused_connection_is_no_answer() {
    // Nobody listens on the port of tcpmux.
    let config = kube::Config::new("http://127.0.0.1:1".parse().expect("a URL"));
    let client = Client::try_from(config).expect("a client");
    let pod = PodRef {
        namespace: "a".to_owned(),
        name: "b".to_owned(),
        uid: "u".to_owned(),
    };
    let answer = OwnPods::new(client, "n1").evict(&pod).await;
    assert!(
        matches!(answer, EvictAnswer::Unanswered { .. }),
        "{answer:?}"
    );
}

#[test]
fn a_pod_without_status_is_not_ready_and_not_finished() {
    let object: Object = serde_json::from_value(json!({
        "metadata": {"namespace": "a", "name": "b", "uid": "u",
            "deletionTimestamp": "2026-11-21T10:00:00Z", "deletionGracePeriodSeconds": 30,
            "finalizers": ["a.b/c"],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "1"},
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "2", "controller": true}]},
        "spec": {"containers": [], "volumes": [{"name": "v", "emptyDir": {}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "db-0"}},
            {"name": "scratch", "ephemeral": {}},
            {"name": "old", "iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0}},
            {"name": "inline", "csi": {"driver": "secrets"}},
            {"name": "token", "projected": {}}]},
    }))
    .expect("a Pod");
    let pod = read(&object);
    assert!(pod.terminating && pod.grace_seconds == 30 && pod.empty_dir);
    assert!(!pod.ready && !pod.finished() && pod.daemon_set().is_some());
    assert_eq!(pod.finalizers, ["a.b/c"]);
    assert_eq!(pod.volumes, ["a/db-0", "a/b-scratch", "a/b-old"]);
}

/// Found by reading: the UID of an owner is whatever the author of the pod writes, of any length.
#[test]
fn i14_the_uid_of_an_owner_is_one() {
    for (text, read) in [
        ("0a1b-2c", "0a1b-2c".to_owned()),
        ("u1 evil/x", "u1evilx".to_owned()),
        (&"x".repeat(600_000), "x".repeat(UID)),
    ] {
        assert_eq!(uid(text), read);
    }
}

fn statuses() -> impl Strategy<Value = Value> {
    garble::json(
        json!({"kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": {"retryAfterSeconds": 10, "causes": [{"reason": "DisruptionBudget", "message": "web needs 5"}]}}),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn i8_i9_no_status_of_trouble_is_an_eviction(value in statuses()) {
        let Ok(status) = serde_json::from_value::<Answer>(value) else { return Ok(()) };
        match (answer(&status), status.code) {
            (EvictAnswer::Accepted, _) => prop_assert!(false, "taken for a yes"),
            (EvictAnswer::Budget(_) | EvictAnswer::Busy { .. }, code) => prop_assert_eq!(code, 429),
            (EvictAnswer::LookAgain, code) => prop_assert!(matches!(code, 403 | 404 | 409)),
            (EvictAnswer::NamespaceTerminating, code) => prop_assert_eq!(code, 403),
            (EvictAnswer::Unauthorized(_), code) => prop_assert_eq!(code, 401),
            (EvictAnswer::TwoBudgets(_), code) => prop_assert_eq!(code, 500),
            (EvictAnswer::Refused(_), code) => prop_assert!((400..500).contains(&code)),
            (EvictAnswer::Unanswered { .. }, code) => prop_assert!(!(400..500).contains(&code)),
        }
    }

    #[test]
    fn i8_a_pod_is_ready_or_finished_only_when_it_says_so(value in garble::json(json!({
        "metadata": {"namespace": "a", "name": "b", "uid": "u", "deletionGracePeriodSeconds": 30,
            "annotations": {(MIRROR): "x"}},
        "spec": {"containers": [], "priority": 5, "restartPolicy": "Never", "volumes": [{"name": "v", "emptyDir": {}}]},
        "status": {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "c", "image": "i", "imageID": "i", "ready": true, "restartCount": 3}]}}))) {
        let Ok(object) = serde_json::from_value::<Object>(value.clone()) else { return Ok(()) };
        let pod = read(&object);
        let status = &value["status"];
        if pod.finished() {
            prop_assert!(matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")));
        }
        if pod.ready {
            prop_assert_eq!(&status["conditions"][0]["status"], "True");
            prop_assert_eq!(&status["conditions"][0]["type"], "Ready");
        }
        if pod.mirror {
            prop_assert!(!value["metadata"]["annotations"][MIRROR].is_null());
        }
    }
}
