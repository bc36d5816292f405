//! Tables: the one set of facts that leads to a step, and every single thing that forbids it.

use super::*;

/// A holder that is drained and has looked at everything: the next step asks logind.
pub(super) fn about_to_reboot() -> Facts {
    let hold = Hold {
        take: take(),
        step: 4,
        boot: boot("now"),
        node_uid: Some("node-uid".to_owned()),
        stage: Stage::Rebooting,
        foreign_cordon: false,
        guards: false,
        excluded: false,
        cordoned: None,
        alone: false,
        marks: Some(Marks::default()),
        hooked: false,
        before: crate::before::Before::default(),
        drain_spent: 0,
        asks: 1,
        asked: Some(NOW),
        granted: false,
        promised: None,
        kind: Kind::Reboot,
        askers: BTreeSet::new(),
    };
    let record = Record {
        hold: Some(hold.clone()),
        request: Some(request()),
        ..Record::default()
    };
    let node = Node {
        name: ME.to_owned(),
        uid: "node-uid".to_owned(),
        resource_version: "9".to_owned(),
        unschedulable: true,
        cordon_owners: vec![names::NODE_MANAGER.to_owned()],
        labels: [(names::SLOT.to_owned(), "default".to_owned())].into(),
        annotations: [(names::STATE.to_owned(), record.annotation().unwrap())].into(),
        guarded: Vec::new(),
        exclusion_owners: Vec::new(),
        ready: true,
        heartbeat: None,
        turned: None,
        boot_id: String::new(),
        volumes_in_use: Vec::new(),
        conditions: Vec::new(),
        taints: Vec::new(),
        candidate: None,
        reported: BTreeMap::new(),
        read: Some(NOW),
    };
    let lease = Lease {
        resource_version: "6".to_owned(),
        holder: Some(ME.to_owned()),
        acquire_time: Some(wall()),
        read: Some(NOW),
        ..Lease::free("default", "default")
    };
    Facts {
        started: true,
        host_read: Some(NOW),
        answers: Answers::NONE,
        hooks: Standing::NONE,
        observed: Observed {
            request: Some(request()),
            ..Observed::default()
        },
        rehearsed: Some(Rehearsed {
            at: NOW,
            said: Ok(()),
        }),
        node: Seen::Present(Box::new(node)),
        applied: Some(Applied {
            point: Point::of(&hold),
            at: NOW,
        }),
        leases: [("default".to_owned(), lease)].into(),
        listed: Ok(()),
        mark: Mark::None,
        marks: Some(Marks::default()),
        drain: Drained::Done { at: NOW },
        last_list: Some(LastList {
            asked: NOW,
            clean: true,
            marks: Marks::default(),
        }),
        confirmed: Some(NOW),
        fenced: Some(Fenced {
            hold: hold.take.acquire_time,
            asks: 1,
            at: Some(NOW),
        }),
        host_health: Err(Vec::new()),
        pod_health: Err(Vec::new()),
        ..Facts::of_a_start(boot("now"), record)
    }
}

/// Nothing of ours is on the own Node.
pub(super) fn untouched(facts: &mut Facts) {
    facts.applied = None;
    let node = own(facts);
    node.labels.clear();
    node.annotations.clear();
    node.unschedulable = false;
    node.cordon_owners.clear();
}

/// No hold, a request, a free slot and nothing against it: the next step takes.
pub(super) fn about_to_take() -> Facts {
    let mut facts = about_to_reboot();
    facts.record.hold = None;
    untouched(&mut facts);
    let slot = slot(&mut facts);
    slot.holder = None;
    slot.acquire_time = None;
    let leases = ["default", "other"].map(str::to_owned).into();
    facts.peers = Some(Peers {
        asked: NOW,
        came: NOW,
        labelled: Vec::new(),
        leases,
        census: Ok(Census {
            nodes: 20,
            down: vec!["n9".to_owned()],
            cordoned: Vec::new(),
        }),
        quorum_down: Ok(Vec::new()),
        counted: true,
    });
    // It has waited for a while, alone.
    facts.record.waiting = Some(place());
    facts.mark = Mark::Shown(shown(true));
    facts.crowd = Some(Crowd::default());
    facts.ready = Some(Duration::from_secs(1));
    facts
}

