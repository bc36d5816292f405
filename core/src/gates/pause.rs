//! Nobody may: a pause of the node or of its group.

use super::{State, shut, unknown};

/// An annotation `kube-rebootd/paused`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Not read yet.
    Unknown,
    None,
    Paused(String),
}

pub(super) fn pause(subject: &str, pause: &Pause) -> State {
    match pause {
        Pause::None => State::Open,
        Pause::Unknown => unknown(format!("not known whether the {subject} is paused")),
        Pause::Paused(why) if why.is_empty() => shut(format!("{subject} paused")),
        Pause::Paused(why) => shut(format!("{subject} paused: {why}")),
    }
}
