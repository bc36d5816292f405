//! Tables of the two steps.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::node::Node;
use crate::pod::Controller;

mod bounds;
mod sets;

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
        controller: Some(Controller {
            api: "apps/v1".to_owned(),
            kind: "DaemonSet".to_owned(),
            name: owner.to_owned(),
            uid: owner.to_owned(),
        }),
        containers: vec![container("1")],
        ..Pod::ready(uid)
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
        guarded: Vec::new(),
        exclusion_owners: Vec::new(),
        ready,
        heartbeat: heartbeat.map(stamp),
        turned: None,
        boot_id: boot_id.to_owned(),
        volumes_in_use: Vec::new(),
        conditions: Vec::new(),
        taints: Vec::new(),
        candidate: None,
        reported: BTreeMap::new(),
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
        kubelet_alive(&pulse, &new, Some(&old)).is_err(),
        "all from before"
    );
    assert!(
        kubelet_alive(&pulse, &soft, Some(&old)).is_err(),
        "a soft-reboot keeps the ID"
    );
    let mut by_id = pulse.clone();
    by_id.node(&node(true, "b", Some(1)), secs(1));
    assert_eq!(kubelet_alive(&by_id, &new, Some(&old)), Ok(()));
    let mut by_lease = pulse.clone();
    by_lease.renewed(Some(stamp(2)));
    assert_eq!(kubelet_alive(&by_lease, &soft, Some(&old)), Ok(()));
    pulse.node(&node(true, "a", Some(2)), secs(2));
    assert!(
        kubelet_alive(&pulse, &soft, Some(&old)).is_err(),
        "I14: whoever may patch the status of Nodes writes a heartbeat"
    );
    assert_eq!(kubelet_alive(&pulse, &old, None), Ok(()));
    let mut silent = Pulse::default();
    silent.node(&node(true, "", Some(1)), secs(1));
    silent.renewed(Some(stamp(1)));
    assert!(kubelet_alive(&silent, &new, Some(&old)).is_err());
    silent.renewed(Some(stamp(2)));
    assert_eq!(
        kubelet_alive(&silent, &new, Some(&old)),
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
    let missing = kubelet_alive(&pulse, &new, Some(&old)).unwrap_err();
    assert!(missing.contains("still reports boot a"), "{missing}");
    pulse.node(&node(true, "b", Some(2)), secs(2));
    assert_eq!(kubelet_alive(&pulse, &new, Some(&old)), Ok(()));
}

/// The Node with this time of the last change of Ready.
fn turned(ready: bool, boot_id: &str, at: i64) -> Seen {
    match node(ready, boot_id, None) {
        Seen::Present(mut node) => {
            node.turned = Some(stamp(at));
            Seen::Present(node)
        }
        seen => seen,
    }
}

/// Since when Ready counts, after each of these views, at 0 s, 10 s, and so on. The host was in boot a and is in b.
#[test]
fn i4_ready_counts_from_the_kubelet_of_this_boot_and_begins_anew_after_each_break() {
    let ready = |at| turned(true, "b", at);
    let rows: [(&str, Vec<Seen>, Option<u64>); 8] = [
        ("it stays", vec![ready(1), ready(1), ready(1)], Some(0)),
        ("of the last boot", vec![turned(true, "a", 1); 2], None),
        (
            "of the last boot, then of this one",
            vec![turned(true, "a", 1), ready(1), ready(1)],
            Some(10),
        ),
        ("not any more", vec![ready(1), turned(false, "b", 2)], None),
        (
            "a break that was seen",
            vec![ready(1), turned(false, "b", 2), ready(3)],
            Some(20),
        ),
        (
            "a break between two looks",
            vec![ready(1), ready(2)],
            Some(10),
        ),
        (
            "nobody knows for a while, and it did not break",
            vec![ready(1), Seen::Unknown, ready(1)],
            Some(0),
        ),
        (
            "the Node was away",
            vec![ready(1), Seen::Absent, ready(1)],
            Some(20),
        ),
    ];
    for (what, views, since) in rows {
        let mut pulse = Pulse::default();
        for (seen, at) in views.iter().zip((0u64..).step_by(10)) {
            pulse.node(seen, secs(at));
            pulse.hears(&boot("b", 1), Some(&boot("a", 1)), secs(at));
        }
        assert_eq!(pulse.ready_since(), since.map(secs), "{what}");
    }
}

fn policy() -> Policy {
    Policy {
        allow_degraded: false,
        boot_complete: true,
        ready_for: secs(10),
    }
}

/// What had failed before the reboot.
fn failed() -> BTreeSet<String> {
    BTreeSet::from(["old.service".to_owned()])
}

fn host() -> HostSeen {
    HostSeen {
        boot: boot("b", 1),
        before: Some(boot("a", 1)),
        system_state: Some("running".to_owned()),
        failed: Some(BTreeSet::new()),
        was: Before::of(Some(&failed())),
        boot_complete: Some(true),
    }
}

/// The first step at 10 s, with the Node ready since 0 s and a static pod that was ready before.
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
    pulse.hears(&host.boot, host.before.as_ref(), secs(0));
    pulse.node(last, secs(10));
    pulse.hears(&host.boot, host.before.as_ref(), secs(10));
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
    let units = |failed: Option<BTreeSet<String>>| HostSeen {
        failed,
        ..systemd(Some("degraded"))
    };
    let new = BTreeSet::from(["new.service".to_owned()]);
    assert_eq!(good(&units(Some(failed())), &lenient), 0);
    assert_eq!(good(&units(Some(new.clone())), &lenient), 1);
    assert_eq!(good(&units(None), &lenient), 1, "systemd does not say");
    let lost = HostSeen {
        was: Before::default(),
        ..units(Some(failed()))
    };
    assert_eq!(good(&lost, &lenient), 1, "nobody knows what had failed");
    // While it starts, and where it may not be degraded, that alone is said.
    let starting = HostSeen {
        system_state: Some("starting".to_owned()),
        ..units(Some(new))
    };
    assert_eq!(good(&starting, &lenient), 1);
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
