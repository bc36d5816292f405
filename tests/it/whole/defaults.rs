//! Hosts that nobody has configured: what people are given time for (I2).

use super::cluster::Pod;
use super::world::{HOUR, MINUTE, World};

/// Two hosts that run on the defaults; other worlds are at once.
async fn unconfigured() -> World {
    let world = World::pair("").await;
    for host in &world.hosts {
        // A built-in check is a program, and the test's own is none.
        host.write(
            "/etc/kube-rebootd/config.toml",
            "[triggers]\nbuiltin = []\n",
        );
        host.reload();
    }
    world.pass(MINUTE / 6).await;
    world
}

/// Somebody who updates the host is not done when the package manager is.
#[tokio::test(start_paused = true)]
async fn i2_a_file_settles_for_ten_minutes() {
    let world = unconfigured().await;
    let wanted = world.hosts[0].now();
    (0..2).for_each(|host| world.want(host));
    world.pass(9 * MINUTE).await;
    let idle = world.holder("default").is_none() && !world.cordoned(0) && !world.cordoned(1);
    world.require(idle, "nothing is begun");
    let told =
        (0..2).all(|host| world.said(host, "sentinel /run/reboot-required has not settled yet"));
    world.require(told, "it says what it waits for");
    let held = |world: &World| world.holder("default").is_some();
    world.until("one takes the slot", 2 * MINUTE, held).await;
    let taken = world.hosts[0].now();
    world.require(
        taken.duration_since(wanted).as_secs() >= 600,
        "it has settled",
    );
    world.until_rebooted(&[0, 1], 1, HOUR).await;
}

/// Found by review: a daemon that was upgraded, or reloaded, with a longer time undid the drain that it found.
#[tokio::test(start_paused = true)]
async fn i6_a_longer_time_to_settle_ends_no_drain() {
    let world = World::pair("").await;
    Pod {
        ends: 4 * 60,
        grace: 5 * 60,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", MINUTE).await;
    let host = &world.hosts[0];
    let longer = "[triggers]\nbuiltin = []\nsettle = \"1h\"\n";
    host.write("/etc/kube-rebootd/config.toml", longer);
    host.reload();
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
}
