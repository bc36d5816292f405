//! A place in the queue is kept as long as the request lasts, whatever keeps its node from using it meanwhile.

use kube_rebootd_core::phase::Phase;

use super::turn::Fate;
use super::world::World;
use super::{HOUR, calm};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn not_ready(world: &World, host: usize) -> bool {
    let shown = world.hosts[host].waiting.as_ref();
    shown.is_some_and(|shown| !shown.ready)
}

/// The order in which hosts took the slot.
fn takers(world: &World) -> Vec<String> {
    let takes = world.trace.iter().filter(|line| line.contains(" Take("));
    let mut names: Vec<String> = takes
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    names.dedup();
    names
}

/// n0 came first, then n1, n2 and n3; nobody may begin yet.
fn queue_of_four() -> World {
    let mut world = World::new(4, 1, 0);
    world.annotate_lease("default", Some("not yet"));
    for host in 0..4 {
        world.touch(host);
        world.run(MINUTE, calm);
    }
    world
}

#[test]
fn a_closed_gate_is_passed_over_and_costs_no_place() {
    let mut world = queue_of_four();
    let since = world.waiting_since(0).expect("n0 waits");
    world.inhibit(0, true);
    world.run(MINUTE, calm);
    assert!(not_ready(&world, 0), "{}", world.told());
    assert_eq!(world.waiting_since(0), Some(since));
    // Its daemon starts anew.
    world.kill(0);
    world.run(MINUTE, calm);
    assert_eq!(world.waiting_since(0), Some(since), "{}", world.told());
    // The others go on without a delay, and when the gate is open it is the next.
    world.annotate_lease("default", None);
    let mut opened = false;
    world.run(HOUR, |world, _| {
        if !opened && (1..4).any(|host| world.boots(host) == 1) {
            opened = true;
            world.inhibit(0, false);
        }
        Fate::Done
    });
    world.at_rest();
    // Who of the others was first is chance: nobody was named.
    let takers = takers(&world);
    assert_eq!((takers.len(), takers[1].as_str()), (4, "n0"), "{takers:?}");
    let named = world.trace.iter().find(|line| line.contains(" GiveUp("));
    let named = named.expect("a give-up");
    assert!(named.contains("next: [\"n0\", "), "{named}");
}

#[test]
fn a_back_off_is_passed_over_and_costs_no_place() {
    let mut world = queue_of_four();
    world.hosts[0].stuck = true;
    let since = world.waiting_since(0).expect("n0 waits");
    world.annotate_lease("default", None);
    let mut failed = false;
    world.run(HOUR, |world, _| {
        if !failed && world.record(0).backoff.is_some() {
            failed = true;
            world.hosts[0].stuck = false;
        }
        Fate::Done
    });
    assert!(failed);
    world.at_rest();
    let named = world.trace.iter().find(|line| line.contains(" GiveUp("));
    let named = named.expect("a give-up");
    assert!(named.contains("next: [\"n1\", \"n2\", \"n3\"]"), "{named}");
    let shown: Vec<&String> = (world.trace.iter())
        .filter(|line| line.starts_with("n0 Pending Mark") && line.contains("ready: false"))
        .collect();
    assert!(!shown.is_empty(), "{}", world.told());
    assert!(
        shown.iter().all(|line| line.contains(&since.to_string())),
        "{shown:?}"
    );
    assert!(
        (0..4).all(|host| world.boots(host) == 1),
        "{}",
        world.told()
    );
}

/// The place is the request's: the next request begins at the end.
#[test]
fn a_reboot_and_a_withdrawal_end_a_place() {
    let mut world = queue_of_four();
    let since = world.waiting_since(0).expect("n0 waits");
    world.remove_sentinel(0);
    world.run(MINUTE, calm);
    assert_eq!(world.waiting_since(0), None, "{}", world.told());
    assert_eq!(world.record(0).waiting, None);
    world.touch(0);
    world.run(10 * MINUTE, calm);
    assert!(world.waiting_since(0) > Some(since));
    world.annotate_lease("default", None);
    world.run(HOUR, calm);
    world.at_rest();
    assert!(
        (0..4).all(|host| world.boots(host) == 1),
        "{}",
        world.told()
    );
    assert!((0..4).all(|host| world.record(host).waiting.is_none()));
    assert!((0..4).all(|host| world.phase(host) == Some(Phase::Idle)));
}
