//! The wall clock of a host is set by years, at every stage of a cycle (I5).

use super::cluster::Pod;
use super::world::{HOUR, MINUTE, World};

const YEARS: i64 = 10 * 365 * 86_400;

/// Host 0 drains for some seconds; its clock is set when it comes to `phase`, and back later.
async fn set_at(phase: &str, seconds: i64) {
    let world = World::new(2, 1).await;
    Pod {
        ends: 20,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    (0..2).for_each(|host| world.want(host));
    world.until_phase(0, phase, HOUR).await;
    world.hosts[0].set_wall(seconds);
    world.pass(10 * MINUTE).await;
    world.hosts[0].set_wall(-seconds);
    world.until_rebooted(&[0, 1], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i5_a_clock_set_forward_ten_years_in_any_phase() {
    for phase in [
        "Claiming",
        "Draining",
        "Rebooting",
        "Verifying",
        "Releasing",
    ] {
        set_at(phase, YEARS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn i5_a_clock_set_back_ten_years_in_any_phase() {
    for phase in [
        "Claiming",
        "Draining",
        "Rebooting",
        "Verifying",
        "Releasing",
    ] {
        set_at(phase, -YEARS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn i5_hosts_that_are_years_apart_share_a_slot() {
    let world = World::new(3, 1).await;
    world.hosts[0].set_wall(YEARS);
    world.hosts[1].set_wall(-YEARS);
    (0..3).for_each(|host| world.want(host));
    world.until_rebooted(&[0, 1, 2], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i10_a_clock_set_back_does_not_make_room_for_another_reboot() {
    let world = World::new(1, 1).await;
    world.hosts[0].state().sticky = true;
    world.want(0);
    world.until_phase(0, "Verifying", HOUR).await;
    for _ in 0..6 {
        world.hosts[0].set_wall(-YEARS / 7);
        world.pass(HOUR).await;
        world.hosts[0].set_wall(YEARS / 5);
        world.pass(HOUR).await;
    }
    world.require(world.boots(0) == 1, &format!("{} boots", world.boots(0)));
    world.at_rest();
}
