//! Which DaemonSets and static pods are marked before the drain, and when they are back (I4, I8, I14).

use super::*;
use crate::pod::PodPhase;

/// Proved with a real kubelet and `GracefulNodeShutdown`: the slot was given up with none of two pods here.
#[test]
fn i4_a_daemon_set_without_a_pod_is_missing_as_long_as_it_exists() {
    let marks = Marks::take(&[pod("p", "net")]);
    let why = || "forbidden".to_owned();
    // What is found, what is missing before health.timeout, and after it.
    let rows = [
        (None, "net has no pod here", "net has no pod here"),
        (
            Some(Found::Wanted),
            "net has no pod here",
            "net has no pod here",
        ),
        (Some(Found::Gone), "", ""),
        (
            Some(Found::Unwanted(why())),
            "net has no pod here (forbidden)",
            "",
        ),
        (
            Some(Found::Unreadable(why())),
            "net has no pod here (forbidden)",
            "",
        ),
    ];
    for (found, before, after) in rows {
        let known: BTreeMap<_, _> = found.iter().map(|it| (set("net"), it.clone())).collect();
        for (late, words) in [(false, before), (true, after)] {
            let judged = pods_healthy(&marks, &[], &known, late);
            let missing = match words {
                "" => Ok(()),
                words => Err(vec![format!("DaemonSet kube-system/{words}")]),
            };
            assert_eq!(judged, missing, "{found:?} {late}");
        }
        let waived = waived(&marks, &[], &known);
        assert_eq!(waived.len(), usize::from(before != after), "{found:?}");
    }
    assert_eq!(looked_at(&marks, &[], false), [&set("net")]);
    // Whatever was found while it was absent: a pod here is judged by itself.
    let mut new = pod("q", "net");
    assert_eq!(
        looked_at(&marks, std::slice::from_ref(&new), true),
        [] as [&DaemonSet; 0]
    );
    let unwanted = BTreeMap::from([(set("net"), Found::Unwanted(why()))]);
    assert!(pods_healthy(&marks, std::slice::from_ref(&new), &unwanted, false).is_ok());
    new.ready = false;
    assert!(pods_healthy(&marks, std::slice::from_ref(&new), &unwanted, true).is_err());
}

/// Found by an attacker: a pod that names a DaemonSet of no existence, and that its finalizer keeps here, kept the slot.
#[test]
fn i14_a_pod_that_is_on_its_way_out_stands_for_no_daemon_set() {
    let marks = Marks::take(&[pod("p", "net")]);
    let mut held = pod("p", "net");
    (held.terminating, held.ready) = (true, false);
    held.finalizers = vec!["a.b/c".to_owned()];
    let here = std::slice::from_ref(&held);
    assert_eq!(
        looked_at(&marks, here, false),
        [&set("net")],
        "it is asked for"
    );
    let gone = BTreeMap::from([(set("net"), Found::Gone)]);
    assert!(pods_healthy(&marks, here, &gone, false).is_ok());
}

/// Found by review: whoever may make one pod, and no DaemonSet, kept the slot for ever: no garbage collector takes a pod away whose
/// owner it cannot look for.
#[test]
fn i14_a_pod_that_names_a_daemon_set_of_no_existence_is_waited_for_until_the_timeout() {
    let marks = Marks::take(&[pod("p", "net")]);
    let mut ended = pod("p", "net");
    (ended.phase, ended.ready) = (PodPhase::Failed, false);
    assert_eq!(
        looked_at(&marks, std::slice::from_ref(&ended), false),
        [&set("net")]
    );
    let gone = BTreeMap::from([(set("net"), Found::Gone)]);
    assert!(pods_healthy(&marks, &[ended], &gone, false).is_ok());
    let mut broken = pod("p", "net");
    broken.ready = false;
    let here = std::slice::from_ref(&broken);
    assert_eq!(looked_at(&marks, here, false), [] as [&DaemonSet; 0]);
    assert_eq!(looked_at(&marks, here, true), [&set("net")]);
    assert!(pods_healthy(&marks, here, &gone, false).is_err());
    assert!(pods_healthy(&marks, here, &gone, true).is_ok());
    for there in [Found::Wanted, Found::Unwanted(String::new())] {
        let there = BTreeMap::from([(set("net"), there)]);
        assert!(pods_healthy(&marks, here, &there, true).is_err());
    }
}

/// Found by an attacker: the name of an owner is any text, and became part of the path of a request.
#[test]
fn i14_an_owner_whose_name_no_daemon_set_can_have_is_not_asked_for() {
    for name in ["x?timeout=1ns", "../x", "x/status", "X"] {
        let mut odd = pod("p", "net");
        odd.controller.as_mut().unwrap().name = name.to_owned();
        let marks = Marks::take(&[odd]);
        assert_eq!(
            looked_at(&marks, &[], false),
            [] as [&DaemonSet; 0],
            "{name}"
        );
        assert!(pods_healthy(&marks, &[], &BTreeMap::new(), true).is_ok());
    }
}

