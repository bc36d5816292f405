//! Tables of the time after a boot: what is asked of the API server, what is set on the Node, and what is written down
//! with the proof (I1, I3, I4, I6, I10). cargo-mutants found that only the simulator showed this.

use super::leaks::booted;
use super::table::{own, place, slot};
use super::*;
use crate::booted::Booted;
use crate::reason;
use crate::trigger::Builtin;

/// The host is healthy and uncordoned, its pods are not back yet, and the Node and the Lease show the hold.
fn uncordoned() -> Facts {
    let mut facts = booted(Stage::Uncordoned);
    let node = own(&mut facts);
    node.unschedulable = false;
    node.cordon_owners.clear();
    facts.host_health = Ok(());
    facts
}

fn with(change: impl Fn(&mut Facts)) -> Step {
    let mut facts = uncordoned();
    change(&mut facts);
    decide(&facts, &policy(), now())
}

/// What comes next, in a word; an apply with the label, or without.
fn next(step: &Step) -> &'static str {
    match &step.effect {
        Effect::Wait if stage(step) == Some(Stage::Releasing) => "proved",
        Effect::Wait => "waits",
        Effect::ReadNode => "reads the Node",
        Effect::ReadLease(_) => "reads the Lease",
        Effect::Mend(_) => "mends",
        Effect::Apply { set, .. } if set.unschedulable => "cordons",
        Effect::Apply { set, .. } if set.labels.contains_key(names::SLOT) => "labels",
        Effect::Apply { .. } => "applies",
        other => panic!("{other:?}"),
    }
}

fn stage(step: &Step) -> Option<Stage> {
    step.record.hold.as_ref().map(|hold| hold.stage.clone())
}

fn bare(facts: &mut Facts) {
    own(facts).annotations.clear();
}

fn unlabelled(facts: &mut Facts) {
    own(facts).labels.clear();
}

fn lost(facts: &mut Facts) {
    slot(facts).holder = Some("n2".to_owned());
}

fn applied(facts: &mut Facts) {
    let point = Point::of(facts.record.hold.as_ref().unwrap());
    facts.applied = Some(Applied { point, at: NOW });
}

fn watched(facts: &mut Facts) {
    slot(facts).read = None;
}

/// The Node carries the record of the hold, changed.
fn records(facts: &mut Facts, change: fn(&mut Hold)) {
    let mut record = facts.record.clone();
    change(record.hold.as_mut().unwrap());
    let text = record.annotation().unwrap();
    let annotations = &mut own(facts).annotations;
    annotations.insert(names::STATE.to_owned(), text);
}

