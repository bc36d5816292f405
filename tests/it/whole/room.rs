//! Where other nodes exist, pods are evicted or nothing is begun (I2).

use std::time::Duration;

use super::cluster::Pod;
use super::host::Order;
use super::world::{HOUR, MINUTE, Plan, World};
use crate::memory::{Answer, Broken, Fate, Fault, Verb};

fn cordon(world: &World, node: &str, on: bool) {
    world.server.set(|state| {
        state.edit(("nodes", "", node), "kubectl-cordon", |node| {
            node["spec"]["unschedulable"] = on.into();
        });
    });
}

async fn with_a_pod() -> World {
    let world = World::new(2, 1).await;
    Pod {
        ends: 60,
        grace: 600,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world
}

/// A neighbour that a person has cordoned once meant a reboot without a drain.
#[tokio::test(start_paused = true)]
async fn i2_nothing_is_begun_while_the_only_other_node_is_cordoned() {
    let world = with_a_pod().await;
    cordon(&world, "n1", true);
    world.want(0);
    for _ in 0..60 {
        world.pass(MINUTE).await;
        world.require(
            !world.cordoned(0) && world.boots(0) == 0,
            "nothing is begun",
        );
    }
    cordon(&world, "n1", false);
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// The judge of the server fails a reboot with a pod that should have left.
#[tokio::test(start_paused = true)]
async fn i2_i6_a_restart_in_mid_drain_goes_on_with_the_drain_though_the_other_node_is_cordoned_now()
{
    let world = with_a_pod().await;
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    cordon(&world, "n1", true);
    world.hosts[0].order(Order::Kill(Duration::from_secs(5)));
    world
        .until("rebooted", HOUR, |world| world.boots(0) == 1)
        .await;
    cordon(&world, "n1", false);
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// A node with a pod that takes its time; its watch of pods is made anew every few seconds.
async fn with_a_slow_pod() -> World {
    let world = World::new(2, 1).await;
    Pod {
        ends: 1_200,
        grace: 3_600,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    let short = Broken {
        ends: Some(Duration::from_secs(7)),
        ..Broken::default()
    };
    let short = Fault {
        from: "n0".to_owned(),
        ..Fault::of(Fate::Watch(short), Verb::Watch, "pods")
    };
    world.server.set(|state| state.faults.push(short));
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    world
}

/// Pods are neither listed nor watched any more; all else is answered.
fn refuse_pods(world: &World) {
    world.server.set(|state| {
        state.faults.clear();
        for verb in [Verb::List, Verb::Watch] {
            let no = Answer::status(500, "InternalError", "storage is (re)initializing");
            state.faults.push(Fault {
                from: "n0".to_owned(),
                ..Fault::of(Fate::Says(no), verb, "pods")
            });
        }
    });
}

async fn undone_and_done(world: &World) {
    let free = |world: &World| world.holder("default").is_none() && !world.cordoned(0);
    world.until("undone", HOUR, free).await;
    world.require(world.said(0, "slow or silent"), "it says why");
    world.require(world.boots(0) == 0, "nothing was rebooted");
    world.server.set(|state| state.faults.clear());
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// Found by review: it waited for the list of the pods for ever, cordoned and with its slot.
#[tokio::test(start_paused = true)]
async fn i3_i7_a_restart_in_mid_drain_that_never_sees_its_pods_undoes() {
    let world = with_a_slow_pod().await;
    refuse_pods(&world);
    world.hosts[0].order(Order::Kill(Duration::from_secs(5)));
    undone_and_done(&world).await;
}

/// Found by review: the drain's own times stood still, as without news of pods nothing is known of them.
#[tokio::test(start_paused = true)]
async fn i3_i7_a_drain_that_sees_its_pods_no_more_undoes() {
    let world = with_a_slow_pod().await;
    refuse_pods(&world);
    undone_and_done(&world).await;
}

/// Found by review: the time of the outage counted as time in which the API server did not answer the drain.
#[tokio::test(start_paused = true)]
async fn i6_a_restart_during_an_outage_in_mid_drain_goes_on_with_the_drain() {
    let world = with_a_slow_pod().await;
    let silent = Fault {
        from: "n0".to_owned(),
        ..Fault::new(Fate::Silent)
    };
    world.server.set(|state| state.faults = vec![silent]);
    world.hosts[0].order(Order::Kill(Duration::from_secs(5)));
    world.pass(20 * MINUTE).await;
    world.server.set(|state| state.faults.clear());
    world.until_rebooted(&[0], 1, HOUR).await;
    world.require(!world.said(0, "undoing"), "the drain goes on");
}

/// Found by reading: on a cluster with one node, where nothing is evicted, a pod that would stop a drain kept the node from
/// ever rebooting.
#[tokio::test(start_paused = true)]
async fn a_pod_that_would_stop_a_drain_stops_nothing_where_nothing_is_drained() {
    for hosts in [1, 2] {
        let world = World::with(Plan {
            hosts,
            slots: 1,
            quorum: 0,
            config: "[drain]\nunmanaged = \"block\"\n",
        })
        .await;
        Pod {
            owner: "",
            ..Pod::new("by-hand", "n0")
        }
        .make(&world.server);
        world.want(0);
        if hosts == 1 {
            world.until_rebooted(&[0], 1, HOUR).await;
            continue;
        }
        world.pass(HOUR).await;
        let began = world.cordoned(0) || world.boots(0) > 0;
        world.require(
            !began,
            "with another node it is drained, and the pod stops that",
        );
    }
}
