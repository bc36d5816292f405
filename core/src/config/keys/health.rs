//! `[health]`

use super::{LONGEST, SECOND, Span, ZERO, minutes};

keys! {
    /// When a boot counts as proved.
    /// Until then the node keeps its slot, so that a bad update stops at the first node.
    section "health";

    /// After this a node that is not healthy is reported.
    /// It keeps its slot all the same.
    TIMEOUT "timeout": Span = Span { default: minutes(15), least: SECOND, most: LONGEST, bound: "" };

    /// Whether a system in which units have failed (systemd's state "degraded") is good enough.
    ALLOW_DEGRADED "allow_degraded": bool = true;

    /// Whether `boot-complete.target` must have been reached; see systemd.special(7).
    /// systemd begins it by itself only in a boot that systemd-boot counts, which is not one of an entry that was found good
    /// before: there a node with this key keeps its slot.
    /// For every boot: `systemctl add-wants multi-user.target boot-complete.target`.
    BOOT_COMPLETE "boot_complete": bool = false;

    /// How long the Node must have been Ready.
    READY_FOR "ready_for": Span = Span { default: ZERO, least: ZERO, most: LONGEST, bound: "below timeout" };

    /// Whether the pods of DaemonSets that were ready before the drain must be ready again.
    /// A DaemonSet without a pod on the node is missing as long as it exists and selects the node; where that cannot be read,
    /// or it does not select the node any more, until `timeout`.
    PODS "pods": bool = true;
}
