//! Who may see what.

use serde_json::json;

use super::side::How::{Delete, Get, Merge, Post, Table};
use super::side::Who::{Admin, Node, Slots};
use super::side::{BEAT, LEASE, NODE, POD, SET, both, rows};

#[tokio::test]
async fn reads_answer_as_a_real_server() {
    both(2, async |side| {
        let (one, two) = (side.name(0).to_owned(), side.name(1).to_owned());
        let none = json!(null);
        let review = json!({"metadata": {}});
        let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let label = json!({"metadata": {"labels": {"kube-rebootd/conf": "reads"}}});
        let (own, other) = (format!("{NODE}/{one}"), format!("{NODE}/{two}"));
        rows! { side:
            "who", Node(0), Post, reviews, review;
            "labelled", Admin, Merge("x"), own, label;
            "labelled", Admin, Merge("x"), other, label;
        }
        let by_name = |name: &str| format!("{NODE}?fieldSelector=metadata.name%3D{name}");
        let pods_of = |name: &str| format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{name}");
        let labelled =
            |path: &str, label: &str| format!("{path}?labelSelector=kube-rebootd%2F{label}");
        let gets = [
            ("nodes", NODE.to_owned()),
            ("labelled nodes", labelled(NODE, "conf")),
            ("own node", own.clone()),
            ("other node", other.clone()),
            ("own node by list", by_name(&one)),
            ("other node by list", by_name(&two)),
            ("own pods", pods_of(&one)),
            ("others' pods", pods_of(&two)),
            ("all pods", "/api/v1/pods".to_owned()),
            ("slots", labelled(LEASE, "group%3Dnone")),
            ("heartbeats", labelled(BEAT, "waiting%3Dnone")),
        ];
        for (what, path) in gets {
            for who in [Node(0), Slots(0)] {
                if (what, who) == ("nodes", Slots(0)) {
                    continue;
                }
                side.get(&format!("{what} as {who:?}"), who, &path).await;
            }
        }
        let cordon = json!({"spec": {"unschedulable": true}});
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        rows! { side:
            "cordoned", Admin, Merge("x"), own, cordon;
            "ready", Node(1), Merge("x"), format!("{other}/status"), ready;
        }
        for (what, label) in [
            ("table", "kube-rebootd%2Fconf"),
            // A role that no Node has: a table without rows.
            ("table of a role", "kube-rebootd.test%2Fno-role"),
            ("first row of a table", "kube-rebootd%2Fconf&limit=1"),
        ] {
            let table = format!("{NODE}?labelSelector={label}");
            for who in [Node(0), Slots(0)] {
                let what = format!("{what} as {who:?}");
                side.ask(&what, who, Table, &table, &none).await;
            }
        }
        side.ask("who as coordinator", Slots(0), Post, reviews, &review)
            .await;
    })
    .await;
}

/// Pods that no node has, of one label: the real server has pods of other tests.
#[tokio::test]
async fn pods_without_a_node_are_listed_as_on_a_real_server() {
    both(1, async |side| {
        let name = format!("conf-room-{}", side.name(0));
        let path = format!("{POD}/{name}");
        let fields = "fieldSelector=spec.nodeName%3D%2Cstatus.phase%3DPending&limit=20";
        let of_all = format!("/api/v1/pods?{fields}");
        let labelled = format!("{POD}?{fields}&labelSelector=room%3D{name}");
        let none = json!(null);
        let pod = json!({"metadata": {"name": name, "labels": {"room": name}},
            "spec": {"nodeSelector": {"test/none": ""}, "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Pending"}});
        rows! { side:
            "of all namespaces, not granted", Slots(0), Get, of_all, none;
            "", Admin, Post, POD, pod;
        }
        let seen = side.ask("", Admin, Get, &labelled, &none).await;
        let items = seen["items"].as_array().map(Vec::len);
        let said = json!({"kind": seen["kind"], "metadata": {"finalizers": [items == Some(1)]}});
        side.row("one", 200, &said);
        rows! { side:
            "", Admin, Delete, path, none;
        }
    })
    .await;
}

/// What is asked after the boot for a DaemonSet that has no pod on the node.
#[tokio::test]
async fn a_daemon_set_is_read_as_on_a_real_server() {
    both(1, async |side| {
        // A name of this run's own on the real server.
        let name = format!("conf-{}", side.name(0));
        let path = format!("{SET}/{name}");
        let none = json!(null);
        let pod = json!({"metadata": {"labels": {"app": name}},
            "spec": {"nodeSelector": {"test/none": ""}, "containers": [{"name": "c", "image": "i"}]}});
        let set = json!({"metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": pod}});
        let slots = Slots(0);
        rows! { side:
            "absent", slots, Get, path, none;
            "", Admin, Post, SET, set;
        }
        // No row: the real server fills in more than matters here.
        let seen = side.ask("", slots, Get, &path, &none).await;
        let (metadata, pod) = (&seen["metadata"], &seen["spec"]["template"]["spec"]);
        let said = json!({"kind": seen["kind"], "metadata": {"finalizers": [
            metadata["name"] == name.as_str(), metadata["uid"].is_string()]}});
        assert_eq!(pod["nodeSelector"], json!({"test/none": ""}), "{seen}");
        side.row("there", 200, &said);
        rows! { side:
            "list", slots, Get, SET, none;
            "as the node", Node(0), Get, path, none;
            "", Admin, Delete, path, none;
            "gone", slots, Get, path, none;
        }
    })
    .await;
}
