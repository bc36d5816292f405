//! Tables of what a node says while it waits, when it wakes, and what its steps keep of the record (I2, I4, I6). cargo-mutants
//! found that only the simulator showed this.

use super::queue::{STALE_AFTER, about_to_clear, claiming};
use super::table::{about_to_reboot, about_to_take, own, place, shown, shut, slot};
use super::waits::ago;
use super::*;
use crate::reason::Reason;
use crate::shutdown::Scheduled;
use crate::trigger::{BY_SCHEDULE, Flaps, Latched};

fn next(facts: &Facts) -> Step {
    decide(facts, &policy(), now())
}

fn in_a_minute() -> Duration {
    NOW + Duration::from_secs(60)
}

fn failed(facts: &mut Facts) {
    facts.record.backoff = Some(Backoff {
        failures: 1,
        boot: boot("now"),
        until: in_a_minute(),
        why: "no answer".to_owned(),
    });
}

fn flaps(facts: &mut Facts) {
    facts.record.flaps = Some(Flaps {
        times: 3,
        boot: boot("now"),
        until: in_a_minute(),
    });
}

/// A dry run was refused four minutes ago.
fn refused(facts: &mut Facts) {
    facts.rehearsed = Some(Rehearsed {
        at: ago(240),
        said: Err("denied".to_owned()),
    });
}

/// What is in the way for a minute, what is said of it, and what of that is the same all the time.
type Row = (fn(&mut Facts), &'static str, &'static str);

#[test]
fn what_is_in_the_way_for_a_time_is_waited_for_until_then() {
    let refusal = "what a hold sets on this Node would be refused: denied";
    let rows: [Row; 3] = [
        (
            failed,
            "1 failed attempt, next in 1m 1s: no answer",
            "1 failed attempt, the next is later: no answer",
        ),
        (
            flaps,
            "what asks for it came and went 3 times of late; it counts again in 1m 1s if it stays",
            "what asks for it came and went 3 times of late",
        ),
        (refused, refusal, refusal),
    ];
    for (change, status, waits) in rows {
        for (waiting, mark) in [
            (None, Mark::None),
            (Some(place()), Mark::Shown(shown(false))),
        ] {
            let mut facts = about_to_take();
            change(&mut facts);
            (facts.record.waiting, facts.mark) = (waiting, mark);
            let step = next(&facts);
            assert_eq!((step.phase, &step.effect), (Phase::Pending, &Effect::Wait));
            assert_eq!(step.status, format!("reboot pending: {status}"));
            assert_eq!(step.waits.as_deref(), Some(waits));
            assert_eq!(step.wake, Some(in_a_minute()), "{status}");
            let then = Now {
                boot: in_a_minute(),
                ..now()
            };
            assert_eq!(decide(&facts, &policy(), then).phase, Phase::Queued);
        }
    }
}

/// The condition tells three failures in a row, and a slot that stays, from what goes on by itself.
#[test]
fn what_needs_a_person_has_a_reason_of_its_own() {
    for (failures, reason) in [
        (1, Reason::BackingOff),
        (2, Reason::BackingOff),
        (3, Reason::Failing),
    ] {
        let mut facts = about_to_take();
        failed(&mut facts);
        facts.record.backoff.as_mut().unwrap().failures = failures;
        assert_eq!(next(&facts).reason, reason, "{failures}");
    }
    for (seconds, reason) in [(600, Reason::Undoing), (601, Reason::NotReleased)] {
        let mut facts = about_to_reboot();
        facts.record.hold.as_mut().unwrap().stage = Stage::Undoing(Why::Withdrawn);
        facts.giving_back = Duration::from_secs(seconds);
        assert_eq!(next(&facts).reason, reason, "{seconds} s");
    }
}

/// What is changed, and whether the node then waits in the queue for the end of the pause.
type Paused = (fn(&mut Facts), bool);