/// This node's place in the queue.
pub(super) fn place() -> Waiting {
    Waiting {
        group: "default".to_owned(),
        since: wall(),
    }
}

pub(super) fn shown(ready: bool) -> Shown {
    Shown {
        place: place(),
        ready,
    }
}

pub(super) fn own(facts: &mut Facts) -> &mut Node {
    match &mut facts.node {
        Seen::Present(node) => node,
        Seen::Absent | Seen::Unknown => panic!("no node"),
    }
}

pub(super) fn slot(facts: &mut Facts) -> &mut Lease {
    facts.leases.get_mut("default").unwrap()
}

pub(super) fn peer(facts: &mut Facts, slot: &str, quorum: bool) {
    let peer = Peer {
        node: "n2".to_owned(),
        slot: slot.to_owned(),
        quorum,
        out_of_service: false,
    };
    facts.peers.as_mut().unwrap().labelled.push(peer);
}

/// How far this node's look is away from the opening of a slot.
const SCATTERED: Duration = Duration::from_secs(7);
/// Longer than any read may be old.
const OLD: Duration = Duration::from_secs(6);
pub(super) const STALE: Duration = Duration::from_secs(9_994);
/// Longer than any answer may be old.
pub(super) const LONG_AGO: Duration = Duration::from_secs(9_939);

pub(super) type Change = (&'static str, fn(&mut Facts));

#[test]
fn i2_every_single_thing_that_keeps_logind_from_being_asked() {
    assert_eq!(
        decide(&about_to_reboot(), &policy(), now()).effect,
        Effect::AskReboot
    );
    let changes: [Change; 18] = [
        ("no reads that belong together", |f| f.confirmed = None),
        ("old reads", |f| f.confirmed = Some(LONG_AGO)),
        ("no fence", |f| f.fenced = None),
        ("a fence without an answer", |f| {
            f.fenced.as_mut().unwrap().at = None;
        }),
        ("a fence of another ask", |f| {
            f.fenced.as_mut().unwrap().asks = 2;
        }),
        ("a look at the host from before the fence", |f| {
            f.host_read = NOW.checked_sub(Duration::from_millis(1));
        }),
        ("another holder", |f| slot(f).holder = Some("n2".to_owned())),
        ("taken anew by us", |f| slot(f).acquire_time = None),
        ("an old look at the host", |f| f.host_read = Some(STALE)),
        ("no look at the host", |f| f.host_read = None),
        ("a closed gate", |f| f.closed.push(shut())),
        ("a late pod", |f| {
            f.last_list.as_mut().unwrap().clean = false;
        }),
        ("uncordoned", |f| own(f).unschedulable = false),
        ("a replaced Node", |f| own(f).uid = "new".to_owned()),
        ("a record that did not land", |f| own(f).annotations.clear()),
        ("a pause", |f| {
            own(f)
                .annotations
                .insert(names::PAUSED.to_owned(), "why".to_owned());
        }),
        ("no request any more", |f| f.observed.request = None),
        ("a state that cannot be written", |f| f.writable = false),
    ];
    forbids(about_to_reboot, &changes, |effect| {
        *effect == Effect::AskReboot
    });
}

/// Found by review: between two asks the Node may have been uncordoned, and a watch may be silent.
#[test]
fn i2_the_node_is_read_again_before_logind_is_asked_again() {
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.asks, hold.asked) = (1, NOW.checked_sub(Duration::from_secs(20)));
    facts.ask = Some(crate::facts::Refusal {
        at: NOW.checked_sub(Duration::from_secs(15)).unwrap(),
        why: "busy".to_owned(),
    });
    facts.fenced = None;
    facts.confirmed = NOW.checked_sub(Duration::from_secs(30));
    let step = decide(&facts, &policy(), now());
    assert!(
        matches!(step.effect, Effect::Confirm { .. }),
        "{}",
        step.status
    );
    facts.confirmed = Some(NOW);
    let step = decide(&facts, &policy(), now());
    assert!(matches!(step.effect, Effect::Fence(_)), "{}", step.status);
    assert_eq!(
        step.record.hold.unwrap().asks,
        2,
        "written ahead of the fence"
    );
}