/// What is changed, in words and by these; what comes next.
type Row = (&'static str, &'static [fn(&mut Facts)], &'static str);

/// A label that is there is not taken off before the node is proved, and one that is not there is set only on the word of
/// a Lease that was read after the Node.
#[test]
fn i1_i3_what_is_asked_and_set_after_a_boot() {
    let rows: [Row; 22] = [
        ("all is there", &[], "waits"),
        ("no Node", &[|f| f.node = Seen::Unknown], "reads the Node"),
        ("no record", &[bare], "labels"),
        (
            "no record, by a watch",
            &[bare, |f| own(f).read = None],
            "reads the Node",
        ),
        ("no record, but an answer", &[bare, applied], "waits"),
        (
            "the record of an earlier step",
            &[|f| records(f, |hold| hold.step = 3)],
            "labels",
        ),
        (
            "the record of another hold",
            &[|f| records(f, |hold| hold.take.uid = "another".to_owned())],
            "labels",
        ),
        // What is there needs nobody's word.
        (
            "no record, and a Lease by a watch",
            &[bare, watched],
            "labels",
        ),
        ("no label", &[unlabelled], "labels"),
        ("no label, but an answer", &[unlabelled, applied], "labels"),
        (
            "no label, and a Lease by a watch",
            &[unlabelled, watched],
            "reads the Lease",
        ),
        (
            "no label, and a Lease from before",
            &[unlabelled, |f| {
                slot(f).read = NOW.checked_sub(Duration::from_millis(1));
            }],
            "reads the Lease",
        ),
        (
            "the label of another slot",
            &[|f| {
                let label = (names::SLOT.to_owned(), "other".to_owned());
                own(f).labels.extend([label]);
            }],
            "labels",
        ),
        ("a slot that was taken away", &[lost], "waits"),
        (
            "a slot that may have been taken away",
            &[lost, watched],
            "reads the Lease",
        ),
        (
            "the same, where Leases cannot be read",
            &[lost, watched, |f| f.denied = Some("denied".to_owned())],
            "waits",
        ),
        (
            "the same, where Leases cannot be listed",
            &[lost, watched, |f| f.listed = Err("silent".to_owned())],
            "waits",
        ),
        ("no label, and another's slot", &[unlabelled, lost], "waits"),
        (
            "neither, and another's slot",
            &[unlabelled, bare, lost],
            "applies",
        ),
        (
            "no label, and Leases that cannot be read",
            &[unlabelled, |f| f.denied = Some("denied".to_owned())],
            "waits",
        ),
        // A cordon that nobody owns was the hold's own, unless another was there before.
        (
            "an unowned cordon",
            &[applied, |f| own(f).unschedulable = true],
            "mends",
        ),
        (
            "an unowned cordon that was there",
            &[
                |f| f.record.hold.as_mut().unwrap().foreign_cordon = true,
                applied,
                |f| own(f).unschedulable = true,
            ],
            "waits",
        ),
    ];
    for (what, changes, then) in rows {
        let step = with(|facts| changes.iter().for_each(|change| change(facts)));
        assert_eq!(step.phase, Phase::Verifying, "{what}");
        assert_eq!(next(&step), then, "{what}: {}", step.status);
        assert_eq!(stage(&step), Some(Stage::Uncordoned), "{what}");
    }
}

/// Healthy, it waits only for what it can set itself; and a cordon of its own keeps it from waiting for pods.
#[test]
fn i3_i4_what_is_set_before_the_node_is_proved() {
    let rows: [Row; 9] = [
        ("all is there", &[], "proved"),
        ("no record", &[bare], "labels"),
        ("no record, but an answer", &[bare, applied], "proved"),
        ("no label", &[unlabelled], "labels"),
        // Whoever keeps the label off keeps a node that is proved from nothing.
        ("no label, but an answer", &[unlabelled, applied], "proved"),
        ("a slot that was taken away", &[lost], "proved"),
        (
            "a slot of which nothing is known",
            &[|f| f.leases.clear()],
            "proved",
        ),
        (
            "a cordon of its own, and a record of before",
            &[|f| {
                records(f, |hold| (hold.step, hold.stage) = (3, Stage::Rebooting));
                let node = own(f);
                node.unschedulable = true;
                node.cordon_owners = vec![names::NODE_MANAGER.to_owned()];
            }],
            "labels",
        ),
        (
            "the same on a host that is not healthy",
            &[|f| {
                f.host_health = Err(vec!["not yet".to_owned()]);
                let node = own(f);
                node.unschedulable = true;
                node.cordon_owners = vec![names::NODE_MANAGER.to_owned()];
            }],
            "waits",
        ),
    ];
    for (what, changes, then) in rows {
        let step = with(|facts| {
            facts.pod_health = Ok(());
            for change in changes {
                change(facts);
            }
        });
        assert_eq!(next(&step), then, "{what}: {}", step.status);
        // What is set once more is the same step of the hold.
        let counts = if then == "proved" { 5 } else { 4 };
        assert_eq!(step.record.hold.unwrap().step, counts, "{what}");
    }
    // Whoever uncordoned the node beside it: that it may take pods is written down all the same.
    let mut facts = uncordoned();
    facts.record.hold.as_mut().unwrap().stage = Stage::Rebooting;
    let step = decide(&facts, &policy(), now());
    assert_eq!(stage(&step), Some(Stage::Uncordoned));
    assert_eq!(next(&step), "labels");
}

#[test]
fn what_is_said_of_a_slot_that_was_taken_away_before_the_proof() {
    for (labelled, words) in [
        (true, "the label of this node keeps others from it"),
        (false, "what was cordoned stays so"),
    ] {
        let step = with(|facts| {
            lost(facts);
            if !labelled {
                unlabelled(facts);
            }
            facts.pod_health = Err(vec!["pods".to_owned()]);
        });
        let said = format!("verifying: pods; slot default was taken away, {words}");
        assert!(step.status.starts_with(&said), "{}", step.status);
    }
}

/// The power went while the slot was given up: proved in the boot before, and to be proved in this one.
#[test]
fn i4_i6_a_give_up_in_another_boot_rests_on_a_proof_of_that_boot() {
    let settled = Settled {
        boot: boot("between"),
        proved_boot: Duration::from_secs(5),
        reasons: BTreeMap::new(),
        annotation: Some("please".to_owned()),
        missed: None,
    };
    for healthy in [false, true] {
        let mut facts = booted(Stage::Releasing);
        facts.record.settled = Some(settled.clone());
        facts.observed.settled = Some(settled.clone());
        if healthy {
            (facts.host_health, facts.pod_health) = (Ok(()), Ok(()));
        }
        let step = decide(&facts, &policy(), now());
        let proved = Settled {
            boot: boot("now"),
            proved_boot: NOW,
            ..settled.clone()
        };
        let (phase, then) = if healthy {
            (Phase::Releasing, proved)
        } else {
            (Phase::Verifying, settled.clone())
        };
        assert_eq!((step.phase, &step.effect), (phase, &Effect::Wait));
        assert_eq!(step.record.settled, Some(then));
        assert_eq!(step.record.hold, facts.record.hold);
    }
}

/// What the node waits for, and what failed before, ends with the proof; an annotation counts as served only where what was
/// asked for is lost.
#[test]
fn i10_what_is_written_down_with_the_proof() {
    for (asked, same_boot, serves) in [
        (true, false, None),
        (false, false, Some("please")),
        (false, true, None),
    ] {
        let mut facts = uncordoned();
        facts.pod_health = Ok(());
        facts.record.waiting = Some(place());
        facts.record.backoff = Some(Backoff {
            failures: 1,
            boot: boot("before"),
            until: NOW,
            why: "failed".to_owned(),
        });
        if !asked {
            (facts.record.request, facts.observed.request) = (None, None);
        }
        if same_boot {
            // Found on a Lease, and taken since this boot began.
            facts.record.hold.as_mut().unwrap().boot = Boot::unknown();
        }
        let annotations = &mut own(&mut facts).annotations;
        annotations.insert(names::REBOOT.to_owned(), "please".to_owned());
        records(&mut facts, |_| {});
        let step = decide(&facts, &policy(), now());
        assert_eq!(next(&step), "proved", "{}", step.status);
        let record = step.record;
        assert_eq!(
            (record.request, record.waiting, record.backoff),
            (None, None, None)
        );
        assert_eq!(record.history.len(), usize::from(!same_boot));
        let settled = record.settled.unwrap();
        assert_eq!((settled.boot, settled.proved_boot), (boot("now"), NOW));
        assert_eq!(settled.annotation.as_deref(), serves);
    }
}

/// The built-in check had named a newer kernel; `came` is what runs now.
fn for_a_kernel(came: &str) -> Step {
    let booted = |kernel: &str| Booted {
        kernel: kernel.to_owned(),
        ..Booted::default()
    };
    with(|facts| {
        facts.pod_health = Ok(());
        let reason = &mut facts.record.request.as_mut().unwrap().reasons[0];
        reason.trigger = Builtin::Kernel.trigger();
        reason.pkgs = ["6.1.0-29-amd64".to_owned()].into();
        facts.record.hold.as_mut().unwrap().before.booted = Some(booted("6.1.0-28-amd64"));
        facts.before.booted = Some(booted(came));
    })
}

/// The node is given back, as it is healthy; the attempt failed, and what it was for is not tried again.
#[test]
fn i10_a_kernel_that_did_not_come_up_is_a_failed_attempt() {
    let step = for_a_kernel("6.1.0-28-amd64");
    let words = "kernel 6.1.0-29-amd64 was to come up, and 6.1.0-28-amd64 came again";
    assert_eq!(step.phase, Phase::Releasing);
    assert!(step.status.contains(words), "{}", step.status);
    let settled = step.record.settled.as_ref().unwrap();
    assert_eq!(settled.missed.as_deref(), Some(words));
    let backoff = step.record.backoff.as_ref().unwrap();
    assert_eq!(backoff.failures, 1);
    assert!(backoff.until > NOW && backoff.why.contains(words));
    let [past] = step.record.history.as_slice() else {
        panic!("it counts for max_per_day: {:?}", step.record.history);
    };
    assert_eq!(past.rolled_back.as_deref(), Some(words));
    // Told as long as this boot lasts.
    for (boot_id, told) in [
        ("now", reason::Reason::RolledBack),
        ("later", reason::Reason::Idle),
    ] {
        let mut facts = booted(Stage::Releasing);
        facts.record = Record {
            hold: None,
            ..step.record.clone()
        };
        facts.leases.clear();
        unlabelled(&mut facts);
        own(&mut facts).annotations.clear();
        own(&mut facts).unschedulable = false;
        facts.boot = boot(boot_id);
        facts.observed = Observed {
            settled: step.record.settled.clone(),
            ..Observed::default()
        };
        let idle = decide(&facts, &policy(), now());
        assert_eq!(
            (idle.phase, idle.reason),
            (Phase::Idle, told),
            "{}",
            idle.status
        );
        assert_eq!(
            idle.status.contains(words),
            told == reason::Reason::RolledBack
        );
    }
}

#[test]
fn a_kernel_that_came_up_is_no_failed_attempt() {
    let step = for_a_kernel("6.1.0-29-amd64");
    assert_eq!(step.phase, Phase::Releasing);
    assert_eq!(step.record.backoff, None);
    assert_eq!(step.record.settled.unwrap().missed, None);
}
