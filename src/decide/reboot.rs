//! Rebooting: the last look, then logind (I2, I8). Nothing is undone while logind shuts down.

use std::time::Duration;

use super::{At, Step, cordoned, objection, still_ours, undo};
use crate::facts::Effect;
use crate::node::Node;
use crate::phase::Phase;
use crate::record::{Hold, Why};

/// logind is asked this often before the attempt counts as failed.
const ASKS: u32 = 3;
/// After a refusal the next ask waits this long: what refuses (another operation, an inhibitor taken
/// in this second) is rarely gone sooner.
const REFUSED_AGAIN: Duration = Duration::from_secs(10);
/// A restarted daemon does not know whether its predecessor's call reached logind: by then logind
/// would say that it prepares.
const UNSURE: Duration = Duration::from_secs(10);

pub(super) fn decide(at: &At, hold: &Hold) -> Step {
    reboot(at, hold).unwrap_or_else(|step| *step)
}

fn reboot(at: &At, hold: &Hold) -> Result<Step, Box<Step>> {
    let phase = Phase::Rebooting;
    if at.facts.shutting_down {
        return Ok(at.stay(phase, "rebooting: accepted by logind"));
    }
    if let Some(due) = next_ask(at, hold)
        && at.now.boot < due
    {
        let status = match &at.facts.ask {
            Some(no) => format!("rebooting: refused, asked again soon: {}", no.why),
            None => "rebooting: waiting for the shutdown to begin".to_owned(),
        };
        return Ok(at.wait(phase, due, status));
    }
    if hold.asks >= ASKS {
        let why = match &at.facts.ask {
            Some(no) => no.why.clone(),
            None => format!("asked {ASKS} times, no shutdown within reboot.timeout"),
        };
        return Ok(undo(at, hold, Why::Reboot(why)));
    }
    still_ours(at, hold, phase)?;
    if !at.fresh(at.facts.host_read) {
        return Ok(at.step(phase, Effect::ReadHost, "rebooting: checking the gates"));
    }
    at.node(phase)?;
    if let Some(why) = objection(at, hold, |_| true) {
        return Ok(undo(at, hold, why));
    }
    let read = at.lease(&hold.take.lease).and_then(|lease| lease.read);
    if !at.fresh(read) {
        let effect = Effect::ReadLease(hold.take.lease.clone());
        return Ok(at.step(phase, effect, "rebooting: confirming the slot"));
    }
    still_ours(at, hold, phase)?;
    let node = cordoned(at, hold, phase)?;
    if !at.fresh(node.read) {
        return Ok(at.step(phase, Effect::ReadNode, "rebooting: reading the own Node"));
    }
    if let Some(step) = quorum(at, hold, node) {
        return Ok(step);
    }
    if !at.fresh(at.facts.last_list.as_ref().map(|list| list.asked)) {
        return Ok(at.step(
            phase,
            Effect::ListPods,
            "rebooting: listing the pods once more",
        ));
    }
    if at.facts.last_list.as_ref().is_some_and(|list| !list.clean) {
        let why = Why::Drain("a pod came after the drain".to_owned());
        return Ok(undo(at, hold, why));
    }
    let mut record = at.facts.record.clone();
    record.hold = Some(Hold {
        asks: hold.asks + 1,
        asked: Some(at.now.boot),
        ..hold.clone()
    });
    Ok(Step {
        record,
        ..at.step(phase, Effect::AskReboot, "rebooting: asking logind")
    })
}

/// A node of the quorum looks once more whether another of it has gone meanwhile (I13). Who is only labelled has
/// seen this node's label and goes back.
fn quorum(at: &At, hold: &Hold, node: &Node) -> Option<Step> {
    if !node.quorum() {
        return None;
    }
    let peers = at.facts.peers.as_ref();
    let Some(peers) = peers.filter(|peers| at.fresh(Some(peers.asked))) else {
        let status = "rebooting: looking for control-plane nodes that are down";
        return Some(at.step(Phase::Rebooting, Effect::ListPeers, status));
    };
    let who = peers.not_ready()?;
    Some(undo(at, hold, Why::Quorum(who)))
}

/// When logind may be asked again; none: not asked yet.
fn next_ask(at: &At, hold: &Hold) -> Option<Duration> {
    let asked = hold.asked?;
    Some(match &at.facts.ask {
        Some(no) => no.at + REFUSED_AGAIN,
        None if at.facts.ask_accepted >= Some(asked) => asked.saturating_add(at.policy.timeout),
        None => asked.saturating_add(UNSURE),
    })
}