/// Found by review: a cordon set between the take and the label was recorded only with our own cordon, so
/// that an end in between uncordoned it.
#[test]
fn i3_the_label_records_whose_cordon_is_there() {
    let mut facts = about_to_reboot();
    facts.record.hold.as_mut().unwrap().stage = Stage::Claiming;
    let node = own(&mut facts);
    node.labels.clear();
    node.annotations.clear();
    node.cordon_owners = vec!["kubectl-cordon".to_owned()];
    let step = decide(&facts, &policy(), now());
    assert!(
        matches!(&step.effect, Effect::Apply { set, .. } if set.labels.contains_key(names::SLOT)),
        "{:?}",
        step.effect
    );
    assert!(step.record.hold.unwrap().foreign_cordon);
}

/// Of two free slots the one that is due is claimed by another Node: the other's turn is not ours yet.
#[test]
fn a_slot_is_not_taken_early_because_another_cannot_be_had() {
    let mut facts = about_to_take();
    let mut later = slot(&mut facts).clone();
    "later".clone_into(&mut later.name);
    (later.freed, later.next) = (Some(NOW), vec!["n3".to_owned()]);
    facts.leases.insert(later.name.clone(), later);
    let known = &mut facts.peers.as_mut().unwrap().leases;
    known.insert("later".to_owned());
    peer(&mut facts, "default", false);
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.effect, Effect::Wait, "{}", step.status);
}

/// Found by review: such a Lease was taken for lost as soon as it was found, over and over.
#[test]
fn i4_a_slot_that_somebody_wrote_our_name_into_is_given_back() {
    let mut facts = about_to_take();
    slot(&mut facts).holder = Some(ME.to_owned());
    let step = decide(&facts, &policy(), now());
    let hold = step.record.hold.clone().expect("found");
    assert_eq!(hold.stage, Stage::Undoing(Why::NoHold));
    facts.applied = Some(Applied {
        point: Point::of(&hold),
        at: NOW,
    });
    facts.record = step.record;
    facts.waiters = Some(Waiters {
        asked: NOW,
        list: Vec::new(),
        failed: 0,
    });
    let step = decide(&facts, &policy(), now());
    assert!(
        matches!(step.effect, Effect::GiveUp(_)),
        "{:?}: {}",
        step.effect,
        step.status
    );
}

#[test]
fn i1_i8_i13_every_single_thing_that_forbids_a_take() {
    assert!(matches!(
        decide(&about_to_take(), &policy(), now()).effect,
        Effect::Take(_)
    ));
    let changes: [Change; 23] = [
        ("a holder", |f| slot(f).holder = Some("n2".to_owned())),
        ("a paused slot", |f| slot(f).paused = Some("why".to_owned())),
        ("a newer protocol", |f| slot(f).protocol = 2),
        ("a name that is no label value", |f| {
            slot(f).name = "x".repeat(64);
        }),
        ("another group", |f| slot(f).group = "other".to_owned()),
        ("others first", |f| {
            slot(f).freed = Some(NOW);
            slot(f).next = vec!["n3".to_owned()];
        }),
        ("no look at the peers", |f| f.peers = None),
        ("an old look at the peers", |f| {
            f.peers.as_mut().unwrap().asked = LONG_AGO;
        }),
        ("a look from before it became free", |f| {
            slot(f).freed = Some(NOW);
            f.peers.as_mut().unwrap().asked = STALE;
        }),
        ("a Node that claims it", |f| peer(f, "default", false)),
        ("a Node that claims what no group knows", |f| {
            peer(f, "forged", false);
        }),
        ("another of the quorum", |f| {
            own(f)
                .labels
                .insert(names::QUORUM_ROLES[0].to_owned(), String::new());
            peer(f, "other", true);
        }),
        ("a closed gate", |f| f.closed.push(shut())),
        ("too many that are down", |f| {
            let census = f.peers.as_mut().unwrap().census.as_mut().unwrap();
            census.down.push("n8".to_owned());
        }),
        ("Nodes that were not counted", |f| {
            f.peers.as_mut().unwrap().census = Err("denied".to_owned());
        }),
        ("Nodes that were not asked for", |f| {
            f.peers.as_mut().unwrap().counted = false;
        }),
        ("others that may wait", |f| f.crowd = None),
        ("a count that is old and says no", |f| {
            let peers = f.peers.as_mut().unwrap();
            peers.asked = LONG_AGO;
            peers.census = Err("denied".to_owned());
        }),
        ("an old look at the host", |f| f.host_read = Some(STALE)),
        ("a back-off", |f| {
            f.record.backoff = Some(Backoff {
                failures: 1,
                boot: boot("now"),
                until: NOW + OLD,
                why: String::new(),
            });
        }),
        ("the daily limit", |f| f.limited = Some(Timestamp::MAX)),
        ("a state that cannot be written", |f| f.writable = false),
        ("no request", |f| f.observed.request = None),
    ];
    forbids(about_to_take, &changes, |effect| {
        matches!(effect, Effect::Take(_))
    });
}