#[test]
fn a_daemon_set_that_cannot_be_asked_for_is_missing_until_the_timeout() {
    let mut advanced = pod("p", "net");
    let owner = advanced.controller.as_mut().unwrap();
    owner.api = "apps.kruise.io/v1alpha1".to_owned();
    let marks = Marks::take(&[advanced]);
    assert!(looked_at(&marks, &[], false).is_empty());
    let words = ["DaemonSet with UID net has no pod here (it cannot be asked for)".to_owned()];
    assert_eq!(healthy(&marks, &[]), Err(words.to_vec()));
    assert_eq!(pods_healthy(&marks, &[], &BTreeMap::new(), true), Ok(()));
}

/// Found by reading: a pod that copied the UID of a DaemonSet passed for one of its pods.
#[test]
fn i14_a_pod_that_copies_the_uid_of_a_daemon_set_is_not_its_pod() {
    let mut real = pod("p", "net");
    let marks = Marks::take(std::slice::from_ref(&real));
    let mut forged = pod("q", "net");
    forged.namespace = "tenant".to_owned();
    let mut unserved = pod("r", "net");
    unserved.controller.as_mut().unwrap().api = "nobody.example/v1".to_owned();
    real.ready = false;
    let here = [forged.clone(), unserved.clone(), real];
    let words = "DaemonSet pod kube-system/net is not ready".to_owned();
    assert_eq!(healthy(&marks, &here), Err(vec![words]));
    let words = "DaemonSet kube-system/net has no pod here".to_owned();
    assert_eq!(
        healthy(&marks, &[forged.clone(), unserved.clone()]),
        Err(vec![words])
    );
    let here = [forged.clone(), unserved];
    assert_eq!(
        looked_at(&marks, &here, false),
        [&set("net")],
        "it is asked for"
    );
    // Marked beside the real one, and found to be none.
    let marks = Marks::take(&[pod("p", "net"), forged.clone()]);
    let copied = DaemonSet::of(&forged).unwrap();
    let gone = BTreeMap::from([(copied, Found::Gone)]);
    let mut real = pod("p", "net");
    real.ready = false;
    let words = "DaemonSet pod kube-system/net is not ready".to_owned();
    assert_eq!(
        pods_healthy(&marks, &[real], &gone, false),
        Err(vec![words])
    );
    let words = "DaemonSet kube-system/net has no pod here".to_owned();
    assert_eq!(pods_healthy(&marks, &[], &gone, false), Err(vec![words]));
    let back = pod("new", "net");
    assert_eq!(pods_healthy(&marks, &[back], &gone, false), Ok(()));
}

/// Found by reading: pods of tenants used up the bound, and static pods were not waited for.
#[test]
fn i4_what_the_cluster_rests_on_is_marked_first() {
    let many = |namespace: &str, number: usize| {
        let mut pod = pod(
            &format!("{namespace}-{number}"),
            &format!("{namespace}-{number}"),
        );
        pod.namespace = namespace.to_owned();
        let one = pod.containers[0].clone();
        pod.containers = vec![one; CONTAINERS_MAX / 8];
        pod
    };
    let mut pods: Vec<Pod> = (0..8).map(|number| many("a", number)).collect();
    let mut etcd = pod("etcd", "etcd");
    etcd.mirror = true;
    pods.extend([pod("net", "net"), etcd]);
    let marks = Marks::take(&pods);
    assert_eq!(marks.mirrors, ["kube-system/etcd"]);
    assert!(marks.daemon_sets.contains(&set("net")), "{marks:?}");
    assert!(marks.daemon_sets.len() < 9, "the bound was met");
}

/// Found by an attacker's reading: one pod of 450 containers in a namespace early in the alphabet left no room for what
/// comes later there.
#[test]
fn i4_i14_pods_with_many_containers_crowd_nobody_out() {
    let one = |namespace: &str, name: &str, containers: usize| {
        let mut pod = pod(name, name);
        pod.namespace = namespace.to_owned();
        pod.containers = vec![pod.containers[0].clone(); containers];
        pod
    };
    let mut pods = vec![one("a", "big", 450), one("a", "five", 5)];
    // As many as the kubelet takes on a node (`maxPods`).
    pods.extend((0..108).map(|number| one("storage", &format!("p{number}"), 4)));
    let marks = Marks::take(&pods);
    let named = |name: &str| marks.daemon_sets.iter().any(|set| set.name == name);
    assert!((0..108).all(|number| named(&format!("p{number}"))));
    assert!(named("five") && !named("big"), "the bound was met");
    // Nor with many pods of few containers.
    let mut pods: Vec<Pod> = (0..170)
        .map(|number| one("a", &format!("p{number}"), 3))
        .collect();
    pods.push(one("storage", "csi", 3));
    let marks = Marks::take(&pods);
    assert!(marks.daemon_sets.iter().any(|set| set.name == "csi"));
    assert!(marks.daemon_sets.len() < 171, "the bound was met");
}

