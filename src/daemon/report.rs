//! What people see of a step: STATUS, the journal's records, and the view that `status` and `explain` read.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_rebootd_core::config::ConfigError;
use kube_rebootd_core::decide::{Policy, Step};
use kube_rebootd_core::drain::{self, Blocker, PodRef};
use kube_rebootd_core::effect::Effect;
use kube_rebootd_core::facts::{Drained, Facts};
use kube_rebootd_core::gates::Gate;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::record::{Hold, Stage};
use kube_rebootd_core::story::{self, Ended};
use kube_rebootd_core::trigger::BY_ANNOTATION;
use kube_rebootd_core::waits::{self, blockers, config_error, missing, reasons, uncordons, waits};

use crate::host::journal::{self, Fields, LATE, Naming, id, record, transition};
use crate::host::notify::Notify;
use crate::host::view::{Blocked, Holder, View};

mod explain;
#[cfg(test)]
mod tests;

/// A drain that a pod holds up for longer is a warning: budgets let one pod after another go within seconds.
const LONG: Duration = Duration::from_secs(60);

/// What was said last, so that nothing is said twice.
#[derive(Debug, Default)]
pub(super) struct Report {
    phase: Option<Phase>,
    /// What the phase waited for when it was last said, but for package managers.
    said: Vec<String>,
    /// A package manager worked then.
    busy: bool,
    /// Verifying was said to take longer than `health.timeout`.
    late: bool,
    uncleared: Vec<String>,
    missed: Option<String>,
    /// The first pod that holds up the drain now.
    blocked: Option<String>,
    /// What was said of this drain: pods by their UID, each with its budget, or with what else keeps it.
    told: BTreeSet<(String, String)>,
    /// This drain was said to take long.
    long: bool,
    ending: Vec<PodRef>,
    /// Pods that were said to be refused, before the cordon.
    refusing: Vec<Blocker>,
    would: Option<String>,
    naming: Option<Naming>,
    view: View,
}

impl Report {
    /// From now on the journal's records carry the node's name.
    pub(super) fn names(&mut self, naming: Naming) {
        self.naming = Some(naming);
    }

    pub(super) fn step(
        &mut self,
        step: &Step,
        facts: &Facts,
        policy: &Policy,
        notify: &mut Notify,
        trouble: Option<&str>,
    ) {
        let trouble = trouble.filter(|trouble| !step.status.contains(trouble));
        let ending = drain::ending(&facts.ending);
        let refusing = drain::held_up(&facts.refusing);
        let config = config_error(facts);
        let more = [
            trouble,
            ending.as_deref(),
            refusing.as_deref(),
            config.as_deref(),
        ];
        let more = more.into_iter().flatten();
        let status: Vec<&str> = std::iter::once(step.status.as_str()).chain(more).collect();
        notify.status(&status.join("; "));
        if let Some(naming) = &self.naming
            && let Some(me) = &policy.me
        {
            naming.set(me);
        }
        self.uncleared(facts);
        self.missed(facts);
        self.blocked(step, facts);
        self.ending(facts);
        self.refusing(facts);
        self.would(step);
        self.phase(step, facts, policy);
        if let Some(ended) = Ended::of(step, facts) {
            journal::ended(step.phase, &ended);
        }
        self.late(step, facts, policy);
    }

    /// One record for each phase, and one for each change of what it waits for.
    fn phase(&mut self, step: &Step, facts: &Facts, policy: &Policy) {
        // Until the API server has answered, a phase on record stands still: what is said of it then would be
        // about the API server, which has a record of its own.
        if !facts.started {
            return;
        }
        // A look at the others is no news in itself; what comes of it is.
        let refused = facts
            .rehearsed
            .as_ref()
            .is_some_and(|last| last.said.is_err());
        let before = self.phase == Some(step.phase);
        // Neither is a look of a node whose hold was refused, and may still be.
        if looks(step) && (before || refused && self.phase == Some(Phase::Pending)) {
            return;
        }
        // Nor is what is asked on the way to the reboot, or to the proof after it.
        let asks = step.effect != Effect::Wait && step.waits.is_none();
        let way = match step.phase {
            Phase::Rebooting => asks,
            Phase::Verifying => asks && !uncordons(step),
            _ => false,
        };
        if before && way {
            return;
        }
        let waits = waits(step, facts, policy);
        // Scripts call a package manager again and again, each time as another process.
        let busy = facts
            .closed
            .iter()
            .filter(|one| one.gate == Gate::PackageManager);
        let busy: Vec<&str> = busy.map(|one| &*one.why).collect();
        let said: Vec<String> = waits
            .iter()
            .filter(|one| !busy.contains(&one.as_str()))
            .map(|one| unreasoned(one, facts).to_owned())
            .collect();
        if self.phase == Some(step.phase) && self.said == said && self.busy != busy.is_empty() {
            return;
        }
        let sentence = story::sentence(step, facts, self.phase);
        self.phase = Some(step.phase);
        self.said = said;
        self.busy = !busy.is_empty();
        let hold = step.record.hold.as_ref();
        let reason = match step.phase {
            Phase::Verifying => Some(waits.join("; ")).filter(|missing| !missing.is_empty()),
            Phase::Undoing => hold.and_then(|hold| match &hold.stage {
                Stage::Undoing(why) => Some(why.words()),
                _ => None,
            }),
            _ => reasons(step),
        };
        let holders: Vec<String> = holders(facts, policy).map(|one| one.node).collect();
        let holder = (!holders.is_empty()).then(|| holders.join(", "));
        transition(
            step.phase,
            &Fields {
                lease: hold.map(|hold| hold.take.lease.as_str()),
                holder: holder.as_deref(),
                reason: reason.as_deref(),
                pod: self.blocked.as_deref(),
            },
            &sentence,
        );
    }

