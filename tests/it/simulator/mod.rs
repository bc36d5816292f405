//! Whole cycles without clocks, network or hosts: a model of the API server and of the hosts that the daemon's
//! `Machine` is driven against, killed between any two effects (I1-I6, I10, I13). It is told what the daemon tells it:
//! watches, answers, triggers, logind and systemd, package managers, the kubelet's life. Pods go as soon as they are evicted, and
//! of the other nodes of the quorum only the labels and their Ready are told (`whole` has both).
//!
//! The model is the part of docs/design.md 3, 5 and 7 that the lock rests on: resourceVersion and uid as
//! preconditions, field ownership of the cordon, lost answers, requests that land late. What a real
//! API server answers is proved in `cluster_*`; here it is only imitated.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_rebootd_core::names;
use kube_rebootd_core::phase::Phase;

mod api;
mod chance;
mod escalate;
mod hooks;
mod host;
mod invariants;
mod leaks;
mod month;
mod options;
mod orders;
mod people;
mod place;
mod queue;
mod service;
mod soft;
mod storm;
mod told;
mod turn;
mod updater;
mod view;
mod world;

pub(crate) use chance::Chance;
use turn::Fate;
use world::World;

const HOUR: Duration = Duration::from_secs(3600);

fn calm(_: &mut World, _: usize) -> Fate {
    Fate::Done
}

/// The fates that a single write can meet without a refusal.
const FATES: [Fate; 6] = [
    Fate::AnswerLost,
    Fate::Lost,
    Fate::Late,
    Fate::KilledBefore,
    Fate::KilledAfter,
    Fate::PowerLoss,
];

#[test]
fn one_host_reboots_once_and_leaves_nothing() {
    let mut world = World::new(1, 1, 0);
    world.touch(0);
    world.run(HOUR, calm);
    world.at_rest();
    assert_eq!(world.boots(0), 1, "{}", world.told());
    let phases = &world.hosts[0].phases;
    let all = [
        Phase::Idle,
        Phase::Queued,
        Phase::Claiming,
        Phase::Draining,
        Phase::Rebooting,
        Phase::Verifying,
        Phase::Releasing,
        Phase::Idle,
    ];
    assert_eq!(phases, &all);
    assert!(world.annotation(0, names::HISTORY).is_some());
}

#[test]
fn i1_three_hosts_go_one_after_another() {
    let mut world = World::new(3, 1, 0);
    (0..3).for_each(|host| world.touch(host));
    world.run(HOUR, calm);
    world.at_rest();
    (0..3).for_each(|host| assert_eq!(world.boots(host), 1));
}

#[test]
fn i13_control_plane_nodes_go_one_at_a_time_whatever_the_slots() {
    let mut world = World::new(3, 3, 3);
    (0..3).for_each(|host| world.touch(host));
    world.run(HOUR, calm);
    world.at_rest();
    (0..3).for_each(|host| assert_eq!(world.boots(host), 1, "{}", world.told()));
}

#[test]
fn i3_a_foreign_cordon_survives() {
    let mut world = World::new(1, 1, 0);
    world.cordon_by_admin(0);
    world.touch(0);
    world.run(HOUR, calm);
    world.at_rest();
    assert_eq!(world.boots(0), 1);
}

/// Every write of a whole cycle, each meeting each fate: the matrix of I6.
#[test]
fn i6_any_single_fault_at_any_effect_ends_in_one_reboot() {
    let mut faults = 0;
    for fate in FATES {
        for nth in 1.. {
            let mut world = World::new(2, 1, 0);
            (0..2).for_each(|host| world.touch(host));
            world.run(2 * HOUR, |world, host| {
                let first = world.met.is_empty() && host == 0 && world.effects + 1 == nth;
                if first && world.writes(host) {
                    return fate;
                }
                Fate::Done
            });
            world.at_rest();
            for host in 0..2 {
                let most = if fate == Fate::PowerLoss { 2 } else { 1 };
                assert!(
                    (1..=most).contains(&world.boots(host)),
                    "{fate:?} at {nth}: {} boots\n{}",
                    world.boots(host),
                    world.told()
                );
            }
            faults += world.met.values().sum::<u64>();
            if nth > world.effects {
                break;
            }
        }
    }
    assert!(faults > 60, "only {faults} faults were met");
}

