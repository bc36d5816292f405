//! `drain.pod_timeout_max`, and the annotation on pods that it lets count.

use super::*;
use crate::pod::Patience;

fn asking(minutes: u64) -> Pod {
    let mut pod = pod("web");
    pod.patience = Some(Patience::Asked(secs(60 * minutes)));
    pod
}

fn patient(pods: &[Pod], max: u64, change: impl FnOnce(&mut Policy)) -> Drain {
    let mut policy = policy();
    policy.pod_timeout_max = secs(60 * max);
    change(&mut policy);
    let mut drain = Drain::new(policy, Duration::ZERO);
    drain.pods(pods, secs(0));
    drain
}

/// The budget never lets the pod go: when the drain ends, and how often it was asked in the last minute before that.
fn ends(drain: &mut Drain) -> (u64, u64) {
    let mut asked = Vec::new();
    for second in 0..4000 {
        let next = drain.next(secs(second));
        if !matches!(next.state, State::Going { .. }) {
            let late = asked.iter().filter(|at| **at + 60 >= second).count();
            return (second, late as u64);
        }
        assert!(!next.confirm || next.evict.is_empty());
        for pod in next.evict {
            asked.push(second);
            let why = "The disruption budget web needs 2".to_owned();
            drain.answer(&pod.uid, EvictAnswer::Budget(why), secs(second));
        }
        drain.heard(secs(second));
    }
    panic!("it never ends");
}

#[test]
fn i14_a_pod_gets_the_time_that_it_asks_for_up_to_the_limit() {
    let stall = 600;
    // Minutes that the pod asks for, and that the administrator lets count; when the drain ends.
    for (asks, max, end) in [
        // Off by default.
        (40, 0, stall),
        // drain.stall begins when its time is over.
        (5, 60, 5 * 60 + stall),
        (15, 60, 15 * 60 + stall),
        (25, 10, 10 * 60 + stall),
        (25, 60, 30 * 60),
        // Past drain.timeout.
        (40, 60, 40 * 60),
        // Twice drain.timeout is the end of every drain.
        (600, 60, 60 * 60),
    ] {
        let (second, late) = ends(&mut patient(&[asking(asks)], max, |_| {}));
        assert!((end..end + 3).contains(&second), "{asks} {max}: {second}");
        assert!(late >= 3, "it is asked all the time: {late}");
    }
}

/// Whoever asks for nothing keeps nobody waiting, and one that has its time keeps nobody else.
#[test]
fn only_the_pod_that_asks_gets_more_time() {
    let (second, _) = ends(&mut patient(&[asking(20), pod("db")], 60, |_| {}));
    assert!((600..603).contains(&second), "{second}");
}

/// A pod that comes late, as one that tolerates the cordon does, has `drain.stall` like every other one: the time in which only the
/// patient pod was waited for is no time in which it stood still.
#[test]
fn i14_a_pod_that_comes_late_ends_no_drain_at_once() {
    let mut drain = patient(&[asking(25)], 60, |_| {});
    for second in 0..900 {
        refused(&mut drain, second);
    }
    drain.pods(&[asking(25), pod("late")], secs(900));
    for second in 900..1499 {
        let next = refused(&mut drain, second);
        assert!(matches!(next.state, State::Going { .. }), "{second}");
    }
    for second in 1499..1503 {
        refused(&mut drain, second);
    }
    let next = drain.next(secs(1503));
    assert!(matches!(next.state, State::Failed { .. }), "{next:?}");
}

fn refused(drain: &mut Drain, second: u64) -> Next {
    let next = drain.next(secs(second));
    for pod in &next.evict {
        let why = "The disruption budget web needs 2".to_owned();
        drain.answer(&pod.uid, EvictAnswer::Budget(why), secs(second));
    }
    drain.heard(secs(second));
    next
}

/// Only one pod of a controller asks at a time: its sibling has nothing to wait for but that.
#[test]
fn i14_a_sibling_that_waits_for_its_turn_waits_with_the_patient_one() {
    let (mut one, mut other) = (asking(25), pod("web-2"));
    for pod in [&mut one, &mut other] {
        owned(pod, "ReplicaSet", "owner");
    }
    let (second, _) = ends(&mut patient(&[one, other], 60, |_| {}));
    assert!((1800..1803).contains(&second), "{second}");
}

/// Time of its own that is longer than `drain.stall` keeps no pod out of reach of an escalation.
#[test]
fn i14_a_pod_with_a_long_time_of_its_own_is_escalated_after_it() {
    let escalation = Escalation {
        name: "web".to_owned(),
        pods: vec!["shop:".parse().unwrap()],
        after: secs(60),
        grace: None,
        action: Action::Delete,
    };
    let mut drain = patient(&[asking(20)], 60, |policy| {
        policy.escalate = vec![escalation];
    });
    let mut at = Vec::new();
    for second in 0..1300 {
        let next = refused(&mut drain, second);
        at.extend(next.escalate.iter().map(|_| second));
    }
    assert_eq!(at.first(), Some(&1200), "{at:?}");
}

#[test]
fn its_time_is_named_past_the_timeout() {
    let mut drain = patient(&[asking(40)], 60, |_| {});
    drain.next(secs(0));
    drain.answer("web", EvictAnswer::Accepted, secs(0));
    drain.heard(secs(1801));
    let mut ending = asking(40);
    (ending.terminating, ending.grace_seconds) = (true, 30);
    drain.pods(&[ending], secs(1801));
    // Its grace period has only begun.
    drain.heard(secs(1900));
    let next = drain.next(secs(1900));
    assert!(matches!(next.state, State::Going { .. }), "{next:?}");
    assert_eq!(next.wake, Some(secs(2400)));
    let words = "1 pod left, 1 blocked: pod shop/web is still terminating";
    assert_eq!(describe(&next), words);
    drain.heard(secs(2401));
    assert!(matches!(drain.next(secs(2401)).state, State::Failed { .. }));
}

/// Both are the administrator's words: what a pod was promised comes first.
#[test]
fn a_pod_is_escalated_when_its_own_time_is_over() {
    let escalation = Escalation {
        name: "web".to_owned(),
        pods: vec!["shop:".parse().unwrap()],
        after: secs(60),
        grace: None,
        action: Action::Delete,
    };
    let mut drain = patient(&[asking(5)], 60, |policy| {
        policy.escalate = vec![escalation];
    });
    let mut at = Vec::new();
    for second in 0..400 {
        let next = drain.next(secs(second));
        at.extend(next.escalate.iter().map(|_| second));
        for pod in next.evict {
            let why = "The disruption budget web needs 2".to_owned();
            drain.answer(&pod.uid, EvictAnswer::Budget(why), secs(second));
        }
        drain.heard(secs(second));
    }
    assert_eq!(at.first(), Some(&300), "{at:?}");
}

#[test]
fn what_is_no_duration_is_told_once() {
    let mut bad = pod("web");
    bad.patience = Some(Patience::Unreadable("soon".to_owned()));
    let mut drain = patient(&[bad.clone()], 60, |_| {});
    drain.pods(&[bad.clone()], secs(1));
    let said = drain.take_said();
    assert_eq!(said.len(), 1);
    assert!(
        said[0].starts_with("pod shop/web has an annotation"),
        "{said:?}"
    );
    assert!(patient(&[bad], 0, |_| {}).take_said().is_empty());
}
