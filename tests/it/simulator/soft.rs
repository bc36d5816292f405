//! Soft-reboots in whole cycles, with every fate of a write: the sentinel survives them, and asks for no second one (I1, I6, I10).

use kube_rebootd_core::kind::Kind;
use kube_rebootd_core::phase::Phase;

use super::{FATES, Fate, HOUR, World, calm};

fn soft(hosts: usize) -> World {
    let mut world = World::new(hosts, 1, 0);
    for host in 0..hosts {
        world.hosts[host].soft = true;
        world.hosts[host].config.reboot.kind = Kind::SoftReboot;
        world.touch(host);
    }
    world
}

/// Full reboots, and soft ones.
fn did(world: &World, host: usize) -> (u64, u64) {
    (world.boots(host), world.hosts[host].userspaces)
}

#[test]
fn i1_i10_hosts_soft_reboot_one_after_another_each_once_for_each_file() {
    let mut world = soft(3);
    world.run(2 * HOUR, calm);
    world.at_rest();
    (0..3).for_each(|host| assert_eq!(did(&world, host), (0, 1), "{}", world.told()));
    assert!(world.hosts[0].sentinel, "it lies there still");
    assert!(
        !world.status(0).contains("did not clear"),
        "{}",
        world.status(0)
    );
    // It is written anew, and then names a full one.
    world.touch(0);
    world.run(2 * HOUR, calm);
    assert_eq!(did(&world, 0), (0, 2), "{}", world.told());
    world.hosts[0].soft = false;
    world.hosts[0].config.reboot.kind = Kind::Reboot;
    world.touch(0);
    world.run(2 * HOUR, calm);
    world.at_rest();
    assert_eq!(did(&world, 0), (1, 2), "{}", world.told());
}

/// Every write of a whole cycle, each meeting each fate; power that goes makes one full reboot, before it or after.
#[test]
fn i6_any_single_fault_at_any_effect_ends_in_one_soft_reboot() {
    let mut faults = 0;
    for fate in FATES {
        for nth in 1.. {
            let mut world = soft(2);
            world.run(2 * HOUR, |world, host| {
                let first = world.met.is_empty() && host == 0 && world.effects + 1 == nth;
                if first && world.writes(host) {
                    return fate;
                }
                Fate::Done
            });
            world.at_rest();
            assert_eq!(
                did(&world, 1),
                (0, 1),
                "{fate:?} at {nth}\n{}",
                world.told()
            );
            let (full, soft) = did(&world, 0);
            let power = u64::from(fate == Fate::PowerLoss && !world.met.is_empty());
            assert_eq!(full, power, "{fate:?} at {nth}\n{}", world.told());
            let right = if power == 1 { soft <= 1 } else { soft == 1 };
            assert!(right, "{fate:?} at {nth}: {soft}\n{}", world.told());
            faults += world.met.values().sum::<u64>();
            if nth > world.effects {
                break;
            }
        }
    }
    assert!(faults > 60, "only {faults} faults were met");
}

/// A soft-reboot by somebody else at any point of a cycle for a full one: it is served by a full one all the same.
#[test]
fn i10_a_soft_reboot_by_somebody_else_serves_no_full_request() {
    let mut phases = Vec::new();
    for nth in 1.. {
        let mut world = World::new(1, 1, 0);
        world.touch(0);
        let mut met = false;
        world.run(12 * HOUR, |world, host| {
            if !met && world.effects == nth && world.boots(host) == 0 {
                met = true;
                phases.extend(world.phase(host));
                world.soft_boot(host);
            }
            Fate::Done
        });
        world.at_rest();
        assert_eq!(
            did(&world, 0),
            (1, u64::from(met)),
            "{nth}: {}",
            world.told()
        );
        if !met {
            break;
        }
    }
    for phase in [Phase::Claiming, Phase::Draining, Phase::Rebooting] {
        assert!(phases.contains(&phase), "{phases:?}");
    }
}
