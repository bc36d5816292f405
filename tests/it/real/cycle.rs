//! A whole cycle, with all that a bed must not touch.

use std::fs;
use std::time::Duration;

use super::{pod, probed, ready, spec};
use crate::e2e::Site;
use crate::e2e::workload::{Workload, app, bare, budget, deployment, string};

/// What the kubelet sets on a machine of its own.
const SYSCTLS: [&str; 6] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];

fn sysctls() -> Vec<String> {
    let read = |name: &&str| fs::read_to_string(format!("/proc/sys/{name}")).unwrap();
    SYSCTLS.iter().map(read).collect()
}

/// How long `last` needs to end after SIGTERM.
const LAST: Duration = Duration::from_secs(6);

#[test]
fn i2_i4_a_cycle_with_the_real_kubelet_waits_for_what_it_says_and_leaves_this_machine_alone() {
    let before = sysctls();
    let site = Site::new("real", 1);
    let host = site.boot(&spec(&site, "real-1"));
    let path = "jsonpath={.status.nodeInfo.containerRuntimeVersion}";
    let runtime = site.kubectl(&["get", "node", host.name(), "-o", path]);
    assert!(runtime.starts_with("containerd://"), "{runtime}");
    let work = Workload::new(&site, "real");
    let agent = probed(pod(&host, &["-listen", ":8080", "-ready", "2s"]));
    work.apply(&[
        app("DaemonSet", "agent", 0, &agent),
        app("StatefulSet", "last", 1, &pod(&host, &["-term", "6s"])),
        deployment("web", 2, &pod(&host, &[])),
        budget("web", "web", 2),
        bare("alone", "Always", &pod(&host, &[])),
    ]);
    work.wait_running(&host, 5);
    let alone = || work.pod(&host, "alone").unwrap();
    let left = string(&alone()["metadata"]["uid"]);
    let agent = || work.pod(&host, "agent").unwrap();
    let uid = string(&agent()["metadata"]["uid"]);
    site.wait("the agent to be ready", || Ok(ready(&agent())));
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    assert!(ready(&agent()), "the slot was given up before: {}", agent());
    assert_eq!(string(&agent()["metadata"]["uid"]), uid);
    let restarts = &agent()["status"]["containerStatuses"][0]["restartCount"];
    assert_eq!(restarts, 1, "its container is one of this boot");
    assert_eq!(work.answers("last"), [201]);
    assert_eq!(work.answers("alone"), [0; 0], "nobody would make it again");
    site.wait("the kubelet to start it again", || {
        let alone = alone();
        let restarts = &alone["status"]["containerStatuses"][0]["restartCount"];
        Ok(string(&alone["metadata"]["uid"]) == left && restarts == 1 && ready(&alone))
    });
    assert_eq!(
        work.answers("web")
            .iter()
            .filter(|code| **code == 201)
            .count(),
        2
    );
    let took = drained_in(&host);
    assert!(took >= LAST, "the drain took {took:?}");
    site.nothing_left(&host);
    assert_eq!(sysctls(), before, "the outer machine's settings");
    let wanted = host.read("/proc/sys/vm/overcommit_memory").unwrap();
    assert_eq!(wanted.trim(), "1", "the kubelet found what it wants");
}

/// From the cordon to the end of the drain, by the host's journal.
fn drained_in(host: &testbed::Host) -> Duration {
    let journal = host.journal_json("kube-rebootd").unwrap();
    let first = |phase: &str| {
        let mut records = journal.iter().filter(|record| record["PHASE"] == phase);
        let time = string(&records.next().unwrap()["__REALTIME_TIMESTAMP"]);
        Duration::from_micros(time.parse().unwrap())
    };
    first("Rebooting").saturating_sub(first("Draining"))
}
