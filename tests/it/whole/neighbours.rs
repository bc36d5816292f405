//! Others who say something of the Node, at each moment at which gates are looked at (I2, I3): autoscalers by their taints,
//! node-problem-detector by conditions.

use serde_json::{Value, json};

use super::cluster::Pod;
use super::world::{HOUR, MINUTE, World};

const DEADLOCK: &str = "[gates]\nconditions = [\"KernelDeadlock\"]\n";

fn edit(world: &World, change: impl FnOnce(&mut Value)) {
    let server = &world.server;
    server.set(|state| state.edit(("nodes", "", "n0"), "neighbour", change));
}

fn report(world: &World, kind: &str, status: &str) {
    edit(world, |node| {
        let all = node["status"]["conditions"].as_array_mut().unwrap();
        all.retain(|one| one["type"] != kind);
        all.push(json!({"type": kind, "status": status}));
    });
}

fn taint(world: &World, key: &str) {
    edit(world, |node| {
        let mut taints = node["spec"]["taints"].as_array().cloned();
        let taints = taints.get_or_insert_default();
        taints.push(json!({"key": key, "effect": "NoSchedule"}));
        node["spec"]["taints"] = json!(taints);
    });
}

fn untaint(world: &World) {
    edit(world, |node| {
        node["spec"].as_object_mut().unwrap().remove("taints");
    });
}

/// Nothing is held, nothing was rebooted.
fn untouched(world: &World) -> bool {
    world.holder("default").is_none() && !world.cordoned(0) && world.boots(0) == 0
}

#[tokio::test(start_paused = true)]
async fn i2_a_reboot_waits_while_a_condition_of_the_node_is_unwanted() {
    let world = World::pair(DEADLOCK).await;
    report(&world, "KernelDeadlock", "Unknown");
    world.want(0);
    world.pass(HOUR).await;
    world.require(untouched(&world), "nothing is begun");
    let why =
        "reboot pending: a condition of the Node speaks against it: KernelDeadlock is Unknown";
    world.require(world.said(0, why), "it says which");
    report(&world, "KernelDeadlock", "False");
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
}

#[tokio::test(start_paused = true)]
async fn i2_i3_a_hold_is_undone_when_a_condition_becomes_unwanted() {
    for phase in ["Claiming", "Draining", "Rebooting"] {
        let world = World::pair(DEADLOCK).await;
        Pod::new("web", "n0").make(&world.server);
        world.want(0);
        world.until_phase(0, phase, 5 * MINUTE).await;
        report(&world, "KernelDeadlock", "True");
        world
            .until(&format!("undone from {phase}"), MINUTE, untouched)
            .await;
        world.pass(HOUR).await;
        world.require(untouched(&world), phase);
        report(&world, "KernelDeadlock", "False");
        world.until_rebooted(&[0], 1, HOUR).await;
    }
}

#[tokio::test(start_paused = true)]
async fn i2_i3_nothing_begins_on_a_node_that_an_autoscaler_removes() {
    for key in ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disruption"] {
        for claiming in [false, true] {
            let world = World::pair("").await;
            if claiming {
                world.want(0);
                world.until_phase(0, "Claiming", 5 * MINUTE).await;
            }
            taint(&world, key);
            world.want(0);
            world.until("nothing is held", MINUTE, untouched).await;
            world.pass(HOUR).await;
            world.require(untouched(&world), "nothing is begun");
            let why = format!("an autoscaler is about to remove this node: taint {key}");
            world.require(world.said(0, &why), "it says why");
            untaint(&world);
            world.until_rebooted(&[0], 1, HOUR).await;
        }
    }
}

/// cluster-autoscaler may leave the taint on a node that it does not remove.
#[tokio::test(start_paused = true)]
async fn a_node_that_stays_a_candidate_of_an_autoscaler_is_not_kept_waiting_for_ever() {
    let world = World::pair("").await;
    taint(&world, "DeletionCandidateOfClusterAutoscaler");
    world.want(0);
    world.pass(28 * MINUTE).await;
    world.require(untouched(&world), "nothing is begun");
    let why =
        "an autoscaler is about to remove this node: taint DeletionCandidateOfClusterAutoscaler";
    world.require(world.said(0, why), "it says why");
    world
        .until("it has rebooted", 10 * MINUTE, |world| world.boots(0) == 1)
        .await;
}

/// A drained node is the first that an autoscaler thinks is not needed: were the drain undone for that, it would begin again
/// as soon as pods were back, for ever.
#[tokio::test(start_paused = true)]
async fn a_drain_goes_on_when_an_autoscaler_marks_what_it_has_emptied() {
    let world = World::pair("").await;
    Pod {
        ends: 300,
        grace: 600,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", 5 * MINUTE).await;
    taint(&world, "DeletionCandidateOfClusterAutoscaler");
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
}

/// A node that takes no pods is down for whoever waits for room: the next one does not go before it is back.
#[tokio::test(start_paused = true)]
async fn i4_a_node_with_a_taint_of_the_readiness_controller_keeps_its_slot() {
    let world = World::pair("").await;
    world.want(0);
    world.until_phase(0, "Rebooting", 5 * MINUTE).await;
    taint(&world, "readiness.k8s.io/network");
    world.until_phase(0, "Verifying", 5 * MINUTE).await;
    world.pass(HOUR).await;
    let held = world.holder("default").is_some() && world.boots(0) == 1;
    world.require(held && !world.cordoned(0), "the slot is kept");
    let why = "not healthy within health.timeout after the reboot: taint readiness.k8s.io/network is still on the Node";
    world.require(world.said(0, why), "it says why");
    untaint(&world);
    world.until_rebooted(&[0], 1, 5 * MINUTE).await;
}
