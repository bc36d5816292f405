//! A soft-reboot: what logind is asked for, what is on record before, and what is settled after it (I6, I8, I10).

use super::leaks::booted;
use super::table::{about_to_reboot, own};
use super::*;
use crate::kind::Kind;
use crate::trigger::{BY_PERSON, BY_SCHEDULE};

/// This request, but for this kind of reboot.
fn of(kind: Kind) -> Request {
    let mut request = request();
    for reason in &mut request.reasons {
        reason.kind = kind;
    }
    for wish in &mut request.latched {
        wish.kind = kind;
    }
    request
}

fn set(facts: &mut Facts, request: &Request) {
    facts.record.request = Some(request.clone());
    facts.observed.request = Some(request.clone());
}

/// The fence stands, for a reboot of this kind.
fn armed(kind: Kind) -> Facts {
    let mut facts = about_to_reboot();
    set(&mut facts, &of(kind));
    facts.record.hold.as_mut().unwrap().kind = kind;
    facts
}

/// I6: after a crash between the record and the call the same kind goes on.
#[test]
fn i6_the_kind_is_on_record_before_logind_is_asked() {
    for (asked, wanted) in [
        (Kind::Reboot, Kind::SoftReboot),
        (Kind::SoftReboot, Kind::Reboot),
    ] {
        let facts = armed(wanted);
        let step = decide(&facts, &policy(), now());
        assert_eq!(step.effect, Effect::AskReboot);
        assert_eq!(step.record.hold.unwrap().kind, wanted);
        // What asks has changed between the fence and the call.
        let mut facts = armed(wanted);
        facts.record.hold.as_mut().unwrap().kind = asked;
        let step = decide(&facts, &policy(), now());
        assert!(matches!(step.effect, Effect::Fence(_)), "{step:?}");
        assert_eq!(step.record.hold.unwrap().kind, wanted);
    }
    let step = decide(&armed(Kind::SoftReboot), &policy(), now());
    assert!(step.status.contains("soft-reboot"), "{}", step.status);
}

/// What the reboot is for stands on record when logind was asked first; what came since may want more.
#[test]
fn i8_a_full_reason_that_comes_late_gets_a_full_reboot() {
    for (record, observed) in [
        (Kind::SoftReboot, Kind::Reboot),
        (Kind::Reboot, Kind::SoftReboot),
    ] {
        let mut facts = armed(Kind::SoftReboot);
        facts.record.request = Some(of(record));
        facts.observed.request = Some(of(observed));
        let step = decide(&facts, &policy(), now());
        assert!(matches!(step.effect, Effect::Fence(_)), "{step:?}");
        assert_eq!(step.record.hold.unwrap().kind, Kind::Reboot);
    }
}

/// Proved in this userspace of the boot in which the slot was taken, or in another boot.
fn proved(request: &Request, same_kernel: bool, asks: u32) -> Facts {
    let mut facts = booted(Stage::Uncordoned);
    let node = own(&mut facts);
    node.unschedulable = false;
    node.cordon_owners.clear();
    (facts.host_health, facts.pod_health) = (Ok(()), Ok(()));
    set(&mut facts, request);
    let hold = facts.record.hold.as_mut().unwrap();
    hold.asks = asks;
    hold.asked = (asks > 0).then_some(NOW);
    if same_kernel {
        hold.boot = Boot {
            userspace: 0,
            ..facts.boot.clone()
        };
    }
    facts
}

fn settled(facts: &Facts) -> Record {
    let step = decide(facts, &policy(), now());
    let record = step.record;
    let stage = record.hold.as_ref().map(|hold| &hold.stage);
    assert_eq!(stage, Some(&Stage::Releasing), "{:?}", step.effect);
    record
}

