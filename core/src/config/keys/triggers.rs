//! `[triggers]`

use super::{Choice, Choices, DAY, LONGEST, Paths, SECOND, Span, ZERO, choice, minutes};
use crate::config::{Adoption, Builtin};

keys! {
    /// What says that this host needs a reboot.
    section "triggers";

    /// Files that say so by being there.
    /// The lines of `FILE.pkgs` are its packages, the text of the file is shown beside them.
    /// After a reboot the same file with the same packages asks for no other one, until it has gone and has come back 15
    /// minutes or more after the reboot was proved.
    /// If it comes back sooner, it must go once more.
    /// Other packages ask at once.
    SENTINELS "sentinels": Paths = Paths(&["/run/reboot-required", "/run/reboot-needed"]);

    /// Whether the Node annotation `kube-rebootd/reboot` asks for a reboot; its value is the reason.
    NODE_ANNOTATION "node_annotation": bool = true;

    /// What becomes of a shutdown that somebody schedules with systemd-logind(8), such as dnf-automatic's `shutdown -r +5`:
    /// it goes around slot and drain.
    /// "warn" says so in the journal.
    /// "adopt" cancels a reboot that is due in more than 10 seconds at once, and makes it a request of this daemon, which
    /// waits for its turn.
    /// A poweroff and `shutdown -r now` are not taken over; with `mode = "observe"` nothing is.
    /// "ignore" says nothing.
    /// It is "warn", as somebody meant that shutdown to come at that time: to cancel what others ordered is for the admin to allow.
    SCHEDULED_SHUTDOWN "scheduled_shutdown": Choice<Adoption> =
        choice(&[("warn", Adoption::Warn), ("adopt", Adoption::Adopt), ("ignore", Adoption::Ignore)]);

    /// Whether `update_engine` of Flatcar Linux is asked over D-Bus if an update waits for a reboot; `update_engine_client -reset_status`
    /// ends that within half a minute. One that is stopped says nothing, so that what it said last counts.
    /// locksmithd must not run beside it: `REBOOT_STRATEGY=off` in `/etc/flatcar/update.conf`.
    UPDATE_ENGINE "update_engine": bool = false;

    /// Whether rebootmgr's varlink interface is served at `/run/rebootmgr/rebootmgrd.socket`, so that `rebootmgrctl reboot`, and
    /// transactional-update with `REBOOT_METHOD=rebootmgr`, wait for the turn of this node; from rebootmgr 3.0 on, as older ones ask over D-Bus.
    /// Only root may ask for a reboot there.
    /// rebootmgr must not run beside it: `systemctl mask --now rebootmgr.service`.
    REBOOTMGR "rebootmgr": bool = false;

    /// How often the files are looked at, besides being notified of changes, and how often the built-in checks run
    /// (those at most every 10 seconds).
    /// 5 minutes by default: changes of files are told at once, but not on mounts and network file systems; and the check "libraries"
    /// reads the maps of all processes.
    PERIOD "period": Span = Span { default: minutes(5), least: SECOND, most: DAY, bound: "" };

    /// How long a file must have been there before it counts.
    /// 10 minutes by default: whoever updates a host goes on after the package manager has ended, with services that are to
    /// be restarted, or with the next task of a playbook. `kube-rebootd reboot` asks at once.
    SETTLE "settle": Span = Span { default: minutes(10), least: ZERO, most: LONGEST, bound: "" };

    /// Checks that need no tool: "kernel" and "libraries"; `kube-rebootd check` prints what they say.
    /// "kernel" says that the running kernel was removed, built anew or lost its modules, or that a newer one of its flavour
    /// was installed since the boot and neither GRUB's settings nor `loader.conf` tell the boot loader to boot another.
    /// "libraries" says that processes of the host itself, not of its containers, run code whose files were replaced, and
    /// which units a `systemctl restart` would cure.
    /// Both are unknown while a package manager works or a shutdown is inhibited.
    /// "kernel" is the default, as on RPM distributions, and on Debian without unattended-upgrades, nothing writes one of the
    /// `sentinels`; in a container, where the kernel comes from elsewhere, it asks for nothing.
    BUILTIN "builtin": Choices<Builtin> =
        Choices { words: Builtin::WORDS, what: "built-in checks", default: &[Builtin::Kernel] };

    /// How long they must have said so before it counts, so that tools that restart services come first.
    BUILTIN_SETTLE "builtin_settle": Span = Span { default: minutes(10), least: ZERO, most: LONGEST, bound: "" };
}
