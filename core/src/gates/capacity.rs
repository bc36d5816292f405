//! Pods of the whole cluster that wait for room on a node.

use std::time::Duration;

use super::{State, Words, shut, unknown};
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
    let asking = "asking which pods wait for room on a node";
    let not_known = |why: &str| {
        let what = "whether pods wait for room on a node";
        unknown(Words::not_known(what, why))
    };
    match capacity {
        Capacity::Ignored
        | Capacity::Listed {
            longest: None,
            more: false,
            ..
        } => State::Open,
        Capacity::Asked(None) => unknown(asking),
        Capacity::Asked(Some(trouble)) => unknown(Words::said(asking, trouble)),
        Capacity::Refused(why) => not_known(why),
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
            let who = format!(
                "pods have waited for room on a node for longer than gates.capacity_wait ({wait})"
            );
            shut(Words::said(who, &format!("{longest}{others}")))
        }
        Capacity::Listed { longest: None, .. } => {
            not_known("so many pods have none that not all of them were looked at")
        }
    }
}
