//! `[[drain.escalate]]`: who is hit, when, and by what (I9).

use super::*;

const SAYS: &str = "The disruption budget web needs 2 healthy pods and has 2 currently";

fn budget() -> EvictAnswer {
    EvictAnswer::Budget(SAYS.to_owned())
}

fn entry(name: &str, pods: &str, after: u64, grace: u64, action: Action) -> Escalation {
    Escalation {
        name: name.to_owned(),
        pods: vec![pods.parse().unwrap()],
        after: secs(after),
        grace: Some(secs(grace)).filter(|grace| !grace.is_zero()),
        action,
    }
}

fn escalating(pods: &[Pod], escalate: Vec<Escalation>) -> Drain {
    let policy = Policy {
        escalate,
        ..policy()
    };
    let mut drain = Drain::new(policy, Duration::ZERO);
    drain.pods(pods, secs(0));
    drain
}

fn of(app: &str, uid: &str) -> Pod {
    let mut pod = pod(uid);
    pod.labels.insert("app".to_owned(), app.to_owned());
    pod
}

/// Every second the drain is looked at and each eviction is refused: who was escalated, how and when.
fn refused(drain: &mut Drain, until: u64) -> Vec<(String, How, u64)> {
    let mut all = Vec::new();
    for second in 0..until {
        let next = drain.next(secs(second));
        for one in next.escalate {
            all.push((one.pod.uid.clone(), one.how, second));
            drain.answer(&one.pod.uid, EvictAnswer::Accepted, secs(second));
        }
        for pod in next.evict {
            drain.answer(&pod.uid, budget(), secs(second));
        }
        drain.heard(secs(second));
    }
    all
}

#[test]
fn i9_only_a_selected_pod_is_deleted_and_only_after_its_budget_has_refused_it_for_so_long() {
    let pods = [of("web", "web"), of("db", "db"), of("cache", "cache")];
    let delete = |grace| vec![entry("rest", "shop: app=web", 300, grace, Action::Delete)];
    for (escalate, expected) in [
        (Vec::new(), None),
        (delete(0), Some(How::Delete(None))),
        (delete(10), Some(How::Delete(Some(secs(10))))),
        // Of a namespace in which none of them is.
        (vec![entry("rest", "bank:", 300, 0, Action::Delete)], None),
        // A shorter grace period is no deletion.
        (
            vec![entry("rest", "shop: app=web", 300, 10, Action::Grace)],
            None,
        ),
    ] {
        let mut drain = escalating(&pods, escalate);
        let expected: Vec<_> = expected
            .map(|how| ("web".to_owned(), how, 301))
            .into_iter()
            .collect();
        assert_eq!(refused(&mut drain, 590), expected);
    }
}

#[test]
fn i9_a_deleted_pod_is_told_and_is_what_the_drain_waits_for() {
    let mut drain = escalating(
        &[of("web", "web")],
        vec![entry("rest", "app=web", 60, 0, Action::Delete)],
    );
    drain.next(secs(0));
    assert_eq!(drain.answer("web", budget(), secs(0)), None);
    drain.heard(secs(60));
    let next = drain.next(secs(60));
    assert_eq!(next.escalate.len(), 1);
    assert!(next.evict.is_empty(), "one request for one pod");
    let why =
        "past budget shop/web, which has refused its eviction for 1m (drain.escalate \"rest\")";
    assert_eq!(
        drain.take_said(),
        [format!("pod shop/web is deleted {why}")]
    );
    let went = drain.answer("web", EvictAnswer::Accepted, secs(60));
    assert_eq!(went, Some(Went::Deleted));
    let next = drain.next(secs(61));
    assert!(next.escalate.is_empty() && next.evict.is_empty(), "once");
    let words = format!("1 pod left, 1 waited for: pod shop/web was deleted {why}");
    assert_eq!(describe(&next), words);
    let mut ending = of("web", "web");
    ending.terminating = true;
    drain.pods(&[ending], secs(62));
    assert_eq!(describe(&drain.next(secs(62))), words);
    drain.pods(&[], secs(63));
    assert!(matches!(
        drain.next(secs(63)).state,
        State::Drained { leftover, .. } if leftover.is_empty()
    ));
    assert!(drain.take_said().is_empty());
}