#[test]
fn a_worker_does_not_wait_for_the_quorum_nor_a_holder_elsewhere() {
    let mut facts = about_to_take();
    peer(&mut facts, "other", true);
    assert!(matches!(
        decide(&facts, &policy(), now()).effect,
        Effect::Take(_)
    ));
}

#[test]
fn the_named_waiters_act_in_their_order_and_the_rest_later() {
    let from = |next: &[&str], freed: Option<Duration>| {
        let mut facts = about_to_take();
        slot(&mut facts).freed = freed;
        slot(&mut facts).next = next.iter().map(|name| (*name).to_owned()).collect();
        slot(&mut facts).turn(ME, Duration::ZERO, Duration::ZERO, SCATTERED)
    };
    assert_eq!(from(&["n1", "n2"], Some(NOW)), NOW);
    assert_eq!(from(&["n2", "n1"], Some(NOW)), NOW + Duration::from_secs(1));
    assert_eq!(
        from(&["n2", "n3", "n1"], Some(NOW)),
        NOW + Duration::from_secs(2)
    );
    let late = NOW + Duration::from_secs(15) + SCATTERED;
    assert_eq!(from(&["n2"], Some(NOW)), late);
    assert_eq!(from(&[], Some(NOW)), NOW + SCATTERED);
    assert_eq!(from(&["n2"], None), SCATTERED, "free at first sight");
    assert_eq!(from(&["n2", "n1"], None), Duration::ZERO, "named");
}

#[test]
fn the_back_off_doubles_to_six_hours() {
    let mut facts = about_to_reboot();
    let policy = policy();
    let mut before = Duration::ZERO;
    for failures in 1..20 {
        let hold = facts.record.hold.as_mut().unwrap();
        hold.stage = Stage::Undoing(Why::Uncordoned);
        facts.applied = Some(Applied {
            point: Point::of(hold),
            at: NOW,
        });
        let node = own(&mut facts);
        node.labels.clear();
        node.annotations.clear();
        node.unschedulable = false;
        slot(&mut facts).holder = None;
        let step = decide(&facts, &policy, now());
        let backoff = step.record.backoff.clone().unwrap();
        assert_eq!(backoff.failures, failures);
        let delay = backoff.until.saturating_sub(NOW);
        let doubled = policy.retry * 2u32.pow((failures - 1).min(16));
        let least = doubled.min(Duration::from_secs(6 * 3600));
        assert!(
            delay >= least && delay <= least + least / 10,
            "{failures}: {delay:?}"
        );
        assert!(delay >= before / 2);
        before = delay;
        facts.record.backoff = step.record.backoff;
    }
}

pub(super) fn shut() -> Closed {
    Closed {
        gate: Gate::Inhibitors,
        why: "shut".into(),
        opens: None,
    }
}

/// Each change alone keeps the step from happening, and none of them panics.
pub(super) fn forbids(good: fn() -> Facts, changes: &[Change], step: fn(&Effect) -> bool) {
    for (what, change) in changes {
        let mut facts = good();
        change(&mut facts);
        let decided = decide(&facts, &policy(), now());
        assert!(
            !step(&decided.effect),
            "{what}: {:?} ({})",
            decided.effect,
            decided.status
        );
    }
}
