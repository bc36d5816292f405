//! `pause`, `resume`, `reboot` and `cancel` on a real API server, also as kubectl's plugin (I11).

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use kube_rebootd::cli::wish::{Wish, node, slots};
use kube_rebootd::cluster::answer::ApiError;
use kube_rebootd::cluster::lease::{Leases, Took, stored};
use kube_rebootd_core::names;
use kube_rebootd_core::slot::Take;
use serde_json::json;

use crate::plane::{Host, bin, enter, make_slot};

const NAMESPACE: &str = "kube-rebootd";

/// What stands on the host's Node under this key.
async fn stands(host: &Host, key: &str) -> Option<String> {
    let nodes: Api<Node> = Api::all(host.admin.clone());
    let node = nodes.get(&host.name).await.expect("the Node");
    node.annotations().get(key).cloned()
}

/// The Node's condition `RebootRequired`, with this reason.
async fn reports(host: &Host, reason: &str) {
    let nodes: Api<Node> = Api::all(host.admin.clone());
    let status = json!({"status": {"conditions": [
        {"type": "RebootRequired", "status": "True", "reason": reason}]}});
    let (params, patch) = (PatchParams::default(), Patch::Strategic(status));
    let told = nodes.patch_status(&host.name, &params, &patch).await;
    told.expect("reported");
}

#[tokio::test]
async fn a_wish_for_a_node_is_an_annotation_and_those_of_others_stay() {
    let host = enter().host().await;
    let wish = async |wish: &Wish| {
        let line = node(&host.admin, &host.name, wish).await.expect("done");
        let begins = format!("node {}: ", host.name);
        let line = line.strip_prefix(&begins).map(str::to_owned);
        line.expect("which node it is")
    };
    let silent = "; no daemon ever reported there: does kube-rebootd run on it?";
    let pause = |why: &str| Wish::Pause(why.to_owned());
    assert_eq!(wish(&Wish::Resume).await, "was not paused");
    assert_eq!(wish(&pause("the rack")).await, format!("paused{silent}"));
    let stays = "was paused before, which stays: the rack";
    assert_eq!(wish(&pause("the disks")).await, stays);
    assert_eq!(
        stands(&host, names::PAUSED).await.as_deref(),
        Some("the rack")
    );
    reports(&host, "Idle").await;
    let done = "not paused any more (it was: the rack)";
    assert_eq!(wish(&Wish::Resume).await, done);
    assert_eq!(stands(&host, names::PAUSED).await, None);

    let reboot = Wish::Reboot("a new kernel".to_owned());
    let asked = "asked to reboot when it is its turn: a new kernel";
    assert_eq!(wish(&reboot).await, asked);
    assert_eq!(
        stands(&host, names::REBOOT).await.as_deref(),
        Some("a new kernel")
    );
    let again = "was asked before, which stays: a new kernel";
    assert_eq!(wish(&Wish::Reboot("more".to_owned())).await, again);
    reports(&host, "Rebooting").await;
    let late =
        "not asked any more (it was: a new kernel); its host goes down now, too late to be stopped";
    assert_eq!(wish(&Wish::Cancel).await, late);
    assert_eq!(stands(&host, names::REBOOT).await, None);
    reports(&host, "Queued").await;
    let other = wish(&Wish::Cancel).await;
    assert!(
        other.starts_with("nobody asked it by annotation; what else asks it stays"),
        "{other}"
    );
}

#[tokio::test]
async fn i11_a_node_may_wish_for_itself_alone() {
    let plane = enter();
    let (host, other) = (plane.host().await, plane.host().await);
    let reboot = Wish::Reboot("now".to_owned());
    let own = node(&host.clients.node, &host.name, &reboot).await;
    assert!(own.is_ok(), "{own:?}");
    let others = node(&host.clients.node, &other.name, &reboot).await;
    assert!(matches!(others, Err(ApiError::Denied { .. })), "{others:?}");
    let none = node(&host.admin, "no-such-node", &reboot).await;
    let words = none.expect_err("there is none").to_string();
    assert!(words.contains("there is no such Node"), "{words}");
}

#[tokio::test]
async fn a_group_is_paused_and_who_goes_on_is_told() {
    let host = enter().host().await;
    for slot in ["wish-1", "wish-2"] {
        make_slot(&host.admin, slot, "wish").await;
    }
    let leases = Leases::new(host.clients.coordinator.clone(), NAMESPACE, &host.name);
    let lease = async |name: &str| {
        let read = leases.get(name, Duration::ZERO).await.expect("read");
        read.expect("there")
    };
    let since = stored(jiff::Timestamp::now());
    let take = Take::of(&lease("wish-2").await, NAMESPACE, since, false);
    let taken = leases.take(&take, Duration::ZERO).await;
    assert!(matches!(taken, Took::Ours(_)), "{taken:?}");
    let wish = async |wish: &Wish| slots(&host.admin, NAMESPACE, Some("wish"), wish).await;
    let pause = Wish::Pause("a bad kernel".to_owned());
    let me = &host.name;
    let goes_on = format!(
        "slot wish-2: paused; {me}, which holds it, goes on, reboot included: kube-rebootd pause {me} stops that one too"
    );
    let lines = wish(&pause).await.expect("done");
    assert_eq!(lines, ["slot wish-1: paused".to_owned(), goes_on]);
    for slot in ["wish-1", "wish-2"] {
        assert_eq!(lease(slot).await.paused.as_deref(), Some("a bad kernel"));
    }
    let lines = wish(&Wish::Resume).await.expect("done");
    let open = |slot: &str| format!("slot {slot}: open (it was paused: a bad kernel)");
    assert_eq!(lines, [open("wish-1"), open("wish-2")]);
    assert_eq!(lease("wish-2").await.paused, None);
    assert_eq!(lease("wish-2").await.holder.as_ref(), Some(me));
    let none = slots(&host.admin, NAMESPACE, Some("no-such"), &pause).await;
    let words = none.expect_err("no slots").to_string();
    assert!(
        words.contains("no Lease of group no-such is in namespace kube-rebootd"),
        "{words}"
    );
}

/// What packages install beside the program is found by the real kubectl, shows only what works from anywhere, and says who
/// asked.
#[tokio::test]
async fn kubectl_has_it_as_a_plugin() {
    let plane = enter();
    let host = plane.host().await;
    let dir = tempfile::tempdir().expect("a directory");
    let program = env!("CARGO_BIN_EXE_kube-rebootd");
    symlink(program, dir.path().join("kubectl-rebootd")).expect("linked");
    let admin = plane.write_kubeconfig("admin");
    let run = |words: &[&str]| {
        let mut command = Command::new(bin("kubectl"));
        command.arg("rebootd").args(words).env("PATH", dir.path());
        command.env("KUBECONFIG", &admin);
        let done = command.output().expect("kubectl runs");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(
            done.status.success(),
            "{text}{}",
            String::from_utf8_lossy(&done.stderr)
        );
        text
    };
    let help = run(&["--help"]);
    assert!(help.contains("Usage: kubectl rebootd"), "{help}");
    assert!(
        help.contains("\n  pause ") && !help.contains("\n  doctor "),
        "{help}"
    );
    let said = run(&["reboot", &host.name]);
    assert!(said.starts_with("cluster https://"), "{said}");
    let why = stands(&host, names::REBOOT).await.expect("it is asked");
    assert!(
        why.starts_with("by admin, 20") && why.ends_with('Z'),
        "{why}"
    );
    run(&["cancel", &host.name]);
    assert_eq!(stands(&host, names::REBOOT).await, None);
}
