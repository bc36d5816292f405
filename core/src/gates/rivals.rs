//! Other daemons that reboot hosts, at work on this node.

use super::{State, shut, unknown};
use crate::rivals::Sign;

/// Which of them are seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rivals {
    /// The configuration does not care, or the node is cordoned already.
    Ignored,
    Seen {
        signs: Vec<Sign>,
        /// What could not be looked at, in words.
        unknown: Option<&'static str>,
    },
}

pub(super) fn rivals(rivals: &Rivals) -> State {
    let Rivals::Seen {
        signs,
        unknown: what,
    } = rivals
    else {
        return State::Open;
    };
    match (signs.as_slice(), what) {
        ([first, others @ ..], _) => {
            let more = match others.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let Sign { what, cure } = first;
            shut(format!(
                "{what}{more} may reboot this host, too, and does not see the slots: {cure}; \
                 with gates.other_reboot_daemons = \"ignore\" both work"
            ))
        }
        ([], Some(what)) => unknown(format!(
            "not known whether another daemon reboots this host: {what}"
        )),
        ([], None) => State::Open,
    }
}
