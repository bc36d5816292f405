//! Rebooting: the last look, the fence, then logind (I2, I8). Nothing is undone while logind shuts down.
//!
//! What proves the holder is no age of a read: all is read together, then one conditional write on the own Lease says
//! that this node goes down, and only the host itself is looked at between its answer and logind.

use std::ops::ControlFlow::{Break, Continue};
use std::time::Duration;

use super::context::{Context, Step};
use super::held::{Needs, advance, apply, cordoned, in_time, still_ours, undo, unopposed};
use super::updater::{asks_once_more, granted, of_client};
use crate::effect::Effect;
use crate::facts::Facts;
use crate::kind::Kind;
use crate::node::Node;
use crate::phase::Phase;
use crate::record::{Hold, Stage, Why};
use crate::shutdown::Scheduled;
use crate::slot::Fence;

/// logind is asked this often before the attempt counts as failed.
const ASKS: u32 = 3;
/// After a refusal the next ask waits this long: what refuses (another operation, an inhibitor taken
/// in this second) is rarely gone sooner.
const REFUSED_AGAIN: Duration = Duration::from_secs(10);
/// Between looks at heartbeats, which come every 10 s.
const BEAT: Duration = Duration::from_secs(2);
/// A restarted daemon does not know whether its predecessor's call reached logind: by then logind
/// would say that it prepares.
const UNSURE: Duration = Duration::from_secs(10);

pub(super) fn decide(context: &Context, hold: &Hold) -> Step {
    let armed = armed(context.facts, hold);
    let step = match ready(context, hold, armed) {
        // Who is told must be on record (I6): what asks for the reboot has changed since the fence was chosen.
        Continue(Fenced::Yes) if other(context, hold) => fence(context, hold, false),
        Continue(Fenced::Yes) => {
            let words = match (hold.granted, hold.kind) {
                (true, _) => "rebooting: telling the updater of this host to go on",
                (false, Kind::Reboot) => "rebooting: asking logind",
                (false, Kind::SoftReboot) => "rebooting: asking logind for a soft-reboot",
            };
            context.step(Phase::Rebooting, Effect::AskReboot, words)
        }
        Continue(Fenced::No) => fence(context, hold, armed),
        Break(step) => step,
    };
    let theirs = hold.granted && !armed && context.facts.ask_accepted.is_some();
    match step.effect {
        // For logind's next call, or for the shutdown: that has times of its own.
        Effect::Wait => step,
        // What is read meanwhile is read for nothing that has to come to an end.
        _ if theirs => step,
        _ => in_time(context, hold, step),
    }
}

/// Another is to be asked than is on record, or for another kind of reboot.
fn other(context: &Context, hold: &Hold) -> bool {
    hold.granted != of_client(context) || hold.kind != context.facts.kind()
}

/// Whether the fence stands, and nothing was read after it.
enum Fenced {
    Yes,
    No,
}

/// All that a reboot rests on is there.
fn ready(context: &Context, hold: &Hold, armed: bool) -> Needs<Fenced> {
    let phase = Phase::Rebooting;
    let again = asked_before(context, hold, armed)?;
    // Neither is logind asked again for what nobody wants any more.
    if context.facts.observed.request.is_none() {
        return Break(undo(context, hold, Why::Withdrawn));
    }
    still_ours(context, hold, phase)?;
    context.node(phase)?;
    // Before anything is told to anybody, and again after the fence; one from before the last reads is none.
    let fenced = context
        .facts
        .fenced
        .filter(|_| armed)
        .and_then(|fence| fence.at);
    let fenced = fenced.filter(|done| context.facts.confirmed <= Some(*done));
    let absent = of_client(context) && !armed && !context.facts.client.waits;
    if !context.fresh(context.facts.host_read) || context.facts.host_read < fenced {
        let step = context.step(phase, Effect::ReadHost, "rebooting: checking the gates");
        // It is waited for all the while, and that is what is shown.
        return Break(if absent {
            asks_once_more(context, step)
        } else {
            step
        });
    }
    unopposed(context, hold, |_| true)?;
    let node = cordoned(context, hold, phase)?;
    if context.facts.record.keeps() {
        return Break(drain_on(
            context,
            hold,
            node,
            "draining: somebody wants the node drained",
        ));
    }
    // What follows is for its next question: what is read now would be old by then.
    if absent {
        return Break(asks_once_more(context, context.stay(phase, "")));
    }
    // Before each further ask they are asked anew.
    if !context.facts.asked_since(again) {
        let step = context.answers(phase, "rebooting");
        return Break(in_time(context, hold, step));
    }
    confirmed(context, hold, node, armed)?;
    if fenced.is_some() {
        return Continue(Fenced::Yes);
    }
    if node.quorum() {
        alive(context, hold)?;
    }
    Continue(Fenced::No)
}

