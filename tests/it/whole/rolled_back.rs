//! An update that did not take: the host comes up healthy with the deployment of before (docs/design.md 9; I8, I10).

use std::time::Duration;

use kube_rebootd_core::names;
use serde_json::{Value, json};

use super::host::Order;
use super::world::{HOUR, MINUTE, World};

const STAGED: &str = "/run/ostree/staged-deployment";
const SAID: &str = "the update did not take: deployment bbbbbbbbbbbb.0 was to come up, and aaaaaaaaaaaa.0 came again";

fn deployment(digit: char) -> String {
    format!("{}.0", digit.to_string().repeat(64))
}

/// The root of the next boot; the daemon reads it when it starts.
fn deployed(world: &World, digit: char) {
    let line = format!(
        "24 1 252:4 /ostree/deploy/fcos/deploy/{} / rw,relatime shared:1 - xfs /dev/vda4 rw\n",
        deployment(digit)
    );
    world.hosts[0].write("/proc/self/mountinfo", &line);
}

/// As ostree does for its own shutdown service.
fn stage(world: &World, digit: char) {
    let text = format!("target\0\0name\0\0\0\0{}\0\0s", deployment(digit));
    world.hosts[0].write(STAGED, &text);
}

/// What is staged is so for one boot.
async fn boots(world: &World, times: u64) {
    world
        .until("it has booted", HOUR, |world| world.boots(0) == times)
        .await;
    let _ = std::fs::remove_file(world.hosts[0].path(STAGED));
}

/// Deployment a runs, and the daemon knows.
async fn of_a() -> World {
    let world = World::new(2, 1).await;
    deployed(&world, 'a');
    world.hosts[0].order(Order::Kill(Duration::from_secs(1)));
    world.pass(MINUTE).await;
    world
}

fn reason(world: &World) -> Value {
    let conditions = world.node(0)["status"]["conditions"].clone();
    let conditions = conditions.as_array().cloned().unwrap_or_default();
    let ours = |one: &&Value| one["type"] == "RebootRequired";
    conditions
        .iter()
        .find(ours)
        .map_or(Value::Null, |one| one["reason"].clone())
}

/// The reboots on the Node, the newest first.
fn history(world: &World) -> Value {
    let node = world.node(0);
    let text = node["metadata"]["annotations"][names::HISTORY].as_str();
    text.map_or(Value::Null, |text| {
        serde_json::from_str(text).expect("a history")
    })
}

/// Deployment b was staged, and a came again.
async fn rolled_back(lost: bool) -> World {
    let world = of_a().await;
    stage(&world, 'b');
    world.want(0);
    boots(&world, 1).await;
    if lost {
        let state = "/var/lib/kube-rebootd/state.json";
        std::fs::remove_file(world.hosts[0].path(state)).unwrap();
    }
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    world
}

#[tokio::test(start_paused = true)]
async fn i10_an_update_that_did_not_take_is_told_and_not_tried_again_until_another_is_staged() {
    let world = rolled_back(false).await;
    world.require(world.said(0, SAID), "the journal tells it");
    world.require(reason(&world) == "RolledBack", "and so does the Node");
    let words = SAID.trim_start_matches("the update did not take: ");
    let last = history(&world)[0]["rolled_back"].clone();
    world.require(last == words, "the history keeps it");
    world.pass(2 * HOUR).await;
    world.require(reason(&world) == "RolledBack", "for as long as it is so");
    // The updater stages it anew, and asks.
    stage(&world, 'b');
    world.want(0);
    world.pass(2 * HOUR).await;
    world.require(world.boots(0) == 1, "it would come to nothing again");
    stage(&world, 'c');
    world.until_phase(0, "Rebooting", HOUR).await;
    deployed(&world, 'c');
    boots(&world, 2).await;
    world.until_rebooted(&[0], 2, 10 * MINUTE).await;
    world.require(reason(&world) == "Idle", "the next one took");
    let history = history(&world);
    world.require(
        history[0]["rolled_back"].is_null() && history[1]["rolled_back"] == words,
        "and each is told apart",
    );
}

/// Without the state file the Node alone tells what had come up before, and what was staged.
#[tokio::test(start_paused = true)]
async fn i6_an_update_that_did_not_take_is_known_without_the_state_file() {
    let world = rolled_back(true).await;
    world.require(world.said(0, SAID), "the journal tells it");
    world.require(reason(&world) == "RolledBack", "and so does the Node");
}

#[tokio::test(start_paused = true)]
async fn a_person_has_what_did_not_take_tried_again() {
    let world = rolled_back(false).await;
    stage(&world, 'b');
    let annotations = json!({(names::REBOOT): "the disk has room now"});
    world.server.set(|state| {
        state.edit(("nodes", "", "n0"), "kubectl-annotate", |node| {
            node["metadata"]["annotations"] = annotations.clone();
        });
    });
    world.until_phase(0, "Rebooting", HOUR).await;
    deployed(&world, 'b');
    boots(&world, 2).await;
    world.until_rebooted(&[0], 2, 10 * MINUTE).await;
    world.require(reason(&world) == "Idle", "it took");
}

#[tokio::test(start_paused = true)]
async fn i8_a_reboot_that_was_to_bring_nothing_new_is_no_rollback() {
    let world = of_a().await;
    world.want(0);
    boots(&world, 1).await;
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    world.require(!world.said(0, "did not take"), "nothing was staged");
    let came = "deployment aaaaaaaaaaaa.0 came up";
    world.require(world.said(0, came), "what came up is told all the same");
    world.require(reason(&world) == "Idle", "all is well");
}

/// Zincati stages a deployment long before the node's turn, and locks it: a reboot for something else brings the old one.
#[tokio::test(start_paused = true)]
async fn i8_a_deployment_that_is_locked_is_not_expected() {
    let world = of_a().await;
    stage(&world, 'b');
    world.hosts[0].write("/run/ostree/staged-deployment-locked", "");
    world.want(0);
    boots(&world, 1).await;
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    world.require(!world.said(0, "did not take"), "it was not to come yet");
}
