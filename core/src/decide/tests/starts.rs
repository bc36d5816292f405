//! Tables of what a process finds: three records that disagree, a Node that is another one, what an earlier hold left; and
//! what others ask a decision about (I3, I4, I6, I10). cargo-mutants found that only the simulator showed this.

use super::leaks::booted;
use super::table::{about_to_reboot, about_to_take, own, shut, slot};
use super::*;
use crate::history::Past;
use crate::record::Kept;
use crate::trigger::Flaps;

fn stage(step: &Step) -> Option<Stage> {
    step.record.hold.as_ref().map(|hold| hold.stage.clone())
}

fn paused(node: &mut Node) {
    let why = "by a person".to_owned();
    node.annotations.insert(names::PAUSED.to_owned(), why);
}

fn kept() -> Kept {
    Kept {
        node_uid: "node-uid".to_owned(),
        since: wall(),
        why: "by a person".to_owned(),
    }
}

/// A hold at `step`, of the Lease `lease` or of one that was made anew.
fn hold(step: u64, uid: &str) -> Hold {
    let mut hold = about_to_reboot().record.hold.unwrap();
    (hold.step, hold.stage) = (step, Stage::Draining);
    uid.clone_into(&mut hold.take.uid);
    hold
}

/// What a start makes of a file, a Node that carries `there`, and a Lease that is `mine`.
fn started(file: Record, there: Option<Record>, mine: bool) -> Record {
    let mut facts = about_to_reboot();
    facts.started = false;
    facts.record = file;
    let node = own(&mut facts);
    node.labels.clear();
    node.annotations.clear();
    if let Some(record) = there {
        let text = record.annotation().unwrap();
        node.annotations.insert(names::STATE.to_owned(), text);
    }
    if !mine {
        slot(&mut facts).holder = Some("n2".to_owned());
    }
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.effect, Effect::Begin, "{}", step.status);
    step.record
}

fn of(hold: Option<Hold>) -> Record {
    Record {
        hold,
        request: Some(request()),
        ..Record::default()
    }
}

#[test]
fn i6_of_two_records_of_a_hold_the_newer_one_goes_on() {
    let lease = slot(&mut about_to_reboot()).uid.clone();
    let (old, new) = (hold(4, &lease), hold(5, &lease));
    let other = hold(9, "another");
    for (what, file, node, mine, goes_on) in [
        ("the same", Some(&old), Some(&old), true, Some(4)),
        ("a newer file", Some(&new), Some(&old), true, Some(5)),
        ("a newer Node", Some(&old), Some(&new), true, Some(5)),
        ("no file's hold", None, Some(&old), true, Some(4)),
        (
            "one that the file has finished",
            None,
            Some(&old),
            false,
            None,
        ),
        ("nothing on the Node", Some(&old), None, true, Some(4)),
        (
            "another hold on the Node",
            Some(&old),
            Some(&other),
            true,
            Some(4),
        ),
        (
            "another hold in the file",
            Some(&other),
            Some(&old),
            true,
            Some(4),
        ),
        (
            "two that nobody knows",
            Some(&old),
            Some(&other),
            false,
            Some(4),
        ),
    ] {
        let there = node.map(|hold| of(Some(hold.clone())));
        let record = started(of(file.cloned()), there, mine);
        let step = record.hold.map(|hold| hold.step);
        assert_eq!(step, goes_on, "{what}");
    }
    // Of the same step the file's copy is the one that goes on: the Node's has no more, and may have less.
    let shorter = Hold {
        drain_spent: 30,
        ..old.clone()
    };
    let record = started(of(Some(shorter)), Some(of(Some(old))), true);
    assert_eq!(record.hold.unwrap().drain_spent, 30);
}

