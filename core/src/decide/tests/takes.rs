//! Tables of a take: what becomes of one that is on record, what the label and the cordon write down, and what is
//! recorded with each step (I1, I2, I3, I5, I6). cargo-mutants found that only the simulator showed this.

use super::gates::about_to_cordon;
use super::table::{about_to_reboot, about_to_take, own, peer, slot, untouched};
use super::*;
use crate::health::DaemonSet;

fn ago(seconds: u64) -> Duration {
    NOW.checked_sub(Duration::from_secs(seconds)).unwrap()
}

/// A take is on record, and the Lease shows that it landed.
fn taking() -> Facts {
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.stage, hold.asks, hold.asked) = (Stage::Taking, 0, None);
    untouched(&mut facts);
    facts
}

fn stage(step: &Step) -> Option<Stage> {
    step.record.hold.as_ref().map(|hold| hold.stage.clone())
}

fn lost(facts: &mut Facts) {
    slot(facts).holder = Some("n2".to_owned());
}

#[test]
fn i6_a_take_is_sent_again_until_its_fate_is_known() {
    let mut facts = taking();
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.effect, Effect::Take(take()));
    assert_eq!(stage(&step), Some(Stage::Taking));

    facts.take.said = Some(TakeSaid::Taken);
    let step = decide(&facts, &policy(), now());
    assert_eq!(stage(&step), Some(Stage::Claiming));
    assert_eq!(step.record.hold.unwrap().step, 5, "the next write-ahead");

    facts.writable = false;
    let step = decide(&facts, &policy(), now());
    assert_eq!(stage(&step), Some(Stage::Undoing(Why::Unwritable)));
    assert_eq!(step.record.hold.unwrap().step, 5, "the next write-ahead");
}

/// A conflict may be the answer to a repeat of the own take: only a read that was asked for after it says who has it.
#[test]
fn i1_after_a_conflict_a_later_read_says_who_has_the_slot() {
    for (read, mine, then) in [
        (None, true, None),
        (Some(ago(6)), true, None),
        (Some(ago(6)), false, None),
        (Some(ago(5)), true, Some(true)),
        (Some(ago(4)), true, Some(true)),
        (Some(ago(5)), false, Some(false)),
    ] {
        let mut facts = taking();
        facts.take.said = Some(TakeSaid::Conflict(ago(5)));
        slot(&mut facts).read = read;
        if !mine {
            lost(&mut facts);
        }
        let step = decide(&facts, &policy(), now());
        match then {
            None => {
                let asks = Effect::ReadLease("default".to_owned());
                assert_eq!((&step.effect, stage(&step)), (&asks, Some(Stage::Taking)));
            }
            Some(true) => assert_eq!(stage(&step), Some(Stage::Claiming)),
            Some(false) => {
                assert_eq!((step.phase, stage(&step)), (Phase::Queued, None));
                assert!(step.record.request.is_some());
            }
        }
    }
    // It is not there any more, by a read that was asked for since.
    for (absent, gone) in [(ago(6), false), (ago(5), true)] {
        let mut facts = taking();
        facts.take.said = Some(TakeSaid::Conflict(ago(5)));
        facts.leases.clear();
        facts.absent.insert("default".to_owned(), absent);
        let step = decide(&facts, &policy(), now());
        assert_eq!(stage(&step).is_none(), gone, "{absent:?}: {}", step.status);
    }
}

/// The API server gives a request up after 60 s: a take without an answer may land until then.
#[test]
fn i1_a_refused_take_is_believed_when_no_earlier_one_can_land() {
    let refused = |unanswered: u64, read: u64| {
        let mut facts = taking();
        facts.take.said = Some(TakeSaid::Refused("policy".to_owned()));
        facts.take.unanswered = Some(ago(unanswered));
        lost(&mut facts);
        slot(&mut facts).read = Some(ago(read));
        decide(&facts, &policy(), now())
    };
    let step = refused(74, 0);
    assert_eq!(
        (&step.effect, step.wake),
        (&Effect::Wait, Some(NOW + Duration::from_secs(1)))
    );
    assert_eq!(stage(&step), Some(Stage::Taking));
    // From then on a read that was asked for after that time says it.
    for (unanswered, read) in [(75, 1), (80, 6)] {
        let step = refused(unanswered, read);
        assert_eq!(step.effect, Effect::ReadLease("default".to_owned()));
    }
    for (unanswered, read) in [(75, 0), (80, 5)] {
        assert_eq!(stage(&refused(unanswered, read)), None);
    }
}