/// Each answer to a deletion but a yes leaves the pod to its evictions, and is said.
#[test]
fn i9_a_deletion_that_is_refused_is_said_and_not_repeated_at_once() {
    let refusal = || EvictAnswer::Refused("pods \"web\" is forbidden".to_owned());
    let mut drain = escalating(
        &[of("web", "web")],
        vec![entry("rest", "app=web", 60, 0, Action::Delete)],
    );
    drain.next(secs(0));
    drain.answer("web", budget(), secs(0));
    drain.heard(secs(60));
    assert_eq!(drain.next(secs(60)).escalate.len(), 1);
    drain.take_said();
    assert_eq!(drain.answer("web", refusal(), secs(60)), None);
    let said = "pod shop/web: it was not deleted: pods \"web\" is forbidden";
    assert_eq!(drain.take_said(), [said]);
    let mut deleted = Vec::new();
    for second in 61..200 {
        let next = drain.next(secs(second));
        deleted.extend(next.escalate.iter().map(|_| second));
        for one in next.escalate {
            drain.answer(&one.pod.uid, refusal(), secs(second));
        }
        for pod in next.evict {
            drain.answer(&pod.uid, budget(), secs(second));
        }
        drain.heard(secs(second));
    }
    // The budget has to refuse it as long once more.
    assert_eq!(deleted.len(), 1, "{deleted:?}");
}

/// A webhook that keeps a pod is no budget: a policy is never passed over.
#[test]
fn i9_who_is_kept_by_something_else_than_a_budget_is_never_deleted() {
    let refused = || EvictAnswer::Refused("denied by webhook".to_owned());
    let busy = || EvictAnswer::Busy {
        retry_after: None,
        why: "the VM is migrated".to_owned(),
    };
    for answer in [refused as fn() -> EvictAnswer, busy] {
        let mut drain = escalating(
            &[of("web", "web")],
            vec![entry("rest", "app=web", 60, 0, Action::Delete)],
        );
        for second in 0..590 {
            let next = drain.next(secs(second));
            assert!(next.escalate.is_empty(), "{second}");
            for pod in next.evict {
                drain.answer(&pod.uid, answer(), secs(second));
            }
            drain.heard(secs(second));
        }
    }
    // And another answer in between begins the time anew.
    let mut drain = escalating(
        &[of("web", "web")],
        vec![entry("rest", "app=web", 60, 0, Action::Delete)],
    );
    let mut at = Vec::new();
    for second in 0..200 {
        let next = drain.next(secs(second));
        at.extend(next.escalate.iter().map(|_| second));
        for pod in next.evict {
            let between = (40..56).contains(&second);
            let answer = if between { refused() } else { budget() };
            drain.answer(&pod.uid, answer, secs(second));
        }
        drain.heard(secs(second));
    }
    assert_eq!(at.len(), 1);
    assert!(at[0] >= 100, "{at:?}");
}

#[test]
fn a_pod_that_takes_long_to_end_gets_a_shorter_grace_period_once() {
    for action in [Action::Grace, Action::Delete] {
        let mut slow = of("db", "db");
        slow.grace_seconds = 3600;
        let mut drain = escalating(
            &[slow.clone()],
            vec![
                entry("soon", "app=db", 120, 60, action),
                entry("sooner", "app=db", 300, 10, action),
                entry("others", "app=web", 1, 1, action),
            ],
        );
        assert_eq!(uids(&drain.next(secs(0))), ["db"]);
        let went = drain.answer("db", EvictAnswer::Accepted, secs(0));
        assert_eq!(went, Some(Went::Evicted));
        slow.terminating = true;
        let mut all = Vec::new();
        for second in 1..400 {
            drain.pods(&[slow.clone()], secs(second));
            let next = drain.next(secs(second));
            assert!(next.evict.is_empty(), "evicted once");
            for one in next.escalate {
                all.push((one.how, second));
                let went = drain.answer(&one.pod.uid, EvictAnswer::Accepted, secs(second));
                assert_eq!(went, None, "it was on its way");
                let How::Grace(grace) = one.how else {
                    panic!("no budget is asked for it")
                };
                slow.grace_seconds = grace.as_secs();
            }
            drain.heard(secs(second));
        }
        let expected = [(How::Grace(secs(60)), 121), (How::Grace(secs(10)), 301)];
        assert_eq!(all, expected, "{action:?}");
        let said = drain.take_said();
        let words = "pod shop/db has been terminating for 2m and gets 1m to end in place of 1h (drain.escalate \"soon\")";
        assert_eq!((said.len(), said[0].as_str()), (2, words));
    }
}

