//! `drain.cordon_only`, and `drain.load_balancer_wait`: the label for load balancers comes with the cordon and goes with the
//! uncordon, and the first eviction waits for them (I3, I4, I9).

use std::time::Duration;

use kube_rebootd::cli::unlock;
use kube_rebootd_core::names;
use serde_json::{Value, json};

use super::cluster::Pod;
use super::host::Order;
use super::world::{HOUR, MINUTE, World};
use crate::memory::{User, annotation, label};

const WAIT: &str = "[drain]\nload_balancer_wait = \"2m\"\n";

/// What the Node of this host tells load balancers.
fn told(world: &World, host: usize) -> Option<String> {
    label(&world.node(host), names::EXCLUDED.0).map(str::to_owned)
}

fn evictions(world: &World) -> usize {
    let state = world.server.state();
    let lines = state.trace.iter();
    lines
        .filter(|line| line.contains("create pods/eviction"))
        .count()
}

async fn one_pod(config: &'static str) -> World {
    let world = World::pair(config).await;
    Pod::new("web", "n0").make(&world.server);
    world
}

/// It is cordoned and waits.
async fn waits(world: &World) {
    world
        .until("it is cordoned", 5 * MINUTE, |world| world.cordoned(0))
        .await;
    world.require(told(world, 0).as_deref() == Some("true"), "with the cordon");
    world.pass(Duration::from_secs(10)).await;
    world.require(world.phase(0) == "Draining", "it waits");
    let words = "waiting for drain.load_balancer_wait of 2m, 1 pod left";
    world.require(world.said(0, words), "it says what for");
    world.require(evictions(world) == 0, "nobody is asked to leave");
}

fn edit(world: &World, key: &str, of: &str, value: &Value) {
    world.server.set(|state| {
        state.edit(("nodes", "", "n0"), "kubectl", |node| {
            let keys = node["metadata"][of].as_object_mut().unwrap();
            keys.remove(key);
            keys.extend((!value.is_null()).then(|| (key.to_owned(), value.clone())));
        });
    });
}

#[tokio::test(start_paused = true)]
async fn i9_the_first_eviction_waits_for_load_balancers() {
    let world = one_pod(WAIT).await;
    world.want(0);
    world.require(told(&world, 0).is_none(), "not before it");
    waits(&world).await;
    world.require(told(&world, 1).is_none(), "only its own Node");
    world.pass(105 * Duration::from_secs(1)).await;
    world.require(evictions(&world) == 0, "not yet");
    world.pass(10 * Duration::from_secs(1)).await;
    world.require(evictions(&world) == 1, "after two minutes");
    for phase in ["Rebooting", "Verifying"] {
        world.until_phase(0, phase, 5 * MINUTE).await;
        world.require(told(&world, 0).is_some(), phase);
    }
    world
        .until("it is uncordoned", 5 * MINUTE, |world| !world.cordoned(0))
        .await;
    world.require(told(&world, 0).is_none(), "it goes with the cordon");
    world.until_rebooted(&[0], 1, 5 * MINUTE).await;
    world.at_rest();
}

/// Neither without the key, nor on a node that is excluded by somebody else: what is theirs stays, whatever it says.
#[tokio::test(start_paused = true)]
async fn i3_a_label_of_somebody_else_is_neither_waited_for_nor_taken_off() {
    for (config, theirs) in [("", None), (WAIT, Some("")), (WAIT, Some("false"))] {
        let world = one_pod(config).await;
        if let Some(value) = theirs {
            edit(&world, names::EXCLUDED.0, "labels", &json!(value));
        }
        world.want(0);
        world
            .until("a pod is evicted", MINUTE, |world| evictions(world) == 1)
            .await;
        world.require(told(&world, 0).as_deref() == theirs, "as it was");
        world.until_rebooted(&[0], 1, 10 * MINUTE).await;
        world.require(told(&world, 0).as_deref() == theirs, "after it");
    }
}

/// I6: the record says since when the Node has been cordoned.
#[tokio::test(start_paused = true)]
async fn i6_a_daemon_that_starts_over_goes_on_with_the_wait() {
    let world = one_pod(WAIT).await;
    world.want(0);
    waits(&world).await;
    world.hosts[0].order(Order::Kill(MINUTE));
    world.pass(MINUTE + 30 * Duration::from_secs(1)).await;
    world.require(evictions(&world) == 0, "two minutes are not over");
    world.pass(30 * Duration::from_secs(1)).await;
    world.require(evictions(&world) == 1, "they are");
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    world.require(told(&world, 0).is_none(), "it is taken off");
}

/// Also where neither the host nor the Node knows of the hold any more.
#[tokio::test(start_paused = true)]
async fn i4_the_label_goes_after_a_lost_record() {
    let world = one_pod(WAIT).await;
    world.want(0);
    waits(&world).await;
    world.unwant(0);
    world.hosts[0].order(Order::Kill(MINUTE));
    world.pass(Duration::from_secs(1)).await;
    std::fs::remove_file(world.hosts[0].path("/var/lib/kube-rebootd/state.json")).unwrap();
    edit(&world, names::STATE, "annotations", &Value::Null);
    edit(&world, names::SLOT, "labels", &Value::Null);
    world.server.set(|state| {
        state.edit(("leases", "kube-rebootd", "default"), "kubectl", |lease| {
            lease["spec"]
                .as_object_mut()
                .unwrap()
                .remove("holderIdentity");
        });
    });
    world.require(told(&world, 0).is_some(), "it is left over");
    world.pass(5 * MINUTE).await;
    world.require(told(&world, 0).is_none(), "it is taken off");
    world.require(annotation(&world.node(0), names::STATE).is_none(), "all is");
    world.require(world.boots(0) == 0 && evictions(&world) == 0, "no drain");
}

