//! A Node whose annotations are full (I3, I6): whoever may write the status of Nodes can fill them in any phase, also
//! while the host is down, and so can a tool that keeps much there.

use serde_json::{Value, json};

use super::world::{HOUR, LOOK, MINUTE, SOON, World};
use crate::memory::{ANNOTATIONS, annotated};

/// Leaves no byte of room on the first Node, whatever is there.
pub(super) fn fill(world: &World) {
    world.server.set(|state| {
        state.edit(("nodes", "", "n0"), "other", |node| {
            node["metadata"]["annotations"]["filler"] = Value::Null;
            let room = ANNOTATIONS.saturating_sub(annotated(node));
            node["metadata"]["annotations"]["filler"] = json!("x".repeat(room));
        });
    });
}

/// Keeps them full for an hour, or until `done`.
async fn full_until(world: &World, done: impl Fn(&World) -> bool) {
    for _ in 0..HOUR.as_millis() / LOOK.as_millis() {
        fill(world);
        world.pass(LOOK).await;
        if done(world) {
            return;
        }
    }
    world.fail("never done within an hour");
}

/// So many hosts, of which the first just went down for its reboot.
pub(super) async fn rebooted(hosts: usize) -> World {
    let world = World::new(hosts, 1).await;
    world.want(0);
    world.until_phase(0, "Rebooting", HOUR).await;
    while world.boots(0) == 0 {
        world.pass(SOON).await;
    }
    world
}

/// Found by an attacker's reading: the apply that uncordons was one byte longer than what was there, and refused for ever.
#[tokio::test(start_paused = true)]
async fn i3_a_node_that_is_full_when_it_comes_back_is_uncordoned_and_gives_its_slot_up() {
    let world = rebooted(2).await;
    full_until(&world, |world| {
        world.boots(0) == 1 && world.phase(0) == "Idle"
    })
    .await;
    let refused = world.said(0, "Too long");
    world.require(refused, "it was not refused once, so this shows nothing");
    world.pass(MINUTE).await;
    world.at_rest();
    world.want(1);
    world
        .until("the other rebooted", HOUR, |world| world.boots(1) == 1)
        .await;
}

/// Whatever the phase, the node gives back what it took.
#[tokio::test(start_paused = true)]
async fn i3_i6_full_in_any_phase() {
    for phase in ["Queued", "Claiming", "Draining", "Verifying", "Releasing"] {
        let world = World::new(2, 1).await;
        world.want(0);
        world.until_phase(0, phase, HOUR).await;
        for _ in 0..600 {
            fill(&world);
            world.pass(LOOK).await;
        }
        let free = !world.cordoned(0) && world.holder("default").is_none();
        world.require(free, phase);
        world.want(1);
        world
            .until("the other rebooted", HOUR, |world| world.boots(1) == 1)
            .await;
    }
}

/// A person's pause keeps the cordon, though there is no room for a record that says so.
#[tokio::test(start_paused = true)]
async fn i3_a_paused_node_that_is_full_keeps_its_cordon_until_it_is_resumed() {
    let world = rebooted(1).await;
    let pause = |on: bool| {
        world.server.set(|state| {
            state.edit(("nodes", "", "n0"), "kubectl", |node| {
                let annotations = node["metadata"]["annotations"].as_object_mut().unwrap();
                annotations.remove("kube-rebootd/paused");
                if on {
                    annotations.insert("kube-rebootd/paused".to_owned(), json!("disks"));
                }
            });
        });
    };
    pause(true);
    full_until(&world, |world| {
        world.boots(0) == 1 && world.holder("default").is_none()
    })
    .await;
    world.pass(MINUTE).await;
    world.require(world.cordoned(0), "the cordon is kept");
    pause(false);
    full_until(&world, |world| !world.cordoned(0)).await;
    world.pass(MINUTE).await;
    world.at_rest();
}