/// What is shorter already, has finished, or is not selected.
#[test]
fn nobody_gets_a_longer_grace_period() {
    type Change = fn(&mut Pod);
    let rows: [(&str, Change); 4] = [
        ("as short", |pod| pod.grace_seconds = 10),
        ("shorter", |pod| pod.grace_seconds = 2),
        ("finished", |pod| pod.phase = PodPhase::Succeeded),
        ("another", |pod| pod.labels.clear()),
    ];
    for (name, change) in rows {
        let mut slow = of("db", "db");
        (slow.terminating, slow.grace_seconds) = (true, 3600);
        change(&mut slow);
        let mut drain = escalating(
            &[slow],
            vec![entry("soon", "app=db", 60, 10, Action::Delete)],
        );
        for second in 0..590 {
            assert!(drain.next(secs(second)).escalate.is_empty(), "{name}");
            drain.heard(secs(second));
        }
    }
}

#[test]
fn i7_only_time_that_is_vouched_for_leads_to_an_escalation() {
    let mut slow = of("db", "db");
    (slow.terminating, slow.grace_seconds) = (true, 3600);
    let mut drain = escalating(
        &[slow],
        vec![entry("soon", "app=db", 60, 10, Action::Grace)],
    );
    let next = drain.next(secs(0));
    assert_eq!(next.wake, Some(secs(60)));
    // An answer decides whether it is due.
    let next = drain.next(secs(60));
    assert!(next.escalate.is_empty() && next.confirm);
    // The server was silent since the first second.
    drain.blind(true, secs(90));
    let next = drain.next(secs(3600));
    assert!(next.escalate.is_empty() && !next.confirm, "{next:?}");
    drain.heard(secs(3600));
    drain.blind(false, secs(3600));
    assert!(drain.next(secs(3610)).escalate.is_empty());
    drain.heard(secs(3660));
    assert_eq!(drain.next(secs(3660)).escalate.len(), 1);
}

/// Past `timeout` a pod within its own grace period is waited for: that is what is shortened.
#[test]
fn a_grace_period_is_shortened_past_the_timeout_and_kept_from_then_on() {
    let mut slow = of("db", "db");
    slow.grace_seconds = 3000;
    let mut drain = escalating(
        &[slow.clone()],
        vec![entry("soon", "app=db", 500, 20, Action::Grace)],
    );
    drain.next(secs(0));
    drain.answer("db", EvictAnswer::Accepted, secs(0));
    drain.heard(secs(1700));
    drain.pods(&[], secs(1700));
    slow.terminating = true;
    slow.uid = "db2".to_owned();
    drain.pods(&[slow.clone()], secs(1700));
    drain.heard(secs(2199));
    assert!(drain.next(secs(2199)).escalate.is_empty());
    drain.heard(secs(2200));
    let next = drain.next(secs(2200));
    assert_eq!(next.escalate.len(), 1, "{next:?}");
    drain.answer("db2", EvictAnswer::Accepted, secs(2200));
    slow.grace_seconds = 20;
    drain.pods(&[slow], secs(2201));
    drain.heard(secs(2219));
    assert!(matches!(drain.next(secs(2219)).state, State::Going { .. }));
    drain.heard(secs(2221));
    assert!(matches!(drain.next(secs(2221)).state, State::Failed { .. }));
}

/// The gate of pods that would stop a drain knows what the drain may do about them.
#[test]
fn a_pod_that_may_be_shortened_does_not_keep_the_drain_from_beginning() {
    let mut slow = of("db", "db");
    (slow.terminating, slow.grace_seconds) = (true, 9000);
    let blocks = |escalate| {
        let policy = Policy {
            escalate,
            ..policy()
        };
        !seen_before_cordon(std::slice::from_ref(&slow), &policy).is_empty()
    };
    assert!(blocks(Vec::new()));
    assert!(blocks(vec![entry("a", "app=web", 60, 10, Action::Grace)]));
    assert!(blocks(vec![entry("a", "app=db", 60, 0, Action::Delete)]));
    assert!(!blocks(vec![entry("a", "app=db", 60, 10, Action::Grace)]));
}

