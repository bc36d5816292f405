//! One `[[triggers.check]]` (I8: an exit code has one meaning, all others are unknown; I12).

use crate::config::duration::show as words;
use crate::config::file::{Item, Problem};
use crate::config::keys::{Key, Table, check};
use crate::config::reader::Reader;
use crate::config::{Check, Preset};

/// One `[[triggers.check]]`, and how it was read.
pub(super) fn read(table: &Item, problems: &mut Vec<Problem>) -> (Check, Table) {
    let mut r = Reader::new(&check::SECTION, &table.keys, problems);
    let name = r.word_or(&check::NAME, &table.name);
    let preset = r.choice(&check::PRESET);
    let command = preset.and_then(Preset::command).unwrap_or_default();
    let command = r.command(&check::COMMAND, command);
    if command.is_empty() && r.sound(&["command", "preset"]) {
        let reason = "is empty; write it like [\"/usr/local/bin/check\"] or name a preset";
        required(&mut r, &check::COMMAND, table, reason);
    }
    let (reboot_exit_codes, ok_exit_codes) = exit_codes(&mut r, table, preset);
    let period = r.duration(&check::PERIOD);
    // Half a short period, so that a check that sets only `period` stays valid.
    let timeout = r.duration_up_to(&check::TIMEOUT, period / 2);
    if timeout >= period && r.sound(&["period", "timeout"]) {
        let (t, p) = (words(timeout), words(period));
        let reason = format!("{t} is not below period ({p}), runs would overlap; write less");
        r.fault(&check::TIMEOUT, reason);
    }
    let check = Check {
        name,
        preset,
        command,
        reboot_exit_codes,
        ok_exit_codes,
        period,
        timeout,
        settle: r.duration(&check::SETTLE),
    };
    (check, r.table())
}

/// Codes that mean reboot and codes that mean none; none is in both (I8).
fn exit_codes(r: &mut Reader<'_>, table: &Item, preset: Option<Preset>) -> (Vec<u8>, Vec<u8>) {
    let from = |codes: fn(Preset) -> &'static [u8]| preset.map_or(Vec::new(), |p| codes(p).into());
    let reboot_exit_codes = r.codes(&check::REBOOT_EXIT_CODES, from(Preset::reboot_exit_codes));
    if reboot_exit_codes.is_empty() && r.sound(&["reboot_exit_codes", "preset"]) {
        let reason = "is empty; list the exit codes that mean reboot, or name a preset";
        required(r, &check::REBOOT_EXIT_CODES, table, reason);
    }
    let mut ok = match preset {
        Some(preset) => preset.ok_exit_codes().to_vec(),
        None if reboot_exit_codes.contains(&0) => vec![1],
        None => vec![0],
    };
    // What the admin named a reboot code is not ok any more. No other code takes its place: a
    // tool's errors would pass for an answer.
    ok.retain(|code| !reboot_exit_codes.contains(code));
    let ok_exit_codes = r.codes(&check::OK_EXIT_CODES, ok);
    let both = ok_exit_codes.iter().find(|c| reboot_exit_codes.contains(c));
    if let Some(code) = both {
        let reason = format!("{code} is in reboot_exit_codes too; an exit code has one meaning");
        r.fault(&check::OK_EXIT_CODES, reason);
    }
    (reboot_exit_codes, ok_exit_codes)
}

/// The key's own line when it is there and empty, the check's when it is not. A check without a
/// name is not asked for more: it may not have been meant as one.
pub(super) fn required<K>(r: &mut Reader<'_>, key: &Key<K>, table: &Item, reason: &str) {
    if r.given(key) {
        r.fault(key, reason);
    } else if !table.name.is_empty() {
        let reason = reason.replacen("is empty", "is missing", 1);
        r.missing(key, &table.origin, reason);
    }
}
