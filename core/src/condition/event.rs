//! What `kubectl describe node` tells of a node's way: an Event where the reason of `RebootRequired` becomes another.

use super::{Condition, Kind, Reason};

/// An Event about the own Node, in the words of its condition: both say the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub reason: String,
    /// For people.
    pub message: String,
    /// Of type Warning: somebody has to look at it, or an attempt failed.
    pub warning: bool,
}

impl Event {
    /// What to tell once a Node that shows `shown` is to show `wanted`. A daemon that comes to a node which needs no reboot is
    /// no event.
    pub(crate) fn of(wanted: &[Condition], shown: &[Condition]) -> Option<Self> {
        let ours = |all: &[Condition]| {
            let one = all.iter().find(|one| one.kind == Kind::RebootRequired);
            one.cloned()
        };
        let (wanted, shown) = (ours(wanted)?, ours(shown));
        let same = match &shown {
            Some(shown) => shown.reason == wanted.reason,
            None => wanted.reason == Reason::Idle.name(),
        };
        let reason = Reason::of_name(&wanted.reason);
        (!same).then(|| Self {
            warning: reason.is_some_and(Reason::warns),
            reason: wanted.reason,
            message: wanted.message,
        })
    }
}
