//! `explain NODE`, `nodes --slo` and `nodes --watch` on a real API server, as an admin and as somebody who may see little (I9, I11).

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;

use k8s_openapi::api::core::v1::{Event, Node};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::ChildStdout;

use crate::cli_host::{Said, binary, said};
use crate::plane::{Host, PORT, SOON, enter, make_slot};

/// What the host's daemon would show: its words, its history and an Event.
async fn told(host: &Host, group: &str) {
    let nodes: Api<Node> = Api::all(host.admin.clone());
    let now = jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let history = json!([{"at": "2026-01-02T04:00:00Z", "automatic": true, "reasons": ["builtin kernel"],
        "since": ["2026-01-01T04:00:00Z"], "times": {"slot": 86_000, "drain": 60, "boot": 40}}]);
    let annotations = json!({"metadata": {"annotations": {"kube-rebootd/group": group,
        "kube-rebootd/history": history.to_string(), "kube-rebootd/reboot": "new firmware"}}});
    let params = PatchParams::default();
    let patch = Patch::Merge(annotations);
    nodes
        .patch(&host.name, &params, &patch)
        .await
        .expect("annotated");
    let condition = json!({"status": {"conditions": [{"type": "RebootRequired", "status": "True", "reason": "Unhealthy",
        "message": "not healthy", "lastHeartbeatTime": now, "lastTransitionTime": now}]}});
    let patch = Patch::Strategic(condition);
    nodes
        .patch_status(&host.name, &params, &patch)
        .await
        .expect("told");
    let events: Api<Event> = Api::namespaced(host.admin.clone(), "default");
    for (component, name) in [("kube-rebootd", "ours"), ("kubelet", "theirs")] {
        let event = json!({"metadata": {"name": format!("{}.{name}", host.name), "namespace": "default"},
            "involvedObject": {"kind": "Node", "name": host.name}, "reason": name, "message": "words", "type": "Warning",
            "count": 3, "lastTimestamp": now, "source": {"component": component}});
        let event: Event = serde_json::from_value(event).expect("an Event");
        events
            .create(&PostParams::default(), &event)
            .await
            .expect("written");
    }
}

async fn run(words: &[&str], kubeconfig: &Path) -> Said {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = binary();
    command.arg("--root").arg(dir.path()).args(words);
    let done = command.env("KUBECONFIG", kubeconfig).output().await;
    said(done.expect("it runs"))
}

fn parsed(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|err| panic!("{err}: {}{}", said.out, said.err))
}

#[tokio::test]
async fn i9_a_node_is_explained_from_anywhere() {
    let plane = enter();
    let host = plane.host().await;
    make_slot(&host.admin, "explained", "explained").await;
    told(&host, "explained").await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{}-p", host.name), "namespace": "default"},
        "spec": {"nodeName": host.name, "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], "tolerations": [{"operator": "Exists"}]}});
    plane.kubectl(&["create", "-f", "-"], &pod.to_string());
    let admin = plane.write_kubeconfig("admin");
    let seen = run(&["explain", &host.name, "--json"], &admin).await;
    assert_eq!(seen.code, Some(1), "a person has to look: {}", seen.err);
    let json = parsed(&seen);
    assert_eq!(json["person"], "not healthy");
    assert_eq!(json["wish"], "new firmware");
    assert_eq!(
        (&json["slots_of"], &json["slots"][0]["slot"]),
        (&json!("explained"), &json!("explained"))
    );
    assert_eq!(json["hidden"], json!([]), "an admin sees all");
    let events = json["events"].as_array().expect("Events");
    assert_eq!(
        (events.len(), &events[0]["reason"], &events[0]["count"]),
        (1, &json!("ours"), &json!(3))
    );
    // Nobody controls it.
    assert_eq!(
        json["drain"]["pods"][0]["fate"], "blocks",
        "{}",
        json["drain"]
    );
    let page = run(&["explain", &host.name], &admin).await;
    assert!(
        page.out.contains("person     ! not healthy"),
        "{}",
        page.out
    );
    plane.kubectl(&["get", "pod", &format!("{}-p", host.name)], "");
    let none = run(&["explain", "no-such-node"], &admin).await;
    assert_eq!(
        (none.code, none.out.as_str()),
        (Some(1), ""),
        "{}",
        none.err
    );
    assert!(
        none.err.contains("there is no Node no-such-node"),
        "{}",
        none.err
    );
    for words in [&["explain", "../pods"][..], &["explain", "--context", "x"]] {
        assert_eq!(run(words, &admin).await.code, Some(2), "{words:?}");
    }
}

/// What a person may not try is not known: it is the node that drains.
#[tokio::test]
async fn what_a_person_may_not_read_is_named_with_its_right() {
    let plane = enter();
    let host = plane.host().await;
    told(&host, "default").await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{}-q", host.name), "namespace": "default",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]},
        "spec": {"nodeName": host.name, "containers": [{"name": "c", "image": "i"}], "tolerations": [{"operator": "Exists"}]}});
    plane.kubectl(&["create", "-f", "-"], &pod.to_string());
    let rights = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: explains}\nrules:\n- {apiGroups: [''], resources: [nodes, pods], verbs: [get, list]}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: explains}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: explains}\nsubjects:\n- {apiGroup: rbac.authorization.k8s.io, kind: User, name: explains}\n";
    plane.kubectl(&["apply", "-f", "-"], rights);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config");
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\nclusters:\n- name: c\n  cluster: {{server: 'https://127.0.0.1:{PORT}', insecure-skip-tls-verify: true}}\ncontexts:\n- name: here\n  context: {{cluster: c, user: u}}\nusers:\n- name: u\n  user: {{token: admin, as: explains}}\n"
    );
    std::fs::write(&file, config).expect("written");
    let seen = run(&["explain", &host.name, "--json"], &file).await;
    let json = parsed(&seen);
    let hidden = json["hidden"].as_array().expect("a list");
    let rights: Vec<&str> = hidden
        .iter()
        .filter_map(|one| one["right"].as_str())
        .collect();
    assert_eq!(
        rights,
        [
            "list Leases in the namespace kube-rebootd",
            "list Leases in the namespace kube-node-lease",
            "list Events in the namespace default"
        ]
    );
    let pod = &json["drain"]["pods"][0];
    assert_eq!(pod["fate"], "unknown", "{pod}");
    let why = pod["why"].as_str().unwrap_or_default();
    assert!(
        why.contains("the right to create pods/eviction in the namespace default"),
        "{why}"
    );
    let page = run(&["explain", &host.name], &file).await;
    assert!(
        page.out
            .contains("it wants the right to list Events in the namespace default"),
        "{}",
        page.out
    );
}

