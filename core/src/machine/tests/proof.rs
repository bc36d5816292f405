//! What is judged after a boot (I4, I8).

use super::*;
use crate::names;

/// Rebooted and uncordoned; the Node is Ready and names this boot, and a pod of a `DaemonSet` and a static one ran before.
fn proving() -> Machine {
    let mut machine = booted(Stage::Uncordoned);
    let mut etcd = pod("etcd", "");
    etcd.mirror = true;
    let marks = Marks::take(&[pod("cni", "DaemonSet"), etcd]);
    machine.facts.record.hold.as_mut().unwrap().marks = Some(marks);
    "now".clone_into(&mut node(&mut machine).boot_id);
    machine.memory.pulse.node(&machine.facts.node, ago(60));
    machine.saw_pods(Some(vec![back("cni", "DaemonSet"), etcd_back()]), None);
    machine
}

/// With a container, which was not there when the pods were marked.
fn back(name: &str, kind: &str) -> Pod {
    let mut pod = pod(name, kind);
    pod.containers.push(crate::pod::Container {
        name: "main".to_owned(),
        id: "1".to_owned(),
        started: Some(wall()),
        restarts: 0,
    });
    pod
}

fn etcd_back() -> Pod {
    let mut etcd = back("etcd", "");
    etcd.mirror = true;
    etcd
}

const TAINT: &str = "readiness.k8s.io/network";

fn at(seconds: u64) -> Now {
    let boot = NOW + Duration::from_secs(seconds);
    Now { boot, ..now() }
}

fn seen(machine: &mut Machine) -> &mut HostNow {
    machine.memory.host.as_mut().unwrap()
}

