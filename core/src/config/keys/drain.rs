//! `[drain]`

use super::{Choice, DAY, LONGEST, Number, SECOND, Selectors, Span, ZERO, choice, minutes};
use crate::drain::{EmptyDir, Jobs, Mode, OnTimeout, Unmanaged};

keys! {
    /// How pods leave.
    /// Cluster API's label `cluster.x-k8s.io/drain` on a pod is honoured: with "skip" it is left alone, with "wait-completed" it
    /// is not evicted and waited for until it has finished, within `timeout`.
    section "drain";

    /// "auto" evicts, except where the cluster has no other Node; while others exist and none can take pods
    /// (all are cordoned or not Ready), no slot is taken.
    /// "always" evicts whatever the other Nodes are; "never" only cordons.
    MODE "mode": Choice<Mode> = choice(&[("auto", Mode::Auto), ("always", Mode::Always), ("never", Mode::Never)]);

    /// How long the drain may take, from the cordon on, or from the end of `cordon_only` and `load_balancer_wait`.
    /// Time in which the API server does not answer is not counted.
    /// Where all pods that are left are terminating and within their own grace period, they are waited for after it, until
    /// twice this time from the cordon on.
    /// A pod that is terminating already and may take longer keeps the drain from beginning.
    /// 30 minutes by default: a budget that lets one pod go after another, each when its replacement is ready, needs minutes for
    /// each, and other nodes wait for the slot meanwhile.
    TIMEOUT "timeout": Span = Span { default: minutes(30), least: SECOND, most: LONGEST, bound: "" };

    /// The longest time without any pod going away.
    /// By default `timeout` where that is shorter.
    /// 10 minutes by default: what has kept each pod for so long, as a budget that allows nothing, more time alone rarely changes.
    STALL "stall": Span = Span { default: minutes(10), least: SECOND, most: LONGEST, bound: "at most timeout" };

    /// What follows either: "abort" undoes everything and tries again later, "reboot" reboots with the pods
    /// that are left, whose disruption budgets are then not kept.
    /// It is "abort", as a budget is a promise to somebody else, and a later attempt may find that it allows the eviction.
    ON_TIMEOUT "on_timeout": Choice<OnTimeout> = choice(&[("abort", OnTimeout::Abort), ("reboot", OnTimeout::Reboot)]);

    /// How long the node is only cordoned before the first eviction: new pods go elsewhere, and pods of Jobs may end by themselves.
    /// It ends as soon as no pod is left that must leave; with `load_balancer_wait` both begin with the cordon, and the longer one
    /// counts.
    /// The slot is held meanwhile, and no other node gets it; alerts that ship with this tell of a drain of one hour, and of a slot
    /// that is held for two.
    CORDON_ONLY "cordon_only": Span = Span { default: ZERO, least: ZERO, most: DAY, bound: "" };

    /// How long load balancers get to send nobody to this node any more, from the cordon to the first eviction.
    /// Where it is not "0s", the Node carries the label `node.kubernetes.io/exclude-from-external-load-balancers` from the cordon
    /// on until the uncordon, unless it is there already.
    /// It is waited for also where no pod is evicted, but not where the cluster has no other Node.
    /// Take what your load balancer needs to close a target, for example its deregistration delay.
    LOAD_BALANCER_WAIT "load_balancer_wait": Span = Span { default: ZERO, least: ZERO, most: DAY, bound: "" };

    /// How many evictions are asked for at once.
    /// 25 by default: 110 pods, as many as a kubelet runs by default, are five rounds, and one node has no more requests than these at
    /// the API server.
    PARALLELISM "parallelism": Number = Number { default: 25, least: 1, most: 500 };

    /// Pods without a controller.
    /// "leave": the kubelet starts them again after the boot (one that it would not start again blocks), but not where
    /// it shuts down gracefully (its `shutdownGracePeriod`): there they end for ever, and are named before the cordon;
    /// "evict": they are lost; "block": no reboot while there is one.
    UNMANAGED "unmanaged": Choice<Unmanaged> =
        choice(&[("leave", Unmanaged::Leave), ("evict", Unmanaged::Evict), ("block", Unmanaged::Block)]);

    /// Pods of Jobs.
    /// "evict": the Job begins that pod anew elsewhere; "wait": they are waited for until they have finished; no new ones
    /// come.
    /// The wait counts against `timeout`, not against `stall`: set `timeout` to what your Jobs may take.
    /// The slot is held meanwhile, and no other node gets it.
    /// It is "evict", as a Job begins its pod anew by itself, and one that runs for days would keep the slot from all others.
    JOBS "jobs": Choice<Jobs> = choice(&[("evict", Jobs::Evict), ("wait", Jobs::Wait)]);

    /// Pods with emptyDir volumes.
    /// "evict": what is in them is lost; "block": no reboot while there is one.
    /// It is "evict", as an emptyDir is made to end with its pod, whatever ends that; with "block" one such pod keeps the host
    /// unpatched.
    EMPTY_DIR "empty_dir": Choice<EmptyDir> = choice(&[("evict", EmptyDir::Evict), ("block", EmptyDir::Block)]);

    /// How long the volumes of evicted pods may take to be unmounted and taken off the Node's `status.volumesInUse`, after
    /// the last pod has gone; the kubelet says so every 10 seconds.
    /// After it the journal names them and the reboot goes on; a volume that is still in use then can be attached elsewhere
    /// only when the host is back, or once its Node has not been Ready and 6 minutes have passed.
    /// "0s": they are not waited for.
    VOLUMES_TIMEOUT "volumes_timeout": Span = Span { default: minutes(2), least: ZERO, most: DAY, bound: "" };

    /// Of the time that pods ask for by the annotation `kube-rebootd/drain-timeout`, for example "30m", so much counts at most.
    /// A pod that has this annotation may take so long to leave, from the first time that it is asked: `stall` ends no drain that waits
    /// for such pods alone, they are asked and waited for past `timeout`, until twice that, and not escalated before.
    /// It is "0s", which lets nothing count: whoever may make pods would decide how long a node is drained, and its slot held.
    POD_TIMEOUT_MAX "pod_timeout_max": Span = Span { default: ZERO, least: ZERO, most: DAY, bound: "at most twice timeout" };

    /// Pods that any of them selects are left alone, for example ["app=agent", "tier in (edge,infra)"].
    SKIP "skip": Selectors = Selectors;
}
