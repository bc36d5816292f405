//! logind refuses, is silent, says yes and does nothing (I2, I8).

use std::time::Duration;

use super::world::{HOUR, MINUTE, World};
use crate::fake_bus::Refusal;

/// One host that wants a reboot which logind answers like this.
async fn refused(refusal: Refusal) -> World {
    let world = World::new(1, 1).await;
    world.hosts[0].logind().refusal = refusal;
    world.want(0);
    world.until_phase(0, "Rebooting", HOUR).await;
    world
}

/// The attempt is undone with a reason; later it works.
async fn undone_and_tried_again(world: World, most: usize) {
    world.until_phase(0, "Undoing", 2 * HOUR).await;
    world
        .until("the slot is free", 5 * MINUTE, |world| {
            world.holder("default").is_none()
        })
        .await;
    world.at_rest();
    let asked = world.hosts[0].logind().reboots;
    world.require(
        (1..=most).contains(&asked),
        &format!("logind was asked {asked} times"),
    );
    world.require(world.boots(0) == 0, "no reboot");
    {
        let mut logind = world.hosts[0].logind();
        logind.refusal = Refusal::No;
        logind.prepare_on_reboot = true;
    }
    world.until_rebooted(&[0], 1, 10 * HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i2_a_masked_reboot_is_undone() {
    undone_and_tried_again(refused(Refusal::Masked).await, 3).await;
}

#[tokio::test(start_paused = true)]
async fn i2_a_polkit_that_wants_a_person_is_undone() {
    undone_and_tried_again(refused(Refusal::Interactive).await, 3).await;
}

#[tokio::test(start_paused = true)]
async fn i2_an_inhibitor_that_comes_at_the_last_moment_is_undone() {
    for refusal in [
        Refusal::Blocked252,
        Refusal::Blocked257,
        Refusal::Blocked258,
    ] {
        undone_and_tried_again(refused(refusal).await, 3).await;
    }
}

#[tokio::test(start_paused = true)]
async fn i2_another_operation_in_progress_is_undone() {
    undone_and_tried_again(refused(Refusal::InProgress).await, 3).await;
}

#[tokio::test(start_paused = true)]
async fn i2_a_silent_logind_is_asked_three_times_and_then_undone() {
    undone_and_tried_again(refused(Refusal::Silent).await, 3).await;
}

#[tokio::test(start_paused = true)]
async fn i2_a_logind_that_says_yes_and_does_nothing_is_asked_three_times() {
    let world = World::new(1, 1).await;
    world.hosts[0].logind().prepare_on_reboot = false;
    world.want(0);
    world.until_phase(0, "Rebooting", HOUR).await;
    undone_and_tried_again(world, 3).await;
}

#[tokio::test(start_paused = true)]
async fn i8_a_logind_that_says_nothing_closes_the_gate() {
    let world = World::new(1, 1).await;
    world.hosts[0].logind().mute = true;
    world.pass(MINUTE).await;
    world.want(0);
    world.pass(2 * HOUR).await;
    world.require(
        world.boots(0) == 0 && world.holder("default").is_none(),
        "nothing is begun",
    );
    world.require(world.hosts[0].logind().reboots == 0, "logind is not asked");
    world.hosts[0].logind().mute = false;
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// Found by reading: a schedule that could not be read counted as none, so that a hold could be undone on a host that was
/// about to go down by it.
#[tokio::test(start_paused = true)]
async fn i8_a_schedule_that_cannot_be_read_is_not_taken_for_none() {
    let world = World::new(1, 1).await;
    world.hosts[0].logind().schedule_unread = true;
    world.pass(MINUTE).await;
    world.want(0);
    world.pass(2 * HOUR).await;
    world.require(world.holder("default").is_none(), "a slot is taken");
    world.require(world.hosts[0].logind().reboots == 0, "logind is asked");
    world.hosts[0].logind().schedule_unread = false;
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// Found by reading: the calls of one look waited one after another, for their ten seconds each, and the loop heard nothing
/// meanwhile.
#[tokio::test(start_paused = true)]
async fn i7_beside_a_logind_that_says_nothing_a_reload_is_heard_within_seconds() {
    let world = World::new(1, 1).await;
    world.hosts[0].logind().mute = true;
    world.want(0);
    world.pass(5 * MINUTE).await;
    // At other moments of a look each.
    let mut before = "10m";
    for (stall, at) in [("9m", 0), ("8m", 4), ("7m", 8), ("6m", 12)] {
        world.pass(Duration::from_secs(at)).await;
        let text = format!("[drain]\nstall = \"{stall}\"\n");
        world.hosts[0].write("/etc/kube-rebootd/config.d/50-test.toml", &text);
        world.hosts[0].reload();
        let words = format!("drain.stall: \"{before}\" -> \"{stall}\" (");
        let heard = |world: &World| world.said(0, &words);
        let limit = Duration::from_secs(15);
        world.until(&words, limit, heard).await;
        before = stall;
    }
}
