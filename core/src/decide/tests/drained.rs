//! A node that is kept drained for somebody: what ends that, and what does not (I1-I4, I10).

use super::table::{about_to_reboot, own, slot};
use super::*;
use crate::now::fixed::now as now_;
use crate::record::Kept;

/// Drained for a person in this boot.
fn drained() -> Facts {
    let mut facts = about_to_reboot();
    let request = Request {
        since: wall(),
        reasons: Vec::new(),
        latched: vec![kept(Keeper::Person, false)],
    };
    facts.record.request = Some(request.clone());
    facts.observed.request = Some(request);
    facts.record.hold.as_mut().unwrap().stage = Stage::Drained;
    let state = facts.record.annotation().unwrap();
    own(&mut facts)
        .annotations
        .insert(names::STATE.to_owned(), state);
    facts
}

/// Before logind was asked.
fn unasked(stage: Stage) -> Facts {
    let mut facts = about_to_reboot();
    facts.fenced = None;
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.stage, hold.asks, hold.asked) = (stage, 0, None);
    facts
}

/// The same after a reboot.
fn rebooted() -> Facts {
    let mut facts = drained();
    facts.boot = boot("next");
    facts
}

/// Whoever wanted it has taken that back.
fn over(mut facts: Facts) -> Facts {
    for request in [&mut facts.record.request, &mut facts.observed.request] {
        request.as_mut().unwrap().end();
    }
    facts
}

fn next(facts: &Facts) -> (Phase, Stage, Option<Effect>) {
    let step = decide(facts, &policy(), now());
    let effect = Some(step.effect).filter(|effect| *effect != Effect::Wait);
    (step.phase, step.record.hold.unwrap().stage, effect)
}

#[test]
fn it_stays_drained_whatever_else_asks_or_closes() {
    for mut facts in [drained(), rebooted()] {
        facts.record.request.as_mut().unwrap().reasons = request().reasons;
        facts.observed.request = facts.record.request.clone();
        facts.limited = Some(wall());
        facts.writable = false;
        facts.closed = vec![Closed {
            gate: Gate::GroupPaused,
            why: "a bad kernel".into(),
            opens: None,
        }];
        facts.drain = Drained::Failed {
            why: "a pod came".to_owned(),
        };
        let step = decide(&facts, &policy(), now());
        assert_eq!((step.phase, &step.effect), (Phase::Drained, &Effect::Wait));
        assert_eq!(step.record, facts.record);
        assert_eq!(
            step.status,
            "drained: kept so for kube-rebootd drain (a new disk), until kube-rebootd undrain"
        );
    }
}

/// Drained to the last pod, it is kept so and not rebooted, whatever `reboot.delay` says.
#[test]
fn i2_a_drain_for_somebody_ends_with_the_drain() {
    let mut facts = drained();
    facts.record.hold.as_mut().unwrap().stage = Stage::Draining;
    facts.drain = Drained::Done { at: NOW };
    facts.last_list = Some(LastList {
        asked: NOW,
        clean: true,
        marks: Marks::default(),
    });
    let mut policy = policy();
    policy.delay = Duration::from_secs(60);
    let step = decide(&facts, &policy, now());
    assert_eq!(
        (step.phase, step.record.hold.unwrap().stage),
        (Phase::Drained, Stage::Drained)
    );
    assert!(matches!(step.effect, Effect::Apply { set, .. } if set.unschedulable));
}

/// Wished for after the last pod had gone, and before logind was asked.
#[test]
fn i2_a_wish_right_before_the_reboot_is_heard() {
    let mut facts = unasked(Stage::Rebooting);
    assert_ne!(next(&facts).1, Stage::Draining);
    let request = facts.record.request.as_mut().unwrap();
    request.latched.push(kept(Keeper::Script, false));
    facts.observed.request = facts.record.request.clone();
    assert_eq!(
        (next(&facts).0, next(&facts).1),
        (Phase::Draining, Stage::Draining)
    );
}

