//! What to do next: one pure function of facts, policy and the time (I1-I4, I6-I8, I10, I13).
//!
//! No IO, no clock, no await. A step names what must be durable first, then one effect; after it the
//! world is looked at again. There are no transitions to get wrong: after a crash the same facts
//! lead to the same step. `tests/it/simulator` kills between any two of them.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::effect::Effect;
use crate::facts::{Facts, Point};
use crate::gates::{Closed, Gate};
use crate::node::Seen;
use crate::now::Now;
use crate::peers::{Claims, Peers};
use crate::phase::Phase;
use crate::reason::Reason;
use crate::record::{Hold, Stage, Why};
use crate::trigger::{self, BY_SCHEDULE, Flaps};

mod claim;
mod context;
mod drain;
mod drained;
mod held;
mod hooks;
mod idle;
mod mark;
mod observe;
mod policy;
mod queue;
mod reboot;
mod rehearse;
mod release;
mod stale;
mod start;
#[cfg(test)]
mod tests;
mod timed;
mod updater;
mod verify;

pub(crate) use claim::labelled;
pub use context::Step;
pub use drain::rests;
pub use policy::Policy;
pub(crate) use reboot::{armed, next_ask};
pub(crate) use timed::spent;

use context::Context;
use held::undo;

/// Giving back is a few requests. What takes longer is refused, or taken back, and ends only when a person mends that.
const GIVING_BACK: Duration = Duration::from_secs(600);

/// The next step. Total: every combination of facts has one.
pub fn decide(facts: &Facts, policy: &Policy, now: Now) -> Step {
    let Some(context) = Context::of(facts, policy, now) else {
        return start::read(facts);
    };
    if !facts.started {
        return start::decide(&context);
    }
    let before = facts;
    let followed = follow(facts, now);
    let facts = followed.as_ref().unwrap_or(facts);
    let context = Context { facts, ..context };
    let mut step = phased(&context);
    // Also where the host is healthy and its uncordon is refused again and again.
    if step.phase == Phase::Verifying && facts.verifying > policy.health_timeout {
        step.reason = Reason::Unhealthy;
    }
    let gives_back = matches!(step.phase, Phase::Releasing | Phase::Undoing);
    if gives_back && facts.giving_back > GIVING_BACK && step.reason != Reason::UndoHookFailed {
        step.reason = Reason::NotReleased;
    }
    if adopted(facts) {
        // Whatever comes next, it must not be the shutdown that somebody else set.
        step = Step {
            effect: Effect::CancelShutdown,
            record: facts.record.clone(),
            ..step
        };
    }
    let record = timed::carried(before, step.record, now);
    Step { record, ..step }
}

/// The next step by where the hold is.
fn phased(context: &Context) -> Step {
    let facts = context.facts;
    let Some(hold) = &facts.record.hold else {
        return idle::decide(context);
    };
    let rebooted = hold.boot != facts.boot;
    if !rebooted && let Some(why) = unappliable(context, hold) {
        return undo(context, hold, Why::Refused(why));
    }
    match facts.record.phase(Some(&facts.boot)) {
        Phase::Idle | Phase::Pending | Phase::Queued => idle::decide(context),
        Phase::Claiming if hold.stage == Stage::Taking => claim::taking(context, hold),
        Phase::Claiming => claim::decide(context, hold),
        Phase::Draining => drain::decide(context, hold),
        Phase::Drained => drained::decide(context, hold),
        Phase::Rebooting => reboot::decide(context, hold),
        Phase::Verifying if !rebooted => drained::over(context, hold),
        Phase::Verifying => verify::decide(context, hold),
        Phase::Releasing => release::decide(context, hold, None),
        Phase::Undoing => match &hold.stage {
            Stage::Undoing(why) => release::decide(context, hold, Some(why)),
            // Only a new boot leads to the other stages that are undone: nothing was rebooted.
            _ => undo(context, hold, Why::NoHold),
        },
    }
}

/// What this step of the hold sets on the own Node or writes on its Lease was refused, and logind was not asked yet:
/// sent again it would be refused again, and a node that waits for it keeps its slot for nothing.
fn unappliable(context: &Context, hold: &Hold) -> Option<String> {
    let forward = matches!(
        hold.stage,
        Stage::Claiming | Stage::Draining | Stage::Drained | Stage::Rebooting
    );
    let refused = context.facts.refused.as_ref()?;
    let this = refused.point == Point::of(hold);
    let asked = hold.asked() && !armed(context.facts, hold);
    (forward && this && !asked && !context.facts.shutting_down).then(|| refused.why.clone())
}

