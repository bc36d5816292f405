//! Soft-reboots: the kernel goes on, and /run with the sentinel in it (I1, I3, I6, I8, I10).

use std::time::Duration;

use kube_rebootd_core::names;
use serde_json::{Value, json};

use super::cluster::Pod;
use super::host::Order;
use super::world::{HOUR, MINUTE, World};

const SECOND: Duration = Duration::from_secs(1);
const FILE: &str = "/run/reboot-needed";
/// More than are done here.
const SOFT: &str = "[reboot]\nkind = \"soft-reboot\"\nmax_per_day = 10\n";

/// As zypp writes it.
fn needs(world: &World, kind: &str) {
    world.hosts[0].write(FILE, &format!("{kind}\n"));
}

/// Full reboots, and soft ones.
fn did(world: &World) -> (u64, u64) {
    let state = world.hosts[0].state();
    (state.boots, state.soft_reboots)
}

/// It comes to that, and to no more within hours.
async fn until_rests(world: &World, wanted: (u64, u64), when: &str) {
    let done = |world: &World| did(world) == wanted && world.phase(0) == "Idle";
    world
        .until(&format!("{when}: {wanted:?}"), HOUR, done)
        .await;
    world.pass(3 * HOUR).await;
    world.at_rest();
    world.require(did(world) == wanted, when);
    world.require(world.phase(0) == "Idle", "nothing asks");
}

fn condition(world: &World) -> Value {
    let conditions = world.node(0)["status"]["conditions"].clone();
    let conditions = conditions.as_array().cloned().unwrap_or_default();
    let ours = conditions
        .into_iter()
        .find(|one| one["type"] == "RebootRequired");
    ours.unwrap_or_default()
}

fn untouched(world: &World) -> bool {
    world.holder("default").is_none() && !world.cordoned(0)
}

fn exists(world: &World) -> bool {
    world.hosts[0].path(FILE).exists()
}

/// The request is settled although its file survives: else the node would be drained again and again.
#[tokio::test(start_paused = true)]
async fn i10_one_soft_reboot_for_a_sentinel_that_survives_it() {
    let world = World::pair(SOFT).await;
    Pod::slow(&world.server, 30);
    needs(&world, "soft-reboot");
    world.until_phase(0, "Draining", HOUR).await;
    until_rests(&world, (0, 1), "the same boot goes on").await;
    assert!(exists(&world));
    let (all, soft) = {
        let logind = world.hosts[0].logind();
        (logind.reboots, logind.soft_reboots)
    };
    assert_eq!((all, soft), (1, 1));
    let condition = condition(&world);
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("Idle"))
    );
    for words in [
        "a soft-reboot is required: sentinel /run/reboot-needed (asks for a soft-reboot)",
        "asking for the soft-reboot",
        "the host has soft-rebooted",
        "soft-rebooted for sentinel /run/reboot-needed",
    ] {
        world.require(world.said(0, words), words);
    }
    world.require(!world.said(0, "is there again"), "it is no trouble");
    let node = world.node(0);
    let history = node["metadata"]["annotations"][names::HISTORY].as_str();
    let history: Value = serde_json::from_str(history.expect("a history")).expect("JSON");
    assert_eq!(history[0]["kind"], "soft-reboot");
    // An update of the next day writes it anew.
    needs(&world, "soft-reboot");
    until_rests(&world, (0, 2), "a new request").await;
    // And one with a kernel.
    needs(&world, "reboot");
    until_rests(&world, (1, 2), "a full one").await;
    assert!(!exists(&world));
}

#[tokio::test(start_paused = true)]
async fn the_configuration_asks_for_soft_reboots_and_a_kernel_gets_a_full_one() {
    let world = World::pair(SOFT).await;
    world.want(0);
    until_rests(&world, (0, 1), "a file that names no kind").await;
    let list = "/run/reboot-required.pkgs";
    world.hosts[0].write(list, "libc6\nlinux-image-6.12.1-amd64\n");
    world.want(0);
    until_rests(&world, (1, 1), "a kernel is among its packages").await;
    // The full one serves what would be content with less.
    world.want(0);
    needs(&world, "reboot");
    until_rests(&world, (2, 1), "the strongest of both").await;
}

/// What the file names is no reason to do less than is configured.
#[tokio::test(start_paused = true)]
async fn i8_a_file_that_names_a_soft_reboot_gets_a_full_one_by_default() {
    let world = World::pair("").await;
    needs(&world, "soft-reboot");
    until_rests(&world, (1, 0), "a full one").await;
    assert!(!exists(&world));
    let words = "(asks for a soft-reboot; a full reboot does it)";
    world.require(world.said(0, words), words);
}