#[test]
fn i6_a_lost_disk_is_made_up_for_by_the_node_and_the_lease() {
    let mut lost = 0;
    for nth in 1.. {
        let mut world = World::new(1, 1, 0);
        world.touch(0);
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
        assert!(world.boots(0) <= 2, "lost at {nth}: {}", world.told());
        if !met {
            break;
        }
        lost += 1;
    }
    assert!(lost >= 10, "only {lost} disks were lost");
}

#[test]
fn i10_a_trigger_that_survives_is_not_repeated() {
    let mut world = World::new(1, 1, 0);
    world.hosts[0].sticky = true;
    world.touch(0);
    world.run(48 * HOUR, calm);
    world.at_rest();
    assert_eq!(world.boots(0), 1);
    assert!(
        world.status(0).contains("did not clear"),
        "{}",
        world.status(0)
    );
    // Gone once, and there again: a new request.
    world.remove_sentinel(0);
    world.run(HOUR, calm);
    world.touch(0);
    world.run(HOUR, calm);
    assert_eq!(world.boots(0), 2);
}

/// Found by the random faults: the list from before the take was believed when the label's answer
/// was lost.
#[test]
fn i1_a_label_whose_answer_was_lost_is_followed_by_a_second_look_at_the_peers() {
    let mut world = World::new(1, 1, 0);
    world.touch(0);
    world.run(HOUR, |world, host| {
        // The waiting record is the first write, the take the second, the label the third.
        let labelling = world.effects == 2 && world.phase(host) == Some(Phase::Claiming);
        if labelling {
            Fate::AnswerLost
        } else {
            Fate::Done
        }
    });
    world.at_rest();
    let at = |what: &str| {
        world
            .trace
            .iter()
            .position(|line| line.starts_with(what))
            .unwrap()
    };
    let label = at("n0 Claiming Apply");
    assert!(
        world.trace[label].ends_with("AnswerLost"),
        "{}",
        world.told()
    );
    let looked = world.trace[label..]
        .iter()
        .position(|line| line.contains("ListPeers"))
        .unwrap();
    assert!(label + looked < at("n0 Draining Apply"), "{}", world.told());
}

#[test]
fn a_drain_that_fails_gives_the_slot_to_the_next_and_backs_off() {
    let mut world = World::new(2, 1, 0);
    world.hosts[0].stuck = true;
    (0..2).for_each(|host| world.touch(host));
    world.run(10 * HOUR, calm);
    assert_eq!((world.boots(0), world.boots(1)), (0, 1), "{}", world.told());
    let failures = world.record(0).backoff.unwrap().failures;
    assert!(
        (4..12).contains(&failures),
        "doubling: {failures} in ten hours"
    );
    world.hosts[0].stuck = false;
    world.run(10 * HOUR, calm);
    world.at_rest();
    assert_eq!(world.boots(0), 1);
}

/// It comes whenever the host is idle, and goes whenever the host drains.
#[test]
fn a_trigger_that_flaps_is_taken_and_undone_seldom() {
    let mut world = World::new(1, 1, 0);
    world.touch(0);
    world.run(12 * HOUR, |world, host| {
        match world.phase(host) {
            Some(Phase::Draining) => world.remove_sentinel(host),
            Some(Phase::Idle) => world.touch(host),
            _ => {}
        }
        Fate::Done
    });
    let takes = world.trace.iter().filter(|line| line.contains(" Take("));
    let takes = takes.count();
    assert!((8..=25).contains(&takes), "{takes} takes in twelve hours");
    assert_eq!(world.boots(0), 0);
    // It rests at last, and is served.
    world.run(2 * HOUR, |world, host| {
        if world.phase(host) == Some(Phase::Idle) && world.boots(host) == 0 {
            world.touch(host);
        }
        Fate::Done
    });
    world.at_rest();
    assert_eq!(world.boots(0), 1, "{}", world.told());
}

/// The back-off outlives the request: what failed three times is not tried at once because its trigger went
/// and came.
#[test]
fn a_back_off_is_not_forgotten_with_the_request() {
    let mut world = World::new(1, 1, 0);
    world.hosts[0].stuck = true;
    world.touch(0);
    world.run(HOUR, calm);
    let before = world.record(0).backoff.expect("it failed").failures;
    world.remove_sentinel(0);
    world.run(Duration::from_secs(60), calm);
    world.touch(0);
    world.run(3 * HOUR, calm);
    let after = world.record(0).backoff.expect("it failed again").failures;
    assert!(after > before, "{before}, then {after}");
    world.remove_sentinel(0);
    world.run(48 * HOUR, calm);
    assert_eq!(world.record(0).backoff, None, "time has passed");
}

