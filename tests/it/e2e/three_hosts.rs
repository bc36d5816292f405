//! Three hosts that want a reboot in the same moment, with workloads that have budgets (I1, I3, I4, I9).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::thread;
use std::time::Duration;

use anyhow::ensure;
use serde_json::Value;
use testbed::budgets::{Seen, Watch};
use testbed::{Host, HostSpec, IMAGE, Runtime, verdict};

use super::Site;
use super::log::{Since, in_order};

/// "In the same moment", in milliseconds.
const TOGETHER: i64 = 100;
/// How far ahead the moment is set: time to start a shell on each host of a busy machine.
const AHEAD: Duration = Duration::from_secs(3);

/// How each real kubelet ends pods at a shutdown: not at all, gracefully, and gracefully by their priority.
const SHUTDOWNS: [(char, &str); 3] = [
    ('a', ""),
    (
        'b',
        "shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 5s\n",
    ),
    (
        'c',
        "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 10}]\n",
    ),
];

#[test]
fn i1_three_hosts_reboot_one_after_another() {
    let run = Run::new("three", 1, Runtime::Containerd);
    let requests = run.reboot_all();
    assert_eq!(verdict::most_held_at_once(&requests, &run.site.leases()), 1);
    assert_eq!(verdict::most_cordoned_at_once(&requests), 1);
}

#[test]
fn i1_with_two_leases_two_are_down_at_once_and_never_three() {
    let run = Run::new("pair", 2, Runtime::Kubemark);
    let requests = run.reboot_all();
    assert_eq!(verdict::most_held_at_once(&requests, &run.site.leases()), 2);
    assert!(verdict::most_cordoned_at_once(&requests) <= 2);
}

/// Three hosts with two Deployments spread over them; the namespace goes with it.
struct Run {
    hosts: Vec<Host>,
    site: Site,
    /// Of this run alone: one of the last run may be there still, on its way out.
    namespace: String,
}

impl Run {
    fn new(group: &str, slots: u32, runtime: Runtime) -> Self {
        let site = Site::new(group, slots);
        let hosts = SHUTDOWNS.map(|(letter, settings)| {
            let spec = HostSpec::named(format!("{group}-{letter}")).on(runtime);
            let spec = spec.label(format!("test/group={group}"));
            let spec = match runtime {
                Runtime::Containerd => spec.kubelet_config(settings),
                Runtime::Kubemark => spec,
            };
            let host = site.boot(&spec.config(site.config("")));
            if runtime == Runtime::Containerd {
                delays(&site, &host, !settings.is_empty());
            }
            host
        });
        let run = Self {
            hosts: hosts.into(),
            site,
            namespace: format!("{group}-{}", std::process::id()),
        };
        let workload = workload(group, &run.namespace);
        run.site.bed.apply(&workload).unwrap();
        run.site.wait("the workload to spread", || run.spread());
        run
    }

    /// Every pod runs, and every host has some: else a drain would prove nothing.
    fn spread(&self) -> anyhow::Result<bool> {
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace);
        let list = self.site.bed.get(&path)?;
        let pods = list["items"].as_array().cloned().unwrap_or_default();
        ensure!(pods.len() == 9, "{} are made", pods.len());
        let runs = |pod: &&Value| pod["status"]["phase"] == "Running";
        for host in &self.hosts {
            let here = |pod: &Value| pod["spec"]["nodeName"] == host.name();
            let some = pods.iter().filter(runs).any(here);
            ensure!(some, "none runs on {}", host.name());
        }
        Ok(pods.iter().all(|pod| runs(&pod)))
    }

    /// All want a reboot at once; when all are back: what was asked of the API server, found in order.
    fn reboot_all(&self) -> Vec<testbed::Request> {
        for host in &self.hosts {
            self.site.wait_status(host, "idle");
        }
        let (since, budgets) = (Since::now(), Watch::start(&self.site.bed).unwrap());
        let before: Vec<String> = self.hosts.iter().map(|h| h.boot_id().unwrap()).collect();
        self.touch_together();
        for (host, before) in self.hosts.iter().zip(before) {
            self.site.wait_rebooted(host, 1);
            assert_ne!(host.boot_id().unwrap(), before);
        }
        for host in &self.hosts {
            self.site.nothing_left(host);
        }
        self.kept(&budgets.finish().unwrap(), since);
        let requests = since.of(&self.site, &self.hosts);
        in_order(&self.site, &requests, self.hosts.len());
        requests
    }

    /// I9: the watch saw both budgets, and no state of theirs with too few healthy pods.
    fn kept(&self, seen: &BTreeMap<String, Seen>, since: Since) {
        for name in ["web", "store"] {
            let budget = format!("{}/{name}", self.namespace);
            let seen = seen.get(&budget).unwrap();
            assert!(seen.states > 1, "{budget}: nothing was evicted: {seen:?}");
            assert!(
                !seen.violated,
                "{budget}: {seen:?}\n{}",
                since.disruptions(&self.site, &self.namespace)
            );
        }
    }

    /// The sentinel on all hosts at one instant: hosts of one machine share its clock.
    fn touch_together(&self) {
        let at = (jiff::Timestamp::now() + AHEAD).as_millisecond();
        let line = format!(
            "while [ $(date +%s%3N) -lt {at} ]; do :; done; \
             touch /run/reboot-required && stat -c %.3Y /run/reboot-required | tr -d ."
        );
        let touched: Vec<i64> = thread::scope(|scope| {
            let line = &line;
            let touch = |host| scope.spawn(move || Host::sh(host, line).unwrap());
            let touching: Vec<_> = self.hosts.iter().map(touch).collect();
            let said = touching.into_iter().map(|one| one.join().unwrap());
            said.map(|said| said.trim().parse().unwrap()).collect()
        });
        let apart = touched.iter().max().unwrap() - touched.iter().min().unwrap();
        assert!(
            apart <= TOGETHER,
            "{apart} ms apart: the machine is too slow"
        );
    }
}

/// A kubelet that shuts down gracefully has a lock of logind.
fn delays(site: &Site, host: &Host, wanted: bool) {
    let mut again = false;
    site.wait("the kubelet to have its lock of logind, or none", || {
        let locks = host.sh("systemd-inhibit --list --no-legend")?;
        let done = locks.contains("kubelet") == wanted;
        // It tries once in its life (seen with 1.33 on a busy machine): logind had not read its drop-in yet.
        if !done && !again && host.journal("kubelet")?.contains(NO_LOCK) {
            again = true;
            host.systemctl(&["restart", "kubelet"])?;
        }
        Ok(done)
    });
}

/// What the kubelet says when it goes on without a lock (Kubernetes `pkg/kubelet/kubelet.go`).
const NO_LOCK: &str = "Failed to start node shutdown manager";

impl Drop for Run {
    fn drop(&mut self) {
        let args = ["delete", "namespace", &self.namespace, "--wait=false"];
        let _ = self.site.bed.kubectl(&args);
    }
}

/// Two Deployments with budgets, on the hosts of this group only.
fn workload(group: &str, namespace: &str) -> String {
    let mut text = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n");
    for (name, replicas) in [("web", 6), ("store", 3)] {
        // Writing to a String does not fail.
        let _ = write!(
            text,
            r"---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      automountServiceAccountToken: false
      nodeSelector: {{test/group: {group}}}
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {{matchLabels: {{app: {name}}}}}
      containers: [{{name: main, image: {IMAGE}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  maxUnavailable: 1
  selector: {{matchLabels: {{app: {name}}}}}
"
        );
    }
    text
}
