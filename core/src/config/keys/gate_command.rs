//! `[[gates.command]]`

use super::{Command, DAY, SECOND, Span, UNIQUE, Word, minutes};
use std::time::Duration;

/// A command that starts more often only burns the host's CPU.
const SHORTEST_PERIOD: Duration = Duration::from_secs(10);

keys! {
    /// Commands that say whether a reboot may begin now, as many as you like.
    /// Exit status 0 has nothing against it, and 75 is "not now": the last line that it prints is the reason.
    /// Any other one, a signal or a timeout is unknown, which counts as "not now".
    /// They run while a reboot is wanted, as transient units with root's rights, outside the sandbox of the daemon: each
    /// period, again once the slot is taken, and again when the node is drained.
    /// The executable files in /etc/kube-rebootd/hooks/gate.d are asked in the same way, each minute; docs/hooks.md says
    /// what they are told.
    section "gates.command" each Always;

    /// Its name in messages and unit names.
    /// There is no default.
    /// A drop-in's command with the same name replaces the whole table.
    NAME "name": Word = Word { default: "", rule: UNIQUE, optional: false };

    /// What to run.
    /// Required.
    COMMAND "command": Command = Command;

    /// After this the command is killed, and the answer unknown.
    /// A minute by default: a command that asks another host has time for a second try, and one that hangs is known to do so soon.
    TIMEOUT "timeout": Span = Span { default: minutes(1), least: SECOND, most: minutes(2), bound: "" };

    /// From one start to the next.
    /// A minute by default: an answer that has changed is heard soon, and one short command a minute is no burden for a host that
    /// waits for days.
    PERIOD "period": Span = Span { default: minutes(1), least: SHORTEST_PERIOD, most: DAY, bound: "" };
}
