//! Tables of a wait for a slot: what a node says meanwhile, and what it reads before it takes (I1, I8). cargo-mutants found
//! that only the simulator showed this.

use super::table::{Change, about_to_take, peer, place, slot};
use super::*;

pub(super) fn ago(seconds: u64) -> Duration {
    NOW.checked_sub(Duration::from_secs(seconds)).unwrap()
}

/// The step for the facts that lead to a take, with one change.
pub(super) fn with(change: impl Fn(&mut Facts)) -> Step {
    let mut facts = about_to_take();
    change(&mut facts);
    decide(&facts, &policy(), now())
}

/// Another slot of the group, like the first one.
pub(super) fn second(facts: &mut Facts) -> &mut Lease {
    let lease = Lease {
        name: "second".to_owned(),
        ..slot(facts).clone()
    };
    if let Some(peers) = &mut facts.peers {
        peers.leases.insert(lease.name.clone());
    }
    facts.leases.entry("second".to_owned()).or_insert(lease)
}

/// The slot became free `seconds` ago, and its last holder named these.
pub(super) fn freed(facts: &mut Facts, seconds: u64, next: &[&str]) {
    let slot = slot(facts);
    slot.freed = Some(ago(seconds));
    slot.next = next.iter().map(|name| (*name).to_owned()).collect();
}

/// So many others wait, all of them for a shorter time than this node.
pub(super) fn others(number: usize) -> Crowd {
    let wait = |number| Waiter {
        node: format!("w{number}"),
        since: wall() + Duration::from_secs(1),
        ready: true,
    };
    Crowd {
        others: (0..number).map(wait).collect(),
        many: false,
    }
}

/// What is changed, the status after "queued: ", what it waits for beside holders; an empty one: nothing.
type Words = (fn(&mut Facts), &'static str, &'static str);

#[test]
fn a_queue_says_what_it_waits_for() {
    let rows: [Words; 10] = [
        (
            |f| f.node = Seen::Absent,
            "this node is not registered",
            "this node is not registered",
        ),
        (|f| f.listed = Err("denied".to_owned()), "denied", "denied"),
        (
            |f| slot(f).holder = Some("n2".to_owned()),
            "default is held by n2",
            "",
        ),
        (
            |f| slot(f).paused = Some("by hand".to_owned()),
            "default is paused: by hand",
            "",
        ),
        (
            |f| slot(f).protocol = 2,
            "default is no slot: it speaks protocol 2, this kube-rebootd only 1",
            "",
        ),
        (
            |f| {
                slot(f).holder = Some("n2".to_owned());
                second(f).holder = Some("n3".to_owned());
            },
            "default is held by n2; second is held by n3",
            "",
        ),
        (
            |f| freed(f, 0, &["n3"]),
            "default is free; others that wait may come first, this node looks in 16s",
            "default is free, others that wait may come first",
        ),
        (
            |f| peer(f, "default", false),
            "Node n2 carries kube-rebootd/slot=default",
            "Node n2 carries kube-rebootd/slot=default",
        ),
        // How old the look is, where that is long.
        (
            |f| {
                peer(f, "default", false);
                f.crowd = Some(others(200));
                f.peers.as_mut().unwrap().came = ago(119);
            },
            "Node n2 carries kube-rebootd/slot=default",
            "Node n2 carries kube-rebootd/slot=default",
        ),
        (
            |f| {
                peer(f, "default", false);
                f.crowd = Some(others(200));
                f.peers.as_mut().unwrap().came = ago(120);
            },
            "Node n2 carries kube-rebootd/slot=default (seen 2 min ago)",
            "Node n2 carries kube-rebootd/slot=default",
        ),
    ];
    for (change, status, waits) in rows {
        let step = with(change);
        assert_eq!(
            (step.phase, &step.effect),
            (Phase::Queued, &Effect::Wait),
            "{status}"
        );
        assert_eq!(step.status, format!("queued: {status}"));
        assert_eq!(step.waits.unwrap_or_default(), waits);
    }
}

/// Whether the others are not known, or are known to be many.
#[test]
fn a_queue_says_that_the_others_cannot_be_listed() {
    for (many, number, unlisted) in [(true, 0, true), (true, 1, false), (false, 1, false)] {
        let step = with(|facts| {
            freed(facts, 0, &["n3"]);
            facts.crowd = Some(Crowd {
                many,
                ..others(number)
            });
        });
        let waits = step.waits.unwrap();
        let said = waits.contains("cannot be listed (kube-rebootd doctor says why)");
        assert_eq!(said, unlisted, "{many} {number}: {waits}");
    }
}

#[test]
fn a_queue_says_how_long_the_interval_lasts() {
    let policy = Policy {
        min_interval: Duration::from_secs(600),
        ..policy()
    };
    let mut facts = about_to_take();
    freed(&mut facts, 0, &["n3"]);
    for crowd in [Some(Crowd::default()), None] {
        facts.crowd = crowd;
        slot(&mut facts).last_seen = Some(ago(590));
        let step = decide(&facts, &policy, now());
        assert_eq!(
            step.status,
            "queued: default is free, coordination.min_interval ends in 11s"
        );
        let waits = "coordination.min_interval is not over, default is free";
        assert_eq!(step.waits.as_deref(), Some(waits));
        slot(&mut facts).last_seen = Some(ago(600));
        let waits = decide(&facts, &policy, now()).waits.unwrap();
        assert_eq!(waits, "default is free, others that wait may come first");
    }
}

