//! Tables and random runs of a drain.

use proptest::prelude::*;

use super::*;
use crate::pod::{Controller, EvictAnswer, PodPhase, RestartPolicy};

mod ending;
mod escalate;
mod order;
mod patience;
mod rest;
mod says;
mod time;

pub(super) fn policy() -> Policy {
    Policy {
        timeout: Duration::from_secs(1800),
        stall: Duration::from_secs(600),
        on_timeout: OnTimeout::Abort,
        cordon_only: Duration::ZERO,
        load_balancer_wait: Duration::ZERO,
        parallelism: 25,
        unmanaged: Unmanaged::Leave,
        jobs: Jobs::Evict,
        empty_dir: EmptyDir::Evict,
        volumes_timeout: Duration::from_secs(120),
        skip: Vec::new(),
        pod_timeout_max: Duration::ZERO,
        order: Vec::new(),
        escalate: Vec::new(),
    }
}

pub(super) fn owned(pod: &mut Pod, kind: &str, uid: &str) {
    pod.controller = Some(Controller {
        api: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        name: uid.to_owned(),
        uid: uid.to_owned(),
    });
}

pub(super) fn pod(uid: &str) -> Pod {
    let mut pod = Pod::ready(uid);
    owned(&mut pod, "ReplicaSet", &format!("owner-of-{uid}"));
    pod
}

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn drain(pods: &[Pod]) -> Drain {
    let mut drain = Drain::new(policy(), Duration::ZERO);
    drain.pods(pods, secs(0));
    drain
}

pub(super) fn uids(next: &Next) -> Vec<&str> {
    next.evict.iter().map(|pod| pod.uid.as_str()).collect()
}

#[test]
fn i8_nothing_is_over_before_a_view_or_in_silence() {
    let mut drain = Drain::new(policy(), Duration::ZERO);
    assert!(matches!(drain.next(secs(0)).state, State::Going { .. }));
    drain.pods(&[], secs(1));
    drain.heard(secs(1));
    drain.blind(true, secs(1));
    assert!(matches!(drain.next(secs(9000)).state, State::Going { .. }));
    drain.blind(false, secs(9000));
    assert_eq!(drain.spent(), secs(1));
    assert!(matches!(
        drain.next(secs(9001)).state,
        State::Drained { .. }
    ));
}

#[test]
fn i9_110_pods_without_budget_get_one_eviction_each() {
    let pods: Vec<_> = (0..110).map(|n| pod(&format!("p{n}"))).collect();
    let mut drain = drain(&pods);
    let mut sent = BTreeSet::new();
    loop {
        let next = drain.next(secs(1));
        assert!(next.evict.len() <= 25);
        if next.evict.is_empty() {
            break;
        }
        for pod in next.evict {
            drain.answer(&pod.uid, EvictAnswer::Accepted, secs(1));
            assert!(sent.insert(pod.uid));
        }
    }
    assert_eq!(sent.len(), 110);
    drain.pods(&[], secs(2));
    assert!(
        matches!(drain.next(secs(2)).state, State::Drained { leftover, .. } if leftover.is_empty())
    );
}

#[test]
fn i9_a_budget_is_asked_by_one_pod_for_its_siblings() {
    let mut pods = [pod("a"), pod("b"), pod("c")];
    for pod in &mut pods {
        owned(pod, "ReplicaSet", "web");
    }
    let mut drain = drain(&pods);
    // One of a controller first: a budget refuses once, not for each pod there is.
    assert_eq!(uids(&drain.next(secs(0))), ["a"]);
    let message = "The disruption budget web needs 5 healthy pods and has 5 currently";
    drain.answer("a", EvictAnswer::Budget(message.to_owned()), secs(0));
    let next = drain.next(secs(0));
    assert!(next.evict.is_empty());
    assert_eq!(
        describe(&next),
        "3 pods left, 3 blocked by budget shop/web: pod shop/a"
    );
    let wake = next.wake.expect("a retry");
    assert!(wake >= secs(1) && wake <= secs(2), "{wake:?}");
    assert_eq!(uids(&drain.next(wake)), ["a"]);
    drain.answer("a", EvictAnswer::Accepted, wake);
    // The budget needs a replacement first: its next pod is not tried at once.
    let next = drain.next(wake);
    assert!(next.evict.is_empty());
    assert!(next.wake.is_some_and(|at| at > wake && at <= secs(4)));
    assert_eq!(uids(&drain.next(secs(4))), ["b"]);
}

