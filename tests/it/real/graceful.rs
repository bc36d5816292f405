//! `GracefulNodeShutdown`: the kubelet ends all pods at a shutdown, they become terminal, and what nobody makes again
//! never comes back.

use serde_json::{Value, json};

use super::{pod, probed, ready, spec, times};
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
    let spec = spec(&site, &format!("{group}-1")).kubelet_config(settings);
    let host = site.boot(&spec);
    let work = Workload::new(&site, &site.group);
    let agent = probed(pod(&host, &["-listen", ":8080", "-ready", "8s"]));
    let mut tolerant = agent.clone();
    tolerant["tolerations"] = json!([{"operator": "Exists"}]);
    work.apply(&[
        app("DaemonSet", "agent", 0, &agent),
        app("DaemonSet", "tolerant", 0, &tolerant),
        bare("alone", "Always", &pod(&host, &[])),
    ]);
    work.wait_running(&host, 3);
    let both = || ["agent", "tolerant"].map(|name| work.pod(&host, name));
    site.wait("the agents to be ready", || {
        Ok(both().iter().flatten().filter(|pod| ready(pod)).count() == 2)
    });
    let uids = |pods: [Option<Value>; 2]| pods.map(|pod| string(&pod.unwrap()["metadata"]["uid"]));
    let before = uids(both());
    // What the kubelet says last of its pods is lost now and then, where nothing else holds the shutdown up.
    host.delay_shutdowns().unwrap();
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    for pod in both() {
        assert!(
            ready(pod.as_ref().unwrap()),
            "the slot was given up before: {pod:?}"
        );
    }
    for (after, before) in uids(both()).iter().zip(&before) {
        assert_ne!(after, before, "it was made again");
    }
    let said = format!(
        "pod {}/alone has no controller and will not run again",
        work.namespace
    );
    let (warned, cordoned) = (
        &times(&host, "kube-rebootd", &said),
        &times(&host, "kube-rebootd", "cordoning the node"),
    );
    assert!(
        warned.first() < cordoned.first() && !warned.is_empty(),
        "{warned:?} {cordoned:?}"
    );
    let alone = work.pod(&host, "alone").unwrap();
    let phase = string(&alone["status"]["phase"]);
    assert_ne!(phase, "Running", "nobody starts it again");
    site.nothing_left(&host);
}
