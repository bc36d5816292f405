//! What of the marks is kept where there is no room for all, and what is missing of them in words (I4, I14).

use super::*;

/// Whoever may make pods could use the room up.
#[test]
fn i14_what_the_cluster_rests_on_is_marked_first() {
    let rows: [(&str, Change, Change); 3] = [
        ("not ready", |_| {}, |p| p.ready = false),
        ("no static pod", |p| p.mirror = true, |_| {}),
        (
            "another namespace",
            |_| {},
            |p| p.namespace = "shop".to_owned(),
        ),
    ];
    for (name, first, others) in rows {
        let mut pods: Vec<_> = (0..CONTAINERS_MAX)
            .map(|n| pod(&format!("p{n}"), &format!("a{n}")))
            .collect();
        pods.iter_mut().for_each(others);
        let mut one = pod("first", "z");
        one.containers.push(container("2"));
        first(&mut one);
        pods.push(one);
        let marks = Marks::take(&pods);
        assert!(marks.containers.contains_key("first"), "{name}");
        assert_eq!(marks.containers.len(), CONTAINERS_MAX - 1, "{name}");
    }
}

#[test]
fn a_set_with_two_pods_here_is_marked_once() {
    let pods = [
        pod("p", "net"),
        pod("q", "net"),
        mirror("m", "etcd"),
        mirror("n", "etcd"),
    ];
    let marks = Marks::take(&pods);
    assert_eq!(marks.daemon_sets, [set("net")]);
    assert_eq!(marks.mirrors, ["kube-system/etcd"]);
}

/// As earlier releases recorded it.
#[test]
fn a_set_that_is_known_by_its_uid_is_here_by_its_uid() {
    let marks = Marks {
        daemon_sets: vec![DaemonSet::from("net".to_owned())],
        ..Marks::default()
    };
    for (owner, here) in [("net", true), ("other", false)] {
        let pods = [pod("p", owner)];
        assert_eq!(healthy(&marks, &pods).is_ok(), here, "{owner}");
    }
}

#[test]
fn the_marks_on_the_node_are_bounded() {
    // As JSON: two quotes and a comma each.
    for bytes in [61, 125] {
        let mut marks = Marks {
            mirrors: (0..500).map(|n| format!("{n:0>bytes$}")).collect(),
            ..Marks::default()
        };
        marks.shorten();
        assert_eq!(marks.mirrors.len(), NAMES_MAX / (bytes + 3));
    }
    let sets = (0..500).map(|n| set(&format!("set-{n:0>3}"))).collect();
    let mut marks = Marks {
        daemon_sets: sets,
        ..Marks::default()
    };
    marks.shorten();
    let json = |sets: &[DaemonSet]| serde_json::to_string(sets).unwrap().len();
    assert!(json(&marks.daemon_sets) <= NAMES_MAX + 1);
    let one = json(&marks.daemon_sets[..1]);
    assert!(json(&marks.daemon_sets) + one > NAMES_MAX);
    // Every container that was marked is still known.
    let pods: Vec<_> = (0..CONTAINERS_MAX)
        .map(|n| pod(&format!("p{n}"), &format!("a{n}")))
        .collect();
    let mut marks = Marks::take(&pods);
    let kept = |marks: &Marks| marks.containers["p1"][0].id.len();
    assert_eq!(kept(&marks), ID_KEPT);
    marks.shorten();
    assert_eq!(marks.hashes.len(), CONTAINERS_MAX * HASH);
    assert!(pods.iter().all(|pod| marks.marked(pod, &pod.containers[0])));
}

#[test]
fn i4_what_is_missing_of_node_and_static_pods_is_said() {
    let judged = |last: &Seen, pods: &[Pod]| judged(&host(), &policy(), last, Some(pods), false);
    let not_ready = node(false, "b", None);
    let words = "the Node is not Ready".to_owned();
    assert_eq!(judged(&not_ready, &back()), Err(vec![words]));
    // One that was not ready before, and a pod that only has the name of one that was.
    let ready = node(true, "b", None);
    let mut new = mirror("x", "new");
    new.ready = false;
    let mut other = pod("y", "etcd");
    other.ready = false;
    let [etcd] = back();
    assert_eq!(judged(&ready, &[etcd, new, other]), Ok(()));
}