/// Nothing that was asked for before is still waited for. When it is asked for again, if it was asked for at all.
fn asked_before(context: &Context, hold: &Hold, armed: bool) -> Needs<Option<Duration>> {
    let phase = Phase::Rebooting;
    if context.facts.shutting_down {
        return Break(context.stay(phase, "rebooting: accepted by logind"));
    }
    if !armed && let Some(scheduled) = on_its_way(context, hold) {
        let status = format!("rebooting: waiting for {}", scheduled.words());
        return Break(context.stay(phase, status));
    }
    let client = of_client(context);
    // It was told to go on, and has said since that it does not.
    let called_off = hold.granted && !client;
    if hold.granted && !armed && !called_off {
        granted(context, hold)?;
    }
    let again = next_ask(context.facts, context.policy.reboot_timeout, hold);
    let again = again.filter(|_| !armed && !called_off);
    if let Some(due) = again
        && context.now.boot < due
    {
        let status = match &context.facts.ask {
            Some(no) => format!("rebooting: refused, asked again soon: {}", no.why),
            None => "rebooting: waiting for the shutdown to begin".to_owned(),
        };
        return Break(context.wait(phase, due, status));
    }
    if hold.asks >= ASKS && !armed {
        let why = match &context.facts.ask {
            Some(no) => no.why.clone(),
            None if hold.granted => {
                format!("the updater of this host was told to go on {ASKS} times")
            }
            None => format!("asked {ASKS} times, no shutdown within reboot.timeout"),
        };
        return Break(undo(context, hold, Why::Reboot(why)));
    }
    Continue(again)
}

/// The shutdown that an earlier ask scheduled, as a `reboot.command` of `shutdown -r +1` does, or one that comes as soon:
/// whoever undid the hold now would go down without a slot (I1). logind keeps it over a restart of this daemon.
fn on_its_way<'a>(context: &Context<'a>, hold: &Hold) -> Option<&'a Scheduled> {
    let scheduled = context.facts.scheduled.as_ref().filter(|_| hold.asked())?;
    scheduled
        .near(context.now.wall, context.policy.reboot_timeout)
        .then_some(scheduled)
}

/// This process has written ahead that it asks logind, and has not asked yet.
pub(crate) fn armed(facts: &Facts, hold: &Hold) -> bool {
    let fenced = facts.fenced.as_ref();
    fenced.is_some_and(|it| (it.hold, it.asks) == (hold.take.acquire_time, hold.asks))
}

/// All that the reboot rests on in the cluster was read together, since logind was asked last, and speaks for it;
/// else the step that reads it, or the undoing.
fn confirmed(context: &Context, hold: &Hold, node: &Node, armed: bool) -> Needs<()> {
    let phase = Phase::Rebooting;
    let last = hold.asked.filter(|_| !armed);
    // One that a list of a drain came after is from before that drain.
    let drained = context.facts.last_list.as_ref().map(|list| list.asked);
    let holds = |read: Duration| context.recent(read) && Some(read) >= last.max(drained);
    if !context.facts.confirmed.is_some_and(holds) {
        let effect = confirm(hold, node.quorum());
        let status = "rebooting: confirming slot, cordon and pods";
        return Break(context.step(phase, effect, status));
    }
    // Taken as a worker, it may have been passed by another of the quorum that saw no role on it (I13).
    if node.quorum() && !hold.take.control_plane {
        let why = "this node became one of the control plane after it had taken the slot";
        return Break(undo(context, hold, Why::Quorum(why.to_owned())));
    }
    // Who is only labelled has seen this node's label and goes back; who is not Ready does not (I13).
    let others = context.facts.peers.as_ref();
    let unknown = "it is not known which are Ready".to_owned();
    let not_ready = || match others.filter(|peers| Some(peers.asked) >= context.facts.confirmed) {
        Some(peers) => peers.not_ready(),
        None => Some(unknown),
    };
    if node.quorum()
        && let Some(who) = not_ready()
    {
        return Break(undo(context, hold, Why::Quorum(who)));
    }
    if context
        .facts
        .last_list
        .as_ref()
        .is_none_or(|list| !list.clean)
    {
        let words = "draining: a pod that must leave is there";
        return Break(drain_on(context, hold, node, words));
    }
    Continue(())
}

