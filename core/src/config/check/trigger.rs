//! One `[[triggers.check]]` (I8: an exit code has one meaning, all others are unknown; I12).

use std::time::Duration;

use super::{ANY, SECOND};
use crate::config::duration::{LONGEST, show as words};
use crate::config::file::{CheckTable, Problem, Raw};
use crate::config::reader::{Reader, expected};
use crate::config::{Check, Preset, is_label_value};

/// A check that starts more often only burns the host's CPU.
const SHORTEST_PERIOD: Duration = Duration::from_secs(10);

/// One `[[triggers.check]]`.
pub(super) fn read(table: &CheckTable, problems: &mut Vec<Problem>, shown: &mut String) -> Check {
    let header = "[[triggers.check]]";
    let mut r = Reader::new("triggers.check", header, &table.keys, problems, shown);
    let name = r.word("name", table.name.clone(), is_label_value, "a label value");
    let preset = preset(&mut r);
    let command = preset.and_then(Preset::command).unwrap_or_default();
    let command = r.command("command", command.iter().map(|w| (*w).to_owned()).collect());
    if command.is_empty() && r.sound(&["command", "preset"]) {
        let reason = "is empty; write it like [\"/usr/local/bin/check\"] or name a preset";
        required(&mut r, "command", table, reason);
    }
    let (reboot_exit_codes, ok_exit_codes) = exit_codes(&mut r, table, preset);
    let period = r.duration("period", 60 * 60 * SECOND, (SHORTEST_PERIOD, LONGEST));
    // Half a short period, so that a check that sets only `period` stays valid.
    let timeout = (5 * 60 * SECOND).min(period / 2);
    let timeout = r.duration("timeout", timeout, (SECOND, LONGEST));
    if timeout >= period && r.sound(&["period", "timeout"]) {
        let (t, p) = (words(timeout), words(period));
        let reason = format!("{t} is not below period ({p}), runs would overlap; write less");
        r.fault("timeout", reason);
    }
    Check {
        name,
        preset,
        command,
        reboot_exit_codes,
        ok_exit_codes,
        period,
        timeout,
        settle: r.duration("settle", 10 * 60 * SECOND, ANY),
    }
}

/// Codes that mean reboot and codes that mean none; none is in both (I8).
fn exit_codes(
    r: &mut Reader<'_>,
    table: &CheckTable,
    preset: Option<Preset>,
) -> (Vec<u8>, Vec<u8>) {
    let from = |codes: fn(Preset) -> &'static [u8]| preset.map_or(Vec::new(), |p| codes(p).into());
    let reboot_exit_codes = codes(r, "reboot_exit_codes", from(Preset::reboot_exit_codes));
    if reboot_exit_codes.is_empty() && r.sound(&["reboot_exit_codes", "preset"]) {
        let reason = "is empty; list the exit codes that mean reboot, or name a preset";
        required(r, "reboot_exit_codes", table, reason);
    }
    let mut ok = match preset {
        Some(preset) => preset.ok_exit_codes().to_vec(),
        None if reboot_exit_codes.contains(&0) => vec![1],
        None => vec![0],
    };
    // What the admin named a reboot code is not ok any more. No other code takes its place: a
    // tool's errors would pass for an answer.
    ok.retain(|code| !reboot_exit_codes.contains(code));
    let ok_exit_codes = codes(r, "ok_exit_codes", ok);
    let both = ok_exit_codes.iter().find(|c| reboot_exit_codes.contains(c));
    if let Some(code) = both {
        let reason = format!("{code} is in reboot_exit_codes too; an exit code has one meaning");
        r.fault("ok_exit_codes", reason);
    }
    (reboot_exit_codes, ok_exit_codes)
}

/// The key's own line when it is there and empty, the check's when it is not. A check without a
/// name is not asked for more: it may not have been meant as one.
fn required(r: &mut Reader<'_>, key: &str, table: &CheckTable, reason: &str) {
    if r.given(key) {
        r.fault(key, reason);
    } else if !table.name.is_empty() {
        r.missing(
            key,
            &table.origin,
            &reason.replacen("is empty", "is missing", 1),
        );
    }
}

/// `""` is none.
fn preset(r: &mut Reader<'_>) -> Option<Preset> {
    let mut all: Vec<(&str, Option<Preset>)> = vec![("", None)];
    all.extend(
        Preset::WORDS
            .iter()
            .map(|(word, preset)| (*word, Some(*preset))),
    );
    r.choice("preset", None, &all)
}

/// Exit codes, 0 to 255 (wait(2) keeps 8 bits).
fn codes(r: &mut Reader<'_>, key: &str, default: Vec<u8>) -> Vec<u8> {
    let code = |raw: &Raw| match raw {
        Raw::Number(n) => {
            u8::try_from(*n).map_err(|_| format!("{n} is no exit code; write 0 to 255"))
        }
        other => Err(expected(other, "exit codes of 0 to 255")),
    };
    r.list(key, default, code, u8::to_string)
}