#[test]
fn i4_what_was_worked_on_is_proved_in_the_same_boot_as_well() {
    let mut facts = over(drained());
    for (host, pods) in [(false, false), (false, true), (true, false)] {
        let health = |good: bool| good.then_some(()).ok_or_else(|| vec!["not yet".to_owned()]);
        (facts.host_health, facts.pod_health) = (health(host), health(pods));
        assert_eq!(next(&facts), (Phase::Verifying, Stage::Drained, None));
    }
    (facts.host_health, facts.pod_health) = (Ok(()), Ok(()));
    assert_eq!(next(&facts).1, Stage::Undoing(Why::Maintained));
    facts.verifying = policy().health_timeout + Duration::from_secs(1);
    facts.host_health = Err(vec!["not yet".to_owned()]);
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.reason, crate::reason::Reason::Unhealthy);
}

/// Rebooted by whoever worked there, it is proved as any reboot, and counts as a person's.
#[test]
fn i10_a_reboot_meanwhile_goes_into_the_history_as_a_persons() {
    let mut facts = over(rebooted());
    facts.host_health = Ok(());
    assert_eq!(next(&facts).1, Stage::Uncordoned);
    let hold = facts.record.hold.as_mut().unwrap();
    hold.stage = Stage::Uncordoned;
    let point = Point::of(hold);
    facts.applied = Some(Applied { point, at: NOW });
    let node = own(&mut facts);
    (node.unschedulable, node.cordon_owners) = (false, Vec::new());
    facts.pod_health = Ok(());
    let record = decide(&facts, &policy(), now()).record;
    assert_eq!(record.hold.unwrap().stage, Stage::Releasing);
    assert_eq!(record.request, None);
    assert_eq!(record.history[0].reasons, ["kube-rebootd drain"]);
    assert!(!record.history[0].automatic);
}

/// The power went before it was drained: what was wanted is wanted still.
#[test]
fn i6_a_wish_outlives_a_reboot_that_came_before_it_was_served() {
    let mut facts = rebooted();
    facts.record.request.as_mut().unwrap().reasons = request().reasons;
    let hold = facts.record.hold.as_mut().unwrap();
    hold.stage = Stage::Uncordoned;
    let point = Point::of(hold);
    facts.applied = Some(Applied { point, at: NOW });
    let node = own(&mut facts);
    (node.unschedulable, node.cordon_owners) = (false, Vec::new());
    (facts.host_health, facts.pod_health) = (Ok(()), Ok(()));
    let record = decide(&facts, &policy(), now()).record;
    let left = record.request.unwrap();
    assert!(left.keeps() && !left.reboots());
}

/// A person's uncordon ends it, and it is not drained again.
#[test]
fn i3_who_uncordons_it_ends_it() {
    for (mut facts, stage) in [
        (drained(), Stage::Undoing(Why::Uncordoned)),
        (rebooted(), Stage::Drained),
    ] {
        let node = own(&mut facts);
        (node.unschedulable, node.cordon_owners) = (false, Vec::new());
        node.read = None;
        assert_eq!(next(&facts).2, Some(Effect::ReadNode));
        own(&mut facts).read = Some(NOW);
        let step = decide(&facts, &policy(), now());
        assert_eq!(step.record.hold.as_ref().unwrap().stage, stage);
        assert!(!step.record.keeps());
        facts.record = step.record;
        assert_ne!(decide(&facts, &policy(), now()).phase, Phase::Drained);
    }
}

/// As any hold, as long as the host was not rebooted; after that nothing is given up unproved.
#[test]
fn i4_a_slot_that_is_lost_a_pause_and_another_node_end_it_before_a_reboot_alone() {
    let lost = |facts: &mut Facts| {
        slot(facts).holder = None;
        slot(facts).read = Some(NOW);
    };
    let paused = |facts: &mut Facts| {
        let pause = (names::PAUSED.to_owned(), "the rack".to_owned());
        own(facts).annotations.extend([pause]);
    };
    let absent = |facts: &mut Facts| facts.node = Seen::Absent;
    let changes: [fn(&mut Facts); 3] = [lost, paused, absent];
    let paused = Why::Paused("the rack".to_owned());
    for (change, why) in changes
        .into_iter()
        .zip([Why::Lost, paused, Why::NodeReplaced])
    {
        let mut facts = drained();
        change(&mut facts);
        assert_eq!(next(&facts).1, Stage::Undoing(why));
        let mut facts = rebooted();
        change(&mut facts);
        assert_eq!(next(&facts), (Phase::Drained, Stage::Drained, None));
    }
}

