//! Sequences that a reader of the code found, each of which broke an invariant (I3, I4, I6).

use std::time::Duration;

use serde_json::{Value, json};

use super::annotations::{fill, rebooted};
use super::cluster::Pod;
use super::host::Order;
use super::proof::{self, AGENT};
use super::world::{HOUR, LOOK, MINUTE, SOON, World};
use crate::memory::{ANNOTATIONS, Answer, Fate, Fault, User, Verb};

const NODE: (&str, &str, &str) = ("nodes", "", "n0");

fn edit(world: &World, by: &str, to: impl FnOnce(&mut Value)) {
    world.server.set(|state| state.edit(NODE, by, to));
}

fn annotate(node: &mut Value, key: &str, value: Option<&str>) {
    match value {
        Some(value) => node["metadata"]["annotations"][key] = json!(value),
        None => drop(
            node["metadata"]["annotations"]
                .as_object_mut()
                .unwrap()
                .remove(key),
        ),
    }
}

/// So often the host's daemon has written its Node.
fn writes(world: &World) -> usize {
    let told = world.server.told(usize::MAX);
    told.lines()
        .filter(|line| line.contains("n0: patch nodes /n0"))
        .count()
}

/// One host after its reboot, whose writes of its Node meet this.
async fn verifying(fate: Fate) -> World {
    let world = World::new(1, 1).await;
    world.want(0);
    world.until_phase(0, "Verifying", HOUR).await;
    let fault = Fault::of(fate, Verb::Patch, "nodes");
    world.server.set(|state| state.faults.push(fault));
    world
}

async fn idle_again(world: &World) {
    world
        .until("healthy", HOUR, |world| world.phase(0) == "Idle")
        .await;
    world.pass(MINUTE).await;
    world.at_rest();
}

/// Nobody is on record any more for what is on the Node, as after a restore.
async fn wipe(world: &World) {
    let admin = world.server.client("admin", User::Admin);
    let request = http::Request::patch("/api/v1/nodes/n0?fieldManager=restore")
        .header("content-type", "application/merge-patch+json")
        .body(
            json!({"metadata": {"managedFields": [{}]}})
                .to_string()
                .into_bytes()
                .into(),
        )
        .unwrap();
    let _ = admin.send(request).await.unwrap();
}

/// Full, and made anew while the host was down: what was applied then had no room for the record, and was applied for ever.
#[tokio::test(start_paused = true)]
async fn i3_i4_a_node_that_is_registered_anew_and_full_gives_its_slot_up() {
    let world = rebooted(2).await;
    let old = world.node(0);
    world.server.set(|state| {
        state.remove(NODE);
        let mut body = json!({"metadata": {"name": "n0", "labels": old["metadata"]["labels"], "annotations": {}},
            "spec": {}, "status": old["status"]});
        body["metadata"]["labels"].as_object_mut().unwrap().remove("kube-rebootd/slot");
        state.make(NODE, "kubelet", body);
    });
    let before = writes(&world);
    for _ in 0..10 * 60 * 2 {
        fill(&world);
        world.pass(LOOK).await;
    }
    world.require(
        world.said(0, "Too long"),
        "it was not refused once, so this shows nothing",
    );
    let asked = writes(&world) - before;
    world.require(asked < 30, &format!("{asked} writes"));
    world.require(world.phase(0) == "Idle", "it is done");
    world.at_rest();
}

/// Whatever ends the hold, what a person paused stays cordoned: the pause came with a withdrawal, or after the end began, or
/// nobody is on record for the cordon.
#[tokio::test(start_paused = true)]
async fn i3_a_pause_keeps_the_cordon_whatever_ends_the_hold() {
    for (late, wiped) in [(false, false), (true, false), (false, true)] {
        // A second one, where evicted pods can go.
        let world = World::new(2, 1).await;
        Pod {
            ends: 3600,
            ..Pod::new("web", "n0")
        }
        .make(&world.server);
        edit(&world, "kubectl", |node| {
            annotate(node, "kube-rebootd/reboot", Some("a kernel"));
        });
        world.until_phase(0, "Draining", HOUR).await;
        while !world.cordoned(0) {
            world.pass(SOON).await;
        }
        if wiped {
            wipe(&world).await;
        }
        if late {
            // The first apply of the undoing does not arrive, and the pause comes meanwhile.
            world.server.set(|state| {
                state.faults.push(Fault {
                    times: 1,
                    ..Fault::of(Fate::Lost, Verb::Patch, "nodes")
                });
            });
            edit(&world, "kubectl", |node| {
                annotate(node, "kube-rebootd/reboot", None);
            });
            while world.phase(0) != "Undoing" {
                world.pass(SOON).await;
            }
            edit(&world, "kubectl", |node| {
                annotate(node, "kube-rebootd/paused", Some("disks"));
            });
        } else {
            edit(&world, "kubectl", |node| {
                annotate(node, "kube-rebootd/reboot", None);
                annotate(node, "kube-rebootd/paused", Some("disks"));
            });
        }
        world.pass(10 * MINUTE).await;
        world.require(world.boots(0) == 0, "not rebooted");
        world.require(world.holder("default").is_none(), "the slot is given up");
        world.require(world.cordoned(0), "the cordon is kept");
        edit(&world, "kubectl", |node| {
            annotate(node, "kube-rebootd/paused", None);
        });
        world.pass(MINUTE).await;
        world.at_rest();
    }
}

