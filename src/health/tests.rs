//! Tables of the two steps.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::node::Node;
use crate::pod::{Controller, PodPhase, RestartPolicy};

fn container(id: &str) -> Container {
    Container {
        name: "main".to_owned(),
        id: format!("containerd://{id:0>64}"),
        started: Some(Timestamp::UNIX_EPOCH),
        restarts: 0,
    }
}

fn pod(uid: &str, owner: &str) -> Pod {
    Pod {
        namespace: "kube-system".to_owned(),
        name: owner.to_owned(),
        uid: uid.to_owned(),
        labels: BTreeMap::new(),
        mirror: false,
        controller: Some(Controller {
            api: "apps/v1".to_owned(),
            kind: "DaemonSet".to_owned(),
            name: owner.to_owned(),
            uid: owner.to_owned(),
        }),
        phase: PodPhase::Running,
        restart_policy: RestartPolicy::Always,
        terminating: false,
        grace_seconds: 30,
        finalizers: Vec::new(),
        empty_dir: false,
        volumes: Vec::new(),
        priority: 0,
        ready: true,
        containers: vec![container("1")],
    }
}

fn mirror(uid: &str, name: &str) -> Pod {
    let mut pod = pod(uid, name);
    pod.mirror = true;
    pod.controller = None;
    pod
}

fn boot(id: &str, userspace: u64) -> Boot {
    Boot {
        id: id.to_owned(),
        userspace,
    }
}

fn node(ready: bool, boot_id: &str, heartbeat: Option<i64>) -> Seen {
    Seen::Present(Box::new(Node {
        name: "n1".to_owned(),
        uid: "n".to_owned(),
        resource_version: "1".to_owned(),
        unschedulable: true,
        cordon_owners: Vec::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        ready,
        heartbeat: heartbeat.map(stamp),
        boot_id: boot_id.to_owned(),
        volumes_in_use: Vec::new(),
        read: Some(Duration::ZERO),
    }))
}

fn stamp(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

type Change = fn(&mut Pod);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn healthy(marks: &Marks, pods: &[Pod]) -> Result<(), Vec<String>> {
    pods_healthy(marks, pods, &BTreeMap::new(), false)
}

fn set(name: &str) -> DaemonSet {
    DaemonSet {
        uid: name.to_owned(),
        namespace: "kube-system".to_owned(),
        name: name.to_owned(),
    }
}

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
    assert_eq!(absent(&marks, &[]), [&set("net")]);
    // Whatever was found while it was absent: a pod here is judged by itself.
    let mut new = pod("q", "net");
    assert_eq!(
        absent(&marks, std::slice::from_ref(&new)),
        [] as [&DaemonSet; 0]
    );
    let unwanted = BTreeMap::from([(set("net"), Found::Unwanted(why()))]);
    assert!(pods_healthy(&marks, std::slice::from_ref(&new), &unwanted, false).is_ok());
    new.ready = false;
    assert!(pods_healthy(&marks, std::slice::from_ref(&new), &unwanted, true).is_err());
}

#[test]
fn a_daemon_set_that_cannot_be_asked_for_is_missing_until_the_timeout() {
    let mut advanced = pod("p", "net");
    let owner = advanced.controller.as_mut().unwrap();
    owner.api = "apps.kruise.io/v1alpha1".to_owned();
    let marks = Marks::take(&[advanced]);
    assert!(absent(&marks, &[]).is_empty());
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
    assert_eq!(absent(&marks, &here), [&set("net")], "it is asked for");
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
        pod.containers = vec![one; 100];
        pod
    };
    let mut pods: Vec<Pod> = (0..6).map(|number| many("a", number)).collect();
    let mut etcd = pod("etcd", "etcd");
    etcd.mirror = true;
    pods.extend([pod("net", "net"), etcd]);
    let marks = Marks::take(&pods);
    assert_eq!(marks.mirrors, ["kube-system/etcd"]);
    assert!(marks.daemon_sets.contains(&set("net")), "{marks:?}");
    assert!(marks.daemon_sets.len() < 7, "the bound was met");
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

#[test]
fn i4_a_static_pod_that_was_ready_is_missing_until_it_is_here_or_the_timeout() {
    let marks = Marks::take(&[mirror("m", "etcd")]);
    let words = vec!["static pod kube-system/etcd is not here".to_owned()];
    assert_eq!(mirrors_absent(&marks, &[]), words);
    assert_eq!(waived(&marks, &[], &BTreeMap::new()), words);
    let ready = node(true, "b", None);
    let step = |late: bool| judged(&host(), &policy(), &ready, Some(&[]), late);
    assert_eq!(step(false), Err(words));
    assert_eq!(step(true), Ok(()));
}

