//! Leases as they are read and written (I1, I5, I8).

use kube_rebootd_core::slot::HINTS;
use kube_rebootd_core::text::{NAME, WORDS, clean, hostile, name};
use proptest::prelude::*;

use super::*;

fn object(value: Value) -> Object {
    serde_json::from_value(value).expect("a Lease")
}

#[test]
fn an_empty_holder_is_none_and_an_unreadable_protocol_the_highest() {
    let lease = read(
        &object(
            json!({"metadata": {"name": "default", "labels": {"kube-rebootd/protocol": "two"},
            "annotations": {"kube-rebootd/next": "n2, n3,,", "kube-rebootd/role": "control-plane"}},
            "spec": {"holderIdentity": ""}}),
        ),
        None,
    );
    assert_eq!(lease.holder, None);
    assert_eq!(lease.protocol, u64::MAX);
    assert_eq!(lease.next, ["n2", "n3"]);
    assert!(lease.control_plane && lease.unusable().is_some());
}

#[test]
fn a_long_node_name_gets_a_stable_manager_that_fits() {
    assert_eq!(manager("n1"), "n1");
    let long = "a".repeat(200);
    let other = format!("{}b", "a".repeat(199));
    assert!(manager(&long).len() <= MANAGER_MAX);
    assert_ne!(manager(&long), manager(&other));
    assert_eq!(manager(&long), manager(&long));
    assert!(manager(&long).ends_with(&format!("-{:016x}", scatter(&[&long]))));
}

#[test]
fn freed_is_when_the_holder_was_seen_to_go() {
    let at = Duration::from_secs;
    let held = read(
        &object(json!({"metadata": {"name": "a", "uid": "1"}, "spec": {"holderIdentity": "n"}})),
        None,
    );
    let free = read(
        &object(json!({"metadata": {"name": "a", "uid": "1"}})),
        None,
    );
    let seen = free.clone().follow(Some(&held), at(5));
    assert_eq!(seen.freed, Some(at(5)));
    assert_eq!(free.clone().follow(Some(&seen), at(9)).freed, Some(at(5)));
    assert_eq!(held.clone().follow(Some(&seen), at(9)).freed, None);
    assert_eq!(free.clone().follow(None, at(9)).freed, None);
    let replaced = Lease {
        uid: "2".to_owned(),
        ..free
    };
    assert_eq!(replaced.follow(Some(&held), at(9)).freed, None);
}

#[test]
fn what_is_stored_compares_equal_when_read_back() {
    let moment: Timestamp = "2026-11-21T10:00:00.123456789Z".parse().expect("a time");
    let text = serde_json::to_value(MicroTime(stored(moment))).expect("json");
    let back: MicroTime = serde_json::from_value(text).expect("a MicroTime");
    assert_eq!(back.0, stored(moment));
}

fn damaged() -> impl Strategy<Value = Value> {
    garble::json(
        json!({"metadata": {"name": "default", "uid": "u", "resourceVersion": "5",
        "labels": {(names::GROUP): "default", (names::PROTOCOL): "1"},
        "annotations": {(names::NEXT): "n2,n3", (names::PAUSED): "why", (names::ROLE): "worker", (names::LAST_HOLD): "x"}},
        "spec": {"holderIdentity": "n1", "acquireTime": "2026-11-21T10:00:00.000000Z"}}),
    )
}

/// Found by an attacker: a compromised node fills the annotation, and every daemon keeps what it read.
#[test]
fn i14_no_more_names_are_read_than_count() {
    let many = vec!["n"; 100_000].join(",");
    let value = json!({"metadata": {"name": "a", "annotations": {(names::NEXT): many}}});
    assert_eq!(read(&object(value), None).next.len(), HINTS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn i8_damage_neither_opens_a_slot_nor_frees_it(value in damaged()) {
        let Ok(object) = serde_json::from_value::<Object>(value.clone()) else { return Ok(()) };
        let lease = read(&object, None);
        let annotations = &value["metadata"]["annotations"];
        // Paused with whatever words, and none: cleaned of what no terminal should see, but paused.
        let paused = annotations[names::PAUSED].as_str().map(|why| clean(why, WORDS));
        prop_assert_eq!(&lease.paused, &paused);
        let holder = value["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty());
        let holder = holder.map(|holder| name(holder, NAME));
        prop_assert_eq!(&lease.holder, &holder);
        prop_assert!(holder.is_none_or(|holder| !holder.is_empty()), "cleaning freed it");
        if let Some(protocol) = value["metadata"]["labels"][names::PROTOCOL].as_str() {
            let known = protocol.parse::<u64>().is_ok_and(|protocol| protocol <= names::PROTOCOL_VERSION);
            prop_assert_eq!(lease.unusable().is_none(), known, "{}", protocol);
        }
        prop_assert!(lease.next.iter().all(|node| !node.trim().is_empty()));
    }

    #[test]
    fn who_is_named_next_is_read_back(next in prop::collection::vec("[a-z][a-z0-9.-]{0,20}", 0..=HINTS), other in any::<String>()) {
        let read_next = |text: &str| {
            let value = json!({"metadata": {"name": "a", "annotations": {(names::NEXT): text}}});
            read(&object(value), None).next
        };
        prop_assert_eq!(read_next(&next.join(",")), next);
        for node in read_next(&other) {
            let as_it_was = other.contains(&node) || other.contains(hostile);
            prop_assert!(as_it_was && !node.contains(hostile) && !node.contains(',') && node.trim() == node);
        }
    }

    #[test]
    fn i8_only_the_number_of_a_known_protocol_is_one(text in any::<String>()) {
        let value = json!({"metadata": {"name": "a", "labels": {(names::PROTOCOL): text}}});
        let known = text.parse::<u64>().is_ok_and(|protocol| protocol <= names::PROTOCOL_VERSION);
        prop_assert_eq!(read(&object(value), None).unusable().is_none(), known);
    }
}