/// A Lease that a read did not find is lost, like one that names another node.
#[test]
fn i2_a_slot_that_does_not_exist_any_more_is_lost() {
    for stage_ in [Stage::Claiming, Stage::Draining] {
        let mut facts = about_to_reboot();
        let hold = facts.record.hold.as_mut().unwrap();
        (hold.stage, hold.asks, hold.asked) = (stage_, 0, None);
        facts.leases.clear();
        let step = decide(&facts, &policy(), now());
        assert_eq!(step.effect, Effect::ReadLease("default".to_owned()));
        facts.absent.insert("default".to_owned(), NOW);
        let step = decide(&facts, &policy(), now());
        assert_eq!(stage(&step), Some(Stage::Undoing(Why::Lost)));
    }
}

/// Of two nodes that label themselves at once, one at least must see the other's label.
#[test]
fn i1_only_a_list_from_after_the_label_is_a_second_look() {
    let cordons = |applied: Option<u64>, read: u64, listed: u64| {
        let mut facts = about_to_cordon();
        let hold = facts.record.hold.as_ref().unwrap();
        facts.applied = applied.map(|seconds| Applied {
            point: Point::of(hold),
            at: ago(seconds),
        });
        own(&mut facts).read = Some(ago(read));
        facts.peers.as_mut().unwrap().asked = ago(listed);
        let step = decide(&facts, &policy(), now());
        match step.effect {
            Effect::ListPeers => false,
            Effect::Apply { .. } => true,
            other => panic!("{other:?}"),
        }
    };
    // From the answer to the own apply on, else from a consistent read that shows the label.
    assert!(cordons(Some(2), 3, 1));
    assert!(!cordons(Some(1), 3, 1));
    assert!(cordons(None, 2, 1));
    assert!(!cordons(None, 1, 1));
    assert!(!cordons(None, 0, 1));
}

#[test]
fn i3_the_label_and_the_cordon_write_down_what_was_there() {
    let mut facts = about_to_cordon();
    facts.record.hold.as_mut().unwrap().node_uid = None;
    own(&mut facts).labels.clear();
    let step = decide(&facts, &policy(), now());
    assert!(matches!(step.effect, Effect::Apply { .. }));
    let hold = step.record.hold.unwrap();
    assert_eq!((hold.stage, hold.step), (Stage::Claiming, 4));
    assert_eq!(hold.node_uid.as_deref(), Some("node-uid"));

    let mirrors = vec!["kube-system/etcd-n1".to_owned()];
    for owner in [None, Some("kubectl-cordon")] {
        let mut facts = about_to_cordon();
        facts.record.hold.as_mut().unwrap().marks = None;
        facts.marks.as_mut().unwrap().mirrors.clone_from(&mirrors);
        if let Some(owner) = owner {
            let node = own(&mut facts);
            node.unschedulable = true;
            node.cordon_owners.push(owner.to_owned());
        }
        let hold = decide(&facts, &policy(), now()).record.hold.unwrap();
        assert_eq!((hold.stage, hold.step), (Stage::Draining, 5));
        assert_eq!(hold.foreign_cordon, owner.is_some());
        assert_eq!(hold.marks.unwrap().mirrors, mirrors);
    }
}

/// The smallest name of those that collide waits to be alone, and looks each second.
#[test]
fn i13_the_first_of_two_control_plane_nodes_waits_to_be_alone() {
    let claims = |applied: u64, came: u64| {
        let mut facts = about_to_cordon();
        let node = own(&mut facts);
        node.labels
            .insert(names::QUORUM_ROLES[0].to_owned(), String::new());
        let hold = facts.record.hold.as_mut().unwrap();
        hold.take.control_plane = true;
        let point = Point::of(hold);
        facts.applied = Some(Applied {
            point,
            at: ago(applied),
        });
        let peers = facts.peers.as_mut().unwrap();
        (peers.asked, peers.came) = (ago(came), ago(came));
        peer(&mut facts, "other", true);
        decide(&facts, &policy(), now())
    };
    let step = claims(29, 0);
    assert_eq!(
        (&step.effect, step.wake),
        (&Effect::Wait, Some(NOW + Duration::from_secs(1)))
    );
    assert_eq!(claims(29, 1).effect, Effect::ListPeers);
    assert_eq!(claims(29, 2).effect, Effect::ListPeers);
    for late in [30, 31] {
        let step = claims(late, 0);
        assert!(
            matches!(stage(&step), Some(Stage::Undoing(Why::Quorum(_)))),
            "{late}"
        );
    }
}

