//! What else a queue waits for: nodes that are down, the interval between two holds, and holders that are
//! gone for good (I5, I8, I13).

use std::time::Duration;

use kube_rebootd_core::budget::MaxUnavailable;
use kube_rebootd_core::names;
use kube_rebootd_core::phase::Phase;

use super::chance::Chance;
use super::turn::Fate;
use super::world::World;
use super::{FATES, HOUR, calm};

const MINUTE: Duration = Duration::from_secs(60);

fn allow(world: &mut World, max: MaxUnavailable) {
    for host in &mut world.hosts {
        host.config.coordination.max_unavailable = max;
    }
}

#[test]
fn i8_a_slot_is_not_taken_while_another_node_is_down() {
    let mut world = World::new(3, 1, 0);
    world.hosts[2].broken = true;
    (0..2).for_each(|host| world.touch(host));
    world.run(2 * HOUR, calm);
    assert_eq!((world.boots(0), world.boots(1)), (0, 0), "{}", world.told());
    let status = world.status(0);
    assert!(
        status.contains("1 of 3 nodes are unavailable (n2 is not Ready)"),
        "{status}"
    );
    assert!(world.waiting_since(0).is_some(), "it does not wait visibly");
    // A look a minute, not at every turn.
    let looks = |line: &&String| line.starts_with("n0 ") && line.contains("ListPeers");
    let looks = world.trace.iter().filter(looks).count();
    assert!((95..=125).contains(&looks), "{looks} looks in two hours");
    world.hosts[2].broken = false;
    world.run(HOUR, calm);
    world.at_rest();
    assert_eq!((world.boots(0), world.boots(1)), (1, 1));
}

#[test]
fn i8_nodes_that_cannot_be_counted_close_the_budget() {
    let mut world = World::new(2, 1, 0);
    world.uncounted = true;
    world.touch(0);
    world.run(HOUR, calm);
    assert_eq!(world.boots(0), 0, "{}", world.told());
    assert!(world.status(0).contains("denied"), "{}", world.status(0));
    world.uncounted = false;
    world.run(HOUR, calm);
    world.at_rest();
    assert_eq!(world.boots(0), 1);
}

#[test]
fn more_may_be_down_where_more_are_allowed() {
    for (max, boots) in [
        (MaxUnavailable::Number(1), 0),
        (MaxUnavailable::Number(2), 1),
        (MaxUnavailable::Percent(49), 0),
        (MaxUnavailable::Percent(50), 1),
    ] {
        let mut world = World::new(4, 1, 0);
        allow(&mut world, max);
        world.hosts[3].broken = true;
        world.touch(0);
        world.run(HOUR, calm);
        assert_eq!(world.boots(0), boots, "{max:?}: {}", world.told());
    }
}

/// Down between the take and the second look: the slot goes back and the place in the queue stays.
#[test]
fn a_give_back_for_the_budget_names_nobody_and_keeps_its_place() {
    let mut world = World::new(3, 1, 0);
    (0..2).for_each(|host| world.touch(host));
    // Both wait, so that there is somebody to name.
    world.annotate_lease("default", Some("not yet"));
    world.run(10 * MINUTE, calm);
    let since = world.waiting_since(0).expect("n0 waits");
    world.annotate_lease("default", None);
    let mut holder = None;
    world.run(HOUR, |world, host| {
        if holder.is_none() && world.phase(host) == Some(Phase::Claiming) {
            holder = Some(host);
            world.hosts[2].broken = true;
        }
        Fate::Done
    });
    let holder = holder.expect("somebody took it");
    assert!(world.hosts[holder].phases.contains(&Phase::Undoing));
    assert!(!world.hosts[holder].phases.contains(&Phase::Draining));
    let lease = world.lease("default");
    assert_eq!((lease.holder.clone(), lease.next.clone()), (None, vec![]));
    assert!(lease.last_hold.is_some());
    assert_eq!(world.waiting_since(0), Some(since), "{}", world.told());
    assert!(world.record(holder).backoff.is_none());
    // One, or both at once; nobody takes it again and again.
    let takes = world.trace.iter().filter(|line| line.contains(" Take("));
    assert!(takes.count() <= 2, "{}", world.told());
    world.hosts[2].broken = false;
    world.run(HOUR, calm);
    world.at_rest();
    assert_eq!((world.boots(0), world.boots(1)), (1, 1));
}