#[test]
fn behind_a_pause_of_the_group_only_who_could_take_has_a_place() {
    let rows: [Paused; 7] = [
        (|_| {}, true),
        (|f| f.closed.push(shut()), false),
        (|f| f.writable = false, false),
        (|f| f.shutting_down = true, false),
        (|f| f.limited = Some(wall()), false),
        (failed, false),
        (flaps, false),
    ];
    for (row, (change, waits)) in rows.into_iter().enumerate() {
        let mut facts = about_to_take();
        (facts.record.waiting, facts.mark) = (None, Mark::None);
        facts.closed = vec![Closed {
            gate: Gate::GroupPaused,
            ..shut()
        }];
        change(&mut facts);
        let step = next(&facts);
        assert_eq!(step.phase, Phase::Pending);
        assert_eq!(step.record.waiting.is_some(), waits, "{row}");
        let shows = step.effect == Effect::Mark(shown(true));
        assert_eq!(shows, waits, "{row}: {:?}", step.effect);
    }
}

#[test]
fn what_was_not_cleared_is_told_by_name() {
    let mut facts = about_to_take();
    (facts.record.request, facts.observed.request) = (None, None);
    let mut other = request().reasons.remove(0);
    other.trigger = "check dnf".to_owned();
    facts.observed.uncleared = vec![request().reasons.remove(0), other];
    let status = next(&facts).status;
    let names = "did not clear sentinel, check dnf; ";
    assert!(status.contains(names), "{status}");
}

#[test]
fn an_observer_knows_when_the_interval_and_a_look_are_over() {
    let observer = Policy {
        observe: true,
        min_interval: Duration::from_secs(600),
        ..policy()
    };
    for (seen, asked, would) in [
        (599, 0, Some("wait: coordination.min_interval is not over")),
        (600, 0, Some("take slot default")),
        (600, 299, Some("take slot default")),
        (600, 300, None),
    ] {
        let mut facts = about_to_take();
        slot(&mut facts).last_seen = Some(ago(seen));
        facts.peers.as_mut().unwrap().asked = ago(asked);
        let step = decide(&facts, &observer, now());
        assert_eq!(step.would.as_deref(), would, "{seen} {asked}");
        let lists = step.effect == Effect::ListPeers;
        assert_eq!(lists, would.is_none(), "{seen} {asked}");
    }
}

/// Seconds since the Node was seen to be gone, and since when it is held; what is said of the holder.
#[test]
fn a_holder_that_is_gone_or_holds_for_long_is_told_with_its_time() {
    let minutes = STALE_AFTER.as_secs() / 60;
    let gone = |why: &str| {
        format!(
            ", whose Node is {why} for 10 min (cleared after {minutes} min if no Node claims the slot and it is not \
             paused)"
        )
    };
    let long =
        |hours: u64| format!(" for {hours} h or longer (kube-rebootd nodes tells how far it is)");
    for (absent, out, held, words) in [
        (Some(659), false, 7_200, gone("gone")),
        (Some(600), true, 7_200, gone("out of service")),
        (None, false, 7_200, long(2)),
        (None, false, 3_600, long(1)),
        (None, false, 3_599, String::new()),
    ] {
        let mut facts = about_to_clear();
        slot(&mut facts).held = Some(ago(held));
        let look = facts.looks.get_mut("default").unwrap();
        (look.absent, look.out_of_service) = (absent.map(ago), out);
        let status = next(&facts).status;
        assert_eq!(status, format!("queued: default is held by n2{words}"));
    }
}

/// What is changed, and whether the shutdown is cancelled.
type Cancels = (fn(&mut Facts), bool);

/// A reboot that somebody else scheduled is cancelled instead of the step; that step's intent is not written down.
#[test]
fn i6_a_cancelled_shutdown_takes_the_place_of_the_step() {
    let rows: [Cancels; 3] = [
        (|_| {}, true),
        (|f| f.adopts = None, false),
        (|f| f.writable = false, false),
    ];
    for (change, cancels) in rows {
        let mut facts = about_to_take();
        facts.adopts = Scheduled::of("reboot", 1_800_000_000_000_000);
        let request = facts.record.request.as_mut().unwrap();
        request.latched.push(Latched {
            by: BY_SCHEDULE.to_owned(),
            reason: "shutdown".to_owned(),
            at: wall(),
            boot: Some(boot("now")),
            ended: false,
            kind: Kind::Reboot,
        });
        facts.observed.request = facts.record.request.clone();
        change(&mut facts);
        let step = next(&facts);
        assert_eq!(step.effect == Effect::CancelShutdown, cancels);
        if cancels {
            assert_eq!(step.record, facts.record);
        }
    }
}

