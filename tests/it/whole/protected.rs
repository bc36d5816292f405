//! Pods that are not to be disturbed, at each moment at which gates are looked at (I2, I3), and Cluster API's label, which
//! says what the drain does with a pod (I9).

use std::time::Duration;

use serde_json::{Value, json};

use super::cluster::Pod;
use super::world::{HOUR, MINUTE, World};

const SECOND: Duration = Duration::from_secs(1);
const EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const DISRUPT: &str = "karpenter.sh/do-not-disrupt";

fn edit(world: &World, pod: &str, change: impl FnOnce(&mut Value)) {
    let at = ("pods", "shop", pod);
    world.server.set(|state| state.edit(at, "author", change));
}

/// A pod of a `ReplicaSet` that has just started, with this annotation.
fn annotated(world: &World, key: &str, value: &str) {
    Pod::new("work", "n0").make(&world.server);
    let now = world.server.state().now();
    edit(world, "work", |pod| {
        pod["metadata"]["annotations"][key] = json!(value);
        pod["status"]["startTime"] = json!(now);
    });
}

fn finish(world: &World, pod: &str) {
    edit(world, pod, |pod| {
        pod["status"]["phase"] = json!("Succeeded");
    });
}

/// Nothing is held, nothing was rebooted.
fn untouched(world: &World) -> bool {
    world.holder("default").is_none() && !world.cordoned(0) && world.boots(0) == 0
}

fn evicted(world: &World, pod: &str) -> bool {
    let state = world.server.state();
    let mut lines = state.trace.iter();
    lines.any(|line| line.contains("create pods/eviction") && line.contains(pod))
}

#[tokio::test(start_paused = true)]
async fn i2_i8_a_reboot_waits_for_a_protected_pod_and_names_it() {
    for (config, key, value, why) in [
        ("", EVICT, "false", "shop/work has the annotation"),
        ("", DISRUPT, "true", "shop/work has the annotation"),
        (
            "",
            DISRUPT,
            "soon",
            "neither true, false nor a duration: soon",
        ),
        (
            "[gates]\nblocking_pods = [\"shop: app=work\"]\nhonour_annotations = false\n",
            EVICT,
            "true",
            "shop/work matches \"shop: app=work\" of gates.blocking_pods",
        ),
        (
            "[drain]\nmode = \"never\"\n",
            DISRUPT,
            "true",
            "shop/work has the annotation",
        ),
    ] {
        let world = World::pair(config).await;
        annotated(&world, key, value);
        world.want(0);
        world.pass(HOUR).await;
        world.require(untouched(&world), "nothing is begun");
        world.require(world.said(0, "1 pod is protected: pod "), why);
        world.require(world.said(0, why), why);
        finish(&world, "work");
        world.until_phase(0, "Claiming", 5 * SECOND).await;
        world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_waited_for_no_longer_than_it_asks_for() {
    let world = World::pair("").await;
    annotated(&world, DISRUPT, "1h30m");
    world.want(0);
    world.pass(88 * MINUTE).await;
    world.require(untouched(&world), "nothing is begun");
    world.require(
        world.said(0, "not to be disturbed for 1h 30m after its start"),
        "it says for how long",
    );
    world.until_rebooted(&[0], 1, 5 * MINUTE).await;
}

/// The pod comes when the slot is taken already.
#[tokio::test(start_paused = true)]
async fn i2_i3_a_hold_is_undone_before_the_cordon_when_a_protected_pod_comes() {
    let world = World::pair("").await;
    world.want(0);
    world.until_phase(0, "Claiming", 5 * MINUTE).await;
    annotated(&world, DISRUPT, "true");
    world.until("undone", MINUTE, untouched).await;
    world.pass(HOUR).await;
    world.require(untouched(&world), "nothing is begun");
    let drained = world.phases(0).iter().any(|phase| phase == "Draining");
    world.require(!drained, "there was no cordon");
    finish(&world, "work");
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// An undone drain would begin again when such a pod has gone, and so on without end.
#[tokio::test(start_paused = true)]
async fn a_drain_goes_on_when_a_protected_pod_comes_after_the_cordon() {
    let world = World::pair("").await;
    Pod {
        ends: 60,
        grace: 120,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", 5 * MINUTE).await;
    annotated(&world, EVICT, "false");
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    world.require(evicted(&world, "work"), "it is evicted as any other pod");
}

#[tokio::test(start_paused = true)]
async fn what_the_configuration_does_not_honour_keeps_nothing_waiting() {
    for config in [
        "[gates]\nhonour_annotations = false\n",
        "[drain]\nskip = [\"app=work\"]\n",
    ] {
        let world = World::pair(config).await;
        let stays = config.contains("skip");
        world.server.set(|state| state.pods_may_stay = stays);
        annotated(&world, EVICT, "false");
        world.want(0);
        world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn i9_cluster_api_s_label_says_what_the_drain_does_with_a_pod() {
    for value in ["skip", "wait-completed"] {
        let world = World::pair("").await;
        let stays = value == "skip";
        world.server.set(|state| state.pods_may_stay = stays);
        Pod::new("work", "n0").make(&world.server);
        Pod::new("web", "n0").make(&world.server);
        edit(&world, "work", |pod| {
            pod["metadata"]["labels"]["cluster.x-k8s.io/drain"] = json!(value);
        });
        world.want(0);
        if value == "wait-completed" {
            world.until_phase(0, "Draining", 5 * MINUTE).await;
            world.pass(20 * MINUTE).await;
            world.require(world.phase(0) == "Draining", "it is waited for");
            world.require(
                world.said(0, "may finish (label cluster.x-k8s.io/drain)"),
                "it says for what",
            );
            finish(&world, "work");
        }
        world.until_rebooted(&[0], 1, 5 * MINUTE).await;
        world.require(!evicted(&world, "work"), "it is not evicted");
        world.require(evicted(&world, "web"), "the other one is");
    }
}
