//! How long autoscalers are kept from the Node, and that it ends (I3, I4).

use super::table::{about_to_reboot, own, slot};
use super::*;
use crate::record::Guard;

const MINUTES: Duration = Duration::from_secs(15 * 60);

/// Nothing is held or asked for, and the Node carries what keeps autoscalers away.
fn rest(guard: Option<Guard>) -> Facts {
    let mut facts = about_to_reboot();
    facts.record = Record {
        guard,
        ..Record::default()
    };
    facts.observed = Observed::default();
    slot(&mut facts).holder = None;
    let node = own(&mut facts);
    node.labels.clear();
    node.unschedulable = false;
    node.cordon_owners.clear();
    node.annotations = names::GUARDS
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    node.guarded = names::GUARDS.map(|(key, _)| key.to_owned()).into();
    facts
}

fn guard(boot_id: &str, until: Duration) -> Guard {
    let boot = boot(boot_id);
    Guard { boot, until }
}

#[test]
fn i4_what_keeps_autoscalers_away_goes_when_its_time_is_over() {
    let second = Duration::from_secs(1);
    for (what, guard, lasts) in [
        ("it lasts", Some(guard("now", NOW + second)), true),
        ("it is over", Some(guard("now", NOW)), false),
        ("another boot's", Some(guard("before", NOW + second)), false),
        ("no record knows of it", None, false),
    ] {
        for asked in [false, true] {
            let mut facts = rest(guard.clone());
            if asked {
                facts.record.request = Some(request());
                facts.observed.request = Some(request());
            }
            let step = decide(&facts, &policy(), now());
            if lasts {
                assert!(!matches!(step.effect, Effect::Apply { .. }), "{what}");
                assert!(
                    step.wake.is_some_and(|wake| wake <= NOW + second),
                    "{what}: {:?}",
                    step.wake
                );
                assert_eq!(step.record.guard, guard, "{what}");
                continue;
            }
            let Effect::Apply { set, .. } = &step.effect else {
                panic!("{what}: {:?}", step.effect)
            };
            assert_eq!(set.annotations, BTreeMap::new(), "{what}");
            assert_eq!(step.record.guard, None, "{what}");
            let phase = if asked { Phase::Pending } else { Phase::Idle };
            assert_eq!(step.phase, phase, "{what}");
            // A watch may lag.
            own(&mut facts).read = None;
            let step = decide(&facts, &policy(), now());
            assert_eq!(step.effect, Effect::ReadNode, "{what}");
        }
    }
}

/// Of the label for load balancers no record knows once its hold has ended: it goes although autoscalers are kept away still.
#[test]
fn i4_what_load_balancers_look_at_goes_although_autoscalers_are_kept_away() {
    let (key, value) = names::EXCLUDED;
    let lasting = guard("now", NOW + MINUTES);
    for (lasts, theirs) in [(true, false), (false, false), (true, true)] {
        let mut facts = rest(lasts.then(|| lasting.clone()));
        let node = own(&mut facts);
        node.labels.insert(key.to_owned(), value.to_owned());
        if !theirs {
            node.guarded.push(key.to_owned());
        }
        let step = decide(&facts, &policy(), now());
        if theirs {
            assert!(!matches!(step.effect, Effect::Apply { .. }), "not ours");
            continue;
        }
        let Effect::Apply { set, .. } = &step.effect else {
            panic!("{lasts}: {:?}", step.effect)
        };
        assert_eq!(set.labels, BTreeMap::new(), "{lasts}");
        assert_eq!(set.annotations.len(), if lasts { 3 } else { 0 }, "{lasts}");
        assert_eq!(step.record.guard, lasts.then(|| lasting.clone()));
    }
}

/// It comes with the cordon: where it is configured, where it is absent or ours, and where traffic has another node to go to.
#[test]
fn i3_load_balancers_are_told_with_the_cordon() {
    let (key, value) = names::EXCLUDED;
    for (what, wait, nodes, there, ours, told) in [
        ("as configured", 60, 2, None, false, true),
        ("no wait", 0, 2, None, false, false),
        ("no other node", 60, 1, None, false, false),
        ("somebody's", 60, 2, Some(""), false, false),
        ("ours, left over", 60, 2, Some(value), true, true),
    ] {
        let mut facts = gates::about_to_cordon();
        facts.peers.as_mut().unwrap().census = Ok(Census {
            nodes,
            ..Census::default()
        });
        let node = own(&mut facts);
        let there = there.map(|value| (key.to_owned(), value.to_owned()));
        node.labels.extend(there);
        node.guarded.extend(ours.then(|| key.to_owned()));
        let mut policy = policy();
        policy.load_balancer_wait = Duration::from_secs(wait);
        let step = decide(&facts, &policy, now());
        let Effect::Apply { set, .. } = &step.effect else {
            panic!("{what}: {}", step.status)
        };
        assert!(set.unschedulable, "{what}");
        let label = set.labels.get(key).map(String::as_str);
        assert_eq!(label, told.then_some(value), "{what}");
        let text = step.record.annotation().unwrap();
        // What an earlier version cannot read is written only where it says something.
        assert_eq!(text.contains("excluded"), told, "{what}");
        assert_eq!(step.record.hold.unwrap().excluded, told, "{what}");
    }
}

