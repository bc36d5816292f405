//! The rest of the cluster, in virtual time: kubelets, the node lifecycle controller, the workload and
//! disruption controllers, as far as the daemon meets them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::memory::{Server, State, condition};

/// How long a pod takes to end, in seconds; a container that ignores SIGTERM takes its whole grace.
pub(super) const ENDS: &str = "test/ends";
/// From a pod's end to the deletion of its object, in milliseconds: what the kubelet takes to unmount its volumes.
const UNMOUNTS: &str = "test/unmounts";
/// From a cordon to the taint of the node lifecycle controller: some 10 ms on a real cluster.
const LIFECYCLE: Duration = Duration::from_millis(20);
/// From the last heartbeat to `NotReady` (`--node-monitor-grace-period`).
const MONITOR_GRACE: Duration = Duration::from_secs(50);
/// From a pod's end to its successor's readiness elsewhere.
const SUCCESSOR: Duration = Duration::from_secs(5);

pub(super) fn make_node(server: &Server, name: &str, control_plane: bool) {
    server.set(|state| {
        let mut labels = json!({"kubernetes.io/hostname": name});
        if control_plane {
            labels["node-role.kubernetes.io/control-plane"] = json!("");
        }
        state.make(
            ("nodes", "", name),
            "kubelet",
            json!({"metadata": {"labels": labels}, "spec": {}}),
        );
        state.make(
            ("leases", "kube-node-lease", name),
            "kubelet",
            json!({"spec": {"holderIdentity": name, "leaseDurationSeconds": 40}}),
        );
    });
    kubelet_back(server, name, &format!("{name}-boot-0"));
}

/// A slot of the group default, open.
pub(super) fn make_slot(server: &Server, name: &str) {
    server.set(|state| {
        state.make(("leases", "kube-rebootd", name), "kube-rebootd-setup",
            json!({"metadata": {"labels": {"kube-rebootd/group": "default", "kube-rebootd/protocol": "1"}},
                "spec": {}}));
    });
}

/// A ready pod.
#[derive(Debug, Clone)]
pub(super) struct Pod<'a> {
    pub(super) name: &'a str,
    pub(super) app: &'a str,
    pub(super) node: &'a str,
    /// Kind of its controller; empty: none.
    pub(super) owner: &'a str,
    pub(super) ends: u64,
    pub(super) grace: u64,
    /// Milliseconds from its end to the deletion of its object; none: the kubelet never gets there.
    pub(super) unmounts: Option<u64>,
    pub(super) finalizer: Option<&'a str>,
}

impl<'a> Pod<'a> {
    pub(super) fn new(name: &'a str, node: &'a str) -> Self {
        Self {
            name,
            app: name,
            node,
            owner: "ReplicaSet",
            ends: 1,
            grace: 30,
            unmounts: Some(700),
            finalizer: None,
        }
    }

    /// One on the first node that takes so many seconds to end.
    pub(super) fn slow(server: &Server, seconds: u64) {
        let slow = Pod {
            ends: seconds,
            grace: seconds,
            ..Pod::new("slow", "n0")
        };
        slow.make(server);
    }

    pub(super) fn make(&self, server: &Server) {
        let owner = json!({"apiVersion": "apps/v1", "kind": self.owner, "name": self.app,
            "uid": format!("owner-{}", self.app), "controller": true});
        let owners = if self.owner.is_empty() {
            json!([])
        } else {
            json!([owner])
        };
        let body = json!({
            "metadata": {"labels": {"app": self.app}, "finalizers": self.finalizer.iter().collect::<Vec<_>>(),
                "annotations": {ENDS: self.ends.to_string(), UNMOUNTS: self.unmounts.map_or("never".to_owned(), |millis| millis.to_string())},
                "ownerReferences": owners},
            "spec": {"nodeName": self.node, "terminationGracePeriodSeconds": self.grace,
                "containers": [{"name": "c"}]},
            "status": running("0")});
        server.set(|state| state.make(("pods", "shop", self.name), "kubelet", body));
    }
}

fn running(boot: &str) -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "c", "image": "i", "imageID": "i", "ready": true, "restartCount": 0,
            "containerID": format!("containerd://{boot}"), "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]})
}

