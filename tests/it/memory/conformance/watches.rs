//! Watches: what is told, and how they end.

use futures_util::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::side::{How, LEASE, Side, Who, both};

/// What a watch of a second tells, one row for each event.
async fn watch(side: &mut Side, what: &str, who: Who, selector: &str, version: &str) {
    let api: Api<Lease> = Api::namespaced(side.client(who).clone(), "kube-rebootd");
    let params = WatchParams::default().labels(selector).timeout(1);
    let mut rows = Vec::new();
    match api.watch(&params, version).await {
        Err(kube::Error::Api(status)) => {
            rows.push(format!("refused {} {}", status.code, status.reason));
        }
        Err(error) => panic!("{error}"),
        Ok(stream) => {
            let mut stream = std::pin::pin!(stream);
            while let Some(event) = stream.next().await {
                rows.push(match event.expect("an event") {
                    WatchEvent::Added(lease) => format!("added {}", lease.name_any()),
                    WatchEvent::Modified(lease) => format!("modified {}", lease.name_any()),
                    WatchEvent::Deleted(lease) => format!("deleted {}", lease.name_any()),
                    // Whether one comes in a second is chance.
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(status) => format!("error {} {}", status.code, status.reason),
                });
            }
            rows.push("ended".to_owned());
        }
    }
    side.lines.push(format!("{what}: {rows:?}"));
}

fn version(body: &Value) -> String {
    body["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version")
        .to_owned()
}

#[tokio::test]
async fn i7_watches_tell_what_a_real_server_tells() {
    both(1, async |side| {
        let path = |name: &str| format!("{LEASE}/{name}");
        let body = |name: &str, group: &str| {
            json!({"metadata": {"name": name,
            "labels": {"kube-rebootd/group": group}}})
        };
        let selector = "kube-rebootd/group=conf-watch";
        let listed = format!("{LEASE}?labelSelector=kube-rebootd%2Fgroup%3Dconf-watch");
        let empty = side.get("nothing yet", Who::Slots(0), &listed).await;
        let setup = How::Apply("kube-rebootd-setup");
        for name in ["conf-w1", "conf-w2"] {
            side.ask(
                "made",
                Who::Admin,
                setup,
                &path(name),
                &body(name, "conf-watch"),
            )
            .await;
        }
        side.ask(
            "made for another",
            Who::Admin,
            setup,
            &path("conf-w3"),
            &body("conf-w3", "conf-other"),
        )
        .await;
        let note = json!({"metadata": {"annotations": {"a": "b"}}});
        side.ask(
            "changed",
            Who::Admin,
            How::Merge("x"),
            &path("conf-w1"),
            &note,
        )
        .await;
        side.ask(
            "changed to the same",
            Who::Admin,
            How::Merge("x"),
            &path("conf-w1"),
            &note,
        )
        .await;
        let moved = json!({"metadata": {"labels": {"kube-rebootd/group": "conf-other"}}});
        side.ask(
            "moved out",
            Who::Admin,
            How::Merge("x"),
            &path("conf-w1"),
            &moved,
        )
        .await;
        let moved = json!({"metadata": {"labels": {"kube-rebootd/group": "conf-watch"}}});
        let there = side
            .ask(
                "moved in",
                Who::Admin,
                How::Merge("x"),
                &path("conf-w3"),
                &moved,
            )
            .await;
        side.ask(
            "deleted",
            Who::Admin,
            How::Delete,
            &path("conf-w2"),
            &json!(null),
        )
        .await;
        watch(
            side,
            "from the list on",
            Who::Slots(0),
            selector,
            &version(&empty),
        )
        .await;
        watch(
            side,
            "from the middle on",
            Who::Slots(0),
            selector,
            &version(&there),
        )
        .await;
        watch(side, "from what there is", Who::Slots(0), selector, "0").await;
        watch(side, "as a plain node", Who::Node(0), selector, "0").await;
        side.get("left", Who::Slots(0), &listed).await;
    })
    .await;
}
