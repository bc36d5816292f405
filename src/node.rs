//! The own Node as data, and the one set of things of ours on it (I3).
//!
//! The set is a pure function of phase and record, never a delta: a partial apply would drop what it
//! does not name (proved), and a restart must reach the same set again.

use std::time::Duration;

use jiff::Timestamp;

use crate::slot::Keys;

/// The own Node, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Seen {
    /// Never read by this process.
    #[default]
    Unknown,
    /// The API server says there is none.
    Absent,
    Present(Box<Node>),
}

/// What is looked at on the own Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub unschedulable: bool,
    /// Field managers that own `spec.unschedulable`.
    pub cordon_owners: Vec<String>,
    pub labels: Keys,
    pub annotations: Keys,
    /// Condition Ready is True.
    pub ready: bool,
    /// `lastHeartbeatTime` of Ready.
    pub heartbeat: Option<Timestamp>,
    /// `status.nodeInfo.bootID`; empty with kubemark.
    pub boot_id: String,
    /// The view is a consistent read (a GET or the answer to our own write) asked for at this boot
    /// time, not what a watch delivered.
    pub read: Option<Duration>,
}

impl Node {
    /// A control-plane or etcd node (I13).
    pub fn quorum(&self) -> bool {
        crate::names::QUORUM_ROLES
            .iter()
            .any(|role| self.labels.contains_key(*role))
    }
}

/// All of ours on the Node: what one apply holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSet {
    /// `metadata.uid` of the apply: without it a deleted Node would come back to life (proved).
    pub uid: String,
    /// `metadata.resourceVersion` of the apply: without it somebody's uncordon, or a late repeat of
    /// our own, would be overwritten (proved).
    pub resource_version: String,
    pub unschedulable: bool,
    pub labels: Keys,
    pub annotations: Keys,
}

/// What is left on the Node of our keys although an apply no longer names it, to be removed by a
/// merge patch; and, as such a patch can also take away what others set, the reboot annotation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leftovers {
    pub uid: String,
    pub resource_version: String,
    pub labels: Vec<String>,
    pub annotations: Vec<String>,
    /// The cordon is ours although its owner is `before-first-apply`.
    pub cordon: bool,
}
