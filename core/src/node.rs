//! The own Node as data.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::condition::{Condition, Status};
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
    /// Keys of [`names::GUARDS`], and of [`names::EXCLUDED`], that this daemon has applied, and nobody has changed since.
    pub guarded: Vec<String>,
    /// Who is on record for [`names::EXCLUDED`], as `cordon_owners` are for the cordon.
    pub exclusion_owners: Vec<String>,
    /// Condition Ready is True.
    pub ready: bool,
    /// `lastHeartbeatTime` of Ready.
    pub heartbeat: Option<Timestamp>,
    /// `lastTransitionTime` of Ready: a value that is compared with others of its own, and no time.
    pub turned: Option<Timestamp>,
    /// `status.nodeInfo.bootID`; empty where the kubelet tells none (kubemark).
    pub boot_id: String,
    /// `status.volumesInUse`: attachable volumes that are not unmounted.
    pub volumes_in_use: Vec<String>,
    /// Those conditions that this daemon may write.
    pub conditions: Vec<Condition>,
    /// Keys of the taints that anything here looks at, each once: [`names::looks_at_taint`].
    pub taints: Vec<String>,
    /// When cluster-autoscaler made it a candidate, by its clock: the value of the taint [`names::CANDIDATE`].
    pub candidate: Option<Timestamp>,
    /// Every condition that others report, by type.
    pub reported: BTreeMap<String, Status>,
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

#[cfg(test)]
impl Node {
    /// A Ready one with nothing on it.
    pub(crate) fn ready() -> Self {
        Self {
            name: "n1".to_owned(),
            uid: "u".to_owned(),
            resource_version: "1".to_owned(),
            unschedulable: false,
            cordon_owners: Vec::new(),
            labels: Keys::new(),
            annotations: Keys::new(),
            guarded: Vec::new(),
            exclusion_owners: Vec::new(),
            ready: true,
            heartbeat: None,
            turned: None,
            boot_id: String::new(),
            volumes_in_use: Vec::new(),
            conditions: Vec::new(),
            taints: Vec::new(),
            candidate: None,
            reported: BTreeMap::new(),
            read: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the words of kubeadm before and after 1.20, of RKE2 and k3s, and of `MicroK8s`.
    #[test]
    fn i13_each_distributions_control_plane_is_of_the_quorum() {
        for (label, quorum) in [
            ("node-role.kubernetes.io/control-plane", true),
            ("node-role.kubernetes.io/master", true),
            ("node-role.kubernetes.io/etcd", true),
            ("node.kubernetes.io/microk8s-controlplane", true),
            ("node-role.kubernetes.io/worker", false),
        ] {
            let node = Node {
                labels: Keys::from([(label.to_owned(), String::new())]),
                ..Node::ready()
            };
            assert_eq!(node.quorum(), quorum, "{label}");
        }
    }
}
