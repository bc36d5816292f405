//! `[[drain.order]]`: whose turn it is.

use super::*;

fn group(name: &str, pods: &str, priority: i32, wait: u64) -> Group {
    Group {
        name: name.to_owned(),
        pods: (!pods.is_empty())
            .then(|| pods.parse().unwrap())
            .into_iter()
            .collect(),
        priority: Some(priority).filter(|least| *least > 0),
        wait: secs(wait),
    }
}

fn ordered(pods: &[Pod], order: Vec<Group>) -> Drain {
    let policy = Policy { order, ..policy() };
    let mut drain = Drain::new(policy, Duration::ZERO);
    drain.pods(pods, secs(0));
    drain
}

fn of(app: &str, priority: i32) -> Pod {
    let mut pod = pod(app);
    pod.labels.insert("app".to_owned(), app.to_owned());
    pod.priority = priority;
    pod
}

fn shop() -> Vec<Pod> {
    vec![
        of("web", 0),
        of("queue", 100),
        of("db", 1000),
        of("dns", 2_000_000_000),
    ]
}

/// Without groups all ordinary pods leave at once; with them one group after another, by selector, by priority or both.
#[test]
fn groups_leave_one_after_another() {
    let rows: [(Vec<Group>, &[&[&str]]); 6] = [
        (Vec::new(), &[&["db", "queue", "web"], &["dns"]]),
        (
            vec![group("db", "app=db", 0, 60)],
            &[&["queue", "web"], &["db"], &["dns"]],
        ),
        (
            vec![group("db", "app=db", 0, 60), group("rest", "", 0, 60)],
            &[&["db"], &["queue", "web"], &["dns"]],
        ),
        // The first group that it fits, and a priority is the least one.
        (
            vec![group("high", "", 1000, 60), group("some", "", 1, 60)],
            &[&["web"], &["db"], &["queue"], &["dns"]],
        ),
        (
            vec![group("both", "app in (db,web)", 1000, 60)],
            &[&["queue", "web"], &["db"], &["dns"]],
        ),
        // Nobody's system-critical pods leave before the others.
        (
            vec![group("all", "shop:", 0, 60), group("dns", "app=web", 0, 60)],
            &[&["db", "queue", "web"], &["dns"]],
        ),
    ];
    for (order, expected) in rows {
        let mut left = shop();
        let mut drain = ordered(&left, order.clone());
        for (turn, names) in (1..).zip(expected) {
            let next = drain.next(secs(turn));
            assert_eq!(uids(&next), *names, "{order:?}");
            for pod in &next.evict {
                drain.answer(&pod.uid, EvictAnswer::Accepted, secs(turn));
            }
            assert!(drain.next(secs(turn)).evict.is_empty(), "they have to go");
            left.retain(|pod| !names.contains(&pod.uid.as_str()));
            drain.pods(&left, secs(turn));
        }
        let next = drain.next(secs(9));
        assert!(matches!(next.state, State::Drained { .. }), "{order:?}");
    }
}

/// One that is stuck, whether its budget refuses or it takes long to end, holds the next group up for `wait`.
#[test]
fn a_group_waits_for_the_one_before_it_no_longer_than_its_wait() {
    for refused in [false, true] {
        let order = vec![
            group("queue", "app=queue", 0, 60),
            group("db", "app=db", 0, 90),
        ];
        let mut drain = ordered(&shop(), order);
        let mut asked = Vec::new();
        let mut words = Vec::new();
        for second in 0..590 {
            let next = drain.next(secs(second));
            words.push(describe(&next));
            for pod in &next.evict {
                if !asked.iter().any(|(name, _)| *name == pod.uid) {
                    asked.push((pod.uid.clone(), second));
                }
                let answer = if refused {
                    EvictAnswer::Budget("The disruption budget a needs".to_owned())
                } else {
                    EvictAnswer::Accepted
                };
                drain.answer(&pod.uid, answer, secs(second));
            }
            drain.heard(secs(second));
        }
        let mut expected = vec![("web", 0), ("queue", 60), ("db", 150)];
        if refused {
            // Once all of the others are held by budgets, after 30 seconds.
            expected.push(("dns", 181));
        }
        let asked: Vec<_> = asked
            .iter()
            .map(|(name, at)| (name.as_str(), *at))
            .collect();
        assert_eq!(asked, expected);
        let waits = ", 2 in later groups of drain.order (next: queue)";
        assert!(words[59].contains(waits), "{}", words[59]);
        assert!(!words[151].contains("drain.order"), "{}", words[151]);
    }
}

#[test]
fn i7_a_group_does_not_begin_by_silence() {
    let order = vec![group("db", "app=db", 0, 60)];
    let mut drain = ordered(&[of("web", 0), of("db", 0)], order);
    assert_eq!(uids(&drain.next(secs(0))), ["web"]);
    drain.answer("web", EvictAnswer::Accepted, secs(0));
    assert_eq!(drain.next(secs(1)).wake, Some(secs(60)));
    drain.blind(true, secs(50));
    drain.heard(secs(3600));
    drain.blind(false, secs(3600));
    assert!(drain.next(secs(3601)).evict.is_empty());
    drain.heard(secs(3661));
    assert_eq!(uids(&drain.next(secs(3661))), ["db"]);
}

/// A pod that comes late belongs to its group as any other, and begins that group's turn anew.
#[test]
fn a_late_pod_of_an_earlier_group_goes_first() {
    let order = vec![group("db", "app=db", 0, 60)];
    let mut drain = ordered(&[of("db", 0)], order);
    assert_eq!(uids(&drain.next(secs(0))), ["db"]);
    drain.answer(
        "db",
        EvictAnswer::Budget("The disruption budget a needs".to_owned()),
        secs(0),
    );
    drain.pods(&[of("db", 0), of("web", 0)], secs(10));
    assert_eq!(uids(&drain.next(secs(10))), ["web"]);
    drain.answer("web", EvictAnswer::Accepted, secs(10));
    drain.pods(&[of("db", 0)], secs(12));
    assert_eq!(uids(&drain.next(secs(12))), ["db"]);
}

/// Pods whose turn has not come are no reason to call a drain stuck that waits for a Job.
#[test]
fn a_job_in_an_earlier_group_stalls_nothing() {
    let mut job = of("job", 0);
    owned(&mut job, "Job", "backup");
    let policy = Policy {
        jobs: Jobs::Wait,
        order: vec![group("db", "app=db", 0, 1200)],
        ..policy()
    };
    let mut drain = Drain::new(policy, Duration::ZERO);
    drain.pods(&[job, of("db", 0)], secs(0));
    for second in 0..1100 {
        let next = drain.next(secs(second));
        assert!(matches!(next.state, State::Going { .. }), "{second}");
        drain.heard(secs(second));
    }
}