/// The scheduled shutdown is a request by now, in the record of this boot: it is cancelled (I6). While this node waits
/// for the reboot that it asked for, one that is scheduled may be its own: `reboot.command` may be `shutdown -r`. Once
/// it has given that up it is cancelled as any other.
fn adopted(facts: &Facts) -> bool {
    let latched = facts
        .record
        .request
        .iter()
        .flat_map(|request| &request.latched);
    let mut own = latched.filter(|wish| wish.by == BY_SCHEDULE);
    let own_ask = |hold: &Hold| hold.stage == Stage::Rebooting && hold.asked();
    let asked = facts.record.hold.as_ref().is_some_and(own_ask);
    facts.writable
        && facts.adopts.is_some()
        && !asked
        && own.any(|wish| wish.boot.as_ref() == Some(&facts.boot))
}

/// Nothing of any hold is left: no record, no Lease that names this node, nothing of ours on the Node.
/// False as long as the three reads of a start are missing (I8).
pub fn released(facts: &Facts, policy: &Policy, now: Now) -> bool {
    Context::of(facts, policy, now).is_some_and(|context| {
        facts.started && facts.record.hold.is_none() && !idle::strays(&context)
    })
}

/// Since when this process has been ready to take a slot, after `step` was decided: every gate is open, or only
/// the group is paused. `Machine::next` keeps this in the facts of the next decision.
pub fn ready(facts: &Facts, step: &Step, now: Now) -> Option<Duration> {
    let paused = |closed: &Closed| closed.gate == Gate::GroupPaused;
    let ready = match step.phase {
        Phase::Queued => true,
        Phase::Pending => !facts.closed.is_empty() && facts.closed.iter().all(paused),
        _ => false,
    };
    ready.then(|| facts.ready.unwrap_or(now.boot))
}

/// Whether the Nodes must be counted although the labels of `peers` are known: not where one of them speaks
/// against every slot in question anyway.
pub fn census_matters(facts: &Facts, policy: &Policy, peers: &Peers) -> bool {
    let quorum = matches!(&facts.node, Seen::Present(node) if node.quorum());
    let Some(me) = &policy.me else {
        return true;
    };
    let claimed = |lease: &str| {
        let claims = peers.claims(lease, me, quorum);
        matches!(claims, Claims::Collision(_))
    };
    if let Some(hold) = &facts.record.hold {
        return !claimed(&hold.take.lease);
    }
    let mut slots = facts.leases.values();
    slots.any(|lease| lease.group == policy.group && lease.open() && !claimed(&lease.name))
}

/// The request follows its triggers until logind was asked; from then on it is what the reboot was
/// for, until that is settled.
fn follow(facts: &Facts, now: Now) -> Option<Facts> {
    let record = &facts.record;
    let frozen = record
        .hold
        .as_ref()
        .is_some_and(|hold| hold.settles(&facts.boot));
    let same = record.request == facts.observed.request && record.settled == facts.observed.settled;
    if frozen {
        return gone_meanwhile(facts);
    }
    let askers = askers(facts);
    if same && askers.is_none() {
        return None;
    }
    let mut followed = facts.clone();
    if let (Some(hold), Some(askers)) = (&mut followed.record.hold, askers) {
        hold.askers = askers;
    }
    if record.request.is_some() && facts.observed.request.is_none() {
        let flaps = Flaps::ended(record.flaps.as_ref(), &facts.boot, now.boot);
        followed.record.flaps = Some(flaps);
    }
    followed.record.request.clone_from(&facts.observed.request);
    followed.record.settled.clone_from(&facts.observed.settled);
    Some(followed)
}

/// Who asks before the cordon, where the hold does not say so yet.
fn askers(facts: &Facts) -> Option<BTreeSet<String>> {
    let hold = facts.record.hold.as_ref();
    let hold = hold.filter(|hold| matches!(hold.stage, Stage::Taking | Stage::Claiming))?;
    let wishes = facts.observed.request.iter().flat_map(|it| &it.latched);
    let now = wishes.map(|wish| wish.asker().to_owned());
    let all: BTreeSet<_> = hold.askers.iter().cloned().chain(now).collect();
    (all != hold.askers).then_some(all)
}

/// A node may be kept drained for days after a reboot: what has stopped to ask since is served, and must not be taken for
/// not cleared when it asks again (I10). What has come since asks after this hold.
fn gone_meanwhile(facts: &Facts) -> Option<Facts> {
    let kept = facts.record.phase(Some(&facts.boot)) == Phase::Drained;
    let (request, observed) = (facts.record.request.as_ref()?, &facts.observed.request);
    let asks = |reason: &trigger::Reason| {
        let now = observed.iter().flat_map(|request| &request.reasons);
        now.map(|one| &one.trigger)
            .any(|one| *one == reason.trigger)
    };
    if !kept || request.reasons.iter().all(asks) {
        return None;
    }
    let mut facts = facts.clone();
    if let Some(request) = &mut facts.record.request {
        request.reasons.retain(asks);
    }
    Some(facts)
}