    /// Past `health.timeout` somebody has to look: said once, and where this can be searched for.
    fn late(&mut self, step: &Step, facts: &Facts, policy: &Policy) {
        if step.phase != Phase::Verifying {
            self.late = false;
            return;
        }
        if self.late || facts.verifying <= policy.health_timeout {
            return;
        }
        self.late = true;
        let lease = step.record.hold.as_ref().map(|hold| &hold.take.lease);
        let ours = lease.and_then(|lease| facts.leases.get(lease));
        let ours = ours.filter(|lease| lease.holder == policy.me);
        let kept = ours.map_or_else(String::new, |lease| {
            format!(
                "; slot {} is kept, no other node gets it until this is mended",
                lease.name
            )
        });
        let missing = missing(facts).join("; ");
        record(
            LATE,
            Phase::Verifying,
            &Fields {
                lease: lease.map(String::as_str),
                reason: Some(&missing),
                ..Fields::default()
            },
            &format!("not healthy within health.timeout after the reboot: {missing}{kept}"),
        );
    }

    /// What an observer would do is said once per change.
    fn would(&mut self, step: &Step) {
        // A look between two waits is no change of mind.
        if step.would.is_none() && step.effect != Effect::Wait {
            return;
        }
        if let Some(would) = &step.would
            && self.would.as_ref() != Some(would)
        {
            tracing::info!("observing (mode = \"observe\"): would {would}");
        }
        self.would.clone_from(&step.would);
    }

    /// Each pod that holds up the drain is said once, with its budget; all of them in one warning when that takes long.
    fn blocked(&mut self, step: &Step, facts: &Facts) {
        let now = blockers(facts);
        self.blocked = now.first().map(|one| one.pod.path());
        if !matches!(step.phase, Phase::Draining | Phase::Rebooting) {
            self.told.clear();
            self.long = false;
        }
        let long = matches!(&facts.drain, Drained::Going { spent, .. } if *spent >= LONG);
        let known = |told: &BTreeSet<_>| now.iter().filter(|one| told.contains(&key(one))).count();
        if long && !self.long && known(&self.told) > 0 {
            warn_of(now);
        }
        // Not before there is something to tell of it.
        self.long |= long && !now.is_empty();
        for blocker in now {
            if !self.told.insert(key(blocker)) {
                continue;
            }
            let pod = blocker.pod.path();
            let fields = blocking(blocker, &pod);
            let text = format!("pod {pod} holds up the drain: {}", blocker.why);
            if long {
                record(id(Phase::Draining), Phase::Draining, &fields, &text);
            } else {
                transition(Phase::Draining, &fields, &text);
            }
        }
    }

    /// A pod that nobody starts again after the reboot is said once, before the cordon.
    fn ending(&mut self, facts: &Facts) {
        for pod in facts.ending.iter().filter(|pod| !self.ending.contains(pod)) {
            let pod = pod.path();
            tracing::warn!(
                POD = pod,
                "pod {pod} has no controller and will not run again after the reboot: the kubelet ends it at the shutdown (GracefulNodeShutdown) and does not start it again; give it a controller, or set drain.unmanaged = \"block\""
            );
        }
        self.ending.clone_from(&facts.ending);
    }

    /// A pod whose eviction would be refused is said once, before the cordon. It is no warning: of a budget that allows one
    /// pod at a time every node hears this while another one reboots.
    fn refusing(&mut self, facts: &Facts) {
        let now = &facts.refusing;
        for one in now.iter().filter(|one| !self.refusing.contains(one)) {
            let (pod, budget) = (one.pod.path(), one.budget.as_deref());
            tracing::info!(
                POD = pod,
                BUDGET = budget,
                "the drain would be held up now by pod {pod}: {}",
                one.why
            );
        }
        self.refusing.clone_from(now);
    }

