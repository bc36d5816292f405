//! `[[drain.escalate]]`: a budget that never lets a pod go, and pods that may be deleted past it; with any single fault (I6, I9).

use kube_rebootd_core::drain::{Action, Escalation};

use super::*;

fn held(pods: &str) -> World {
    let mut world = World::new(1, 1, 0);
    let host = &mut world.hosts[0];
    host.stuck = true;
    host.config.drain.policy.escalate = vec![Escalation {
        name: "web".to_owned(),
        pods: vec![pods.parse().unwrap()],
        after: Duration::from_secs(120),
        grace: None,
        action: Action::Delete,
    }];
    world.touch(0);
    world
}

#[test]
fn i9_only_pods_that_are_selected_are_deleted_past_their_budget() {
    for (pods, reboots) in [("shop:", 1), ("bank:", 0)] {
        let mut world = held(pods);
        world.run(HOUR, calm);
        assert_eq!(world.boots(0), reboots, "{pods}\n{}", world.told());
        let escalated = world.trace.iter().filter(|line| line.contains("Escalate"));
        assert_eq!(escalated.count() > 0, reboots > 0);
    }
}

#[test]
fn i6_any_single_fault_leaves_a_drain_that_deletes_able_to_finish() {
    let mut faults = 0;
    for fate in FATES {
        for nth in 1.. {
            let mut world = held("shop:");
            world.run(4 * HOUR, |world, host| {
                let first = world.met.is_empty() && world.effects + 1 == nth;
                if first && world.writes(host) {
                    return fate;
                }
                Fate::Done
            });
            world.at_rest();
            // A power loss is a boot as well.
            let boots = world.boots(0);
            assert!((1..=2).contains(&boots), "{fate:?} {nth}\n{}", world.told());
            faults += world.met.values().sum::<u64>();
            if nth > world.effects {
                break;
            }
        }
    }
    assert!(faults > 60, "only {faults} faults were met");
}
