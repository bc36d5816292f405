//! Pods of the cluster that wait for room, at each moment at which gates are looked at (I2, I8).

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;

use super::cluster::Pod;
use super::world::{HOUR, MINUTE, World};
use crate::memory::{Fate, Fault, Verb};

const WAIT: &str = "[gates]\ncapacity_wait = \"15m\"\n";
const WHY: &str =
    "pods have waited for room on a node for longer than gates.capacity_wait (15m): shop/big";

async fn granted(config: &'static str) -> World {
    let world = World::pair(config).await;
    world.server.set(|state| state.grants_pods(true));
    world
}

/// A pod for which the scheduler has found no room for so many minutes.
fn waits(world: &World, minutes: i64) {
    let since = world.server.now() - SignedDuration::from_mins(minutes);
    let body = json!({"spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "lastTransitionTime": since.to_string()}]}});
    let server = &world.server;
    server.set(|state| state.make(("pods", "shop", "big"), "kube-scheduler", body));
}

fn placed(world: &World) {
    let server = &world.server;
    server.set(|state| state.remove(("pods", "shop", "big")));
}

/// Nothing is held, nothing was rebooted.
fn untouched(world: &World) -> bool {
    world.holder("default").is_none() && !world.cordoned(0) && world.boots(0) == 0
}

/// How often the pods of all namespaces were listed.
fn lists(world: &World) -> usize {
    let state = world.server.state();
    let all = state.trace.iter();
    all.filter(|line| line.contains("as coordinator: list pods"))
        .count()
}

#[tokio::test(start_paused = true)]
async fn i2_nothing_begins_while_pods_wait_for_room_for_long() {
    let world = granted(WAIT).await;
    waits(&world, 16);
    world.pass(10 * MINUTE).await;
    world.require(lists(&world) == 0, "nobody asks for nothing");
    world.want(0);
    world.pass(2 * HOUR).await;
    world.require(untouched(&world), "nothing is begun");
    world.require(world.said(0, WHY), WHY);
    let asked = lists(&world);
    world.require(
        (50..=61).contains(&asked),
        &format!("it was asked {asked} times"),
    );
    placed(&world);
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
}

/// Where there are few pods it costs two lists: one before the queue, and one before the cordon.
#[tokio::test(start_paused = true)]
async fn a_pod_that_has_waited_for_a_short_time_keeps_nothing() {
    let world = granted(WAIT).await;
    waits(&world, 1);
    world.want(0);
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    world.require(lists(&world) == 2, "it is asked twice");
}

#[tokio::test(start_paused = true)]
async fn without_the_key_nobody_asks() {
    let world = World::pair("").await;
    waits(&world, 600);
    world.want(0);
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    world.require(lists(&world) == 0, "nobody asks");
}

/// What was seen before the queue is looked at once more with the slot.
#[tokio::test(start_paused = true)]
async fn i2_i3_a_pod_that_waits_after_the_take_has_the_slot_given_back() {
    let world = granted(WAIT).await;
    let slow = Fault {
        from: "n0".to_owned(),
        ..Fault::of(Fate::Slow(Duration::from_secs(10)), Verb::Patch, "nodes")
    };
    world.server.set(|state| state.faults.push(slow));
    world.want(0);
    let taken = |world: &World| world.holder("default").is_some();
    world.until("the slot to be taken", MINUTE, taken).await;
    waits(&world, 16);
    world.until("given back", MINUTE, untouched).await;
    world.require(world.said(0, WHY), WHY);
    world.pass(HOUR).await;
    world.require(untouched(&world), "nothing is begun");
    placed(&world);
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// What this drain has moved finds no room elsewhere: the reboot is the shortest way to have its room back.
#[tokio::test(start_paused = true)]
async fn a_drain_is_not_undone_for_pods_that_wait() {
    let world = granted(WAIT).await;
    Pod {
        ends: 300,
        grace: 600,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", 5 * MINUTE).await;
    waits(&world, 16);
    world
        .until("it has rebooted", 15 * MINUTE, |world| world.boots(0) == 1)
        .await;
}

#[tokio::test(start_paused = true)]
async fn i8_i11_without_the_grant_nothing_begins_and_it_says_how_to_get_it() {
    let world = World::pair(WAIT).await;
    world.server.set(|state| state.refusals_wanted = true);
    world.want(0);
    world.pass(HOUR).await;
    world.require(untouched(&world), "nothing is begun");
    for why in [
        "not known whether pods wait for room on a node: list the pods of all namespaces that have no node: denied (403)",
        "kube-rebootd manifests --capacity | kubectl apply --server-side -f -",
    ] {
        world.require(world.said(0, why), why);
    }
    world.server.set(|state| state.grants_pods(true));
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
}

/// A pod that fits nowhere is somebody's mistake for weeks.
#[tokio::test(start_paused = true)]
async fn an_old_request_passes_over_pods_that_wait_where_that_is_configured() {
    let world =
        granted("[gates]\ncapacity_wait = \"15m\"\nforce_after = \"2h\"\nforce = [\"capacity\"]\n")
            .await;
    waits(&world, 16);
    world.want(0);
    world.pass(HOUR).await;
    world.require(untouched(&world), "nothing is begun");
    world
        .until("it has rebooted", 2 * HOUR, |world| world.boots(0) == 1)
        .await;
}
