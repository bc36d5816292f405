//! `[coordination]`

use super::{
    DAY, DNS_LABEL, LABEL_KEY, LABEL_VALUE, LONGEST, MaxUnavailable, PATH, SECOND, SERVICE_ACCOUNT,
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
    /// Refused with an empty `impersonate` or with `coordination.kubeconfig`: then there is no impersonation.
    PROVE_NODE "prove_node": bool = false;

    /// When this many other Nodes of the cluster, or more, are not Ready or cordoned, no slot is taken.
    /// Nodes that hold a slot are not counted.
    /// A percentage is of all Nodes, rounded down, but at least one Node: of 19 Nodes 10% is 1, so that one that is down stops
    /// all others.
    /// 10% by default: where one Node in ten is down for other reasons, something is wrong that another reboot makes worse.
    MAX_UNAVAILABLE "max_unavailable": MaxUnavailable = MaxUnavailable::Percent(10);

    /// Whether a Node that somebody cordoned counts for `max_unavailable`, as it takes no pods.
    /// false is for clusters that keep spare Nodes cordoned.
    COUNT_CORDONED "count_cordoned": bool = true;

    /// Rest from the end of one hold of the group to the next take.
    /// It is counted on this host's own clock, since it saw the end; a daemon that has just started counts from its start.
    /// 0s by default: what a node has to show before it gives its slot up is `health.ready_for` and its pods; and a rest of the
    /// whole group keeps several slots from being used at once, as each hold that ends begins it anew. Where alerts watch an
    /// update, take more than their `for`; a minute gives Kubernetes the time to see that a node has died right after its reboot.
    MIN_INTERVAL "min_interval": Span = Span { default: ZERO, least: ZERO, most: LONGEST, bound: "" };

    /// How long autoscalers and the repair of a provider are kept from the own Node after a hold; during a hold they always are,
    /// but with "0s", which leaves the Node alone.
    /// The Node then carries the annotations `cluster-autoscaler.kubernetes.io/scale-down-disabled: "true"`,
    /// `kubernetes.azure.com/azure-cluster-autoscaler-scale-down-disabled-reason: "upgrade"` and
    /// `karpenter.sh/do-not-disrupt: "true"`, each only where somebody else has not set it.
    /// A drained node looks unused, and one that boots looks broken: else it may be removed in the middle of its reboot.
    /// 15 minutes by default: the cluster-autoscaler removes a Node that it has found unneeded for 10.
    AUTOSCALER_PROTECT "autoscaler_protect": Span = Span { default: minutes(15), least: ZERO, most: DAY, bound: "" };

    /// How long the Node of a holder must not have existed, and no Node's label have claimed its slot, before a node that
    /// waits clears the slot.
    /// A Node with the taint `node.kubernetes.io/out-of-service`, which a person sets when the host is off for good, counts as
    /// one that does not exist as long as it is not Ready.
    /// The slot of a control-plane node and a paused slot are never cleared so, and with `prove_node` none is: then a person
    /// runs `kube-rebootd unlock`.
    /// 30 minutes by default: a host whose Node was deleted may boot and register it anew, and nothing but time is lost by the wait.
    STALE_AFTER "stale_after": Span = Span { default: minutes(30), least: SECOND, most: LONGEST, bound: "" };
}
