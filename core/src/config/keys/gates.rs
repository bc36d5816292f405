//! `[gates]`

use super::{LONGEST, Span, ZERO};

keys! {
    /// What says not now.
    ///
    /// Without a key, no reboot begins while the node or its group is paused, while somebody holds a block inhibitor
    /// (`systemd-inhibit --list`), and while a package manager works: dpkg, apt, pacman, zypper, PackageKit, or an rpm
    /// transaction, by the lock that each takes.
    /// One that ends while a reboot is wanted counts as at work for 30 seconds more, as scripts call them several times.
    /// The status names the process, or the lock that one has left behind.
    /// A drain that is under way goes on beside inhibitors and package managers; the reboot waits up to 5 minutes for their
    /// end, then slot and cordon are given back.
    section "gates";

    /// No reboot begins before the host has been up for so long.
    MIN_UPTIME "min_uptime": Span = Span { default: ZERO, least: ZERO, most: LONGEST, bound: "" };
}