/// Registered anew while the host was off, the Node is marked again before anything else (I1).
#[test]
fn i1_a_node_registered_anew_is_cordoned_again() {
    let mut facts = rebooted();
    let node = own(&mut facts);
    node.uid = "another".to_owned();
    (node.unschedulable, node.cordon_owners) = (false, Vec::new());
    node.labels.clear();
    node.annotations.clear();
    slot(&mut facts).read = Some(NOW);
    let (_, stage, effect) = next(&facts);
    let marked = matches!(effect, Some(Effect::Apply { ref set, .. }) if set.unschedulable);
    assert!(marked && stage == Stage::Drained, "{effect:?}");
}

/// Found by review: what had stopped to ask since the reboot, and asked again a day later, was taken for not cleared.
#[test]
fn i10_what_stops_to_ask_after_the_reboot_is_served() {
    let mut facts = rebooted();
    let asking = |facts: &mut Facts, record: bool, now: bool| {
        let reasons = |asks: bool| if asks { request().reasons } else { Vec::new() };
        facts.record.request.as_mut().unwrap().reasons = reasons(record);
        facts.observed.request.as_mut().unwrap().reasons = reasons(now);
        decide(facts, &policy(), now_())
            .record
            .request
            .unwrap()
            .reasons
            .len()
    };
    assert_eq!(asking(&mut facts, true, true), 1);
    assert_eq!(asking(&mut facts, true, false), 0);
    // It is served by no reboot, and asks after this hold.
    assert_eq!(asking(&mut facts, false, true), 0);
}

/// Found by review: the Lease was cleared and the Node registered anew while the host was off, and that it showed no cordon
/// passed for somebody's uncordon.
#[test]
fn i6_a_wish_outlives_a_node_that_was_registered_anew_without_its_slot() {
    let mut facts = rebooted();
    let node = own(&mut facts);
    node.uid = "another".to_owned();
    (node.unschedulable, node.cordon_owners) = (false, Vec::new());
    node.labels.clear();
    node.annotations.clear();
    slot(&mut facts).holder = None;
    slot(&mut facts).read = Some(NOW);
    let record = decide(&facts, &policy(), now()).record;
    assert_eq!(record.hold.as_ref().unwrap().stage, Stage::Draining);
    assert!(record.keeps());
    facts.record = record;
    assert_eq!(decide(&facts, &policy(), now()).phase, Phase::Verifying);
}

/// A pause keeps the cordon of what was kept drained, too.
#[test]
fn i3_a_pause_keeps_its_cordon() {
    let mut facts = drained();
    let pause = (names::PAUSED.to_owned(), "the rack".to_owned());
    own(&mut facts).annotations.extend([pause]);
    facts.record = decide(&facts, &policy(), now()).record;
    let step = decide(&facts, &policy(), now());
    let keeps = |kept: &Kept| kept.why == "the rack";
    assert!(step.record.kept.as_ref().is_some_and(keeps), "{step:?}");
}

/// A person's wish is taken back in the drain; what else asks is counted, and has its limit.
#[test]
fn i10_what_is_left_when_a_wish_is_taken_back_keeps_to_the_limit() {
    for stage in [Stage::Draining, Stage::Rebooting] {
        let mut facts = unasked(stage);
        facts.limited = Some(wall());
        let why = Stage::Undoing(Why::Gate("reboot.max_per_day is reached".to_owned()));
        assert_eq!(next(&facts).1, why);
        let wish = Latched {
            by: trigger::BY_PERSON.to_owned(),
            ..kept(Keeper::Person, false)
        };
        facts.record.request.as_mut().unwrap().latched.push(wish);
        facts.observed.request = facts.record.request.clone();
        assert_ne!(next(&facts).1, why);
    }
}