#[test]
fn i6_a_lost_file_is_made_of_the_node_or_of_the_lease() {
    let lease = slot(&mut about_to_reboot()).uid.clone();
    let there = || Some(of(Some(hold(5, &lease))));
    for mine in [true, false] {
        let record = started(Record::default(), there(), mine);
        assert_eq!(record.hold.map(|hold| hold.step), Some(5), "{mine}");
        assert!(record.request.is_some(), "what the hold is for");
    }
    // Only the Lease names this node: whatever boot took it, only a healthy host ends it.
    let found = started(Record::default(), None, true).hold.unwrap();
    assert_eq!((found.stage, found.step), (Stage::Claiming, 0));
    assert_eq!(found.boot, Boot::unknown());
    assert!(found.foreign_cordon, "whose cordon is there is not known");
    assert_eq!(started(Record::default(), None, false).hold, None);
    // A file that knows of no hold is no lost file: the slot is given back, not taken for a hold.
    assert_eq!(started(of(None), None, true).hold, None);
}

#[test]
fn i3_a_start_takes_over_the_kept_cordon_and_the_history() {
    let past = Past::of(Some(&request()), wall());
    let there = || Record {
        kept: Some(kept()),
        ..Record::default()
    };
    assert_eq!(started(of(None), Some(there()), false).kept, Some(kept()));

    let mut facts = about_to_take();
    facts.started = false;
    let text = serde_json::to_string(&[&past]).unwrap();
    let annotations = &mut own(&mut facts).annotations;
    annotations.insert(names::HISTORY.to_owned(), text);
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.record.history.len(), 1);
    facts.record.history = vec![past.clone(), past];
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.record.history.len(), 2, "the file's own");
}

/// A cordon that is kept for a person stays while the pause does, and ends with it, on this Node.
#[test]
fn i3_a_kept_cordon_ends_with_its_pause() {
    let step = |change: fn(&mut Facts)| {
        let mut facts = about_to_take();
        (facts.record.request, facts.observed.request) = (None, None);
        facts.record.waiting = None;
        facts.mark = Mark::None;
        facts.record.kept = Some(kept());
        let text = facts.record.annotation().unwrap();
        let node = own(&mut facts);
        node.unschedulable = true;
        node.cordon_owners.push(names::NODE_MANAGER.to_owned());
        node.annotations.insert(names::STATE.to_owned(), text);
        paused(node);
        change(&mut facts);
        decide(&facts, &policy(), now())
    };
    let stays = step(|_| {});
    assert_eq!(
        (stays.effect, stays.record.kept),
        (Effect::Wait, Some(kept()))
    );
    let ends: [fn(&mut Facts); 3] = [
        |facts| {
            own(facts).annotations.remove(names::PAUSED);
        },
        |facts| own(facts).unschedulable = false,
        |facts| own(facts).uid = "another".to_owned(),
    ];
    for (row, end) in ends.into_iter().enumerate() {
        let ended = step(end);
        let Effect::Apply { set, .. } = &ended.effect else {
            panic!("{row}: {:?}", ended.effect);
        };
        assert!(!set.unschedulable && ended.record.kept.is_none(), "{row}");
    }
    // Not by a watch alone, which may lag behind.
    let unread = step(|facts| {
        own(facts).annotations.remove(names::PAUSED);
        own(facts).read = None;
    });
    assert_eq!(
        (unread.effect, unread.record.kept),
        (Effect::ReadNode, Some(kept()))
    );
    // The record of the hold that ended is replaced by one that only keeps the cordon.
    let stale = step(|facts| {
        let text = about_to_reboot().record.annotation().unwrap();
        let node = own(facts);
        node.annotations.insert(names::STATE.to_owned(), text);
    });
    let Effect::Apply { set, .. } = &stale.effect else {
        panic!("{:?}", stale.effect);
    };
    assert!(set.unschedulable);
    assert_eq!(stale.record.kept, Some(kept()));
}

