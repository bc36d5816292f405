//! Each write of a cycle meets each fate once, and the daemon and the host die around each of them
//! (I6): one reboot, nothing left.

use std::time::Duration;

use super::cluster::Pod;
use super::host::Order;
use super::world::{HOUR, Plan, World};
use crate::memory::{Answer, Fate, Fault, Verb};

/// A cycle has at least so many writes by PATCH: the waiting record and its end, the dry run, take, label, cordon,
/// before logind, uncordon, label off, give-up.
const WRITES: u32 = 8;

async fn cycle() -> World {
    let world = World::with(Plan {
        hosts: 2,
        slots: 1,
        quorum: 0,
        config: "",
    })
    .await;
    Pod {
        ends: 3,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world
}

/// Whether the nth write of this kind of host 0 met `fate`: a cycle may have fewer.
async fn meets(fate: &Fate, verb: Verb, resource: &'static str, nth: u32) -> bool {
    let world = cycle().await;
    let fault = Fault {
        from: "n0".to_owned(),
        skip: nth,
        times: 1,
        ..Fault::of(fate.clone(), verb, resource)
    };
    world.server.set(|state| state.faults.push(fault));
    world.want(0);
    world.until_rebooted(&[0], 1, 2 * HOUR).await;
    world.server.state().faults[0].times == 0
}

/// One cycle for each of its writes, until there is none left that could meet it.
async fn every_write_meets(fate: Fate) {
    let mut met = 0;
    while meets(&fate, Verb::Patch, "", met).await {
        met += 1;
    }
    assert!(
        (WRITES..3 * WRITES).contains(&met),
        "{met} writes met {fate:?}"
    );
    let evicted = meets(&fate, Verb::Create, "pods/eviction", 0).await;
    assert!(evicted, "no eviction met {fate:?}");
}

#[tokio::test(start_paused = true)]
async fn i6_any_write_is_lost() {
    every_write_meets(Fate::Lost).await;
}

#[tokio::test(start_paused = true)]
async fn i6_any_write_is_never_answered() {
    every_write_meets(Fate::Silent).await;
}

#[tokio::test(start_paused = true)]
async fn i6_the_answer_to_any_write_is_lost() {
    every_write_meets(Fate::AnswerLost).await;
}

#[tokio::test(start_paused = true)]
async fn i6_the_answer_to_any_write_never_comes() {
    every_write_meets(Fate::AnswerSilent).await;
}

#[tokio::test(start_paused = true)]
async fn i6_any_write_lands_late() {
    every_write_meets(Fate::Late(Duration::from_secs(35))).await;
}

#[tokio::test(start_paused = true)]
async fn i6_any_write_meets_a_conflict() {
    every_write_meets(Fate::Says(Answer::status(
        409,
        "Conflict",
        "the object has been modified",
    )))
    .await;
}

#[tokio::test(start_paused = true)]
async fn i3_any_write_meets_the_taints_race() {
    let race = Answer::status(
        403,
        "Forbidden",
        "node \"n0\" is not allowed to modify taints",
    );
    let mut met = 0;
    for nth in 0..WRITES {
        let world = cycle().await;
        let fault = Fault {
            from: "n0".to_owned(),
            skip: nth,
            times: 2,
            ..Fault::of(Fate::Says(race.clone()), Verb::Patch, "nodes")
        };
        world.server.set(|state| state.faults.push(fault));
        world.want(0);
        world.until_rebooted(&[0], 1, 2 * HOUR).await;
        met += u32::from(world.server.state().faults[0].times == 0);
    }
    // Dry run, label, cordon, before logind, uncordon, label off.
    assert!(met >= 5, "only {met} writes met it");
}

/// Killed at moments all through a cycle, by milliseconds from the sentinel on.
async fn dies(order: Order, most: u64) {
    // The first half of a cycle takes some 20 ms of requests and 3 s of a pod's end, the second begins
    // with the boot.
    let early = (0..30).chain([100, 1_000, 3_020, 3_040, 3_060]);
    for millis in early {
        let world = cycle().await;
        world.want(0);
        world.until_phase(0, "Claiming", HOUR).await;
        world.pass(Duration::from_millis(millis)).await;
        world.hosts[0].order(order);
        finished(&world, most).await;
    }
    for millis in [0, 1, 2, 3, 5_000, 10_001, 10_003, 10_004, 10_005] {
        let world = cycle().await;
        world.want(0);
        world.until_phase(0, "Verifying", HOUR).await;
        world.pass(Duration::from_millis(millis)).await;
        world.hosts[0].order(order);
        finished(&world, most).await;
    }
}

/// One reboot for one request; a power loss may be one itself.
async fn finished(world: &World, most: u64) {
    let done = |world: &World| world.boots(0) >= 1 && world.phase(0) == "Idle";
    world.until("rebooted", 3 * HOUR, done).await;
    world.pass(HOUR).await;
    world.at_rest();
    world.require(
        (1..=most).contains(&world.boots(0)),
        &format!("{} boots", world.boots(0)),
    );
}

#[tokio::test(start_paused = true)]
async fn i6_killed_at_any_moment_it_finishes() {
    dies(Order::Kill(Duration::from_secs(10)), 1).await;
}

#[tokio::test(start_paused = true)]
async fn i6_killed_for_minutes_at_any_moment_it_finishes() {
    dies(Order::Kill(Duration::from_secs(400)), 1).await;
}

#[tokio::test(start_paused = true)]
async fn i6_without_power_at_any_moment_it_finishes() {
    dies(Order::PowerLoss, 2).await;
}
