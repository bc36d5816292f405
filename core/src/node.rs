//! The own Node as data.

use std::time::Duration;

use jiff::Timestamp;

use crate::names;
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
    /// `status.nodeInfo.bootID`; empty where the kubelet tells none (kubemark).
    pub boot_id: String,
    /// `status.volumesInUse`: attachable volumes that are not unmounted.
    pub volumes_in_use: Vec<String>,
    /// The view is a consistent read (a GET or the answer to our own write) asked for at this boot
    /// time, not what a watch delivered.
    pub read: Option<Duration>,
}

impl Node {
    /// A control-plane or etcd node (I13).
    pub fn quorum(&self) -> bool {
        names::QUORUM_ROLES
            .iter()
            .any(|role| self.labels.contains_key(*role))
    }
}