#[test]
fn i8_a_ready_from_before_the_boot_is_no_evidence() {
    let before = pod("p", "net");
    let marks = Marks::take(std::slice::from_ref(&before));
    let rows: [(&str, Change, bool); 9] = [
        ("nothing changed", |_| {}, false),
        (
            "other ID",
            |p| p.containers[0].id = "containerd://2".to_owned(),
            true,
        ),
        (
            "other start",
            |p| p.containers[0].started = Some(stamp(9)),
            true,
        ),
        ("other count", |p| p.containers[0].restarts = 1, true),
        ("new UID", |p| p.uid = "q".to_owned(), true),
        (
            "new UID, not ready",
            |p| {
                p.uid = "q".to_owned();
                p.ready = false;
            },
            false,
        ),
        ("not running", |p| p.containers[0].started = None, false),
        ("none at all", |p| p.containers.clear(), false),
        (
            "new UID, going",
            |p| {
                p.uid = "q".to_owned();
                p.terminating = true;
            },
            false,
        ),
    ];
    for (name, change, proved) in rows {
        let mut now = before.clone();
        change(&mut now);
        assert_eq!(healthy(&marks, &[now]).is_ok(), proved, "{name}");
    }
}

#[test]
fn every_container_must_have_started_anew() {
    let mut before = pod("p", "net");
    before.containers.push(Container {
        name: "side".to_owned(),
        ..container("5")
    });
    let marks = Marks::take(std::slice::from_ref(&before));
    before.containers[0].restarts = 1;
    assert!(healthy(&marks, std::slice::from_ref(&before)).is_err());
    before.containers[1].restarts = 1;
    assert!(healthy(&marks, &[before]).is_ok());
}

#[test]
fn what_was_broken_or_is_no_longer_here_stops_nothing() {
    let mut broken = pod("p", "broken");
    broken.ready = false;
    let marks = Marks::take(&[broken.clone(), pod("q", "left")]);
    assert_eq!(marks.daemon_sets, [set("left")]);
    let gone = BTreeMap::from([(set("left"), Found::Gone)]);
    assert_eq!(pods_healthy(&marks, &[broken], &gone, false), Ok(()));
}

#[test]
fn containers_are_those_of_the_later_list() {
    let mut then = pod("p", "net");
    let marks = Marks::take(std::slice::from_ref(&then));
    then.containers[0].restarts = 1;
    then.ready = false;
    let marks = marks.with_containers_of(&Marks::take(std::slice::from_ref(&then)));
    then.ready = true;
    assert!(healthy(&marks, std::slice::from_ref(&then)).is_err());
    then.containers[0].restarts = 2;
    assert!(healthy(&marks, &[then]).is_ok());
}

#[test]
fn marks_are_bounded_and_survive_the_state_file() {
    let mut many: Vec<_> = (0..2000)
        .map(|n| pod(&format!("p{n}"), &format!("d{n}")))
        .collect();
    many.push(mirror("m", "etcd"));
    let marks = Marks::take(&many);
    assert_eq!(marks.containers.len(), CONTAINERS_MAX);
    let text = serde_json::to_string(&marks).unwrap();
    assert!(text.len() < 100_000, "{}", text.len());
    assert_eq!(serde_json::from_str::<Marks>(&text).unwrap(), marks);
}

#[test]
fn the_kubelet_is_alive_by_boot_id_or_by_a_change() {
    let (old, new, soft) = (boot("a", 1), boot("b", 1), boot("a", 2));
    let mut pulse = Pulse::default();
    pulse.node(&node(true, "a", Some(1)), secs(1));
    pulse.renewed(Some(stamp(1)));
    assert!(
        kubelet_alive(&pulse, &new, &old).is_err(),
        "all from before"
    );
    assert!(
        kubelet_alive(&pulse, &soft, &old).is_err(),
        "a soft-reboot keeps the ID"
    );
    let mut by_id = pulse.clone();
    by_id.node(&node(true, "b", Some(1)), secs(1));
    assert_eq!(kubelet_alive(&by_id, &new, &old), Ok(()));
    let mut by_lease = pulse.clone();
    by_lease.renewed(Some(stamp(2)));
    assert_eq!(kubelet_alive(&by_lease, &soft, &old), Ok(()));
    pulse.node(&node(true, "a", Some(2)), secs(2));
    assert_eq!(kubelet_alive(&pulse, &soft, &old), Ok(()));
    let mut silent = Pulse::default();
    silent.node(&node(true, "", Some(1)), secs(1));
    silent.renewed(Some(stamp(1)));
    assert!(kubelet_alive(&silent, &new, &old).is_err());
    silent.renewed(Some(stamp(2)));
    assert_eq!(
        kubelet_alive(&silent, &new, &old),
        Ok(()),
        "it names no boot"
    );
}