/// The DaemonSet that owns the pods of `app`.
pub(super) fn make_daemon_set(server: &Server, app: &str) {
    let at = ("daemonsets", "shop", app);
    let body = json!({"spec": {"selector": {"matchLabels": {"app": app}},
        "template": {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c"}]}}}});
    server.set(|state| {
        state.make(at, "kubectl", body);
        state.edit(at, "kubectl", |set| {
            set["metadata"]["uid"] = json!(format!("owner-{app}"));
        });
    });
}

/// A budget over `app`.
pub(super) fn make_budget(server: &Server, name: &str, app: &str, min_available: u64) {
    server.set(|state| {
        state.make(("poddisruptionbudgets", "shop", name), "kubectl",
            json!({"metadata": {"generation": 1},
                "spec": {"minAvailable": min_available, "selector": {"matchLabels": {"app": app}}}}));
        recount(state);
    });
}

/// The host is going down.
pub(super) fn kubelet_gone(server: &Server, name: &str) {
    server.set(|state| state.beating.remove(name));
    let (server, name) = (server.clone(), name.to_owned());
    tokio::spawn(async move {
        tokio::time::sleep(MONITOR_GRACE).await;
        if !server.state().beating.contains(&name) {
            ready(&server, &name, "Unknown", None);
        }
    });
}

/// The kubelet of a new boot: heartbeat, readiness, and the pods that are still bound here.
pub(super) fn kubelet_back(server: &Server, name: &str, boot: &str) {
    server.set(|state| state.beating.insert(name.to_owned()));
    ready(server, name, "True", Some(boot));
    server.set(|state| {
        for pod in state.objects("pods") {
            if pod["spec"]["nodeName"] == name && pod["status"]["phase"] == "Running" {
                let pod = pod["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                state.edit(("pods", "shop", &pod), "kubelet", |pod| {
                    pod["status"] = running(boot);
                });
            }
        }
    });
}

/// The kubelet says whether its Node is Ready.
pub(super) fn ready(server: &Server, name: &str, status: &str, boot: Option<&str>) {
    server.set(|state| {
        let now = state.now();
        state.edit(("nodes", "", name), "kubelet-status", |node| {
            let ready = json!({"type": "Ready", "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now});
            // Its own alone, as a real one (`e2e::conditions`).
            match node["status"]["conditions"].as_array_mut() {
                Some(conditions) => match conditions.iter_mut().find(|one| one["type"] == "Ready") {
                    Some(known) => *known = ready,
                    None => conditions.push(ready),
                },
                None => node["status"]["conditions"] = json!([ready]),
            }
            if let Some(boot) = boot {
                node["status"]["nodeInfo"]["bootID"] = json!(boot);
            }
        });
    });
}

/// Follows what happens and does what the controllers would do, for ever.
pub(super) async fn controllers(server: Server) {
    let mut changed = server.changed();
    let mut seen = 0;
    loop {
        let (keys, version) = server.state().changes(seen);
        seen = version;
        for (resource, namespace, name) in &keys {
            match resource.as_str() {
                "pods" => pod(&server, namespace, name),
                "nodes" => {
                    let (server, name) = (server.clone(), name.clone());
                    tokio::spawn(async move {
                        tokio::time::sleep(LIFECYCLE).await;
                        server.set(|state| taint(state, &name));
                    });
                }
                _ => {}
            }
        }
        if keys.iter().any(|(resource, ..)| resource == "pods") {
            server.set(recount);
        }
        if changed.changed().await.is_err() {
            return;
        }
    }
}

fn taint(state: &mut State, name: &str) {
    state.edit(("nodes", "", name), "kube-controller-manager", |node| {
        let key = "node.kubernetes.io/unschedulable";
        let wanted = node["spec"]["unschedulable"] == true;
        let mut taints = node["spec"]["taints"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let there = taints.iter().any(|taint| taint["key"] == key);
        if wanted && !there {
            taints.push(json!({"key": key, "effect": "NoSchedule"}));
        } else if !wanted && there {
            taints.retain(|taint| taint["key"] != key);
        }
        if taints.is_empty() {
            node["spec"].as_object_mut().unwrap().remove("taints");
        } else {
            node["spec"]["taints"] = json!(taints);
        }
    });
}

/// A pod that was told to end does so as with a real kubelet: it has finished when its containers have stopped, its
/// object goes when its volumes are unmounted. Its `ReplicaSet` makes another elsewhere.
fn pod(server: &Server, namespace: &str, name: &str) {
    let Some(pod) = server.state().object(("pods", namespace, name)) else {
        return;
    };
    let metadata = &pod["metadata"];
    if metadata.get("deletionTimestamp").is_none()
        || metadata["annotations"].get("test/ending").is_some()
    {
        return;
    }
    let grace = metadata["deletionGracePeriodSeconds"]
        .as_u64()
        .unwrap_or(30);
    let ends = metadata["annotations"][ENDS]
        .as_str()
        .and_then(|ends| ends.parse().ok())
        .unwrap_or(1);
    let uid = metadata["uid"].clone();
    let (server, namespace, name) = (server.clone(), namespace.to_owned(), name.to_owned());
    server.set(|state| {
        state.edit(("pods", &namespace, &name), "kubelet", |pod| {
            pod["metadata"]["annotations"]["test/ending"] = json!("");
        });
    });
    let unmounts = metadata["annotations"][UNMOUNTS].as_str();
    let unmounts = unmounts.and_then(|millis| millis.parse().ok());
    tokio::spawn(async move {
        let at = ("pods", namespace.as_str(), name.as_str());
        let there = |state: &State| {
            let pod = state.object(at)?;
            (pod["metadata"]["uid"] == uid).then_some(pod)
        };
        stops(&server, at, (grace, ends)).await;
        server.set(|state| {
            if there(state).is_some() {
                state.edit(at, "kubelet", |pod| {
                    pod["status"] = json!({"phase": "Succeeded"});
                });
            }
        });
        let Some(unmounts) = unmounts else { return };
        tokio::time::sleep(Duration::from_millis(unmounts)).await;
        let gone = server.set(|state| {
            let gone = there(state);
            if gone.is_some() {
                state.end(at);
            }
            gone
        });
        let Some(gone) = gone else { return };
        tokio::time::sleep(SUCCESSOR).await;
        server.set(|state| succeed(state, &gone));
    });
}

/// Until the containers of a pod have stopped: by themselves, or at the end of the grace period, which may become shorter
/// meanwhile; then the kubelet begins anew with the shorter one.
async fn stops(server: &Server, at: (&str, &str, &str), (mut grace, ends): (u64, u64)) {
    const LOOK: Duration = Duration::from_secs(1);
    let mut end = Instant::now() + Duration::from_secs(grace.min(ends));
    while Instant::now() < end {
        tokio::time::sleep_until(end.min(Instant::now() + LOOK)).await;
        let pod = server.state().object(at);
        let now = pod.and_then(|pod| pod["metadata"]["deletionGracePeriodSeconds"].as_u64());
        if let Some(shorter) = now.filter(|now| *now < grace) {
            grace = shorter;
            end = end.min(Instant::now() + Duration::from_secs(shorter));
        }
    }
}

/// Another pod of the same `ReplicaSet`, where pods may go.
fn succeed(state: &mut State, gone: &Value) {
    if gone["metadata"]["ownerReferences"][0]["kind"] != "ReplicaSet" {
        return;
    }
    let free = state.objects("nodes").into_iter().find(|node| {
        let ready = condition(node, "Ready").is_some_and(|ready| ready["status"] == "True");
        ready
            && node["spec"]["unschedulable"] != true
            && node["metadata"]["name"] != gone["spec"]["nodeName"]
    });
    let Some(free) = free else { return };
    let name = gone["metadata"]["name"].as_str().unwrap_or_default();
    let name = format!(
        "{}-{}",
        name.split("-next").next().unwrap_or_default(),
        "next"
    );
    let name = (0..10_000)
        .map(|n| format!("{name}{n}"))
        .find(|name| state.object(("pods", "shop", name)).is_none());
    let mut body = gone.clone();
    body["spec"]["nodeName"] = free["metadata"]["name"].clone();
    body["status"] = running("next");
    let metadata = body["metadata"].as_object_mut().unwrap();
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "finalizers",
        "managedFields",
    ] {
        metadata.remove(field);
    }
    body["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove("test/ending");
    state.make(("pods", "shop", &name.unwrap_or_default()), "kubelet", body);
    recount(state);
}

/// The disruption controller.
fn recount(state: &mut State) {
    for budget in state.objects("poddisruptionbudgets") {
        let app = &budget["spec"]["selector"]["matchLabels"]["app"];
        let pods = state.objects("pods");
        let healthy = pods.iter().filter(|pod| {
            pod["metadata"]["labels"]["app"] == *app
                && pod["metadata"].get("deletionTimestamp").is_none()
                && pod["status"]["conditions"][0]["status"] == "True"
        });
        let (healthy, wanted) = (
            healthy.count() as u64,
            budget["spec"]["minAvailable"].as_u64().unwrap_or(0),
        );
        let name = budget["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        state.edit(
            ("poddisruptionbudgets", "shop", &name),
            "kube-controller-manager",
            |budget| {
                budget["status"] = json!({"observedGeneration": 1, "currentHealthy": healthy,
                "desiredHealthy": wanted, "disruptionsAllowed": healthy.saturating_sub(wanted)});
            },
        );
    }
}
