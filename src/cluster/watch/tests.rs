//! Lines of a watch, damaged on their way: what is shown is what some line said, and the place from which it
//! goes on is never lost (I7, I8).

use k8s_openapi::api::coordination::v1::Lease;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn follow() -> Follow<Lease, String> {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::ready(Err::<http::Response<kube::client::Body>, _>(
            std::io::Error::other("nobody"),
        ))
    });
    let (send, _) = watch::channel(View {
        items: Some(BTreeMap::from([("u".to_owned(), "a".to_owned())])),
        heard: None,
        trouble: None,
    });
    Follow {
        what: "watch",
        api: Api::default_namespaced(kube::Client::new(service, "default")),
        select: Select::default(),
        signs: Signs::Bookmarks,
        clock: Clock::Real,
        read: |lease| lease.name_any(),
        send,
    }
}

fn lines() -> impl Strategy<Value = Value> {
    let object =
        |version: &str| json!({"metadata": {"name": "b", "uid": "v", "resourceVersion": version}});
    let line = |kind: &str, version: &str| json!({"type": kind, "object": object(version)});
    prop_oneof![
        garble::json(line("ADDED", "6")),
        garble::json(line("MODIFIED", "7")),
        garble::json(line("DELETED", "8")),
        garble::json(
            json!({"type": "BOOKMARK", "object": {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
            "metadata": {"resourceVersion": "9"}}})
        ),
        garble::json(
            json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}})
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn i8_a_damaged_line_loses_neither_the_place_nor_an_item(values in prop::collection::vec(lines(), 1..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let _entered = runtime.enter();
        let follow = follow();
        let mut version = "5".to_owned();
        for value in values {
            let Ok(event) = serde_json::from_value::<WatchEvent<Lease>>(value.clone()) else { continue };
            let before = follow.send.borrow().items.clone().unwrap_or_default();
            let flow = follow.see(event, &mut version);
            let after = follow.send.borrow().items.clone().unwrap_or_default();
            // From an empty one the server would begin anew, and say nothing of what was deleted meanwhile.
            prop_assert!(!version.is_empty(), "{value}");
            if flow.is_err() {
                prop_assert_eq!(before, after);
                continue;
            }
            let uid = value["object"]["metadata"]["uid"].as_str().unwrap_or_default();
            for (gone, _) in before.iter().filter(|(key, _)| !after.contains_key(*key)) {
                prop_assert!(value["type"] == "DELETED" && gone == uid, "{value}");
            }
            for (key, name) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
                prop_assert!(key == uid && !uid.is_empty(), "{value}");
                prop_assert_eq!(name, value["object"]["metadata"]["name"].as_str().unwrap_or_default());
            }
        }
    }
}
