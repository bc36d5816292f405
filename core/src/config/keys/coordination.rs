//! `[coordination]`

use super::{
    DNS_LABEL, LABEL_KEY, LABEL_VALUE, LONGEST, MaxUnavailable, PATH, SECOND, SERVICE_ACCOUNT,
    Span, Word, ZERO, minutes,
};

keys! {
    /// Where the slots are, and when one may be taken.
    section "coordination";

    /// The namespace of the Leases: 1 to 63 lower-case letters, digits and "-".
    NAMESPACE "namespace": Word = Word { default: "kube-rebootd", rule: DNS_LABEL, optional: false };

    /// Nodes of one group share its slots, the Leases labelled `kube-rebootd/group=GROUP`.
    GROUP "group": Word = Word { default: "default", rule: LABEL_VALUE, optional: false };

    /// A Node label whose value names the group instead, for example "topology.kubernetes.io/zone".
    /// A Node without the label is in `group`.
    GROUP_LABEL "group_label": Word = Word { default: "", rule: LABEL_KEY, optional: true };

    /// The ServiceAccount in the namespace as which the Leases are read and written.
    /// Empty: the node's own identity, which NodeRestriction allows no Lease but its heartbeat.
    IMPERSONATE "impersonate": Word = Word { default: "coordinator", rule: SERVICE_ACCOUNT, optional: true };

    /// An identity of its own for the Leases, instead of the impersonation.
    /// What is said of `node.kubeconfig` counts for it as well.
    KUBECONFIG "kubeconfig": Word = Word { default: "", rule: PATH, optional: true };

    /// Whether the impersonation says which node it is.
    /// Wants the objects that `kube-rebootd manifests --strict NODE...` prints.
    PROVE_NODE "prove_node": bool = false;

    /// No slot is taken while so many other Nodes of the cluster are not Ready or cordoned.
    /// Nodes that are down by a slot of their own are not counted.
    /// A percentage is one of all Nodes, rounded down, and at least one Node.
    MAX_UNAVAILABLE "max_unavailable": MaxUnavailable = MaxUnavailable::Percent(10);

    /// Whether a Node that somebody cordoned counts for `max_unavailable`, as it takes no pods.
    /// false is for clusters that keep spare Nodes cordoned.
    COUNT_CORDONED "count_cordoned": bool = true;

    /// Rest from the end of one hold of the group to the next take.
    /// It is counted on this host's own clock, since it saw the end; a daemon that has just started counts from its start.
    MIN_INTERVAL "min_interval": Span = Span { default: ZERO, least: ZERO, most: LONGEST, bound: "" };

    /// How long the Node of a holder must not have existed, and no Node's label have claimed its slot, before a node that
    /// waits clears the slot.
    /// A Node with the taint `node.kubernetes.io/out-of-service`, which a person sets when the host is off for good, counts as
    /// one that does not exist as long as it is not Ready.
    /// That of a control-plane node is never cleared.
    STALE_AFTER "stale_after": Span = Span { default: minutes(30), least: SECOND, most: LONGEST, bound: "" };
}
