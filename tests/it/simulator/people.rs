//! What people do in the middle of a hold: unlock, uncordon, pause, register the Node anew, reboot by hand (I1, I3).

use std::time::Duration;

use kube_rebootd_core::names;
use kube_rebootd_core::phase::Phase;

use super::turn::Fate;
use super::world::World;
use super::{HOUR, calm};

#[test]
fn an_unlock_while_draining_undoes_and_queues_again() {
    let mut world = World::new(1, 1, 0);
    world.touch(0);
    let mut unlocked = false;
    world.run(HOUR, |world, host| {
        if !unlocked && world.phase(host) == Some(Phase::Draining) {
            unlocked = true;
            world.unlock_by_admin("default");
        }
        Fate::Done
    });
    world.at_rest();
    assert!(world.hosts[0].phases.contains(&Phase::Undoing));
    assert_eq!(world.boots(0), 1, "{}", world.told());
}

#[test]
fn an_uncordon_while_draining_cancels_and_backs_off() {
    let mut world = World::new(1, 1, 0);
    world.touch(0);
    let mut done = false;
    world.run(Duration::from_secs(200), |world, host| {
        if !done && world.phase(host) == Some(Phase::Draining) && world.cordoned(host) {
            done = true;
            world.uncordon_by_admin(host);
        }
        Fate::Done
    });
    world.at_rest();
    assert_eq!(world.boots(0), 0, "{}", world.told());
    assert!(world.record(0).backoff.is_some());
    world.run(HOUR, calm);
    assert_eq!(world.boots(0), 1);
}

/// One host, paused by a person while it drained: its cordon is kept.
fn paused_in_mid_drain() -> World {
    let mut world = World::new(1, 1, 0);
    world.touch(0);
    let mut paused = false;
    world.run(HOUR, |world, host| {
        if !paused && world.phase(host) == Some(Phase::Draining) && world.cordoned(host) {
            paused = true;
            world.annotate(host, names::PAUSED, Some("looking"));
        }
        Fate::Done
    });
    assert!(world.cordoned(0), "the cordon stays");
    world
}

#[test]
fn a_pause_while_draining_keeps_the_cordon_until_resumed() {
    let mut world = paused_in_mid_drain();
    assert_eq!(world.holder("default"), None);
    assert_eq!(world.boots(0), 0);
    world.annotate(0, names::PAUSED, None);
    world.run(HOUR, calm);
    world.at_rest();
    assert_eq!(world.boots(0), 1, "{}", world.told());
}

/// Found by review: the ended hold stood in the record of the kept cordon and came back to life.
#[test]
fn i1_a_kept_cordon_is_not_taken_for_a_hold_after_a_restart() {
    let mut world = paused_in_mid_drain();
    let state = world.annotation(0, names::STATE).unwrap();
    assert!(!state.contains("\"hold\""), "{state}");
    world.kill(0);
    world.uncordon_by_admin(0);
    world.run(HOUR, calm);
    assert!(
        !world.cordoned(0),
        "cordoned without a slot: {}",
        world.told()
    );
    assert_eq!(world.holder("default"), None);
    assert_eq!(world.boots(0), 0);
}

#[test]
fn a_replaced_node_starts_over_before_and_goes_on_after_the_reboot() {
    for phase in [Phase::Claiming, Phase::Draining, Phase::Verifying] {
        let mut world = World::new(1, 1, 0);
        world.touch(0);
        let mut done = false;
        world.run(HOUR, |world, host| {
            if !done && world.phase(host) == Some(phase) {
                done = true;
                world.replace_node(host);
            }
            Fate::Done
        });
        world.at_rest();
        assert_eq!(world.boots(0), 1, "{phase}: {}", world.told());
    }
}

/// Found by review: a Node that was registered anew while the host booted had no cordon and no label
/// until the host was proved healthy.
#[test]
fn i1_a_node_registered_anew_while_verifying_shows_slot_and_cordon_again() {
    let mut world = World::new(1, 1, 0);
    world.touch(0);
    let mut replaced = false;
    world.run(HOUR, |world, host| {
        if !replaced && world.phase(host) == Some(Phase::Verifying) {
            replaced = true;
            world.replace_node(host);
        }
        Fate::Done
    });
    world.at_rest();
    assert_eq!(world.boots(0), 1, "{}", world.told());
    let verifying: Vec<&String> = world
        .trace
        .iter()
        .filter(|line| line.starts_with("n0 Verifying Apply"))
        .collect();
    assert!(
        verifying.len() == 2
            && verifying[0].contains("unschedulable: true")
            && verifying[1].contains("unschedulable: false"),
        "{}",
        world.told()
    );
}

#[test]
fn a_host_rebooted_by_somebody_else_in_mid_drain_ends_as_verifying() {
    let mut world = World::new(1, 1, 0);
    world.touch(0);
    let mut done = false;
    world.run(HOUR, |world, host| {
        if !done && world.phase(host) == Some(Phase::Draining) {
            done = true;
            return Fate::PowerLoss;
        }
        Fate::Done
    });
    world.at_rest();
    assert_eq!(world.boots(0), 1, "{}", world.told());
    assert!(world.hosts[0].phases.contains(&Phase::Verifying));
}