/// What an earlier hold left is taken off by an apply, and what that could not take away by a patch.
#[test]
fn i4_what_an_earlier_hold_left_on_the_node_is_taken_off() {
    let step = |applied: Option<Point>, read: bool| {
        let mut facts = about_to_take();
        own(&mut facts)
            .labels
            .insert(names::SLOT.to_owned(), "default".to_owned());
        own(&mut facts).read = read.then_some(NOW);
        facts.applied = applied.map(|point| Applied { point, at: NOW });
        decide(&facts, &policy(), now()).effect
    };
    assert_eq!(step(None, false), Effect::ReadNode);
    assert!(matches!(step(None, true), Effect::Apply { .. }));
    let another = Point::of(&hold(4, "another"));
    assert!(matches!(step(Some(another), true), Effect::Apply { .. }));
    assert!(matches!(
        step(Some(Point::default()), true),
        Effect::Mend(_)
    ));
}

/// Nothing of ours is anywhere: a daemon that is to be removed may go.
#[test]
fn i4_i8_released_is_only_what_is_known_to_be_so() {
    let released = |change: fn(&mut Facts)| {
        let mut facts = about_to_take();
        change(&mut facts);
        released(&facts, &policy(), now())
    };
    assert!(released(|_| {}));
    assert!(!released(|facts| facts.started = false));
    assert!(!released(
        |facts| facts.record.hold = Some(hold(4, "another"))
    ));
    assert!(!released(|facts| slot(facts).holder = Some(ME.to_owned())));
    assert!(!released(|facts| {
        let label = (names::SLOT.to_owned(), "default".to_owned());
        own(facts).labels.extend([label]);
    }));
}

#[test]
fn ready_is_who_queues_or_waits_for_the_pause_of_the_group_alone() {
    let pause = || Closed {
        gate: Gate::GroupPaused,
        ..shut()
    };
    for (phase, closed, since) in [
        (Phase::Queued, vec![], true),
        (Phase::Queued, vec![shut()], true),
        (Phase::Pending, vec![], false),
        (Phase::Pending, vec![shut()], false),
        (Phase::Pending, vec![pause(), shut()], false),
        (Phase::Pending, vec![pause()], true),
        (Phase::Idle, vec![pause()], false),
        (Phase::Draining, vec![], false),
    ] {
        let mut facts = about_to_take();
        let mut step = decide(&facts, &policy(), now());
        (step.phase, facts.closed) = (phase, closed);
        facts.ready = None;
        let first = ready(&facts, &step, now());
        assert_eq!(first, since.then_some(NOW), "{phase} {:?}", facts.closed);
        facts.ready = Some(Duration::from_secs(7));
        let later = ready(&facts, &step, now());
        assert_eq!(later, since.then_some(Duration::from_secs(7)));
    }
}

/// All Nodes are counted only where the labels have not decided yet.
#[test]
fn the_nodes_are_counted_where_no_label_decides() {
    let matters = |change: fn(&mut Facts)| {
        let mut facts = about_to_take();
        change(&mut facts);
        let peers = facts.peers.clone().unwrap();
        census_matters(&facts, &policy(), &peers)
    };
    assert!(matters(|_| {}));
    assert!(!matters(|facts| table::peer(facts, "default", false)));
    assert!(!matters(|facts| slot(facts).group = "other".to_owned()));
    assert!(!matters(|facts| slot(facts).paused = Some("why".to_owned())));
    assert!(matters(|facts| facts.record.hold = Some(hold(4, "u"))));
    assert!(!matters(|facts| {
        facts.record.hold = Some(hold(4, "u"));
        table::peer(facts, "default", false);
    }));
}

/// A request that ends without a reboot is counted, so that one that comes and goes waits longer each time.
#[test]
fn i10_a_request_that_ended_counts_and_is_forgotten_with_time() {
    let mut facts = about_to_take();
    facts.observed.request = None;
    let step = decide(&facts, &policy(), now());
    let flaps = step.record.flaps.clone().expect("counted");
    assert_eq!((flaps.times, step.record.request), (1, None));
    facts.observed.request = Some(request());
    assert_eq!(decide(&facts, &policy(), now()).record.flaps, None);

    // Both are on record for as long as they count, although nothing asks for a reboot.
    let hours = |hours: u64| Duration::from_secs(3600 * hours);
    let later = |boot: Duration| Now { boot, ..now() };
    for (after, flapped, failed) in [(0, true, true), (1, false, true), (6, false, false)] {
        let mut facts = about_to_take();
        (facts.record.request, facts.observed.request) = (None, None);
        facts.record.flaps = Some(Flaps {
            times: 1,
            boot: boot("now"),
            until: NOW,
        });
        facts.record.backoff = Some(Backoff {
            failures: 1,
            boot: boot("now"),
            until: NOW,
            why: "failed".to_owned(),
        });
        let record = decide(&facts, &policy(), later(NOW + hours(after))).record;
        assert_eq!(record.flaps.is_some(), flapped, "{after} h");
        assert_eq!(record.backoff.is_some(), failed, "{after} h");
    }
}

