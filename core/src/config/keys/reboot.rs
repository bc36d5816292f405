//! `[reboot]`

use crate::kind::Kind;

use super::{Choice, Command, DAY, Number, SECOND, Span, TEXT, Word, ZERO, choice, hours, minutes};

keys! {
    /// How the host is rebooted, and how often.
    section "reboot";

    /// What is done: a full reboot, or a soft-reboot (`systemd-soft-reboot.service(8)`), which ends and starts all services, but goes on
    /// with the running kernel, and needs systemd 254. With `reboot` every trigger gets a full one, whatever the text of a sentinel
    /// is. With `soft-reboot` those get a full one that may want a new kernel, firmware or boot loader, that a soft one did not clear,
    /// or whose sentinel has the text `reboot`. `kube-rebootd reboot --kind` and rebootmgrctl name their own. The strongest among all
    /// that ask is done.
    KIND "kind": Choice<Kind> = choice(Kind::WORDS);

    // Whether it is the command.
    /// Who is asked to reboot: systemd-logind(8), which respects block inhibitors, or `command`.
    METHOD "method": Choice<bool> = choice(&[("logind", false), ("command", true)]);

    /// Required with `method = "command"`, and refused without it.
    /// It may schedule the reboot with logind, as `shutdown -r +1` does, for at most `timeout` later.
    COMMAND "command": Command = Command;

    /// Between the end of the drain and the request.
    DELAY "delay": Span = Span { default: ZERO, least: ZERO, most: DAY, bound: "" };

    /// How long the shutdown may take to begin before it is asked for again; after three times the attempt is undone.
    /// 10 minutes by default: logind begins at once, but `command` may take its time, and a host that went down after its attempt was
    /// undone would do so without a slot.
    TIMEOUT "timeout": Span = Span { default: minutes(10), least: SECOND, most: DAY, bound: "" };

    /// How many reboots by this daemon there may be in 24 hours, those that a Node annotation asked for among them.
    /// 2 by default: one for an update, and one for what comes out on the same day or for a person; more is mostly a loop.
    MAX_PER_DAY "max_per_day": Number = Number { default: 2, least: 1, most: 100 };

    // At most what the back-off doubles up to (docs/design.md 6).
    /// The pause after a failed attempt; it doubles with each, up to 6h.
    /// 5 minutes by default: what fails a drain, as a budget while a pod starts, is often over by then, and each attempt moves pods.
    RETRY "retry": Span = Span { default: minutes(5), least: SECOND, most: hours(6), bound: "" };

    /// Inhibit every other shutdown: `systemctl reboot` by a person or a script is refused, and says to use
    /// `kube-rebootd reboot`, or `systemctl reboot --force` to go around it. A shutdown cannot be scheduled either.
    /// The daemon lets go when it reboots the host itself, while the node is kept drained (`drain`, `hold`), and when it is stopped. Needs systemd 257: older ones let root through,
    /// and the daemon says so.
    GUARD "guard": bool = false;

    /// What logged-in users are told.
    MESSAGE "message": Word = Word { default: "kube-rebootd reboots this node", rule: TEXT, optional: false };
}
