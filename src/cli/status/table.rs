//! `status` for people.

use std::fmt::Write as _;
use std::time::Duration;

use kube_rebootd_core::kind::Kind;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::text::span;

use super::shape::{Later, Status};

/// Writing to a String does not fail.
pub(super) fn table(status: &Status) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{key:<9} {value}");
    };
    match &status.unit {
        Some(unit) => line("unit", unit),
        None => line("unit", "not known: systemd did not answer"),
    }
    if let Some(version) = &status.version {
        line("version", version);
    }
    if let Some(node) = &status.node {
        line("node", node);
    }
    if let Some(group) = &status.group {
        line("group", group);
    }
    if let Some(sentence) = &status.status {
        line("status", sentence);
    }
    let none = if status.unread {
        "unknown"
    } else {
        "none: nothing is on record on this host"
    };
    line("phase", status.phase.map_or(none, Phase::name));
    if let Some(kind) = status.kind.filter(|kind| kind.soft()) {
        line("kind", kind.name());
    }
    waiting(status, &mut line);
    for reason in &status.reasons {
        let words = match reason.words.as_str() {
            "" => String::new(),
            words => format!(": {words}"),
        };
        let since = reason.since;
        line(
            "reason",
            &format!("{}{words} (since {since:.0})", reason.trigger),
        );
        if !reason.packages.is_empty() {
            line("packages", &reason.packages.join(", "));
        }
    }
    if let Some(hold) = &status.hold {
        line("slot", &format!("{} since {:.0}", hold.lease, hold.since));
        if let Some(why) = &hold.undoing {
            line("undoing", why);
        }
    }
    if let Some(backoff) = status.backoff.as_ref().filter(|it| it.seconds_left > 0) {
        line("back-off", &later(backoff));
    }
    if let Some(why) = &status.kept_cordon {
        line("cordon", &format!("kept for a pause: {why}"));
    }
    history(status, &mut line);
    for problem in &status.problems {
        line("problem", problem);
    }
    text
}

/// What keeps the phase from ending, each on a line of its own.
fn waiting(status: &Status, line: &mut impl FnMut(&str, &str)) {
    for wait in &status.waits {
        line("because", wait);
    }
    for blocked in &status.blockers {
        let budget = blocked.budget.as_ref();
        let budget = budget.map_or_else(String::new, |budget| format!(" (budget {budget})"));
        line(
            "blocked",
            &format!("pod {}: {}{budget}", blocked.pod, blocked.why),
        );
    }
    for holder in &status.holders {
        line("holder", &format!("{} holds {}", holder.node, holder.slot));
    }
}

/// When the next attempt begins.
fn later(backoff: &Later) -> String {
    let Later {
        failures,
        seconds_left,
        why,
    } = backoff;
    let left = span(Duration::from_secs(*seconds_left));
    format!("{left} left after {failures} failed: {why}")
}

/// The reboots that were done, the newest first.
fn history(status: &Status, line: &mut impl FnMut(&str, &str)) {
    for past in &status.history {
        line(
            "rebooted",
            &format!(
                "{:.0}{} for {}{}",
                past.at,
                softly(past.kind),
                past.reasons.join(", "),
                of(&past.packages)
            ),
        );
        if let Some(why) = &past.rolled_back {
            line("missed", &did_not_take(why));
        }
        if let Some(times) = &past.times {
            line("times", &times.words);
        }
    }
}

/// What a reboot did not bring.
pub(in crate::cli) fn did_not_take(why: &str) -> String {
    format!("the update did not take: {why}")
}

/// Of a reboot that was not a full one.
pub(in crate::cli) fn softly(kind: Kind) -> &'static str {
    match kind {
        Kind::Reboot => "",
        Kind::SoftReboot => " by a soft-reboot",
    }
}

/// Packages in brackets.
fn of(packages: &[String]) -> String {
    if packages.is_empty() {
        return String::new();
    }
    format!(" ({})", packages.join(", "))
}
