//! What is believed of a watch (I5, I7).

use super::*;

/// A Lease, at this version; `read`: by a consistent read so many seconds ago.
fn lease(name: &str, version: &str, read: Option<u64>) -> Lease {
    Lease {
        resource_version: version.to_owned(),
        read: read.map(ago),
        ..Lease::free(name, "default")
    }
}

fn known(machine: &mut Machine, lease: Lease) {
    machine.facts.leases.insert(lease.name.clone(), lease);
}

fn shows(machine: &mut Machine, shown: Option<Vec<Lease>>) {
    machine.see_leases("default", shown, None, now());
}

fn version<'a>(machine: &'a Machine, name: &str) -> Option<&'a str> {
    let lease = machine.facts.leases.get(name);
    lease.map(|lease| lease.resource_version.as_str())
}

#[test]
fn i5_a_view_of_a_lease_counts_where_it_is_newer() {
    for (known_, read, uid, shown, then) in [
        ("5", None, "default-uid", "6", "6"),
        ("5", None, "default-uid", "5", "5"),
        ("5", Some(0), "default-uid", "4", "5"),
        // As numbers: 10 is more than 9. What is no number is taken where it differs.
        ("9", None, "default-uid", "10", "10"),
        ("x", None, "default-uid", "y", "y"),
        ("9", None, "default-uid", "y", "y"),
        // Made anew: by a watch at once, but not against what was read lately.
        ("5", None, "another", "4", "4"),
        ("5", Some(180), "another", "4", "5"),
        ("5", Some(180), "another", "6", "6"),
        ("5", Some(181), "another", "4", "4"),
    ] {
        let mut machine = idle();
        known(&mut machine, lease("default", known_, read));
        let mut view = lease("default", shown, None);
        uid.clone_into(&mut view.uid);
        shows(&mut machine, Some(vec![view]));
        let what = format!("{known_} {read:?} {uid} {shown}");
        assert_eq!(version(&machine, "default"), Some(then), "{what}");
    }
}

#[test]
fn a_lease_that_is_not_shown_is_gone_from_its_group_only() {
    let mut machine = idle();
    for name in ["a", "b", "other"] {
        known(&mut machine, lease(name, "5", None));
    }
    let other = machine.facts.leases.get_mut("other").unwrap();
    "other".clone_into(&mut other.group);
    shows(&mut machine, Some(vec![lease("b", "5", None)]));
    let names: Vec<&String> = machine.facts.leases.keys().collect();
    assert_eq!(names, ["b", "other"]);
    // Before its first list a watch says nothing.
    shows(&mut machine, None);
    assert!(version(&machine, "b").is_some());
}

#[test]
fn i8_whether_the_leases_are_known_is_what_their_watch_says() {
    let asking = Err("asking the API server for the Leases".to_owned());
    let denied = Err("denied".to_owned());
    for (shown, trouble, listed) in [
        (Some(Vec::new()), None, Ok(())),
        (None, None, asking),
        (Some(Vec::new()), Some("denied"), denied.clone()),
        (None, Some("denied"), denied),
    ] {
        let mut machine = idle();
        machine.see_leases("default", shown, trouble.map(str::to_owned), now());
        assert_eq!(machine.facts.listed, listed);
    }
}

/// After a write that failed, only a read tells what became of the own slot.
#[test]
fn i1_a_watch_does_not_bring_back_the_own_lease_that_is_in_doubt() {
    for (started, lease_, believed) in [
        (true, "default", false),
        (true, "second", true),
        (false, "default", true),
    ] {
        let mut machine = held(Stage::Claiming);
        machine.facts.started = started;
        machine.facts.absent.insert(lease_.to_owned(), NOW);
        shows(&mut machine, Some(vec![lease(lease_, "9", None)]));
        assert_eq!(version(&machine, lease_).is_some(), believed, "{lease_}");
        assert_eq!(machine.facts.absent.is_empty(), believed, "{lease_}");
    }
    let mut machine = idle();
    shows(&mut machine, Some(vec![lease("default", "9", None)]));
    assert!(version(&machine, "default").is_some(), "no hold");
}

#[test]
fn i5_when_a_slot_became_free_is_what_the_watch_saw() {
    let mut machine = idle();
    let mut taken = lease("default", "5", None);
    taken.holder = Some("n2".to_owned());
    known(&mut machine, taken);
    shows(&mut machine, Some(vec![lease("default", "6", None)]));
    assert_eq!(machine.facts.leases["default"].freed, Some(NOW));
}

#[test]
fn i5_a_view_of_the_own_node_counts_where_it_is_newer() {
    let view = |uid: &str, version: &str, read: Option<u64>| Node {
        uid: uid.to_owned(),
        resource_version: version.to_owned(),
        read: read.map(ago),
        ..Node::ready()
    };
    for (known, shown, then) in [
        (("u", "5", None), ("u", "6"), "6"),
        (("u", "5", None), ("u", "5"), "5"),
        (("u", "5", None), ("u", "4"), "5"),
        (("u", "5", Some(9_000)), ("u", "4"), "5"),
        (("u", "5", None), ("new", "4"), "4"),
        (("u", "5", Some(180)), ("new", "4"), "5"),
        (("u", "5", Some(181)), ("new", "4"), "4"),
    ] {
        let mut machine = idle();
        let (uid, version, read) = known;
        machine.facts.node = Seen::Present(Box::new(view(uid, version, read)));
        machine.see_node(Some(view(shown.0, shown.1, None)), now());
        assert_eq!(
            node(&mut machine).resource_version,
            then,
            "{known:?} {shown:?}"
        );
    }
}

#[test]
fn i1_a_watch_alone_tells_neither_that_the_node_is_gone_nor_what_became_of_a_write() {
    let after = |mut machine: Machine, shown: Option<Node>| {
        machine.see_node(shown, now());
        machine.facts.node
    };
    let mut read = idle();
    node(&mut read).read = Some(NOW);
    let known = read.facts.node.clone();
    assert_eq!(after(read.clone(), None), known);
    // It is read again; also where the last answer was that to a write of long ago.
    assert_eq!(after(idle(), None), Seen::Unknown);
    node(&mut read).read = Some(ago(181));
    assert_eq!(after(read, None), Seen::Unknown);
    let rows: [(Of, Option<Node>, bool); 4] = [
        (idle, Some(Node::ready()), true),
        (|| held(Stage::Claiming), Some(Node::ready()), false),
        (|| held(Stage::Claiming), None, false),
        (idle, None, false),
    ];
    for (machine, shown, believed) in rows {
        let mut machine = machine();
        machine.facts.node = Seen::Unknown;
        let seen = matches!(after(machine, shown), Seen::Present(_));
        assert_eq!(seen, believed);
    }
    let mut machine = idle();
    machine.facts.node = Seen::Absent;
    assert!(matches!(
        after(machine.clone(), Some(Node::ready())),
        Seen::Present(_)
    ));
    assert_eq!(after(machine, None), Seen::Absent);
}
