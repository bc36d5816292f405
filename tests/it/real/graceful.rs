//! `GracefulNodeShutdown`: the kubelet ends all pods at a shutdown, they become terminal, and what nobody makes again
//! never comes back.

use super::{kubelet, pod, probed, ready, spec};
use crate::e2e::Site;
use crate::e2e::workload::{Workload, app, bare, string};

/// Proved by hand first: the slot was handed on 17 s before the pod of the DaemonSet was Ready, as an absent one counted
/// as healthy.
#[test]
fn i4_a_daemon_set_whose_pod_the_kubelet_ended_is_waited_for() {
    comes_back(
        "graceful",
        "shutdownGracePeriod: 20s\nshutdownGracePeriodCriticalPods: 5s\n",
    );
}

#[test]
fn i4_a_daemon_set_whose_pod_the_kubelet_ended_by_its_priority_is_waited_for() {
    comes_back(
        "priority",
        "shutdownGracePeriodByPodPriority:
- {priority: 100000, shutdownGracePeriodSeconds: 5}
- {priority: 0, shutdownGracePeriodSeconds: 15}
",
    );
}

fn comes_back(group: &str, settings: &str) {
    let site = Site::new(&format!("real-{group}"), 1);
    let file = "/etc/kubernetes/kubelet.d/50-shutdown.conf";
    let spec = spec(&site, &format!("{group}-1")).file(file, kubelet(settings));
    let host = site.boot(&spec);
    let work = Workload::new(&site, &site.group);
    let agent = probed(pod(&host, &["-listen", ":8080", "-ready", "8s"]));
    work.apply(&[
        app("DaemonSet", "agent", 0, &agent),
        bare("alone", "Always", &pod(&host, &[])),
    ]);
    work.wait_running(&host, 2);
    let agent = || work.pod(&host, "agent");
    site.wait("the agent to be ready", || {
        Ok(agent().is_some_and(|pod| ready(&pod)))
    });
    let uid = string(&agent().unwrap()["metadata"]["uid"]);
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    let after = agent().unwrap();
    assert!(ready(&after), "the slot was given up before: {after}");
    assert_ne!(string(&after["metadata"]["uid"]), uid, "it was made again");
    let said = format!(
        "pod {}/alone has no controller and will not run again",
        work.namespace
    );
    site.wait_journal(&host, &[said]);
    let alone = work.pod(&host, "alone").unwrap();
    let phase = string(&alone["status"]["phase"]);
    assert_ne!(phase, "Running", "nobody starts it again");
    site.nothing_left(&host);
}
