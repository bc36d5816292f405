//! What others say of the own Node: autoscalers by their taints, and whoever reports a condition.

use std::time::Duration;

use super::{State, shut, shut_until, unknown};

/// What speaks against a reboot there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Signs {
    /// The Node is not read yet.
    Unknown,
    /// Each in words; none: nothing does.
    Seen(Vec<String>),
}

/// Signs that are named: their number is whatever others wrote.
const NAMED: usize = 3;

/// `until`: when nothing closes it any more, where that is known.
pub(super) fn autoscaler(taints: &Signs, until: Option<Duration>) -> State {
    let removes = "an autoscaler is about to remove this node";
    match (state(taints, &format!("{removes}: taint"), removes), until) {
        (State::Closed { why, .. }, Some(until)) => shut_until(why, until),
        (state, _) => state,
    }
}

pub(super) fn conditions(conditions: &Signs) -> State {
    let speaks = "a condition of the Node speaks against it";
    state(conditions, &format!("{speaks}:"), speaks)
}

fn state(signs: &Signs, subject: &str, asked: &str) -> State {
    match signs {
        Signs::Unknown => unknown(format!(
            "not known whether {asked}: the Node is not read yet"
        )),
        Signs::Seen(signs) if signs.is_empty() => State::Open,
        Signs::Seen(signs) => {
            let named: Vec<&str> = signs.iter().take(NAMED).map(String::as_str).collect();
            let more = match signs.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            shut(format!("{subject} {}{more}", named.join(", ")))
        }
    }
}
