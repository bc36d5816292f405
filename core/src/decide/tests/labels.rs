//! What is on the own Node after the reboot: when the label is set again and taken off, and the annotation (I1, I4, I6).

use super::leaks::booted;
use super::table::*;
use super::*;
use crate::trigger::{BY_ANNOTATION, Latched};

fn label(facts: &mut Facts) -> Option<&String> {
    own(facts).labels.get(names::SLOT)
}

/// Once: a node that was unlocked while it was not healthy labelled itself again, and blocked everybody.
#[test]
fn i1_after_a_boot_a_node_labels_itself_only_while_the_lease_names_it() {
    let leases: [Change; 4] = [
        ("ours", |_| {}),
        ("free", |facts| slot(facts).holder = None),
        ("another's", |facts| {
            slot(facts).holder = Some("n2".to_owned());
        }),
        ("not readable", |facts| {
            facts.leases.clear();
            facts.denied = Some("denied".to_owned());
        }),
    ];
    let mut labelled = 0;
    for stage in [
        Stage::Claiming,
        Stage::Draining,
        Stage::Rebooting,
        Stage::Uncordoned,
    ] {
        for (what, lease) in leases {
            for (host, pods) in [(true, true), (true, false), (false, false)] {
                let mut facts = booted(stage.clone());
                let node = own(&mut facts);
                node.labels.clear();
                node.annotations.clear();
                lease(&mut facts);
                let health = |good: bool| {
                    if good {
                        Ok(())
                    } else {
                        Err(vec!["kubelet".to_owned()])
                    }
                };
                (facts.host_health, facts.pod_health) = (health(host), health(pods));
                let step = decide(&facts, &policy(), now());
                let Effect::Apply { set, .. } = &step.effect else {
                    continue;
                };
                let labels = set.labels.contains_key(names::SLOT);
                assert!(!labels || what == "ours", "{stage:?} {what}: {set:?}");
                labelled += usize::from(labels);
            }
        }
    }
    assert!(
        labelled >= 4,
        "it labels itself while the slot is its own: {labelled}"
    );
}

#[test]
fn i1_i4_a_node_whose_slot_was_freed_keeps_cordon_and_label_until_it_is_healthy() {
    for unlocked in [false, true] {
        let mut facts = booted(Stage::Rebooting);
        slot(&mut facts).holder = Some("n2".to_owned());
        facts.host_health = Err(vec!["the kubelet is silent".to_owned()]);
        if unlocked {
            own(&mut facts).labels.clear();
        }
        let step = decide(&facts, &policy(), now());
        assert_eq!(step.effect, Effect::Wait, "{}", step.status);
        assert!(step.status.contains("was taken away"), "{}", step.status);
        let kept = step.status.contains("keeps others from it");
        assert_eq!(kept, !unlocked, "{}", step.status);
        facts.host_health = Ok(());
        let step = decide(&facts, &policy(), now());
        let Effect::Apply { set, .. } = &step.effect else {
            panic!("{:?}", step.effect)
        };
        assert!(!set.unschedulable);
        assert_eq!(set.labels.contains_key(names::SLOT), !unlocked);
    }
    // A watch alone does not say that the slot is lost.
    let mut facts = booted(Stage::Rebooting);
    facts.host_health = Err(vec!["the kubelet is silent".to_owned()]);
    (slot(&mut facts).holder, slot(&mut facts).read) = (None, None);
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.effect, Effect::ReadLease("default".to_owned()));
    assert!(label(&mut facts).is_some());
}

/// Once: the annotation was taken away whatever it said by then, so that a new request was lost.
#[test]
fn i6_only_the_annotation_that_was_served_is_removed() {
    let effect = |there: &str, served: Option<&str>| {
        let mut facts = booted(Stage::Releasing);
        let mut request = request();
        request.latched.extend(served.map(|reason| Latched {
            by: BY_ANNOTATION.to_owned(),
            reason: reason.to_owned(),
            at: wall(),
            boot: None,
            ended: false,
            kind: Kind::Reboot,
        }));
        facts.record.settled = Some(Settled::of(Some(&request), &boot("now"), NOW));
        facts.applied = Some(Applied {
            point: Point::of(facts.record.hold.as_ref().unwrap()),
            at: NOW,
        });
        facts.waiters = Some(Waiters::listed(NOW, Vec::new()));
        let node = own(&mut facts);
        node.labels.clear();
        node.annotations = [(names::REBOOT.to_owned(), there.to_owned())].into();
        node.unschedulable = false;
        decide(&facts, &policy(), now()).effect
    };
    let long = "x".repeat(5_000);
    assert!(matches!(
        effect("firmware", Some("firmware")),
        Effect::Mend(_)
    ));
    let cut = trigger::wish(&long);
    assert!(matches!(effect(&long, Some(&cut)), Effect::Mend(_)));
    assert!(matches!(
        effect("once more", Some("firmware")),
        Effect::GiveUp(_)
    ));
    assert!(matches!(effect("firmware", None), Effect::GiveUp(_)));
}

