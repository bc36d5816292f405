//! What a host says at its login in the course of a reboot.

use std::time::Duration;

use super::cluster::Pod;
use super::host::Order;
use super::world::{HOUR, LOOK, MINUTE, Plan, World};

const MOTD: &str = "/run/motd.d/kube-rebootd";
const ON: &str = "[notify]\nmotd = true\n";

fn said(world: &World) -> Option<String> {
    std::fs::read_to_string(world.hosts[0].path(MOTD)).ok()
}

#[tokio::test(start_paused = true)]
async fn a_host_says_at_its_login_what_status_says_as_long_as_a_reboot_is_pending() {
    let world = World::with(Plan {
        hosts: 2,
        slots: 1,
        quorum: 0,
        config: ON,
    })
    .await;
    Pod {
        ends: 60,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.pass(MINUTE).await;
    world.require(said(&world).is_none(), "an idle host says nothing");
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    world.pass(LOOK).await;
    let text = said(&world).unwrap_or_default();
    let about = "This host is about to reboot, as it has required since ";
    world.require(text.starts_with(about), &text);
    world.require(text.contains("sentinel /run/reboot-required"), &text);
    world.require(text.contains("\nkube-rebootd: draining"), &text);
    // What a daemon that was killed said is not left as it is: the next one says it again, or takes it away.
    world.hosts[0].write(MOTD, "old");
    world.hosts[0].order(Order::Kill(Duration::from_secs(1)));
    let again = |world: &World| said(world).is_some_and(|text| text.starts_with(about));
    world.until("it to be said again", MINUTE, again).await;
    world.until_rebooted(&[0], 1, HOUR).await;
    world.pass(MINUTE).await;
    world.require(said(&world).is_none(), "there is no more to say");
}

#[tokio::test(start_paused = true)]
async fn i12_a_reload_begins_and_ends_what_the_login_says() {
    let world = World::new(1, 0).await;
    world.want(0);
    let waits = |world: &World| ["Pending", "Queued"].contains(&world.phase(0).as_str());
    world.until("it to wait", HOUR, waits).await;
    world.require(said(&world).is_none(), "nobody asked for it");
    let config = "/etc/kube-rebootd/config.toml";
    for (text, there) in [(ON, true), ("", false)] {
        world.hosts[0].write(config, text);
        world.hosts[0].reload();
        let done = |world: &World| said(world).is_some() == there;
        world.until("the reload to count", MINUTE, done).await;
    }
}