/// The share of nodes that were proved in time, of those that tell.
#[tokio::test]
async fn who_was_rebooted_in_time_is_told_by_group() {
    let plane = enter();
    let (late, never) = (plane.host().await, plane.host().await);
    make_slot(&late.admin, "slo", "slo").await;
    told(&late, "slo").await;
    let nodes: Api<Node> = Api::all(never.admin.clone());
    let group = json!({"metadata": {"annotations": {"kube-rebootd/group": "slo"}}});
    let patch = Patch::Merge(group);
    nodes
        .patch(&never.name, &PatchParams::default(), &patch)
        .await
        .expect("annotated");
    let admin = plane.write_kubeconfig("admin");
    let slo = async |limit: &str| {
        let seen = run(
            &["nodes", "--group", "slo", "--slo", limit, "--json"],
            &admin,
        )
        .await;
        assert_eq!(seen.code, Some(0), "{}", seen.err);
        parsed(&seen)["slo"].clone()
    };
    // 24 h from the first reason to the proof.
    let (within, without) = (slo("1d").await, slo("23h").await);
    assert_eq!(
        (&within["within"], &within["known"], &within["percent"]),
        (&json!(1), &json!(1), &json!(100))
    );
    assert_eq!(
        (&without["within"], &without["percent"]),
        (&json!(0), &json!(0))
    );
    // Nodes of other tests that need a person, and tell no group, may be among them.
    let unknown = without["unknown"].as_u64();
    assert!(unknown >= Some(1), "{unknown:?}");
    assert_eq!(without["nodes"][0]["node"], late.name.as_str());
    assert_eq!(without["nodes"][0]["seconds"], 86_400);
    let page = run(&["nodes", "--group", "slo", "--slo", "23h"], &admin).await;
    assert!(
        page.out.starts_with("within 23h: 0 of 1 nodes (0 %)\n"),
        "{}",
        page.out
    );
    let usage = run(&["nodes", "--slo", "soon"], &admin).await;
    assert_eq!(usage.code, Some(2), "{}", usage.out);
}

/// The lines of a process, until one has these words.
async fn until(lines: &mut Lines<BufReader<ChildStdout>>, words: &str) -> String {
    let found = async {
        while let Some(line) = lines.next_line().await.expect("it is read") {
            if line.contains(words) {
                return line;
            }
        }
        panic!("it ended without {words}");
    };
    let found = tokio::time::timeout(SOON, found).await;
    found.unwrap_or_else(|_| panic!("no line with {words}"))
}

#[tokio::test]
async fn what_changes_is_told_until_ctrl_c() {
    let plane = enter();
    let host = plane.host().await;
    make_slot(&host.admin, "watched", "watched").await;
    told(&host, "watched").await;
    let admin = plane.write_kubeconfig("admin");
    for json in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = binary();
        command.arg("--root").arg(dir.path());
        command.args(["nodes", "--watch", "--group", "watched"]);
        command.args(json.then_some("--json"));
        command.env("KUBECONFIG", &admin).stdout(Stdio::piped());
        let mut watch = command.spawn().expect("it runs");
        let out = watch.stdout.take().expect("its output");
        let mut lines = BufReader::new(out).lines();
        until(
            &mut lines,
            if json {
                "\"group\":\"watched\""
            } else {
                "slot watched: "
            },
        )
        .await;
        let why = format!("json {json}");
        let lease = [
            "-n",
            "kube-rebootd",
            "annotate",
            "--overwrite",
            "lease",
            "watched",
        ];
        let words = format!("kube-rebootd/paused={why}");
        plane.kubectl(&[&lease[..], &[words.as_str()]].concat(), "");
        let line = until(&mut lines, &why).await;
        if json {
            let document: Value = serde_json::from_str(&line).expect("JSON");
            assert_eq!(document["slots"][0]["paused"], why);
        } else {
            assert!(line.ends_with("slot watched: paused: json false"), "{line}");
        }
        let pid = watch.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = nix::unistd::Pid::from_raw(pid.expect("a pid"));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("signalled");
        let ended = tokio::time::timeout(SOON, watch.wait()).await;
        let ended = ended.expect("it ends soon").expect("a status");
        // A shell makes 130 of it.
        assert_eq!(ended.signal(), Some(2), "{ended}");
    }
}
