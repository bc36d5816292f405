//! `[[triggers.check]]`

use super::{
    Choice, Codes, Command, LONGEST, SECOND, Span, UNIQUE, Word, ZERO, choice, hours, minutes,
};
use crate::config::Preset;
use std::time::Duration;

/// A check that starts more often only burns the host's CPU.
const SHORTEST_PERIOD: Duration = Duration::from_secs(10);

keys! {
    /// Commands whose exit status says whether this host needs a reboot, as many as you like.
    /// Only a listed status is an answer: any other one, a signal or a timeout is unknown, and unknown never causes a
    /// reboot nor ends the wish for one.
    /// The command runs as a transient unit with root's rights, outside the sandbox of the daemon.
    section "triggers.check" each Always;

    /// Its name in reasons and unit names.
    /// There is no default.
    /// A drop-in's check with the same name replaces the whole check.
    NAME "name": Word = Word { default: "", rule: UNIQUE, optional: false };

    /// Command and exit codes of a known tool; keys that are written as well count before it.
    ///
    /// PRESETS
    ///
    /// dnf's own errors, a plugin that is not installed among them, end with 1 too: with the preset's command it must also
    /// print "Reboot is required", which it is asked for in the C locale.
    /// Anything else is unknown.
    PRESET "preset": Choice<Option<Preset>> = choice(Preset::WORDS);

    /// What to run.
    /// Required without a preset, and with the preset "kured".
    COMMAND "command": Command = Command;

    /// What says that a reboot is needed.
    /// Required without a preset.
    REBOOT_EXIT_CODES "reboot_exit_codes": Codes = Codes;

    /// What says that none is needed.
    /// Without a preset [1] when `reboot_exit_codes` holds 0; with one the preset's, without those that `reboot_exit_codes`
    /// holds.
    OK_EXIT_CODES "ok_exit_codes": Codes = Codes;

    /// From one start to the next.
    PERIOD "period": Span = Span { default: hours(1), least: SHORTEST_PERIOD, most: LONGEST, bound: "" };

    /// After this the command is killed, and the answer unknown.
    /// By default half of a period that is shorter than 10m.
    TIMEOUT "timeout": Span = Span { default: minutes(5), least: SECOND, most: LONGEST, bound: "below period" };

    /// How long the answer must stand before it counts, so that tools that restart services come first.
    SETTLE "settle": Span = Span { default: minutes(10), least: ZERO, most: LONGEST, bound: "" };
}