#[test]
fn the_group_rests_for_min_interval_after_each_hold() {
    let mut world = World::new(3, 2, 0);
    let interval = 45 * MINUTE;
    for host in &mut world.hosts {
        host.config.coordination.min_interval = interval;
    }
    (0..3).for_each(|host| world.touch(host));
    let (mut last, mut ended, mut takes) = (None, None, Vec::new());
    let mut holders = 0;
    world.run(6 * HOUR, |world, _| {
        let now = world.clock();
        let held = |name: &str| usize::from(world.holder(name).is_some());
        let held = held("default") + held("default-1");
        if held > holders {
            takes.push((now, ended));
        }
        holders = held;
        let seen = (
            world.lease("default").last_hold.clone(),
            world.lease("default-1").last_hold.clone(),
        );
        if Some(&seen) != last.as_ref() {
            ended = last.is_some().then_some(now);
            last = Some(seen);
        }
        Fate::Done
    });
    world.at_rest();
    (0..3).for_each(|host| assert_eq!(world.boots(host), 1, "{}", world.told()));
    // Two at once at first, the third when the later of both has been over for so long.
    assert_eq!(takes.len(), 3, "{takes:?}");
    let (at, ended) = takes[2];
    let rest = at.saturating_sub(ended.expect("two holds before"));
    let slack = Duration::from_secs(30);
    assert!(
        rest + Duration::from_secs(1) >= interval && rest < interval + slack,
        "{rest:?}"
    );
}

#[test]
fn i5_a_start_counts_min_interval_anew_and_says_so() {
    let mut world = World::new(1, 1, 0);
    world.hosts[0].config.coordination.min_interval = HOUR;
    world.touch(0);
    world.run(30 * MINUTE, calm);
    world.at_rest();
    assert_eq!(world.boots(0), 1);
    world.touch(0);
    world.run(20 * MINUTE, calm);
    assert!(
        world.status(0).contains("min_interval ends in"),
        "{}",
        world.status(0)
    );
    world.kill(0);
    world.run(50 * MINUTE, calm);
    assert_eq!(world.boots(0), 1, "{}", world.told());
    world.run(20 * MINUTE, calm);
    world.at_rest();
    assert_eq!(world.boots(0), 2);
}

/// n1 waits for n0, which dies while it drains; `change` says what becomes of its Node.
fn behind_a_dead_holder(quorum: usize, change: impl Fn(&mut World)) -> World {
    let mut world = World::new(3, 1, quorum);
    allow(&mut world, MaxUnavailable::Percent(100));
    world.touch(0);
    let mut dead = false;
    world.run(HOUR, |world, host| {
        if !dead && host == 0 && world.phase(0) == Some(Phase::Draining) && world.cordoned(0) {
            dead = true;
            world.die(0);
            change(world);
        }
        Fate::Done
    });
    assert_eq!(world.holder("default"), Some("n0"), "{}", world.told());
    (1..3).for_each(|host| world.touch(host));
    world
}

#[test]
fn i5_a_slot_of_a_node_that_is_gone_is_cleared_after_half_an_hour_of_looking() {
    let mut world = behind_a_dead_holder(0, |world| world.delete_node(0));
    world.run(20 * MINUTE, calm);
    assert!(
        world.status(1).contains("whose Node is gone for"),
        "{}",
        world.status(1)
    );
    assert_eq!(world.cleared, 0, "{}", world.told());
    world.run(2 * HOUR, calm);
    assert_eq!(world.cleared, 1, "{}", world.told());
    assert_eq!(world.holder("default"), None);
    world.at_rest();
    assert_eq!((world.boots(1), world.boots(2)), (1, 1), "{}", world.told());
    // Two waiters looked, each a few times: no herd.
    let looks = world
        .trace
        .iter()
        .filter(|line| line.contains("ReadHolder"));
    assert!(looks.count() < 30, "{}", world.told());
}

#[test]
fn i5_a_slot_whose_node_is_there_is_never_cleared() {
    let mut world = behind_a_dead_holder(0, |_| {});
    world.run(48 * HOUR, calm);
    assert_eq!((world.cleared, world.holder("default")), (0, Some("n0")));
    assert_eq!(world.boots(1) + world.boots(2), 0);
}

#[test]
fn i13_a_slot_of_a_control_plane_node_is_never_cleared() {
    let mut world = behind_a_dead_holder(1, |world| world.delete_node(0));
    world.run(48 * HOUR, calm);
    assert_eq!((world.cleared, world.holder("default")), (0, Some("n0")));
}

#[test]
fn i5_a_slot_that_a_label_claims_is_never_cleared() {
    let mut world = behind_a_dead_holder(0, |world| {
        world.delete_node(0);
        world.make_node("other");
        world.label("other", names::SLOT, "default");
    });
    world.run(48 * HOUR, calm);
    assert_eq!((world.cleared, world.holder("default")), (0, Some("n0")));
}

