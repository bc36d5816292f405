//! The table of answers: what is definite, and what may have been done (I7, I8).

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn of(body: Value) -> ApiError {
    let status: Status = serde_json::from_value(body).expect("a Status");
    classify("take", Failure::Said(Box::new(status)))
}

fn plain(code: u16, message: &str) -> ApiError {
    of(json!({"kind": "Status", "code": code, "message": message, "reason": "x"}))
}

#[test]
fn conflict_names_the_other_manager_only_for_fields() {
    let field = of(
        json!({"code": 409, "reason": "Conflict", "message": "Apply failed with 1 conflict",
        "details": {"causes": [{"reason": "FieldManagerConflict", "message": "conflict with \"n1\"",
        "field": ".spec.holderIdentity"}]}}),
    );
    let ApiError::Conflict { manager, .. } = field else {
        panic!("{field:?}")
    };
    assert_eq!(manager.as_deref(), Some("conflict with \"n1\""));
    let stale = plain(409, "the object has been modified");
    assert!(matches!(stale, ApiError::Conflict { manager: None, .. }));
}

#[test]
fn uid_in_both_of_its_forms() {
    let deleted = plain(
        409,
        "Operation cannot be fulfilled on nodes \"n1\": uid mismatch: the provided object specified uid a, and no existing object was found",
    );
    assert!(
        matches!(deleted, ApiError::UidMismatch { .. }),
        "{deleted:?}"
    );
    let replaced = of(
        json!({"code": 422, "reason": "Invalid", "message": "Node \"n1\" is invalid: metadata.uid: Invalid value: \"a\": field is immutable",
        "details": {"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid"}]}}),
    );
    assert!(
        matches!(replaced, ApiError::UidMismatch { .. }),
        "{replaced:?}"
    );
    let policy = plain(
        422,
        "ValidatingAdmissionPolicy 'kube-rebootd' denied request: no",
    );
    assert!(matches!(policy, ApiError::Invalid { .. }), "{policy:?}");
}

#[test]
fn denials_and_the_taints_race() {
    let race = plain(
        403,
        "nodes \"n1\" is forbidden: node \"n1\" is not allowed to modify taints",
    );
    assert!(matches!(race, ApiError::TaintsRace { .. }));
    assert!(plain(401, "Unauthorized").unauthorized());
    let denied = plain(403, "cannot create resource \"leases\"");
    assert!(matches!(denied, ApiError::Denied { code: 403, .. }) && !denied.unauthorized());
}

#[test]
fn only_busy_and_silence_are_unanswered() {
    for code in [429, 500, 503, 504] {
        assert!(plain(code, "x").unanswered(), "{code}");
    }
    for code in [400, 401, 403, 409, 410, 415, 422] {
        assert!(!plain(code, "x").unanswered(), "{code}");
    }
    let busy = of(json!({"code": 429, "message": "x", "details": {"retryAfterSeconds": 7}}));
    assert!(matches!(
        busy,
        ApiError::Busy {
            retry_after: Some(7),
            code: 429,
            ..
        }
    ));
}

/// A load balancer without a backend: "not found" is not the API server's word.
#[test]
fn i8_a_404_that_is_no_kubernetes_status_is_trouble_and_nothing_is_absent() {
    let gone = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
        "reason": "NotFound", "message": "leases \"default\" not found"});
    assert_eq!(found(get(404, gone.to_string())), Ok(None));
    for page in [
        "<html><body>404 Not Found</body></html>",
        "404 page not found\n",
        "",
        "{}",
        r#"{"error": "not found", "code": 404}"#,
        r#"{"message": "no Route matched with those values"}"#,
    ] {
        let error = found(get(404, page)).expect_err(page);
        assert!(error.unanswered(), "{page}: {error}");
    }
}

/// Found by a reader: it was taken for a server that is busy, and the same was sent for ever. The words are real ones.
#[test]
fn i3_an_object_that_is_too_large_for_the_store_is_refused_for_good() {
    for message in [
        "etcdserver: request is too large",
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2531368 vs. 2097152)",
    ] {
        let large = of(json!({"code": 500, "message": message}));
        assert!(large.refused() && !large.unanswered(), "{large}");
    }
    let busy = of(json!({"code": 500, "message": "etcdserver: request timed out"}));
    assert!(busy.unanswered() && !busy.refused(), "{busy}");
}

#[test]
fn i7_a_retry_after_of_years_does_not_stop_a_hold_for_years() {
    let busy = of(json!({"code": 503, "message": "x", "details": {"retryAfterSeconds": u32::MAX}}));
    assert!(matches!(
        busy,
        ApiError::Busy {
            retry_after: Some(RETRY_AFTER_MOST),
            ..
        }
    ));
}

