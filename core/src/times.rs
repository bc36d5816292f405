//! How the time of one cycle went, for people: in the record while it lasts, in the history once it is over.
//!
//! Nothing is decided by it. It is kept with a record that is written anyway, never by a write of its own: a crash loses
//! what passed since the last one.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::reason::Reason;
use crate::text::{self, NAME, span};

/// Kinds of waits that are kept: there are fewer [reasons](crate::reason::Reason) in which a node waits for its slot.
const WAITS_MAX: usize = 32;

/// No cycle of ours takes longer, in seconds: 100 years.
const LONGEST: u64 = 100 * 366 * 24 * 3600;

/// Above any count of pods of one node.
const PODS_MAX: u32 = 1_000_000_000;

/// How the time of one cycle went, in whole seconds of this host's boot clock while the daemon ran; what it could not see is
/// in none of them. `slot` and `boot` are by the wall clock, and wrong if that was set in between. What a newer daemon adds is
/// passed over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Times {
    /// From the request to the take of the slot, known at the end; none: not known, or the clock was set back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u64>,
    /// What that time went to: seconds by the reason of the condition `RebootRequired`, of which a node has one at a time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waits: BTreeMap<String, u64>,
    /// Attempts that were undone, or whose slot another node got.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub undone: u64,
    /// From the take to the cordon.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub claim: u64,
    /// From the cordon to the last looks before the reboot.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub drain: u64,
    /// Pods whose eviction was accepted in that time.
    #[serde(default, skip_serializing_if = "is_none")]
    pub evicted: u32,
    /// Pods that were deleted past their budget in that time.
    #[serde(default, skip_serializing_if = "is_none")]
    pub deleted: u32,
    /// The last looks, until logind is asked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_look: u64,
    /// When logind was asked last: of a cycle under way alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Timestamp>,
    /// From then to the daemon's first look in the new boot; none: not known, or the clock was set back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<u64>,
    /// From that look until the host and its pods were proved healthy.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub verify: u64,
}

// serde gives a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(seconds: &u64) -> bool {
    *seconds == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_none(pods: &u32) -> bool {
    *pods == 0
}

/// What the time after a step goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spent {
    /// For a slot; the name of the reason.
    Wait(&'static str),
    Undone,
    Claim,
    Drain,
    LastLook,
    Verify,
}

impl Times {
    /// The eviction of a pod was accepted.
    pub(crate) fn evicts(&mut self) {
        self.evicted = self.evicted.saturating_add(1).min(PODS_MAX);
    }

    /// A pod was deleted past its budget.
    pub(crate) fn deletes(&mut self) {
        self.deleted = self.deleted.saturating_add(1).min(PODS_MAX);
    }

    pub(crate) fn add(&mut self, spent: Spent, seconds: u64) {
        let to = match spent {
            Spent::Wait(_) if seconds == 0 => return,
            Spent::Wait(reason) => self.waits.entry(reason.to_owned()).or_default(),
            Spent::Undone => &mut self.undone,
            Spent::Claim => &mut self.claim,
            Spent::Drain => &mut self.drain,
            Spent::LastLook => &mut self.last_look,
            Spent::Verify => &mut self.verify,
        };
        *to = to.saturating_add(seconds).min(LONGEST);
    }

    /// The first look of the new boot: once, as the first of them is the one that counts.
    pub(crate) fn booted(&mut self, now: Timestamp) {
        if let Some(asked) = self.asked.take() {
            self.boot = between(asked, now);
        }
    }

    /// At the end of the cycle whose request began at `since` and whose slot was taken at `taken`.
    #[must_use]
    pub(crate) fn over(self, since: Option<Timestamp>, taken: Timestamp) -> Self {
        Self {
            slot: since.and_then(|since| between(since, taken)),
            asked: None,
            ..self
        }
    }

    /// Another attempt begins: what the last one took is lost.
    pub(crate) fn again(&mut self) {
        let lost = [self.claim, self.drain, self.last_look, self.verify];
        let undone = lost.into_iter().fold(self.undone, u64::saturating_add);
        *self = Self {
            waits: std::mem::take(&mut self.waits),
            undone: undone.min(LONGEST),
            ..Self::default()
        };
    }

