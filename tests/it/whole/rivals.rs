//! Other daemons that reboot hosts, at each moment at which gates are looked at: their locks and the slots do not see each other,
//! so nothing begins while one of them is at work here (I1, I2, I8, I14).

use serde_json::{Value, json};

use super::cluster::Pod;
use super::world::{HOUR, MINUTE, World};

fn edit(world: &World, pod: &str, change: impl FnOnce(&mut Value)) {
    let at = ("pods", "shop", pod);
    world.server.set(|state| state.edit(at, "author", change));
}

/// A pod with this label, which shares the host's PID namespace.
fn rival(world: &World, owner: &str, key: &str, value: &str) {
    let pod = Pod {
        owner,
        ..Pod::new("kured", "n0")
    };
    pod.make(&world.server);
    edit(world, "kured", |pod| {
        pod["metadata"]["labels"] = json!({key: value});
        pod["spec"]["hostPID"] = json!(true);
    });
}

fn kured(world: &World) {
    rival(world, "DaemonSet", "app.kubernetes.io/name", "kured");
}

fn remove(world: &World, pod: &str) {
    let at = ("pods", "shop", pod);
    world.server.set(|state| state.remove(at));
}

fn annotate(world: &World, key: &str, value: &str) {
    let server = &world.server;
    server.set(|state| {
        state.edit(("nodes", "", "n0"), "neighbour", |node| {
            node["metadata"]["annotations"][key] = json!(value);
        });
    });
}

/// Nothing is held, nothing was rebooted.
fn untouched(world: &World) -> bool {
    world.holder("default").is_none() && !world.cordoned(0) && world.boots(0) == 0
}

#[tokio::test(start_paused = true)]
async fn i1_i2_nothing_begins_beside_a_second_lock() {
    for config in [
        "",
        "[drain]\nmode = \"never\"\n[gates]\nhonour_annotations = false\n",
    ] {
        for claiming in [false, true] {
            let world = World::pair(config).await;
            if claiming {
                world.want(0);
                world.until_phase(0, "Claiming", 5 * MINUTE).await;
            }
            kured(&world);
            world.want(0);
            world.until("nothing is held", MINUTE, untouched).await;
            world.pass(HOUR).await;
            world.require(untouched(&world), "nothing is begun");
            let why = "kured (pod shop/kured) may reboot this host, too, and does not see the slots: remove it, \
                       as `kubectl -n shop delete daemonset kured` does";
            world.require(world.said(0, why), why);
            remove(&world, "kured");
            world.until_rebooted(&[0], 1, HOUR).await;
        }
    }
}

/// What the drain has done would only be done twice.
#[tokio::test(start_paused = true)]
async fn a_drain_that_has_begun_goes_on() {
    let world = World::pair("").await;
    let slow = Pod {
        ends: 300,
        grace: 600,
        ..Pod::new("web", "n0")
    };
    slow.make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", 5 * MINUTE).await;
    world.hosts[0].logind().leftovers = vec!["zincati.service".to_owned()];
    kured(&world);
    world
        .until("it has rebooted", 15 * MINUTE, |world| world.boots(0) == 1)
        .await;
}

/// An operation of an updater ends by itself; what it leaves behind is nothing.
#[tokio::test(start_paused = true)]
async fn i2_an_operation_of_another_updater_is_waited_for() {
    let world = World::pair("").await;
    rival(&world, "Job", "upgrade.cattle.io/plan", "os");
    world.want(0);
    world.pass(HOUR).await;
    world.require(untouched(&world), "nothing is begun");
    let why = "system-upgrade-controller (pod shop/kured) may reboot this host, too";
    world.require(world.said(0, why), why);
    edit(&world, "kured", |pod| {
        pod["status"]["phase"] = json!("Succeeded");
    });
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
}

/// Whoever may only make pods calls his own what he likes.
#[tokio::test(start_paused = true)]
async fn i14_a_pod_that_is_only_called_so_keeps_nothing() {
    let world = World::pair("").await;
    kured(&world);
    edit(&world, "kured", |pod| {
        pod["spec"]["hostPID"] = json!(false);
    });
    world.want(0);
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i2_units_of_the_host_close_it_too() {
    let world = World::pair("").await;
    world.hosts[0].logind().leftovers = vec!["zincati.service".to_owned()];
    world.pass(MINUTE).await;
    world.want(0);
    world.pass(HOUR).await;
    world.require(untouched(&world), "nothing is begun");
    let why = "Zincati (unit zincati.service) may reboot this host, too, and does not see the slots: \
               `systemctl mask --now zincati.service`";
    world.require(world.said(0, why), why);
    world.hosts[0].logind().leftovers.clear();
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// Found by review: by `nodes/status` a network plugin could have kept every node from rebooting, and what a daemon had left
/// behind did as well.
#[tokio::test(start_paused = true)]
async fn i14_what_is_written_on_the_node_keeps_nothing() {
    let world = World::pair("").await;
    annotate(&world, "weave.works/kured-reboot-in-progress", "now");
    world.want(0);
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn who_wants_both_at_work_says_so() {
    let world = World::pair("[gates]\nother_reboot_daemons = \"ignore\"\n").await;
    kured(&world);
    world.hosts[0].logind().leftovers = vec!["zincati.service".to_owned()];
    world.want(0);
    world
        .until("it has rebooted", HOUR, |world| world.boots(0) == 1)
        .await;
}
