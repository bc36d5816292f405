//! People are told of a cycle once, whatever becomes of the daemon (I7).

use std::time::Duration;

use super::cluster::Pod;
use super::host::Order;
use super::world::{HOUR, MINUTE, Plan, World};
use crate::fake_units::{Run, Unit};

/// Shorter than the drain takes.
const MOMENT: Duration = Duration::from_secs(5);

/// How often the host's command was run.
fn told(world: &World) -> usize {
    let knobs = world.hosts[0].logind();
    let units = knobs.started.iter().map(|(unit, _)| unit);
    units
        .filter(|unit| unit.starts_with("kube-rebootd-notify-"))
        .count()
}

/// A world whose daemons run a command that ends with this code, and a drain that takes a while.
async fn world(code: i32) -> World {
    let world = World::with(Plan {
        hosts: 2,
        slots: 1,
        quorum: 0,
        config: "[notify]\ncommand = [\"/bin/tell\"]\n",
    })
    .await;
    world.hosts[0].logind().run = Run::Says(vec![Unit::exited(code)]);
    Pod {
        ends: 60,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.pass(2 * MINUTE).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_cycle_is_told_once_and_no_restart_repeats_any_of_it() {
    let world = world(0).await;
    world.require(told(&world) == 0, "an idle node is no news");
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    world.pass(MOMENT).await;
    let draining = told(&world);
    world.require(
        (1..=2).contains(&draining),
        &format!("{draining} for the drain"),
    );
    world.hosts[0].order(Order::Kill(Duration::from_secs(1)));
    world.pass(MOMENT).await;
    world.require(told(&world) == draining, "the next daemon told it again");
    world.until_rebooted(&[0], 1, HOUR).await;
    // Going down, and back.
    let all = told(&world);
    world.require(all == draining + 2, &format!("{draining}, then {all}"));
    world.hosts[0].order(Order::Kill(Duration::from_secs(1)));
    world.pass(HOUR).await;
    world.require(told(&world) == all, "the next daemon told it again");
}

/// Nobody answers at that address.
#[tokio::test(start_paused = true)]
async fn i7_an_alertmanager_that_is_not_there_keeps_no_reboot_waiting() {
    let world = World::with(Plan {
        hosts: 2,
        slots: 1,
        quorum: 0,
        config: "[notify]\nalertmanager = \"http://127.0.0.1:1\"\n",
    })
    .await;
    world.pass(HOUR).await;
    let said = |world: &World| world.said(0, "notify.alertmanager");
    world.require(!said(&world), "an idle node asks for nothing");
    world.want(0);
    world.until_rebooted(&[0], 1, HOUR).await;
    world.require(said(&world), "it is said");
}

#[tokio::test(start_paused = true)]
async fn i7_a_command_that_always_fails_keeps_no_reboot_waiting() {
    let world = world(1).await;
    world.want(0);
    world.until_rebooted(&[0], 1, HOUR).await;
    world.pass(HOUR).await;
    world.require(
        world.said(0, "a notice is lost after 5 tries"),
        "it is said",
    );
}
