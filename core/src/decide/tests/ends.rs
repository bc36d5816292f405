//! Tables of how a hold ends: what proves the node, when logind is asked again, when the hold is over, and what a slot that
//! nobody gives back waits for (I2, I4, I5). cargo-mutants found that only the simulator showed this.

use super::leaks::booted;
use super::queue::about_to_clear;
use super::table::{about_to_reboot, own, place, slot};
use super::*;
use crate::facts::Refusal;

fn ago(seconds: u64) -> Duration {
    NOW.checked_sub(Duration::from_secs(seconds)).unwrap()
}

fn uncordoned() -> Facts {
    let mut facts = booted(Stage::Uncordoned);
    let node = own(&mut facts);
    node.unschedulable = false;
    node.cordon_owners.clear();
    facts
}

#[test]
fn i4_only_a_host_and_pods_that_are_healthy_prove_the_node() {
    for (host, pods) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut facts = uncordoned();
        let health = |good: bool| good.then_some(()).ok_or_else(|| vec!["not yet".to_owned()]);
        (facts.host_health, facts.pod_health) = (health(host), health(pods));
        let step = decide(&facts, &policy(), now());
        let proved = step.record.hold.unwrap().stage == Stage::Releasing;
        assert_eq!(proved, host && pods, "{host} {pods}");
        assert_eq!(step.record.history.len(), usize::from(proved));
    }
}

#[test]
fn a_node_that_is_not_healthy_in_time_says_so() {
    let limit = policy().health_timeout;
    for (verifying, late) in [(limit, false), (limit + Duration::from_millis(1), true)] {
        let mut facts = uncordoned();
        facts.host_health = Ok(());
        facts.verifying = verifying;
        let step = decide(&facts, &policy(), now());
        let said = step.status.starts_with("not healthy within health.timeout");
        assert_eq!(said, late, "{}", step.status);
    }
}

/// Nothing of it is on the Node, and the Lease is another's or free: the hold is over.
#[test]
fn i4_a_hold_is_over_when_its_lease_is_not_ours_any_more() {
    for (stage, phase, waits) in [
        (Stage::Undoing(Why::Withdrawn), Phase::Pending, true),
        (Stage::Releasing, Phase::Idle, false),
    ] {
        let mut facts = about_to_reboot();
        facts.record.waiting = Some(place());
        let hold = facts.record.hold.as_mut().unwrap();
        hold.stage = stage;
        let point = Point::of(hold);
        facts.applied = Some(Applied { point, at: NOW });
        facts.record.settled = Some(Settled::of(None, &boot("now"), NOW));
        let node = own(&mut facts);
        node.labels.clear();
        node.annotations.clear();
        node.unschedulable = false;
        node.cordon_owners.clear();
        slot(&mut facts).holder = None;
        let step = decide(&facts, &policy(), now());
        assert_eq!((step.phase, step.record.hold), (phase, None));
        assert_eq!(step.record.waiting.is_some(), waits);
        assert_eq!(step.record.backoff, None);
    }
}

/// Not known whether an ask reached logind, refused, accepted: each has its own time before the next one.
#[test]
fn i2_logind_is_asked_again_after_its_time() {
    let policy = policy();
    let timeout = policy.reboot_timeout.as_secs();
    let step = |asks: u32, refused: bool, accepted: bool, since: u64| {
        let mut facts = about_to_reboot();
        facts.fenced = None;
        let hold = facts.record.hold.as_mut().unwrap();
        (hold.asks, hold.asked) = (asks, Some(ago(since)));
        let why = "busy".to_owned();
        facts.ask = refused.then_some(Refusal {
            at: ago(since),
            why,
        });
        facts.ask_accepted = accepted.then_some(ago(since));
        decide(&facts, &policy, now())
    };
    let second = Duration::from_secs(1);
    for (refused, accepted, again) in [
        (false, false, 10),
        (true, false, 10),
        (false, true, timeout),
    ] {
        let early = step(1, refused, accepted, again - 1);
        assert_eq!(
            (early.effect, early.wake),
            (Effect::Wait, Some(NOW + second))
        );
        let due = step(1, refused, accepted, again);
        assert_ne!(due.effect, Effect::Wait, "{refused} {accepted}");
        assert_eq!(due.record.hold.unwrap().stage, Stage::Rebooting);
        let third = step(3, refused, accepted, again).record.hold.unwrap().stage;
        assert!(matches!(third, Stage::Undoing(Why::Reboot(_))), "{third:?}");
    }
    // The third is written ahead and fenced: it is asked.
    let mut facts = about_to_reboot();
    facts.record.hold.as_mut().unwrap().asks = 3;
    facts.fenced.as_mut().unwrap().asks = 3;
    let step = decide(&facts, &policy, now());
    assert_eq!(step.effect, Effect::AskReboot);
}

/// The label of a holder that a person declared off is as dead as its host; any other one keeps the slot.
#[test]
fn i5_only_the_dead_holders_own_label_is_passed_over() {
    for (node, gone, looked, clears) in [
        ("n2", true, true, true),
        ("n2", false, true, false),
        ("n2", true, false, false),
        ("n3", true, true, false),
    ] {
        let mut facts = about_to_clear();
        facts.looks.get_mut("default").unwrap().out_of_service = looked;
        facts.peers.as_mut().unwrap().labelled.push(Peer {
            node: node.to_owned(),
            slot: "default".to_owned(),
            quorum: false,
            out_of_service: gone,
        });
        let step = decide(&facts, &policy(), now());
        let Effect::Clear { give_up, .. } = step.effect else {
            assert!(!clears, "{node} {gone} {looked}: {}", step.status);
            continue;
        };
        assert!(clears, "{node} {gone} {looked}");
        let words = "its Node is out of service";
        assert!(give_up.last_hold.ends_with(words), "{}", give_up.last_hold);
    }
}

/// The waiters are listed anew before a clearing, unless no list can be had.
#[test]
fn a_clearing_names_those_who_wait_now() {
    for (failed, asked, clears) in [
        (0, 60, true),
        (0, 61, false),
        (1, 0, false),
        (2, 0, true),
        (2, 61, true),
    ] {
        let mut facts = about_to_clear();
        let waiters = facts.waiters.as_mut().unwrap();
        (waiters.failed, waiters.asked) = (failed, ago(asked));
        let effect = decide(&facts, &policy(), now()).effect;
        match effect {
            Effect::Clear { .. } => assert!(clears, "{failed} {asked}"),
            Effect::ListWaiters => assert!(!clears, "{failed} {asked}"),
            other => panic!("{other:?}"),
        }
    }
}