#[test]
fn i9_a_controller_without_a_budget_lets_more_and_more_go_at_once() {
    let mut pods: Vec<_> = (0..12).map(|n| pod(&format!("p{n:02}"))).collect();
    for pod in &mut pods {
        owned(pod, "ReplicaSet", "web");
    }
    let mut drain = drain(&pods);
    let mut batches = Vec::new();
    loop {
        let next = drain.next(secs(1));
        if next.evict.is_empty() {
            break;
        }
        batches.push(next.evict.len());
        for pod in next.evict {
            drain.answer(&pod.uid, EvictAnswer::Accepted, secs(1));
        }
    }
    assert_eq!(batches, [1, 1, 2, 4, 4]);
}

/// The watch is often quicker than the answer: the budget is spent all the same.
#[test]
fn i9_a_pod_seen_to_go_before_its_answer_has_spent_the_budget() {
    let mut pods = [pod("a"), pod("b"), pod("c")];
    for pod in &mut pods {
        owned(pod, "ReplicaSet", "web");
    }
    let mut drain = drain(&pods);
    drain.next(secs(0));
    drain.answer("a", EvictAnswer::Budget("full".to_owned()), secs(0));
    assert_eq!(uids(&drain.next(secs(2))), ["a"]);
    drain.pods(&pods[1..], secs(2));
    assert!(drain.next(secs(2)).evict.is_empty());
    drain.answer("a", EvictAnswer::Accepted, secs(2));
    let next = drain.next(secs(2));
    assert!(next.evict.is_empty() && next.wake.is_some_and(|at| at > secs(2)));
}

/// What was chosen while the API server was paused, and was gone before it was sent, is never answered.
#[test]
fn a_pod_that_comes_late_does_not_wait_for_an_eviction_that_was_never_sent() {
    let mut pods = [pod("a"), pod("b")];
    for pod in &mut pods {
        owned(pod, "ReplicaSet", "web");
    }
    let [early, late] = pods;
    let mut drain = drain(&[early]);
    let chosen = drain.next(secs(0)).evict;
    assert_eq!(chosen.len(), 1);
    drain.pods(&[], secs(1));
    assert!(matches!(drain.next(secs(1)).state, State::Drained { .. }));
    drain.unsent(chosen);
    drain.pods(&[late], secs(2));
    assert_eq!(uids(&drain.next(secs(2))), ["b"]);
}

#[test]
fn a_stuck_tier_opens_the_next_after_30_s() {
    let mut critical = pod("z");
    critical.priority = 2_000_000_000;
    let mut drain = drain(&[pod("a"), critical]);
    assert_eq!(uids(&drain.next(secs(0))), ["a"]);
    drain.answer("a", EvictAnswer::TwoBudgets("two".to_owned()), secs(0));
    assert!(drain.next(secs(0)).evict.is_empty());
    assert!(!uids(&drain.next(secs(29))).contains(&"z"));
    assert!(uids(&drain.next(secs(30))).contains(&"z"));
}

#[test]
fn i9_a_terminating_pod_is_waited_for_up_to_its_grace() {
    let mut going = pod("a");
    going.terminating = true;
    going.grace_seconds = 3600;
    let mut drain = drain(&[going.clone()]);
    assert!(drain.next(secs(0)).evict.is_empty());
    drain.heard(secs(3599));
    let late = drain.next(secs(3599));
    assert_eq!(
        describe(&late),
        "1 pod left, 1 blocked: pod shop/a may take 1h to end (its grace period)"
    );
    assert_eq!(late.wake, Some(secs(3600)));
    assert!(matches!(drain.next(secs(3600)).state, State::Failed { .. }));
    drain.pods(&[], secs(3601));
    let next = drain.next(secs(3601));
    assert!(matches!(next.state, State::Drained { .. }));
}