/// A Node that was registered anew is marked before it is the hold's, and the hold is of that one from then on.
#[test]
fn i1_i3_a_node_that_was_registered_anew_is_marked_first() {
    let facts = |change: fn(&mut Facts)| {
        let mut facts = booted(Stage::Rebooting);
        let node = own(&mut facts);
        "another".clone_into(&mut node.uid);
        node.labels.clear();
        node.annotations.clear();
        node.unschedulable = false;
        node.cordon_owners.clear();
        change(&mut facts);
        facts
    };
    let step = |change: fn(&mut Facts)| decide(&facts(change), &policy(), now());
    let Effect::Apply { set, point } = step(|_| {}).effect else {
        panic!("not marked");
    };
    assert!(set.unschedulable && set.labels.contains_key(names::SLOT));
    // Landed, although full annotations had no room for the record.
    let mut landed = facts(|_| {});
    own(&mut landed).labels = set.labels;
    assert!(matches!(
        decide(&landed, &policy(), now()).effect,
        Effect::Apply { .. }
    ));
    landed.applied = Some(Applied { point, at: NOW });
    let adopted = decide(&landed, &policy(), now());
    let hold = adopted.record.hold.unwrap();
    assert_eq!((adopted.effect, hold.step), (Effect::Wait, 5));
    assert_eq!(hold.node_uid.as_deref(), Some("another"));

    let adopts: [fn(&mut Facts); 3] = [
        |facts| slot(facts).holder = Some("n2".to_owned()),
        |facts| facts.denied = Some("denied".to_owned()),
        |facts| facts.record.hold.as_mut().unwrap().stage = Stage::Uncordoned,
    ];
    for (row, change) in adopts.into_iter().enumerate() {
        let hold = step(change).record.hold.unwrap();
        assert_eq!(hold.node_uid.as_deref(), Some("another"), "{row}");
    }
    assert!(matches!(
        step(|facts| slot(facts).read = None).effect,
        Effect::ReadLease(_)
    ));
}

/// Whose cordon the adopted Node carries: another one's on a Node that was replaced; before the label nobody's of ours.
#[test]
fn i3_an_adopted_node_says_whose_cordon_it_carries() {
    for (uid, boot_, foreign, there, then) in [
        (Some("old"), "before", true, false, false),
        (Some("old"), "before", false, true, true),
        (None, "before", false, true, true),
        (None, "before", false, false, false),
        (None, "before", true, false, true),
        (None, "", false, true, false),
        (None, "", true, true, true),
    ] {
        let mut facts = booted(Stage::Uncordoned);
        let hold = facts.record.hold.as_mut().unwrap();
        hold.node_uid = uid.map(str::to_owned);
        hold.foreign_cordon = foreign;
        if boot_.is_empty() {
            hold.boot = Boot::unknown();
        }
        let node = own(&mut facts);
        node.unschedulable = there;
        node.cordon_owners = vec!["kubectl-cordon".to_owned()];
        let step = decide(&facts, &policy(), now());
        assert!(matches!(stage(&step), Some(Stage::Uncordoned)));
        let hold = step.record.hold.unwrap();
        assert_eq!(
            hold.foreign_cordon, then,
            "{uid:?} {boot_:?} {foreign} {there}"
        );
        assert_eq!(hold.node_uid.as_deref(), Some("node-uid"));
    }
}
