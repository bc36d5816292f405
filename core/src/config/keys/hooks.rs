//! `[hooks]`

use super::{SECOND, Span, minutes};

keys! {
    /// The hooks in /etc/kube-rebootd/hooks that run around a reboot; docs/hooks.md says when each runs and what it is told.
    section "hooks";

    /// After this a hook of pre-drain.d, pre-reboot.d, post-boot.d or undo.d is ended (SIGTERM, 10 seconds later SIGKILL), and has failed.
    /// It is of each hook alone: of those in one directory no further one is begun after five minutes, but for undo.d.
    /// Hooks of gate.d are asked each minute, and have a minute; `[[gates.command]]` has a `timeout` of its own.
    /// `kube-rebootd undrain --release`, and the removal of the package, wait for a hook of undo.d that runs.
    /// A minute by default: the slot is held while hooks run, and several may run one after another.
    TIMEOUT "timeout": Span = Span { default: minutes(1), least: SECOND, most: minutes(10), bound: "" };
}
