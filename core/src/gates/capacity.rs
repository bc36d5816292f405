//! Pods of the whole cluster that wait for room on a node.

use std::time::Duration;

use super::{NOT_KNOWN, State, shut, unknown};
use crate::text::span;

/// Whether there are some that have waited for long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Capacity {
    /// The configuration does not care, or the node is cordoned already.
    Ignored,
    /// They are being listed; with the trouble that the last attempt had.
    Asked(Option<String>),
    /// They may not be listed, in words, with the cure.
    Refused(String),
    Listed {
        /// How many have waited for longer than `wait`.
        count: usize,
        /// The one that has waited longest, by namespace and name.
        longest: Option<String>,
        /// `gates.capacity_wait`.
        wait: Duration,
        /// There are more that were not looked at.
        more: bool,
    },
}

pub(super) fn capacity(capacity: &Capacity) -> State {
    let not_known = format!("{NOT_KNOWN} whether pods wait for room on a node");
    match capacity {
        Capacity::Ignored
        | Capacity::Listed {
            longest: None,
            more: false,
            ..
        } => State::Open,
        Capacity::Asked(None) => unknown("asking which pods wait for room on a node"),
        Capacity::Asked(Some(trouble)) => unknown(format!(
            "asking which pods wait for room on a node: {trouble}"
        )),
        Capacity::Refused(why) => unknown(format!("{not_known}: {why}")),
        Capacity::Listed {
            count,
            longest: Some(longest),
            wait,
            more: _,
        } => {
            let others = match count.saturating_sub(1) {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            let wait = span(*wait);
            shut(format!(
                "pods have waited for room on a node for longer than gates.capacity_wait ({wait}): {longest}{others}"
            ))
        }
        Capacity::Listed { longest: None, .. } => unknown(format!(
            "{not_known}: so many pods have none that not all of them were looked at"
        )),
    }
}
