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
