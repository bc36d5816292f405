//! On what a real API server recorded of one host's cycle (recorded.jsonl, bodies shortened).

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::audit;

const LEASE: &str = "one";

fn recorded() -> Vec<Request> {
    let lines = concat!(env!("CARGO_MANIFEST_DIR"), "/src/verdict/recorded.jsonl");
    audit::read(lines.as_ref(), "").unwrap()
}

/// The write that was answered with this revision.
fn at(requests: &mut [Request], wanted: u64) -> &mut Request {
    requests
        .iter_mut()
        .find(|request| revision(request) == Some(wanted))
        .unwrap()
}

/// The revisions of the cycle: taken, labelled, cordoned, given up.
fn landmarks(requests: &[Request]) -> (u64, u64, u64) {
    let changes = holders(requests, LEASE);
    let cordon = writes(requests, "nodes", "")
        .into_iter()
        .find(|(_, write)| cordons_node(write))
        .unwrap();
    (changes[0].revision, cordon.0, changes[1].revision)
}

fn answer(request: &mut Request, field: &str, value: Value) {
    let body = Arc::make_mut(request.response.as_mut().unwrap());
    match field {
        "revision" => body["metadata"]["resourceVersion"] = value,
        field => body["spec"][field] = value,
    }
}

#[test]
fn a_recorded_cycle_is_in_order() {
    let requests = recorded();
    let changes = holders(&requests, LEASE);
    let words: Vec<_> = changes
        .iter()
        .map(|change| (change.from.as_deref(), change.to.as_deref()))
        .collect();
    assert_eq!(words, [(None, Some("one-1")), (Some("one-1"), None)]);
    assert_eq!(changes[0].by, "system:node:one-1");
    assert_eq!(one_holder_at_a_time(&requests, LEASE), Ok(()));
    assert!(cordons_while_holding(&requests).unwrap() >= 1);
    assert_eq!(uncordoned_before_give_up(&requests), Ok(()));
    assert_eq!(most_held_at_once(&requests, &[LEASE.to_owned()]), 1);
}

#[test]
fn i1_name_to_name_is_found_whoever_does_it() {
    let mut requests = recorded();
    let (.., end) = landmarks(&requests);
    let give_up = at(&mut requests, end);
    answer(give_up, "holderIdentity", json!("one-2"));
    give_up.user = "admin".to_owned();
    let said = one_holder_at_a_time(&requests, LEASE).unwrap_err();
    assert!(
        said.contains("admin took it from one-1 for one-2"),
        "{said}"
    );
}

#[test]
fn i1_a_node_that_clears_another_ones_slot_is_found_and_an_admin_may() {
    let mut requests = recorded();
    let (.., end) = landmarks(&requests);
    at(&mut requests, end).user = "system:node:one-2".to_owned();
    let said = one_holder_at_a_time(&requests, LEASE).unwrap_err();
    assert!(said.contains("one-2 wrote for one-1"), "{said}");
    at(&mut requests, end).user = "admin".to_owned();
    assert_eq!(one_holder_at_a_time(&requests, LEASE), Ok(()));
}

#[test]
fn a_lease_made_anew_begins_without_a_holder() {
    let mut requests = recorded();
    let (.., end) = landmarks(&requests);
    let taken_anew = at(&mut requests, end);
    answer(taken_anew, "holderIdentity", json!("one-2"));
    taken_anew.user = "system:node:one-2".to_owned();
    let body = Arc::make_mut(taken_anew.response.as_mut().unwrap());
    body["metadata"]["uid"] = json!("another");
    assert_eq!(one_holder_at_a_time(&requests, LEASE), Ok(()));
}

#[test]
fn i1_a_cordon_before_the_take_or_after_the_give_up_is_found() {
    let (taken, cordon, end) = landmarks(&recorded());
    for (moved, found) in [(taken - 1, true), (end + 1, true), (end - 1, false)] {
        let mut requests = recorded();
        answer(
            at(&mut requests, cordon),
            "revision",
            json!(moved.to_string()),
        );
        assert_eq!(cordons_while_holding(&requests).is_err(), found, "{moved}");
    }
}

#[test]
fn a_cordon_that_was_refused_is_none() {
    let mut requests = recorded();
    let before = cordons_while_holding(&requests).unwrap();
    let (_, cordon, _) = landmarks(&requests);
    at(&mut requests, cordon).code = 409;
    assert_eq!(cordons_while_holding(&requests), Ok(before - 1));
}

#[test]
fn i4_a_give_up_with_the_cordon_still_there_is_found() {
    let mut requests = recorded();
    let (_, cordon, end) = landmarks(&requests);
    requests.retain(|request| {
        request.resource != "nodes"
            || request.code != 200
            || revision(request).is_none_or(|revision| revision <= cordon || revision > end)
    });
    let said = uncordoned_before_give_up(&requests).unwrap_err();
    assert!(said.contains("one-1 gave up"), "{said}");
    at(&mut requests, end).user = "admin".to_owned();
    assert_eq!(uncordoned_before_give_up(&requests), Ok(()));
}

#[test]
fn i1_two_leases_at_once_are_counted() {
    let mut requests = recorded();
    let (taken, _, end) = landmarks(&requests);
    let mut second: Vec<Request> = requests.clone();
    second.retain(|request| request.resource == "leases");
    for request in &mut second {
        request.name = "two".to_owned();
    }
    // Taken while the first is held, given up after it.
    answer(
        at(&mut second, taken),
        "revision",
        json!((taken + 1).to_string()),
    );
    answer(
        at(&mut second, end),
        "revision",
        json!((end + 1).to_string()),
    );
    requests.extend(second);
    let leases = [LEASE.to_owned(), "two".to_owned()];
    assert_eq!(most_held_at_once(&requests, &leases), 2);
    assert_eq!(most_held_at_once(&requests, &leases[..1]), 1);
}

#[test]
fn i13_two_cordons_at_once_are_counted() {
    let mut requests = recorded();
    assert_eq!(most_cordoned_at_once(&requests), 1);
    let (_, cordon, _) = landmarks(&requests);
    let mut second = at(&mut requests, cordon).clone();
    second.name = "one-2".to_owned();
    requests.push(second);
    assert_eq!(most_cordoned_at_once(&requests), 2);
}

#[test]
fn keys_of_ours_are_named_but_the_history() {
    let node = json!({"metadata": {
        "labels": {"kube-rebootd/slot": "one", "kubernetes.io/os": "linux"},
        "annotations": {"kube-rebootd/history": "[]", "kube-rebootd/state": "{}"},
    }});
    let found: Vec<String> = keys(&node).collect();
    assert_eq!(
        found,
        ["labels kube-rebootd/slot", "annotations kube-rebootd/state"]
    );
}