/// Its clock goes on after a restart from what was written down last: at least every 30 s.
#[test]
fn i6_the_time_of_a_drain_is_written_down_now_and_then() {
    for (known, spent, kept) in [
        (0, 29, 0),
        (0, 30, 30),
        (10, 39, 10),
        (10, 40, 40),
        (0, 99, 99),
    ] {
        let mut facts = draining();
        facts.record.hold.as_mut().unwrap().drain_spent = known;
        facts.drain = Drained::Going {
            escalate: Vec::new(),
            deleted: false,
            evict: Vec::new(),
            words: "1 pod left".to_owned(),
            spent: Duration::from_secs(spent),
            confirm: false,
            unseen: false,
            wake: Some(NOW + Duration::from_secs(7)),
            blocked: Vec::new(),
        };
        let step = decide(&facts, &policy(), now());
        assert_eq!(
            step.record.hold.unwrap().drain_spent,
            kept,
            "{known} {spent}"
        );
        assert_eq!(step.wake, Some(NOW + Duration::from_secs(7)));
    }
}

fn draining() -> Facts {
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.stage, hold.asks, hold.asked) = (Stage::Draining, 0, None);
    let text = facts.record.annotation().unwrap();
    own(&mut facts)
        .annotations
        .insert(names::STATE.to_owned(), text);
    facts
}

#[test]
fn i2_a_drain_ends_with_a_clean_list_from_after_its_delay() {
    let policy = Policy {
        delay: Duration::from_secs(3),
        ..policy()
    };
    let daemon_sets = vec![DaemonSet {
        namespace: "kube-system".to_owned(),
        name: "cni".to_owned(),
        uid: "ds".to_owned(),
    }];
    let step = |done: u64, listed: u64, clean: bool| {
        let mut facts = draining();
        facts.drain = Drained::Done { at: ago(done) };
        facts.last_list = Some(LastList {
            asked: ago(listed),
            clean,
            marks: Marks {
                containers: BTreeMap::from([("pod".to_owned(), Vec::new())]),
                ..Marks::default()
            },
        });
        let marks = facts.record.hold.as_mut().unwrap().marks.as_mut().unwrap();
        marks.daemon_sets.clone_from(&daemon_sets);
        decide(&facts, &policy, now())
    };
    let early = step(2, 0, true);
    assert_eq!(
        (&early.effect, early.wake),
        (&Effect::Wait, Some(NOW + Duration::from_secs(1)))
    );
    for (done, listed) in [(4, 2), (4, 4), (300, 61)] {
        assert_eq!(
            step(done, listed, true).effect,
            Effect::ListPods,
            "{done} {listed}"
        );
    }
    for (done, listed) in [(3, 0), (4, 1), (300, 0)] {
        let done_ = step(done, listed, true);
        let hold = done_.record.hold.unwrap();
        assert_eq!((hold.stage, hold.step), (Stage::Rebooting, 5));
        // Which DaemonSets were ready is as before the cordon; the containers are those of now.
        let marks = hold.marks.unwrap();
        assert_eq!(marks.daemon_sets, daemon_sets);
        assert!(marks.containers.contains_key("pod"));
    }
    let late = step(4, 1, false);
    assert_eq!(late.record.hold.unwrap().stage, Stage::Draining);
    assert_eq!(
        (late.effect, late.wake),
        (Effect::Wait, Some(ago(1) + RECENT + Duration::from_secs(1)))
    );
}

