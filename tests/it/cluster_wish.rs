//! `pause`, `resume`, `reboot` and `cancel` on a real API server, also as kubectl's plugin (I11).

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use kube_rebootd::cli::wish::{Again, Wish, WishError, node, slots};
use kube_rebootd::cluster::answer::ApiError;
use kube_rebootd::cluster::lease::{Leases, Took, stored};
use kube_rebootd_core::names;
use kube_rebootd_core::slot::Take;
use serde_json::json;

use crate::cli_host::{CliHost, binary, said};
use crate::plane::{Host, bin, enter, make_slot};

const NAMESPACE: &str = "kube-rebootd";

/// What stands on the host's Node under this key.
async fn stands(host: &Host, key: &str) -> Option<String> {
    let nodes: Api<Node> = Api::all(host.admin.clone());
    let node = nodes.get(&host.name).await.expect("the Node");
    node.annotations().get(key).cloned()
}

/// The Node's condition `RebootRequired`, with this reason.
async fn reports(host: &Host, reason: &str, message: &str) {
    let nodes: Api<Node> = Api::all(host.admin.clone());
    let status = json!({"status": {"conditions": [
        {"type": "RebootRequired", "status": "True", "reason": reason, "message": message,
         "lastHeartbeatTime": "2026-11-24T12:00:00Z"}]}});
    let (params, patch) = (PatchParams::default(), Patch::Strategic(status));
    let told = nodes.patch_status(&host.name, &params, &patch).await;
    told.expect("reported");
}

fn again() -> Again {
    Again {
        program: "kube-rebootd",
        options: " --context here".to_owned(),
    }
}

async fn wishes(client: &Client, name: &str, wish: &Wish) -> Result<String, WishError> {
    node(client, name, wish, &again(), Timestamp::now()).await
}

#[tokio::test]
async fn a_wish_for_a_node_is_an_annotation_and_is_told_beside_its_last_words() {
    let host = enter().host().await;
    let me = &host.name;
    let wish = async |wish: &Wish| {
        let said = wishes(&host.admin, me, wish).await.expect("done");
        let begins = format!("node {me}: ");
        let said = said.strip_prefix(&begins).map(str::to_owned);
        let said = said.expect("which node it is");
        said.lines()
            .map(|line| line.trim().to_owned())
            .collect::<Vec<_>>()
    };
    let silent = "no daemon ever reported there: does kube-rebootd run on it?";
    let pause = |why: &str| Wish::Pause(why.to_owned());
    let reboot = |why: &str| Wish::Reboot(why.to_owned());
    assert_eq!(wish(&Wish::Resume(None)).await, ["was not paused", silent]);
    assert_eq!(wish(&pause("the rack")).await, ["paused", silent]);
    let stays = "was paused before, which stays: the rack";
    assert_eq!(wish(&pause("the disks")).await[0], stays);
    assert_eq!(
        stands(&host, names::PAUSED).await.as_deref(),
        Some("the rack")
    );
    let paused = format!("but it is paused (the rack): kube-rebootd resume {me} --context here");
    let asked = "asked to reboot when it is its turn: a new kernel";
    assert_eq!(
        wish(&reboot("a new kernel")).await,
        [asked, &paused, silent]
    );
    let others = Wish::Resume(Some("the disks".to_owned()));
    assert_eq!(wish(&others).await[0], "stays paused: the rack");
    let done = "not paused any more (it was: the rack)";
    assert_eq!(wish(&Wish::Resume(None)).await[0], done);
    assert_eq!(stands(&host, names::PAUSED).await, None);

    // The first may have been served already: the second is a wish of its own.
    let again =
        "asked to reboot when it is its turn: a second one (it was asked before: a new kernel)";
    assert_eq!(wish(&reboot("a second one")).await[0], again);
    assert_eq!(
        stands(&host, names::REBOOT).await.as_deref(),
        Some("a second one")
    );
    reports(
        &host,
        "Rebooting",
        "about to reboot; asked for by node annotation (a second one)",
    )
    .await;
    let told = wish(&Wish::Cancel).await;
    assert_eq!(
        told[0],
        "not asked by annotation any more (it was: a second one)"
    );
    assert_eq!(told[1], "it may be too late: it was about to reboot");
    assert!(
        told[2].starts_with("it last said, ") && told[2].contains("ago: about to reboot"),
        "{told:?}"
    );
    assert_eq!(stands(&host, names::REBOOT).await, None);
    reports(
        &host,
        "Draining",
        "draining; asked for by sentinel /run/reboot-required",
    )
    .await;
    let goes_on = format!(
        "what else asks for its reboot goes on to do so; kube-rebootd pause {me} --context here stops it"
    );
    assert_eq!(
        wish(&Wish::Cancel).await[..2],
        ["nobody asked it by annotation".to_owned(), goes_on]
    );
    let undoes = wish(&pause("stop")).await;
    assert!(
        undoes[1].starts_with("it undoes its drain, keeps its cordon"),
        "{undoes:?}"
    );
}