    /// A number that no daemon has written.
    pub(crate) fn beyond(&self) -> bool {
        let seconds = [self.undone, self.claim, self.drain, self.last_look];
        let mut all = (seconds.iter())
            .chain([&self.verify])
            .chain(&self.slot)
            .chain(&self.boot)
            .chain(self.waits.values());
        all.any(|seconds| *seconds > LONGEST) || self.evicted.max(self.deleted) > PODS_MAX
    }

    /// As it came from the Node, where others write, too (I14).
    #[must_use]
    pub(crate) fn cleaned(self) -> Option<Self> {
        let waits = self.waits.iter().take(WAITS_MAX);
        let waits = waits.map(|(reason, seconds)| (text::clean(reason, NAME), *seconds));
        let waits = waits.collect();
        Some(Self { waits, ..self }).filter(|times| !times.beyond())
    }

    /// What the time to the slot went to, the longest first; none: to nothing that is known.
    fn each_wait(&self) -> Option<String> {
        let mut waits: Vec<_> = self.waits.iter().collect();
        waits.sort_by_key(|(_, seconds)| std::cmp::Reverse(**seconds));
        let each: Vec<String> = (waits.iter())
            .map(|(reason, seconds)| format!("{reason} {}", long(**seconds)))
            .collect();
        (!each.is_empty()).then(|| each.join(", "))
    }

    /// How long the node has waited for its slot while the daemon ran, in words; none: it did not wait.
    pub(crate) fn waited(&self) -> Option<String> {
        let all = self.waits.values().copied().fold(0, u64::saturating_add);
        Some(format!("{} ({})", long(all), self.each_wait()?))
    }

    /// What the cycle went to: seconds by the reason of the condition `RebootRequired`, without what took none.
    pub fn by_reason(&self) -> BTreeMap<String, u64> {
        let boot = self.last_look.saturating_add(self.boot.unwrap_or(0));
        let parts = [
            (Reason::Undoing, self.undone),
            (Reason::Claiming, self.claim),
            (Reason::Draining, self.drain),
            (Reason::Rebooting, boot),
            (Reason::Verifying, self.verify),
        ];
        let parts = parts.map(|(reason, seconds)| (reason.name().to_owned(), seconds));
        let waits = self.waits.clone().into_iter();
        waits.chain(parts).filter(|(_, it)| *it > 0).collect()
    }

    /// How long the drain took, and for how many pods, in words.
    pub(crate) fn drained(&self) -> String {
        let pods = match self.evicted {
            0 => "no pod evicted".to_owned(),
            1 => "1 pod evicted".to_owned(),
            pods => format!("{pods} pods evicted"),
        };
        let past = match self.deleted {
            0 => String::new(),
            deleted => format!(", {deleted} deleted past a budget"),
        };
        format!("{} ({pods}{past})", long(self.drain))
    }

    /// In words, the longest waits first.
    pub fn words(&self) -> String {
        let mut words = Vec::new();
        match (self.slot, self.each_wait()) {
            (Some(slot), None) => words.push(format!("slot after {}", long(slot))),
            (Some(slot), Some(each)) => {
                words.push(format!("slot after {} ({each})", long(slot)));
            }
            (None, Some(each)) => words.push(format!("waited for its slot: {each}")),
            (None, None) => {}
        }
        if self.undone > 0 {
            words.push(format!("failed attempts {}", long(self.undone)));
        }
        words.push(format!("drain {}", self.drained()));
        if let Some(boot) = self.boot {
            words.push(format!("boot {}", long(boot)));
        }
        words.push(format!("verified in {}", long(self.verify)));
        words.join(", ")
    }
}

/// Seconds for people.
pub(crate) fn long(seconds: u64) -> String {
    span(Duration::from_secs(seconds))
}

/// Whole seconds; none: the clock was set, back or by more than anything takes.
fn between(from: Timestamp, to: Timestamp) -> Option<u64> {
    let seconds = u64::try_from(to.duration_since(from).as_secs()).ok();
    seconds.filter(|seconds| *seconds <= LONGEST)
}

#[cfg(test)]
mod tests;
