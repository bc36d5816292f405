//! Properties of steps that random facts hardly ever lead to (I1, I2, I5, I8, I10, I13). The facts are those of a table,
//! some of them replaced by any others; each property says how often its step must have been met, and how often not.

use std::cell::Cell;

use proptest::test_runner::{Config as Cases, TestCaseResult, TestRunner};

use super::queue::{STALE_AFTER, about_to_clear};
use super::table::{about_to_reboot, about_to_take};
use super::*;
use crate::stale::{Held, Look};

/// Facts per property.
const CASES: u32 = 4_000;
/// Of them, so many at least lead to the step that the property is about, and so many do not.
const OFTEN: u32 = CASES / 10;

/// Replaces one fact by that of others.
type Splice = fn(&mut Facts, &Facts);

const SPLICES: [Splice; 18] = [
    |facts, any| facts.node = any.node.clone(),
    |facts, any| facts.leases = any.leases.clone(),
    |facts, any| facts.peers = any.peers.clone(),
    |facts, any| facts.drain = any.drain.clone(),
    |facts, any| facts.last_list = any.last_list.clone(),
    |facts, any| facts.record.backoff = any.record.backoff.clone(),
    |facts, any| facts.record.hold = any.record.hold.clone(),
    |facts, any| facts.record.settled = any.record.settled.clone(),
    |facts, any| facts.writable = any.writable,
    |facts, any| facts.shutting_down = any.shutting_down,
    |facts, any| facts.host_read = any.host_read,
    |facts, any| facts.closed = any.closed.clone(),
    |facts, any| facts.observed = any.observed.clone(),
    |facts, any| facts.applied = any.applied,
    |facts, any| facts.take = any.take.clone(),
    |facts, any| facts.waiters = any.waiters.clone(),
    |facts, any| facts.confirmed = any.confirmed,
    |facts, any| facts.fenced = any.fenced,
];

fn near(table: fn() -> Facts) -> impl Strategy<Value = Facts> {
    let which = prop::sample::subsequence(SPLICES.to_vec(), 0..=4);
    (facts(), which).prop_map(move |(any, which)| {
        let mut facts = table();
        for splice in which {
            splice(&mut facts, &any);
        }
        facts
    })
}

/// `property` is told whether its step was met, and says so.
fn often(
    facts: impl Strategy<Value = Facts>,
    property: impl Fn(Facts, &dyn Fn()) -> TestCaseResult,
) {
    let met = Cell::new(0);
    let config = Cases {
        source_file: Some(file!()),
        ..Cases::with_cases(CASES)
    };
    let run = |facts| property(facts, &|| met.set(met.get() + 1));
    TestRunner::new(config).run(&facts, run).unwrap();
    let met = met.get();
    assert!(
        (OFTEN..=CASES - OFTEN).contains(&met),
        "met {met} times of {CASES}"
    );
}

#[test]
fn i2_i8_logind_is_asked_only_by_a_proved_holder_with_every_gate_open() {
    often(near(about_to_reboot), |facts, met| {
        let step = decide(&facts, &policy(), now());
        if step.effect != Effect::AskReboot {
            return Ok(());
        }
        met();
        let lease = &facts.leases["default"];
        prop_assert_eq!(lease.holder.as_deref(), Some(ME));
        let fenced = facts.fenced.and_then(|fence| fence.at);
        prop_assert!(fenced.is_some(), "no fence");
        prop_assert!(facts.host_read >= fenced, "the gates come after the fence");
        prop_assert!(fresh(facts.host_read) && facts.closed.is_empty(), "a gate");
        prop_assert!(facts.confirmed.is_some(), "not confirmed");
        prop_assert!(facts.confirmed <= fenced, "confirmed after the fence");
        prop_assert!(facts.last_list.as_ref().is_some_and(|list| list.clean));
        prop_assert!(present(&facts).is_some_and(|node| node.unschedulable));
        prop_assert!(facts.writable && !facts.shutting_down);
        prop_assert!(facts.observed.request.is_some(), "withdrawn");
        let (before, hold) = (&facts.record.hold, &step.record.hold);
        prop_assert_eq!(before, hold, "written between the gates and logind");
        let hold = hold.as_ref().unwrap();
        prop_assert!(hold.asks > 0, "not written ahead");
        prop_assert_eq!(&hold.boot, &facts.boot);
        Ok(())
    });
}

#[test]
fn i1_i8_i13_a_slot_is_taken_only_free_and_with_nobody_and_nothing_against_it() {
    often(near(about_to_take), |facts, met| {
        let step = decide(&facts, &policy(), now());
        let Effect::Take(take) = &step.effect else {
            return Ok(());
        };
        let written = &step.record.hold.as_ref().unwrap().take;
        prop_assert_eq!(written, take, "not written ahead");
        if let Some(hold) = &facts.record.hold {
            // A repeat: unchanged.
            prop_assert_eq!(take, &hold.take);
            return Ok(());
        }
        met();
        let lease = &facts.leases["default"];
        prop_assert!(lease.holder.is_none() && lease.paused.is_none() && lease.protocol == 1);
        prop_assert_eq!(&take.resource_version, &lease.resource_version);
        let node = present(&facts).unwrap();
        let peers = facts.peers.as_ref().unwrap();
        prop_assert!(recent(peers.asked));
        prop_assert!(lease.freed <= Some(peers.asked), "a look from before");
        for peer in &peers.labelled {
            prop_assert!(peer.slot == "other" && !(peer.quorum && node.quorum()));
        }
        let used_up = budget::used_up(peers, policy().max_unavailable, true);
        prop_assert_eq!(used_up, None);
        prop_assert!(fresh(facts.host_read) && facts.closed.is_empty(), "a gate");
        prop_assert!(facts.writable && facts.record.backoff.is_none());
        prop_assert!(facts.observed.request.is_some());
        Ok(())
    });
}

