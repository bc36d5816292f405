//! What the Node's conditions are to say while a step is what the node does (docs/design.md 11). `tell` says when that is written.

use std::time::Duration;

use jiff::Timestamp;

use crate::condition::{Condition, Kind, OURS, Status};
use crate::decide::{Policy, Step};
use crate::facts::Facts;
use crate::gates::Gate;
use crate::kind;
use crate::phase::Phase;
use crate::reason::Reason;
use crate::record::{Hold, Stage};
use crate::text::{MESSAGE, clean, span};
use crate::trigger::Request;
use crate::waits;

#[cfg(test)]
mod tests;

/// What the Node, which shows `shown`, is to show once this step is what the node does. What needs no word is not named.
pub(super) fn wanted(
    step: &Step,
    facts: &Facts,
    policy: &Policy,
    shown: &[Condition],
    wall: Timestamp,
) -> Vec<Condition> {
    let there = |kind| shown.iter().find(|one: &&Condition| one.kind == kind);
    let required = required(step, facts, policy);
    let message = required.message.clone();
    let maintained = Kind::ALL.into_iter().filter_map(|kind| {
        let status = maintained(kind, step, policy)?;
        let shown = there(kind);
        let ours = shown.is_some_and(|shown| shown.reason == OURS);
        let needed = match status {
            Status::True => ours || shown.is_none_or(|shown| shown.status != Status::True),
            Status::False | Status::Unknown => ours,
        };
        needed.then(|| Condition {
            kind,
            status,
            reason: OURS.to_owned(),
            message: match status {
                Status::True => message.clone(),
                Status::False | Status::Unknown => String::new(),
            },
            since: None,
        })
    });
    let since = |one: Condition| {
        let same = there(one.kind).filter(|shown| shown.status == one.status);
        let since = same.and_then(|shown| shown.since).or(Some(wall));
        Condition { since, ..one }
    };
    std::iter::once(required)
        .chain(maintained)
        .map(since)
        .collect()
}

/// `RebootRequired`: not so only where nothing asks for one and nothing is held for one.
fn required(step: &Step, facts: &Facts, policy: &Policy) -> Condition {
    let request = step.record.request.as_ref();
    let status = match step.reason {
        // Somebody wants the node drained, and nothing else.
        _ if request.is_some_and(|request| !request.reboots()) => Status::False,
        Reason::Idle => Status::False,
        // What cannot be asked is no no (I8).
        Reason::TriggerUnknown => Status::Unknown,
        _ => Status::True,
    };
    Condition {
        kind: Kind::RebootRequired,
        status,
        reason: step.reason.name().to_owned(),
        message: with_error(&message(step, facts, policy), facts),
        since: None,
    }
}

/// The message, and behind it, never cut off, that the configuration files are not in use: the reason stays that of the phase.
fn with_error(message: &str, facts: &Facts) -> String {
    let Some(error) = waits::config_error(facts) else {
        return clean(message, MESSAGE);
    };
    let error = clean(&error, MESSAGE / 2);
    let room = MESSAGE - error.chars().count() - SEPARATOR.len();
    format!("{}{SEPARATOR}{error}", clean(message, room))
}