#[test]
fn boots_are_told_apart_in_history_and_record() {
    for (asked, same_kernel, did) in [
        (Kind::SoftReboot, true, Kind::SoftReboot),
        // The power went: that was a full one, and serves all the more.
        (Kind::SoftReboot, false, Kind::Reboot),
        (Kind::Reboot, false, Kind::Reboot),
    ] {
        let record = settled(&proved(&of(asked), same_kernel, 1));
        assert_eq!(record.request, None);
        assert_eq!(record.history[0].kind, did);
        assert_eq!(record.history[0].rolled_back, None);
        assert_eq!(record.backoff, None);
        let reasons = record.settled.unwrap().reasons;
        assert!(!reasons.is_empty() && reasons.values().all(|one| one.kind == did));
    }
}

/// Somebody has soft-rebooted the host in the middle of the drain for a full one.
#[test]
fn i10_a_soft_reboot_of_somebody_else_serves_no_full_request() {
    let record = settled(&proved(&of(Kind::Reboot), true, 0));
    assert_eq!(record.request, Some(of(Kind::Reboot)), "it asks on");
    let settled = record.settled.unwrap();
    assert!(settled.reasons.is_empty() && settled.missed.is_none());
    assert_eq!(record.backoff, None);
    assert_eq!(record.history[0].kind, Kind::SoftReboot);
    assert_eq!(record.history[0].rolled_back, None);
}

/// As where `reboot.command` does no more than that: an attempt that failed, which is told.
#[test]
fn i10_a_full_reboot_that_was_asked_for_and_came_as_a_soft_one_has_failed() {
    let mut request = of(Kind::Reboot);
    for by in [BY_PERSON, BY_SCHEDULE] {
        request.latched.push(Latched {
            by: by.to_owned(),
            reason: "please".to_owned(),
            at: wall(),
            boot: Some(boot("now")),
            ended: false,
            kind: Kind::Reboot,
        });
    }
    let record = settled(&proved(&request, true, 1));
    // What a person asks for would begin anew without end, as no limit counts it; the others ask on, with pauses.
    let left = record.request.clone().expect("the trigger asks on");
    assert_eq!(left.reasons, request.reasons);
    let by: Vec<&str> = left.latched.iter().map(|wish| wish.by.as_str()).collect();
    assert_eq!(by, [BY_SCHEDULE]);
    assert!(record.backoff.is_some());
    let words = record.settled.unwrap().missed.expect("it is told");
    assert!(words.contains("only soft-rebooted"), "{words}");
    assert_eq!(record.history[0].rolled_back, Some(words));
}

/// Of both the soft one is served.
#[test]
fn a_soft_reboot_serves_what_wants_no_more() {
    let mut request = of(Kind::Reboot);
    let mut soft = of(Kind::SoftReboot).reasons.remove(0);
    soft.trigger = "sentinel /run/reboot-needed".to_owned();
    request.reasons.push(soft.clone());
    let record = settled(&proved(&request, true, 0));
    let left = record.request.expect("the full one asks on");
    assert_eq!(left.kind(), Kind::Reboot);
    assert!(!left.reasons.contains(&soft));
    let reasons = record.settled.unwrap().reasons;
    assert_eq!(reasons.keys().collect::<Vec<_>>(), [&soft.trigger]);
}

/// The same kernel and deployment go on over a soft-reboot: that is no update that did not take.
#[test]
fn a_soft_reboot_is_never_told_as_rolled_back() {
    let mut facts = proved(&of(Kind::SoftReboot), true, 1);
    let booted = crate::booted::Booted {
        kernel: "6.8.0-45".to_owned(),
        deployment: "a.0".to_owned(),
        ..crate::booted::Booted::default()
    };
    let hold = facts.record.hold.as_mut().unwrap();
    hold.before.booted = Some(booted.clone());
    hold.before.staged = Some("b.0".to_owned());
    facts.before.booted = Some(booted);
    let record = settled(&facts);
    assert_eq!(record.history[0].rolled_back, None);
    assert_eq!(record.settled.unwrap().missed, None);
}