/// Without a Node, without a request, and with a pause nothing is begun, and what was begun is undone.
#[test]
fn i2_what_ends_a_hold_before_logind_was_asked() {
    let step = |change: fn(&mut Facts)| {
        let mut facts = draining();
        change(&mut facts);
        stage(&decide(&facts, &policy(), now()))
    };
    assert_eq!(
        step(|_| {}).map(|stage| stage == Stage::Rebooting),
        Some(true)
    );
    assert_eq!(
        step(|facts| facts.observed.request = None),
        Some(Stage::Undoing(Why::Withdrawn))
    );
    assert_eq!(
        step(|facts| facts.writable = false),
        Some(Stage::Undoing(Why::Unwritable))
    );
}

/// Only a stage that does not come further has a deadline, and it has exactly that long.
#[test]
fn i7_a_stage_that_only_waits_for_answers_has_five_minutes() {
    let claim = |in_stage: Duration, goes_on: bool| {
        let mut facts = about_to_cordon();
        facts.in_stage = in_stage;
        if !goes_on {
            facts.peers = None;
        }
        stage(&decide(&facts, &policy(), now())).unwrap()
    };
    let limit = Duration::from_secs(300);
    let nearly = limit.checked_sub(Duration::from_millis(1)).unwrap();
    assert_eq!(claim(nearly, false), Stage::Claiming);
    assert!(matches!(
        claim(limit, false),
        Stage::Undoing(Why::Reboot(_))
    ));
    assert_eq!(claim(limit, true), Stage::Draining);
}

/// A pause keeps the cordon of a hold that ends, if it is ours, on the Node that the hold labelled; an order keeps none.
#[test]
fn i3_a_pause_keeps_the_own_cordon_of_a_hold_that_ends() {
    let keeps = |why: Why, change: fn(&mut Facts)| {
        let mut facts = about_to_reboot();
        facts.record.hold.as_mut().unwrap().stage = Stage::Undoing(why);
        facts.applied = None;
        let node = own(&mut facts);
        node.annotations
            .insert(names::PAUSED.to_owned(), "by a person".to_owned());
        change(&mut facts);
        let step = decide(&facts, &policy(), now());
        let Effect::Apply { set, .. } = &step.effect else {
            panic!("{:?}", step.effect);
        };
        let kept = step.record.kept.as_ref().map(|kept| kept.why.as_str());
        assert_eq!(set.unschedulable, kept.is_some());
        kept == Some("by a person")
    };
    let paused = || Why::Paused("by a person".to_owned());
    assert!(keeps(paused(), |_| {}));
    assert!(keeps(Why::Lost, |_| {}));
    assert!(!keeps(Why::Ordered, |_| {}));
    assert!(!keeps(paused(), |facts| own(facts).uid = "another".to_owned()));
    assert!(!keeps(paused(), |facts| {
        facts.record.hold.as_mut().unwrap().foreign_cordon = true;
    }));
    assert!(!keeps(paused(), |facts| own(facts).unschedulable = false));
    assert!(!keeps(paused(), |facts| {
        own(facts).annotations.remove(names::PAUSED);
    }));
}

/// What rests has a time of its own; the rest of a stage counts for its deadline.
#[test]
fn i7_pods_and_logind_have_times_of_their_own() {
    let rests = |phase: Phase, effect: Effect, change: fn(&mut Facts, &mut Step)| {
        let mut facts = about_to_take();
        let mut step = decide(&facts, &policy(), now());
        (step.phase, step.effect) = (phase, effect);
        facts.drain = Drained::Done { at: NOW };
        change(&mut facts, &mut step);
        rests(&facts, &step)
    };
    for (phase, rest) in [
        (Phase::Draining, true),
        (Phase::Rebooting, true),
        (Phase::Claiming, false),
        (Phase::Verifying, false),
    ] {
        assert_eq!(rests(phase, Effect::Wait, |_, _| {}), rest, "{phase}");
        assert!(!rests(phase, Effect::ReadNode, |_, _| {}), "{phase}");
    }
    assert!(!rests(Phase::Draining, Effect::Wait, |facts, _| {
        facts.drain = Drained::Starting;
    }));
    assert!(!rests(Phase::Rebooting, Effect::Wait, |_, step| {
        step.waits = Some("heartbeats".to_owned());
    }));
}
