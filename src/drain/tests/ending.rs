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