/// I6: the kind is on record before logind is asked, and the new userspace is known as a new boot.
#[tokio::test(start_paused = true)]
async fn i6_killed_in_every_phase_it_soft_reboots_once() {
    for phase in [
        "Claiming",
        "Draining",
        "Rebooting",
        "Verifying",
        "Releasing",
    ] {
        for down in [SECOND, 20 * SECOND] {
            let world = World::pair(SOFT).await;
            Pod::slow(&world.server, 30);
            needs(&world, "soft-reboot");
            world.until_phase(0, phase, HOUR).await;
            world.hosts[0].order(Order::Kill(down));
            world.pass(down + SECOND).await;
            until_rests(&world, (0, 1), phase).await;
        }
    }
}

/// The power goes: that was a full reboot, and serves all the more.
#[tokio::test(start_paused = true)]
async fn i6_power_that_goes_instead_serves_as_well() {
    for phase in ["Draining", "Verifying"] {
        let world = World::pair(SOFT).await;
        Pod::slow(&world.server, 30);
        needs(&world, "soft-reboot");
        world.until_phase(0, phase, HOUR).await;
        let soft = did(&world).1;
        world.hosts[0].order(Order::PowerLoss);
        world.pass(SECOND).await;
        until_rests(&world, (1, soft), phase).await;
    }
}

/// systemd 252: nothing is taken, and no full reboot passes for it, until somebody asks for one.
#[tokio::test(start_paused = true)]
async fn i8_a_host_that_does_none_is_not_drained_for_it() {
    let world = World::pair(SOFT).await;
    world.hosts[0].logind().version = "252.39-1~deb12u1".to_owned();
    needs(&world, "soft-reboot");
    let refused = |world: &World| condition(world)["reason"] == "SoftRebootNotDone";
    world.until("it says so", 10 * MINUTE, refused).await;
    let message = condition(&world)["message"].to_string();
    assert!(
        message.contains("systemd 252 of this host has none"),
        "{message}"
    );
    assert!(message.contains("soft-reboot pending"), "{message}");
    world.pass(3 * HOUR).await;
    world.require(untouched(&world) && did(&world) == (0, 0), "nothing began");
    assert_eq!(world.hosts[0].logind().reboots, 0);
    needs(&world, "reboot");
    until_rests(&world, (1, 0), "a full one").await;
}

/// The logind that runs is older than PID 1: that is known when it is asked. Nothing is held then, and it is not tried again.
#[tokio::test(start_paused = true)]
async fn i8_a_logind_that_refuses_the_flag_is_asked_once() {
    let world = World::pair(SOFT).await;
    world.hosts[0].logind().knows_soft_reboots = false;
    needs(&world, "soft-reboot");
    world.until_phase(0, "Rebooting", HOUR).await;
    world.until("it is undone", 2 * MINUTE, untouched).await;
    world.pass(12 * HOUR).await;
    world.require(
        untouched(&world) && did(&world) == (0, 0),
        "nothing is held",
    );
    let drained = world
        .phases(0)
        .iter()
        .filter(|it| *it == "Draining")
        .count();
    assert_eq!(drained, 1);
    assert_eq!(condition(&world)["reason"], "SoftRebootNotDone");
    needs(&world, "reboot");
    until_rests(&world, (1, 0), "a full one").await;
}

/// Whoever soft-reboots the host meanwhile has brought no kernel.
#[tokio::test(start_paused = true)]
async fn i10_a_soft_reboot_of_somebody_else_serves_no_full_request() {
    for phase in ["Draining", "Queued"] {
        let world = World::pair("").await;
        Pod::slow(&world.server, 30);
        if phase == "Queued" {
            // The other node holds the slot.
            Pod {
                ends: 900,
                grace: 900,
                ..Pod::new("other", "n1")
            }
            .make(&world.server);
            world.want(1);
            world.until_phase(1, "Draining", HOUR).await;
        }
        world.want(0);
        world.until_phase(0, phase, HOUR).await;
        world.hosts[0].order(Order::SoftReboot);
        world.pass(SECOND).await;
        until_rests(&world, (1, 1), phase).await;
    }
}

/// A soft-reboot that comes while a soft one is wanted has done it.
#[tokio::test(start_paused = true)]
async fn i10_a_soft_reboot_of_somebody_else_serves_a_soft_request() {
    let world = World::pair(SOFT).await;
    Pod::slow(&world.server, 30);
    needs(&world, "soft-reboot");
    world.until_phase(0, "Draining", HOUR).await;
    world.hosts[0].order(Order::SoftReboot);
    world.pass(SECOND).await;
    until_rests(&world, (0, 1), "it was done by somebody").await;
}

/// I1: the slot is kept until the kubelet of the new userspace lives, by a heartbeat: its boot ID is the same.
#[tokio::test(start_paused = true)]
async fn i1_i4_a_node_whose_kubelet_does_not_come_back_keeps_its_slot() {
    let world = World::pair(SOFT).await;
    world.hosts[0].state().no_kubelet = true;
    needs(&world, "soft-reboot");
    world.until_phase(0, "Verifying", HOUR).await;
    world.pass(3 * HOUR).await;
    assert_eq!(world.holder("default").as_deref(), Some("n0"));
    assert!(world.cordoned(0));
    assert_eq!(did(&world), (0, 1));
}
