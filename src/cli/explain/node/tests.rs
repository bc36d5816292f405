//! What `explain NODE` makes of what it read, and how it shows that.

use kube_rebootd_core::reason::Reason;
use serde_json::{from_value, json};

use super::*;
use crate::cli::explain::Fated;

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn now() -> Timestamp {
    time("2026-11-21T10:10:00Z")
}

/// A Node that was `told` last, of which nothing else is unusual.
fn node(told: &str, reason: &str) -> Object {
    from_value(written(told, reason)).expect("a Node")
}

fn written(told: &str, reason: &str) -> Value {
    let history = json!([{"at": "2026-11-01T03:00:00Z", "automatic": true, "reasons": ["builtin kernel"],
        "rolled_back": "kernel 2 was to come up, and 1 came again",
        "since": ["2026-10-31T20:00:00Z"], "times": {"slot": 24_900, "claim": 2, "drain": 75, "evicted": 12, "boot": 48}}]);
    let ours = json!({"type": "RebootRequired", "status": "True", "reason": reason,
        "message": "waiting for a slot of the group default; asked for by sentinel /run/reboot-required (libc6)",
        "lastHeartbeatTime": told, "lastTransitionTime": "2026-11-18T03:00:00Z"});
    let planned = json!({"type": "MaintenancePlanned", "status": "True", "reason": "KubeRebootd", "message": "words",
        "lastTransitionTime": "2026-11-21T09:00:00Z"});
    let over =
        json!({"type": "Drained", "status": "False", "reason": "KubeRebootd", "message": ""});
    let ready =
        json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-20T10:10:00Z"});
    json!({
        "metadata": {"name": "n1", "uid": "u",
            "annotations": {"kube-rebootd/group": "default", "kube-rebootd/version": "1.2.3",
                "kube-rebootd/reboot": "new firmware", "kube-rebootd/history": history.to_string()},
            "managedFields": [{"manager": "kubectl-cordon", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]},
        "spec": {"unschedulable": true},
        "status": {"conditions": [ready, ours, planned, over]},
    })
}

fn there(object: Object) -> Found {
    Found::There(Box::new(object))
}

fn lease(name: &str, group: &str, holder: Option<&str>) -> Lease {
    Lease {
        holder: holder.map(str::to_owned),
        ..Lease::free(name, group)
    }
}

fn waiter(node: &str, since: &str) -> Waiter {
    Waiter {
        node: node.to_owned(),
        since: time(since),
        ready: true,
    }
}

fn reads() -> Reads {
    let paused = Lease {
        paused: Some("a bad kernel".to_owned()),
        ..lease("default-2", "default", None)
    };
    Reads {
        node: there(node("2026-11-21T09:50:00Z", "Queued")),
        leases: Some(vec![
            lease("default", "default", Some("n5")),
            paused,
            lease("gpu", "gpu", Some("n8")),
        ]),
        waiters: Some(vec![
            waiter("n7", "2026-11-21T08:00:00Z"),
            waiter("n1", "2026-11-21T09:00:00Z"),
            waiter("n9", "2026-11-21T09:30:00Z"),
        ]),
        events: Some(tale(1, false)),
        hidden: Vec::new(),
    }
}

fn tale(events: usize, more: bool) -> Tale {
    let one = Told {
        at: Some(time("2026-11-21T09:00:00Z")),
        warning: true,
        reason: "Failing".to_owned(),
        message: "three attempts or more failed in a row; the next one is later".to_owned(),
        count: 3,
    };
    Tale {
        events: vec![one; events],
        more,
    }
}

fn drained() -> Drain {
    Drain {
        evicts: Some(true),
        pods: vec![Fated {
            pod: "shop/db-0".to_owned(),
            fate: "refused",
            why: Some("Cannot evict pod".to_owned()),
            budget: Some("shop/db".to_owned()),
        }],
        ..Drain::default()
    }
}

/// What is seen of n1 where this was read.
fn look(reads: Reads) -> Result<Seen, Unseen> {
    let config = Config::default();
    let which = Which {
        node: "n1",
        namespace: "kube-rebootd",
        config: &config,
        own: false,
    };
    let group = group(which, reads.node.object(), reads.leases.as_deref());
    seen(which, &group, reads, drained(), now())
}

fn shown(reads: Reads) -> String {
    let page = page(&look(reads).expect("it is seen"), now());
    let long = page.lines().find(|line| line.chars().count() > 100);
    assert_eq!(long, None, "{page}");
    page
}

#[test]
fn the_json_is_stable() {
    let seen = look(reads()).expect("it is seen");
    assert!(!seen.unsure() && seen.member.person.is_none());
    insta::assert_snapshot!(serde_json::to_string_pretty(&seen).expect("JSON"));
    insta::assert_snapshot!(shown(reads()));
}

/// Whoever reads `nodes --json` finds the same words under the same keys.
#[test]
fn it_has_all_that_nodes_has() {
    let seen = look(reads()).expect("it is seen");
    let member = serde_json::to_value(&seen.member).expect("JSON");
    let seen = serde_json::to_value(seen).expect("JSON");
    for (key, value) in member.as_object().expect("an object") {
        assert_eq!(seen[key], *value, "{key}");
    }
}

#[test]
fn a_silent_daemon_is_said_before_all_that_it_said() {
    let silent = || Reads {
        node: there(node("2026-11-21T08:00:00Z", "Queued")),
        ..reads()
    };
    let seen = look(silent()).expect("it is seen");
    assert!(seen.silent && seen.member.person.is_some());
    let page = shown(silent());
    let second = page.lines().nth(1).expect("a line");
    assert!(
        second.contains("! silent for 2h: its daemon does not run"),
        "{page}"
    );
    assert!(page.contains("and nothing since"), "{page}");
    let ahead = || Reads {
        node: there(node("2026-11-21T13:10:00Z", "Queued")),
        ..reads()
    };
    let seen = look(ahead()).expect("it is seen");
    assert!(seen.silent && seen.member.told.is_some());
    let page = shown(ahead());
    assert!(
        page.contains("! silent (its clock is ahead by 3h): "),
        "{page}"
    );
    assert!(page.contains("(in 3h): its clock is ahead"), "{page}");
    let never = || Reads {
        node: there(from_value(json!({"metadata": {"name": "n1"}})).expect("a Node")),
        ..reads()
    };
    assert!(look(never()).expect("it is seen").silent);
    assert!(shown(never()).contains("no report from kube-rebootd"));
}

/// The judgement is that of `nodes --unhealthy`, the slots among it.
#[test]
fn who_needs_a_person_is_as_nodes_says() {
    let person = |reads: Reads| look(reads).expect("it is seen").member.person;
    let sick = Reads {
        node: there(node("2026-11-21T10:00:00Z", Reason::Unhealthy.name())),
        ..reads()
    };
    assert!(person(sick).is_some());
    let gone = |holder: Option<&str>| Reads {
        node: Found::Gone,
        leases: Some(vec![lease("gpu", "gpu", holder)]),
        waiters: Some(Vec::new()),
        ..reads()
    };
    let why = "its slot is held, and there is no such Node";
    assert_eq!(person(gone(Some("n1"))).as_deref(), Some(why));
    let page = shown(gone(Some("n1")));
    // The slot that is held is shown, whatever its group.
    assert!(page.contains("slot    holds gpu"), "{page}");
    assert!(page.contains("Slots of the group gpu"), "{page}");
    let none = look(gone(None)).expect_err("nothing is known");
    assert!(none.to_string().contains("there is no Node n1"), "{none}");
}

#[test]
fn what_may_not_be_seen_is_said_with_the_right_and_the_rest_is_shown() {
    let hides = |what, right: &str| Hidden {
        what,
        right: Some(right.to_owned()),
        why: format!("{right}: denied (403): forbidden"),
    };
    let no_node = || Reads {
        node: Found::Hidden,
        hidden: vec![hides("node", "get Nodes")],
        ..reads()
    };
    let seen = look(no_node()).expect("the slots are seen");
    // n1 may be there or not: that nobody needs to look is not known.
    assert!(seen.unsure() && seen.member.person.is_none() && seen.exists.is_none());
    let page = shown(no_node());
    assert!(page.contains("it wants the right to get Nodes"), "{page}");
    assert!(page.contains("Slots of the group default"), "{page}");
    let no_slots = || Reads {
        leases: None,
        hidden: vec![hides("slots", "list Leases in the namespace kube-rebootd")],
        ..reads()
    };
    let seen = look(no_slots()).expect("the Node is seen");
    assert!(seen.unsure() && seen.slots.is_none());
    assert!(!shown(no_slots()).contains("Slots of the group"));
    let no_events = || Reads {
        events: None,
        hidden: vec![hides("events", "list Events in the namespace default")],
        ..reads()
    };
    assert!(!look(no_events()).expect("it is seen").unsure());
    assert!(shown(no_events()).contains("Not seen"));
}

#[test]
fn events_that_are_not_shown_are_counted() {
    let with = |events, more| Reads {
        events: Some(tale(events, more)),
        ..reads()
    };
    let (two, cut) = ("and 2 more: --json has all", "! not all were read");
    for (events, more, says) in [
        (10, false, [false, false]),
        (12, false, [true, false]),
        (12, true, [true, true]),
        (0, true, [false, true]),
    ] {
        let page = shown(with(events, more));
        let noted = "Events\n  whoever may write Events in the namespace default";
        assert!(page.contains(noted), "{page}");
        assert_eq!([two, cut].map(|words| page.contains(words)), says, "{page}");
        assert_eq!(page.matches("Failing").count(), events.min(10), "{page}");
    }
    assert!(!shown(with(0, false)).contains("Events"));
}

/// Found by an attacker: whoever may apply to a Node is on record as often as he likes.
#[test]
fn i14_of_many_managers_of_a_cordon_five_are_named() {
    let mut object = written("2026-11-21T09:50:00Z", "Queued");
    let managers = (1..=8).map(|number| {
        json!({"manager": format!("m{number}"), "fieldsV1": {"f:spec": {"f:unschedulable": {}}}})
    });
    object["metadata"]["managedFields"] = managers.collect();
    let many = || Reads {
        node: there(from_value(object.clone()).expect("a Node")),
        ..reads()
    };
    let page = shown(many());
    assert!(
        page.contains("by others: m1, m2, m3, m4, m5, and 3 more\n"),
        "{page}"
    );
    assert_eq!(look(many()).expect("it is seen").cordoned_by.len(), 8);
}

/// Found by an attacker: a server that was busy was said to want a right, with the exit code of a refusal.
#[test]
fn only_what_was_denied_wants_a_right() {
    let hid = |error: ApiError| {
        let mut hidden = Vec::new();
        let none: Option<Vec<Lease>> = hide("slots", "list Leases", Err(error), &mut hidden);
        assert_eq!(none, None);
        Reads {
            leases: None,
            hidden,
            ..reads()
        }
    };
    let denied = |code| {
        hid(ApiError::Denied {
            what: "list Leases".to_owned(),
            message: "forbidden".to_owned(),
            code,
        })
    };
    let unreachable = || {
        hid(ApiError::Unreachable {
            what: "list Leases".to_owned(),
            message: "nothing within 15 s".to_owned(),
        })
    };
    let wants = "it wants the right to list Leases";
    for (reads, again, failed) in [
        (denied(403), denied(403), false),
        (denied(401), denied(401), true),
        (unreachable(), unreachable(), true),
    ] {
        let seen = look(reads).expect("the Node is seen");
        assert!(seen.unsure());
        assert_eq!(seen.failed(), failed, "{:?}", seen.hidden);
        let page = shown(again);
        assert!(page.contains("Not seen\n  slots  list Leases: "), "{page}");
        assert_eq!(page.contains(wants), !failed, "{page}");
    }
    // The judgement does not rest on Events.
    let mut hidden = Vec::new();
    let busy = ApiError::Expired {
        what: "list Events".to_owned(),
    };
    hide::<Tale>("events", "list Events", Err(busy), &mut hidden);
    let seen = look(Reads { hidden, ..reads() }).expect("it is seen");
    assert!(!seen.unsure() && !seen.failed());
}