/// What another node, a pod or the host would feel.
fn begins(facts: &Facts, step: &Step) -> bool {
    let hold = facts.record.hold.as_ref();
    match &step.effect {
        // The one that was on its way may have landed.
        Effect::Take(_) => hold.is_none_or(|hold| hold.stage != Stage::Taking),
        Effect::Mark(_)
        | Effect::CreateLease
        | Effect::Evict(_)
        | Effect::Escalate(_)
        | Effect::Fence(_)
        | Effect::AskReboot
        | Effect::Clear { .. } => true,
        // After a new boot the hold is finished.
        Effect::Apply { set, .. } => {
            let rebooted = hold.is_some_and(|hold| hold.boot != facts.boot);
            set.unschedulable && step.record.kept.is_none() && !rebooted
        }
        _ => false,
    }
}

fn anywhere() -> impl Strategy<Value = Facts> {
    prop_oneof![
        near(about_to_reboot),
        near(about_to_take),
        near(queue::claiming),
        near(about_to_clear),
    ]
}

#[test]
fn an_observer_begins_nothing() {
    often(anywhere(), |mut facts, met| {
        if begins(&facts, &decide(&facts, &policy(), now())) {
            met();
        }
        facts.record.waiting = None;
        let hold = facts.record.hold.as_ref();
        if hold.is_some_and(|hold| hold.stage == Stage::Drained) {
            // It was begun, and stays as it is for whoever keeps the node drained.
            return Ok(());
        }
        let observer = Policy {
            observe: true,
            ..policy()
        };
        let step = decide(&facts, &observer, now());
        prop_assert!(!begins(&facts, &step), "{:?}", step.effect);
        prop_assert!(
            step.record.waiting.is_none(),
            "it takes a place in the queue"
        );
        Ok(())
    });
}

#[test]
fn i10_without_a_request_nothing_begins() {
    often(anywhere(), |mut facts, met| {
        if begins(&facts, &decide(&facts, &policy(), now())) {
            met();
        }
        facts.record.request = None;
        facts.observed.request = None;
        let step = decide(&facts, &policy(), now());
        // A Node that shows less than its hold is mended before the hold is undone.
        let mends = matches!(step.effect, Effect::Apply { .. });
        prop_assert!(mends || !begins(&facts, &step), "{:?}", step.effect);
        Ok(())
    });
}

prop_compose! {
    /// Behind a hold that somebody has looked into, with times around those that count.
    fn behind()(facts in near(about_to_clear), gone in prop::option::weighted(0.9, 1_795_u64..1_880), asked in prop_oneof![4 => 0_u64..8, 1 => 55..65_u64],
                held in prop_oneof![3 => Just(100_u64), 1 => 7_800..8_300_u64],
                control_plane in prop::bool::weighted(0.1), holder in prop_oneof![8 => Just(2_u8), 1 => 1..4_u8]) -> Facts {
        let mut facts = facts;
        let ago = |seconds| NOW.checked_sub(Duration::from_secs(seconds)).unwrap();
        let Some(lease) = facts.leases.get_mut("default") else { return facts };
        lease.holder = Some(format!("n{holder}"));
        lease.held = Some(Duration::from_secs(held));
        lease.control_plane = control_plane;
        let look = Look { held: Held::of(lease).unwrap(), asked: ago(asked), absent: gone.map(ago), out_of_service: false };
        facts.looks.insert("default".to_owned(), look);
        if let Some(peers) = &mut facts.peers {
            // Between the look and now, or before the look.
            peers.asked = ago(asked / 2 + u64::from(holder == 3) * 20);
        }
        facts
    }
}

#[test]
fn i5_i13_a_clearing_rests_on_fresh_reads_and_an_absence_of_stale_after() {
    often(behind(), |facts, met| {
        let step = decide(&facts, &policy(), now());
        let Effect::Clear { holder, give_up } = &step.effect else {
            return Ok(());
        };
        met();
        let lease = &facts.leases["default"];
        prop_assert_eq!(Some(holder), lease.holder.as_ref());
        prop_assert_eq!(&give_up.resource_version, &lease.resource_version);
        prop_assert!(!lease.control_plane && lease.paused.is_none() && lease.protocol == 1);
        prop_assert!(holder != ME && facts.observed.request.is_some() && facts.writable);
        let look = &facts.looks["default"];
        let peers = facts.peers.as_ref().unwrap();
        prop_assert!(peers.asked >= look.asked && recent(look.asked));
        prop_assert!(peers.labelled.iter().all(|peer| peer.slot != "default"));
        prop_assert!(
            look.absent
                .is_some_and(|since| look.asked >= since + STALE_AFTER)
        );
        prop_assert!(lease.held.unwrap() + STALE_AFTER <= NOW);
        Ok(())
    });
}
