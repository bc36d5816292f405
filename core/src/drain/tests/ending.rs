//! How pods end on a real kubelet: Succeeded when the containers have stopped, then their volumes are unmounted,
//! then the object goes (I2).

use super::*;

/// Finished and to be deleted.
fn ended(uid: &str) -> Pod {
    let mut pod = pod(uid);
    pod.terminating = true;
    pod.phase = PodPhase::Succeeded;
    pod
}

/// The same when the kubelet has cleaned up and a finalizer keeps the object.
fn held(uid: &str) -> Pod {
    let mut pod = ended(uid);
    pod.grace_seconds = 0;
    pod.finalizers = vec!["a.b/c".to_owned()];
    pod
}

fn going(drain: &mut Drain, now: u64) -> bool {
    drain.heard(secs(now));
    matches!(drain.next(secs(now)).state, State::Going { .. })
}

#[test]
fn i2_a_finished_pod_is_waited_for_until_the_kubelet_has_removed_it() {
    let mut drain = drain(&[pod("db")]);
    assert_eq!(uids(&drain.next(secs(0))), ["db"]);
    drain.answer("db", EvictAnswer::Accepted, secs(0));
    // The containers have stopped after 9 s; unmounting takes 15 s more than the grace.
    drain.pods(&[ended("db")], secs(9));
    for second in 9..45 {
        assert!(going(&mut drain, second), "second {second}");
        assert!(!drain.clean(&[ended("db")]));
        assert_eq!(drain.next(secs(second)).held_by_finalizer, []);
    }
    drain.pods(&[], secs(45));
    assert!(drain.clean(&[]));
    assert!(matches!(drain.next(secs(45)).state, State::Drained { .. }));
}

#[test]
fn i2_a_pod_that_ended_before_the_drain_began_is_waited_for_as_well() {
    let mut db = ended("db");
    db.volumes = vec!["shop/db".to_owned()];
    let mut drain = drain(&[db]);
    assert!(drain.next(secs(0)).evict.is_empty() && going(&mut drain, 5));
    drain.pods(&[], secs(6));
    // Its volume, too.
    drain.volumes(Some(&["csi^db".to_owned()]));
    let state = drain.next(secs(6)).state;
    assert!(matches!(state, State::Unmounting { .. }), "{state:?}");
    assert_eq!(seen_before_cordon(&[ended("db")], &policy()), []);
}

#[test]
fn a_pod_that_the_kubelet_never_removes_is_named_and_ends_the_drain() {
    let mut drain = drain(&[ended("db")]);
    assert_eq!(describe(&drain.next(secs(0))), "1 pod left");
    drain.heard(secs(60));
    let words = "has finished, but the kubelet has not removed it; are its volumes unmounted?";
    let line = format!("1 pod left, 1 blocked: pod shop/db {words}");
    assert_eq!(describe(&drain.next(secs(60))), line);
    drain.heard(secs(600));
    let State::Failed { blocked, .. } = drain.next(secs(600)).state else {
        panic!("still going")
    };
    assert_eq!(blocked[0].why, words);
}

#[test]
fn a_real_finalizer_is_named_and_waited_for_half_a_minute() {
    let mut drain = drain(&[ended("db")]);
    drain.pods(&[held("db")], secs(10));
    let next = drain.next(secs(10));
    let line = "1 pod left; 1 pod held by a finalizer: pod shop/db (a.b/c)";
    assert_eq!(
        (describe(&next).as_str(), next.wake),
        (line, Some(secs(30)))
    );
    // Since it was first seen to have finished.
    assert!(going(&mut drain, 29));
    drain.heard(secs(30));
    let next = drain.next(secs(30));
    assert!(matches!(next.state, State::Drained { .. }));
    let line = "drained; 1 pod held by a finalizer: pod shop/db (a.b/c)";
    assert_eq!(describe(&next), line);
    // The last list shows it still, and so does every later view.
    assert!(drain.clean(&[held("db")]));
    drain.pods(&[held("db")], secs(40));
    assert!(matches!(drain.next(secs(40)).state, State::Drained { .. }));
    assert!(!drain.clean(&[held("db"), pod("late")]));
}

/// While the kubelet has not cleaned up, its grace is not 0: a finalizer does not hurry it.
#[test]
fn i2_beside_a_finalizer_the_kubelet_has_the_pods_grace() {
    let mut both = held("db");
    both.grace_seconds = 300;
    let mut drain = drain(&[both]);
    assert!(going(&mut drain, 329));
    assert!(!going(&mut drain, 330));
}

#[test]
fn a_finalizer_that_outlasts_the_timeout_has_its_time() {
    let mut drain = Drain::new(policy(), secs(1790));
    drain.pods(&[held("db")], secs(0));
    assert!(going(&mut drain, 29));
    assert!(matches!(drain.next(secs(30)).state, State::Drained { .. }));
}