/// Found by reading: a grace of years held cordon and slot for years.
#[test]
fn i2_a_grace_of_years_is_waited_for_until_the_drain_has_taken_twice_its_timeout() {
    let mut going = pod("a");
    going.terminating = true;
    going.grace_seconds = 365 * 86_400;
    for (on_timeout, drained) in [(OnTimeout::Abort, false), (OnTimeout::Reboot, true)] {
        let policy = Policy {
            on_timeout,
            ..policy()
        };
        let timeout = policy.timeout.as_secs();
        let mut drain = Drain::new(policy, Duration::ZERO);
        drain.pods(std::slice::from_ref(&going), secs(0));
        let last = secs(2 * timeout - 1);
        drain.heard(last);
        let late = drain.next(last);
        assert!(matches!(late.state, State::Going { left: 1, .. }));
        assert_eq!(late.wake, Some(secs(2 * timeout)));
        drain.heard(secs(2 * timeout));
        let over = drain.next(secs(2 * timeout)).state;
        assert_eq!(matches!(over, State::Drained { .. }), drained, "{over:?}");
        assert_eq!(matches!(over, State::Failed { .. }), !drained, "{over:?}");
        if let State::Failed { why, .. } = over {
            assert_eq!(why, "1 pod left after twice drain.timeout of 30m");
        }
    }
    // The next attempt does not begin while it is there.
    let seen = seen_before_cordon(std::slice::from_ref(&going), &policy());
    assert!(
        seen[0].why.contains("longer than twice drain.timeout"),
        "{seen:?}"
    );
    let reboots = Policy {
        on_timeout: OnTimeout::Reboot,
        ..policy()
    };
    assert!(seen_before_cordon(std::slice::from_ref(&going), &reboots).is_empty());
    going.grace_seconds = 3600;
    assert!(seen_before_cordon(&[going], &policy()).is_empty());
}

#[test]
fn a_pod_that_comes_back_becomes_a_blocker() {
    let mut drain = Drain::new(policy(), Duration::ZERO);
    for round in 0..=6 {
        let mut pod = pod(&format!("r{round}"));
        owned(&mut pod, "ReplicaSet", "web");
        drain.pods(&[pod], secs(round));
        let next = drain.next(secs(round));
        assert_eq!(next.evict.len(), usize::from(round <= 5), "{round}");
        for pod in next.evict {
            drain.answer(&pod.uid, EvictAnswer::Accepted, secs(round));
        }
    }
    let State::Going { blocked, .. } = drain.next(secs(7)).state else {
        panic!("not going")
    };
    assert!(blocked[0].why.starts_with("comes back"));
}

#[test]
fn a_replacement_seen_before_the_answer_counts_as_one() {
    let replica = |round: u64, terminating: bool| {
        let mut pod = pod(&format!("r{round}"));
        owned(&mut pod, "ReplicaSet", "web");
        pod.terminating = terminating;
        pod
    };
    let mut drain = drain(&[replica(0, false)]);
    let mut evictions = 0;
    for round in 0..9 {
        for asked in drain.next(secs(round)).evict {
            evictions += 1;
            drain.pods(
                &[replica(round, true), replica(round + 1, false)],
                secs(round),
            );
            drain.answer(&asked.uid, EvictAnswer::Accepted, secs(round));
        }
        drain.pods(&[replica(round + 1, false)], secs(round));
    }
    assert_eq!(evictions, 6);
}

/// Found in CI: each pod that comes back is refused at first, as `NodeRestriction`'s cache lags by some milliseconds, and
/// five of them took half a minute.
#[test]
fn pods_that_are_too_new_to_be_evicted_are_asked_again_within_two_seconds() {
    let mut drain = Drain::new(policy(), Duration::ZERO);
    let mut now = secs(0);
    for round in 0..=5 {
        let mut pod = pod(&format!("r{round}"));
        owned(&mut pod, "ReplicaSet", "web");
        drain.pods(&[pod.clone()], now);
        assert_eq!(uids(&drain.next(now)), [pod.uid.as_str()]);
        drain.answer(&pod.uid, EvictAnswer::LookAgain, now);
        let next = drain.next(now);
        assert!(next.evict.is_empty());
        now = next.wake.expect("a retry");
        assert_eq!(uids(&drain.next(now)), [pod.uid.as_str()]);
        drain.answer(&pod.uid, EvictAnswer::Accepted, now);
    }
    assert!(now >= secs(6) && now <= secs(12), "{now:?}");
}