#[test]
fn a_request_is_followed_and_counts_as_ended_only_when_it_is_gone() {
    let other = Request {
        since: wall() - Duration::from_secs(1),
        ..request()
    };
    let settled = || Some(Settled::of(Some(&request()), &boot("now"), NOW));
    for (before, after, settled, ended) in [
        (None, None, settled(), false),
        (Some(request()), Some(other.clone()), None, false),
        (None, Some(other), settled(), false),
        (Some(request()), None, None, true),
    ] {
        let mut facts = about_to_take();
        facts.record.request = before;
        facts.observed.request.clone_from(&after);
        facts.observed.settled.clone_from(&settled);
        let record = next(&facts).record;
        assert_eq!((record.request, record.settled), (after, settled));
        assert_eq!(record.flaps.is_some(), ended);
    }
}

#[test]
fn i4_a_refusal_of_another_step_changes_nothing_that_is_set() {
    let mut facts = claiming();
    let why = "denied".to_owned();
    let point = Point::default();
    facts.refused = Some(RefusedApply { point, why });
    let step = next(&facts);
    let Effect::Apply { set, .. } = &step.effect else {
        panic!("{}", step.status)
    };
    assert!(set.unschedulable);
    let text = step.record.annotation();
    assert_eq!(set.annotations.get(names::STATE), text.as_ref());
}

/// logind has accepted: however long that takes, nothing is undone.
#[test]
fn i2_a_shutdown_that_is_under_way_is_waited_for_as_long_as_it_takes() {
    let mut facts = about_to_reboot();
    facts.shutting_down = true;
    facts.in_stage = Duration::from_secs(3600);
    let step = next(&facts);
    assert_eq!(step.effect, Effect::Wait);
    assert_eq!(step.record.hold.unwrap().stage, Stage::Rebooting);
}

/// It is written ahead that logind is asked, after all that was read for it.
#[test]
fn i2_what_was_read_right_before_the_intent_counts_for_it() {
    let mut facts = about_to_reboot();
    facts.confirmed = Some(ago(1));
    facts.last_list.as_mut().unwrap().asked = ago(1);
    assert_eq!(facts.record.hold.as_ref().unwrap().asked, Some(NOW));
    assert_eq!(next(&facts).effect, Effect::AskReboot);
}

/// What is left on the Node after it was given back; what comes next of it.
#[test]
fn i3_i4_what_is_left_of_a_hold_is_taken_off_before_its_slot_is_given_up() {
    let releasing = |foreign: bool| {
        let mut facts = about_to_reboot();
        let hold = facts.record.hold.as_mut().unwrap();
        hold.stage = Stage::Undoing(Why::Withdrawn);
        hold.foreign_cordon = foreign;
        let point = Point::of(hold);
        facts.applied = Some(Applied { point, at: NOW });
        facts.waiters = Some(Waiters::listed(NOW, Vec::new()));
        let node = own(&mut facts);
        node.labels.clear();
        node.annotations.clear();
        (node.unschedulable, node.cordon_owners) = (false, Vec::new());
        facts
    };
    let labelled = |facts: &mut Facts| {
        let label = (names::SLOT.to_owned(), "default".to_owned());
        own(facts).labels.extend([label]);
    };
    let mut facts = releasing(false);
    own(&mut facts).read = None;
    assert!(matches!(next(&facts).effect, Effect::GiveUp(_)));
    labelled(&mut facts);
    assert_eq!(next(&facts).effect, Effect::ReadNode);
    own(&mut facts).read = Some(NOW);
    let Effect::Mend(left) = next(&facts).effect else {
        panic!("the label is there")
    };
    assert_eq!(left.labels, [names::SLOT]);
    // Who set the cordon before managed fields were kept is not told: the hold knows whether it was there before.
    for foreign in [false, true] {
        let mut facts = releasing(foreign);
        let node = own(&mut facts);
        node.unschedulable = true;
        node.cordon_owners = vec!["before-first-apply".to_owned()];
        let effect = next(&facts).effect;
        let mends = matches!(&effect, Effect::Mend(left) if left.cordon);
        assert_eq!(mends, !foreign, "{effect:?}");
    }
}
