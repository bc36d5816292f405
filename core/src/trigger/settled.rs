//! What a reboot settled: a reason that outlived it asks for no second one (I10).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{BY_ANNOTATION, Reason, Request, same_pkgs, wish};
use crate::boot::Boot;
use crate::booted::{Missed, Target};
use crate::kind::Kind;
use crate::now::Now;

/// A reason that is there again this soon after the proof was not cleared by the reboot (I10): jobs
/// that write the sentinel at boot run within minutes.
const AGAIN: Duration = Duration::from_secs(15 * 60);

/// What the last proved reboot settled, by trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct SettledReason {
    pub pkgs: BTreeSet<String>,
    /// The trigger said no since.
    pub gone: bool,
    /// The reboot did not bring this, so that it is not tried again until something else is to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Target>,
    /// The reboot that served it.
    #[serde(default, skip_serializing_if = "Kind::full")]
    pub kind: Kind,
    /// Of a file, which one it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// The last one that was written since, and that was not taken for a new request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anew: Option<String>,
}

impl SettledReason {
    fn of(pkgs: BTreeSet<String>, kind: Kind) -> Self {
        Self {
            pkgs,
            gone: false,
            missed: None,
            kind,
            mark: None,
            anew: None,
        }
    }

    /// It is the very file that was there before the soft-reboot, which leaves /run as it is: that says nothing.
    fn survived(&self, reason: &Reason) -> bool {
        self.kind.soft() && self.anew.is_none() && self.mark.is_some() && self.mark == reason.mark
    }

    /// It was written anew: the one from before has gone.
    fn follow(&mut self, reason: &Reason) {
        let known = self.anew.as_ref().or(self.mark.as_ref());
        if known.is_some() && reason.mark.is_some() && known != reason.mark.as_ref() {
            self.gone = true;
            self.anew.clone_from(&reason.mark);
        }
    }

    /// It outlives a trigger that is silent for a while.
    fn lasts(&self) -> bool {
        !self.gone || self.missed.is_some()
    }
}

impl Settled {
    /// What a proved reboot settles of `request`.
    #[cfg(test)]
    pub(crate) fn of(request: Option<&Request>, boot: &Boot, proved: Duration) -> Self {
        Self::by(Kind::Reboot, request, boot, proved)
    }

    /// What a proved reboot of this kind settles of `request`, which wants no stronger one.
    pub(crate) fn by(kind: Kind, request: Option<&Request>, boot: &Boot, proved: Duration) -> Self {
        let reasons = request.map_or(&[][..], |request| &request.reasons);
        let settle = |reason: &Reason| {
            let settled = SettledReason {
                mark: reason.mark.clone().filter(|_| kind.soft()),
                ..SettledReason::of(reason.pkgs.clone(), kind)
            };
            (reason.trigger.clone(), settled)
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
            settled.serves(&wish.reason, kind);
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
    pub(crate) fn serves(&mut self, text: &str, kind: Kind) {
        self.annotation = Some(text.to_owned());
        let pkgs = BTreeSet::from([text.to_owned()]);
        let reason = SettledReason::of(pkgs, kind);
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

/// What becomes of a trigger that says yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// It asks for a reboot, and this kind serves it.
    Asks(Kind),
    /// The last reboot was for this very reason, and did not clear it (I10).
    NotCleared,
    /// The last soft-reboot was for it, and could not take the file away.
    Served,
}

/// Whether the last reboot was for this very reason (I10), or one before it for what did not take and is to come again;
/// `staged`: the deployment that the next boot is to bring. If not, its trigger is settled no more. `named`: the trigger
/// itself names its kind of reboot.
pub(super) fn again(
    settled: &mut Option<Settled>,
    reason: &Reason,
    named: bool,
    staged: Option<&str>,
    boot: &Boot,
    now: Now,
) -> Again {
    let Some(settled) = settled else {
        return Again::Asks(reason.kind);
    };
    let over = settled.over(boot, now);
    let Some(entry) = settled.reasons.get_mut(&reason.trigger) else {
        return Again::Asks(reason.kind);
    };
    let same = same_pkgs(&entry.pkgs, &reason.pkgs);
    if entry.kind < reason.kind {
        // No soft-reboot has served what wants a full one.
        settled.reasons.remove(&reason.trigger);
        return Again::Asks(reason.kind);
    }
    if same && entry.survived(reason) {
        return Again::Served;
    }
    entry.follow(reason);
    let missed = entry.missed.as_ref();
    let again = missed.is_some_and(|missed| missed.again(same, staged));
    let passed = missed.is_some_and(|missed| missed.passed(same, staged));
    if again || same && !passed && !(entry.gone && over) {
        // There again: it must go once more.
        entry.gone = false;
        // Who names no kind, and asks on after a soft-reboot, was not served by it. It stands there until a full one is.
        return if entry.kind.soft() && !named {
            Again::Asks(Kind::Reboot)
        } else {
            Again::NotCleared
        };
    }
    settled.reasons.remove(&reason.trigger);
    Again::Asks(reason.kind)
}

/// Drops what has gone once and can no longer be "there again".
pub(super) fn forget(settled: &mut Option<Settled>, boot: &Boot, now: Now) {
    if let Some(settled) = settled
        && settled.over(boot, now)
    {
        settled.reasons.retain(|_, entry| entry.lasts());
    }
}