/// The heartbeat Lease is renewed by a kubelet that has just begun, while the Node is still as it was left.
#[test]
fn i4_a_node_that_reports_an_earlier_boot_is_not_believed_because_its_lease_moved() {
    let (old, new) = (boot("a", 1), boot("b", 1));
    let mut pulse = Pulse::default();
    pulse.node(&node(true, "a", Some(1)), secs(1));
    pulse.renewed(Some(stamp(1)));
    pulse.renewed(Some(stamp(2)));
    let missing = kubelet_alive(&pulse, &new, &old).unwrap_err();
    assert!(missing.contains("still reports boot a"), "{missing}");
    pulse.node(&node(true, "b", Some(2)), secs(2));
    assert_eq!(kubelet_alive(&pulse, &new, &old), Ok(()));
}

fn policy() -> Policy {
    Policy {
        allow_degraded: false,
        boot_complete: true,
        ready_for: secs(10),
    }
}

fn host() -> HostSeen {
    HostSeen {
        boot: boot("b", 1),
        before: boot("a", 1),
        system_state: Some("running".to_owned()),
        boot_complete: Some(true),
    }
}

/// Step (a) at 10 s, with the Node ready since 0 s and a static pod that was ready before.
fn judged(
    host: &HostSeen,
    policy: &Policy,
    last: &Seen,
    pods: Option<&[Pod]>,
    late: bool,
) -> Result<(), Vec<String>> {
    let marks = Marks::take(&[mirror("m", "etcd")]);
    let mut pulse = Pulse::default();
    pulse.node(&node(true, "b", None), secs(0));
    pulse.node(last, secs(10));
    host_healthy(host, &pulse, last, &marks, pods, policy, late, secs(10))
}

/// How much of it is missing.
fn missing(host: &HostSeen, policy: &Policy, last: &Seen, pods: Option<&[Pod]>) -> usize {
    judged(host, policy, last, pods, false).map_or_else(|all| all.len(), |()| 0)
}

/// The static pod, started anew.
fn back() -> [Pod; 1] {
    let mut pod = mirror("m", "etcd");
    pod.containers[0].restarts = 1;
    [pod]
}

#[test]
fn i4_step_a_names_each_thing_that_is_missing() {
    let ready = node(true, "b", None);
    let good = |host: &HostSeen, policy: &Policy| missing(host, policy, &ready, Some(&back()));
    assert_eq!(good(&host(), &policy()), 0);
    let same = HostSeen {
        boot: boot("a", 1),
        ..host()
    };
    assert_eq!(good(&same, &policy()), 2, "no new boot, no kubelet");
    let systemd = |state: Option<&str>| HostSeen {
        system_state: state.map(str::to_owned),
        ..host()
    };
    let lenient = Policy {
        allow_degraded: true,
        ..policy()
    };
    assert_eq!(good(&systemd(Some("degraded")), &policy()), 1);
    assert_eq!(good(&systemd(Some("degraded")), &lenient), 0);
    assert_eq!(good(&systemd(Some("starting")), &lenient), 1);
    assert_eq!(good(&systemd(None), &lenient), 1);
    assert_eq!(
        good(
            &HostSeen {
                boot_complete: None,
                ..host()
            },
            &policy()
        ),
        1
    );
    let long = Policy {
        ready_for: secs(11),
        ..policy()
    };
    assert_eq!(good(&host(), &long), 1);
    let static_pods = [mirror("m", "etcd")];
    assert_eq!(missing(&host(), &policy(), &ready, Some(&static_pods)), 1);
    assert_eq!(missing(&host(), &policy(), &ready, None), 1);
    assert_eq!(
        missing(&host(), &policy(), &node(false, "b", None), Some(&back())),
        1
    );
    assert_eq!(missing(&host(), &policy(), &Seen::Absent, Some(&back())), 1);
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
    // 0: ready in this boot; 1: as before the boot; 2: new, not ready; 3: new, going; from 4 on: none.
    (
        prop_oneof![4 => Just(0_u8), 1 => 1..4_u8, 4 => Just(4_u8)],
        found,
    )
}

/// Only a pod that is ready in this boot, or the word that the DaemonSet is gone, settles it; after the timeout also
/// that nobody can say whether it is to come. Both outcomes are met often.
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
            let absent = kind >= 4;
            good &= kind == 0 || (absent && (said == Some(Found::Gone) || (vague && late)));
            by_time |= absent && vague && late;
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
