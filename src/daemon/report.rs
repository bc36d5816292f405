//! What people see of a step: STATUS and one journal record per transition.

use crate::decide::Step;
use crate::drain::Blocker;
use crate::facts::{Drained, Facts};
use crate::host::journal::{Fields, transition};
use crate::host::notify::Notify;
use crate::phase::Phase;

/// What was said last, so that nothing is said twice.
#[derive(Debug, Default)]
pub(super) struct Report {
    phase: Option<Phase>,
    uncleared: Vec<String>,
    blocked: Vec<Blocker>,
    would: Option<String>,
}

impl Report {
    pub(super) fn step(
        &mut self,
        step: &Step,
        facts: &Facts,
        notify: &mut Notify,
        trouble: Option<&str>,
    ) {
        match trouble {
            Some(trouble) if !step.status.contains(trouble) => {
                notify.status(&format!("{}; {trouble}", step.status));
            }
            Some(_) | None => notify.status(&step.status),
        }
        self.uncleared(facts);
        self.blocked(facts);
        self.would(step);
        if self.phase == Some(step.phase) {
            return;
        }
        self.phase = Some(step.phase);
        let reason = reasons(step);
        let lease = step
            .record
            .hold
            .as_ref()
            .map(|hold| hold.take.lease.as_str());
        let holder = holder(facts);
        transition(
            step.phase,
            &Fields {
                lease,
                holder: holder.as_deref(),
                reason: reason.as_deref(),
                pod: None,
            },
            &step.status,
        );
    }

    /// What an observer would do is said once per change.
    fn would(&mut self, step: &Step) {
        if let Some(would) = &step.would
            && self.would.as_ref() != Some(would)
        {
            tracing::info!("observing (mode = \"observe\"): would {would}");
        }
        self.would.clone_from(&step.would);
    }

    /// A pod that holds the drain up is said once, with its budget.
    fn blocked(&mut self, facts: &Facts) {
        let now = match &facts.drain {
            Drained::Going { blocked, .. } => blocked.as_slice(),
            Drained::Starting
            | Drained::Unmounting { .. }
            | Drained::Done { .. }
            | Drained::Failed { .. } => &[],
        };
        for blocker in now.iter().filter(|blocker| !self.blocked.contains(blocker)) {
            let pod = blocker.pod.path();
            let budget = blocker.budget.as_deref().unwrap_or_default();
            tracing::warn!(
                POD = pod,
                REASON = budget,
                "pod {pod} holds up the drain: {}",
                blocker.why
            );
        }
        self.blocked = now.to_vec();
    }

    /// A trigger that a reboot did not clear is said once (I10).
    fn uncleared(&mut self, facts: &Facts) {
        let now: Vec<String> = facts
            .observed
            .uncleared
            .iter()
            .map(|reason| reason.trigger.clone())
            .collect();
        for trigger in now
            .iter()
            .filter(|trigger| !self.uncleared.contains(trigger))
        {
            tracing::warn!(
                REASON = trigger,
                "{trigger} is there again after the reboot: ignored until it has gone once or its reasons change"
            );
        }
        self.uncleared = now;
    }
}

fn reasons(step: &Step) -> Option<String> {
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

/// Who holds a slot of the group, for a record that says what is waited for.
fn holder(facts: &Facts) -> Option<String> {
    let holders: Vec<&str> = facts
        .leases
        .values()
        .filter_map(|lease| lease.holder.as_deref())
        .collect();
    (!holders.is_empty()).then(|| holders.join(", "))
}