/// Found by reading: on the Node's annotation, which has less room than the state file, they came in the order of the
/// alphabet, and whoever made DaemonSets with long names used that up.
#[test]
fn i4_what_the_cluster_rests_on_is_marked_on_the_node_as_well() {
    let mut pods: Vec<Pod> = (0..200)
        .map(|number| {
            let name = format!("{}-{number}", "a".repeat(200));
            let mut pod = pod(&format!("0-{name}"), &name);
            pod.namespace = "a".to_owned();
            pod
        })
        .collect();
    pods.push(pod("net", "net"));
    let mut marks = Marks::take(&pods);
    assert_eq!(marks.daemon_sets.len(), 201);
    marks.shorten();
    assert!(marks.daemon_sets.len() < 201, "the bound was met");
    assert!(marks.daemon_sets.contains(&set("net")));
}

#[test]
fn i6_a_record_of_uids_alone_is_read() {
    let old = r#"{"daemon_sets": ["0-1-2"], "mirrors": ["kube-system/etcd-n1"]}"#;
    let marks: Marks = serde_json::from_str(old).unwrap();
    assert_eq!(marks.daemon_sets[0].uid, "0-1-2");
    assert!(marks.daemon_sets[0].name.is_empty());
    // And what is written now is text, which an older release reads as well.
    let new = serde_json::to_value(Marks::take(&[pod("p", "net")])).unwrap();
    assert_eq!(
        new["daemon_sets"],
        serde_json::json!(["net kube-system/net"])
    );
    assert_eq!(
        serde_json::from_value::<Marks>(new).unwrap().daemon_sets,
        [set("net")]
    );
    assert_eq!(
        serde_json::to_value(&marks.daemon_sets).unwrap(),
        serde_json::json!(["0-1-2"])
    );
}

/// What became of one marked DaemonSet: its pod here, and what is found about it.
fn any_fate() -> impl Strategy<Value = (u8, Option<Found>)> {
    let why = || "why".to_owned();
    let found = prop_oneof![
        1 => Just(None),
        3 => Just(Some(Found::Gone)),
        1 => Just(Some(Found::Wanted)),
        2 => Just(Some(Found::Unwanted(why()))),
        2 => Just(Some(Found::Unreadable(why()))),
    ];
    // 0: ready in this boot; 1: as before the boot; 2: new, not ready; 3: new, going, which is none; from 4 on: none.
    (
        prop_oneof![4 => Just(0_u8), 1 => 1..4_u8, 4 => Just(4_u8)],
        found,
    )
}

/// Only a pod that is ready in this boot, or the word that the DaemonSet is gone, settles it; after the timeout also
/// that nobody can say whether it is to come, and of a pod that is here and not ready that its DaemonSet does not exist. Both outcomes are met often.
#[test]
fn i4_i8_nothing_but_evidence_settles_a_daemon_set() {
    use std::cell::Cell;

    let (healthy, waived_only) = (Cell::new(0), Cell::new(0));
    let strategy = (prop::collection::vec(any_fate(), 0..4), any::<bool>());
    let run = |(fates, late): (Vec<(u8, Option<Found>)>, bool)| {
        let before: Vec<Pod> = (0..fates.len())
            .map(|n| pod(&format!("p{n}"), &format!("d{n}")))
            .collect();
        let marks = Marks::take(&before);
        let (mut here, mut found) = (Vec::new(), BTreeMap::new());
        let (mut good, mut by_time) = (true, false);
        for (old, (kind, said)) in before.iter().zip(fates) {
            let mut new = old.clone();
            new.uid = format!("{}-new", old.uid);
            match kind {
                0 => here.push(new),
                1 => here.push(old.clone()),
                2 => {
                    new.ready = false;
                    here.push(new);
                }
                3 => {
                    new.terminating = true;
                    here.push(new);
                }
                _ => {}
            }
            let vague = matches!(said, Some(Found::Unwanted(_) | Found::Unreadable(_)));
            let (absent, gone) = (kind >= 3, said == Some(Found::Gone));
            let broken = kind == 1 || kind == 2;
            // A pod whose DaemonSet does not exist is passed over after the timeout alone.
            let in_time = late && (absent && vague || broken && gone);
            good &= kind == 0 || absent && gone || in_time;
            by_time |= in_time;
            found.extend(said.map(|said| (set(&old.name), said)));
        }
        prop_assert_eq!(pods_healthy(&marks, &here, &found, late).is_ok(), good);
        healthy.set(healthy.get() + u32::from(good && !marks.daemon_sets.is_empty()));
        waived_only.set(waived_only.get() + u32::from(good && by_time));
        prop_assert_eq!(
            late && waived(&marks, &here, &found).is_empty(),
            late && !by_time
        );
        Ok(())
    };
    let config = Config {
        source_file: Some(file!()),
        ..Config::with_cases(1_000)
    };
    TestRunner::new(config).run(&strategy, run).unwrap();
    assert!(
        healthy.get() >= 200 && waived_only.get() >= 50,
        "{healthy:?} {waived_only:?}"
    );
}
