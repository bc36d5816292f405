//! What answers become as facts: what was answered is known, and what was not is in doubt (I2, I5, I7).

use super::*;
use crate::facts::{Point, Waiters};
use crate::node_fields::Leftovers;
use crate::peers::{Census, Peer, Peers};
use crate::shutdown::Scheduled;
use crate::slot::{Crowd, Mark, Shown, TakeSaid, Waiting};
use crate::stale::{Found as Holder, Held};

fn lease() -> Lease {
    Lease::free("default", "default")
}

fn shown() -> Shown {
    let place = Waiting {
        group: "default".to_owned(),
        since: wall(),
    };
    Shown { place, ready: true }
}

#[test]
fn i6_a_start_knows_what_it_has_read() {
    let mut machine = idle();
    machine.facts.started = false;
    machine.denied(Some("denied".to_owned()));
    machine.no_leases("silent".to_owned());
    assert_eq!(machine.facts.listed, Err("silent".to_owned()));
    assert!(machine.facts.denied.is_some());
    machine.read_start(vec![lease()], Some(shown()), NOW);
    machine.begin();
    let facts = &machine.facts;
    assert!(facts.started && facts.leases.contains_key("default"));
    assert_eq!((&facts.listed, &facts.denied), (&Ok(()), &None));
    assert_eq!(facts.mark, Mark::Shown(shown()));
    machine.moved();
    assert!(machine.facts.leases.is_empty() && machine.facts.listed.is_err());
    machine.not_created("denied".to_owned());
    assert!(machine.facts.create_refused.is_some());
}

#[test]
fn i1_a_lease_is_known_by_a_read_and_in_doubt_after_a_write_that_failed() {
    let known = |machine: &Machine| machine.facts.leases.contains_key("default");
    let mut machine = idle();
    machine.read_lease("default", None, now(), NOW);
    assert_eq!(machine.facts.absent.get("default"), Some(&NOW));
    machine.read_lease("default", Some(lease()), now(), NOW);
    assert!(known(&machine) && machine.facts.absent.is_empty());
    machine.doubt_lease("default");
    assert!(!known(&machine) && machine.facts.absent.is_empty());
    machine.know(lease(), NOW);
    assert!(known(&machine));
    machine.read_lease("default", None, now(), NOW);
    assert!(!known(&machine));

    machine.took(None, true, now());
    machine.took(Some(TakeSaid::Taken), false, now());
    let take = &machine.facts.take;
    assert_eq!(take.unanswered, Some(NOW));
    assert_eq!(
        take.said,
        Some(TakeSaid::Taken),
        "an answer does not undo the doubt"
    );
}

/// The same again within two minutes is somebody's doing, each time.
#[test]
fn i3_an_apply_that_is_done_again_lately_is_told() {
    let point = |step| Point { hold: None, step };
    let after = |seconds: u64| NOW + Duration::from_secs(seconds);
    for (step, seconds, again) in [(1, 120, true), (1, 121, false), (2, 1, false)] {
        let mut machine = idle();
        let first = machine.applied(Node::ready(), point(1), Some("label".to_owned()), NOW);
        assert!(!first && machine.facts.refused.is_some());
        let second = machine.applied(Node::ready(), point(step), None, after(seconds));
        assert_eq!(second, again, "{step} {seconds}");
        assert!(machine.facts.refused.is_none());
        assert_eq!(machine.facts.applied.unwrap().at, after(seconds));

        let left = |version: u64| Leftovers {
            labels: vec!["label".to_owned()],
            resource_version: version.to_string(),
            ..Leftovers::default()
        };
        let mut machine = held(Stage::Draining);
        assert!(!machine.mended(&left(1), NOW));
        machine.facts.record.hold.as_mut().unwrap().step = step;
        assert_eq!(
            machine.mended(&left(2), after(seconds)),
            again,
            "{step} {seconds}"
        );
    }
}

#[test]
fn i3_a_refusal_is_kept_for_its_step_and_the_node_is_in_doubt() {
    let point = |step| Point { hold: None, step };
    let mut machine = idle();
    let refused = |machine: &Machine| machine.facts.refused.is_some();
    machine.not_applied(point(1), Some("policy".to_owned()));
    assert!(refused(&machine));
    assert_eq!(machine.facts.node, Seen::Unknown);
    machine.not_applied(point(1), None);
    assert!(refused(&machine), "no answer is no consent");
    machine.not_applied(point(2), None);
    assert!(!refused(&machine), "of another step");
    machine.read_node(Some(Node::ready()));
    assert!(matches!(machine.facts.node, Seen::Present(_)));
    machine.read_node(None);
    assert_eq!(machine.facts.node, Seen::Absent);
    machine.doubt_node();
    assert_eq!(machine.facts.node, Seen::Unknown);

    let denied = || Err("denied".to_owned());
    for (said, news) in [
        (Ok(()), true),
        (Ok(()), false),
        (denied(), true),
        (denied(), false),
    ] {
        assert_eq!(machine.rehearsed(said.clone(), now()), news);
        let last = machine.facts.rehearsed.as_ref().unwrap();
        assert_eq!((last.at, &last.said), (NOW, &said));
    }
}

