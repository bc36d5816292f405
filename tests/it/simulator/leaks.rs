//! Nothing leaks: what is refused, or taken away by people, keeps neither a slot nor a cordon (I3, I4, I6).

use super::*;

/// Once: the list of waiters was refused, and the slot was kept for ever.
#[test]
fn i4_a_slot_is_given_up_although_nobody_may_list_who_waits() {
    let mut world = World::new(3, 1, 0);
    world.waiters_refused = true;
    (0..3).for_each(|host| world.touch(host));
    world.run(HOUR, calm);
    world.at_rest();
    (0..3).for_each(|host| assert_eq!(world.boots(host), 1, "{}", world.told()));
}

/// Once: the rights were pruned (`GitOps` deleted the namespace) while the host was down, and a start wanted the
/// Leases: the healthy node stayed cordoned for ever.
#[test]
fn i3_a_host_whose_rights_were_pruned_while_it_was_down_is_uncordoned() {
    for lost_disk in [false, true] {
        let mut world = World::new(2, 1, 0);
        world.touch(0);
        world.run(HOUR, |world, host| {
            if world.hosts[host].shutting_down && !world.pruned {
                world.pruned = true;
                if lost_disk {
                    world.lose_disk(host);
                }
            }
            Fate::Done
        });
        assert_eq!(world.boots(0), 1, "{}", world.told());
        assert!(!world.cordoned(0), "{}\n{}", world.status(0), world.told());
        assert!(!world.labelled(0), "{}", world.told());
        assert_eq!(world.phase(0), Some(Phase::Releasing));
        assert!(
            world.status(0).contains("cannot be given up: denied"),
            "{}",
            world.status(0)
        );
        assert_eq!(world.holder("default"), Some("n0"));
        // What remains is done as soon as it can be.
        world.pruned = false;
        world.run(HOUR, calm);
        world.at_rest();
        assert_eq!(world.boots(0), 1);
    }
}

/// The same for a daemon that starts again in mid-drain: it undoes when it can read the Leases again, or at the end
/// of its stage; it does not reboot.
#[test]
fn i2_a_drain_whose_rights_were_pruned_does_not_reboot() {
    let mut world = World::new(1, 1, 0);
    world.touch(0);
    world.run(HOUR, |world, host| {
        if world.phase(host) == Some(Phase::Draining) && !world.pruned {
            world.pruned = true;
            return Fate::KilledAfter;
        }
        Fate::Done
    });
    assert_eq!(world.boots(0), 0, "{}", world.told());
    world.pruned = false;
    world.run(24 * HOUR, calm);
    world.at_rest();
    assert_eq!(world.boots(0), 1, "{}", world.told());
}

/// Once: a policy that refuses what the hold sets on its Node kept slot and cordon for ever.
#[test]
fn i3_a_policy_that_refuses_the_node_apply_keeps_no_slot() {
    for phase in [Phase::Queued, Phase::Claiming, Phase::Draining] {
        let mut world = World::new(2, 1, 0);
        world.touch(0);
        let mut met = false;
        world.run(Duration::from_secs(240), |world, host| {
            if host == 0 && !met && world.phase(0) == Some(phase) {
                met = true;
                world.nodes_refused = true;
            }
            Fate::Done
        });
        assert!(met, "{phase}");
        assert_eq!(world.boots(0), 0, "{phase}: {}", world.told());
        if phase == Phase::Draining {
            // Of what is there already nothing can be taken off before the policy lets it be.
            world.nodes_refused = false;
            world.advance(Duration::from_secs(30));
            world.run(Duration::from_secs(120), calm);
        }
        assert_eq!(world.holder("default"), None, "{phase}: {}", world.told());
        assert!(!world.cordoned(0) && !world.labelled(0), "{phase}");
        world.nodes_refused = false;
        world.run(24 * HOUR, calm);
        world.at_rest();
        assert_eq!(world.boots(0), 1, "{phase}: {}", world.told());
    }
}

/// Three nodes and one slot, which n0 has: it rebooted and is not healthy. How many nodes may be down is no matter.
fn with_a_sick_node() -> World {
    let mut world = World::new(3, 1, 0);
    for host in &mut world.hosts {
        host.config.coordination.max_unavailable =
            kube_rebootd_core::budget::MaxUnavailable::Percent(100);
    }
    world.touch(0);
    world.hosts[0].broken = true;
    world.run(HOUR, calm);
    assert_eq!(world.phase(0), Some(Phase::Verifying), "{}", world.told());
    world
}