#[tokio::test]
async fn i11_a_node_may_wish_for_itself_alone() {
    let plane = enter();
    let (host, other) = (plane.host().await, plane.host().await);
    let reboot = Wish::Reboot("now".to_owned());
    let own = wishes(&host.clients.node, &host.name, &reboot).await;
    assert!(own.is_ok(), "{own:?}");
    let others = wishes(&host.clients.node, &other.name, &reboot).await;
    assert!(
        matches!(others, Err(WishError::Api(ApiError::Denied { .. }))),
        "{others:?}"
    );
    let none = wishes(&host.admin, "no-such-node", &reboot).await;
    let words = none.expect_err("there is none").to_string();
    assert!(words.contains("there is no Node no-such-node"), "{words}");
}

/// On a host root means that host, by its own credential; what a person's kubeconfig would do without a name is not guessed.
#[tokio::test]
async fn i11_without_a_name_a_host_pauses_itself_and_a_person_nobody() {
    let plane = enter();
    let node = plane.host().await;
    let host = CliHost::start().await;
    host.join(plane.write_kubeconfig(&node.name));
    let coordinator = "[coordination]\nimpersonate = \"coordinator\"\n";
    host.write("/etc/kube-rebootd/config.toml", coordinator);
    let me = &node.name;
    let paused = host.run(&["pause", "--reason", "the rack"]).await;
    assert_eq!(paused.code, Some(0), "{}", paused.err);
    let says = format!("as node {me}, by the credential of this host\nnode {me}: paused\n");
    assert!(paused.out.starts_with(&says), "{}", paused.out);
    assert_eq!(
        stands(&node, names::PAUSED).await.as_deref(),
        Some("the rack")
    );
    // An admin's kubeconfig on the same host.
    let admin = plane.write_kubeconfig("admin");
    for verb in ["pause", "resume"] {
        let mut command = binary();
        command.arg("--root").arg(host.root().path("/")).arg(verb);
        let run = command.env("KUBECONFIG", &admin).output().await;
        let refused = said(run.expect("it runs"));
        assert_eq!(
            (refused.code, refused.out.as_str()),
            (Some(2), ""),
            "{}",
            refused.err
        );
        let says = format!(
            "Name NODE, --group or --all, as a person's kubeconfig is used; this host is Node {me}"
        );
        assert!(refused.err.contains(&says), "{}", refused.err);
        assert_eq!(
            stands(&node, names::PAUSED).await.as_deref(),
            Some("the rack")
        );
        let named = host.run(&[verb, "--context", "x"]).await;
        assert_eq!(named.code, Some(2), "{}", named.err);
    }
    let resumed = host.run(&["resume"]).await;
    assert_eq!(resumed.code, Some(0), "{}", resumed.err);
    assert_eq!(stands(&node, names::PAUSED).await, None);
}

