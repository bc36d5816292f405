//! Windows that open, close before anything is begun, and close in mid-drain (I2, I3). The world begins at 11:06:40 UTC.

use super::cluster::Pod;
use super::world::{HOUR, MINUTE, Plan, World};

async fn world(hosts: usize, config: &'static str) -> World {
    World::with(Plan {
        hosts,
        slots: 1,
        quorum: 0,
        config,
    })
    .await
}

fn untouched(world: &World, boots: u64) {
    let free = world.holder("default").is_none() && !world.cordoned(0);
    world.require(free && world.boots(0) == boots, "nothing is begun");
}

#[tokio::test(start_paused = true)]
async fn i2_a_reboot_waits_for_its_window_and_says_so() {
    let world = world(
        1,
        "[[windows]]\nname = \"noon\"\nstart = \"12:00\"\nend = \"13:00\"\n",
    )
    .await;
    world.want(0);
    world.pass(50 * MINUTE).await;
    untouched(&world, 0);
    let opens = "reboot pending: outside of the windows; \"noon\" opens Wed 2026-11-18 12:00 UTC";
    world.require(world.said(0, opens), "it says when the window opens");
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
}

/// What the time-outs come to does not fit into the 40 minutes that are left.
#[tokio::test(start_paused = true)]
async fn i2_a_window_that_closes_too_soon_is_not_begun_in() {
    let world = world(
        1,
        "[[windows]]\nstart = \"10:40\"\nend = \"11:47\"\ntime_zone = \"UTC\"\n",
    )
    .await;
    world.want(0);
    world.pass(23 * HOUR).await;
    untouched(&world, 0);
    let why = "window \"1\" closes Wed 2026-11-18 11:47 UTC, and drain and boot may take 45m";
    world.require(world.said(0, why), "it says what does not fit");
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// A first reboot in seconds, and then a drain of 24 minutes that begins 10 minutes before the window closes.
async fn outlasted(config: &'static str) -> World {
    let world = world(2, config).await;
    world.want(0);
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    world.unwant(0);
    while world.hosts[0].now() < "2026-11-18T12:20:00Z".parse().unwrap() {
        world.pass(MINUTE / 6).await;
    }
    Pod {
        ends: 24 * 60,
        grace: 25 * 60,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", 5 * MINUTE).await;
    world
}

#[tokio::test(start_paused = true)]
async fn i2_a_drain_that_outlasts_its_window_is_finished() {
    let world = outlasted("[[windows]]\nstart = \"11:00\"\nend = \"12:30\"\n").await;
    world.until_rebooted(&[0], 2, 30 * MINUTE).await;
    let now = world.hosts[0].now();
    world.require(
        now > "2026-11-18T12:40:00Z".parse().unwrap(),
        "after the window",
    );
}

#[tokio::test(start_paused = true)]
async fn i2_i3_a_drain_that_outlasts_its_window_is_undone_where_that_is_configured() {
    let config =
        "[[windows]]\nstart = \"11:00\"\nend = \"12:30\"\n[gates]\nwindow_close = \"undo\"\n";
    let world = outlasted(config).await;
    world
        .until("the slot is given back", 12 * MINUTE, |world| {
            world.holder("default").is_none() && !world.cordoned(0)
        })
        .await;
    world.pass(2 * HOUR).await;
    untouched(&world, 1);
}

/// A drain of 24 minutes is late by more than 10.
#[tokio::test(start_paused = true)]
async fn i2_what_is_finished_late_has_a_limit() {
    let config =
        "[[windows]]\nstart = \"11:00\"\nend = \"12:30\"\n[gates]\nwindow_overrun = \"10m\"\n";
    let world = outlasted(config).await;
    world
        .until("the slot is given back", 22 * MINUTE, |world| {
            world.holder("default").is_none() && !world.cordoned(0)
        })
        .await;
    let now = world.hosts[0].now();
    world.require(
        now >= "2026-11-18T12:40:00Z".parse().unwrap(),
        "at the limit",
    );
    world.pass(2 * HOUR).await;
    untouched(&world, 1);
}

#[tokio::test(start_paused = true)]
async fn dates_are_excluded_without_any_window() {
    let world = world(1, "[gates]\nexclude_dates = [\"2026-11-18..2026-11-19\"]\n").await;
    world.want(0);
    world.pass(36 * HOUR).await;
    untouched(&world, 0);
    world.until_rebooted(&[0], 1, 2 * HOUR).await;
}

/// Its window opens at 3 o'clock, 16 hours after it was wanted.
#[tokio::test(start_paused = true)]
async fn i2_an_old_request_passes_over_the_windows_and_says_so() {
    let config = "[[windows]]\nname = \"nights\"\nstart = \"03:00\"\nend = \"05:00\"\n\
        [gates]\nforce_after = \"2h\"\nforce = [\"windows\"]\n";
    let world = world(1, config).await;
    world.want(0);
    world.pass(119 * MINUTE).await;
    untouched(&world, 0);
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    let why = "the request is older than gates.force_after, which passes over: outside of the windows; \"nights\" opens";
    world.require(world.said(0, why), "the journal says why it came now");
    world.unwant(0);
    world.pass(HOUR).await;
    // The next request is young again.
    world.want(0);
    world.pass(119 * MINUTE).await;
    untouched(&world, 1);
}

/// A clock of which nobody knows whether it is right opens no window; a drain that has begun goes on.
#[tokio::test(start_paused = true)]
async fn i2_i8_windows_rest_on_a_clock_that_is_synchronized() {
    let config = "[[windows]]\nstart = \"11:00\"\nend = \"20:00\"\n";
    for said in [Some(false), None] {
        let world = world(2, config).await;
        Pod {
            ends: 5 * 60,
            grace: 6 * 60,
            ..Pod::new("web", "n0")
        }
        .make(&world.server);
        world.hosts[0].logind().synchronized = said;
        world.want(0);
        world.pass(HOUR).await;
        untouched(&world, 0);
        let why = match said {
            Some(_) => {
                "reboot pending: the clock is not synchronized, and windows, excluded dates or gates.force_after rest on it"
            }
            None => "reboot pending: not known whether the clock is synchronized",
        };
        world.require(world.said(0, why), "it says why");
        world.hosts[0].logind().synchronized = Some(true);
        world.until_phase(0, "Draining", 2 * MINUTE).await;
        world.hosts[0].logind().synchronized = said;
        world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_nobody_synchronizes_may_be_believed() {
    for config in [
        "[[windows]]\nstart = \"11:00\"\nend = \"20:00\"\n[gates]\nunsynchronized_clock = \"ignore\"\n",
        // Nothing rests on it.
        "",
    ] {
        let world = world(1, config).await;
        world.hosts[0].logind().synchronized = Some(false);
        world.want(0);
        world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    }
}
