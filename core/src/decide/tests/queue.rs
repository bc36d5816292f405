//! What a queue waits for beside a free slot: the budget, the interval, a holder that may be gone (I5, I8,
//! I13).

use super::table::{Change, STALE, about_to_take, forbids, own, peer, place, shown, shut, slot};
use super::*;
use crate::facts::Hidden;
use crate::stale::{Held, Look};

/// A small cluster with nobody down, with too many down, or not counted.
pub(super) fn census() -> impl Strategy<Value = Result<Census, String>> {
    prop_oneof![
        4 => Just(0usize).prop_map(Some),
        1 => Just(1usize).prop_map(Some),
        1 => Just(None),
    ]
    .prop_map(|down| {
        let down = down.ok_or_else(|| "denied".to_owned())?;
        Ok(Census {
            nodes: 5,
            down: (0..down).map(|number| format!("n{}", number + 4)).collect(),
            cordoned: Vec::new(),
        })
    })
}

/// Of `policy()`.
pub(super) const STALE_AFTER: Duration = Duration::from_secs(1800);
const NEARLY: Duration = Duration::from_secs(1799);
/// Longer than any hold is left alone, and than the looks are apart.
const LONG_AGO: Duration = Duration::from_secs(100);

/// Waiting behind a hold whose Node has been gone for long enough: the next step clears.
pub(super) fn about_to_clear() -> Facts {
    let mut facts = about_to_take();
    let lease = slot(&mut facts);
    lease.holder = Some("n2".to_owned());
    lease.acquire_time = Some(wall());
    lease.held = Some(LONG_AGO);
    let look = Look {
        held: Held::of(lease).unwrap(),
        asked: NOW,
        absent: NOW.checked_sub(STALE_AFTER),
        out_of_service: false,
    };
    facts.looks.insert("default".to_owned(), look);
    facts.waiters = Some(Waiters {
        asked: NOW,
        list: Vec::new(),
        failed: 0,
    });
    facts
}

fn look(facts: &mut Facts) -> &mut Look {
    facts.looks.get_mut("default").unwrap()
}

#[test]
fn i5_i13_every_single_thing_that_forbids_a_clearing() {
    let facts = about_to_clear();
    let step = decide(&facts, &policy(), now());
    let Effect::Clear { holder, give_up } = &step.effect else {
        panic!("{:?}: {}", step.effect, step.status);
    };
    assert_eq!((holder.as_str(), give_up.lease.as_str()), ("n2", "default"));
    assert_eq!(give_up.resource_version, "6");
    assert_eq!(give_up.next, [ME], "its own place in the queue");
    let changes: [Change; 17] = [
        ("a control-plane node", |f| slot(f).control_plane = true),
        ("a newer protocol", |f| slot(f).protocol = 2),
        ("a paused slot", |f| slot(f).paused = Some("why".to_owned())),
        ("another holder", |f| slot(f).holder = Some("n3".to_owned())),
        ("another hold of the same", |f| {
            slot(f).acquire_time = Some(Timestamp::UNIX_EPOCH);
        }),
        ("a recreated Lease", |f| slot(f).uid = "new".to_owned()),
        ("a young hold", |f| slot(f).held = Some(NOW)),
        ("no look", |f| f.looks.clear()),
        ("a Node that was there", |f| look(f).absent = None),
        ("a Node that is not gone long enough", |f| {
            look(f).absent = NOW.checked_sub(NEARLY);
        }),
        ("an old look", |f| look(f).asked = table::LONG_AGO),
        ("a Node that claims it", |f| peer(f, "default", false)),
        ("the own Node that claims it", |f| {
            let label = (names::SLOT.to_owned(), "default".to_owned());
            own(f).labels.extend([label]);
        }),
        ("no look at the peers", |f| f.peers = None),
        ("a look at the peers from before", |f| {
            f.peers.as_mut().unwrap().asked = STALE;
        }),
        ("no list of waiters", |f| f.waiters = None),
        ("no request", |f| f.observed.request = None),
    ];
    forbids(about_to_clear, &changes, |effect| {
        matches!(effect, Effect::Clear { .. })
    });
}

#[test]
fn i5_a_look_is_made_now_and_then_and_only_at_a_long_hold() {
    let mut facts = about_to_clear();
    facts.looks.clear();
    let ask = |facts: &Facts| decide(facts, &policy(), now());
    assert!(matches!(ask(&facts).effect, Effect::ReadHolder(_)));
    slot(&mut facts).held = NOW.checked_sub(NEARLY);
    let step = ask(&facts);
    assert_eq!(step.effect, Effect::Wait, "{}", step.status);
    assert!(step.wake.unwrap() <= NOW + Duration::from_secs(301));
    // A Node that is there: again in five to ten minutes.
    let mut facts = about_to_clear();
    look(&mut facts).absent = None;
    for (ago, again) in [(0, false), (299, false), (601, true)] {
        look(&mut facts).asked = NOW.checked_sub(Duration::from_secs(ago)).unwrap();
        let asks = matches!(ask(&facts).effect, Effect::ReadHolder(_));
        assert_eq!(asks, again, "{ago}");
    }
    // Where nodes prove their name nobody could clear it.
    let strict = Policy {
        stale_after: None,
        ..policy()
    };
    assert_eq!(decide(&facts, &strict, now()).effect, Effect::Wait);
    assert_eq!(
        decide(&about_to_clear(), &strict, now()).effect,
        Effect::Wait
    );
    look(&mut facts).asked = NOW;
    // The waiting record comes first: who looks can be named.
    facts.mark = Mark::None;
    assert!(matches!(ask(&facts).effect, Effect::Mark(_)));
}

