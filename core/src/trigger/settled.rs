//! What a reboot settled: a reason that outlived it asks for no second one (I10).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{BY_ANNOTATION, Reason, Request, same_pkgs, wish};
use crate::boot::Boot;
use crate::booted::{Missed, Target};
use crate::now::Now;

/// A reason that is there again this soon after the proof was not cleared by the reboot (I10): jobs
/// that write the sentinel at boot run within minutes.
const AGAIN: Duration = Duration::from_secs(15 * 60);

/// What the last proved reboot settled, by trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settled {
    pub boot: Boot,
    /// When that boot was proved healthy, on its boot clock.
    pub proved_boot: Duration,
    pub reasons: BTreeMap<String, SettledReason>,
    /// The text of the Node annotation that the reboot was for, to be removed with its release. That it asks for no other
    /// reboot stands among the reasons, also for later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotation: Option<String>,
    /// The update that the reboot was for did not take, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettledReason {
    pub pkgs: BTreeSet<String>,
    /// The trigger said no since.
    pub gone: bool,
    /// The reboot did not bring this, so that it is not tried again until something else is to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Target>,
}

impl SettledReason {
    fn of(pkgs: BTreeSet<String>) -> Self {
        Self {
            pkgs,
            gone: false,
            missed: None,
        }
    }

    /// It outlives a trigger that is silent for a while.
    fn lasts(&self) -> bool {
        !self.gone || self.missed.is_some()
    }
}

impl Settled {
    /// What a proved reboot settles of `request`.
    pub(crate) fn of(request: Option<&Request>, boot: &Boot, proved: Duration) -> Self {
        let reasons = request.map_or(&[][..], |request| &request.reasons);
        let settle = |reason: &Reason| {
            let pkgs = reason.pkgs.clone();
            (reason.trigger.clone(), SettledReason::of(pkgs))
        };
        let latched = request.map_or(&[][..], |request| &request.latched);
        let mut asked = latched.iter().filter(|wish| wish.by == BY_ANNOTATION);
        let mut settled = Self {
            boot: boot.clone(),
            proved_boot: proved,
            reasons: reasons.iter().map(settle).collect(),
            annotation: None,
            missed: None,
        };
        if let Some(wish) = asked.next() {
            settled.serves(&wish.reason);
        }
        settled
    }

    /// The reboot did not bring what it was for. Who asked by the Node annotation may ask again.
    pub(crate) fn did_not_take(&mut self, missed: &Missed) {
        self.missed = Some(wish(&missed.words));
        let Some(target) = &missed.target else {
            return;
        };
        for (trigger, reason) in &mut self.reasons {
            if target.behind(trigger) && trigger != BY_ANNOTATION {
                reason.missed = Some(target.clone());
            }
        }
    }

    /// The reboot was for the Node annotation with this text, too.
    pub(crate) fn serves(&mut self, text: &str) {
        self.annotation = Some(text.to_owned());
        let pkgs = BTreeSet::from([text.to_owned()]);
        let reason = SettledReason::of(pkgs);
        self.reasons.insert(BY_ANNOTATION.to_owned(), reason);
    }

    /// What an earlier reboot did not clear, and has not gone since, is not cleared by this one either: it asks for no
    /// reboot of its own now.
    #[must_use]
    pub(crate) fn after(mut self, before: Option<Self>) -> Self {
        let before = before.map(|before| before.reasons).unwrap_or_default();
        for (trigger, reason) in before.into_iter().filter(|(_, reason)| reason.lasts()) {
            self.reasons.entry(trigger).or_insert(reason);
        }
        self
    }

    /// How long what comes again is still taken for what the reboot did not clear, although it had gone; none: no
    /// longer.
    pub(crate) fn left(&self, boot: &Boot, now: Now) -> Option<Duration> {
        let left = AGAIN.checked_sub(now.since(self.proved_boot))?;
        (self.boot == *boot && !left.is_zero()).then_some(left)
    }

    /// The 15 minutes are over; in another boot they count as over.
    fn over(&self, boot: &Boot, now: Now) -> bool {
        self.boot != *boot || now.since(self.proved_boot) >= AGAIN
    }
}

pub(super) fn gone(settled: &mut Option<Settled>, trigger: &str) {
    let entry = (settled.as_mut()).and_then(|settled| settled.reasons.get_mut(trigger));
    if let Some(entry) = entry {
        entry.gone = true;
    }
}

/// Whether the last reboot was for this very reason (I10), or one before it for what did not take and is to come again;
/// `staged`: the deployment that the next boot is to bring. If not, its trigger is settled no more.
pub(super) fn uncleared(
    settled: &mut Option<Settled>,
    reason: &Reason,
    staged: Option<&str>,
    boot: &Boot,
    now: Now,
) -> bool {
    let Some(settled) = settled else { return false };
    let over = settled.over(boot, now);
    let Some(entry) = settled.reasons.get_mut(&reason.trigger) else {
        return false;
    };
    let same = same_pkgs(&entry.pkgs, &reason.pkgs);
    let missed = entry.missed.as_ref();
    let again = missed.is_some_and(|missed| missed.again(same, staged));
    let passed = missed.is_some_and(|missed| missed.passed(same, staged));
    if again || same && !passed && !(entry.gone && over) {
        // There again: it must go once more.
        entry.gone = false;
        return true;
    }
    settled.reasons.remove(&reason.trigger);
    false
}

/// Drops what has gone once and can no longer be "there again".
pub(super) fn forget(settled: &mut Option<Settled>, boot: &Boot, now: Now) {
    if let Some(settled) = settled
        && settled.over(boot, now)
    {
        settled.reasons.retain(|_, entry| entry.lasts());
    }
}
