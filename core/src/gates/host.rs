//! What the host is doing: block inhibitors and package managers.

use std::time::Duration;

use super::{State, shut, shut_until, unknown};
use crate::inhibitor::Inhibitor;

/// What package managers do. Not all of them inhibit a shutdown, and a reboot in the middle of their hooks leaves a
/// host that does not boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packages {
    Quiet,
    /// In words.
    Work(String),
    /// Who worked until now; it counts as quiet from this boot time on: scripts call it several times.
    Rest(&'static str, Duration),
    /// Why it is not known.
    Unknown(String),
}

/// Inhibitors that are named: a user at the host may take thousands, and `systemd-inhibit --list` shows them all.
const NAMED: usize = 5;

pub(super) fn inhibitors(inhibitors: Option<&[Inhibitor]>) -> State {
    let Some(inhibitors) = inhibitors else {
        return unknown("not known whether something inhibits a shutdown: logind did not say");
    };
    if inhibitors.is_empty() {
        return State::Open;
    }
    let each = |one: &Inhibitor| format!("{} ({})", one.who, one.why);
    let named = inhibitors.iter().take(NAMED).map(each);
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match inhibitors.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shut(format!("shutdown inhibited by {named}{more}"))
}

pub(super) fn packages(packages: &Packages) -> State {
    match packages {
        Packages::Quiet => State::Open,
        Packages::Work(words) => shut(words.clone()),
        Packages::Rest(who, opens) => shut_until(format!("{who} worked a moment ago"), *opens),
        Packages::Unknown(why) => {
            unknown(format!("not known whether a package manager works: {why}"))
        }
    }
}
