//! Nothing leaks (I3, I4, I6): what is refused, unread or taken away keeps neither slot nor cordon.

use super::table::{about_to_reboot, about_to_take, own, shown, shut};
use super::*;
use crate::node::Node;

/// The host has booted; its hold is at `stage`, on disk and on the Node.
pub(super) fn booted(stage: Stage) -> Facts {
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    hold.boot = boot("before");
    hold.stage = stage;
    let text = facts.record.annotation().unwrap();
    let node = own(&mut facts);
    node.annotations.insert(names::STATE.to_owned(), text);
    facts.applied = None;
    facts
}

#[test]
fn i4_a_list_of_waiters_that_cannot_be_had_keeps_no_slot() {
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    hold.stage = Stage::Undoing(Why::Withdrawn);
    facts.applied = Some(Applied {
        point: Point::of(hold),
        at: NOW,
    });
    let node = own(&mut facts);
    node.labels.clear();
    node.annotations.clear();
    node.unschedulable = false;
    let next = |facts: &Facts| decide(facts, &policy(), now()).effect;
    assert_eq!(next(&facts), Effect::ListWaiters);
    // No answer: once more, and no more.
    facts.waiters = Some(Waiters::unlisted(None, NOW, false));
    assert_eq!(next(&facts), Effect::ListWaiters);
    facts.waiters = Some(Waiters::unlisted(facts.waiters.as_ref(), NOW, false));
    assert!(matches!(next(&facts), Effect::GiveUp(give_up) if give_up.next.is_empty()));
    facts.waiters = Some(Waiters::unlisted(None, NOW, true));
    assert!(matches!(next(&facts), Effect::GiveUp(_)));
}

/// Once: the rights of the coordinator were pruned while the host was down, and a start wants the Leases.
#[test]
fn i3_a_start_goes_on_without_the_leases_where_a_hold_is_on_record() {
    let begins = |change: fn(&mut Facts)| {
        let mut facts = booted(Stage::Rebooting);
        facts.started = false;
        facts.listed = Err("denied".to_owned());
        facts.leases.clear();
        change(&mut facts);
        decide(&facts, &policy(), now()).effect == Effect::Begin
    };
    assert!(begins(|_| {}));
    // The disk was lost: the Node tells.
    assert!(begins(|facts| facts.record = Record::default()));
    assert!(begins(|facts| own(facts).annotations.clear()));
    assert!(begins(
        |facts| facts.record.hold.as_mut().unwrap().boot = boot("now")
    ));
    // What only the Leases can tell is waited for.
    assert!(!begins(|facts| facts.node = Seen::Unknown));
    assert!(!begins(|facts| facts.record.hold = None));
    assert!(!begins(|facts| {
        facts.record.hold.as_mut().unwrap().take.uid = "another".to_owned();
    }));
    assert!(!begins(|facts| {
        own(facts).annotations.clear();
        facts.record.hold.as_mut().unwrap().stage = Stage::Taking;
    }));
}

/// What the hold writes last before logind, and what it sets on the Node: neither is sent for ever.
#[test]
fn i2_i3_what_is_refused_before_logind_is_asked_undoes() {
    let refused = |change: fn(&mut Facts)| {
        let mut facts = about_to_reboot();
        let hold = facts.record.hold.as_ref().unwrap();
        facts.refused = Some(RefusedApply {
            point: Point::of(hold),
            why: "a policy".to_owned(),
        });
        change(&mut facts);
        let stage = decide(&facts, &policy(), now()).record.hold.unwrap().stage;
        matches!(stage, Stage::Undoing(Why::Refused(_)))
    };
    assert!(refused(|_| {}), "written ahead, and not asked");
    assert!(refused(|facts| {
        let hold = facts.record.hold.as_mut().unwrap();
        (hold.asks, hold.asked) = (0, None);
        facts.fenced = None;
    }));
    // logind may have been asked: the host may go down.
    assert!(!refused(|facts| facts.fenced = None));
    assert!(!refused(|facts| facts.shutting_down = true));
    assert!(!refused(
        |facts| facts.refused.as_mut().unwrap().point = Point::default()
    ));
}

