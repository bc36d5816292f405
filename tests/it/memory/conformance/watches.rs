//! Watches: what is told, and how they end.

use futures_util::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::side::How::{Apply, Delete, Merge};
use super::side::Who::{self, Admin, Node, Slots};
use super::side::{LEASE, Side, both, rows};

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
        let of = |group: &str| json!({"metadata": {"labels": {"kube-rebootd/group": group}}});
        let body = |name: &str, group: &str| {
            let mut body = of(group);
            body["metadata"]["name"] = json!(name);
            body
        };
        let selector = "kube-rebootd/group=conf-watch";
        let listed = format!("{LEASE}?labelSelector=kube-rebootd%2Fgroup%3Dconf-watch");
        let empty = side.get("nothing yet", Slots(0), &listed).await;
        let setup = Apply("kube-rebootd-setup");
        let note = json!({"metadata": {"annotations": {"a": "b"}}});
        rows! { side:
            "made", Admin, setup, path("conf-w1"), body("conf-w1", "conf-watch");
            "made", Admin, setup, path("conf-w2"), body("conf-w2", "conf-watch");
            "made for another", Admin, setup, path("conf-w3"), body("conf-w3", "conf-other");
            "changed", Admin, Merge("x"), path("conf-w1"), note;
            "changed to the same", Admin, Merge("x"), path("conf-w1"), note;
            "moved out", Admin, Merge("x"), path("conf-w1"), of("conf-other");
        }
        let (moved, here) = (path("conf-w3"), of("conf-watch"));
        let there = side.ask("moved in", Admin, Merge("x"), &moved, &here).await;
        side.ask("deleted", Admin, Delete, &path("conf-w2"), &json!(null))
            .await;
        for (what, who, from) in [
            ("from the list on", Slots(0), version(&empty)),
            ("from the middle on", Slots(0), version(&there)),
            ("from what there is", Slots(0), "0".to_owned()),
            ("as a plain node", Node(0), "0".to_owned()),
        ] {
            watch(side, what, who, selector, &from).await;
        }
        side.get("left", Slots(0), &listed).await;
    })
    .await;
}
