//! What a step waits for, and what asks for the reboot, in words that change only when that changes: no countdowns.
//! The journal, `kube-rebootd status` and the Node's conditions say the same because all of them ask here.

use crate::decide::{Policy, Step};
use crate::drain::Blocker;
use crate::effect::Effect;
use crate::facts::{Drained, Facts};
use crate::hook::steady;
use crate::phase::Phase;
use crate::slot::Lease;
use crate::trigger::{Keeper, Latched, Request};

/// What the phase waits for.
pub fn waits(step: &Step, facts: &Facts, policy: &Policy) -> Vec<String> {
    match step.phase {
        Phase::Releasing | Phase::Undoing => step.waits.iter().cloned().collect(),
        Phase::Pending | Phase::Queued | Phase::Claiming | Phase::Draining | Phase::Rebooting
            if step.waits.is_some() =>
        {
            step.waits.iter().cloned().collect()
        }
        Phase::Pending | Phase::Claiming | Phase::Draining | Phase::Rebooting => facts
            .closed
            .iter()
            .map(|gate| gate.why.to_string())
            .collect(),
        Phase::Queued => holders(facts, policy)
            .map(|(lease, node)| format!("{} is held by {node}", lease.name))
            .collect(),
        // It says what is done; what is waited for after it is said then.
        Phase::Verifying if uncordons(step) => Vec::new(),
        Phase::Verifying => missing(facts)
            .into_iter()
            .chain(taken_away(step, facts, policy))
            .collect(),
        Phase::Drained => kept(step)
            .map(|(keeper, wish)| format!("until {}: {}", keeper.ends(), wish.reason))
            .collect(),
        Phase::Idle => Vec::new(),
    }
}

/// Why the configuration files are not in use, and which of them: what is wrong there, `status` and the journal say in full.
pub fn config_error(facts: &Facts) -> Option<String> {
    let error = facts.config_error.as_ref()?;
    Some(format!(
        "configuration refused and not in use: {}",
        error.place()
    ))
}

/// The slots of the group that somebody holds, and who.
pub fn holders<'a>(
    facts: &'a Facts,
    policy: &'a Policy,
) -> impl Iterator<Item = (&'a Lease, &'a str)> + 'a {
    let group = facts.leases.values();
    let group = group.filter(|lease| lease.group == policy.group);
    group.filter_map(|lease| Some((lease, lease.holder.as_deref()?)))
}

/// The slot of this hold is another's or nobody's by now: the node is proved and uncordoned all the same.
fn taken_away(step: &Step, facts: &Facts, policy: &Policy) -> Option<String> {
    let lease = &step.record.hold.as_ref()?.take.lease;
    let read = facts.leases.get(lease).filter(|it| it.read.is_some())?;
    let lost = read.holder != policy.me;
    lost.then(|| format!("slot {lease} was taken away"))
}

/// The host is proved, and the node may take pods again.
pub fn uncordons(step: &Step) -> bool {
    step.phase == Phase::Verifying && matches!(step.effect, Effect::Apply { .. })
}

/// What is missing after the boot: the host first, then its pods.
pub fn missing(facts: &Facts) -> Vec<String> {
    let host = facts.host_health.as_ref().err();
    let missing = host.or(facts.pod_health.as_ref().err());
    let missing = missing.into_iter().flatten();
    missing.map(|words| steady(words).to_owned()).collect()
}

/// The pods that hold the drain up.
pub fn blockers(facts: &Facts) -> &[Blocker] {
    match &facts.drain {
        Drained::Going { blocked, .. } => blocked,
        Drained::Starting
        | Drained::Resting { .. }
        | Drained::Unmounting { .. }
        | Drained::Done { .. }
        | Drained::Failed { .. } => &[],
    }
}

/// Who wants the node drained and kept so.
pub fn kept(step: &Step) -> impl Iterator<Item = (Keeper, &Latched)> {
    step.record.request.iter().flat_map(Request::kept)
}

/// What asks for the reboot; none: nothing does.
pub fn reasons(step: &Step) -> Option<String> {
    let request = step.record.request.as_ref()?;
    let triggers = request
        .reasons
        .iter()
        .map(|reason| match reason.words.as_str() {
            "" => reason.trigger.clone(),
            words => format!("{} ({words})", reason.trigger),
        });
    let wishes = request
        .latched
        .iter()
        .map(|wish| format!("{} ({})", wish.by, wish.reason));
    Some(triggers.chain(wishes).collect::<Vec<_>>().join(", "))
}
