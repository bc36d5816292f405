//! A reboot that somebody else scheduled with logind (I2, I6, I8): stored, then cancelled, then one's turn.

use super::cluster::{Pod, make_daemon_set};
use super::host::Order;
use super::proof::AGENT;
use super::world::{HOUR, MINUTE, Plan, World};

/// logind's own file; only that it changes matters.
const FILE: &str = "/run/systemd/shutdown/scheduled";
const ADOPT: &str = "[triggers]\nscheduled_shutdown = \"adopt\"\n";

async fn world(config: &'static str) -> World {
    World::with(Plan {
        hosts: 1,
        slots: 1,
        quorum: 0,
        config,
    })
    .await
}

/// `shutdown -r +5`, or another kind, after `seconds`.
fn schedule(world: &World, kind: &str, seconds: i64) {
    let at = world.hosts[0].now().as_microsecond() + seconds * 1_000_000;
    world.hosts[0].logind().scheduled = (kind.to_owned(), u64::try_from(at).unwrap());
    world.hosts[0].write(FILE, &format!("USEC={at}\n"));
}

#[tokio::test(start_paused = true)]
async fn i6_a_scheduled_reboot_becomes_one_request_and_one_reboot() {
    let world = world(ADOPT).await;
    schedule(&world, "reboot", 300);
    world.until_rebooted(&[0], 1, HOUR).await;
    world.require(world.hosts[0].logind().cancelled == 1, "cancelled once");
    world.pass(5 * HOUR).await;
    world.require(world.boots(0) == 1, "one reboot");
}

#[tokio::test(start_paused = true)]
async fn i8_a_poweroff_and_what_is_too_near_are_left_alone() {
    for (kind, seconds) in [
        ("poweroff", 300),
        ("reboot", 8),
        ("halt", 300),
        ("kexec", 300),
    ] {
        let world = world(ADOPT).await;
        schedule(&world, kind, seconds);
        world.pass(MINUTE).await;
        world.require(world.hosts[0].logind().cancelled == 0, "cancelled");
        world.require(world.said(0, "will go around slot and drain"), "not told");
        world.require(world.phase(0) == "Idle", "a request");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_over_unless_configured() {
    for config in ["", "[triggers]\nscheduled_shutdown = \"ignore\"\n"] {
        let world = world(config).await;
        schedule(&world, "reboot", 300);
        world.pass(MINUTE).await;
        world.require(world.hosts[0].logind().cancelled == 0, "cancelled");
        let told = world.said(0, "will go around slot and drain");
        world.require(told == config.is_empty(), "told or not");
    }
}

/// What cannot be stored is not cancelled: it would be lost.
#[tokio::test(start_paused = true)]
async fn i6_without_a_record_of_the_request_nothing_is_cancelled() {
    let world = world(ADOPT).await;
    let directory = world.hosts[0].path("/var/lib/kube-rebootd");
    std::fs::rename(&directory, directory.with_extension("away")).unwrap();
    std::fs::write(&directory, "").unwrap();
    schedule(&world, "reboot", 3600);
    world.pass(10 * MINUTE).await;
    world.require(world.hosts[0].logind().cancelled == 0, "cancelled");
    std::fs::remove_file(&directory).unwrap();
    std::fs::rename(directory.with_extension("away"), &directory).unwrap();
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// Somebody pulled the plug meanwhile: the reboot that was meant is done.
#[tokio::test(start_paused = true)]
async fn i6_a_reboot_by_somebody_else_is_the_one_that_was_scheduled() {
    let world = world(ADOPT).await;
    world.server.set(|state| {
        state.edit(("leases", "kube-rebootd", "default"), "kubectl", |lease| {
            lease["spec"]["holderIdentity"] = "somebody-else".into();
        });
    });
    schedule(&world, "reboot", 300);
    world.until_phase(0, "Queued", HOUR).await;
    world.hosts[0].order(Order::PowerLoss);
    let idle = |world: &World| world.boots(0) == 1 && world.phase(0) == "Idle";
    world.until("idle in the new boot", HOUR, idle).await;
    world.server.set(|state| {
        state.edit(("leases", "kube-rebootd", "default"), "kubectl", |lease| {
            lease["spec"]["holderIdentity"] = serde_json::Value::Null;
        });
    });
    world.pass(5 * HOUR).await;
    world.require(world.boots(0) == 1, "a second reboot");
}

/// Only what logind says is not known is waited for: the cancellation that failed is tried again.
#[tokio::test(start_paused = true)]
async fn a_logind_that_is_silent_is_asked_again() {
    let world = world(ADOPT).await;
    world.hosts[0].logind().mute = true;
    schedule(&world, "reboot", 7200);
    world.pass(10 * MINUTE).await;
    world.require(world.hosts[0].logind().cancelled == 0, "cancelled");
    world.hosts[0].logind().mute = false;
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// Nothing can be begun, or stored beside what is not merged yet: it is told of, and taken over later.
#[tokio::test(start_paused = true)]
async fn i7_before_the_api_server_has_answered_nothing_is_taken_over_and_that_is_said() {
    let world = world(ADOPT).await;
    world.server.set(|state| state.down = true);
    world.hosts[0].order(Order::Kill(MINUTE));
    schedule(&world, "reboot", 7200);
    world.pass(10 * MINUTE).await;
    world.require(world.hosts[0].logind().cancelled == 0, "cancelled");
    let told = world.said(0, "when the API server has answered");
    world.require(told, "not told");
    world.server.set(|state| state.down = false);
    world.until_rebooted(&[0], 1, HOUR).await;
    world.require(world.hosts[0].logind().cancelled == 1, "cancelled once");
}

/// Found by reading: while a node waited for its DaemonSets after the boot, one was neither taken over nor told of.
#[tokio::test(start_paused = true)]
async fn i2_one_that_comes_while_a_reboot_is_proved_is_told_of_and_taken_over_later() {
    let world = world(ADOPT).await;
    make_daemon_set(&world.server, "agent");
    AGENT.make(&world.server);
    world.want(0);
    let booted = |world: &World| world.boots(0) == 1;
    world.until("it has booted", HOUR, booted).await;
    world
        .server
        .set(|state| state.remove(("pods", "shop", "agent")));
    world.until_phase(0, "Verifying", 5 * MINUTE).await;
    schedule(&world, "reboot", 7200);
    world.pass(10 * MINUTE).await;
    world.require(world.hosts[0].logind().cancelled == 0, "cancelled");
    let told = world.said(0, "when this node has given its slot up");
    world.require(told, "not told");
    let back = Pod {
        name: "agent-2",
        ..AGENT
    };
    back.make(&world.server);
    let cancelled = |world: &World| world.hosts[0].logind().cancelled == 1;
    world.until("it is cancelled", HOUR, cancelled).await;
    world.until_rebooted(&[0], 2, 2 * HOUR).await;
}