    /// A trigger that a reboot did not clear is said once (I10).
    fn uncleared(&mut self, facts: &Facts) {
        let now: Vec<String> = facts
            .observed
            .uncleared
            .iter()
            // While the reboot is proved and released, the annotation that asked for it is still there.
            .filter(|reason| reason.trigger != BY_ANNOTATION || facts.record.hold.is_none())
            .map(|reason| reason.trigger.clone())
            .collect();
        for trigger in now
            .iter()
            .filter(|trigger| !self.uncleared.contains(trigger))
        {
            tracing::warn!(
                REASON = trigger,
                "{trigger} is there again after the reboot: ignored until its reasons change, or until it has gone once and comes 15 minutes or more after the reboot was proved"
            );
        }
        self.uncleared = now;
    }

    /// An update that did not take is said once.
    fn missed(&mut self, facts: &Facts) {
        let settled = facts.record.settled.as_ref();
        let now = settled.and_then(|settled| settled.missed.clone());
        if let Some(words) = now.as_ref().filter(|_| now != self.missed) {
            tracing::warn!(
                "the update did not take: {words}; it is not tried again until another is to come, or somebody asks for a reboot"
            );
        }
        self.missed = now;
    }

    /// What `kube-rebootd status` and `explain` show, if it is not what they showed.
    pub(super) fn view(&mut self, step: &Step, facts: &Facts, policy: &Policy) -> Option<&View> {
        // A look is no news in itself.
        let looking = self.view.phase == Some(step.phase) && looks(step);
        let view = View {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: policy.me.clone(),
            group: policy.group.clone(),
            phase: Some(step.phase),
            waits: if looking {
                self.view.waits.clone()
            } else {
                waits(step, facts, policy)
            },
            kept_by: waits::kept(step)
                .map(|(keeper, _)| keeper.begins().to_owned())
                .collect(),
            holders: holders(facts, policy).collect(),
            blockers: (blockers(facts).iter())
                .map(|one| Blocked {
                    pod: one.pod.path(),
                    why: one.why.clone(),
                    budget: one.budget.clone(),
                })
                .collect(),
            config_error: (facts.config_error.as_ref())
                .map(ConfigError::lines)
                .unwrap_or_default(),
            config_places: (facts.config_error.as_ref())
                .map(ConfigError::places)
                .unwrap_or_default(),
            kind: step.record.kind(),
            reason: if looking {
                self.view.reason.clone()
            } else {
                step.reason.name().to_owned()
            },
            triggers: explain::triggers(facts),
            gates: explain::gates(facts),
            limited: explain::limited(step, facts),
            flapping: explain::flapping(step, facts),
            queued: step.record.waiting.as_ref().map(|place| place.since),
        };
        if view == self.view {
            return None;
        }
        self.view = view;
        Some(&self.view)
    }

    /// What [`Report::view`] made last.
    pub(super) fn shown(&self) -> &View {
        &self.view
    }
}

/// What a pod is told by: how many pods its budget counts changes while it is waited for.
fn key(blocker: &Blocker) -> (String, String) {
    let what = blocker.budget.as_ref().unwrap_or(&blocker.why);
    (blocker.pod.uid.clone(), what.clone())
}

fn blocking<'a>(blocker: &'a Blocker, pod: &'a str) -> Fields<'a> {
    Fields {
        reason: Some(blocker.budget.as_deref().unwrap_or(&blocker.why)),
        pod: Some(pod),
        ..Fields::default()
    }
}

/// The drain takes long; each of these pods has been named.
fn warn_of(blockers: &[Blocker]) {
    let Some((first, more)) = blockers.split_first() else {
        return;
    };
    let pod = first.pod.path();
    let who = match more.len() {
        0 => format!("pod {pod} still holds"),
        more => format!("pod {pod} and {more} more still hold"),
    };
    record(
        id(Phase::Draining),
        Phase::Draining,
        &blocking(first, &pod),
        &format!("{who} up the drain: {}", first.why),
    );
}

/// Without what changes with each run of a command.
fn unreasoned<'a>(words: &'a str, facts: &'a Facts) -> &'a str {
    let mut closed = facts.closed.iter();
    let same = closed.find(|one| *one.why == *words);
    same.map_or(words, |one| one.why.steady())
}

/// A node that waits in the queue looks at the cluster.
fn looks(step: &Step) -> bool {
    step.phase == Phase::Queued && step.effect != Effect::Wait
}

/// The host goes down, or was asked to by this daemon and did not refuse: being stopped now is what was wanted.
pub(super) fn going_down(facts: &Facts) -> bool {
    let rebooting = facts.record.phase(Some(&facts.boot)) == Phase::Rebooting;
    let asked = rebooting && facts.record.hold.as_ref().is_some_and(Hold::asked);
    facts.shutting_down || (asked && facts.ask.is_none())
}

/// The slots of the group that somebody holds.
fn holders<'a>(facts: &'a Facts, policy: &'a Policy) -> impl Iterator<Item = Holder> + 'a {
    waits::holders(facts, policy).map(|(lease, node)| Holder {
        slot: lease.name.clone(),
        node: node.to_owned(),
    })
}
