//! A control-plane node that is not Ready counts like one that is held (I13).

use std::time::Duration;

use super::cluster::{self, Pod};
use super::world::{HOUR, MINUTE, Plan, World};

/// Two control-plane nodes and a worker on two slots; how many nodes may be down is no matter here.
async fn world() -> World {
    World::with(Plan {
        hosts: 3,
        slots: 2,
        quorum: 2,
        config: "[coordination]\nmax_unavailable = \"100%\"\n",
    })
    .await
}

fn untouched(world: &World) {
    let free = ["default", "default-2"].map(|slot| world.holder(slot).is_none());
    let free = free == [true, true] && !world.cordoned(0) && world.boots(0) == 0;
    world.require(
        free,
        "the other control-plane node is not Ready: n0 stays as it is",
    );
}

#[tokio::test(start_paused = true)]
async fn i13_no_slot_is_taken_while_another_control_plane_node_is_not_ready() {
    let world = world().await;
    cluster::kubelet_gone(&world.server, "n1");
    world.pass(MINUTE).await;
    world.want(0);
    let asked = world.server.state().trace.len();
    for _ in 0..60 {
        world.pass(MINUTE).await;
        untouched(&world);
    }
    let asked = world.server.state().trace.len() - asked;
    world.require(asked < 1_000, &format!("{asked} requests in an hour"));
    // A worker may go meanwhile.
    world.want(2);
    world.until_rebooted_with(&[2], 1, HOUR, &[0]).await;
    untouched(&world);
    cluster::kubelet_back(&world.server, "n1", "n1-boot-0");
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// n0 drains, its pod ends after so many seconds, and n1 is silent from now on.
async fn goes_in_mid_drain(world: &World, ends: u64) {
    Pod {
        ends,
        grace: 600,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    cluster::kubelet_gone(&world.server, "n1");
}

/// So it is said.
fn waits_for_its_heartbeat(world: &World) {
    let words = "waiting for the next heartbeat of control-plane nodes: n1";
    world.require(world.said(0, words), "it says for which");
}

#[tokio::test(start_paused = true)]
async fn i13_logind_is_not_asked_when_another_control_plane_node_goes_in_mid_drain() {
    let world = world().await;
    goes_in_mid_drain(&world, 300).await;
    world.until_phase(0, "Undoing", 10 * MINUTE).await;
    world.require(world.said(0, "n1 (not Ready)"), "it says which node");
    world.pass(HOUR).await;
    untouched(&world);
    cluster::kubelet_back(&world.server, "n1", "n1-boot-0");
    world.until_rebooted(&[0], 1, HOUR).await;
    world.pass(Duration::from_secs(1)).await;
}

/// Found by reading: a node that has lost its power is Ready for almost a minute, and another of the control plane went
/// down in this time.
#[tokio::test(start_paused = true)]
async fn i13_logind_is_not_asked_while_a_control_plane_node_is_silent_although_it_is_ready() {
    let world = world().await;
    goes_in_mid_drain(&world, 5).await;
    world.until_phase(0, "Rebooting", MINUTE).await;
    world.pass(Duration::from_secs(20)).await;
    waits_for_its_heartbeat(&world);
    world.until_phase(0, "Undoing", MINUTE).await;
    world.require(world.said(0, "n1 (not Ready)"), "once the cluster shows it");
    world.pass(HOUR).await;
    untouched(&world);
    cluster::kubelet_back(&world.server, "n1", "n1-boot-0");
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// Found by reading: each wait for a heartbeat began the stage anew, so that one that never comes kept the slot for ever.
#[tokio::test(start_paused = true)]
async fn i2_i13_a_heartbeat_that_never_comes_gives_the_slot_back() {
    let world = world().await;
    // Its Node stays Ready: nobody looks, as where the controllers are down.
    world.server.set(|state| state.beating.remove("n1"));
    world.want(0);
    world.until_phase(0, "Rebooting", HOUR).await;
    world.until_phase(0, "Undoing", 6 * MINUTE).await;
    waits_for_its_heartbeat(&world);
    world.pass(MINUTE).await;
    untouched(&world);
    world
        .server
        .set(|state| state.beating.insert("n1".to_owned()));
    world.until_rebooted(&[0], 1, HOUR).await;
}
