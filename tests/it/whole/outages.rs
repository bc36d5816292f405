//! The API server is gone for hours, or its watches are worth nothing (I7).

use std::time::Duration;

use super::cluster::Pod;
use super::world::{HOUR, MINUTE, World};
use crate::memory::{Answer, Broken, Fate, Fault, Verb};

const PHASES: [&str; 6] = [
    "Queued",
    "Claiming",
    "Draining",
    "Rebooting",
    "Verifying",
    "Releasing",
];

/// Two hosts that want a reboot; the first comes to `phase`.
async fn at(phase: &str) -> World {
    let world = World::new(2, 1).await;
    Pod {
        ends: 20,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    (0..2).for_each(|host| world.want(host));
    world.until_phase(0, phase, HOUR).await;
    world
}

#[tokio::test(start_paused = true)]
async fn i7_a_server_that_is_gone_for_five_hours_in_any_phase() {
    for phase in PHASES {
        let world = at(phase).await;
        world.server.set(|state| state.down = true);
        world.pass(5 * HOUR).await;
        world.server.set(|state| state.down = false);
        world.until_rebooted(&[0, 1], 1, 2 * HOUR).await;
    }
}

#[tokio::test(start_paused = true)]
async fn i7_a_server_that_never_answers_for_two_hours_in_any_phase() {
    for phase in PHASES {
        let world = at(phase).await;
        world
            .server
            .set(|state| state.faults.push(Fault::new(Fate::Silent)));
        world.pass(2 * HOUR).await;
        world.server.set(|state| state.faults.clear());
        world.until_rebooted(&[0, 1], 1, 2 * HOUR).await;
    }
}

#[tokio::test(start_paused = true)]
async fn i7_a_storm_of_429_and_of_5xx_in_any_phase() {
    for phase in PHASES {
        for answer in [
            Answer::busy(429, 7),
            Answer::busy(500, 0),
            Answer::busy(503, 0),
        ] {
            let world = at(phase).await;
            world
                .server
                .set(|state| state.faults.push(Fault::new(Fate::Says(answer))));
            world.pass(20 * MINUTE).await;
            world.server.set(|state| state.faults.clear());
            world.until_rebooted(&[0, 1], 1, 2 * HOUR).await;
        }
    }
}

/// A whole rollout of three hosts while every watch is broken in this way.
async fn with_watches(broken: Broken, compact: bool) {
    let world = World::new(3, 1).await;
    Pod {
        ends: 20,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world
        .server
        .set(|state| state.faults.push(Fault::new(Fate::Watch(broken))));
    (0..3).for_each(|host| world.want(host));
    if compact {
        for _ in 0..5 {
            world.pass(MINUTE).await;
            world.server.set(|state| state.compact());
        }
    }
    world.until_rebooted(&[0, 1, 2], 1, 5 * HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i7_watches_that_end_at_once() {
    let ends = Some(Duration::from_millis(10));
    with_watches(
        Broken {
            ends,
            ..Broken::default()
        },
        false,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn i7_watches_that_end_after_seconds_while_versions_expire() {
    let ends = Some(Duration::from_secs(7));
    with_watches(
        Broken {
            ends,
            ..Broken::default()
        },
        true,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn i7_watches_that_stall_silently() {
    let stalls = Some(Duration::from_millis(1));
    with_watches(
        Broken {
            stalls,
            ..Broken::default()
        },
        false,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn i7_watches_that_always_answer_410() {
    with_watches(
        Broken {
            expired: true,
            ..Broken::default()
        },
        false,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn i7_watches_that_tell_old_events_again() {
    let ends = Some(Duration::from_secs(20));
    with_watches(
        Broken {
            repeats: true,
            ends,
            ..Broken::default()
        },
        false,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn i7_a_stale_view_of_the_lease_never_makes_a_second_holder() {
    let world = World::new(2, 1).await;
    // The second host's watches show the free slot for ever.
    let stale = Fault {
        from: "n1".to_owned(),
        ..Fault::new(Fate::Watch(Broken {
            stalls: Some(Duration::ZERO),
            ..Broken::default()
        }))
    };
    world.server.set(|state| {
        state.faults.push(stale);
        state.compact();
    });
    // Its lists are slow as well: longer than an answer may be old that a reboot rests on.
    let slow = Fault {
        from: "n1".to_owned(),
        ..Fault::of(Fate::Slow(Duration::from_secs(10)), Verb::List, "leases")
    };
    world.server.set(|state| state.faults.push(slow));
    (0..2).for_each(|host| world.want(host));
    world.until_rebooted(&[0, 1], 1, 3 * HOUR).await;
}
