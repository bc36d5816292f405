//! What is told of a node's way where the reason of `RebootRequired` becomes another one: an Event, for `kubectl describe node`,
//! and what a notice is about (`notice`).
//!
//! What a Node shows outlives the daemon: a restart repeats nothing, and what comes and goes is told no more often than the
//! Node is.

use super::{Condition, Kind, Status};
use crate::reason::Reason;
use crate::topic::Topic;

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

    /// Of type Warning: somebody has to look at it, an attempt failed, or a budget was not kept.
    pub fn warning(&self) -> bool {
        let told = matches!(self.reason, Reason::BackingOff | Reason::PodDeleted);
        told || self.reason.needs_person()
    }
}

/// What is told to others than the cluster at the same moment. A node that somebody keeps drained needs no reboot, and its
/// way is told only where a person has to look.
pub(crate) fn topic(wanted: &[Condition], shown: &[Condition]) -> Option<Topic> {
    let required = |all: &[Condition]| {
        let one = all.iter().find(|one| one.kind == Kind::RebootRequired);
        one.is_some_and(|one| one.status == Status::True)
    };
    let topic = told(reason(shown), reason(wanted)?)?;
    let told = match topic {
        Topic::Person => true,
        Topic::Rebooted => required(shown),
        Topic::Required | Topic::Draining | Topic::Rebooting | Topic::Failed => required(wanted),
    };
    told.then_some(topic)
}

/// What to tell where a node's reason was `before`, as far as it showed one, and is `now`. Only what is certain: a reboot
/// that was about to begin may have been given up.
fn told(before: Option<Reason>, now: Reason) -> Option<Topic> {
    let before = before.unwrap_or(Reason::Idle);
    let topic = moment(now);
    if now.needs_person() {
        return topic.filter(|_| before != now);
    }
    // What comes after the proof may be there before the proof was told.
    if matches!(before, Reason::Verifying | Reason::Unhealthy) && !now.of_a_hold() {
        return Some(Topic::Rebooted);
    }
    // That a node goes on waiting, or draining, is no news.
    topic.filter(|_| topic != moment(before))
}

/// What a node with this reason is in the middle of.
fn moment(reason: Reason) -> Option<Topic> {
    match reason {
        _ if reason.needs_person() => Some(Topic::Person),
        Reason::Idle
        | Reason::Maintenance
        | Reason::ShuttingDown
        | Reason::Undoing
        | Reason::Verifying => None,
        Reason::Draining | Reason::Claiming | Reason::BlockedByBudget | Reason::PodDeleted => {
            Some(Topic::Draining)
        }
        Reason::Rebooting => Some(Topic::Rebooting),
        Reason::Releasing => Some(Topic::Rebooted),
        Reason::BackingOff => Some(Topic::Failed),
        _ => Some(Topic::Required),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told on the way through these reasons, each shown by the Node in turn.
    fn along(reasons: &[Reason]) -> Vec<&'static str> {
        let mut before = None;
        let mut all = Vec::new();
        for reason in reasons {
            all.extend(told(before, *reason).map(Topic::name));
            before = Some(*reason);
        }
        all
    }

    #[test]
    fn each_moment_is_told_once() {
        use Reason::{
            BackingOff, BlockedByBudget, Claiming, Draining, Failing, Idle, LimitReached, Paused,
            Pending, Queued, Rebooting, Releasing, TriggerUnknown, Undoing, Unhealthy, Verifying,
        };
        for (reasons, expected) in [
            (&[Idle][..], &[][..]),
            (
                &[
                    Idle,
                    Pending,
                    Paused,
                    Queued,
                    Claiming,
                    Draining,
                    BlockedByBudget,
                    Draining,
                ],
                &["required", "draining"],
            ),
            (
                &[Draining, Rebooting, Verifying, Releasing, Idle],
                &["draining", "rebooting", "rebooted"],
            ),
            // The end of it was not seen on the Node.
            (&[Rebooting, Verifying, Idle], &["rebooting", "rebooted"]),
            (&[Verifying, Unhealthy, Queued], &["person", "rebooted"]),
            (
                &[Verifying, Unhealthy, Verifying, Releasing],
                &["person", "rebooted"],
            ),
            (&[Rebooting, Idle], &["rebooting"]),
            (
                &[Draining, Undoing, BackingOff, Queued],
                &["draining", "failed", "required"],
            ),
            // Each thing that a person has to look at is another one.
            (
                &[BackingOff, Failing, LimitReached],
                &["failed", "person", "person"],
            ),
            (&[Idle, TriggerUnknown, Idle], &["person"]),
        ] {
            assert_eq!(along(reasons), expected, "{reasons:?}");
        }
    }

    /// Whatever a daemon finds on its Node at a start is not told again.
    #[test]
    fn a_restart_repeats_nothing() {
        for reason in Reason::ALL {
            assert_eq!(
                told(Some(reason), reason).filter(|topic| *topic != Topic::Rebooted),
                None,
                "{reason:?}"
            );
        }
    }
}
