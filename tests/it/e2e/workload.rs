//! Pods on the hosts of a test: what the drain meets, in a namespace of the test's own.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use testbed::{Bed, Host, IMAGE, Request};

use super::Site;

/// Longest wait for pods to be made, scheduled and started.
const START: Duration = Duration::from_secs(120);

/// A namespace of one test, gone with it.
pub(crate) struct Workload {
    pub(crate) bed: Bed,
    pub(crate) namespace: String,
}

impl Workload {
    pub(crate) fn new(site: &Site, namespace: &str) -> Self {
        Self::on(&site.bed, namespace)
    }

    /// Named after the run as well: the audit log of a bed that stays up knows earlier runs.
    pub(crate) fn on(bed: &Bed, name: &str) -> Self {
        let namespace = &format!("{name}-{}", std::process::id());
        bed.kubectl(&["create", "namespace", namespace]).unwrap();
        let work = Self {
            bed: bed.clone(),
            namespace: namespace.to_owned(),
        };
        // Pods without a controller are refused until the controllers have made their identity.
        let what = format!("the default ServiceAccount of {namespace}");
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        bed.wait_for(&what, START, || work.bed.get(&path).map(|_| true))
            .unwrap();
        work
    }

    /// Makes objects in the namespace.
    pub(crate) fn apply(&self, objects: &[Value]) {
        let mut items = objects.to_vec();
        for item in &mut items {
            item["metadata"]["namespace"] = json!(self.namespace);
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        self.bed.apply(&list.to_string()).unwrap();
    }

    /// Runs kubectl in the namespace.
    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        let args = [&["-n", self.namespace.as_str()], args].concat();
        self.bed.kubectl(&args).unwrap()
    }

    /// Every pod of the namespace that is bound to the host.
    pub(crate) fn pods(&self, host: &Host) -> Vec<Value> {
        let (namespace, node) = (&self.namespace, host.name());
        let on = format!("fieldSelector=spec.nodeName%3D{node}");
        let list = self
            .bed
            .get(&format!("/api/v1/namespaces/{namespace}/pods?{on}"))
            .unwrap();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// The one pod on the host whose name begins with `name`.
    pub(crate) fn pod(&self, host: &Host, name: &str) -> Option<Value> {
        let begins = |pod: &Value| string(&pod["metadata"]["name"]).starts_with(name);
        self.pods(host).into_iter().find(begins)
    }

    /// Waits until so many pods of the namespace run on the host.
    pub(crate) fn wait_running(&self, host: &Host, count: usize) {
        let what = format!("{count} pods of {} to run", self.namespace);
        self.bed
            .wait_for(&what, START, || {
                let pods = self.pods(host);
                let running = |pod: &&Value| pod["status"]["phase"] == "Running";
                let there = pods.iter().filter(running).count();
                anyhow::ensure!(there == count, "{there} of {} run", pods.len());
                Ok(true)
            })
            .unwrap();
    }

    /// Pods that a finalizer of a test holds.
    fn held(&self) -> Vec<String> {
        let path =
            "jsonpath={.items[?(@.metadata.finalizers[0]==\"test.example/hold\")].metadata.name}";
        let args = ["-n", self.namespace.as_str(), "get", "pods", "-o", path];
        let said = self.bed.kubectl(&args).unwrap_or_default();
        said.split_whitespace().map(str::to_owned).collect()
    }

    /// Every eviction the daemon asked for in this namespace, in order.
    fn asked(&self) -> impl Iterator<Item = Request> {
        let all = self.bed.requests_by("kube-rebootd/").unwrap();
        all.into_iter()
            .filter(|asked| asked.resource == "pods/eviction" && asked.namespace == self.namespace)
            // What is only tried moves nobody.
            .filter(|asked| !asked.uri.contains("dryRun="))
    }

    /// Of each the pod's name and the answer.
    pub(crate) fn evictions(&self) -> Vec<(String, u16)> {
        let asked = self.asked();
        asked.map(|asked| (asked.name, asked.code)).collect()
    }

    /// When the API server got the first.
    pub(crate) fn first_asked(&self) -> Option<Timestamp> {
        self.asked().map(|asked| asked.at).min()
    }

    /// Answers to the evictions of pods whose name begins with `name`.
    pub(crate) fn answers(&self, name: &str) -> Vec<u16> {
        let of = |(pod, code): (String, u16)| pod.starts_with(name).then_some(code);
        self.evictions().into_iter().filter_map(of).collect()
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        let namespace = self.namespace.as_str();
        for pod in self.held() {
            let free = r#"{"metadata":{"finalizers":null}}"#;
            let _ = self.bed.kubectl(&[
                "-n",
                namespace,
                "patch",
                "pod",
                &pod,
                "--type=merge",
                "-p",
                free,
            ]);
        }
        let _ = self
            .bed
            .kubectl(&["delete", "namespace", namespace, "--wait=false"]);
    }
}

pub(crate) fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A pod's spec: one container, bound to the host by its label.
pub(crate) fn spec(host: &Host) -> Value {
    json!({
        "nodeSelector": {"kubernetes.io/hostname": host.name()},
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "main", "image": IMAGE}],
    })
}

/// Ends only after so many seconds: kubemark ends pods at once, whatever their grace.
pub(crate) fn slow(mut spec: Value, seconds: u64) -> Value {
    spec["terminationGracePeriodSeconds"] = json!(seconds + 30);
    spec["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": seconds}}});
    spec
}

/// A workload object of `apps/v1` whose pods carry `app=<name>`.
pub(crate) fn app(kind: &str, name: &str, replicas: u32, pod: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    });
    if kind != "DaemonSet" {
        object["spec"]["replicas"] = json!(replicas);
    }
    if kind == "StatefulSet" {
        object["spec"]["serviceName"] = json!(name);
    }
    object
}

pub(crate) fn deployment(name: &str, replicas: u32, pod: &Value) -> Value {
    app("Deployment", name, replicas, pod)
}

/// A pod without a controller.
pub(crate) fn bare(name: &str, restart_policy: &str, pod: &Value) -> Value {
    let mut spec = pod.clone();
    spec["restartPolicy"] = json!(restart_policy);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": spec,
    })
}

/// A budget over the pods of `app` that lets `max_unavailable` of them leave.
pub(crate) fn budget(name: &str, app: &str, max_unavailable: u32) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": app}}},
    })
}