/// Found by review: rights were pruned in mid-drain and the daemon restarted: it asked for its Lease for ever, cordoned.
#[test]
fn i3_i7_a_drain_that_only_waits_for_answers_ends() {
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.stage, hold.asks, hold.asked) = (Stage::Draining, 0, None);
    facts.fenced = None;
    facts.leases.clear();
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.effect, Effect::ReadLease("default".to_owned()));
    facts.in_stage = Duration::from_secs(301);
    let step = decide(&facts, &policy(), now());
    let stage = step.record.hold.unwrap().stage;
    assert!(matches!(stage, Stage::Undoing(_)), "{stage:?}");
    // Pods have a time of their own.
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.stage, hold.asks, hold.asked) = (Stage::Draining, 0, None);
    facts.fenced = None;
    facts.in_stage = Duration::from_secs(301);
    facts.drain = Drained::Unmounting {
        words: "1 volume".to_owned(),
        wake: None,
    };
    let step = decide(&facts, &policy(), now());
    assert!(rests(&facts, &step));
    assert_eq!(step.record.hold.unwrap().stage, Stage::Draining);
}

/// A slot that was taken, and whose label or list of the others is never answered, is not kept.
#[test]
fn i3_i7_a_claim_that_only_waits_for_answers_ends() {
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.stage, hold.asks, hold.asked) = (Stage::Claiming, 0, None);
    (facts.fenced, facts.peers) = (None, None);
    for lease_known in [true, false] {
        if !lease_known {
            facts.leases.clear();
        }
        facts.in_stage = Duration::from_secs(299);
        let step = decide(&facts, &policy(), now());
        assert!(!matches!(step.effect, Effect::Wait), "it asks");
        assert_eq!(step.record.hold.unwrap().stage, Stage::Claiming);
        facts.in_stage = Duration::from_secs(301);
        let step = decide(&facts, &policy(), now());
        let stage = step.record.hold.unwrap().stage;
        assert!(matches!(stage, Stage::Undoing(_)), "{stage:?}");
    }
}

/// Found by review: a drain that was begun by a process which is gone, and whose pods the API server does not list any
/// more, waited for the list for ever.
#[test]
fn i3_i7_a_drain_whose_pods_are_never_listed_ends() {
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.stage, hold.asks, hold.asked) = (Stage::Draining, 0, None);
    facts.fenced = None;
    facts.drain = Drained::Starting;
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.effect, Effect::Wait);
    assert!(!rests(&facts, &step));
    facts.in_stage = Duration::from_secs(301);
    let step = decide(&facts, &policy(), now());
    let stage = step.record.hold.unwrap().stage;
    assert!(matches!(stage, Stage::Undoing(_)), "{stage:?}");
    // The same when they were listed, and are not seen any more although the API server answers.
    for unseen in [false, true] {
        facts.drain = Drained::Going {
            escalate: Vec::new(),
            deleted: false,
            evict: Vec::new(),
            words: "1 pod left".to_owned(),
            spent: Duration::from_secs(1),
            confirm: false,
            unseen,
            wake: None,
            blocked: Vec::new(),
        };
        let step = decide(&facts, &policy(), now());
        let stage = step.record.hold.unwrap().stage;
        assert_eq!(matches!(stage, Stage::Undoing(_)), unseen, "{stage:?}");
    }
}

/// Found by review: a node that was paused over its reboot lost its state file while it gave the slot up; what its
/// Node carried tells of no settled request, and it said "giving the slot up" for ever.
#[test]
fn i6_a_give_up_that_is_found_on_the_node_alone_ends() {
    let mut facts = booted(Stage::Releasing);
    facts.host_health = Ok(());
    facts.pod_health = Ok(());
    assert_eq!(facts.record.settled, None);
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.record.settled.as_ref().unwrap().boot, facts.boot);
    facts.record = step.record;
    let step = decide(&facts, &policy(), now());
    assert!(
        !matches!(step.effect, Effect::Wait),
        "it goes on: {}",
        step.status
    );
}

