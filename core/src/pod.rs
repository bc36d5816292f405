//! Pods of this node as data: what the drain judges and what the health check compares.

mod patience;
mod shield;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::rivals::Rival;
use crate::slot::Keys;
pub use patience::Patience;
pub use shield::Shield;

/// A pod, as far as anything here looks at it.
#[allow(clippy::struct_excessive_bools)] // facts about an object, not states
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub labels: Keys,
    /// `kubernetes.io/config.mirror` is set: the kubelet's own copy of a static pod.
    pub mirror: bool,
    /// What its author asks of autoscalers.
    pub shield: Option<Shield>,
    /// How long its author says that its eviction may take.
    pub patience: Option<Patience>,
    /// It belongs to another daemon that reboots hosts.
    pub rival: Option<Rival>,
    /// `status.startTime`, by the kubelet of this host; none: it has not started.
    pub started: Option<Timestamp>,
    /// Kind, name and UID of the owner reference with `controller: true`.
    pub controller: Option<Controller>,
    pub phase: PodPhase,
    pub restart_policy: RestartPolicy,
    /// `metadata.deletionTimestamp` is set (the server's clock: never compared with ours).
    pub terminating: bool,
    /// `metadata.deletionGracePeriodSeconds` of a terminating pod.
    pub grace_seconds: u64,
    /// `metadata.finalizers`: while there is one, the API server keeps the object.
    pub finalizers: Vec<String>,
    /// Any emptyDir volume.
    pub empty_dir: bool,
    /// Claims and in-line disks, each with its namespace: what may be attached to the node for it.
    pub volumes: Vec<String>,
    /// `spec.priority`; system-critical is 2,000,000,000 and above.
    pub priority: i32,
    /// Condition Ready is True.
    pub ready: bool,
    pub containers: Vec<Container>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// Its `apiVersion`.
    pub api: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

/// The three values of which one changes when a container starts again (docs/design.md 9); compared, never
/// ordered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    pub name: String,
    pub id: String,
    /// None when it does not run.
    pub started: Option<Timestamp>,
    pub restarts: u32,
}

impl Pod {
    /// `namespace/name`, as people write it.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Its controller is a DaemonSet, of any API group.
    pub fn daemon_set(&self) -> Option<&Controller> {
        self.controller
            .as_ref()
            .filter(|owner| owner.kind == "DaemonSet")
    }

    /// Its controller is a Job, of any API group: other batch systems have Jobs too.
    pub(crate) fn job(&self) -> Option<&Controller> {
        self.controller.as_ref().filter(|owner| owner.kind == "Job")
    }

    /// Succeeded or Failed: no container runs any more. Its volumes may still be mounted.
    pub fn finished(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// It has finished and is to be deleted. The kubelet says that it has finished as soon as its containers
    /// have stopped; after that it unmounts the volumes, and only then it lets the object go (`real::volumes`).
    pub(crate) fn cleaning_up(&self) -> bool {
        self.terminating && self.finished()
    }
}

#[cfg(test)]
impl Pod {
    /// A Ready one that nothing owns, with nothing on it.
    pub(crate) fn ready(uid: &str) -> Self {
        Self {
            namespace: "shop".to_owned(),
            name: uid.to_owned(),
            uid: uid.to_owned(),
            labels: Keys::new(),
            mirror: false,
            shield: None,
            patience: None,
            rival: None,
            started: None,
            controller: None,
            phase: PodPhase::Running,
            restart_policy: RestartPolicy::Always,
            terminating: false,
            grace_seconds: 30,
            finalizers: Vec::new(),
            empty_dir: false,
            volumes: Vec::new(),
            priority: 0,
            ready: true,
            containers: Vec::new(),
        }
    }
}

/// How the API server answered an eviction; `cluster/pods.rs` reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictAnswer {
    /// 200, 201: it will go; the watch says when.
    Accepted,
    /// 404, 409 on the UID, 403 "can only evict pods with spec.nodeName set to itself": look again.
    LookAgain,
    /// 429 with cause `DisruptionBudget`: the server's message, which names the budget.
    Budget(String),
    /// 429 without that cause, or 401: after this many seconds at least.
    Busy {
        retry_after: Option<u64>,
        why: String,
    },
    /// 401: the credential has ended; asked again with another.
    Unauthorized(String),
    /// None, or a 5xx: as good as none from a server that is not there.
    Unanswered {
        retry_after: Option<u64>,
        why: String,
    },
    /// 500: more than one budget on the pod; never recovers by itself.
    TwoBudgets(String),
    /// 403 with cause `NamespaceTerminating`: its pods are deleted anyway.
    NamespaceTerminating,
    /// Any other refusal, in words.
    Refused(String),
}
