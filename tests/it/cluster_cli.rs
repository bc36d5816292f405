//! `nodes` and `unlock` on a real API server (I3, I4).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use kube_rebootd::cli::nodes::{What, read};
use kube_rebootd::cli::unlock::{Order, UnlockError, unlock};
use kube_rebootd::cluster::lease::{Leases, Took, stored};
use kube_rebootd_core::slot::{Fence, Take};
use serde_json::json;

use crate::cli_host::{binary, said};
use crate::plane::{Host, PORT, enter, make_slot};

#[tokio::test]
async fn unlock_clears_label_record_and_lease_and_a_node_may_not() {
    let host = enter().host().await;
    make_slot(&host.admin, "cli", "cli").await;
    let leases = Leases::new(host.clients.coordinator.clone(), "kube-rebootd", &host.name);
    let free = leases
        .get("cli", Duration::ZERO)
        .await
        .expect("read")
        .expect("there");
    let since = stored(Timestamp::now());
    let take = Take::of(&free, "kube-rebootd", since, false);
    let taken = leases.take(&take, Duration::ZERO).await;
    assert!(matches!(taken, Took::Ours(_)), "{taken:?}");
    let nodes: Api<Node> = Api::all(host.clients.node.clone());
    let marks = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": host.name,
        "labels": {"kube-rebootd/slot": "cli"},
        "annotations": {"kube-rebootd/state": "{", "kube-rebootd/history": "[]"}}});
    nodes
        .patch(
            &host.name,
            &PatchParams::apply("kube-rebootd"),
            &Patch::Apply(marks),
        )
        .await
        .expect("marked");
    let group = read(&host.admin, "kube-rebootd", "cli", Timestamp::now())
        .await
        .expect("a group");
    assert_eq!(group.rows.len(), 1);
    assert_eq!(group.rows[0].what, What::Holds("cli".to_owned()));
    assert_eq!(group.rows[0].stage.as_deref(), Some("unreadable"));

    let order = |force: bool| Order {
        namespace: "kube-rebootd",
        node: &host.name,
        force,
    };
    let refused = unlock(&host.clients.node, &order(true)).await;
    assert!(
        matches!(refused, Err(UnlockError::NodeIdentity { .. })),
        "{refused:?}"
    );
    // Its daemon works, as far as anybody can tell: only a person who insists takes the slot from it.
    report(&host, "True").await;
    let refused = unlock(&host.admin, &order(false)).await;
    let words = refused.map(drop).expect_err("refused").to_string();
    assert!(
        words.contains("is Ready and holds cli") && words.contains("--force"),
        "{words}"
    );
    let lease = leases.get("cli", Duration::ZERO).await.expect("read");
    assert_eq!(lease.expect("there").holder.as_ref(), Some(&host.name));
    // As the lifecycle controller leaves a node that is silent. Right before, it said that it goes down: it may be in the
    // middle of its reboot.
    report(&host, "Unknown").await;
    let held = leases.get("cli", Duration::ZERO).await.expect("read");
    let held = held.expect("there");
    let fence = Fence {
        lease: held.name.clone(),
        resource_version: held.resource_version.clone(),
        words: "goes down now".to_owned(),
    };
    leases.fence(&fence, Duration::ZERO).await.expect("fenced");
    let refused = unlock(&host.admin, &order(false)).await;
    let words = refused.map(drop).expect_err("refused").to_string();
    assert!(
        words.contains("said that it goes down: goes down now") && words.contains("--force"),
        "{words}"
    );
    let marked = nodes.get(&host.name).await.expect("the Node");
    assert!(
        marked.labels().contains_key("kube-rebootd/slot"),
        "nothing is touched"
    );
    let done = unlock(&host.admin, &order(true)).await.expect("unlocked");
    assert!(done.node);
    assert_eq!(done.leases, ["cli"]);
    let node = nodes.get(&host.name).await.expect("the Node");
    assert!(!node.labels().contains_key("kube-rebootd/slot"));
    assert!(!node.annotations().contains_key("kube-rebootd/state"));
    assert!(node.annotations().contains_key("kube-rebootd/history"));
    let lease = leases
        .get("cli", Duration::ZERO)
        .await
        .expect("read")
        .expect("there");
    assert_eq!((lease.holder, lease.acquire_time), (None, None));
    report(&host, "True").await;
    let again = unlock(&host.admin, &order(false))
        .await
        .expect("nothing to do");
    assert!(!again.node && again.leases.is_empty());
}

