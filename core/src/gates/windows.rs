//! The configured windows, and whether what lies ahead still fits into the one that is open.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{State, shut, shut_until};
use crate::history::Past;
use crate::kind::Kind;
use crate::now::Now;
use crate::text::span;
use crate::windows::{Close, Run, Window, Windows};

/// What this gate looks at.
#[derive(Debug, Clone)]
pub(crate) struct WindowFacts<'a> {
    pub windows: &'a Windows,
    pub expected: Expected,
    /// When the slot was taken, once the node is cordoned for the drain.
    pub begun: Option<Timestamp>,
    /// A person wants the reboot now.
    pub urgent: bool,
}

/// How long what lies ahead takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// From the take of the slot until logind is asked.
    pub drain: Duration,
    /// From then until the node is proved healthy.
    pub boot: Duration,
}

/// What becomes of a drain that outlasts its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ClosePolicy {
    pub close: Close,
    pub overrun: Duration,
}

impl Expected {
    /// The longest that it took here, by `history`; what is not known there takes as long as it `may`, and nothing longer: a host
    /// that was off over a weekend once would close every window for good. `rest`: what the drain waits for by configuration alone,
    /// which may be newer than the history. How long a full boot takes no soft-reboot tells.
    pub(crate) fn of(history: &[Past], kind: Kind, may: Self, rest: Duration) -> Self {
        let drained = history.iter().filter_map(Past::drained_in).max();
        let back = history.iter().filter(|past| past.kind >= kind);
        let back = back.filter_map(Past::back_in).max();
        Self {
            drain: drained.map_or(may.drain, |took| {
                Duration::from_secs(took).max(rest).min(may.drain)
            }),
            boot: back.map_or(may.boot, |took| Duration::from_secs(took).min(may.boot)),
        }
    }
}

#[cfg(test)]
impl WindowFacts<'static> {
    /// Without any window.
    pub(crate) fn any_time() -> Self {
        static NONE: Windows = Windows {
            each: Vec::new(),
            excluded: Vec::new(),
        };
        Self {
            windows: &NONE,
            expected: Expected {
                drain: Duration::ZERO,
                boot: Duration::ZERO,
            },
            begun: None,
            urgent: false,
        }
    }
}

pub(super) fn windows(facts: &WindowFacts, policy: ClosePolicy, now: Now) -> State {
    if facts.windows.none() || facts.urgent {
        return State::Open;
    }
    match (facts.begun, policy.close) {
        (None, _) => begins(
            facts,
            facts.expected.drain + facts.expected.boot,
            "drain and boot",
            now,
        ),
        (Some(_), Close::Undo) => begins(facts, facts.expected.boot, "the boot", now),
        (Some(taken), Close::Finish) => finishes(facts.windows, taken, policy.overrun, now),
    }
}

/// `what` lies ahead and takes as long as `need`.
fn begins(facts: &WindowFacts, need: Duration, what: &str, now: Now) -> State {
    let windows = facts.windows;
    let open = windows.open(now.wall);
    let next = windows.next(now.wall, need);
    let why = match (&open, &next) {
        (_, Some(next)) if next.from <= now.wall => return State::Open,
        (Some(open), _) => {
            let (name, closes) = (&open.last.name, shown(open.until, open.last));
            let need = span(need);
            format!("window {name:?} closes {closes}, and {what} may take {need}")
        }
        (None, _) => "outside of the windows".to_owned(),
    };
    let Some(Run { from, first, .. }) = next else {
        if windows.shut_for_long(now.wall) {
            return shut(format!(
                "{why}; no window opens within two years, as gates.exclude_dates leaves out all of them"
            ));
        }
        let need = span(need);
        return shut(format!(
            "{why}; no window is long enough for the {need} that {what} may take"
        ));
    };
    let opens = shown(from, first);
    let why = format!("{why}; {:?} opens {opens}", first.name);
    shut_until(why, now.boot.saturating_add(between(now.wall, from)))
}

/// A drain that began in a window is finished, a little late if need be.
fn finishes(windows: &Windows, taken: Timestamp, overrun: Duration, now: Now) -> State {
    if windows.open(now.wall).is_some() {
        return State::Open;
    }
    let begun = windows.open(taken);
    let closed = begun.as_ref().map_or(taken, |run| run.until);
    let late = SignedDuration::try_from(overrun).unwrap_or(SignedDuration::MAX);
    // Unrepresentably far is for ever.
    let limit = closed.checked_add(late).unwrap_or(Timestamp::MAX);
    // A clock that was set back opens nothing (I8).
    if taken <= now.wall && now.wall < limit {
        return State::Open;
    }
    let overrun = span(overrun);
    shut(match begun {
        Some(Run { until, last, .. }) => {
            let closed = shown(until, last);
            let name = &last.name;
            format!("window {name:?} closed {closed}, and gates.window_overrun ({overrun}) is over")
        }
        None => format!("outside of the windows for longer than gates.window_overrun ({overrun})"),
    })
}

/// By the clock of the window's zone.
fn shown(at: Timestamp, window: &Window) -> String {
    let at = at.to_zoned(window.zone.clone());
    at.strftime("%a %Y-%m-%d %H:%M %Z").to_string()
}

fn between(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
