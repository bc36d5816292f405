//! What killing and cutting off on real hosts found.

use super::table::{about_to_reboot, own, shut, slot};
use super::*;
use crate::record::Kept;
use crate::shutdown::Scheduled;
use crate::trigger::{BY_SCHEDULE, Latched};

#[test]
fn i10_a_slot_found_without_a_record_is_a_reboot_unless_it_was_taken_in_this_boot() {
    for (age, reboots) in [(9_999, 0), (10_001, 1)] {
        let mut facts = about_to_reboot();
        facts.host_health = Ok(());
        facts.pod_health = Ok(());
        let taken = wall() - Duration::from_secs(age);
        slot(&mut facts).acquire_time = Some(taken);
        let hold = facts.record.hold.as_mut().unwrap();
        hold.boot = Boot::unknown();
        hold.stage = Stage::Uncordoned;
        hold.take.acquire_time = taken;
        let text = facts.record.annotation().unwrap();
        let node = own(&mut facts);
        node.annotations.insert(names::STATE.to_owned(), text);
        node.unschedulable = false;
        node.cordon_owners.clear();
        let record = decide(&facts, &policy(), now()).record;
        assert_eq!(record.hold.unwrap().stage, Stage::Releasing);
        assert_eq!(record.history.len(), reboots, "taken {age} s ago");
    }
}

/// A deleted Node, or an apply without an answer, makes it unknown; its pause is then a closed gate.
#[test]
fn i7_a_node_that_is_not_known_is_read_before_anything_is_undone() {
    for stage in [Stage::Draining, Stage::Rebooting] {
        let mut facts = about_to_reboot();
        facts.node = Seen::Unknown;
        facts.closed = vec![shut()];
        facts.record.hold.as_mut().unwrap().stage = stage.clone();
        let step = decide(&facts, &policy(), now());
        assert_eq!(step.effect, Effect::ReadNode, "{}", step.status);
        assert_eq!(step.record.hold.unwrap().stage, stage);
    }
}

/// The power went in mid-undoing: what was taken off the Node is not put there again, over and over.
#[test]
fn i6_a_hold_that_was_being_undone_is_not_marked_anew_in_the_next_boot() {
    let mut facts = about_to_reboot();
    facts.boot = boot("next");
    facts.record.hold.as_mut().unwrap().stage = Stage::Undoing(Why::Withdrawn);
    facts.host_health = Err(vec!["not yet".to_owned()]);
    let node = own(&mut facts);
    node.labels.clear();
    node.annotations.clear();
    node.unschedulable = false;
    node.cordon_owners.clear();
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.effect, Effect::Wait, "{}", step.status);
    facts.host_health = Ok(());
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.record.hold.unwrap().stage, Stage::Uncordoned);
}

/// Found by review: killed between the record of a step and its apply, the daemon cordoned a node again that somebody
/// had uncordoned meanwhile, which cancels.
#[test]
fn i3_an_uncordon_beside_a_step_of_the_hold_cancels() {
    for (unschedulable, cancels) in [(false, true), (true, false)] {
        let mut facts = about_to_reboot();
        let hold = facts.record.hold.as_mut().unwrap();
        hold.step += 1;
        hold.stage = Stage::Draining;
        own(&mut facts).unschedulable = unschedulable;
        let step = decide(&facts, &policy(), now());
        let stage = step.record.hold.unwrap().stage;
        assert_eq!(
            stage == Stage::Undoing(Why::Uncordoned),
            cancels,
            "{stage:?}"
        );
    }
}

/// Found by review: after the boot of a paused node its cordon is kept for a person, who took it off while pods of
/// DaemonSets were missing; the release of the slot cordoned the node again.
#[test]
fn i3_a_cordon_that_is_kept_for_a_pause_is_not_set_again_after_an_uncordon() {
    for stage in [
        Stage::Uncordoned,
        Stage::Releasing,
        Stage::Undoing(Why::Paused("by a person".to_owned())),
    ] {
        for unschedulable in [true, false] {
            let mut facts = about_to_reboot();
            facts.record.hold.as_mut().unwrap().stage = stage.clone();
            let node = own(&mut facts);
            node.unschedulable = unschedulable;
            let node = node.clone();
            facts.record.kept = Some(Kept {
                node_uid: node.uid.clone(),
                since: wall(),
                why: "by a person".to_owned(),
            });
            let set = NodeFields::of(&facts.record, &node);
            assert_eq!(set.unschedulable, unschedulable, "{stage:?}");
        }
    }
}

/// Found by review: a `reboot.command` that schedules the reboot was cancelled by the daemon itself, three times, and
/// the node drained again and again.
#[test]
fn i6_a_scheduled_reboot_of_its_own_is_not_cancelled() {
    for (stage, asks, cancels) in [
        (Stage::Draining, 0, true),
        (Stage::Rebooting, 0, true),
        (Stage::Rebooting, 1, false),
        (Stage::Undoing(Why::Withdrawn), 1, true),
    ] {
        let mut facts = about_to_reboot();
        facts.adopts = Scheduled::of("reboot", 1_800_000_000_000_000);
        assert!(facts.adopts.is_some());
        let hold = facts.record.hold.as_mut().unwrap();
        hold.asks = asks;
        hold.stage = stage.clone();
        let here = facts.boot.clone();
        let request = facts.record.request.as_mut().unwrap();
        request.latched.push(Latched {
            by: BY_SCHEDULE.to_owned(),
            reason: "shutdown".to_owned(),
            at: wall(),
            boot: Some(here),
            ended: false,
            kind: Kind::Reboot,
        });
        facts.observed.request = facts.record.request.clone();
        let step = decide(&facts, &policy(), now());
        assert_eq!(step.effect == Effect::CancelShutdown, cancels, "{stage:?}");
    }
}

/// Found by reading: `reboot.command` was `shutdown -r +1`. A daemon that was restarted within that minute, and found a gate
/// closed, undid the hold and gave the slot up before the host went down.
#[test]
fn i1_a_reboot_that_its_own_command_scheduled_is_waited_for() {
    let soon = policy().reboot_timeout;
    for (ahead, asks, waits) in [
        (soon, 1, true),
        (Duration::ZERO, 1, true),
        // A poweroff for next week is not what was asked for.
        (soon + Duration::from_secs(1), 1, false),
        (soon, 0, false),
    ] {
        let mut facts = about_to_reboot();
        let hold = facts.record.hold.as_mut().unwrap();
        hold.stage = Stage::Rebooting;
        hold.asks = asks;
        hold.asked = (asks > 0).then_some(Duration::ZERO);
        facts.fenced = None;
        facts.closed = vec![shut()];
        let at = (wall() + ahead).as_microsecond();
        facts.scheduled = Scheduled::of("reboot", u64::try_from(at).unwrap());
        let step = decide(&facts, &policy(), now());
        let stage = &step.record.hold.as_ref().unwrap().stage;
        assert_eq!(*stage == Stage::Rebooting, waits, "{ahead:?} {asks}");
        if waits {
            assert_eq!(step.effect, Effect::Wait, "{ahead:?}: {}", step.status);
            assert!(step.status.contains("reboot scheduled"), "{}", step.status);
        }
    }
}