/// What is changed, in words; whether the host is healthy then, and whether the pods are.
type Row = (&'static str, fn(&mut Machine), bool, bool);

fn judged(rows: &[Row]) {
    for (what, change, host, pods) in rows {
        let mut machine = proving();
        change(&mut machine);
        machine.judge(&[], now());
        let (host_, pods_) = (&machine.facts.host_health, &machine.facts.pod_health);
        assert_eq!(host_.is_ok(), *host, "{what}: {host_:?}");
        assert_eq!(pods_.is_ok(), *pods, "{what}: {pods_:?}");
    }
}

#[test]
fn i4_i8_what_a_host_is_judged_by() {
    fn degraded(machine: &mut Machine) {
        seen(machine).system_state = Some("degraded".to_owned());
    }
    fn incomplete(machine: &mut Machine) {
        seen(machine).boot_complete = Some(false);
    }
    judged(&[
        ("all is back", |_| {}, true, true),
        ("no look at the host", |m| m.memory.host = None, false, true),
        ("no Node", |m| m.facts.node = Seen::Absent, false, true),
    ]);
    judged(&[
        (
            "not Ready for others",
            |m| node(m).taints = vec![TAINT.to_owned()],
            true,
            false,
        ),
        (
            "the same without pods to prove",
            |m| {
                m.config.health.pods = false;
                node(m).taints = vec![TAINT.to_owned()];
            },
            true,
            false,
        ),
        (
            "the same after health.timeout",
            |m| {
                m.config.health.timeout = Duration::from_secs(60);
                m.memory.verifying = Some(ago(61));
                node(m).taints = vec![TAINT.to_owned()];
            },
            true,
            false,
        ),
        (
            "an autoscaler's",
            |m| node(m).taints = vec![names::AUTOSCALER_TAINTS[0].to_owned()],
            true,
            true,
        ),
        (
            "a Node that is not read",
            |m| m.facts.node = Seen::Unknown,
            false,
            false,
        ),
    ]);
    for (allowed, changes) in [(true, degraded as fn(&mut Machine)), (false, incomplete)] {
        for yes in [true, false] {
            let mut machine = proving();
            changes(&mut machine);
            machine.config.health.allow_degraded = yes;
            machine.config.health.boot_complete = yes;
            machine.judge(&[], now());
            assert_eq!(machine.facts.host_health.is_ok(), yes == allowed);
        }
    }
    for (seconds, long) in [(60, true), (61, false)] {
        let mut machine = proving();
        machine.config.health.ready_for = Duration::from_secs(seconds);
        machine.judge(&[], now());
        assert_eq!(machine.facts.host_health.is_ok(), long, "Ready for 60 s");
    }
    // The boot in which the slot was taken proves nothing.
    let mut machine = held(Stage::Rebooting);
    machine.judge(&[], now());
    let unseen = Err(vec!["not looked yet".to_owned()]);
    assert_eq!(machine.facts.host_health, unseen);
}

#[test]
fn i4_i8_what_pods_are_judged_by() {
    fn unwatched(machine: &mut Machine) {
        machine.memory.pods = None;
    }
    fn alone(machine: &mut Machine) {
        machine.saw_pods(Some(vec![etcd_back()]), None);
    }
    fn any(machine: &mut Machine) {
        machine.config.health.pods = false;
    }
    judged(&[
        ("no list of them", unwatched, false, false),
        (
            "no list, and none that matters",
            |m| {
                unwatched(m);
                any(m);
            },
            false,
            true,
        ),
        (
            "no static pod",
            |m| m.saw_pods(Some(vec![back("cni", "DaemonSet")]), None),
            false,
            true,
        ),
        ("no pod of the DaemonSet", alone, true, false),
        (
            "the same where it does not matter",
            |m| {
                alone(m);
                any(m);
            },
            true,
            true,
        ),
    ]);
}

#[test]
fn what_was_found_of_a_daemon_set_without_a_pod_is_heeded() {
    for (found, healthy) in [(Found::Gone, true), (Found::Wanted, false)] {
        let mut machine = proving();
        machine.saw_pods(Some(vec![etcd_back()]), None);
        let set = machine.absent_due(now()).remove(0);
        machine.saw_daemon_set(set, found, now());
        machine.judge(&[], now());
        assert_eq!(machine.facts.pod_health.is_ok(), healthy);
    }
}

/// After `health.timeout` it is not waited any longer for what nobody can ask for, which is said once; and the time begins
/// anew with another boot to prove.
#[test]
fn i4_what_is_not_waited_for_any_longer_is_said_once() {
    let limit = Config::default().health.timeout.as_secs();
    let mut machine = proving();
    machine.saw_pods(Some(vec![back("cni", "DaemonSet")]), None);
    let words = "not waited for any longer after health.timeout: static pod shop/etcd is not here";
    for (seconds, healthy, said) in [
        (0, false, 0),
        (limit, false, 0),
        (limit + 1, true, 1),
        (limit + 2, true, 0),
    ] {
        machine.judge(&[], at(seconds));
        assert_eq!(machine.facts.verifying, Duration::from_secs(seconds));
        assert_eq!(machine.facts.host_health.is_ok(), healthy, "{seconds} s");
        assert_eq!(machine.take_warnings(), vec![words; said], "{seconds} s");
    }
    let hold = machine.facts.record.hold.as_mut().unwrap();
    hold.boot = boot("now");
    machine.judge(&[], at(limit + 3));
    machine.facts.record.hold.as_mut().unwrap().boot = boot("before");
    machine.judge(&[], at(limit + 4));
    assert_eq!(machine.facts.verifying, Duration::ZERO);
}

/// The time begins anew with another hold, and with another process.
#[test]
fn what_is_given_back_for_long_is_counted() {
    let mut machine = proving();
    let stage = |machine: &mut Machine, stage| {
        let hold = machine.facts.record.hold.as_mut().unwrap();
        (hold.stage, hold.boot) = (stage, boot("now"));
    };
    stage(&mut machine, Stage::Releasing);
    for seconds in [0, 700] {
        machine.judge(&[], at(seconds));
        assert_eq!(machine.facts.giving_back, Duration::from_secs(seconds));
    }
    stage(&mut machine, Stage::Draining);
    machine.judge(&[], at(701));
    assert_eq!(machine.facts.giving_back, Duration::ZERO);
    stage(&mut machine, Stage::Releasing);
    machine.judge(&[], at(702));
    assert_eq!(machine.facts.giving_back, Duration::ZERO);
}