/// Whom it counted is void as soon as this node may not be seen waiting itself.
#[test]
fn i1_who_waits_counts_while_this_node_is_shown() {
    let hidden = Some(crate::facts::Hidden {
        at: NOW,
        missing: true,
    });
    let counted = || {
        let mut machine = idle();
        machine.see_crowd(Crowd::default());
        assert!(machine.facts.crowd.is_some());
        machine
    };
    let mut machine = counted();
    machine.not_marked(Some(&shown()), hidden);
    assert!(machine.facts.crowd.is_some());
    assert_eq!(
        (machine.facts.hidden, &machine.facts.mark),
        (hidden, &Mark::Unknown)
    );
    machine.marked(Some(shown()));
    assert!(machine.facts.crowd.is_some());
    assert_eq!(
        (machine.facts.hidden, &machine.facts.mark),
        (None, &Mark::Shown(shown()))
    );
    machine.marked(None);
    assert_eq!(
        (&machine.facts.crowd, &machine.facts.mark),
        (&None, &Mark::None)
    );
    let mut machine = counted();
    machine.not_marked(None, hidden);
    assert_eq!(machine.facts.crowd, None);
    machine.read_mark(Some(shown()));
    assert_eq!(machine.facts.mark, Mark::Shown(shown()));

    machine.see_waiters(Some(Waiters::listed(NOW, Vec::new())));
    assert!(machine.facts.waiters.is_some());
    let mut taken = lease();
    taken.holder = Some("n2".to_owned());
    let held = Held::of(&taken).unwrap();
    machine.see_holder(held, Some(Holder::Absent), now());
    assert_eq!(machine.facts.looks["default"].absent, Some(NOW));
    machine.forget_look("default");
    assert!(machine.facts.looks.is_empty());
}

/// What was confirmed serves for one ask of logind, and not after a fence that may not have been done.
#[test]
fn i2_the_fence_and_the_ask_use_up_what_was_confirmed() {
    assert_eq!(idle().fences(), None);
    let mut machine = held(Stage::Rebooting);
    let hold = machine.facts.record.hold.clone().unwrap();
    machine.confirmed(now());
    assert_eq!(machine.facts.confirmed, Some(NOW));
    assert_eq!(machine.fences(), Some(Point::of(&hold)));
    assert_eq!(machine.facts.fenced.unwrap().at, None);
    machine.fenced(lease(), NOW);
    assert_eq!(machine.facts.fenced.unwrap().at, Some(NOW));
    assert!(machine.facts.leases.contains_key("default"));
    let mut refused = machine.clone();
    refused.not_fenced("default", Point::of(&hold), Some("policy".to_owned()));
    assert_eq!(refused.facts.confirmed, None);
    assert!(refused.facts.leases.is_empty() && refused.facts.refused.is_some());

    machine.accepted(NOW);
    machine.not_accepted("busy".to_owned(), NOW);
    assert_eq!(machine.facts.ask_accepted, Some(NOW));
    assert_eq!(machine.facts.ask.as_ref().unwrap().at, NOW);
    machine.asks_reboot();
    let facts = &machine.facts;
    assert_eq!((facts.ask_accepted, facts.confirmed), (None, None));
    assert!(facts.ask.is_none() && facts.fenced.is_none());
}

#[test]
fn what_is_taken_over_once_and_what_stays_on_record() {
    let mut machine = idle();
    machine.facts.adopts = Scheduled::of("reboot", 1);
    assert!(machine.cancels().is_some());
    assert_eq!(machine.cancels(), None);
    assert!(machine.writable(false), "it could before");
    assert!(!machine.writable(true) && machine.facts.writable);
    machine.facts.record.request = Some(request());
    machine.keep_request();
    assert_eq!(machine.facts.observed.request, Some(request()));
}

/// A slot stays where it was taken, whatever is configured meanwhile.
#[test]
fn i4_namespace_and_group_are_those_of_the_slot_while_one_is_held() {
    let mut config = Config::default();
    config.coordination.namespace = "ops".to_owned();
    config.coordination.group_label = Some("zone".to_owned());
    for (slot, namespace, group) in [
        (None, "ops", "a"),
        (Some("web"), "kube-rebootd", "web"),
        // A Lease that names none says nothing.
        (Some(""), "kube-rebootd", "a"),
    ] {
        let mut machine = match slot {
            Some(_) => held(Stage::Draining),
            None => idle(),
        };
        machine.configure(config.clone());
        let label = ("zone".to_owned(), "a".to_owned());
        node(&mut machine).labels.extend([label]);
        if let Some(group) = slot {
            let lease = Lease::free("default", group);
            machine.facts.leases.insert(lease.name.clone(), lease);
        }
        assert_eq!(machine.namespace(), namespace, "{slot:?}");
        assert_eq!(machine.group(), group, "{slot:?}");
        assert_eq!(machine.config(), &config);
    }
}

#[test]
fn i13_nodes_are_counted_unless_a_label_speaks_against_every_slot() {
    for (claimed, counts) in [("other", true), ("default", false)] {
        let mut machine = wanted();
        machine.facts.leases.insert("default".to_owned(), lease());
        let peer = Peer {
            node: "n2".to_owned(),
            slot: claimed.to_owned(),
            quorum: false,
            out_of_service: false,
        };
        let peers = Peers {
            asked: NOW,
            came: NOW,
            labelled: vec![peer],
            leases: ["default", "other"].map(str::to_owned).into(),
            census: Ok(Census::default()),
            quorum_down: Ok(Vec::new()),
            counted: false,
        };
        assert_eq!(machine.counts(&peers, "n1"), counts, "{claimed}");
        let came = NOW + Duration::from_secs(1);
        machine.see_peers(peers.clone(), &crate::beats::Read::new(), came);
        let seen = machine.facts.peers.unwrap();
        assert_eq!(seen, Peers { came, ..peers });
    }
}
