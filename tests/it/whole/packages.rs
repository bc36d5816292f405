//! A package manager works: nothing is begun, and logind is not asked (I2, I8).

use std::fs;

use super::cluster::Pod;
use super::world::{HOUR, MINUTE, World};
use crate::fake_bus::Refusal;

/// pacman's; the others' are locks that no process sees of its own.
const LOCK: &str = "/var/lib/pacman/db.lck";

fn end(world: &World) {
    fs::remove_file(world.hosts[0].path(LOCK)).unwrap();
}

fn untouched(world: &World) {
    let free = world.holder("default").is_none() && !world.cordoned(0);
    world.require(free && world.boots(0) == 0, "nothing is begun");
    world.require(world.hosts[0].logind().reboots == 0, "logind is not asked");
}

#[tokio::test(start_paused = true)]
async fn i2_no_reboot_is_begun_beside_a_package_manager() {
    let world = World::new(1, 1).await;
    world.hosts[0].write(LOCK, "");
    // As its hooks do, before it is done.
    world.want(0);
    world.pass(2 * HOUR).await;
    untouched(&world);
    end(&world);
    // Nobody tells that it is done.
    world.until_rebooted(&[0], 1, 2 * MINUTE).await;
}

#[tokio::test(start_paused = true)]
async fn i8_a_lock_that_cannot_be_looked_at_is_one_that_is_held() {
    let world = World::new(1, 1).await;
    let lock = "/var/lib/dpkg/lock";
    fs::create_dir_all(world.hosts[0].path(lock)).unwrap();
    world.want(0);
    world.pass(HOUR).await;
    untouched(&world);
    fs::remove_dir(world.hosts[0].path(lock)).unwrap();
    world.until_rebooted(&[0], 1, 2 * MINUTE).await;
}

/// A host that drains, another where evicted pods can go, and a package manager that begins meanwhile.
async fn draining() -> World {
    let world = World::new(2, 1).await;
    Pod {
        ends: 600,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    world.hosts[0].write(LOCK, "");
    world
}

#[tokio::test(start_paused = true)]
async fn i2_a_drain_outlasts_a_package_manager() {
    let world = draining().await;
    world.pass(5 * MINUTE).await;
    world.require(world.phase(0) == "Draining", "the drain goes on");
    end(&world);
    world.until_rebooted(&[0], 1, 20 * MINUTE).await;
    let undone = world.phases(0).iter().any(|phase| phase == "Undoing");
    world.require(!undone, "it was undone");
}

#[tokio::test(start_paused = true)]
async fn i2_a_package_manager_that_does_not_end_ends_the_hold() {
    let world = draining().await;
    // Ten minutes of the pod, five of patience.
    world
        .until("the slot is free", 20 * MINUTE, |world| {
            world.holder("default").is_none() && !world.cordoned(0)
        })
        .await;
    world.pass(HOUR).await;
    untouched(&world);
    end(&world);
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i2_nothing_is_begun_between_two_steps_of_a_script() {
    let world = World::new(1, 1).await;
    world.hosts[0].write(LOCK, "");
    world.want(0);
    for _ in 0..20 {
        world.pass(MINUTE / 2).await;
        end(&world);
        world.pass(MINUTE / 4).await;
        untouched(&world);
        world.hosts[0].write(LOCK, "");
    }
    end(&world);
    world.until_rebooted(&[0], 1, 2 * MINUTE).await;
}

/// logind refuses the first call; a package manager begins before the second.
#[tokio::test(start_paused = true)]
async fn i2_i8_package_managers_are_looked_at_before_logind_is_asked_again() {
    let world = World::new(1, 1).await;
    world.hosts[0].logind().refusal = Refusal::InProgress;
    world.want(0);
    world
        .until("logind has refused", HOUR, |world| {
            world.hosts[0].logind().reboots == 1
        })
        .await;
    world.hosts[0].write(LOCK, "");
    world.hosts[0].logind().refusal = Refusal::No;
    world.pass(HOUR).await;
    world.require(world.boots(0) == 0, "no reboot beside a package manager");
    let asked = world.hosts[0].logind().reboots;
    world.require(asked == 1, &format!("logind was asked {asked} times"));
    end(&world);
    world.until_rebooted(&[0], 1, HOUR).await;
}