#[test]
fn i3_a_healthy_node_is_uncordoned_although_its_lease_cannot_be_read() {
    let mut facts = booted(Stage::Rebooting);
    facts.leases.clear();
    facts.listed = Err("denied".to_owned());
    facts.denied = Some("denied; are the manifests applied?".to_owned());
    facts.host_health = Ok(());
    let step = decide(&facts, &policy(), now());
    assert!(
        matches!(&step.effect, Effect::Apply { set, .. } if !set.unschedulable),
        "{:?}",
        step.effect
    );
    // What remains is asked for again, and said with its cure.
    let hold = facts.record.hold.as_mut().unwrap();
    hold.stage = Stage::Releasing;
    facts.applied = Some(Applied {
        point: Point::of(hold),
        at: NOW,
    });
    facts.record.settled = Some(Settled::of(None, &boot("now"), NOW));
    let node = own(&mut facts);
    node.labels.clear();
    node.annotations.clear();
    node.unschedulable = false;
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.effect, Effect::ReadLease("default".to_owned()));
    assert!(
        step.status.contains("are the manifests applied?"),
        "{}",
        step.status
    );
}

#[test]
fn i3_an_apply_that_is_refused_before_logind_was_asked_undoes() {
    for stage in [Stage::Claiming, Stage::Draining, Stage::Rebooting] {
        let mut facts = about_to_reboot();
        let hold = facts.record.hold.as_mut().unwrap();
        hold.stage = stage.clone();
        let point = Point::of(hold);
        let why = "denied by webhook".to_owned();
        facts.refused = Some(RefusedApply { point, why });
        let step = decide(&facts, &policy(), now());
        let Some(Stage::Undoing(why)) = step.record.hold.map(|hold| hold.stage) else {
            panic!("{stage:?}: {}", step.status)
        };
        assert!(why.backs_off() && why.words().contains("denied by webhook"));
        // Of another step of the hold it says nothing.
        facts.refused.as_mut().unwrap().point.step = 1;
        let step = decide(&facts, &policy(), now());
        let undoes = |hold: &Hold| matches!(hold.stage, Stage::Undoing(_));
        assert!(!step.record.hold.as_ref().is_some_and(undoes), "{stage:?}");
    }
    // A host that may be going down is not uncordoned.
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.asks, hold.asked) = (1, Some(NOW));
    let point = Point::of(hold);
    let why = String::new();
    facts.refused = Some(RefusedApply { point, why });
    facts.fenced = None;
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.record.hold.unwrap().stage, Stage::Rebooting);
}

/// Once: a give-back waited for a 200 that a policy never gives.
#[test]
fn i4_nothing_demands_an_apply_where_nothing_of_ours_is_there() {
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    hold.stage = Stage::Undoing(Why::Refused("policy".to_owned()));
    let point = Point::of(hold);
    let why = "policy".to_owned();
    facts.applied = None;
    facts.waiters = Some(Waiters::listed(NOW, Vec::new()));
    let bare = |node: &mut Node| {
        node.labels.clear();
        node.annotations.clear();
        node.unschedulable = false;
        node.cordon_owners.clear();
    };
    bare(own(&mut facts));
    let next = |facts: &Facts| decide(facts, &policy(), now()).effect;
    assert!(
        matches!(next(&facts), Effect::Apply { .. }),
        "an earlier one may be on its way"
    );
    facts.refused = Some(RefusedApply { point, why });
    own(&mut facts).read = None;
    assert_eq!(next(&facts), Effect::ReadNode);
    own(&mut facts).read = Some(NOW);
    assert!(
        matches!(next(&facts), Effect::GiveUp(_)),
        "{:?}",
        next(&facts)
    );
    own(&mut facts)
        .labels
        .insert(names::SLOT.to_owned(), "default".to_owned());
    assert!(matches!(next(&facts), Effect::Apply { .. }));
}

