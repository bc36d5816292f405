//! Tables of the looks of a node that waits: when it looks again, who looks first, and when it looks how many others wait
//! (I5, I13). cargo-mutants found that only the simulator showed this.

use super::queue::STALE_AFTER;
use super::table::{Change, about_to_take, own, peer, shown, shut, slot};
use super::waits::{ago, freed, others, second, with};
use super::*;
use crate::stale::first_look;

fn after(seconds: u64) -> Duration {
    NOW + Duration::from_secs(seconds)
}

fn control_plane(facts: &mut Facts) {
    let label = (names::QUORUM_ROLES[0].to_owned(), String::new());
    own(facts).labels.extend([label]);
}

/// What is in the way, for how many seconds the slot was free at the last look, how many others wait; the least pause.
type Pause = (fn(&mut Facts), u64, usize, u64);

#[test]
fn who_was_refused_a_slot_looks_again_later_each_time() {
    fn label(facts: &mut Facts) {
        peer(facts, "default", false);
    }
    fn budget(facts: &mut Facts) {
        let census = facts.peers.as_mut().unwrap().census.as_mut().unwrap();
        census.down.push("n8".to_owned());
    }
    fn not_ready(facts: &mut Facts) {
        facts.peers.as_mut().unwrap().quorum_down = Ok(vec!["n2".to_owned()]);
    }
    let rows: [Pause; 15] = [
        (label, 0, 0, 5),
        (label, 4, 0, 5),
        (label, 20, 0, 20),
        (label, 60, 0, 60),
        (label, 600, 0, 60),
        // One look a second of all of them together.
        (label, 0, 30, 30),
        (label, 0, 90, 90),
        (label, 600, 90, 90),
        // All Nodes are counted: not more often than once in a minute.
        (budget, 0, 0, 60),
        (budget, 600, 90, 90),
        // What is not Ready is waited for as long; what holds a slot, or only a worker's label, is not.
        (
            |f| {
                control_plane(f);
                not_ready(f);
            },
            0,
            0,
            60,
        ),
        (
            |f| {
                control_plane(f);
                peer(f, "other", true);
            },
            0,
            0,
            5,
        ),
        (
            |f| {
                not_ready(f);
                label(f);
            },
            0,
            0,
            5,
        ),
        (
            |f| {
                control_plane(f);
                not_ready(f);
                label(f);
                f.peers.as_mut().unwrap().counted = false;
            },
            0,
            0,
            5,
        ),
        // The pause begins when the list has come, however long it took.
        (
            |f| {
                label(f);
                freed(f, 10, &[]);
                f.peers.as_mut().unwrap().asked = ago(10);
            },
            0,
            0,
            5,
        ),
    ];
    for (row, (change, free, number, least)) in rows.into_iter().enumerate() {
        let mut facts = about_to_take();
        freed(&mut facts, free, &[]);
        facts.crowd = Some(others(number));
        change(&mut facts);
        let step = decide(&facts, &policy(), now());
        assert_eq!(step.effect, Effect::Wait, "{row}: {}", step.status);
        let wake = step.wake.unwrap();
        let most = after(least) + Duration::from_secs(least) / 6;
        assert!(after(least) <= wake && wake <= most, "{row}: {wake:?}");
        let at = |boot| decide(&facts, &policy(), Now { boot, ..now() }).effect;
        let early = wake.checked_sub(Duration::from_millis(1)).unwrap();
        assert_eq!((at(early), at(wake)), (Effect::Wait, Effect::ListPeers));
    }
    let step = with(|facts| {
        label(facts);
        let many = true;
        facts.crowd = Some(Crowd { many, ..others(0) });
    });
    assert!(step.wake.unwrap() >= after(5_000), "{:?}", step.wake);
}

/// A label kept it from the slot 2 s ago, and since then the holder of the other slot has named it.
#[test]
fn who_was_named_since_the_last_look_looks_at_once() {
    for (seconds, next, then) in [
        (1, &[ME][..], Ok(())),
        (1, &["n3", ME], Ok(())),
        // Its turn comes in a second.
        (1, &["n3", "n4", ME], Err(after(1))),
        // Before the look, or at the same time: that look showed the label.
        (2, &[ME], Err(after(3))),
        (3, &[ME], Err(after(3))),
        (1, &[], Err(after(3))),
    ] {
        let mut facts = about_to_take();
        peer(&mut facts, "default", false);
        peer(&mut facts, "second", false);
        let peers = facts.peers.as_mut().unwrap();
        (peers.asked, peers.came) = (ago(2), ago(2));
        // The first one has been free for no time, so that the pause is the shortest.
        freed(&mut facts, 2, &[]);
        let first = slot(&mut facts).clone();
        freed(&mut facts, seconds, next);
        let named = Lease {
            name: "second".to_owned(),
            ..slot(&mut facts).clone()
        };
        facts.leases = [first, named]
            .map(|lease| (lease.name.clone(), lease))
            .into();
        facts.peers.as_mut().unwrap().leases = facts.leases.keys().cloned().collect();
        let step = decide(&facts, &policy(), now());
        match then {
            Ok(()) => assert_eq!(step.effect, Effect::ListPeers, "{seconds} {next:?}"),
            Err(wake) => {
                assert_eq!(step.effect, Effect::Wait, "{seconds} {next:?}");
                let woken = step.wake.unwrap();
                assert!(
                    wake <= woken && woken <= wake + Duration::from_secs(1),
                    "{seconds} {next:?}: {woken:?}"
                );
            }
        }
    }
}