#[tokio::test(start_paused = true)]
async fn i7_a_call_without_an_answer_ends() {
    let error = call("get", CALL, std::future::pending::<kube::Result<()>>())
        .await
        .expect_err("never answered");
    assert!(error.unanswered(), "{error}");
}

/// A client whose server answers everything with this.
fn client(code: u16, body: impl Into<Vec<u8>>) -> kube::Client {
    let body: Vec<u8> = body.into();
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let answer = http::Response::builder()
            .status(code)
            .body(kube::client::Body::from(body.clone()));
        std::future::ready(answer)
    });
    kube::Client::new(service, "default")
}

/// What a GET comes to.
fn get(code: u16, body: impl Into<Vec<u8>>) -> Result<Lease, ApiError> {
    run(async {
        let api: Api<Lease> = Api::default_namespaced(client(code, body));
        call("get", CALL, api.get("default")).await
    })
}

/// How many a list has, in full and by metadata alone.
fn list(body: &str) -> [Result<usize, ApiError>; 2] {
    run(async {
        let api: Api<Lease> = Api::default_namespaced(client(200, body));
        let params = kube::api::ListParams::default();
        let full = call("list", CALL, api.list(&params)).await;
        let names = call("list", CALL, api.list_metadata(&params)).await;
        [
            full.map(|list| list.items.len()),
            names.map(|list| list.items.len()),
        ]
    })
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime").block_on(future)
}

fn anything() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        garble::tree().prop_map(|value| value.to_string().into_bytes()),
        garble::text("<html><body>502 Bad Gateway</body></html>").prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn i7_whatever_stands_in_an_answer_of_trouble_it_may_have_been_done(code in prop_oneof![500..600u16, Just(429)], body in anything()) {
        let error = get(code, body).expect_err("no success");
        prop_assert!(error.unanswered(), "{error:?}");
    }

    #[test]
    fn i8_a_status_is_definite_only_by_a_code_of_its_own(value in garble::json(json!({
        "kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": "uid mismatch",
        "details": {"retryAfterSeconds": 3, "causes": [{"reason": "x", "message": "y", "field": "metadata.uid"}]}}))) {
        let Ok(status) = serde_json::from_value::<Status>(value) else { return Ok(()) };
        let code = status.code;
        let gone = code == 404 && status.reason == "NotFound";
        let error = classify("take", Failure::Said(Box::new(status)));
        let definite = (400..500).contains(&code) && code != 429 && code != 404 || gone;
        prop_assert_eq!(error.unanswered(), !definite, "{:?}", error);
        prop_assert_eq!(error.unauthorized(), code == 401);
        prop_assert_eq!(matches!(error, ApiError::Gone { .. }), gone);
        prop_assert_eq!(matches!(error, ApiError::Expired { .. }), code == 410);
        if let ApiError::Busy { retry_after, .. } = error {
            prop_assert_ne!(retry_after, Some(0));
        }
    }

    #[test]
    fn i8_what_is_no_list_is_not_an_empty_one(value in garble::tree()) {
        for said in list(&value.to_string()) {
            prop_assert!(said.is_err(), "{:?}", said);
        }
    }

    #[test]
    fn i8_a_damaged_list_keeps_its_items_or_is_none(value in garble::json(json!({
        "kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "metadata": {"resourceVersion": "5"},
        "items": [{"metadata": {"name": "a", "uid": "u"}, "spec": {"holderIdentity": "n1"}}]}))) {
        for said in list(&value.to_string()).into_iter().flatten() {
            // Go writes a list that was never made as null.
            let there = match &value["items"] {
                Value::Null => Some(0),
                items => items.as_array().map(Vec::len),
            };
            prop_assert_eq!(Some(said), there, "{}", value);
        }
    }
}

#[test]
fn i8_a_list_without_items_is_none() {
    for body in [
        "{}",
        r#"{"metadata": {"resourceVersion": "5"}}"#,
        r#"{"kind": "Status"}"#,
        "[]",
        "",
    ] {
        for said in list(body) {
            assert!(said.is_err(), "{body}: {said:?}");
        }
    }
}

#[test]
fn i7_json_of_a_proxy_is_no_answer_of_the_server() {
    // kube reads any JSON object as a Status without a code.
    for (code, body) in [
        (502, "{}"),
        (504, r#"{"error": "upstream timeout"}"#),
        (429, "{}"),
    ] {
        let error = get(code, body).expect_err("no success");
        assert!(error.unanswered(), "{code} {body}: {error:?}");
    }
}

#[test]
fn i7_nesting_in_an_answer_is_refused_in_bounded_time() {
    for text in garble::deep(1 << 18) {
        for code in [200, 500] {
            let text = text.clone();
            let error = garble::soon(move || get(code, text).map(drop).expect_err("nonsense"));
            assert!(error.unanswered(), "{error}");
        }
    }
}
