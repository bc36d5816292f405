//! `[fleet_lock]`

use super::{DAY, FLEET_GROUP, FLEET_ID, LOOPBACK, Span, USER, Word, minutes};

keys! {
    /// Where the updater of this host asks whether it may reboot, by the FleetLock protocol, as Zincati does on Fedora CoreOS.
    /// What it asks for becomes a request as any other: gates, slot, drain; then the updater is told to go on, and reboots the
    /// host by itself; after the boot the host is proved, uncordoned, and its slot is given up.
    /// Nothing is served unless `listen` is set.
    /// docs/updaters.md shows the files of Zincati that belong to it.
    section "fleet_lock";

    /// An address that only this host reaches, with a port, as in `127.0.0.1:3333` or `[::1]:3333`, or `unix:` and the path of
    /// a socket.
    /// A port below 1024 is refused by the sandbox of the unit.
    LISTEN_ON "listen": Word = Word { default: "", rule: LOOPBACK, optional: true };

    /// The user whose processes may ask: any user of the host could have the node drained else.
    /// Root may ask as well over the path of a socket, and over an address only where this says "root": whoever may
    /// `kubectl port-forward` to a pod with `hostNetwork` connects to an address of the host as root.
    CLIENT "user": Word = Word { default: "zincati", rule: USER, optional: false };

    /// The id that the client sends: that of `identity.node_uuid` in the configuration of Zincati, where it is set, in any spelling of a UUID.
    /// Empty, it is what Zincati makes of this host's `/etc/machine-id`.
    ID "id": Word = Word { default: "", rule: FLEET_ID, optional: true };

    /// The group that the client sends: `identity.group` in the configuration of Zincati.
    /// It says nothing about slots, which `coordination.group` chooses.
    GROUP "group": Word = Word { default: "default", rule: FLEET_GROUP, optional: false };

    /// How long the updater may take to reboot the host once it was told to go on; after that the drain is undone.
    /// Zincati waits for logged-in users for up to 10 minutes of it.
    REBOOT_WITHIN "reboot_within": Span = Span { default: minutes(30), least: minutes(1), most: DAY, bound: "" };
}