/// Named for a slot, it needs no count for that one; another that is free is not its own for that.
#[test]
fn who_is_named_for_one_slot_leaves_the_others_to_those_who_wait() {
    let mut facts = about_to_take();
    (facts.crowd, facts.ready) = (None, Some(NOW));
    freed(&mut facts, 0, &["n3", ME]);
    let open = second(&mut facts);
    (open.freed, open.next) = (None, Vec::new());
    let step = decide(&facts, &policy(), now());
    assert_eq!((step.effect, step.wake), (Effect::Wait, Some(after(1))));
    // That it cannot be had is a reason to look who else waits.
    let step = with(|facts| {
        facts.crowd = None;
        freed(facts, 0, &[ME]);
        peer(facts, "default", false);
    });
    assert_eq!(step.effect, Effect::CountWaiters);
    let words = "queued: Node n2 carries kube-rebootd/slot=default";
    assert_eq!(step.status, words);
}

/// Behind holders, in front of a slot that is named for others, and in a group that is paused.
#[test]
fn how_many_others_wait_is_looked_at_within_a_quarter_of_an_hour_and_only_by_who_can_be_seen() {
    let behind: [Change; 3] = [
        ("behind a holder", |f| {
            slot(f).holder = Some("n2".to_owned());
        }),
        ("a pause of the group", |f| {
            slot(f).paused = Some("why".to_owned());
            let gate = Gate::GroupPaused;
            f.closed.push(Closed { gate, ..shut() });
        }),
        ("a slot for others", |f| {
            slot(f).freed = Some(after(2_000));
            slot(f).next = vec!["n3".to_owned()];
        }),
    ];
    for (what, change) in behind {
        let mut facts = about_to_take();
        (facts.crowd, facts.ready) = (None, Some(NOW));
        change(&mut facts);
        let at = |facts: &Facts, boot| decide(facts, &policy(), Now { boot, ..now() });
        let (mut looks, mut then) = (0, NOW);
        let counts = loop {
            let step = at(&facts, then);
            if step.effect == Effect::CountWaiters {
                break then;
            }
            assert_eq!(step.effect, Effect::Wait, "{what}: {}", step.status);
            looks += 1;
            assert!(looks <= 4, "{what}: it wakes and does nothing");
            then = step.wake.unwrap();
        };
        assert!(NOW < counts && counts < after(900), "{what}: {counts:?}");
        // The place is shown first.
        facts.mark = Mark::None;
        assert_eq!(
            at(&facts, counts).effect,
            Effect::Mark(shown(true)),
            "{what}"
        );
        // Once is enough.
        (facts.mark, facts.crowd) = (Mark::Shown(shown(true)), Some(Crowd::default()));
        assert_eq!(at(&facts, counts).effect, Effect::Wait, "{what}");
    }
}

/// A holder whose Node may be gone is looked into at its time; nothing else is looked at behind a holder.
#[test]
fn i5_behind_a_holder_it_looks_again_after_five_minutes_or_when_a_look_is_due() {
    let first = first_look(ME, "default", Duration::ZERO, STALE_AFTER);
    for (due_in, wake) in [(7, 7), (299, 299), (301, 300), (9_000, 300)] {
        let mut facts = about_to_take();
        let lease = slot(&mut facts);
        lease.holder = Some("n2".to_owned());
        lease.held = Some(after(due_in).checked_sub(first).unwrap());
        let step = decide(&facts, &policy(), now());
        assert_eq!(
            (step.effect, step.wake),
            (Effect::Wait, Some(after(wake))),
            "{due_in}"
        );
    }
    // At the moment it is looked.
    let step = with(|facts| {
        let lease = slot(facts);
        lease.holder = Some("n2".to_owned());
        lease.held = Some(NOW.checked_sub(first).unwrap());
    });
    assert!(
        matches!(step.effect, Effect::ReadHolder(_)),
        "{}",
        step.status
    );
    // The place is shown before a look that is due.
    let step = with(|facts| {
        let lease = slot(facts);
        (lease.holder, lease.held) = (Some("n2".to_owned()), Some(Duration::ZERO));
        facts.mark = Mark::None;
    });
    assert_eq!(step.effect, Effect::Mark(shown(true)));
}