#[test]
fn a_group_without_a_slot_says_how_to_make_one() {
    let step = with(|facts| facts.leases.clear());
    assert_eq!(step.effect, Effect::CreateLease);
    let cure = |group: &str| {
        format!(
            "no Lease in namespace kube-rebootd is labelled kube-rebootd/group={group}: kube-rebootd manifests \
             --group {group} | kubectl create -l kube-rebootd/group -f -"
        )
    };
    let refused = "; making it was refused: denied";
    for (group, why, words) in [
        ("default", Some("denied"), cure("default") + refused),
        ("web", None, cure("web")),
        ("web", Some("denied"), cure("web") + refused),
    ] {
        let mut facts = about_to_take();
        facts.leases.clear();
        facts.create_refused = why.map(str::to_owned);
        let policy = Policy::of(&Config::default(), Some(ME), "kube-rebootd", group);
        let step = decide(&facts, &policy, now());
        assert_eq!((step.phase, step.effect), (Phase::Queued, Effect::Wait));
        assert_eq!(step.status, format!("queued: {words}"));
        assert_eq!(step.waits, Some(words));
    }
}

/// Nothing is read that is known, and what is known too little of is read before anything is taken. The place in the queue
/// goes with every step.
#[test]
fn i1_i8_what_a_take_reads_first() {
    let reads: [(Change, Effect); 8] = [
        (("no Node", |f| f.node = Seen::Unknown), Effect::ReadNode),
        (("no Nodes", |f| f.peers = None), Effect::ListPeers),
        (
            ("old Nodes", |f| f.peers.as_mut().unwrap().asked = ago(61)),
            Effect::ListPeers,
        ),
        (
            ("Nodes from before it was free", |f| {
                freed(f, 0, &[]);
                f.peers.as_mut().unwrap().asked = ago(1);
            }),
            Effect::ListPeers,
        ),
        (
            ("Nodes that are not counted", |f| {
                f.peers.as_mut().unwrap().counted = false;
            }),
            Effect::ListPeers,
        ),
        (
            ("an old look at the host", |f| f.host_read = Some(ago(6))),
            Effect::ReadHost,
        ),
        (
            ("others that are not counted", |f| f.crowd = None),
            Effect::CountWaiters,
        ),
        (
            ("others that are not counted, at the very moment", |f| {
                (f.crowd, f.ready) = (None, Some(NOW));
            }),
            Effect::CountWaiters,
        ),
    ];
    for ((what, change), effect) in reads {
        let step = with(change);
        assert_eq!((step.phase, step.effect), (Phase::Queued, effect), "{what}");
    }
    let takes: [Change; 4] = [
        ("Nodes from when it was freed", |f| freed(f, 0, &[])),
        ("Nodes of a minute ago", |f| {
            f.peers.as_mut().unwrap().asked = ago(60);
        }),
        ("a look at the host of 5 s ago", |f| {
            f.host_read = Some(ago(5));
        }),
        // Whom the last holder named need not know who else waits.
        ("named", |f| {
            freed(f, 0, &[ME]);
            f.crowd = None;
        }),
    ];
    for (what, change) in takes {
        let step = with(change);
        assert!(matches!(step.effect, Effect::Take(_)), "{what}: {step:?}");
    }
    let no_place: [fn(&mut Facts); 3] = [
        |f| f.peers = None,
        |f| f.host_read = None,
        |f| f.rehearsed = None,
    ];
    for change in no_place {
        let step = with(|facts| {
            facts.record.waiting = None;
            change(facts);
        });
        assert_eq!(step.record.waiting, Some(place()), "{}", step.status);
    }
}

/// A place is of one group, is kept, and is written with as many digits as the API server keeps; a take is, too.
#[test]
fn i1_a_place_and_a_take_are_told_in_microseconds() {
    let fine = wall() + Duration::from_nanos(123_456_789);
    let rounded = wall() + Duration::from_micros(123_457);
    let now = Now {
        wall: fine,
        ..now()
    };
    let other = Waiting {
        group: "other".to_owned(),
        ..place()
    };
    for (known, since) in [
        (None, rounded),
        (Some(other), rounded),
        (Some(place()), wall()),
    ] {
        let mut facts = about_to_take();
        slot(&mut facts).holder = Some("n2".to_owned());
        (facts.record.waiting, facts.mark) = (known.clone(), Mark::None);
        let step = decide(&facts, &policy(), now);
        let place = Waiting { since, ..place() };
        assert_eq!(step.record.waiting, Some(place.clone()), "{known:?}");
        let ready = true;
        assert_eq!(step.effect, Effect::Mark(Shown { place, ready }));
    }
    let step = decide(&about_to_take(), &policy(), now);
    let Effect::Take(take) = &step.effect else {
        panic!("{}", step.status);
    };
    assert_eq!(take.acquire_time, rounded);
    assert_eq!(&step.record.hold.unwrap().take, take);
}
