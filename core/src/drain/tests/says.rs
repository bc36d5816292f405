//! What a drain says of the pods that are left, and what it does beside a watch that has failed (I7, I9). cargo-mutants found
//! that only the simulator showed this.

use super::*;

const FULL: &str = "The disruption budget web needs 5 healthy pods and has 5 currently";

fn full() -> EvictAnswer {
    EvictAnswer::Budget(FULL.to_owned())
}

fn web(uid: &str) -> Pod {
    let mut pod = pod(uid);
    owned(&mut pod, "ReplicaSet", "web");
    pod
}

/// It would end for ever.
fn bare(uid: &str) -> Pod {
    Pod {
        restart_policy: RestartPolicy::Never,
        ..Pod::ready(uid)
    }
}

fn blocked(next: &Next) -> Vec<(&str, &str)> {
    let State::Going { blocked, .. } = &next.state else {
        panic!("{:?}", next.state)
    };
    let words = blocked.iter().map(|it| (&*it.pod.uid, &*it.why));
    words.collect()
}

#[test]
fn each_pod_behind_a_budget_is_named_and_one_of_them_asks() {
    let mut drain = drain(&[web("b"), web("c")]);
    assert_eq!(uids(&drain.next(secs(0))), ["b"]);
    assert!(drain.next(secs(0)).evict.is_empty(), "one is on its way");
    drain.answer("b", full(), secs(0));
    assert_eq!(blocked(&drain.next(secs(0))), [("b", FULL), ("c", FULL)]);
    // One that comes later does not ask instead.
    drain.pods(&[web("a"), web("b"), web("c")], secs(1));
    let wake = drain.next(secs(1)).wake.unwrap();
    assert_eq!(uids(&drain.next(wake)), ["b"]);
}

#[test]
fn what_no_eviction_will_end_is_said() {
    let mut two = drain(&[pod("a"), bare("b")]);
    two.next(secs(0));
    two.answer("a", EvictAnswer::TwoBudgets("two".to_owned()), secs(0));
    let controller = "has no controller that would make it again";
    let next = two.next(secs(1));
    assert_eq!(blocked(&next), [("a", "two"), ("b", controller)]);
    let volume = Policy {
        empty_dir: EmptyDir::Block,
        ..policy()
    };
    let mut drain = Drain::new(volume, Duration::ZERO);
    let mut pod = pod("a");
    pod.empty_dir = true;
    drain.pods(&[pod], secs(0));
    let why = "has an emptyDir volume and drain.empty_dir is \"block\"";
    assert_eq!(blocked(&drain.next(secs(0))), [("a", why)]);
}

#[test]
fn pods_that_come_back_are_named_from_the_sixth_on() {
    let mut drain = Drain::new(policy(), Duration::ZERO);
    for round in 0..=6 {
        let uid = format!("r{round}");
        drain.pods(&[web(&uid)], secs(round));
        let next = drain.next(secs(round));
        let says = blocked(&next).len();
        assert_eq!(says, usize::from(round > 5), "{round}");
        for pod in next.evict {
            assert_eq!(blocked(&drain.next(secs(round))).len(), 0, "{round}");
            drain.answer(&pod.uid, EvictAnswer::Accepted, secs(round));
        }
    }
}

/// A tier is stuck, too, when its pods only wait for the sibling that asks for them.
#[test]
fn i9_siblings_behind_a_budget_open_the_next_tier_after_30_s() {
    let mut critical = pod("z");
    critical.priority = 2_000_000_000;
    let mut drain = drain(&[web("a"), web("b"), critical]);
    drain.next(secs(0));
    drain.answer("a", full(), secs(0));
    for second in 0..30 {
        let next = drain.next(secs(second));
        assert!(!uids(&next).contains(&"z"), "{second}");
        assert!(next.wake.is_some_and(|at| at <= secs(30)), "{second}");
        for pod in next.evict {
            drain.answer(&pod.uid, full(), secs(second));
        }
    }
    let next = drain.next(secs(30));
    assert!(uids(&next).contains(&"z"));
    assert!(next.wake.is_none_or(|at| at > secs(30)));
}

#[test]
fn i7_nothing_is_asked_while_the_pods_cannot_be_watched_nor_when_it_is_over() {
    let mut one = drain(&[pod("a")]);
    one.heard(secs(599));
    one.blind(true, secs(600));
    let next = one.next(secs(700));
    assert_eq!((next.evict, next.wake), (Vec::new(), None));
    assert!(!next.confirm);
    let mut late = drain(&[pod("a")]);
    late.heard(secs(600));
    let next = late.next(secs(600));
    assert!(matches!(next.state, State::Failed { .. }));
    assert_eq!((next.evict, next.wake), (Vec::new(), None));
    assert!(!next.confirm);
}

#[test]
fn a_pod_that_a_finalizer_keeps_is_let_go_when_that_time_is_over() {
    let mut held = pod("a");
    (held.terminating, held.phase) = (true, PodPhase::Succeeded);
    (held.grace_seconds, held.finalizers) = (0, vec!["a.b/c".to_owned()]);
    let mut drain = drain(&[held]);
    let wake = drain.next(secs(0)).wake.unwrap();
    assert_eq!(wake, secs(30));
    let mut unseen = drain.clone();
    unseen.blind(true, secs(1));
    assert_eq!(unseen.next(secs(1)).wake, None, "it may have gone");
    drain.heard(wake);
    assert!(matches!(drain.next(wake).state, State::Drained { .. }));
}