#[test]
fn blockers_are_known_before_the_cordon() {
    let mut bare = pod("a");
    bare.controller = None;
    bare.restart_policy = RestartPolicy::Never;
    assert_eq!(seen_before_cordon(&[bare, pod("b")], &policy()).len(), 1);
}

fn any_pod(number: usize) -> impl Strategy<Value = Pod> {
    (0..9_u8, 0..4_u8, any::<bool>()).prop_map(move |(kind, owner, critical)| {
        let mut pod = pod(&format!("p{number}"));
        owned(&mut pod, "ReplicaSet", &format!("o{owner}"));
        match kind {
            0 => pod.mirror = true,
            1 => owned(&mut pod, "DaemonSet", "ds"),
            2 => pod.phase = PodPhase::Succeeded,
            3 => pod.terminating = true,
            4 => owned(&mut pod, "Job", "job"),
            _ => {}
        }
        pod.priority = if critical { 2_000_000_000 } else { 0 };
        pod
    })
}

fn any_answer() -> impl Strategy<Value = EvictAnswer> {
    prop_oneof![
        3 => Just(EvictAnswer::Accepted),
        1 => Just(EvictAnswer::LookAgain),
        1 => Just(EvictAnswer::Budget("disruption budget b is full".to_owned())),
        1 => Just(EvictAnswer::Busy { retry_after: Some(2), why: String::new() }),
        1 => Just(EvictAnswer::Unauthorized("ended".to_owned())),
        1 => Just(EvictAnswer::Unanswered { retry_after: None, why: String::new() }),
        1 => Just(EvictAnswer::TwoBudgets("two".to_owned())),
        1 => Just(EvictAnswer::NamespaceTerminating),
        1 => Just(EvictAnswer::Refused("no".to_owned())),
    ]
}

proptest! {
    #[test]
    fn i9_any_run_evicts_only_what_it_may_and_ends(
        pods in (1..30_usize).prop_flat_map(|n| (0..n).map(any_pod).collect::<Vec<_>>()),
        answers in proptest::collection::vec(any_answer(), 1..60),
        parallelism in 1..6_usize,
        wait in any::<bool>(),
    ) {
        let jobs = if wait { Jobs::Wait } else { Jobs::Evict };
        let mut drain = Drain::new(Policy { parallelism, jobs, ..policy() }, Duration::ZERO);
        let mut view = pods.clone();
        let mut accepted = BTreeSet::new();
        let mut answers = answers.into_iter();
        let mut ended = false;
        for second in 0..3000 {
            drain.heard(secs(second));
            drain.pods(&view, secs(second));
            let next = drain.next(secs(second));
            prop_assert!(next.evict.len() <= parallelism);
            if matches!(next.state, State::Drained { .. }) {
                ended = true;
                break;
            }
            prop_assert!(matches!(next.state, State::Going { .. }), "{}", describe(&next));
            // Leaving takes one more view: terminating first, then absent.
            view.retain(|pod| !pod.terminating);
            // A Job outlasts `stall`.
            if wait && second == 700 {
                view.retain(|pod| pod.job().is_none());
            }
            for sent in next.evict {
                let pod = view.iter_mut().find(|pod| pod.uid == sent.uid);
                let Some(pod) = pod else { prop_assert!(false, "gone pod evicted"); break };
                prop_assert!(!pod.mirror && pod.daemon_set().is_none());
                prop_assert!(!pod.finished() && !pod.terminating);
                prop_assert!(!wait || pod.job().is_none());
                prop_assert!(!accepted.contains(&pod.uid));
                let answer = answers.next().unwrap_or(EvictAnswer::Accepted);
                if answer == EvictAnswer::Accepted {
                    accepted.insert(pod.uid.clone());
                    pod.terminating = true;
                }
                drain.answer(&sent.uid, answer, secs(second));
            }
        }
        prop_assert!(ended);
    }
}
