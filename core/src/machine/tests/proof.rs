//! What is judged after a boot (I4, I8).

use super::*;
use crate::hook::{Hook, Said};
use crate::names;

/// Rebooted and uncordoned; the Node is Ready and names this boot, and a pod of a `DaemonSet` and a static one ran before.
fn proving() -> Machine {
    let mut machine = booted(Stage::Uncordoned);
    let mut etcd = pod("etcd", "");
    etcd.mirror = true;
    let marks = Marks::take(&[pod("cni", "DaemonSet"), etcd]);
    machine.facts.record.hold.as_mut().unwrap().marks = Some(marks);
    "now".clone_into(&mut node(&mut machine).boot_id);
    alive(&mut machine);
    machine.saw_pods(Some(vec![back("cni", "DaemonSet"), etcd_back()]), None);
    machine.saw_hooks(Hook::PostBoot, Ok(false));
    machine
}

/// The kubelet was heard a minute ago, and said that the Node is Ready.
fn alive(machine: &mut Machine) {
    let (pulse, facts) = (&mut machine.memory.pulse, &machine.facts);
    pulse.node(&facts.node, ago(60));
    let before = facts.record.hold.as_ref().map(|hold| &hold.boot);
    pulse.hears(&facts.boot, before, ago(60));
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

/// At this second, healthy or what is missing; whether a round is due then.
fn hooked(machine: &mut Machine, seconds: u64) -> (Result<(), String>, bool) {
    machine.judge(&[], at(seconds));
    let host = machine.facts.host_health.clone();
    let host = host.map_err(|missing| missing.join("; "));
    (host, machine.post_boot_due(at(seconds)))
}

fn not_now(why: &str) -> Said {
    Said::NotNow(format!("hook post-boot.d/10-ceph says not now: {why}"))
}

#[test]
fn i4_i8_what_is_not_known_of_hooks_is_not_healthy() {
    let words = |why: &str| {
        Err(format!(
            "not known which hooks there are in post-boot.d: {why}"
        ))
    };
    for (looked, healthy) in [
        (Some((Hook::PostBoot, Ok(false))), Ok(())),
        (None, words("nobody has looked yet")),
        (
            Some((Hook::Gate, Ok(false))),
            words("nobody has looked yet"),
        ),
        (
            Some((Hook::PostBoot, Err("not known: denied".to_owned()))),
            Err("not known: denied".to_owned()),
        ),
        (
            Some((Hook::PostBoot, Ok(true))),
            Err("the hooks of post-boot.d have not answered yet".to_owned()),
        ),
    ] {
        let mut machine = proving();
        machine.forget_hooks();
        let some = looked == Some((Hook::PostBoot, Ok(true)));
        if let Some((hook, there)) = looked {
            machine.saw_hooks(hook, there);
        }
        assert_eq!(hooked(&mut machine, 0), (healthy, some));
    }
    assert_eq!(proving().hooks_wanted(), Some(Hook::PostBoot));
    let rests: [Of; 3] = [idle, || held(Stage::Rebooting), releasing];
    for machine in rests {
        assert_eq!(machine().hooks_wanted(), None);
    }
    let mut starting = proving();
    starting.facts.started = false;
    assert_eq!(starting.hooks_wanted(), None);
}

#[test]
fn i4_hooks_are_asked_once_the_host_is_healthy_and_again_until_they_say_yes() {
    let mut machine = proving();
    machine.saw_hooks(Hook::PostBoot, Ok(true));
    // Not before the host is healthy, whose trouble is told first.
    seen(&mut machine).system_state = Some("starting".to_owned());
    let starting = Err("systemd is starting".to_owned());
    assert_eq!(hooked(&mut machine, 0), (starting.clone(), false));
    seen(&mut machine).system_state = Some("running".to_owned());
    let asked = Err("the hooks of post-boot.d have not answered yet".to_owned());
    assert_eq!(hooked(&mut machine, 1), (asked.clone(), true));
    machine.hooks_begin(Hook::PostBoot, at(1));
    assert_eq!(hooked(&mut machine, 40), (asked, false), "one runs");
    machine.hooks_ended(not_now("3 pgs"), at(40));
    let words = "hook post-boot.d/10-ceph says not now: 3 pgs".to_owned();
    for (seconds, due) in [(40, false), (69, false), (70, true)] {
        assert_eq!(hooked(&mut machine, seconds), (Err(words.clone()), due));
    }
    // What it says may change with each run, and is no news in itself.
    let steady = ["hook post-boot.d/10-ceph says not now"];
    assert_eq!(crate::waits::missing(&machine.facts), steady);
    // While the next one runs, what the last one said is told.
    machine.hooks_begin(Hook::PostBoot, at(70));
    assert_eq!(hooked(&mut machine, 71), (Err(words), false));
    machine.hooks_ended(Said::Well, at(72));
    assert_eq!(hooked(&mut machine, 72), (Ok(()), false));
    // It is not asked again, and its yes is none for a host that is not healthy.
    assert_eq!(hooked(&mut machine, 600), (Ok(()), false));
    seen(&mut machine).system_state = Some("starting".to_owned());
    assert_eq!(hooked(&mut machine, 601), (starting, false));
}

/// What has changed since the yes.
type Change = (&'static str, fn(&mut Machine));

/// A yes is one of this proof and of this hold; and of the hooks that are asked for after the boot.
#[test]
fn i4_a_yes_of_another_proof_or_hold_is_none() {
    let others: [Change; 4] = [
        ("another hold", |m| {
            let take = &mut m.facts.record.hold.as_mut().unwrap().take;
            take.acquire_time = Timestamp::UNIX_EPOCH;
        }),
        ("another proof", |m| {
            m.facts.record.hold.as_mut().unwrap().boot = boot("now");
            m.judge(&[], at(3));
            m.facts.record.hold.as_mut().unwrap().boot = boot("before");
            m.judge(&[], at(4));
            "now".clone_into(&mut node(m).boot_id);
            alive(m);
        }),
        ("other hooks", |m| {
            m.hooks_begin(Hook::Gate, at(3));
            m.hooks_ended(Said::Well, at(4));
        }),
        ("one more proof, whose round runs", |m| {
            m.memory.verifying = Some(NOW + Duration::from_secs(3));
            m.hooks_begin(Hook::PostBoot, at(4));
        }),
    ];
    for (what, change) in others {
        let mut machine = proving();
        machine.saw_hooks(Hook::PostBoot, Ok(true));
        machine.judge(&[], at(0));
        machine.hooks_begin(Hook::PostBoot, at(1));
        machine.hooks_ended(Said::Well, at(2));
        assert_eq!(hooked(&mut machine, 2).0, Ok(()));
        change(&mut machine);
        let asked = Err("the hooks of post-boot.d have not answered yet".to_owned());
        assert_eq!(hooked(&mut machine, 5).0, asked, "{what}");
    }
}
