//! What `kubectl describe node` tells of a node's way: an Event where the reason of `RebootRequired` becomes another.

use super::{Condition, Kind, Reason, Status};
use crate::notice::Topic;

/// An Event about the own Node.
///
/// It has fixed words. Whoever may look into the namespace `default` reads it, and the condition's message names pods of other
/// namespaces, packages, and what people and programs wrote (I14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    pub reason: Reason,
    /// What it ends, for people; empty: nothing.
    pub ends: &'static str,
}

impl Event {
    /// What to tell once a Node that shows `shown` is to show `wanted`. A daemon that comes to a node which needs no reboot is
    /// no event.
    pub(crate) fn of(wanted: &[Condition], shown: &[Condition]) -> Option<Self> {
        let (wanted, before) = (reason(wanted)?, reason(shown));
        let same = before.unwrap_or(Reason::Idle) == wanted;
        (!same).then(|| Self {
            reason: wanted,
            ends: before.map_or("", |before| ends(before, wanted)),
        })
    }

    /// For people.
    pub fn message(&self) -> String {
        format!("{}{}", self.ends, self.reason.words())
    }

    /// Of type Warning: somebody has to look at it, or an attempt failed.
    pub fn warning(&self) -> bool {
        self.reason.needs_person() || self.reason == Reason::BackingOff
    }
}

/// What is told to others than the cluster at the same moment. A node that somebody keeps drained needs no reboot, and its
/// way is told only where a person has to look.
pub(crate) fn topic(wanted: &[Condition], shown: &[Condition]) -> Option<Topic> {
    let required = |all: &[Condition]| {
        let one = all.iter().find(|one| one.kind == Kind::RebootRequired);
        one.is_some_and(|one| one.status == Status::True)
    };
    let topic = Topic::of(reason(shown), reason(wanted)?)?;
    let told = match topic {
        Topic::Person => true,
        Topic::Rebooted => required(shown),
        Topic::Required | Topic::Draining | Topic::Rebooting | Topic::Failed => required(wanted),
    };
    told.then_some(topic)
}

fn reason(all: &[Condition]) -> Option<Reason> {
    let one = all.iter().find(|one| one.kind == Kind::RebootRequired)?;
    Reason::of_name(&one.reason)
}

/// Only what is certain: what came between may not have been told, so that a drain that ended may have ended in a reboot.
fn ends(before: Reason, now: Reason) -> &'static str {
    match before {
        _ if now.of_a_hold() => "",
        Reason::Verifying | Reason::Unhealthy | Reason::Releasing => "the host has rebooted; ",
        Reason::Undoing => "the attempt was given up; ",
        _ => "",
    }
}