/// The Node's condition Ready.
async fn report(host: &Host, ready: &str) {
    let nodes: Api<Node> = Api::all(host.admin.clone());
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
    let params = PatchParams::default();
    nodes
        .patch_status(&host.name, &params, &Patch::Merge(status))
        .await
        .expect("reported");
}

#[tokio::test]
async fn a_persons_verbs_find_the_cluster_as_kubectl_does_and_say_which_it_is() {
    let plane = enter();
    let host = plane.host().await;
    make_slot(&host.admin, "cli-force", "cli-force").await;
    let leases = Leases::new(host.clients.coordinator.clone(), "kube-rebootd", &host.name);
    let free = leases.get("cli-force", Duration::ZERO).await.expect("read");
    let since = stored(Timestamp::now());
    let take = Take::of(&free.expect("there"), "kube-rebootd", since, false);
    let taken = leases.take(&take, Duration::ZERO).await;
    assert!(matches!(taken, Took::Ours(_)), "{taken:?}");
    report(&host, "True").await;

    // Users and clusters in files of their own; the first current context counts, unless one is named.
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let cluster = format!("{{server: 'https://127.0.0.1:{PORT}', insecure-skip-tls-verify: true}}");
    let one = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: nowhere\nclusters:\n- name: c\n  cluster: {cluster}\n- name: n\n  cluster: {{server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}\ncontexts:\n- name: nowhere\n  context: {{cluster: n, user: u}}\n"
    );
    let two = "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts:\n- name: here\n  context: {cluster: c, user: u}\nusers:\n- name: u\n  user: {token: admin}\n";
    std::fs::write(path("one"), one).expect("written");
    std::fs::write(path("two"), two).expect("written");
    let both = [path("missing"), path("one"), path("two")];
    let both = std::env::join_paths(both).expect("no colon");
    let run = async |words: &[&str]| {
        let mut command = binary();
        command
            .arg("--root")
            .arg(dir.path())
            .args(words)
            .env("KUBECONFIG", &both);
        said(command.output().await.expect("it runs"))
    };
    let wrong = run(&["unlock", &host.name]).await;
    assert_eq!(wrong.code, Some(1), "{}", wrong.err);
    assert_eq!(wrong.out, "cluster https://127.0.0.1:1, context nowhere\n");
    let refused = run(&["unlock", &host.name, "--context", "here"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    let begins = format!("cluster https://127.0.0.1:{PORT}, context here\n");
    assert_eq!(refused.out, begins);
    assert!(
        refused.err.contains("is Ready and holds cli-force"),
        "{}",
        refused.err
    );
    let none = run(&["unlock", &host.name, "--context", "none"]).await;
    assert!(none.err.contains("none"), "{}", none.err);
    let words = ["unlock", &host.name, "--context", "here", "--force"];
    let freed = run(&words).await;
    assert_eq!(freed.code, Some(0), "{}", freed.err);
    assert!(freed.out.starts_with(&begins), "{}", freed.out);
    assert!(freed.out.contains("slot cli-force: free"), "{}", freed.out);

    // Without $KUBECONFIG it is the file of the home directory.
    std::fs::create_dir(path(".kube")).expect("made");
    std::fs::copy(plane.write_kubeconfig("admin"), path(".kube/config")).expect("copied");
    let mut command = binary();
    command
        .arg("--root")
        .arg(dir.path())
        .args(["nodes", "--group", "cli-force"])
        .env("HOME", dir.path());
    let nodes = said(command.output().await.expect("it runs"));
    assert_eq!(nodes.code, Some(0), "{}", nodes.err);
    assert!(nodes.out.contains("cli-force"), "{}", nodes.out);
}

/// Found by an operator's reading: who may see Nodes and no Leases was shown nothing at all.
#[tokio::test]
async fn who_sees_no_leases_sees_the_nodes() {
    let plane = enter();
    let host = plane.host().await;
    // The name of no slot would keep all other tests' daemons waiting.
    make_slot(&host.admin, "not-seen", "not-seen").await;
    let label = json!({"metadata": {"labels": {"kube-rebootd/slot": "not-seen"}}});
    let nodes: Api<Node> = Api::all(host.clients.node.clone());
    let (params, label) = (PatchParams::default(), Patch::Merge(label));
    nodes
        .patch(&host.name, &params, &label)
        .await
        .expect("labelled");
    let rights = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: sees-nodes}\nrules:\n- {apiGroups: [''], resources: [nodes], verbs: [list]}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: sees-nodes}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sees-nodes}\nsubjects:\n- {apiGroup: rbac.authorization.k8s.io, kind: User, name: sees-nodes}\n";
    plane.kubectl(&["apply", "-f", "-"], rights);
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\nclusters:\n- name: c\n  cluster: {{server: 'https://127.0.0.1:{PORT}', insecure-skip-tls-verify: true}}\ncontexts:\n- name: here\n  context: {{cluster: c, user: u}}\nusers:\n- name: u\n  user: {{token: admin, as: sees-nodes}}\n"
    );
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config");
    std::fs::write(&file, config).expect("written");
    let run = async |words: &[&str]| {
        let mut command = binary();
        command.arg("--root").arg(dir.path()).args(words);
        said(
            command
                .env("KUBECONFIG", &file)
                .output()
                .await
                .expect("it runs"),
        )
    };
    let all = run(&["nodes"]).await;
    assert_eq!(all.code, Some(4), "{}{}", all.out, all.err);
    assert!(
        all.out
            .contains("claims not-seen, whose Lease cannot be seen"),
        "{}",
        all.out
    );
    assert!(
        all.out.contains("no report from kube-rebootd"),
        "{}",
        all.out
    );
    assert!(
        all.err.contains("list Leases: denied (403)") && all.err.contains("list waiters: denied"),
        "{}",
        all.err
    );
    let sick = run(&["nodes", "--unhealthy"]).await;
    assert_eq!(
        sick.code,
        Some(1),
        "not all is seen: {}{}",
        sick.out,
        sick.err
    );
    let json = run(&["nodes", "--json"]).await;
    let json: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(json["hidden"].as_array().map(Vec::len), Some(2));
    nodes
        .patch(
            &host.name,
            &params,
            &Patch::Merge(json!({"metadata": {"labels": {"kube-rebootd/slot": null}}})),
        )
        .await
        .expect("taken off");
}

/// Found by an attacker's reading: where no file of $KUBECONFIG existed, or the context that was named, root on a node changed
/// this host's own cluster.
#[tokio::test]
async fn who_names_another_cluster_never_changes_this_hosts() {
    let dir = tempfile::tempdir().expect("a directory");
    for (words, file) in [
        (&["resume", "--all"][..], Some("/no/such")),
        (&["resume", "--all", "--context", "staging"], None),
    ] {
        let mut command = binary();
        command.arg("--root").arg(dir.path()).args(words);
        if let Some(file) = file {
            command.env("KUBECONFIG", file);
        }
        let said = said(command.output().await.expect("it runs"));
        assert_eq!(
            (said.code, said.out.as_str()),
            (Some(1), ""),
            "{}",
            said.err
        );
        let named =
            said.err.contains("$KUBECONFIG names it") || said.err.contains("no context staging");
        assert!(named, "{}", said.err);
    }
}
