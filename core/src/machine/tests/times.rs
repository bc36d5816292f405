//! How the time of a cycle went, second by second.

use super::*;
use crate::times::Times;

/// `next` at so many milliseconds after the first look.
fn step(machine: &mut Machine, millis: u64) {
    let passed = Duration::from_millis(millis);
    let now = Now {
        boot: NOW + passed,
        wall: wall() + passed,
    };
    let step = machine.next(&machine.policy(Some("n1")), now);
    machine.wrote(step.record);
}

#[test]
fn time_goes_to_what_the_last_step_waited_for() {
    let mut machine = wanted();
    let paused = |machine: &mut Machine, paused: bool| {
        machine.facts.closed = Vec::new();
        if paused {
            let why = "node paused".into();
            let gate = crate::gates::Gate::NodePaused;
            let opens = None;
            machine.facts.closed = vec![crate::gates::Closed { gate, why, opens }];
        }
    };
    paused(&mut machine, true);
    for millis in [0, 900, 1800, 2700] {
        step(&mut machine, millis);
    }
    let waits = |machine: &Machine, reason: &str| machine.facts.times.waits.get(reason).copied();
    // What is below a second is not lost, however often it is looked at.
    assert_eq!(waits(&machine, "Paused"), Some(2));
    paused(&mut machine, false);
    step(&mut machine, 4000);
    assert_eq!(waits(&machine, "Paused"), Some(4));
    // There are no Leases yet.
    step(&mut machine, 9000);
    assert_eq!(waits(&machine, "SlotsUnknown"), Some(5));
    assert_eq!(waits(&machine, "Paused"), Some(4));
}

#[test]
fn a_node_that_needs_no_reboot_counts_nothing() {
    let mut machine = idle();
    for millis in [0, 60_000] {
        step(&mut machine, millis);
    }
    assert_eq!(machine.facts.times, Times::default());
    assert_eq!(machine.facts.record, Record::default());
}

#[test]
fn the_first_look_of_a_new_boot_ends_the_boot() {
    let mut machine = held(Stage::Rebooting);
    machine.facts.boot = boot("next");
    machine.facts.times.asked = Some(wall() - Duration::from_secs(48));
    step(&mut machine, 0);
    step(&mut machine, 7000);
    let Times {
        boot,
        verify,
        asked,
        ..
    } = machine.facts.times;
    assert_eq!((boot, verify, asked), (Some(48), 7, None));
}

#[test]
fn pods_whose_eviction_was_accepted_are_counted() {
    let mut machine = held(Stage::Draining);
    machine.saw_pods(Some(vec![pod("web", "ReplicaSet")]), None);
    machine.judge(&[], now());
    for (answer, evicted) in [
        (EvictAnswer::Budget("no".to_owned()), 0),
        (EvictAnswer::Accepted, 1),
    ] {
        machine.evicted("web", answer, NOW);
        assert_eq!(machine.facts.times.evicted, evicted);
    }
}