/// I6: that it waits, and since when, is on disk once.
#[test]
fn i6_since_when_the_node_is_cordoned_is_recorded_once() {
    let earlier = NOW.checked_sub(Duration::from_secs(30)).unwrap();
    for known in [None, Some(earlier)] {
        let mut facts = about_to_reboot();
        let hold = facts.record.hold.as_mut().unwrap();
        (hold.stage, hold.asks, hold.asked) = (Stage::Draining, 0, None);
        hold.cordoned = known;
        let second = Duration::from_secs(1);
        facts.drain = Drained::Resting {
            words: "waiting for drain.load_balancer_wait of 1m, 2 pods left".to_owned(),
            waits: "drain.load_balancer_wait of 1m".to_owned(),
            wake: Some(NOW + second),
        };
        facts.cordoned = Some(NOW);
        // However long it takes: that is no fault of the API server.
        facts.in_stage = Duration::from_secs(3600);
        let step = decide(&facts, &policy(), now());
        assert_eq!((step.phase, &step.effect), (Phase::Draining, &Effect::Wait));
        let words =
            "draining: waiting for drain.load_balancer_wait of 1m, 2 pods left; it ends in 2s";
        assert_eq!(
            (step.status.as_str(), step.wake),
            (words, Some(NOW + second))
        );
        assert_eq!(
            step.waits.as_deref(),
            Some("drain.load_balancer_wait of 1m")
        );
        let cordoned = step.record.hold.unwrap().cordoned;
        assert_eq!(cordoned, Some(known.unwrap_or(NOW)));
        // Found by review: where nobody had to leave it was not, and a pod that came late waited for all of it anew.
        facts.drain = Drained::Done { at: NOW };
        let step = decide(&facts, &policy(), now());
        let cordoned = step.record.hold.unwrap().cordoned;
        assert_eq!(cordoned, Some(known.unwrap_or(NOW)));
    }
}

/// It is over and not on the Node: only the record forgets it, and nothing is asked again and again.
#[test]
fn a_time_that_is_over_is_forgotten() {
    let mut facts = rest(Some(guard("now", NOW)));
    let node = own(&mut facts);
    node.annotations.clear();
    node.guarded.clear();
    let step = decide(&facts, &policy(), now());
    assert_eq!((step.effect, step.record.guard), (Effect::Wait, None));
    assert!(step.wake.is_none_or(|wake| wake > NOW));
}

/// A policy that refuses it keeps no reboot waiting.
#[test]
fn what_cannot_be_taken_off_keeps_nothing_waiting() {
    let mut facts = rest(None);
    facts.refused = Some(RefusedApply {
        point: Point::default(),
        why: "denied".to_owned(),
    });
    let step = decide(&facts, &policy(), now());
    assert!(
        !matches!(step.effect, Effect::Apply { .. }),
        "{:?}",
        step.effect
    );
}

/// From the end of the hold on, whether or not it rebooted; who has all given back wants nothing to stay.
#[test]
fn autoscalers_are_kept_away_for_a_while_after_a_hold() {
    for (stage, protect, guarded) in [
        (Stage::Releasing, MINUTES, true),
        (Stage::Undoing(Why::Withdrawn), MINUTES, true),
        (Stage::Undoing(Why::Ordered), MINUTES, false),
        (Stage::Releasing, Duration::ZERO, false),
    ] {
        let mut facts = rest(None);
        let mut hold = about_to_reboot().record.hold.unwrap();
        hold.stage = stage.clone();
        hold.guards = true;
        let point = Point::of(&hold);
        facts.record.hold = Some(hold);
        facts.record.settled = Some(Settled::of(None, &boot("now"), NOW));
        facts.applied = Some(Applied { point, at: NOW });
        let mut policy = policy();
        policy.autoscaler_protect = protect;
        let step = decide(&facts, &policy, now());
        assert_eq!(step.record.hold, None, "{stage:?}");
        let until = step.record.guard.map(|guard| guard.until);
        assert_eq!(
            until,
            guarded.then(|| NOW + MINUTES),
            "{stage:?} {protect:?}"
        );
    }
}
