//! The updater of this host reboots it by itself (FleetLock): when it is told to go on, and how long it is waited for (I2, I3).

use std::ops::ControlFlow::{Break, Continue};
use std::time::Duration;

use jiff::SignedDuration;

use super::context::{Context, Step};
use super::held::{Holding, Needs, cordoned, same_node, undo};
use crate::effect::Effect;
use crate::fleet_lock::{self, SILENT};
use crate::names;
use crate::node::Seen;
use crate::phase::Phase;
use crate::reason::Reason;
use crate::record::{Hold, Why};
use crate::text::span;
use crate::trigger::{Latched, Request};

/// Who can do something about it.
const UPDATER: &str = "the updater of this host";

/// A client of FleetLock reboots the host for this request.
pub(super) fn of_client(context: &Context) -> bool {
    let request = context.facts.record.request.as_ref();
    request.is_some_and(Request::of_client)
}

/// The step with what is shown where the node is drained, and nobody is there to be told to go on. Who asks no more is forgotten.
pub(super) fn asks_once_more(context: &Context, step: Step) -> Step {
    let request = context.facts.record.request.clone();
    let others = request.and_then(|request| request.without(Latched::of_client));
    // What was taken for it ends with it (`held::objection`).
    let hold = context.facts.record.hold.as_ref();
    let began = hold.is_some_and(|hold| hold.askers.contains(fleet_lock::BY));
    let end = if others.is_some() && !began {
        "the host is rebooted without it"
    } else {
        "the drain is undone"
    };
    let waits = format!(
        "{}; after {} without a question {end}",
        once_more(),
        span(SILENT)
    );
    awaits(step, format!("rebooting: drained; {waits}"), waits)
}

/// The step of one that waits for the updater, which has its own time for it.
fn awaits(step: Step, status: String, waits: String) -> Step {
    Step {
        reason: Reason::AwaitsUpdater,
        status,
        waits: Some(waits),
        ..step
    }
}

fn once_more() -> String {
    format!("{UPDATER} must ask once more, which Zincati does every 5 minutes")
}

/// What is waited for until `due`: the clock then, and not how long that still is, as a text that changes with each look would be
/// written to the Node each time.
fn until(context: &Context, told: bool, due: Duration) -> String {
    let left = due.saturating_sub(context.now.boot);
    let left = SignedDuration::try_from(left).unwrap_or(SignedDuration::MAX);
    let by = match context.now.wall.checked_add(left) {
        Ok(at) => at.strftime("%H:%M UTC").to_string(),
        // Longer than any configuration allows.
        Err(_) => "then".to_owned(),
    };
    if told {
        format!(
            "{UPDATER} was told to reboot it; if it has not done so by {by}, the drain is undone"
        )
    } else {
        format!(
            "{}; if it has not rebooted the host by {by}, the drain is undone",
            once_more()
        )
    }
}

/// The fence of a client stands since `hold.asked`, and it has its time. Whether it was told to go on is known only by the process
/// that did so: after another start everything is looked at again when it asks. No later is it waited for than until its time is over,
/// whatever else asks for a reboot.
pub(super) fn granted(context: &Context, hold: &Hold) -> Needs<()> {
    let limit = hold.granted_within(context.policy.granted);
    let due = hold.asked.unwrap_or_default().saturating_add(limit);
    if context.now.boot >= due {
        return Break(stayed(context, hold, limit));
    }
    let told = context.facts.ask_accepted.is_some();
    if !told && context.facts.client.waits {
        return Continue(());
    }
    still_granted(context, hold)?;
    let waits = until(context, told, due);
    let status = if told {
        format!("rebooting: {waits}")
    } else {
        format!("rebooting: drained; {waits}")
    };
    let step = context.wait(Phase::Rebooting, due, "");
    Break(awaits(step, status, waits))
}

/// What a person does ends the hold also while the client has its time: it may ask once more before it reboots. An API server that
/// is away ends nothing.
fn still_granted(context: &Context, hold: &Hold) -> Needs<()> {
    let phase = Phase::Rebooting;
    let answers = context.facts.denied.is_none() && context.facts.listed.is_ok();
    match context.holding(hold) {
        Holding::Lost => return Break(undo(context, hold, Why::Lost)),
        Holding::Ask if answers => {
            let effect = Effect::ReadLease(hold.take.lease.clone());
            return Break(context.step(phase, effect, "asking whether the slot is still held"));
        }
        Holding::Ask | Holding::Yes => {}
    }
    if matches!(context.facts.node, Seen::Unknown) {
        return Continue(());
    }
    let node = same_node(context, hold, phase)?;
    if let Some(why) = node.annotations.get(names::PAUSED) {
        return Break(undo(context, hold, Why::Paused(why.clone())));
    }
    if node.unschedulable {
        return Continue(());
    }
    cordoned(context, hold, phase).map_continue(|_| ())
}

/// The client was told to go on, and the host is still up: other nodes have waited long enough. It may ask again.
fn stayed(context: &Context, hold: &Hold, limit: Duration) -> Step {
    let why = format!(
        "the updater of this host was to reboot it, and has not done so within {}",
        span(limit)
    );
    let mut step = undo(context, hold, Why::Reboot(why));
    let request = step.record.request.take();
    step.record.request = request.and_then(|request| request.without(Latched::of_client));
    step
}
