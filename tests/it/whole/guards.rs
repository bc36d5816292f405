//! Autoscalers are kept from the own Node during a hold and for a while after it (I3, I4).

use kube_rebootd_core::names;
use serde_json::json;

use super::cluster::Pod;
use super::host::Order;
use super::world::{HOUR, MINUTE, World};
use crate::memory::annotation;

/// Which of the annotations the Node of this host carries, with our values.
fn guards(world: &World, host: usize) -> usize {
    let node = world.node(host);
    let guards = names::GUARDS.iter();
    guards
        .filter(|(key, value)| annotation(&node, key) == Some(value))
        .count()
}

#[tokio::test(start_paused = true)]
async fn i4_autoscalers_are_kept_from_a_node_during_its_hold_and_for_a_while_after_it() {
    let world = World::pair("").await;
    Pod {
        ends: 60,
        grace: 120,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.want(0);
    for phase in ["Draining", "Rebooting", "Verifying"] {
        world.until_phase(0, phase, 10 * MINUTE).await;
        world.require(guards(&world, 0) == 3, phase);
        world.require(guards(&world, 1) == 0, "only its own Node");
    }
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    world.require(guards(&world, 0) == 3, "for a while after it");
    // What it has set itself keeps no other reboot away.
    world.unwant(0);
    world.pass(MINUTE).await;
    world.server.set(|state| {
        state.edit(("nodes", "", "n0"), "kubectl-annotate", |node| {
            node["metadata"]["annotations"][names::REBOOT] = json!("once more");
        });
    });
    world.until_rebooted(&[0], 2, 10 * MINUTE).await;
    world.pass(12 * MINUTE).await;
    world.require(
        guards(&world, 0) == 3,
        "anew from the end of the second hold",
    );
    world.pass(5 * MINUTE).await;
    world.require(guards(&world, 0) == 0, "it ends");
    world.at_rest();
}

/// Their value says something else than ours would.
#[tokio::test(start_paused = true)]
async fn i3_what_others_have_set_for_autoscalers_stays_as_it_is() {
    let world = World::pair("").await;
    let (key, _) = names::GUARDS[0];
    let set = |value: &str| {
        let value = json!(value);
        let at = ("nodes", "", "n0");
        world.server.set(|state| {
            state.edit(at, "kubectl-annotate", |node| {
                node["metadata"]["annotations"][key] = value;
            });
        });
    };
    set("false");
    world.want(0);
    world.until_phase(0, "Rebooting", 5 * MINUTE).await;
    world.require(guards(&world, 0) == 2, "the others are ours");
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    world.unwant(0);
    world.require(annotation(&world.node(0), key) == Some("false"), "theirs");
    // Ours meanwhile, and then somebody's.
    let (key, _) = names::GUARDS[1];
    world.server.set(|state| {
        state.edit(("nodes", "", "n0"), "kubectl-annotate", |node| {
            node["metadata"]["annotations"][key] = json!("mine");
        });
    });
    world.pass(HOUR).await;
    world.require(
        annotation(&world.node(0), key) == Some("mine"),
        "taken over",
    );
    world.require(guards(&world, 0) == 0, "ours is gone");
}

#[tokio::test(start_paused = true)]
async fn i3_a_node_is_left_alone_where_that_is_configured() {
    let world = World::pair("[coordination]\nautoscaler_protect = \"0s\"\n").await;
    world.want(0);
    for phase in ["Claiming", "Draining", "Rebooting", "Verifying"] {
        world.until_phase(0, phase, 5 * MINUTE).await;
        world.require(guards(&world, 0) == 0, phase);
    }
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    world.require(guards(&world, 0) == 0, "after it");
}

/// Nobody is there any more to take them off.
#[tokio::test(start_paused = true)]
async fn i4_who_gives_all_back_leaves_nothing_for_autoscalers() {
    let world = World::pair("").await;
    world.want(0);
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    world.require(guards(&world, 0) == 3, "after a hold");
    world.hosts[0].order(Order::Kill(HOUR));
    world.pass(MINUTE).await;
    world.hosts[0].release(MINUTE).await.expect("given back");
    world.require(guards(&world, 0) == 0, "it is gone");
}