/// What STATUS says, without countdowns, and what asks for the reboot. A thousand nodes that wait do not all write when a slot
/// changes hands, a Node is ready again, or a script calls its package manager once more: who waits names no node, and no
/// process.
fn message(step: &Step, facts: &Facts, policy: &Policy) -> String {
    let words = match step.phase {
        Phase::Idle | Phase::Drained => return step.status.clone(),
        Phase::Queued => {
            let head = format!("waiting for a slot of the group {}", policy.group);
            match step.reason {
                Reason::NoSlot | Reason::SlotsUnknown | Reason::NotRegistered => {
                    because(&head, &waits::waits(step, facts, policy))
                }
                Reason::TooFewAvailable => {
                    format!("{head}: too few nodes are available, or it is not known how many are")
                }
                _ => head,
            }
        }
        Phase::Pending if step.reason == Reason::Observing => {
            "observing: a reboot is required, and nothing is begun".to_owned()
        }
        Phase::Pending if soft(step) => because("soft-reboot pending", &gates(step, facts, policy)),
        Phase::Pending => because("reboot pending", &gates(step, facts, policy)),
        Phase::Claiming => {
            let hooks: Vec<String> = step.waits.iter().cloned().collect();
            because("taking a slot", &hooks)
        }
        Phase::Draining => {
            let blocked = waits::blockers(facts).iter();
            let blocked = blocked.map(|one| match &one.budget {
                Some(budget) => format!("pod {} is blocked by budget {budget}", one.pod.path()),
                None => format!("pod {} {}", one.pod.path(), one.why),
            });
            let mut all = gates(step, facts, policy);
            all.extend(blocked.take(BLOCKERS));
            because("draining", &all)
        }
        Phase::Rebooting => match &step.waits {
            Some(waits) if step.reason == Reason::AwaitsUpdater => {
                because("drained", std::slice::from_ref(waits))
            }
            // What else is waited for is a matter of seconds. Nothing is written between the last reads and the reboot (I2).
            _ if of_client(step) => format!(
                "drained: the updater of this host is told to reboot it; if it has not done so within {}, the drain is undone",
                span(within(step, policy))
            ),
            _ if soft(step) => "about to soft-reboot".to_owned(),
            _ => "about to reboot".to_owned(),
        },
        Phase::Verifying => {
            let late = step.reason == Reason::Unhealthy;
            let hold = step.record.hold.as_ref();
            let maintained = hold.is_some_and(|hold| hold.maintained(&facts.boot));
            let softly =
                hold.is_some_and(|hold| kind::Kind::between(&hold.boot, &facts.boot).soft());
            let head = match (late, maintained) {
                (true, false) => "not healthy within health.timeout after the reboot",
                (true, true) => "not healthy within health.timeout after maintenance",
                (false, false) if softly => "soft-rebooted, not proved healthy yet",
                (false, false) => "rebooted, not proved healthy yet",
                (false, true) => "maintenance is over, not proved healthy yet",
            };
            because(head, &waits::waits(step, facts, policy))
        }
        Phase::Releasing => {
            let denied = facts.denied.iter().chain(&step.waits);
            let denied: Vec<String> = denied.cloned().collect();
            because("healthy after the reboot, giving the slot up", &denied)
        }
        Phase::Undoing => {
            let why = match step.record.hold.as_ref().map(|hold| &hold.stage) {
                Some(Stage::Undoing(why)) => Some(why.words()),
                _ => None,
            };
            let why: Vec<String> = (why.into_iter().chain(facts.denied.clone()))
                .chain(step.waits.clone())
                .collect();
            because("undoing", &why)
        }
    };
    match waits::reasons(step) {
        Some(reasons) => format!("{words}; asked for by {reasons}"),
        None => words,
    }
}

/// How long a client of FleetLock may take, as it was told.
fn within(step: &Step, policy: &Policy) -> Duration {
    let hold = step.record.hold.as_ref();
    hold.map_or(policy.granted, |hold| hold.granted_within(policy.granted))
}

/// A soft-reboot is asked for, or was.
fn soft(step: &Step) -> bool {
    step.record.kind().is_some_and(kind::Kind::soft)
}

/// A client of FleetLock reboots the host.
fn of_client(step: &Step) -> bool {
    let request = step.record.request.as_ref();
    request.is_some_and(Request::of_client)
}

/// What it waits for, without the numbers of processes, which change with each call of a script.
fn gates(step: &Step, facts: &Facts, policy: &Policy) -> Vec<String> {
    if step.waits.is_some() {
        return waits::waits(step, facts, policy);
    }
    let words = facts.closed.iter().map(|closed| match closed.gate {
        Gate::PackageManager => "a package manager works".to_owned(),
        _ => closed.why.steady().to_owned(),
    });
    words.collect()
}

/// Pods that the message of a drain names: it is read in one line of a table.
const BLOCKERS: usize = 3;
const SEPARATOR: &str = "; ";

fn because(head: &str, why: &[String]) -> String {
    if why.is_empty() {
        return head.to_owned();
    }
    format!("{head}: {}", why.join("; "))
}

/// One of the four of Kubernetes; none: not one of them.
fn maintained(kind: Kind, step: &Step, policy: &Policy) -> Option<Status> {
    // What is not certain is no yes (I8): where the drain may leave pods behind, nobody is told that it did not.
    let drained = |hold: &Hold| {
        let evicts = policy.drain.evicts(hold.alone) && !policy.leaves_pods;
        matches!(hold.stage, Stage::Drained | Stage::Rebooting) && evicts
    };
    let waits = step.record.waiting.is_some();
    let is = match (kind, step.phase) {
        (Kind::RebootRequired, _) => return None,
        // It keeps its place in the queue while a gate closes and opens.
        (Kind::MaintenancePlanned, Phase::Pending) => waits,
        // Before any cordon, as who moves data away needs the time.
        (Kind::MaintenancePlanned, Phase::Queued | Phase::Claiming | Phase::Draining)
        | (Kind::DrainInProgress, Phase::Draining)
        | (Kind::MaintenanceInProgress, Phase::Drained | Phase::Rebooting | Phase::Verifying) => {
            true
        }
        // Pods may come again once the cordon is taken off.
        (Kind::Drained, Phase::Drained | Phase::Rebooting | Phase::Verifying) => {
            step.record.hold.as_ref().is_some_and(drained)
        }
        _ => false,
    };
    Some(if is { Status::True } else { Status::False })
}
