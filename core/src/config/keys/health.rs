//! `[health]`

use std::time::Duration;

use super::{LONGEST, SECOND, Span, ZERO, minutes};

keys! {
    /// When a boot counts as proved.
    /// Until then the node keeps its slot, so that a bad update stops at the first node.
    section "health";

    /// After this a node that is not healthy is reported.
    /// It keeps its slot all the same.
    /// 15 minutes by default: the kubelet, the network and the pods of DaemonSets, whose images may have to be pulled, take minutes to
    /// come back, and a person who is called sooner finds a node that is still starting.
    TIMEOUT "timeout": Span = Span { default: minutes(15), least: SECOND, most: LONGEST, bound: "" };

    /// Whether a system in which units have failed (systemd's state "degraded") is good enough, as long as each of them had
    /// failed before the reboot as well.
    /// A unit that fails anew keeps the slot; `systemctl reset-failed UNIT` says that it does not matter.
    ALLOW_DEGRADED "allow_degraded": bool = true;

    /// Whether `boot-complete.target` must have been reached; see systemd.special(7).
    /// systemd begins it by itself only in a boot that systemd-boot counts, which is not one of an entry that was found good
    /// before: there a node with this key keeps its slot.
    /// For every boot: `systemctl add-wants multi-user.target boot-complete.target`.
    /// With `systemctl enable kube-rebootd-boot-ok.service` a kubelet that is alive is a part of it, for boot loaders as well.
    BOOT_COMPLETE "boot_complete": bool = false;

    /// How long the Node must have been Ready without a break, from when the kubelet of this boot was heard.
    /// Kubelets come and go for a moment just after the boot, and the next node goes down when this one counts as healthy.
    /// "0s": one look is enough.
    READY_FOR "ready_for": Span = Span { default: Duration::from_secs(30), least: ZERO, most: LONGEST, bound: "below timeout" };

    /// Whether the pods of DaemonSets that were ready before the drain must be ready again.
    /// A DaemonSet without a pod on the node is missing as long as it exists and selects the node; where that cannot be read,
    /// or it does not select the node any more, until `timeout`.
    PODS "pods": bool = true;
}
