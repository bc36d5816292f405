//! Whole cycles under one option each: volumes that take their time, `mode = "observe"`.

use super::*;

/// The kubelet takes its time to unmount what the pods used; a kill meanwhile loses none of the wait.
#[test]
fn i6_logind_is_asked_only_when_the_volumes_are_unmounted() {
    for kill in [false, true] {
        let mut world = World::new(1, 1, 0);
        world.hosts[0].unmounting = Duration::from_secs(40);
        world.touch(0);
        let mut killed = !kill;
        world.run(HOUR, |world, host| {
            if !killed && world.status(host).contains("still in use") {
                killed = true;
                world.kill(host);
            }
            Fate::Done
        });
        world.at_rest();
        assert!(killed);
        assert_eq!(world.boots(0), 1, "{}", world.told());
    }
}

#[test]
fn an_observer_takes_nothing_and_keeps_nobody_waiting() {
    let mut world = World::new(2, 1, 0);
    world.observe(0, true);
    (0..2).for_each(|host| world.touch(host));
    world.run(HOUR, calm);
    world.at_rest();
    assert_eq!((world.boots(0), world.boots(1)), (0, 1), "{}", world.told());
    assert_eq!(world.status(0), "observing: would take slot default");
    let did: Vec<&String> = (world.trace.iter())
        .filter(|line| line.starts_with("n0 ") && !line.contains("Read") && !line.contains("List"))
        // What it says of itself is all that it writes.
        .filter(|line| !line.contains("Begin") && !line.contains(" Tell("))
        .collect();
    assert!(did.is_empty(), "{did:?}");
    world.observe(0, false);
    world.run(HOUR, calm);
    world.at_rest();
    assert_eq!(world.boots(0), 1);
}

#[test]
fn a_holder_that_becomes_an_observer_undoes() {
    for phase in [Phase::Claiming, Phase::Draining] {
        let mut world = World::new(1, 1, 0);
        world.touch(0);
        world.run(HOUR, |world, host| {
            if world.phase(host) == Some(phase) {
                world.observe(host, true);
            }
            Fate::Done
        });
        world.at_rest();
        assert_eq!(world.boots(0), 0, "{phase}: {}", world.told());
        assert_eq!(world.record(0).backoff, None);
    }
}
