//! What root asks for on a host: reboots, and a node that is drained and kept so, in whole cycles with every fate of a write
//! (I1, I2, I4, I6).

use std::time::Duration;

use kube_rebootd_core::order::{Order, OrderError};
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::trigger::Keeper;

use super::turn::Fate;
use super::world::World;
use super::{Chance, FATES, HOUR, calm};

const DAY: Duration = Duration::from_secs(24 * 3600);

impl World {
    /// Root asks for it; durable before it is answered, as the daemon does it.
    fn order(&mut self, index: usize, order: &Order) -> Result<Vec<String>, OrderError> {
        let now = self.now(index);
        let host = &mut self.hosts[index];
        let machine = host.machine.as_mut().ok_or(OrderError::Starting)?;
        let ordered = machine.order(order, now)?;
        host.disk = Some(ordered.record.encode());
        let words = ordered.words.clone();
        machine.ordered(ordered);
        host.wake = Duration::ZERO;
        if self.telling {
            let name = &self.hosts[index].name;
            self.trace.push(format!("{name} ordered {order:?}"));
        }
        Ok(words)
    }

    /// Asks again and again until it is not refused.
    fn ordered(&mut self, index: usize, order: &Order) {
        for _ in 0..200 {
            match self.order(index, order) {
                Ok(_) => return,
                Err(why) if why.passes() => self.run(Duration::from_secs(30), calm),
                Err(why) => panic!("{why}\n{}", self.told()),
            }
        }
        panic!("never taken\n{}", self.told());
    }
}

fn drain() -> Order {
    Order::drain(Keeper::Person, "a new disk")
}

/// One host of three, drained for a person.
fn drained(hosts: usize) -> World {
    let mut world = World::new(hosts, 1, 0);
    world.run(Duration::from_secs(60), calm);
    world.ordered(0, &drain());
    world.run(HOUR, calm);
    assert_eq!(world.phase(0), Some(Phase::Drained), "{}", world.told());
    assert!(world.cordoned(0) && world.hosts[0].pods.is_empty());
    world
}

#[test]
fn a_node_is_kept_drained_for_days_and_over_reboots_until_undrain() {
    for reboots in [0, 1, 3] {
        let mut world = drained(1);
        for _ in 0..reboots {
            world.boot(0);
            world.run(HOUR, calm);
            assert_eq!(world.phase(0), Some(Phase::Drained), "{}", world.told());
        }
        world.kill(0);
        world.run(DAY, calm);
        assert_eq!(world.phase(0), Some(Phase::Drained), "{}", world.told());
        assert!(world.cordoned(0) && world.holder("default").is_some());
        world.ordered(0, &Order::Undrain(Keeper::Person));
        world.run(HOUR, calm);
        world.at_rest();
        let phases = &world.hosts[0].phases;
        assert!(phases.contains(&Phase::Verifying), "{}", world.told());
        assert_eq!(phases.contains(&Phase::Undoing), reboots == 0);
        assert_eq!((world.boots(0), world.record(0).request), (reboots, None));
    }
}

/// I4: a kubelet that does not come back keeps the node cordoned, also where nothing was rebooted.
#[test]
fn i4_a_kubelet_that_was_stopped_meanwhile_keeps_the_slot() {
    let mut world = drained(1);
    world.hosts[0].broken = true;
    world.ordered(0, &Order::Undrain(Keeper::Person));
    world.run(HOUR, calm);
    assert_eq!(world.phase(0), Some(Phase::Verifying), "{}", world.told());
    assert!(world.cordoned(0) && world.holder("default").is_some());
    world.hosts[0].broken = false;
    world.run(HOUR, calm);
    world.at_rest();
}