#[test]
fn i5_a_paused_slot_is_not_cleared() {
    let mut world = behind_a_dead_holder(0, |world| {
        world.delete_node(0);
        world.annotate_lease("default", Some("looking into it"));
    });
    world.run(12 * HOUR, calm);
    assert_eq!((world.cleared, world.holder("default")), (0, Some("n0")));
}

#[test]
fn a_holder_that_never_was_a_node_is_cleared_too() {
    let mut world = World::new(1, 1, 0);
    world.hold_by_admin("default", "no such node/at all");
    world.touch(0);
    world.run(3 * HOUR, calm);
    world.at_rest();
    assert_eq!((world.cleared, world.boots(0)), (1, 1), "{}", world.told());
}

/// Gone for the length of a look or two and back, again and again: never long enough.
#[test]
fn i5_a_node_that_comes_back_now_and_then_keeps_its_slot() {
    let mut world = behind_a_dead_holder(0, |world| world.delete_node(0));
    for _ in 0..20 {
        world.make_node("n0");
        world.run(20 * MINUTE, calm);
        world.delete_node(0);
        world.run(20 * MINUTE, calm);
    }
    assert_eq!(world.cleared, 0, "{}", world.told());
    world.run(2 * HOUR, calm);
    assert_eq!(world.cleared, 1, "{}", world.told());
}

/// An API server that is silent at every third look starts the count again each time.
#[test]
fn i5_a_look_without_an_answer_starts_the_count_again() {
    let mut world = behind_a_dead_holder(0, |world| world.delete_node(0));
    let mut looks = [0; 3];
    world.run(24 * HOUR, |world, host| {
        if world.asks(host, "ReadHolder") {
            looks[host] += 1;
            if looks[host] % 3 == 0 {
                return Fate::Lost;
            }
        }
        Fate::Done
    });
    assert_eq!(world.cleared, 0, "{}", world.told());
    assert!(looks[1] > 20, "{looks:?}");
}

/// Whatever happens to the clearing itself: one holder at a time, and in the end everybody rebooted.
#[test]
fn i1_i5_faults_around_a_clearing_never_break_the_lock() {
    for fate in FATES {
        let mut world = behind_a_dead_holder(0, |world| world.delete_node(0));
        let mut met = false;
        world.run(6 * HOUR, |world, host| {
            if !met && world.asks(host, "Clear") {
                met = true;
                return fate;
            }
            Fate::Done
        });
        assert!(met, "{fate:?}: nothing was cleared");
        world.at_rest();
        for host in 1..3 {
            assert!(world.boots(host) >= 1, "{fate:?}: {}", world.told());
        }
    }
}

/// All three at once, with dead holders, broken nodes and faults at random; I1, I4, I5 and I13 are checked
/// at every step.
#[test]
fn i1_i5_i8_random_faults_never_break_the_queue() {
    let (mut deaths, mut met) = (0, 0);
    for seed in 1000..1100 {
        let mut chance = Chance::seed(seed);
        let (hosts, slots) = (3 + chance.below(3), 1 + chance.below(2));
        let mut world = World::new(hosts, slots, chance.below(2));
        let number = u32::try_from(2 + chance.below(2)).unwrap();
        allow(&mut world, MaxUnavailable::Number(number));
        for host in &mut world.hosts {
            host.config.coordination.min_interval =
                MINUTE * u32::try_from(chance.below(10)).unwrap();
        }
        (0..hosts).for_each(|host| world.touch(host));
        // The last host may die, with its Node or without.
        let (dies, mut dead) = (chance.hit(50), false);
        let mut faults = 20;
        world.run(30 * HOUR, |world, host| {
            let holding = world.phase(host) >= Some(Phase::Claiming);
            if dies && !dead && host == hosts - 1 && holding && chance.hit(10) {
                (dead, deaths) = (true, deaths + 1);
                world.die(host);
                world.delete_node(host);
                return Fate::Done;
            }
            if faults > 0 && chance.hit(5) {
                (faults, met) = (faults - 1, met + 1);
                return FATES[chance.below(FATES.len())];
            }
            Fate::Done
        });
        world.at_rest();
        for host in 0..hosts {
            assert!(
                world.boots(host) >= 1 || dead && host == hosts - 1,
                "seed {seed}: n{host} never rebooted: {}\n{}",
                world.status(host),
                world.told()
            );
        }
    }
    assert!(deaths >= 20, "only {deaths} hosts died while they held");
    assert!(met >= 1_500, "only {met} faults");
}