/// The uncordon was written ahead and did not arrive, and the host rebooted once more: that boot must be proved first.
#[tokio::test(start_paused = true)]
async fn i4_an_uncordon_that_did_not_land_waits_for_the_next_boot_to_be_healthy() {
    let world = verifying(Fate::Lost).await;
    let ahead = |world: &World| {
        let text = std::fs::read_to_string(world.hosts[0].path("/var/lib/kube-rebootd/state.json"));
        text.unwrap_or_default().contains("ncordoned")
    };
    world.until("the uncordon is on record", HOUR, ahead).await;
    world.hosts[0].state().no_kubelet = true;
    world.hosts[0].order(Order::PowerLoss);
    world.until("down", HOUR, |world| world.boots(0) == 2).await;
    world.server.set(|state| state.faults.clear());
    world.pass(10 * MINUTE).await;
    world.require(world.cordoned(0), "uncordoned by a boot without a kubelet");
    world.require(world.holder("default").is_some(), "the slot is kept");
    world.hosts[0].state().no_kubelet = false;
    world.hosts[0].order(Order::PowerLoss);
    idle_again(&world).await;
}

/// A tool gives the label another value each time: a node that is healthy is kept from nothing by that, and nobody is flooded.
#[tokio::test(start_paused = true)]
async fn i4_i7_a_label_that_a_tool_changes_keeps_no_proved_node_and_makes_no_flood() {
    let world = proof::rebooted().await;
    world
        .until("uncordoned", HOUR, |world| !world.cordoned(0))
        .await;
    let before = writes(&world);
    let tool = |node: &mut Value| node["metadata"]["labels"]["kube-rebootd/slot"] = json!("other");
    for _ in 0..10 * 60 {
        edit(&world, "tool", tool);
        world.pass(Duration::from_secs(1)).await;
    }
    let asked = writes(&world) - before;
    world.require(asked < 200, &format!("{asked} writes in ten minutes"));
    AGENT.make(&world.server);
    for _ in 0..10 * 60 {
        edit(&world, "tool", tool);
        world.pass(Duration::from_secs(1)).await;
        if world.holder("default").is_none() {
            break;
        }
    }
    edit(&world, "tool", |node| {
        node["metadata"]["labels"]
            .as_object_mut()
            .unwrap()
            .remove("kube-rebootd/slot");
    });
    world
        .until("the slot is given up", HOUR, |world| {
            world.holder("default").is_none()
        })
        .await;
}

/// A person's cordon whose managed fields were wiped, and a power loss before anything of the hold was set.
#[tokio::test(start_paused = true)]
async fn i3_a_foreign_cordon_without_an_owner_survives_a_crash_after_the_take() {
    let world = World::new(1, 1).await;
    edit(&world, "kubectl", |node| {
        node["spec"]["unschedulable"] = json!(true);
    });
    wipe(&world).await;
    world.server.set(|state| {
        state.faults.push(Fault {
            times: 1,
            namespace: "kube-rebootd",
            ..Fault::of(Fate::AnswerSilent, Verb::Patch, "leases")
        });
    });
    world.want(0);
    world
        .until("taken", HOUR, |world| world.holder("default").is_some())
        .await;
    world.hosts[0].order(Order::PowerLoss);
    world
        .until("booted", HOUR, |world| world.boots(0) == 1)
        .await;
    world
        .until("given up", HOUR, |world| world.holder("default").is_none())
        .await;
    world.pass(MINUTE).await;
    world.require(world.cordoned(0), "the person's cordon is gone");
}

/// A webhook that refuses with a conflict is asked ever more rarely, and named.
#[tokio::test(start_paused = true)]
async fn i7_a_conflict_that_never_ends_is_told_and_makes_no_flood() {
    let conflict = Answer::status(409, "Conflict", "a webhook wants it so");
    let world = verifying(Fate::Says(conflict)).await;
    let before = writes(&world);
    world.pass(HOUR).await;
    let asked = writes(&world) - before;
    world.require(
        (20..400).contains(&asked),
        &format!("{asked} writes in an hour"),
    );
    world.require(world.said(0, "a webhook wants it so"), "not told");
    world.server.set(|state| state.faults.clear());
    idle_again(&world).await;
}

/// Whoever acts as the coordinator fills the annotations of a Lease while its holder is down.
#[tokio::test(start_paused = true)]
async fn i4_a_lease_that_is_full_is_given_up_all_the_same() {
    let world = World::new(2, 1).await;
    world.want(0);
    world.until_phase(0, "Verifying", HOUR).await;
    world.server.set(|state| {
        state.edit(("leases", "kube-rebootd", "default"), "other", |lease| {
            let annotations = lease["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.clear();
            let room = ANNOTATIONS - "filler".len();
            annotations.insert("filler".to_owned(), json!("x".repeat(room)));
        });
    });
    world
        .until("given up", HOUR, |world| world.holder("default").is_none())
        .await;
    world.pass(MINUTE).await;
    world.at_rest();
}