/// I1: nobody goes down beside it; what asks for a reboot of the node itself waits, and is served after it in a hold of its
/// own.
#[test]
fn i1_others_wait_for_a_node_that_is_kept_drained() {
    let mut world = drained(3);
    (0..3).for_each(|host| world.touch(host));
    world.run(DAY, calm);
    assert_eq!([0, 1, 2].map(|host| world.boots(host)), [0, 0, 0]);
    world.ordered(0, &Order::Undrain(Keeper::Person));
    world.run(DAY, calm);
    world.at_rest();
    assert_eq!(
        [0, 1, 2].map(|host| world.boots(host)),
        [1, 1, 1],
        "{}",
        world.told()
    );
}

#[test]
fn a_person_and_a_script_keep_it_until_neither_does() {
    let mut world = drained(1);
    world.ordered(0, &Order::drain(Keeper::Script, "firmware"));
    world.ordered(0, &Order::Undrain(Keeper::Person));
    world.run(HOUR, calm);
    assert_eq!(world.phase(0), Some(Phase::Drained), "{}", world.told());
    world.ordered(0, &Order::Undrain(Keeper::Script));
    world.run(HOUR, calm);
    world.at_rest();
}

/// A wish is a wish: every fate of every write from the order to the end, and a crash in each.
#[test]
fn i6_any_single_fault_of_a_node_that_is_kept_drained_leaves_nothing() {
    let mut faults = 0;
    for fate in FATES {
        for nth in 1.. {
            let mut world = World::new(2, 1, 0);
            world.run(Duration::from_secs(60), calm);
            world.ordered(0, &drain());
            let before = world.effects;
            let mut meets = |world: &mut World, host: usize| {
                let first = world.met.is_empty() && host == 0 && world.effects + 1 == before + nth;
                if first && world.writes(host) {
                    fate
                } else {
                    Fate::Done
                }
            };
            world.run(2 * HOUR, &mut meets);
            assert_eq!(
                world.phase(0),
                Some(Phase::Drained),
                "{fate:?} at {nth}\n{}",
                world.told()
            );
            world.touch(1);
            world.run(HOUR, &mut meets);
            assert_eq!(world.boots(1), 0, "{fate:?} at {nth}\n{}", world.told());
            world.ordered(0, &Order::Undrain(Keeper::Person));
            world.run(2 * HOUR, &mut meets);
            world.run(2 * HOUR, calm);
            world.at_rest();
            assert_eq!(world.boots(1), 1, "{fate:?} at {nth}\n{}", world.told());
            assert_eq!(world.record(0).request, None);
            faults += world.met.values().sum::<u64>();
            if nth > world.effects - before {
                break;
            }
        }
    }
    assert!(faults > 40, "only {faults} faults were met");
}

/// Orders at random moments beside triggers and faults: at the end nothing is held and nobody waits.
#[test]
fn i1_i6_orders_at_any_moment_end_at_rest() {
    let mut reached = [0; 3];
    for seed in 0..100 {
        let mut chance = Chance::seed(seed);
        let mut world = World::new(3, 1, 0);
        let orders = [
            Order::reboot("firmware", false, None),
            Order::reboot("firmware", true, None),
            Order::Cancel,
            Order::Retry,
            drain(),
            Order::Undrain(Keeper::Person),
            Order::drain(Keeper::Script, "firmware"),
            Order::Undrain(Keeper::Script),
        ];
        world.run(6 * HOUR, |world, host| {
            if chance.hit(2) {
                world.touch(host);
            }
            if chance.hit(3) {
                let order = &orders[chance.below(orders.len())];
                let phase = world.phase(host);
                match world.order(host, order) {
                    Ok(_) if phase == Some(Phase::Drained) => reached[0] += 1,
                    Ok(_) if phase == Some(Phase::Draining) => reached[1] += 1,
                    Ok(_) => {}
                    Err(_) => reached[2] += 1,
                }
            }
            match chance.below(60) {
                at if at < FATES.len() => FATES[at],
                _ => Fate::Done,
            }
        });
        for host in 0..3 {
            for keeper in Keeper::ALL {
                world.ordered(host, &Order::Undrain(keeper));
            }
        }
        world.run(2 * DAY, calm);
        world.at_rest();
    }
    assert!(reached.iter().all(|times| *times > 20), "{reached:?}");
}