/// What the kubelet makes of one pod: seconds from the eviction to the end of its containers, and from there to the
/// end of its cleaning up (none: never); whether a finalizer keeps the object.
type Life = (u64, Option<u64>, bool);

/// When all evictions are seen.
const SEEN: u64 = 1;

/// When the drain has done with such a pod; none: never.
fn done(&(ends, unmounts, finalizer): &Life) -> Option<u64> {
    let finished = SEEN + ends;
    let cleaned = unmounts.map(|unmounts| finished + unmounts);
    if !finalizer {
        return cleaned;
    }
    let latest = finished.max(SEEN + 30) + 30;
    Some(cleaned.map_or(latest, |cleaned| cleaned.clamp(finished + 30, latest)))
}

fn seen(uid: &str, life: &Life, second: u64) -> Option<Pod> {
    let (ends, unmounts, finalizer) = *life;
    let mut pod = pod(uid);
    pod.terminating = second >= SEEN;
    if finalizer {
        pod.finalizers = vec!["a.b/c".to_owned()];
    }
    if second >= SEEN + ends {
        pod.phase = PodPhase::Succeeded;
    }
    if unmounts.is_some_and(|unmounts| second >= SEEN + ends + unmounts) {
        pod.grace_seconds = 0;
        return Some(pod).filter(|_| finalizer);
    }
    Some(pod)
}

/// Lives near the bounds: containers that use up the grace of 30 s, kubelets that outlast it, finalizers.
fn lives() -> impl Strategy<Value = Vec<Life>> {
    let ends = prop_oneof![0..3_u64, 28..31_u64];
    let unmounts = prop_oneof![
        4 => (0..3_u64).prop_map(Some),
        4 => (25..65_u64).prop_map(Some),
        1 => Just(None),
    ];
    prop::collection::vec((ends, unmounts, prop::bool::weighted(0.3)), 1..5)
}

/// Against a kubelet: the drain ends in the very second in which all has been cleaned up, and a pod that never is
/// ends it by `stall`, named. Each kind of rare life is met.
#[test]
fn i2_a_drain_ends_when_the_kubelet_has_cleaned_up_and_not_before() {
    use proptest::test_runner::{Config, TestRunner};
    use std::cell::RefCell;

    let met: RefCell<BTreeMap<&str, u32>> = RefCell::default();
    let hit =
        |what, met_now: bool| *met.borrow_mut().entry(what).or_default() += u32::from(met_now);
    let run = |lives: Vec<Life>| {
        let uids: Vec<String> = (0..lives.len()).map(|n| format!("p{n}")).collect();
        let view = |second| -> Vec<Pod> {
            let both = uids.iter().zip(&lives);
            both.filter_map(|(uid, life)| seen(uid, life, second))
                .collect()
        };
        let ends: Option<Vec<u64>> = lives.iter().map(done).collect();
        let end = ends.and_then(|ends| ends.into_iter().max());
        hit("all is cleaned up", end.is_some());
        hit("never", end.is_none());
        hit(
            "outlasts the grace",
            end.is_some_and(|end| end > SEEN + 30 + 30),
        );
        hit(
            "a finalizer is let go",
            lives.iter().any(|life| life.2) && end.is_some(),
        );
        let hasty = |life: &Life| life.2 && life.1.is_none();
        hit(
            "a finalizer beside a broken kubelet",
            lives.iter().any(hasty),
        );
        let mut drain = drain(&view(0));
        for pod in drain.next(secs(0)).evict {
            drain.answer(&pod.uid, EvictAnswer::Accepted, secs(0));
        }
        for second in SEEN..1000 {
            drain.heard(secs(second));
            drain.pods(&view(second), secs(second));
            let next = drain.next(secs(second));
            prop_assert!(next.evict.is_empty());
            match next.state {
                State::Going { .. } => prop_assert!(end.is_none_or(|end| second < end), "{second}"),
                State::Drained { .. } => {
                    prop_assert_eq!(Some(second), end);
                    prop_assert!(drain.clean(&view(second)));
                    return Ok(());
                }
                State::Failed { blocked, .. } => {
                    prop_assert_eq!(end, None);
                    prop_assert!(
                        blocked
                            .iter()
                            .all(|one| one.why.contains("the kubelet has not"))
                    );
                    return Ok(());
                }
                State::Resting { .. } => prop_assert!(false, "there is no wait"),
                State::Unmounting { .. } => prop_assert!(false, "there are no volumes"),
            }
        }
        prop_assert!(false, "it never ends");
        Ok(())
    };
    let config = Config {
        source_file: Some(file!()),
        ..Config::with_cases(400)
    };
    TestRunner::new(config).run(&lives(), run).unwrap();
    let met = met.into_inner();
    assert!(
        met.len() == 5 && met.values().all(|hits| *hits >= 15),
        "{met:?}"
    );
}
