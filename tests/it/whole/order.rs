//! `[[drain.order]]`, by whole daemons: a group leaves when those before it have gone, or after its wait.

use std::time::Duration;

use super::cluster::{Pod, make_budget};
use super::host::Order;
use super::world::{MINUTE, World};

const ORDER: &str = "[[drain.order]]\nname = \"databases\"\npods = [\"app=db\"]\nwait = \"2m\"\n";

/// When this pod was asked to leave, in seconds since the hosts began.
fn asked(world: &World, pod: &str) -> Option<f64> {
    let state = world.server.state();
    let what = format!("create pods/eviction shop/{pod} ");
    let line = state.trace.iter().find(|line| line.contains(&what))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A host with a consumer that takes 20 seconds to end, and its database.
async fn shop() -> World {
    let world = World::pair(ORDER).await;
    Pod {
        ends: 20,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    Pod::new("db", "n0").make(&world.server);
    world
}

#[tokio::test(start_paused = true)]
async fn a_later_group_is_asked_to_leave_when_the_earlier_one_has_gone() {
    let world = shop().await;
    world.want(0);
    world.until_rebooted(&[0], 1, 3 * MINUTE).await;
    let [web, db] = ["web", "db"].map(|pod| asked(&world, pod).expect("it was evicted"));
    world.require((20.0..25.0).contains(&(db - web)), "after the other's end");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_stuck_holds_a_later_group_up_no_longer_than_its_wait() {
    let world = shop().await;
    make_budget(&world.server, "web-budget", "web", 1);
    world.want(0);
    world.until_phase(0, "Draining", MINUTE).await;
    world.pass(3 * MINUTE).await;
    let [web, db] = ["web", "db"].map(|pod| asked(&world, pod).expect("it was asked"));
    world.require((118.0..125.0).contains(&(db - web)), "after its wait");
    world
        .server
        .set(|state| state.remove(("poddisruptionbudgets", "shop", "web-budget")));
    world.until_rebooted(&[0], 1, 3 * MINUTE).await;
}

/// A daemon that starts over begins with the groups that are left.
#[tokio::test(start_paused = true)]
async fn i6_a_daemon_that_is_killed_between_two_groups_finishes() {
    let world = shop().await;
    world.want(0);
    world.until_phase(0, "Draining", MINUTE).await;
    world.pass(Duration::from_secs(10)).await;
    world.hosts[0].order(Order::Kill(Duration::from_secs(5)));
    world.until_rebooted(&[0], 1, 5 * MINUTE).await;
    let [web, db] = ["web", "db"].map(|pod| asked(&world, pod).expect("it was evicted"));
    world.require(db - web >= 20.0, "after the other's end");
}
