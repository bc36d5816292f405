//! The keys, labels and field managers in one place: users and other tools rely on them.

/// The namespace of the slots, unless configured.
pub const NAMESPACE: &str = "kube-rebootd";
/// Label on a Lease: which group the slot belongs to. Annotation on the Node: that of its daemon.
pub const GROUP: &str = "kube-rebootd/group";
/// Label on a Lease: the protocol its users must speak; a higher number means hands off.
pub const PROTOCOL: &str = "kube-rebootd/protocol";
/// The protocol this build speaks.
pub const PROTOCOL_VERSION: u64 = 1;
/// Annotation on a Lease: whether the holder is a control-plane node, for those who only see the Lease.
pub const ROLE: &str = "kube-rebootd/role";
/// Annotation on a Lease: the waiters that may take the freed slot first, comma separated.
pub const NEXT: &str = "kube-rebootd/next";
/// Annotation on a Lease: who held it last and until when; changes at every give-up.
pub const LAST_HOLD: &str = "kube-rebootd/last-hold";
/// Annotation on a held Lease: its holder goes down now; the give-up removes it.
pub const GOING_DOWN: &str = "kube-rebootd/going-down";
/// Annotation on a Lease or a Node: closed, and why.
pub const PAUSED: &str = "kube-rebootd/paused";

/// Label on the holder's Node: the Lease it holds. The second record beside the Lease (docs/design.md 3).
pub const SLOT: &str = "kube-rebootd/slot";
/// Annotation on the Node: the record of the hold, so that a host without its disk can finish.
pub const STATE: &str = "kube-rebootd/state";
/// Annotation on the Node: the last reboots with their reasons; no clean-up removes it.
pub const HISTORY: &str = "kube-rebootd/history";
/// Annotation on the Node: the version of its daemon.
pub const VERSION: &str = "kube-rebootd/version";
/// Annotations by which a daemon says who it is. They are for people, and go when it is taken off the node.
pub const OF_THE_DAEMON: [&str; 2] = [GROUP, VERSION];
/// Annotation on the Node: somebody asks for a reboot, and why.
pub const REBOOT: &str = "kube-rebootd/reboot";
/// Annotation that the shipped policy on Nodes refuses to everybody: `doctor` tries to set it, as a dry
/// run, and so sees whether that policy is in force.
pub const PROBE: &str = "kube-rebootd/probe";

/// Label on the node's own kube-node-lease Lease: the group whose slot it waits for.
pub const WAITING: &str = "kube-rebootd/waiting";
/// Annotation beside [`WAITING`]: since when.
pub const SINCE: &str = "kube-rebootd/since";
/// Annotation beside [`WAITING`]: the node keeps its place, but would take no slot now. Who does not know this
/// annotation names such a node in a hint, which costs the group some seconds.
pub const NOT_READY: &str = "kube-rebootd/not-ready";

/// Labels of Nodes that form a quorum (I13): control plane and etcd, the older word for the former, and
/// `MicroK8s`' own.
pub const QUORUM_ROLES: [&str; 4] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/etcd",
    "node-role.kubernetes.io/master",
    "node.kubernetes.io/microk8s-controlplane",
];

/// Taint of a Node whose host a person declares to be off (Kubernetes).
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Taint by which cluster-autoscaler says that it may remove the Node; its value is when it said so, in seconds since 1970.
pub const CANDIDATE: &str = "DeletionCandidateOfClusterAutoscaler";

/// Taints by which an autoscaler says that it removes the Node, or is about to: cluster-autoscaler's two, Karpenter's, and
/// Karpenter's before its version 1.
pub const AUTOSCALER_TAINTS: [&str; 4] = [
    "ToBeDeletedByClusterAutoscaler",
    CANDIDATE,
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
];

/// What the keys of taints begin with by which the Node Readiness Controller keeps pods off a Node that lacks something.
pub const READINESS_TAINTS: &str = "readiness.k8s.io/";

/// Whether anything here looks at taints with this key.
pub fn looks_at_taint(key: &str) -> bool {
    AUTOSCALER_TAINTS.contains(&key) || key.starts_with(READINESS_TAINTS)
}

/// Annotation on a pod: `"false"` asks cluster-autoscaler to leave its Node where it is.
pub const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
/// Annotation on a pod, ours: how long its eviction may take, as far as `drain.pod_timeout_max` lets it.
pub const DRAIN_TIMEOUT: &str = "kube-rebootd/drain-timeout";
/// Annotation on a pod or a Node, Karpenter's: `"true"`, or on a pod for how long after its start.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Annotations on a Node, with their values, by which autoscalers and the repair of a provider leave it alone:
/// cluster-autoscaler's, the reason that AKS wants beside it, and Karpenter's.
pub const GUARDS: [(&str, &str); 3] = [
    (
        "cluster-autoscaler.kubernetes.io/scale-down-disabled",
        "true",
    ),
    (
        "kubernetes.azure.com/azure-cluster-autoscaler-scale-down-disabled-reason",
        "upgrade",
    ),
    (DO_NOT_DISRUPT, "true"),
];
/// Label on a Node, with its value: service controllers and `MetalLB` keep traffic from outside away from it. By its value
/// newer ones tell `"false"` from it, older ones only look whether it is there: it is taken off, and never set to that.
pub const EXCLUDED: (&str, &str) = (
    "node.kubernetes.io/exclude-from-external-load-balancers",
    "true",
);
/// Label on a pod, Cluster API's: `skip` or `wait-completed`.
pub const CLUSTER_API_DRAIN: &str = "cluster.x-k8s.io/drain";

/// Field manager of all that we apply on the Node.
pub const NODE_MANAGER: &str = "kube-rebootd";
/// Field manager of the Lease that an installation makes: not the taker's, else its labels would
/// vanish with the take.
pub const SETUP_MANAGER: &str = "kube-rebootd-setup";
/// Namespace of the kubelets' heartbeat Leases.
pub const NODE_LEASES: &str = "kube-node-lease";

/// What a command line needs to name `namespace`: nothing for the default one.
pub fn option(namespace: &str) -> String {
    if namespace == NAMESPACE {
        return String::new();
    }
    format!(" --namespace {namespace}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_namespace_is_named_on_a_command_line() {
        assert_eq!(option(NAMESPACE), "");
        assert_eq!(option("ops"), " --namespace ops");
    }
}
