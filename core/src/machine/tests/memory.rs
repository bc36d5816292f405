//! What one process knows: how long it has worked on a stage, and what ends with a hold (I2, I7).

use super::*;
use crate::facts::LastList;

/// Seconds at which it is judged, and what of the machine changes before; how many seconds it has worked then.
type Row = (u64, fn(&mut Machine), u64);

#[test]
fn i7_how_long_a_stage_is_worked_on_without_a_rest() {
    fn stage(machine: &mut Machine, stage: Stage) {
        machine.facts.record.hold.as_mut().unwrap().stage = stage;
    }
    let rows: [Row; 12] = [
        (0, |_| {}, 0),
        (10, |_| {}, 10),
        (300, |_| {}, 300),
        // The next stage begins anew, and so does the same one of another hold.
        (310, |m| stage(m, Stage::Draining), 0),
        (320, |_| {}, 10),
        (
            330,
            |m| m.facts.record.hold.as_mut().unwrap().take.acquire_time = Timestamp::UNIX_EPOCH,
            0,
        ),
        (340, |_| {}, 10),
        // What waits for something with a time of its own rests.
        (350, |m| m.memory.rests(), 0),
        (360, |_| {}, 10),
        (370, |m| m.facts.started = false, 0),
        (380, |m| m.facts.started = true, 0),
        (390, |m| m.facts.boot = boot("next"), 0),
    ];
    let mut machine = held(Stage::Claiming);
    for (seconds, change, worked) in rows {
        change(&mut machine);
        let boot = NOW + Duration::from_secs(seconds);
        machine.judge(&[], Now { boot, ..now() });
        let worked = Duration::from_secs(worked);
        assert_eq!(machine.facts.in_stage, worked, "{seconds} s");
    }
}

/// Words of an undoing that are told anew are no new stage.
#[test]
fn i7_a_stage_is_the_same_whatever_it_says() {
    let mut machine = held(Stage::Undoing(crate::record::Why::Withdrawn));
    machine.judge(&[], now());
    let stage = Stage::Undoing(crate::record::Why::Lost);
    machine.facts.record.hold.as_mut().unwrap().stage = stage;
    let boot = NOW + Duration::from_secs(7);
    machine.judge(&[], Now { boot, ..now() });
    assert_eq!(machine.facts.in_stage, Duration::from_secs(7));
}

#[test]
fn i2_what_was_known_of_a_hold_ends_with_it() {
    let known = || {
        let mut machine = held(Stage::Draining);
        let memory = &mut machine.memory;
        memory.queue = vec![PodRef::of(&pod("web", "ReplicaSet"))];
        (memory.done, memory.verifying) = (Some(NOW), Some(NOW));
        memory.giving_back = Some(NOW);
        memory.waived = vec!["etcd".to_owned()];
        machine.facts.last_list = Some(LastList {
            asked: NOW,
            clean: true,
            marks: Marks::default(),
        });
        machine
    };
    let mut record = known().facts.record;
    let mut machine = known();
    record.hold.as_mut().unwrap().stage = Stage::Rebooting;
    machine.wrote(record.clone());
    assert!(machine.memory.done.is_some() && machine.facts.last_list.is_some());
    assert!(!machine.memory.begun, "found by this process, not begun");
    assert!(machine.memory.blocking.is_some());
    for hold in [
        None,
        Some(Hold {
            take: Take {
                acquire_time: Timestamp::UNIX_EPOCH,
                ..record.hold.clone().unwrap().take
            },
            ..record.hold.clone().unwrap()
        }),
    ] {
        let mut machine = known();
        machine.wrote(Record {
            hold: hold.clone(),
            ..record.clone()
        });
        assert_eq!(machine.facts.record.hold, hold);
        let memory = &machine.memory;
        assert!(memory.begun && memory.queue.is_empty() && memory.waived.is_empty());
        assert_eq!((memory.done, memory.verifying), (None, None));
        assert_eq!(memory.giving_back, None);
        assert!(
            memory.blocking.is_none(),
            "what would stop the next drain is not known"
        );
        assert_eq!(machine.facts.last_list, None);
    }
}

/// Only while it drains is anything evicted, and only with its pods in sight.
#[test]
fn i2_i8_a_drain_needs_a_view_of_its_pods() {
    let rows: [(Of, Option<Vec<Pod>>, bool); 5] = [
        (|| held(Stage::Draining), None, true),
        (|| held(Stage::Draining), Some(Vec::new()), false),
        (|| held(Stage::Rebooting), Some(Vec::new()), false),
        (|| held(Stage::Claiming), Some(Vec::new()), true),
        (|| booted(Stage::Draining), Some(Vec::new()), true),
    ];
    for (machine, pods, starting) in rows {
        let mut machine = machine();
        machine.saw_pods(pods.clone(), None);
        machine.judge(&[], now());
        assert_eq!(machine.facts.drain == Drained::Starting, starting);
        assert_eq!(machine.memory.pods, pods, "still seen");
        assert_eq!(machine.facts.marks.is_some(), pods.is_some());
    }
}

/// Under a graceful shutdown the kubelet ends pods that nobody makes again: they are named from the wish to the shutdown.
#[test]
fn pods_that_end_for_ever_are_named_until_the_host_goes_down() {
    let named = |mut machine: Machine, graceful: bool, watched: bool| {
        machine.listed_before(&[pod("a", ""), pod("b", "")], now());
        machine.memory.host.as_mut().unwrap().graceful = graceful;
        machine.saw_pods(watched.then(|| vec![pod("a", "")]), None);
        machine.judge(&[], now());
        machine.facts.ending.len()
    };
    let rows: [(&str, Of, bool, bool, usize); 7] = [
        ("idle", idle, true, false, 0),
        ("wanted", wanted, true, false, 2),
        ("wanted, and watched", wanted, true, true, 2),
        ("without a graceful shutdown", wanted, false, false, 0),
        ("held", || held(Stage::Draining), true, false, 2),
        ("held, and watched", || held(Stage::Draining), true, true, 1),
        ("after the boot", || booted(Stage::Rebooting), true, true, 0),
    ];
    for (what, machine, graceful, watched, number) in rows {
        assert_eq!(named(machine(), graceful, watched), number, "{what}");
    }
    let mut undoing = held(Stage::Draining);
    (undoing.facts.observed.request, undoing.facts.record.request) = (None, None);
    assert_eq!(named(undoing, true, true), 1, "as long as it is held");
}