#[test]
fn i3_what_a_hold_sets_on_the_node_is_tried_before_the_take() {
    let mut facts = about_to_take();
    facts.rehearsed = None;
    let step = decide(&facts, &policy(), now());
    let Effect::Rehearse(set) = &step.effect else {
        panic!("{:?}", step.effect)
    };
    assert!(set.unschedulable && set.annotations.contains_key(names::STATE));
    assert_eq!(set.labels.get(names::SLOT).unwrap(), "default");
    assert_eq!(step.record.hold, None);
    // With all that the record will hold: a policy may bound its length.
    let tried = Record::decode(&set.annotations[names::STATE]).unwrap();
    let hold = tried.hold.unwrap();
    assert_eq!(hold.node_uid.as_deref(), Some("node-uid"));
    assert_eq!((hold.stage, hold.marks), (Stage::Draining, facts.marks));
    // Refused: a closed gate with the server's words, until it is tried again.
    let refused = |ago: u64| {
        let mut facts = about_to_take();
        facts.rehearsed = Some(Rehearsed {
            at: NOW.checked_sub(Duration::from_secs(ago)).unwrap(),
            said: Err("admission webhook denied it".to_owned()),
        });
        decide(&facts, &policy(), now())
    };
    let step = refused(10);
    // It keeps its place, and nobody keeps a turn for it.
    let shows = Effect::Mark(shown(false));
    assert_eq!((step.phase, &step.effect), (Phase::Pending, &shows));
    assert!(
        step.status.contains("admission webhook denied it"),
        "{}",
        step.status
    );
    assert!(matches!(refused(600).effect, Effect::Rehearse(_)));
    // A yes is good for ten minutes.
    for (seconds, good) in [(600, true), (601, false)] {
        let mut facts = about_to_take();
        facts.rehearsed.as_mut().unwrap().at =
            NOW.checked_sub(Duration::from_secs(seconds)).unwrap();
        let effect = decide(&facts, &policy(), now()).effect;
        assert_eq!(matches!(effect, Effect::Take(_)), good, "{seconds}");
        assert_eq!(matches!(effect, Effect::Rehearse(_)), !good, "{seconds}");
    }
}

/// Once: a take that a policy refuses was written ahead, sent and journalled every few seconds for ever.
#[test]
fn a_take_that_is_refused_backs_off() {
    let mut facts = about_to_take();
    let hold = Hold::begin(take(), boot("now"));
    facts.record.hold = Some(hold);
    facts.take.said = Some(TakeSaid::Refused("policy x".to_owned()));
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.record.hold, None);
    let backoff = step.record.backoff.clone().expect("backs off");
    assert!(backoff.until >= NOW + policy().retry && backoff.why.contains("policy x"));
    facts.record = step.record;
    let step = decide(&facts, &policy(), now());
    // It keeps its place, and nobody keeps a turn for it.
    let shows = Effect::Mark(shown(false));
    assert_eq!((step.phase, &step.effect), (Phase::Pending, &shows));
    // Without a break: nothing is written.
    assert_eq!(step.record, facts.record);
}

/// Once: an inhibitor that came at the end of `reboot.delay` undid a drained node at once.
#[test]
fn a_gate_that_closes_late_has_its_own_time() {
    let delay = Duration::from_secs(20 * 60);
    let policy = Policy { delay, ..policy() };
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    hold.stage = Stage::Draining;
    let ago = |seconds: u64| NOW.checked_sub(Duration::from_secs(seconds)).unwrap();
    facts.drain = Drained::Done {
        at: ago(20 * 60 + 280),
    };
    facts.closed.push(shut());
    let mut undoes = |since: Duration| {
        facts.closed_since = Some(since);
        let step = decide(&facts, &policy, now());
        step.phase == Phase::Undoing
    };
    assert!(!undoes(ago(1)), "it has just closed");
    assert!(!undoes(ago(290)), "the delay ended 280 s ago");
    facts.drain = Drained::Done {
        at: ago(20 * 60 + 301),
    };
    let mut undoes = |since: Duration| {
        facts.closed_since = Some(since);
        decide(&facts, &policy, now()).phase == Phase::Undoing
    };
    assert!(!undoes(ago(299)));
    assert!(undoes(ago(300)));
    assert!(undoes(ago(1_000)));
}