/// What ends the hold takes the label off with the cordon, and no pod has moved.
#[tokio::test(start_paused = true)]
async fn i3_a_hold_that_ends_in_the_wait_gives_all_back_and_evicts_nobody() {
    let ends: [fn(&World); 3] = [
        |world| {
            world.server.set(|state| {
                state.edit(("nodes", "", "n0"), "kubectl-uncordon", |node| {
                    node["spec"]["unschedulable"] = json!(false);
                });
            });
        },
        |world| world.unwant(0),
        // A gate that is no matter of minutes.
        |world| edit(world, names::PAUSED, "annotations", &json!("not now")),
    ];
    for end in ends {
        let world = one_pod(WAIT).await;
        world.want(0);
        waits(&world).await;
        end(&world);
        world
            .until("the slot is free", MINUTE, |world| {
                world.holder("default").is_none()
            })
            .await;
        world.require(told(&world, 0).is_none(), "it is taken off");
        world.require(evictions(&world) == 0, "nobody has moved");
    }
}

/// Traffic reaches a host by its kube-proxy as well, and goes down with it.
#[tokio::test(start_paused = true)]
async fn load_balancers_are_waited_for_where_nothing_is_evicted() {
    let world = World::pair("[drain]\nmode = \"never\"\nload_balancer_wait = \"2m\"\n").await;
    world.want(0);
    world.until_phase(0, "Draining", 5 * MINUTE).await;
    world.pass(110 * Duration::from_secs(1)).await;
    world.require(world.phase(0) == "Draining", "it waits");
    world.until_rebooted(&[0], 1, 5 * MINUTE).await;
    // The only node takes all traffic until it goes down.
    let world = World::with(super::world::Plan {
        hosts: 1,
        slots: 1,
        quorum: 0,
        config: WAIT,
    })
    .await;
    world.want(0);
    world.until_phase(0, "Rebooting", MINUTE).await;
    world.require(told(&world, 0).is_none(), "there is no other");
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// Pods that end by themselves are not evicted, and nobody waits once they have.
#[tokio::test(start_paused = true)]
async fn i9_a_node_that_is_only_cordoned_evicts_nobody_until_its_time_is_over() {
    let config = "[drain]\ncordon_only = \"5m\"\ntimeout = \"1m\"\n";
    for ends in [false, true] {
        let world = one_pod(config).await;
        world.want(0);
        world
            .until("it is cordoned", 5 * MINUTE, |world| world.cordoned(0))
            .await;
        world.require(told(&world, 0).is_none(), "no load balancer is told");
        world.pass(4 * MINUTE).await;
        let words = "waiting for drain.cordon_only of 5m, 1 pod left";
        world.require(world.said(0, words), "it says what for");
        world.require(evictions(&world) == 0, "nobody is asked to leave");
        // Another pod finds another node.
        if ends {
            world
                .server
                .set(|state| state.remove(("pods", "shop", "web")));
            world
                .until_phase(0, "Rebooting", Duration::from_secs(5))
                .await;
        } else {
            world.pass(MINUTE + Duration::from_secs(1)).await;
        }
        world.until_rebooted(&[0], 1, 10 * MINUTE).await;
        world.require(evictions(&world) == usize::from(!ends), "as it ended");
    }
}

#[tokio::test(start_paused = true)]
async fn i2_what_nobody_wants_any_more_ends_a_long_wait() {
    let world = one_pod("[drain]\ncordon_only = \"1h\"\n").await;
    world.want(0);
    world
        .until("it is cordoned", 5 * MINUTE, |world| world.cordoned(0))
        .await;
    world.pass(30 * MINUTE).await;
    world.require(world.phase(0) == "Draining", "it waits");
    world.unwant(0);
    world
        .until("all is given back", MINUTE, |world| {
            world.holder("default").is_none() && !world.cordoned(0)
        })
        .await;
    world.require(evictions(&world) == 0, "nobody has moved");
    world.at_rest();
}

/// Found by review: nobody was told, and a host that never came back got no traffic under its name any more.
#[tokio::test(start_paused = true)]
async fn i3_who_unlocks_a_node_is_told_of_the_label_that_stays() {
    for (config, stays) in [(WAIT, true), ("", false)] {
        let world = one_pod(config).await;
        world.want(0);
        world
            .until("it is cordoned", HOUR, |world| world.cordoned(0))
            .await;
        world.hosts[0].order(Order::Kill(2 * HOUR));
        world.pass(Duration::from_secs(1)).await;
        world.require(told(&world, 0).is_some() == stays, "the label is there");
        let admin = world.server.client("admin", User::Admin);
        let order = unlock::Order {
            namespace: "kube-rebootd",
            node: "n0",
            force: true,
        };
        let done = unlock::unlock(&admin, &order).await.expect("unlocked");
        assert_eq!(done.excluded, stays);
        world.require(told(&world, 0).is_some() == stays, "with the cordon");
    }
}