/// Longest-waiting first, whoever clears; never the holder that is gone.
#[test]
fn a_clearing_names_the_longest_waiting() {
    let mut facts = about_to_clear();
    let second = |seconds| Timestamp::from_second(1_790_000_000 + seconds).unwrap();
    let waiter = |node: &str, since: i64| Waiter {
        node: node.to_owned(),
        since: second(since),
        ready: true,
    };
    facts.waiters.as_mut().unwrap().list =
        vec![waiter("n5", 9), waiter("n2", -9), waiter("n4", -5)];
    let step = decide(&facts, &policy(), now());
    let Effect::Clear { give_up, .. } = step.effect else {
        panic!("{:?}", step.effect);
    };
    assert_eq!(give_up.next, ["n4", ME, "n5"]);
}

/// Labelled, and everything looked at: the next step cordons.
pub(super) fn claiming() -> Facts {
    let mut facts = about_to_take();
    facts.mark = Mark::None;
    let hold = Hold {
        step: 2,
        node_uid: Some("node-uid".to_owned()),
        stage: Stage::Claiming,
        ..Hold::begin(take(), boot("now"))
    };
    facts.record.hold = Some(hold.clone());
    let text = facts.record.annotation().unwrap();
    let label = (names::SLOT.to_owned(), "default".to_owned());
    own(&mut facts).labels.extend([label]);
    own(&mut facts)
        .annotations
        .insert(names::STATE.to_owned(), text);
    slot(&mut facts).holder = Some(ME.to_owned());
    slot(&mut facts).acquire_time = Some(wall());
    let at = NOW.checked_sub(Duration::from_secs(1)).unwrap();
    let point = Point::of(&hold);
    facts.applied = Some(Applied { point, at });
    facts
}

#[test]
fn i8_the_budget_sends_back_who_has_labelled_itself_and_not_cordoned() {
    let cordons = |facts: &Facts| match decide(facts, &policy(), now()).effect {
        Effect::Apply { set, .. } => set.unschedulable,
        _ => false,
    };
    assert!(cordons(&claiming()));
    for census in [
        Err("denied".to_owned()),
        Ok(Census {
            nodes: 19,
            down: vec!["n9".to_owned()],
            cordoned: Vec::new(),
        }),
    ] {
        let mut facts = claiming();
        facts.peers.as_mut().unwrap().census = census;
        let step = decide(&facts, &policy(), now());
        let stage = step.record.hold.map(|hold| hold.stage);
        assert!(
            matches!(stage, Some(Stage::Undoing(Why::Budget(_)))),
            "{stage:?}: {}",
            step.status
        );
    }
    // Waiting for the pods took too long: counted again.
    let mut facts = claiming();
    facts.applied.as_mut().unwrap().at = Duration::ZERO;
    facts.peers.as_mut().unwrap().asked = table::LONG_AGO;
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.effect, Effect::ListPeers);
}

#[test]
fn the_interval_counts_from_the_latest_hold_of_the_group() {
    let mut policy = policy();
    policy.min_interval = Duration::from_secs(600);
    let mut facts = about_to_take();
    let takes = |facts: &Facts| matches!(decide(facts, &policy, now()).effect, Effect::Take(_));
    assert!(takes(&facts), "no hold yet");
    for (ago, open) in [(600, true), (599, false), (0, false)] {
        slot(&mut facts).last_seen = NOW.checked_sub(Duration::from_secs(ago));
        assert_eq!(takes(&facts), open, "{ago}");
    }
    // The latest of the group's slots counts, held or not; a slot of another group does not.
    slot(&mut facts).last_seen = Some(LONG_AGO);
    let mut second = slot(&mut facts).clone();
    second.name = "default-2".to_owned();
    second.holder = Some("n2".to_owned());
    second.last_seen = Some(NOW);
    facts.leases.insert(second.name.clone(), second);
    assert!(!takes(&facts));
    facts.leases.get_mut("default-2").unwrap().group = "other".to_owned();
    assert!(takes(&facts));
    // Who was named goes first when it is over.
    slot(&mut facts).last_seen = NOW.checked_sub(Duration::from_secs(600));
    slot(&mut facts).freed = Some(LONG_AGO);
    slot(&mut facts).next = vec!["n3".to_owned()];
    assert!(!takes(&facts));
    slot(&mut facts).next = vec![ME.to_owned()];
    assert!(takes(&facts));
}

