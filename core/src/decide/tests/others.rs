//! Tables: what the other Nodes forbid (I2, I8, I13): one of the quorum that is not Ready, and none that could take
//! the pods.

use super::table::*;
use super::*;
use crate::beats::{Beats, Shown};
use crate::peers::Claims;

/// Both of the control plane, the other not Ready or not known: it counts like one that is held, before the
/// take, after the label and right before logind.
#[test]
fn i8_i13_a_control_plane_node_that_is_not_ready_counts_like_one_that_is_held() {
    let role = |facts: &mut Facts| {
        let label = (names::QUORUM_ROLES[0].to_owned(), String::new());
        own(facts).labels.extend([label]);
    };
    for (down, words) in [
        (Ok(vec!["n2".to_owned()]), "n2 (not Ready)"),
        (Err("denied".to_owned()), "denied"),
    ] {
        let mut facts = about_to_take();
        facts.peers.as_mut().unwrap().quorum_down = down.clone();
        // A worker does not wait for it.
        let step = decide(&facts, &policy(), now());
        assert!(matches!(step.effect, Effect::Take(_)), "{}", step.status);
        role(&mut facts);
        let step = decide(&facts, &policy(), now());
        assert_eq!(step.effect, Effect::Wait);
        let named = step
            .status
            .starts_with("queued: control-plane nodes go one at a time: ");
        assert!(named && step.status.contains(words), "{}", step.status);
        assert!(
            step.wake >= Some(NOW + Duration::from_secs(30)),
            "not at once again"
        );

        let mut facts = queue::claiming();
        role(&mut facts);
        facts.peers.as_mut().unwrap().quorum_down = down.clone();
        let step = decide(&facts, &policy(), now());
        let stage = step.record.hold.map(|hold| hold.stage);
        assert!(
            matches!(stage, Some(Stage::Undoing(Why::Quorum(_)))),
            "{stage:?}"
        );

        let mut facts = about_to_reboot();
        role(&mut facts);
        let hold = facts.record.hold.as_mut().unwrap();
        hold.take.control_plane = true;
        let mut peers = about_to_take().peers.unwrap();
        peers.quorum_down = down;
        facts.peers = Some(peers);
        let step = decide(&facts, &policy(), now());
        let stage = step.record.hold.map(|hold| hold.stage);
        assert!(
            matches!(stage, Some(Stage::Undoing(Why::Quorum(_)))),
            "{stage:?}"
        );
        facts.peers.as_mut().unwrap().quorum_down = Ok(Vec::new());
        assert_eq!(decide(&facts, &policy(), now()).effect, Effect::AskReboot);
    }
}

/// Found by review: the role's label came after the take, and another of the quorum had passed this node as a worker.
#[test]
fn i13_a_node_that_became_one_of_the_quorum_after_its_take_goes_back() {
    let mut facts = about_to_reboot();
    let label = (names::QUORUM_ROLES[0].to_owned(), String::new());
    own(&mut facts).labels.extend([label]);
    facts.peers = about_to_take().peers;
    for control_plane in [true, false] {
        let hold = facts.record.hold.as_mut().unwrap();
        hold.take.control_plane = control_plane;
        let step = decide(&facts, &policy(), now());
        let stage = step.record.hold.map(|hold| hold.stage);
        let undoes = matches!(stage, Some(Stage::Undoing(Why::Quorum(_))));
        assert_eq!(undoes, !control_plane, "{stage:?}");
    }
}

/// The smallest name waits for those that go back; for one that is not Ready nobody waits while holding.
#[test]
fn i13_nobody_waits_with_a_slot_for_a_node_that_is_not_ready() {
    let mut facts = about_to_take();
    peer(&mut facts, "other", true);
    let peers = facts.peers.as_mut().unwrap();
    let first = |peers: &Peers| match peers.claims("default", ME, true) {
        Claims::Quorum { first, .. } => first,
        claims => panic!("{claims:?}"),
    };
    assert!(first(peers));
    peers.quorum_down = Ok(vec!["n2".to_owned()]);
    assert!(!first(peers));
}