/// A slot with these annotations, of the group.
async fn annotate(host: &Host, slot: &str, key: &str, value: &str) {
    let api: Api<Lease> = Api::namespaced(host.admin.clone(), NAMESPACE);
    let patch = json!({"metadata": {"annotations": {key: value}}});
    let done = api
        .patch(slot, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    done.expect("annotated");
}

#[tokio::test]
async fn a_group_is_paused_and_who_goes_on_is_told() {
    let host = enter().host().await;
    for slot in ["wish-1", "wish-2", "wish-3"] {
        make_slot(&host.admin, slot, "wish").await;
    }
    let leases = Leases::new(host.clients.coordinator.clone(), NAMESPACE, &host.name);
    let lease = async |name: &str| {
        let read = leases.get(name, Duration::ZERO).await.expect("read");
        read.expect("there")
    };
    let since = stored(Timestamp::now());
    let take = Take::of(&lease("wish-2").await, NAMESPACE, since, false);
    let taken = leases.take(&take, Duration::ZERO).await;
    assert!(matches!(taken, Took::Ours(_)), "{taken:?}");
    annotate(&host, "wish-3", names::PAUSED, "training until Friday").await;
    let wish = async |wish: &Wish| {
        let lines = slots(&host.admin, NAMESPACE, Some("wish"), wish, &again()).await;
        let lines = lines.expect("they are listed");
        lines
            .into_iter()
            .map(|line| line.expect("done"))
            .collect::<Vec<_>>()
    };
    let pause = Wish::Pause("a bad kernel".to_owned());
    let me = &host.name;
    let goes_on = format!(
        "slot wish-2: paused; {me}, which holds it, goes on, reboot included: kube-rebootd pause {me} --context here stops that one too; \
         where somebody keeps it drained it does not reboot, and a pause would end that: \
         kube-rebootd explain {me} --context here tells"
    );
    let before = "slot wish-3: was paused before, which stays: training until Friday";
    assert_eq!(
        wish(&pause).await,
        ["slot wish-1: paused", &goes_on, before]
    );
    for slot in ["wish-1", "wish-2"] {
        assert_eq!(lease(slot).await.paused.as_deref(), Some("a bad kernel"));
    }
    let own = Wish::Resume(Some("a bad kernel".to_owned()));
    let open = |slot: &str| format!("slot {slot}: open (it was paused: a bad kernel)");
    let stays = "slot wish-3: stays paused: training until Friday".to_owned();
    assert_eq!(wish(&own).await, [open("wish-1"), open("wish-2"), stays]);
    assert_eq!(lease("wish-2").await.paused, None);
    assert_eq!(lease("wish-2").await.holder.as_ref(), Some(me));
    let opened = "slot wish-3: open (it was paused: training until Friday)";
    assert_eq!(wish(&Wish::Resume(None)).await[2], opened);
    let none = slots(&host.admin, NAMESPACE, Some("no-such"), &pause, &again()).await;
    let words = none.expect_err("no slots").to_string();
    assert!(
        words.contains("no Lease of group no-such is in namespace kube-rebootd"),
        "{words}"
    );
}

/// Found by an attacker's reading: whoever may write slots could fill one, so that those after it stayed open, and put a
/// command into the line that an admin copies.
#[tokio::test]
async fn i14_a_slot_that_cannot_be_paused_keeps_no_other_open_and_a_holder_is_no_command() {
    let host = enter().host().await;
    for slot in ["full-1", "full-2"] {
        make_slot(&host.admin, slot, "full").await;
    }
    annotate(&host, "full-1", "a/b", &"x".repeat(256 * 1024 - 20)).await;
    let api: Api<Lease> = Api::namespaced(host.admin.clone(), NAMESPACE);
    let holder = json!({"spec": {"holderIdentity": "n1; reboot #"}});
    let patch = Patch::Merge(holder);
    api.patch("full-2", &PatchParams::default(), &patch)
        .await
        .expect("held");
    let pause = Wish::Pause("a bad kernel".to_owned());
    let lines = slots(&host.admin, NAMESPACE, Some("full"), &pause, &again()).await;
    let lines = lines.expect("they are listed");
    let refused = lines[0].as_ref().expect_err("there is no room").to_string();
    assert!(refused.contains("Lease full-1"), "{refused}");
    let paused = "slot full-2: paused; it is held by a name that no node can have";
    assert_eq!(lines[1].as_ref().expect("done"), paused);
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
    let mut unnamed = Command::new(bin("kubectl"));
    unnamed.args(["rebootd", "pause"]).env("PATH", dir.path());
    let unnamed = unnamed.env("KUBECONFIG", &admin).output();
    assert_eq!(unnamed.expect("kubectl runs").status.code(), Some(2));
    // It would be this machine that is drained.
    let mut drain = Command::new(bin("kubectl"));
    drain.args(["rebootd", "drain"]).env("PATH", dir.path());
    let drain = drain.output().expect("kubectl runs");
    let why = String::from_utf8_lossy(&drain.stderr);
    assert_eq!(drain.status.code(), Some(2), "{why}");
    assert!(why.contains("about the host on which it runs"), "{why}");
    let said = run(&["reboot", &host.name]);
    assert!(said.starts_with("cluster https://"), "{said}");
    let why = stands(&host, names::REBOOT).await.expect("it is asked");
    assert!(
        why.starts_with("by admin, 20") && why.ends_with('Z'),
        "{why}"
    );
    let said = run(&["cancel", &host.name]);
    assert!(
        said.contains("not asked by annotation any more (it was: by admin, "),
        "{said}"
    );
    assert_eq!(stands(&host, names::REBOOT).await, None);
}