/// Found by reading: the watch lagged behind an unlock, and the label that it had taken off was set again.
#[test]
fn i1_a_label_that_is_not_there_is_set_only_after_a_consistent_read_of_the_lease() {
    for stage in [Stage::Rebooting, Stage::Uncordoned] {
        let mut facts = booted(stage);
        own(&mut facts).labels.clear();
        own(&mut facts).annotations.clear();
        facts.host_health = Ok(());
        facts.pod_health = Err(vec!["net".to_owned()]);
        let long_ago = NOW.checked_sub(Duration::from_secs(3_600));
        for read in [None, long_ago] {
            slot(&mut facts).read = read;
            let step = decide(&facts, &policy(), now());
            assert_eq!(step.effect, Effect::ReadLease("default".to_owned()));
            assert_eq!(step.record, facts.record, "nothing is decided yet");
        }
        slot(&mut facts).read = Some(NOW);
        let step = decide(&facts, &policy(), now());
        assert!(label(&mut facts).is_none(), "it was taken off");
        assert!(
            matches!(&step.effect, Effect::Apply { set, .. } if set.labels.contains_key(names::SLOT)),
            "{step:?}"
        );
    }
}

/// A healthy host would ask for the Lease for ever, and stay cordoned.
#[test]
fn i3_a_node_without_its_label_is_uncordoned_while_leases_are_refused() {
    let mut facts = booted(Stage::Rebooting);
    own(&mut facts).labels.clear();
    facts.host_health = Ok(());
    slot(&mut facts).read = NOW.checked_sub(Duration::from_secs(3_600));
    facts.denied = Some("denied".to_owned());
    let step = decide(&facts, &policy(), now());
    assert!(
        matches!(&step.effect, Effect::Apply { set, .. } if !set.unschedulable && set.labels.is_empty()),
        "{step:?}"
    );
}

/// Found by reading: a Node that was registered anew was marked although the Lease could not be read any more.
#[test]
fn i1_a_node_registered_anew_is_not_marked_while_leases_are_refused() {
    let mut facts = booted(Stage::Rebooting);
    let node = own(&mut facts);
    node.uid = "another".to_owned();
    node.labels.clear();
    node.annotations.clear();
    slot(&mut facts).read = NOW.checked_sub(Duration::from_secs(3_600));
    facts.denied = Some("denied".to_owned());
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.effect, Effect::Wait, "{}", step.status);
}

/// Found by reading: whoever sets the annotation again at once, as a tool that owns the Node's annotations does, kept the
/// slot as long as it did.
#[test]
fn i4_an_annotation_that_comes_back_keeps_no_slot() {
    let mut facts = booted(Stage::Releasing);
    let mut request = request();
    request.latched.push(Latched {
        by: BY_ANNOTATION.to_owned(),
        reason: "firmware".to_owned(),
        at: wall(),
        boot: None,
        ended: false,
        kind: Kind::Reboot,
    });
    facts.record.settled = Some(Settled::of(Some(&request), &boot("now"), NOW));
    let point = Point::of(facts.record.hold.as_ref().unwrap());
    facts.applied = Some(Applied { point, at: NOW });
    facts.waiters = Some(Waiters::listed(NOW, Vec::new()));
    let node = own(&mut facts);
    node.labels.clear();
    node.unschedulable = false;
    node.annotations = [(names::REBOOT.to_owned(), "firmware".to_owned())].into();
    let Effect::Mend(left) = decide(&facts, &policy(), now()).effect else {
        panic!("it is there")
    };
    let node = own(&mut facts).clone();
    assert_eq!(
        (&left.uid, &left.resource_version),
        (&node.uid, &node.resource_version)
    );
    facts.mended = vec![Mended {
        point,
        at: NOW,
        left,
    }];
    own(&mut facts).resource_version = "77".to_owned();
    let step = decide(&facts, &policy(), now());
    assert!(matches!(step.effect, Effect::GiveUp(_)), "{step:?}");
    // What another removal took off says nothing of this one.
    facts.mended[0].left.annotations.clear();
    let step = decide(&facts, &policy(), now());
    assert!(matches!(step.effect, Effect::Mend(_)), "{step:?}");
}
