//! Where other nodes exist, pods are evicted or nothing is begun (I2).

use std::time::Duration;

use super::cluster::Pod;
use super::host::Order;
use super::world::{HOUR, MINUTE, World};

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
        world.check(
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