proptest! {
    /// Whatever is answered: nobody but the selected, each by its own UID, one request at a time.
    #[test]
    fn i9_whatever_is_answered_only_selected_pods_are_escalated(
        pods in prop::collection::vec((0..3_usize, any::<bool>(), 0..200_u64), 1..8),
        answers in prop::collection::vec(0..6_u8, 1..60),
        action in prop_oneof![Just(Action::Grace), Just(Action::Delete)],
    ) {
        let apps = ["web", "db", "cache"];
        let pods: Vec<Pod> = pods.iter().enumerate().map(|(number, (app, terminating, grace))| {
            let mut pod = of(apps[*app], &format!("p{number}"));
            owned(&mut pod, "ReplicaSet", apps[*app]);
            (pod.terminating, pod.grace_seconds) = (*terminating, *grace);
            pod
        }).collect();
        let mut drain = escalating(&pods, vec![
            entry("a", "app=web", 30, 5, action), entry("b", "app=db", 90, 1, Action::Grace)]);
        let mut under_way = BTreeSet::new();
        for (turn, answer) in answers.iter().enumerate() {
            let now = secs(5 * turn as u64);
            let next = drain.next(now);
            for one in &next.escalate {
                let pod = pods.iter().find(|pod| pod.uid == one.pod.uid).unwrap();
                prop_assert!(pod.labels["app"] != "cache");
                let deletes = matches!(one.how, How::Delete(_));
                let may = pod.labels["app"] == "web" && action == Action::Delete;
                prop_assert!(!deletes || (may && !pod.terminating));
                prop_assert!(now >= secs(30));
                prop_assert!(under_way.insert(one.pod.uid.clone()));
            }
            for pod in &next.evict {
                prop_assert!(under_way.insert(pod.uid.clone()));
            }
            let answered: Vec<String> = under_way.iter().take(usize::from(*answer)).cloned().collect();
            for uid in answered {
                under_way.remove(&uid);
                let said = match answer {
                    1 | 2 => budget(),
                    3 => EvictAnswer::TwoBudgets("two".to_owned()),
                    4 => EvictAnswer::Refused("no".to_owned()),
                    _ => EvictAnswer::Unanswered { retry_after: None, why: "late".to_owned() },
                };
                drain.answer(&uid, said, now);
            }
            drain.heard(now);
        }
    }
}

/// Found by reading: the refusal of a budget was kept while a webhook refused, and nobody asked the budget any more.
#[test]
fn i9_an_old_refusal_of_a_budget_is_none() {
    let busy = || EvictAnswer::Busy {
        why: "a webhook says not now".to_owned(),
        retry_after: None,
    };
    let delete = || vec![entry("rest", "app=web", 120, 0, Action::Delete)];
    let mut drain = escalating(&[of("web", "web")], delete());
    drain.next(secs(0));
    drain.answer("web", budget(), secs(0));
    for second in 1..500 {
        let next = drain.next(secs(second));
        assert!(next.escalate.is_empty(), "{second}");
        for pod in next.evict {
            drain.answer(&pod.uid, busy(), secs(second));
        }
        drain.heard(secs(second));
    }
    // An hour without an answer: the budget is asked first.
    let mut drain = escalating(&[of("web", "web")], delete());
    assert!(refused(&mut drain, 100).is_empty());
    drain.heard(secs(3700));
    assert!(drain.next(secs(3700)).escalate.is_empty());
}

/// Found by reading: labels were looked at once, when the pod was first seen.
#[test]
fn i9_a_pod_that_is_labelled_otherwise_meanwhile_is_left_alone() {
    let delete = vec![entry("rest", "app=web", 120, 0, Action::Delete)];
    let mut drain = escalating(&[of("web", "web")], delete);
    assert!(refused(&mut drain, 100).is_empty());
    drain.pods(&[of("quarantine", "web")], secs(100));
    let mut deleted = Vec::new();
    for second in 100..400 {
        let next = drain.next(secs(second));
        deleted.extend(next.escalate);
        for pod in next.evict {
            drain.answer(&pod.uid, budget(), secs(second));
        }
        drain.heard(secs(second));
    }
    assert!(deleted.is_empty(), "{deleted:?}");
}
