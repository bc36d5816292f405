//! What others say of the own Node: autoscalers by their taints, and whoever reports a condition.

use super::{State, shut, unknown};

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

pub(super) fn autoscaler(taints: &Signs) -> State {
    let removes = "an autoscaler is about to remove this node";
    state(taints, &format!("{removes}: taint"), removes)
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