/// A closed gate, a back-off and a hold take nobody's place away; they only say that it is not ready.
#[test]
fn a_place_is_kept_while_it_cannot_be_used() {
    let back_off = Backoff {
        failures: 1,
        boot: boot("now"),
        until: NOW + LONG_AGO,
        why: String::new(),
    };
    for why in ["a gate", "a back-off"] {
        let mut facts = about_to_take();
        if why == "a gate" {
            facts.closed.push(shut());
        } else {
            facts.record.backoff = Some(back_off.clone());
        }
        let step = decide(&facts, &policy(), now());
        assert_eq!(step.phase, Phase::Pending, "{why}");
        assert_eq!(step.effect, Effect::Mark(shown(false)), "{why}");
        assert_eq!(step.record.waiting, Some(place()), "{why}");
        facts.mark = Mark::Shown(shown(false));
        assert_eq!(
            decide(&facts, &policy(), now()).effect,
            Effect::Wait,
            "{why}"
        );
    }
    // Ready again, behind a holder.
    let mut facts = about_to_take();
    facts.mark = Mark::Shown(shown(false));
    slot(&mut facts).holder = Some("n2".to_owned());
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.effect, Effect::Mark(shown(true)));
    // A pause of the group is no reason of this node's: it is handed the slot when the pause ends.
    let mut facts = about_to_take();
    slot(&mut facts).paused = Some("why".to_owned());
    let gate = Gate::GroupPaused;
    facts.closed.push(Closed { gate, ..shut() });
    facts.mark = Mark::None;
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.phase, Phase::Pending);
    assert_eq!(step.effect, Effect::Mark(shown(true)));
    // With another gate beside it, it is not ready.
    facts.closed.push(shut());
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.effect, Effect::Mark(shown(false)));
}

/// An API server that refuses to show the place, or a kubelet that has made no Lease yet.
#[test]
fn who_cannot_be_seen_waiting_takes_a_free_slot_all_the_same() {
    for missing in [false, true] {
        let mut facts = about_to_take();
        facts.mark = Mark::Unknown;
        facts.crowd = None;
        assert!(matches!(
            decide(&facts, &policy(), now()).effect,
            Effect::Mark(_)
        ));
        facts.hidden = Some(Hidden { at: NOW, missing });
        let step = decide(&facts, &policy(), now());
        assert_eq!(step.effect, Effect::CountWaiters);
        facts.crowd = Some(Crowd::default());
        let step = decide(&facts, &policy(), now());
        assert!(matches!(step.effect, Effect::Take(_)), "{}", step.status);
    }
}

/// A node that asked right after it joined waited five minutes before it was seen.
#[test]
fn a_heartbeat_lease_that_is_not_there_yet_is_looked_for_within_seconds() {
    for (missing, again) in [(true, 10), (false, 300)] {
        let mut facts = about_to_take();
        facts.mark = Mark::Unknown;
        for lease in facts.leases.values_mut() {
            lease.holder = Some("n2".to_owned());
        }
        facts.hidden = Some(Hidden { at: NOW, missing });
        let step = decide(&facts, &policy(), now());
        let again = NOW + Duration::from_secs(again);
        assert_eq!(step.effect, Effect::Wait);
        assert!(step.wake <= Some(again), "{:?}", step.wake);
        let then = Now {
            boot: again,
            ..now()
        };
        let step = decide(&facts, &policy(), then);
        assert!(matches!(step.effect, Effect::Mark(_)), "{:?}", step.effect);
    }
}

/// Found by review: a waiting record that a policy lets nobody take away was asked away for ever, twice a minute.
#[test]
fn i7_a_refused_clearing_of_the_waiting_record_is_tried_again_seldom() {
    let mut facts = about_to_take();
    facts.record.request = None;
    facts.observed.request = None;
    facts.record.waiting = None;
    facts.mark = Mark::Shown(shown(true));
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.effect, Effect::Unmark);
    let at = NOW;
    let missing = false;
    facts.hidden = Some(Hidden { at, missing });
    for mark in [facts.mark.clone(), Mark::Unknown] {
        facts.mark = mark;
        let step = decide(&facts, &policy(), now());
        let again = NOW + Duration::from_secs(300);
        assert_eq!((step.phase, step.effect), (Phase::Idle, Effect::Wait));
        assert!(step.wake <= Some(again), "{:?}", step.wake);
        let then = Now {
            boot: again,
            ..now()
        };
        let step = decide(&facts, &policy(), then);
        assert_ne!(step.effect, Effect::Wait);
    }
}

#[test]
fn a_hint_passes_over_who_is_not_ready() {
    let mut facts = about_to_clear();
    let waiter = |node: &str, ready| Waiter {
        node: node.to_owned(),
        since: Timestamp::UNIX_EPOCH,
        ready,
    };
    let list = [("n3", false), ("n4", true), ("n5", false)];
    facts.waiters.as_mut().unwrap().list = list.map(|(node, ready)| waiter(node, ready)).into();
    let Effect::Clear { give_up, .. } = decide(&facts, &policy(), now()).effect else {
        panic!("nothing is cleared");
    };
    assert_eq!(give_up.next, ["n4", ME]);
}
