//! The wait between the cordon and the first eviction (I6, I7, I9).

use super::*;

fn waits(load_balancer: u64) -> Policy {
    both(load_balancer, 0)
}

fn both(load_balancer: u64, cordon_only: u64) -> Policy {
    Policy {
        cordon_only: secs(cordon_only),
        load_balancer_wait: secs(load_balancer),
        ..policy()
    }
}

/// At this second: whom it asks; none: it waits.
fn at<'a>(drain: &mut Drain, pods: &'a [Pod], second: u64) -> Option<Vec<&'a str>> {
    drain.rest(secs(0), true, secs(second));
    drain.heard(secs(second));
    drain.pods(pods, secs(second));
    let next = drain.next(secs(second));
    if let State::Resting { left, .. } = &next.state {
        assert!(next.evict.is_empty() && !next.confirm, "{next:?}");
        assert_eq!(*left, pods.len());
        return None;
    }
    let asked = |pod: &&Pod| next.evict.iter().any(|one| one.uid == pod.uid);
    Some(pods.iter().filter(asked).map(|pod| &*pod.uid).collect())
}

#[test]
fn i9_nobody_is_asked_to_leave_before_load_balancers_had_their_time() {
    let pods = [pod("a"), pod("b")];
    let mut drain = Drain::new(waits(60), secs(5));
    assert_eq!(at(&mut drain, &pods, 0), None);
    let next = drain.next(secs(0));
    assert_eq!(next.wake, Some(secs(60)));
    let words = "waiting for drain.load_balancer_wait of 1m, 2 pods left";
    assert_eq!(describe(&next), words);
    assert_eq!(at(&mut drain, &pods, 59), None);
    assert_eq!(drain.spent(), secs(5), "it is no part of the drain");
    assert_eq!(at(&mut drain, &pods, 60), Some(vec!["a", "b"]));
    assert_eq!(drain.spent(), secs(5));
    assert_eq!(at(&mut drain, &pods, 70), Some(vec![]));
    assert_eq!(drain.spent(), secs(15), "from the end of the wait on");
}

/// Only the wait's end wakes it, and a wait may be longer than the drain.
#[test]
fn i7_a_long_wait_ends_no_drain() {
    let pods = [pod("a")];
    let mut drain = Drain::new(waits(7200), secs(0));
    assert_eq!(at(&mut drain, &pods, 0), None);
    assert_eq!(at(&mut drain, &pods, 7200), Some(vec!["a"]));
    assert_eq!(drain.spent(), secs(0));
    assert_eq!(at(&mut drain, &pods, 7200 + 599), Some(vec![]));
    drain.heard(secs(7200 + 600));
    let state = drain.next(secs(7200 + 600)).state;
    assert!(matches!(state, State::Failed { .. }), "{state:?}");
}

/// Load balancers send traffic to a node without pods as well.
#[test]
fn a_node_without_pods_waits_for_load_balancers() {
    let mut drain = Drain::new(waits(60), secs(0));
    assert_eq!(at(&mut drain, &[], 59), None);
    assert_eq!(at(&mut drain, &[], 60), Some(vec![]));
    let state = drain.next(secs(60)).state;
    assert!(matches!(state, State::Drained { .. }), "{state:?}");
}

#[test]
fn nothing_is_waited_for_without_the_label() {
    let pods = [pod("a")];
    let mut drain = Drain::new(waits(60), secs(0));
    drain.rest(secs(0), false, secs(0));
    drain.pods(&pods, secs(0));
    assert_eq!(uids(&drain.next(secs(0))), ["a"]);
}

/// They begin together, and the longer one counts and is named.
#[test]
fn i9_of_two_waits_the_longer_one_counts() {
    let pods = [pod("a")];
    for (balancer, cordon, end, key) in [
        (60, 300, 300, "drain.cordon_only of 5m"),
        (300, 60, 300, "drain.load_balancer_wait of 5m"),
        (0, 300, 300, "drain.cordon_only of 5m"),
    ] {
        let mut drain = Drain::new(both(balancer, cordon), secs(0));
        assert_eq!(at(&mut drain, &pods, 0), None);
        let next = drain.next(secs(0));
        assert_eq!(next.wake, Some(secs(end)));
        assert_eq!(describe(&next), format!("waiting for {key}, 1 pod left"));
        assert_eq!(at(&mut drain, &pods, end - 1), None, "{key}");
        assert_eq!(at(&mut drain, &pods, end), Some(vec!["a"]), "{key}");
        assert_eq!(drain.spent(), secs(0));
    }
}

/// Pods that end by themselves, such as those of Jobs: a node that is only cordoned waits for nobody else.
#[test]
fn a_node_that_is_only_cordoned_waits_while_a_pod_must_leave() {
    let mut daemon = pod("daemon");
    owned(&mut daemon, "DaemonSet", "set");
    let pods = [pod("a"), daemon.clone()];
    let mut drain = Drain::new(both(0, 300), secs(0));
    drain.rest(secs(0), false, secs(0));
    drain.pods(&pods, secs(0));
    let state = drain.next(secs(0)).state;
    assert!(matches!(state, State::Resting { left: 1, .. }), "{state:?}");
    drain.rest(secs(0), false, secs(100));
    drain.pods(std::slice::from_ref(&daemon), secs(100));
    let state = drain.next(secs(100)).state;
    assert!(matches!(state, State::Drained { .. }), "{state:?}");
    // One that comes late has what is left of the time.
    drain.rest(secs(0), false, secs(110));
    drain.pods(&pods, secs(110));
    let next = drain.next(secs(110));
    assert!(next.evict.is_empty() && next.wake == Some(secs(300)));
    drain.rest(secs(0), false, secs(300));
    drain.pods(&pods, secs(300));
    assert_eq!(uids(&drain.next(secs(300))), ["a"]);
    // Nobody knows whether one is left (I8).
    let mut blind = Drain::new(both(0, 300), secs(0));
    blind.rest(secs(0), false, secs(0));
    let state = blind.next(secs(0)).state;
    assert!(matches!(state, State::Resting { .. }), "{state:?}");
}

/// I8: a wait that ends while the pods cannot be seen evicts nobody until they are.
#[test]
fn i8_a_wait_that_ends_blind_evicts_nobody() {
    let pods = [pod("a")];
    let mut drain = Drain::new(waits(60), secs(0));
    assert_eq!(at(&mut drain, &pods, 0), None);
    drain.rest(secs(0), true, secs(70));
    drain.blind(true, secs(70));
    let next = drain.next(secs(70));
    assert!(next.evict.is_empty() && matches!(next.state, State::Going { .. }));
    drain.rest(secs(0), true, secs(500));
    drain.heard(secs(500));
    drain.blind(false, secs(500));
    drain.pods(&pods, secs(500));
    assert_eq!(uids(&drain.next(secs(500))), ["a"]);
    assert_eq!(drain.spent(), secs(0));
}
