//! Many whole daemons for days, from a seed, with everything that can go wrong at random. I1 to I4, I9,
//! I11 and I13 are judged at every write that the server sees.

use std::time::Duration;

use super::cluster::{Pod, make_budget};
use super::host::Order;
use super::world::{HOUR, Plan, World};
use crate::memory::{Answer, Broken, Fate, Fault};
use crate::simulator::Chance;

const HOSTS: usize = 12;

/// Something that goes wrong for one host, or for all.
fn trouble(chance: &mut Chance) -> Fate {
    let seconds = |chance: &mut Chance| Duration::from_secs(chance.below(90) as u64);
    match chance.below(11) {
        0 => Fate::Lost,
        1 => Fate::Silent,
        2 => Fate::AnswerLost,
        3 => Fate::AnswerSilent,
        4 => Fate::Late(seconds(chance)),
        5 => Fate::Slow(seconds(chance) / 5),
        6 => Fate::Says(Answer::busy(429, 3)),
        7 => Fate::Says(Answer::busy(500, 0)),
        8 => Fate::Watch(Broken {
            stalls: Some(seconds(chance)),
            ..Broken::default()
        }),
        9 => Fate::Watch(Broken {
            ends: Some(seconds(chance)),
            repeats: true,
            ..Broken::default()
        }),
        _ => Fate::Watch(Broken {
            expired: true,
            ..Broken::default()
        }),
    }
}

/// One thing that happens within a minute or two.
fn happen(world: &World, chance: &mut Chance) {
    let host = chance.below(HOSTS);
    match chance.below(10) {
        0 | 1 => world.want(host),
        2 => world.hosts[host].order(Order::Kill(Duration::from_secs(chance.below(200) as u64))),
        3 if chance.hit(20) => world.hosts[host].order(Order::PowerLoss),
        4 => {
            let from = if chance.hit(80) {
                world.hosts[host].name.clone()
            } else {
                String::new()
            };
            let (skip, times) = (chance.below(6), 1 + chance.below(5));
            let fault = Fault {
                from,
                skip: u32::try_from(skip).unwrap(),
                times: u32::try_from(times).unwrap(),
                ..Fault::new(trouble(chance))
            };
            world.server.set(|state| state.faults.push(fault));
        }
        5 => world.hosts[host]
            .set_wall(i64::try_from(chance.below(200_000_000)).unwrap() - 100_000_000),
        6 if chance.hit(30) => world.server.set(|state| state.down = !state.down),
        7 => world.server.set(|state| state.down = false),
        8 if chance.hit(30) => world.server.set(super::super::memory::State::compact),
        9 => world
            .server
            .set(|state| state.faults.retain(|fault| fault.times > 0)),
        _ => {}
    }
}

async fn days(seed: u64, hours: u32) {
    let mut chance = Chance::seed(seed);
    let config = "[reboot]\nmax_per_day = 100\n";
    let world = World::with(Plan {
        hosts: HOSTS,
        slots: 3,
        quorum: 3,
        config,
    })
    .await;
    for host in 0..HOSTS {
        let (name, node) = (format!("web-{host}"), format!("n{host}"));
        let ends = 1 + chance.below(20) as u64;
        Pod {
            app: "web",
            ends,
            ..Pod::new(&name, &node)
        }
        .make(&world.server);
        Pod {
            owner: "DaemonSet",
            app: "agent",
            ..Pod::new(&format!("agent-{host}"), &node)
        }
        .make(&world.server);
    }
    make_budget(&world.server, "web", "web", (HOSTS - 2) as u64);
    let end = tokio::time::Instant::now() + hours * HOUR;
    while tokio::time::Instant::now() < end {
        happen(&world, &mut chance);
        world
            .pass(Duration::from_secs(1 + chance.below(150) as u64))
            .await;
    }
    // Then everything is well again, and everybody comes to an end.
    world.server.set(|state| {
        state.down = false;
        state.faults.clear();
    });
    // A sentinel that came back within 15 minutes of a boot must go once (I10).
    for host in &world.hosts {
        let _ = std::fs::remove_file(host.path("/run/reboot-required"));
    }
    world.pass(HOUR).await;
    (0..HOSTS).for_each(|host| world.want(host));
    let before: Vec<u64> = (0..HOSTS).map(|host| world.boots(host)).collect();
    let done = |world: &World| {
        (0..HOSTS).all(|host| world.boots(host) > before[host] && world.phase(host) == "Idle")
    };
    world
        .until("everybody has rebooted once more", 30 * HOUR, done)
        .await;
    world.pass(HOUR).await;
    world.at_rest();
    let boots: Vec<u64> = (0..HOSTS).map(|host| world.boots(host)).collect();
    println!("seed {seed}: boots {boots:?}");
}

#[tokio::test(start_paused = true)]
async fn i1_i13_twelve_daemons_on_three_slots_for_days_of_trouble() {
    for seed in 0..3 {
        println!("seed {seed}");
        days(seed, 24).await;
    }
}