/// Every other node of the quorum was alive a moment ago, or the wait for its next heartbeat: one that has just lost its
/// power is still Ready (I13). That which never comes ends the stage, or makes the Node not Ready.
fn alive(context: &Context, hold: &Hold) -> Needs<()> {
    let unseen = context.facts.beats.unseen(context.now.boot);
    if unseen.is_empty() {
        return Continue(());
    }
    let phase = Phase::Rebooting;
    let waits = format!(
        "waiting for the next heartbeat of control-plane nodes: {}",
        unseen.join(", ")
    );
    let status = format!("rebooting: {waits}");
    let due = context
        .facts
        .confirmed
        .map(|read| read.saturating_add(BEAT));
    let step = match due.filter(|due| context.now.boot < *due) {
        Some(due) => context.wait(phase, due, status),
        None => context.step(phase, confirm(hold, true), status),
    };
    Break(Step {
        waits: Some(waits),
        ..step
    })
}

fn confirm(hold: &Hold, quorum: bool) -> Effect {
    Effect::Confirm {
        lease: hold.take.lease.clone(),
        quorum,
    }
}

/// The drain goes on: somebody wants to keep the node drained, or a pod must leave: one came after the drain, or this process has not seen yet that an earlier one left it behind on
/// purpose. The drain goes on, on the time that it has left; not once logind may have been asked, as the host may be on its
/// way down then.
fn drain_on(context: &Context, hold: &Hold, node: &Node, status: &str) -> Step {
    if hold.asked() {
        let why = format!("{status}, and logind may have been asked already");
        return undo(context, hold, Why::Drain(why));
    }
    let record = advance(context, hold, Stage::Draining);
    apply(context, Phase::Draining, record, node, status)
}

/// The last write: on the own Lease as it was read, so that whatever happened to it since refuses it. The intent to ask
/// logind is durable before it, as nothing may come between the gates and logind.
fn fence(context: &Context, hold: &Hold, armed: bool) -> Step {
    let phase = Phase::Rebooting;
    let Some(lease) = context.lease(&hold.take.lease) else {
        let effect = Effect::ReadLease(hold.take.lease.clone());
        return context.step(phase, effect, "rebooting: confirming the slot");
    };
    let mut record = context.facts.record.clone();
    if !armed {
        let granted = of_client(context);
        record.hold = Some(Hold {
            asks: hold.asks + 1,
            asked: Some(context.now.boot),
            granted,
            promised: granted.then(|| promise(context, hold)),
            kind: context.facts.kind(),
            before: context.before(Some(hold)),
            ..hold.clone()
        });
    }
    let effect = Effect::Fence(Fence {
        lease: lease.name.clone(),
        resource_version: lease.resource_version.clone(),
        words: format!(
            "{} goes down now, {}, in its hold since {}",
            context.me, context.now.wall, hold.take.acquire_time
        ),
    });
    Step {
        record,
        ..context.step(phase, effect, "rebooting: telling that this node goes down")
    }
}

/// How long a client that is told to go on now may take. It may still act on what it was told before.
fn promise(context: &Context, hold: &Hold) -> Duration {
    let until = hold.asked.zip(hold.promised);
    let until = until.map(|(asked, promised)| asked.saturating_add(promised));
    let left = until.map(|until| until.saturating_sub(context.now.boot));
    context.policy.granted.max(left.unwrap_or_default())
}

/// When logind may be asked again; none: not asked yet.
pub(crate) fn next_ask(facts: &Facts, timeout: Duration, hold: &Hold) -> Option<Duration> {
    let asked = hold.asked?;
    Some(match &facts.ask {
        Some(no) => no.at + REFUSED_AGAIN,
        None if facts.ask_accepted >= Some(asked) => asked.saturating_add(timeout),
        None => asked.saturating_add(UNSURE),
    })
}