#[test]
fn a_deaf_logind_is_asked_three_times_and_then_undone() {
    let mut world = World::new(1, 1, 0);
    world.hosts[0].deaf = true;
    world.touch(0);
    world.run(Duration::from_secs(2000), calm);
    world.at_rest();
    assert!(
        world.hosts[0].phases.contains(&Phase::Undoing),
        "{}",
        world.told()
    );
    assert!(
        world.status(0).contains("logind") || world.status(0).contains("asked"),
        "{}",
        world.status(0)
    );
}

#[test]
fn i7_an_api_server_that_is_gone_for_hours_changes_nothing() {
    for phase in [
        Phase::Claiming,
        Phase::Draining,
        Phase::Rebooting,
        Phase::Verifying,
    ] {
        let mut world = World::new(1, 1, 0);
        world.touch(0);
        let mut gone = None;
        world.run(3 * HOUR, |world, host| {
            if gone.is_none() && world.phase(host) == Some(phase) {
                gone = Some(world.clock());
                world.api_down = true;
            }
            Fate::Done
        });
        let gone = gone.unwrap_or_else(|| panic!("{phase} was not met"));
        assert!(world.clock().saturating_sub(gone) > 2 * HOUR, "{phase}");
        // A drain whose watch is silent asks nothing; for the proof the kubelet's life is read beside the effects.
        let asks = matches!(phase, Phase::Claiming | Phase::Rebooting);
        assert!(world.unanswered > 0 || !asks, "{phase}: nothing was asked");
        world.api_down = false;
        world.advance(Duration::from_secs(1));
        world.run(HOUR, calm);
        world.at_rest();
        assert_eq!(world.boots(0), 1, "{phase}: {}", world.told());
    }
}

/// Many hosts, few slots, faults at random: I1, I2, I4 and I13 are checked at every step.
#[test]
fn i1_i6_random_faults_never_break_the_lock() {
    let (mut met, mut unlocked, mut late) = (BTreeMap::<String, u64>::new(), 0, 0);
    for seed in 0..300 {
        let mut chance = Chance::seed(seed);
        let (hosts, slots) = (2 + chance.below(4), 1 + chance.below(2));
        let mut world = World::new(hosts, slots, chance.below(hosts + 1));
        (0..hosts).for_each(|host| world.touch(host));
        world.hook(seed % 2 == 0);
        let mut budget = 25;
        world.run(12 * HOUR, |world, host| {
            // Most turns only read or wait.
            if budget > 0 && (chance.hit(4) || chance.hit(40) && world.writes(host)) {
                budget -= 1;
                return FATES[chance.below(FATES.len())];
            }
            if budget > 0 && chance.hit(1) {
                budget -= 1;
                unlocked += u32::from(world.holder("default").is_some());
                world.unlock_by_admin("default");
            }
            // A lock against a shutdown, for some turns; most of all right before the reboot.
            let near = world.phase(host) == Some(Phase::Rebooting);
            if chance.hit(if near { 20 } else { 1 }) {
                let inhibited = budget > 0 && !world.hosts[host].inhibited;
                late += u32::from(inhibited && near);
                world.inhibit(host, inhibited);
            }
            Fate::Done
        });
        (0..hosts).for_each(|host| world.inhibit(host, false));
        world.run(12 * HOUR, calm);
        world.at_rest();
        for (fate, writes) in &world.met {
            *met.entry(fate.clone()).or_default() += writes;
        }
        for host in 0..hosts {
            assert!(
                world.boots(host) >= 1,
                "seed {seed}: n{host} never rebooted: {}\n{}",
                world.status(host),
                world.told()
            );
        }
    }
    assert!(
        met.len() == FATES.len() && met.values().all(|times| *times > 500),
        "{met:?}"
    );
    assert!(unlocked > 100, "only {unlocked} holders were unlocked");
    assert!(late > 50, "only {late} locks came right before the reboot");
}