/// Others exist, and none can take pods.
#[test]
fn i2_without_room_for_its_pods_no_node_takes_or_keeps_a_slot() {
    // The budget, which counts cordoned Nodes too, would be the first to say no.
    let policy = || Policy {
        count_cordoned: false,
        ..policy()
    };
    let full = |facts: &mut Facts| {
        let census = Census {
            nodes: 2,
            down: Vec::new(),
            cordoned: vec!["n2".to_owned()],
        };
        facts.peers.as_mut().unwrap().census = Ok(census);
    };
    let mut facts = about_to_take();
    full(&mut facts);
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.effect, Effect::Wait);
    assert!(step.status.contains("(n2 is cordoned)"), "{}", step.status);
    for drain in [Mode::Always, Mode::Never] {
        let policy = Policy { drain, ..policy() };
        let step = decide(&facts, &policy, now());
        assert!(matches!(step.effect, Effect::Take(_)), "{}", step.status);
    }
    let mut facts = queue::claiming();
    full(&mut facts);
    let step = decide(&facts, &policy(), now());
    let stage = step.record.hold.map(|hold| hold.stage);
    assert!(
        matches!(stage, Some(Stage::Undoing(Why::Budget(_)))),
        "{stage:?}"
    );
}

/// Whether pods are evicted is decided once, with the cordon.
#[test]
fn i6_that_no_other_node_exists_is_recorded_with_the_cordon() {
    for nodes in [1, 2] {
        let mut facts = queue::claiming();
        let census = Census {
            nodes,
            ..Census::default()
        };
        facts.peers.as_mut().unwrap().census = Ok(census);
        let step = decide(&facts, &policy(), now());
        assert!(
            matches!(step.effect, Effect::Apply { .. }),
            "{}",
            step.status
        );
        let text = step.record.annotation().unwrap();
        let hold = Record::decode(&text).unwrap().hold.unwrap();
        assert_eq!((hold.stage, hold.alone), (Stage::Draining, nodes == 1));
        // What an earlier version cannot read is written only where it says something.
        assert_eq!(text.contains("alone"), nodes == 1);
    }
}

/// The other is Ready, and was not seen alive since: it may have lost its power a moment ago.
#[test]
fn i13_logind_is_asked_only_when_every_other_of_the_quorum_was_seen_alive() {
    let mut facts = about_to_reboot();
    let label = (names::QUORUM_ROLES[0].to_owned(), String::new());
    own(&mut facts).labels.extend([label]);
    let hold = facts.record.hold.as_mut().unwrap();
    hold.take.control_plane = true;
    (hold.asks, hold.asked, facts.fenced) = (0, None, None);
    facts.peers = about_to_take().peers;
    let ago = |seconds| NOW.checked_sub(Duration::from_secs(seconds)).unwrap();
    let shown = |value: &str| Shown {
        renewed: value.to_owned(),
        lasts: Duration::from_secs(40),
    };
    let beat = |value: &str| [("n2".to_owned(), Some(shown(value)))].into();
    facts.beats.see(&beat("a"), ago(3), ago(3));
    let mut met = Vec::new();
    for confirmed in [ago(1), ago(2)] {
        facts.confirmed = Some(confirmed);
        let peers = facts.peers.as_mut().unwrap();
        peers.asked = confirmed;
        let list = facts.last_list.as_mut().unwrap();
        list.asked = list.asked.min(confirmed);
        let step = decide(&facts, &policy(), now());
        let words = "waiting for the next heartbeat of control-plane nodes: n2";
        assert_eq!(step.status, format!("rebooting: {words}"));
        assert_eq!(step.waits.as_deref(), Some(words));
        met.push(match step.effect {
            Effect::Wait => "waits",
            Effect::Confirm { quorum: true, .. } => "looks",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(met, ["waits", "looks"]);
    facts.beats.see(&beat("b"), NOW, NOW);
    let step = decide(&facts, &policy(), now());
    assert!(matches!(step.effect, Effect::Fence(_)), "{}", step.status);
    let hold = step.record.hold.unwrap();
    assert_eq!((hold.asks, hold.asked), (1, Some(NOW)), "written ahead");
    // A worker has nothing to wait for.
    own(&mut facts).labels.remove(names::QUORUM_ROLES[0]);
    facts.beats = Beats::default();
    facts.beats.see(&beat("a"), NOW, NOW);
    assert_eq!(facts.beats.unseen(NOW), ["n2"]);
    let step = decide(&facts, &policy(), now());
    assert!(matches!(step.effect, Effect::Fence(_)), "{}", step.status);
}
