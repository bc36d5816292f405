//! Who may see what.

use serde_json::json;

use super::side::{BEAT, How, LEASE, NODE, SET, Who, both};

#[tokio::test]
async fn reads_answer_as_a_real_server() {
    both(2, async |side| {
        let (one, two) = (side.name(0).to_owned(), side.name(1).to_owned());
        let review = json!({"metadata": {}});
        let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        side.ask("who", Who::Node(0), How::Post, reviews, &review)
            .await;
        let label = json!({"metadata": {"labels": {"kube-rebootd/conf": "reads"}}});
        for name in [&one, &two] {
            side.ask(
                "labelled",
                Who::Admin,
                How::Merge("x"),
                &format!("{NODE}/{name}"),
                &label,
            )
            .await;
        }
        let none = json!(null);
        let labelled = format!("{NODE}?labelSelector=kube-rebootd%2Fconf");
        let gets = [
            ("nodes", NODE.to_owned()),
            ("labelled nodes", labelled),
            ("own node", format!("{NODE}/{one}")),
            ("other node", format!("{NODE}/{two}")),
            (
                "own node by list",
                format!("{NODE}?fieldSelector=metadata.name%3D{one}"),
            ),
            (
                "other node by list",
                format!("{NODE}?fieldSelector=metadata.name%3D{two}"),
            ),
            (
                "own pods",
                format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{one}"),
            ),
            (
                "others' pods",
                format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{two}"),
            ),
            ("all pods", "/api/v1/pods".to_owned()),
            (
                "slots",
                format!("{LEASE}?labelSelector=kube-rebootd%2Fgroup%3Dnone"),
            ),
            (
                "heartbeats",
                format!("{BEAT}?labelSelector=kube-rebootd%2Fwaiting%3Dnone"),
            ),
        ];
        for (what, path) in gets {
            for who in [Who::Node(0), Who::Slots(0)] {
                if (what, who) == ("nodes", Who::Slots(0)) {
                    continue;
                }
                side.ask(&format!("{what} as {who:?}"), who, How::Get, &path, &none)
                    .await;
            }
        }
        let cordon = json!({"spec": {"unschedulable": true}});
        let own = format!("{NODE}/{one}");
        side.ask("cordoned", Who::Admin, How::Merge("x"), &own, &cordon)
            .await;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let status = format!("{NODE}/{two}/status");
        side.ask("ready", Who::Node(1), How::Merge("x"), &status, &ready)
            .await;
        for (what, label) in [
            ("table", "kube-rebootd%2Fconf"),
            // A role that no Node has: a table without rows.
            ("table of a role", "kube-rebootd.test%2Fno-role"),
            ("first row of a table", "kube-rebootd%2Fconf&limit=1"),
        ] {
            let table = format!("{NODE}?labelSelector={label}");
            for who in [Who::Node(0), Who::Slots(0)] {
                let what = format!("{what} as {who:?}");
                side.ask(&what, who, How::Table, &table, &none).await;
            }
        }
        let review = json!({"metadata": {}});
        side.ask(
            "who as coordinator",
            Who::Slots(0),
            How::Post,
            reviews,
            &review,
        )
        .await;
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
        let slots = Who::Slots(0);
        side.ask("absent", slots, How::Get, &path, &none).await;
        side.ask("", Who::Admin, How::Post, SET, &set).await;
        // No row: the real server fills in more than matters here.
        let seen = side.ask("", slots, How::Get, &path, &none).await;
        let (metadata, pod) = (&seen["metadata"], &seen["spec"]["template"]["spec"]);
        let said = json!({"kind": seen["kind"], "metadata": {"finalizers": [
            metadata["name"] == name.as_str(), metadata["uid"].is_string()]}});
        assert_eq!(pod["nodeSelector"], json!({"test/none": ""}), "{seen}");
        side.row("there", 200, &said);
        side.ask("list", slots, How::Get, SET, &none).await;
        side.ask("as the node", Who::Node(0), How::Get, &path, &none).await;
        side.ask("", Who::Admin, How::Delete, &path, &none).await;
        side.ask("gone", slots, How::Get, &path, &none).await;
    })
    .await;
}