/// Once: a node that was unlocked while it was not healthy labelled itself again, and kept everybody from the slot.
#[test]
fn i4_an_unlocked_unhealthy_node_keeps_its_cordon_and_nobody_from_the_slot() {
    let mut world = with_a_sick_node();
    assert!(world.cordoned(0) && world.labelled(0));
    (1..3).for_each(|host| world.touch(host));
    world.run(HOUR, calm);
    assert_eq!(
        (world.boots(1), world.boots(2)),
        (0, 0),
        "the rollout stops"
    );
    world.unlock_node(0, "default");
    let mut killed = false;
    world.run(2 * HOUR, |world, host| {
        // A restart of its daemon changes nothing.
        if !killed && host == 0 && world.boots(1) + world.boots(2) == 1 {
            killed = true;
            return Fate::KilledBefore;
        }
        Fate::Done
    });
    assert_eq!((world.boots(1), world.boots(2)), (1, 1), "{}", world.told());
    assert!(world.cordoned(0), "it is not healthy: {}", world.told());
    assert!(!world.labelled(0), "{}", world.told());
    assert!(
        world.status(0).contains("was taken away"),
        "{}",
        world.status(0)
    );
    world.hosts[0].broken = false;
    world.run(HOUR, calm);
    world.at_rest();
    assert_eq!(world.boots(0), 1);
}

/// Found by reading: whoever may write Leases emptied the one of a node that was not healthy, the node took its own label
/// off, and a second one went down beside it.
#[test]
fn i1_a_lease_that_others_free_lets_nobody_down_beside_a_sick_node() {
    let mut world = with_a_sick_node();
    world.touch(1);
    world.unlock_by_admin("default");
    world.wake_all();
    world.run(2 * HOUR, calm);
    assert_eq!(world.boots(1), 0, "{}", world.told());
    assert!(world.cordoned(0) && world.labelled(0), "{}", world.told());
    let words = world.status(0);
    assert!(words.contains("keeps others from it"), "{words}");
    world.hosts[0].broken = false;
    world.run(24 * HOUR, calm);
    world.at_rest();
    assert_eq!((world.boots(0), world.boots(1)), (1, 1));
}

/// A holder that is dead while its Node stays: a person's taint lets a waiter clear its slot, and only that.
#[test]
fn i5_a_holder_that_is_out_of_service_loses_its_slot_unless_it_is_of_the_control_plane() {
    for quorum in [0, 1] {
        let mut world = World::new(3, 1, quorum);
        for host in &mut world.hosts {
            host.config.coordination.max_unavailable =
                kube_rebootd_core::budget::MaxUnavailable::Percent(100);
        }
        world.touch(0);
        world.run(HOUR, |world, host| {
            if host == 0 && world.phase(0) == Some(Phase::Draining) && !world.hosts[0].dead {
                world.die(0);
            }
            Fate::Done
        });
        (1..3).for_each(|host| world.touch(host));
        world.run(5 * HOUR, calm);
        assert_eq!(world.cleared, 0, "its Node is there: {}", world.told());
        world.out_of_service(0, true);
        world.run(5 * HOUR, calm);
        let went = world.boots(1) + world.boots(2);
        assert_eq!(
            (world.cleared, went),
            if quorum == 0 { (1, 2) } else { (0, 0) },
            "{}",
            world.told()
        );
        if quorum == 0 {
            assert!(world.labelled(0), "nobody may touch another's Node");
        } else {
            assert_eq!(world.holder("default"), Some("n0"));
        }
    }
}

/// Once: the annotation stayed a request although it was taken away, and one set after the boot was lost.
#[test]
fn i6_the_annotation_that_asks_for_a_reboot_is_served_once_and_a_new_one_again() {
    let mut world = World::new(1, 1, 0);
    world.annotate(0, names::REBOOT, Some("first"));
    let mut again = false;
    world.run(HOUR, |world, host| {
        if !again && world.phase(host) == Some(Phase::Verifying) {
            again = true;
            world.annotate(host, names::REBOOT, Some("second"));
        }
        Fate::Done
    });
    world.at_rest();
    assert_eq!(world.boots(0), 2, "{}", world.told());
    assert_eq!(world.annotation(0, names::REBOOT), None);
    // Taken away before logind was asked.
    world.annotate(0, names::REBOOT, Some("third"));
    world.run(HOUR, |world, host| {
        if world.phase(host) == Some(Phase::Draining) {
            world.annotate(host, names::REBOOT, None);
        }
        Fate::Done
    });
    world.at_rest();
    assert_eq!(world.boots(0), 2, "{}", world.told());
    assert_eq!(world.record(0).request, None);
}
