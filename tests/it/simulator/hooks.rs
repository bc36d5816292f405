//! Hooks that set something before the cordon and before the reboot: whatever happens, it is taken back before the slot is
//! given up (I3, I6). `clean_at_give_up` and `at_rest` look.

use kube_rebootd_core::hook::Hook;

use super::*;

/// Hosts with hooks that all want to reboot.
fn hooked(hosts: usize) -> World {
    let mut world = World::new(hosts, 1, 0);
    world.hook(true);
    (0..hosts).for_each(|host| world.touch(host));
    world
}

#[test]
fn each_directory_has_its_place_in_a_cycle() {
    let mut world = hooked(1);
    world.run(HOUR, calm);
    world.at_rest();
    assert_eq!(world.boots(0), 1, "{}", world.told());
    let rounds = [Hook::PreDrain, Hook::PreReboot, Hook::Undo];
    assert_eq!(world.hosts[0].rounds, rounds);
    let at = |what: &str| {
        let at = world.trace.iter().position(|line| line.starts_with(what));
        at.unwrap_or_else(|| panic!("{what}\n{}", world.told()))
    };
    // The take, the label, the first hooks and the cordon; the last pod, the next hooks and logind; the uncordon, what takes
    // back, and the Lease.
    let order = [
        "n0 Claiming Hooks(PreDrain)",
        "n0 Draining Apply",
        "n0 Draining Evict",
        "n0 Draining Hooks(PreReboot)",
        "n0 Draining ListPods",
        "n0 Rebooting Fence",
        "n0 Verifying Apply",
        "n0 Releasing Hooks(Undo)",
        "n0 Releasing GiveUp",
    ];
    let places = order.map(at);
    assert!(places.is_sorted(), "{places:?}\n{}", world.told());
}

/// Every write of a cycle, each meeting each fate, where the request stays and where it is withdrawn in mid-drain.
#[test]
fn i3_i6_any_single_fault_leaves_nothing_that_hooks_have_set() {
    let mut faults = 0;
    for (fate, withdrawn) in FATES
        .into_iter()
        .flat_map(|fate| [(fate, false), (fate, true)])
    {
        for nth in 1.. {
            let mut world = hooked(1);
            world.run(2 * HOUR, |world, host| {
                if withdrawn && world.phase(host) == Some(Phase::Draining) {
                    world.remove_sentinel(host);
                }
                let first = world.met.is_empty() && world.effects + 1 == nth;
                if first && world.writes(host) {
                    return fate;
                }
                Fate::Done
            });
            world.at_rest();
            faults += world.met.values().sum::<u64>();
            if nth > world.effects {
                break;
            }
        }
    }
    assert!(faults > 120, "only {faults} faults were met");
}

/// Nobody knows then what has run.
#[test]
fn i3_i6_a_lost_disk_leaves_nothing_that_hooks_have_set() {
    let mut lost = 0;
    for nth in 1.. {
        let mut world = hooked(1);
        let mut met = false;
        world.run(HOUR, |world, host| {
            if !met && world.effects == nth {
                met = true;
                world.lose_disk(host);
                return Fate::KilledAfter;
            }
            Fate::Done
        });
        world.at_rest();
        if !met {
            break;
        }
        lost += 1;
    }
    assert!(lost >= 10, "only {lost} disks were lost");
}

/// An admin's unlock at any moment: the slot is gone, and what was set is taken back all the same.
#[test]
fn i3_an_unlock_leaves_nothing_that_hooks_have_set() {
    for nth in 1.. {
        let mut world = hooked(1);
        let mut met = false;
        world.run(2 * HOUR, |world, _| {
            if !met && world.effects == nth {
                met = true;
                world.unlock_by_admin("default");
            }
            Fate::Done
        });
        world.at_rest();
        if !met {
            break;
        }
    }
}

/// It is tried without end, and the next node waits.
#[test]
fn i3_i4_while_what_takes_back_fails_the_slot_is_kept() {
    let mut world = hooked(2);
    world.hosts[0].undo_fails = u32::MAX;
    world.run(5 * HOUR, calm);
    assert_eq!((world.boots(0), world.boots(1)), (1, 0), "{}", world.told());
    assert_eq!(world.holder("default"), Some("n0"));
    assert!(
        !world.cordoned(0) && !world.labelled(0),
        "all else is given back"
    );
    let tries = world.hosts[0].rounds.len();
    assert!((10..=25).contains(&tries), "{tries} rounds in five hours");
    assert!(
        world.status(0).contains("hook a failed: lost"),
        "{}",
        world.status(0)
    );
    world.hosts[0].undo_fails = 0;
    world.run(5 * HOUR, calm);
    world.at_rest();
    assert_eq!((world.boots(0), world.boots(1)), (1, 1), "{}", world.told());
}