#[test]
fn it_gave_up_when_its_time_is_over_and_pods_are_left_on_purpose() {
    for (on_timeout, spent, left, gave_up) in [
        (OnTimeout::Reboot, 1800, true, true),
        (OnTimeout::Reboot, 1799, true, false),
        (OnTimeout::Reboot, 1800, false, false),
        (OnTimeout::Abort, 1800, true, false),
    ] {
        let policy = Policy {
            on_timeout,
            ..policy()
        };
        let mut drain = Drain::new(policy, secs(spent));
        let pods = [pod("a")];
        drain.pods(if left { &pods } else { &[] }, secs(0));
        assert_eq!(drain.gave_up(), gave_up, "{on_timeout:?} {spent} {left}");
    }
}

#[test]
fn only_who_is_within_its_grace_is_said_to_be() {
    let reboots = Policy {
        on_timeout: OnTimeout::Reboot,
        ..policy()
    };
    let mut drain = Drain::new(reboots, Duration::ZERO);
    let mut ends = pod("a");
    (ends.terminating, ends.grace_seconds) = (true, 3600);
    drain.pods(&[ends, pod("b")], secs(0));
    drain.heard(secs(600));
    let grace = "may take 1h to end (its grace period)";
    assert_eq!(blocked(&drain.next(secs(600))), [("a", grace)]);
}

/// What was left at the end, and which of its times was over.
#[test]
fn how_it_ended_is_said() {
    let ended = |spent: u64, on_timeout: OnTimeout, answer: Option<EvictAnswer>| {
        let policy = Policy {
            on_timeout,
            ..policy()
        };
        let mut drain = Drain::new(policy, secs(spent));
        drain.pods(&[pod("a")], secs(0));
        drain.next(secs(0));
        if let Some(answer) = answer {
            drain.answer("a", answer, secs(0));
        }
        drain.heard(secs(600));
        describe(&drain.next(secs(600)))
    };
    let accepted = Some(EvictAnswer::Accepted);
    let stall =
        "drain failed: no pod went away for drain.stall of 10m, 1 remain: 1 blocked: pod shop/a";
    let timeout = "drain failed: 1 pod left after drain.timeout of 30m: 1 blocked: pod shop/a";
    for (spent, on_timeout, answer, words) in [
        (
            0,
            OnTimeout::Abort,
            None,
            format!("{stall} was not evicted in time"),
        ),
        (
            0,
            OnTimeout::Abort,
            accepted.clone(),
            format!("{stall} is still terminating"),
        ),
        (
            1200,
            OnTimeout::Abort,
            accepted.clone(),
            format!("{timeout} is still terminating"),
        ),
        (
            0,
            OnTimeout::Reboot,
            accepted,
            "drained except 1 blocked: pod shop/a is still terminating".to_owned(),
        ),
    ] {
        assert_eq!(ended(spent, on_timeout, answer), words);
    }
    let mut none = drain(&[]);
    let mut next = none.next(secs(0));
    assert_eq!(describe(&next), "drained");
    next.state = State::Failed {
        why: "why".to_owned(),
        blocked: Vec::new(),
    };
    assert_eq!(describe(&next), "drain failed: why");
}

#[test]
fn volumes_are_named_where_all_of_them_are_waited_for() {
    for (stay, words) in [
        (0, "all pods are gone, 2 volumes still in use: csi^a"),
        (1, "all pods are gone, 1 volume still in use"),
    ] {
        let next = Next {
            escalate: Vec::new(),
            evict: Vec::new(),
            state: State::Unmounting {
                volumes: vec!["csi^a".to_owned(), "csi^b".to_owned()],
                stay,
            },
            held_by_finalizer: Vec::new(),
            confirm: false,
            wake: None,
        };
        assert_eq!(describe(&next), words);
    }
}

#[test]
fn pods_that_a_graceful_shutdown_ends_for_ever_are_counted() {
    let pods: Vec<_> = ["a", "b", "c"].map(|uid| PodRef::of(&bare(uid))).into();
    assert_eq!(ending(&[]), None);
    for (number, words) in [
        (1, "pod shop/a without a controller will not run again"),
        (2, "pod shop/a and 1 more without a controller"),
        (3, "pod shop/a and 2 more without a controller"),
    ] {
        let said = ending(&pods[..number]).unwrap();
        assert!(said.starts_with(words), "{said}");
    }
}

/// What stays may take as long as it likes to end.
#[test]
fn a_pod_of_a_daemon_set_that_takes_years_to_end_is_no_blocker() {
    let mut pod = pod("a");
    (pod.terminating, pod.grace_seconds) = (true, 365 * 86_400);
    assert_eq!(seen_before_cordon(&[pod.clone()], &policy()).len(), 1);
    owned(&mut pod, "DaemonSet", "net");
    assert_eq!(seen_before_cordon(&[pod], &policy()), []);
}

/// Nodes that are drained at once do not ask a budget at the same moment.
#[test]
fn pods_are_asked_again_at_times_of_their_own() {
    let jitter = |uid: &str| Entry::new(&pod(uid), Judgement::Evict, 0, secs(0)).jitter();
    let all: BTreeSet<u32> = (0..100).map(|n| jitter(&format!("p{n}"))).collect();
    assert!(
        all.len() > 80 && all.iter().all(|it| *it <= 1000),
        "{all:?}"
    );
    assert_eq!(jitter("p1"), jitter("p1"));
}
