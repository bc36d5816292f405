//! Whether pods are evicted, and whether nothing is left that must go (I2, I9).

use super::*;
use crate::drain::Mode;

fn web() -> Pod {
    pod("web", "ReplicaSet")
}

/// Pods to evict, and whether the pods are seen no more; none: the drain is over.
fn evicts(machine: &mut Machine) -> Option<(usize, bool)> {
    machine.judge(&[], now());
    match &machine.facts.drain {
        Drained::Going { evict, unseen, .. } => Some((evict.len(), *unseen)),
        Drained::Done { .. } => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn i9_pods_are_evicted_and_waited_for_as_mode_and_hold_say() {
    for (mode, alone, drains) in [
        (Mode::Auto, false, true),
        (Mode::Auto, true, false),
        (Mode::Always, true, true),
        (Mode::Never, false, false),
    ] {
        let mut machine = held(Stage::Draining);
        machine.wrote(machine.facts.record.clone());
        machine.config.drain.mode = mode;
        machine.facts.record.hold.as_mut().unwrap().alone = alone;
        // Also where no drain has begun yet.
        for _ in 0..2 {
            machine.listed(&[web()], NOW);
            let clean = machine.facts.last_list.as_ref().unwrap().clean;
            assert_eq!(clean, !drains, "{mode:?} {alone}");
            machine.listed(&[], NOW);
            assert!(machine.facts.last_list.as_ref().unwrap().clean);
            machine.saw_pods(Some(vec![web()]), Some(Sight::Seen));
            let evicted = drains.then_some((1, false));
            assert_eq!(evicts(&mut machine), evicted, "{mode:?} {alone}");
        }
        if drains {
            machine.sent(1);
            machine.saw_pods(Some(vec![web()]), Some(Sight::Unseen));
            assert_eq!(evicts(&mut machine), Some((0, true)), "asked for once");
        }
    }
}

/// What the wait before the first eviction rests on: the cordon that has landed, and what the record says of it.
#[test]
fn i9_nobody_is_evicted_before_load_balancers_had_their_time() {
    let wait = Duration::from_secs(60);
    let waiting = || {
        let mut machine = held(Stage::Draining);
        machine.wrote(machine.facts.record.clone());
        machine.config.drain.policy.load_balancer_wait = wait;
        machine.facts.record.hold.as_mut().unwrap().excluded = true;
        let record = machine.facts.record.clone();
        let node = node(&mut machine);
        let set = crate::node_fields::NodeFields::of(&record, node);
        (node.labels, node.annotations) = (set.labels, set.annotations);
        node.unschedulable = true;
        node.read = Some(ago(5));
        machine.saw_pods(Some(vec![web()]), Some(Sight::Seen));
        machine
    };
    let drain = |machine: &mut Machine, boot: Duration| {
        machine.judge(&[], Now { boot, ..now() });
        machine.facts.drain.clone()
    };
    let rests = |machine: &mut Machine| match drain(machine, NOW) {
        Drained::Resting { wake, .. } => Some((machine.facts.cordoned.unwrap(), wake)),
        _ => None,
    };
    // A consistent read shows the cordon, or the answer to its own apply.
    let mut machine = waiting();
    assert_eq!(rests(&mut machine), Some((ago(5), Some(ago(5) + wait))));
    assert!(machine.memory.queue.is_empty());
    let point = crate::facts::Point::of(machine.facts.record.hold.as_ref().unwrap());
    machine.facts.applied = Some(crate::facts::Applied { point, at: ago(9) });
    assert_eq!(rests(&mut machine), Some((ago(9), Some(ago(9) + wait))));
    // Neither: from now on; and later what was recorded then.
    let mut machine = waiting();
    node(&mut machine).read = None;
    assert_eq!(rests(&mut machine), Some((NOW, Some(NOW + wait))));
    machine.facts.record.hold.as_mut().unwrap().cordoned = Some(ago(40));
    assert_eq!(rests(&mut machine), Some((ago(40), Some(ago(40) + wait))));
    let over = drain(&mut machine, ago(40) + wait);
    assert!(
        matches!(&over, Drained::Going { evict, .. } if evict.len() == 1),
        "{over:?}"
    );
    // Found by review: with a wait that was configured in mid-drain, a restart made a node wait half emptied.
    let mut machine = waiting();
    machine.facts.record.hold.as_mut().unwrap().drain_spent = 30;
    assert_eq!(rests(&mut machine), None);
    // The cordon is on its way.
    let mut machine = waiting();
    node(&mut machine).unschedulable = false;
    assert_eq!(drain(&mut machine, NOW), Drained::Starting);
    assert!(machine.memory.queue.is_empty());
    // Nothing is evicted, and the host goes down with what reaches it.
    let mut machine = waiting();
    machine.config.drain.mode = Mode::Never;
    assert_eq!(rests(&mut machine), Some((ago(5), Some(ago(5) + wait))));
    let over = drain(&mut machine, ago(5) + wait);
    assert_eq!(over, Drained::Done { at: ago(5) + wait });
    // Only cordoned, with a label of somebody else or without any.
    let mut machine = waiting();
    machine.facts.record.hold.as_mut().unwrap().excluded = false;
    let going = drain(&mut machine, NOW);
    assert!(matches!(going, Drained::Going { .. }), "{going:?}");
    let mut machine = waiting();
    machine.facts.record.hold.as_mut().unwrap().excluded = false;
    machine.config.drain.policy.cordon_only = wait;
    assert_eq!(rests(&mut machine), Some((ago(5), Some(ago(5) + wait))));
    // A drain under way keeps the policy it began with.
    machine.config.drain.policy.cordon_only = Duration::ZERO;
    assert_eq!(rests(&mut machine), Some((ago(5), Some(ago(5) + wait))));
    let over = drain(&mut machine, ago(5) + wait);
    assert!(
        matches!(&over, Drained::Going { spent, .. } if spent.is_zero()),
        "{over:?}"
    );
    let mut machine = waiting();
    machine.facts.record.hold.as_mut().unwrap().excluded = false;
    machine.config.drain.policy.cordon_only = wait;
    machine.config.drain.mode = Mode::Never;
    assert_eq!(
        drain(&mut machine, NOW),
        Drained::Done { at: NOW },
        "nobody would go"
    );
    // Before logind is asked the wait has been.
    let mut machine = waiting();
    machine.facts.record.hold.as_mut().unwrap().stage = Stage::Rebooting;
    let going = drain(&mut machine, NOW);
    assert!(matches!(going, Drained::Going { .. }), "{going:?}");
}

#[test]
fn i7_a_drain_is_told_what_was_answered_and_when() {
    let blocked = |machine: &Machine| match &machine.facts.drain {
        Drained::Going { spent, blocked, .. } => (*spent, blocked.len()),
        other => panic!("{other:?}"),
    };
    let later = NOW + Duration::from_secs(4);
    let signs: [fn(&mut Machine, Duration); 2] =
        [Machine::heard, |machine, at| machine.answered(at, at)];
    for sign in signs {
        let mut machine = held(Stage::Draining);
        machine.wrote(machine.facts.record.clone());
        machine.saw_pods(Some(vec![web()]), Some(Sight::Seen));
        assert_eq!(evicts(&mut machine), Some((1, false)));
        machine.sent(1);
        assert_eq!(blocked(&machine), (Duration::ZERO, 0));
        sign(&mut machine, later);
        machine.evicted("web", EvictAnswer::TwoBudgets("two".to_owned()), NOW);
        let then = Now {
            boot: later,
            ..now()
        };
        machine.judge(&[], then);
        assert_eq!(blocked(&machine), (Duration::from_secs(4), 1));
    }
}

/// Found by review: with `drain.on_timeout = "reboot"` a script was told that the node is drained while pods ran that a budget
/// protects (I9).
#[test]
fn i9_a_drain_that_leaves_pods_behind_keeps_no_node_drained() {
    for keeps in [false, true] {
        let mut machine = held(Stage::Draining);
        machine.config.drain.policy.on_timeout = drain::OnTimeout::Reboot;
        if keeps {
            let by = crate::trigger::Keeper::Script.begins().to_owned();
            let request = machine.facts.record.request.as_mut().unwrap();
            request.latched[0].by = by;
        }
        machine.wrote(machine.facts.record.clone());
        machine.saw_pods(Some(vec![web()]), Some(Sight::Seen));
        assert_eq!(evicts(&mut machine), Some((1, false)));
        machine.sent(1);
        machine.evicted("web", EvictAnswer::TwoBudgets("two".to_owned()), NOW);
        let later = NOW + machine.config.drain.policy.timeout + Duration::from_secs(1);
        machine.heard(later);
        let then = Now {
            boot: later,
            ..now()
        };
        machine.judge(&[], then);
        let failed = matches!(&machine.facts.drain, Drained::Failed { why } if why.contains("not kept drained"));
        let done = matches!(machine.facts.drain, Drained::Done { .. });
        assert_eq!((failed, done), (keeps, !keeps), "{:?}", machine.facts.drain);
    }
}

/// Found in virtual time: what the API server had answered an hour before the drain made this hour a part of the drain, which
/// failed by its time-out as soon as it had begun.
#[test]
fn i7_what_was_answered_before_the_drain_began_does_not_count() {
    let signs: [fn(&mut Machine, Duration); 2] =
        [Machine::heard, |machine, at| machine.answered(at, at)];
    for sign in signs {
        let mut machine = held(Stage::Draining);
        machine.wrote(machine.facts.record.clone());
        sign(&mut machine, ago(3600));
        machine.saw_pods(Some(vec![web()]), Some(Sight::Seen));
        assert_eq!(evicts(&mut machine), Some((1, false)));
        machine.sent(1);
        machine.answered(NOW, NOW);
        assert_eq!(evicts(&mut machine), Some((0, false)));
        let spent = match &machine.facts.drain {
            Drained::Going { spent, .. } => *spent,
            other => panic!("{other:?}"),
        };
        assert_eq!(spent, Duration::ZERO);
    }
}
