//! Somebody is logged in on the host: warned in time, waited for where that is configured, and never forgotten (I2, I8).

use std::time::Duration;

use super::cluster::Pod;
use super::world::{HOUR, MINUTE, Plan, World};
use crate::fake_login::FakeSession;
use crate::fake_units::{Run, Unit};

const ALICE: FakeSession = FakeSession {
    id: "1",
    class: "user",
    idle: Duration::ZERO,
};

/// Two hosts, as a node that is alone evicts nothing; the first one is looked at.
async fn world(config: &'static str) -> World {
    let world = World::with(Plan {
        hosts: 2,
        slots: 1,
        quorum: 0,
        config,
    })
    .await;
    for host in &world.hosts {
        host.logind().run = Run::Says(vec![Unit::exited(0)]);
    }
    world
}

fn untouched(world: &World) {
    let free = world.holder("default").is_none() && !world.cordoned(0);
    world.require(free && world.boots(0) == 0, "nothing is begun");
}

/// How often wall(1) was run.
fn walls(world: &World) -> usize {
    let knobs = world.hosts[0].logind();
    let units = knobs.started.iter().map(|(unit, _)| unit);
    units
        .filter(|unit| unit.starts_with("kube-rebootd-notify-wall"))
        .count()
}

#[tokio::test(start_paused = true)]
async fn i2_who_is_logged_in_is_warned_once_and_has_five_minutes() {
    let world = world("").await;
    world.hosts[0].logind().sessions = vec![ALICE];
    world.pass(MINUTE).await;
    world.require(walls(&world) == 0, "nobody is warned of nothing");
    world.want(0);
    world.pass(4 * MINUTE).await;
    untouched(&world);
    let why =
        "reboot pending: alice (pts/0 from desk) is at work on this host, and warned of the reboot";
    world.require(world.said(0, why), "it says who is waited for");
    world.require(walls(&world) == 1, "one warning");
    world.until_rebooted(&[0], 1, 5 * MINUTE).await;
    world.require(walls(&world) == 2, "and one word when the drain begins");
}

/// Who logs in while another waits for the end of the delay has the delay as well.
#[tokio::test(start_paused = true)]
async fn i2_a_second_session_is_warned_as_well() {
    let world = world("").await;
    world.hosts[0].logind().sessions = vec![ALICE];
    // The host is looked at every quarter of a minute, and before the cordon if that is older than five seconds.
    world.pass(MINUTE).await;
    world.want(0);
    world.pass(3 * MINUTE).await;
    let second = FakeSession { id: "2", ..ALICE };
    world.hosts[0].logind().sessions = vec![ALICE, second];
    world.pass(4 * MINUTE).await;
    untouched(&world);
    world.require(walls(&world) == 2, "two warnings");
    world.until_rebooted(&[0], 1, 5 * MINUTE).await;
}

/// Found by review: a script that logs in every few minutes kept the host from rebooting for ever.
#[tokio::test(start_paused = true)]
async fn sessions_that_never_end_to_come_keep_no_host_unpatched() {
    const IDS: [&str; 12] = [
        "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12",
    ];
    let world = world("").await;
    world.hosts[0].logind().sessions = vec![ALICE];
    world.pass(MINUTE).await;
    world.want(0);
    let mut passed = 0;
    for id in IDS {
        if world.boots(0) > 0 {
            break;
        }
        world.hosts[0].logind().sessions = vec![FakeSession { id, ..ALICE }];
        world.pass(4 * MINUTE).await;
        passed += 4;
        world.require(passed > 12 || world.boots(0) == 0, "each has some time");
    }
    world.require(passed <= 24, &format!("it waited {passed} minutes"));
    world.require(walls(&world) >= 4, "each was warned");
    world.until_rebooted(&[0], 1, 5 * MINUTE).await;
}

#[tokio::test(start_paused = true)]
async fn nobody_is_warned_while_something_else_is_in_the_way() {
    let world = world("[gates]\nmin_uptime = \"4h\"\n").await;
    world.hosts[0].logind().sessions = vec![ALICE];
    // The host is looked at every quarter of a minute, and before the cordon if that is older than five seconds.
    world.pass(MINUTE).await;
    world.want(0);
    world.pass(2 * HOUR).await;
    world.require(walls(&world) == 0, "it is not their turn");
    world.until_rebooted(&[0], 1, 4 * HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i2_i8_a_user_blocks_where_that_is_configured_and_a_silent_logind_too() {
    let world = world("[gates]\nusers = \"block\"\nusers_idle = \"1m\"\n").await;
    world.hosts[0].logind().sessions = vec![ALICE];
    // The host is looked at every quarter of a minute, and before the cordon if that is older than five seconds.
    world.pass(MINUTE).await;
    world.want(0);
    world.pass(3 * HOUR).await;
    untouched(&world);
    world.require(walls(&world) == 0, "nobody is warned");
    // Idle time is of the real clock, and the machine has been up for longer than this.
    let idle = FakeSession {
        idle: Duration::from_secs(61),
        ..ALICE
    };
    world.hosts[0].logind().sessions = vec![idle];
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
}

#[tokio::test(start_paused = true)]
async fn login_screens_and_cron_are_nobody() {
    let world = world("[gates]\nusers = \"block\"\n").await;
    let class = |id, class| FakeSession { id, class, ..ALICE };
    world.hosts[0].logind().sessions = vec![class("1", "greeter"), class("2", "background")];
    world.want(0);
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
}

/// A drain of some minutes, and somebody who logs in meanwhile.
async fn drains(config: &'static str) -> World {
    let world = world(config).await;
    Pod {
        ends: 5 * 60,
        grace: 10 * 60,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", 5 * MINUTE).await;
    world.hosts[0].logind().sessions = vec![ALICE];
    world
}

#[tokio::test(start_paused = true)]
async fn i2_who_logs_in_during_the_drain_keeps_the_reboot_waiting_only_where_users_block() {
    let world = drains("").await;
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    // The drain ends, then the reboot waits for five minutes, then all is given back.
    let world = drains("[gates]\nusers = \"block\"\n").await;
    world
        .until("the slot is given back", 15 * MINUTE, |world| {
            world.holder("default").is_none() && !world.cordoned(0)
        })
        .await;
    world.pass(HOUR).await;
    untouched(&world);
    world.hosts[0].logind().sessions = Vec::new();
    world.until_rebooted(&[0], 1, 2 * HOUR).await;
}

/// Somebody comes while another node holds the slot.
#[tokio::test(start_paused = true)]
async fn i2_who_logs_in_while_the_node_queues_is_warned_before_its_drain() {
    let world = world("").await;
    Pod {
        ends: 5 * 60,
        grace: 10 * 60,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", 5 * MINUTE).await;
    world.want(1);
    world.until_phase(1, "Queued", 5 * MINUTE).await;
    world.hosts[1].logind().sessions = vec![ALICE];
    world.until_rebooted(&[0, 1], 1, 30 * MINUTE).await;
    world.require(
        world.said(1, "is at work on this host, and warned of the reboot"),
        "alice was warned before the drain",
    );
}

#[tokio::test(start_paused = true)]
async fn who_only_observes_warns_nobody() {
    let world = world("mode = \"observe\"\n").await;
    world.hosts[0].logind().sessions = vec![ALICE];
    // The host is looked at every quarter of a minute, and before the cordon if that is older than five seconds.
    world.pass(MINUTE).await;
    world.want(0);
    world.pass(HOUR).await;
    world.require(walls(&world) == 0, "nothing will happen");
    untouched(&world);
}
