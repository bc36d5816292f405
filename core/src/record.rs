//! What must survive a crash: the state file and, in part, the Node annotation (I6).
//!
//! One record, written whole before every outside effect. Either copy alone is enough to finish: the
//! annotation carries all that the rest of a cycle needs, the file has the history and the back-off
//! besides. What is not known is passed over, as a newer daemon may have been here before; what an older one
//! must not pass over raises the [`VERSION`].

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::backoff::remembered;
use crate::boot::Boot;
use crate::history::Past;
use crate::kind::Kind;
use crate::now::Now;
use crate::slot::Waiting;
use crate::text::{self, MESSAGE, NAME, WORDS};
use crate::times::Times;
use crate::trigger::{Flaps, Latched, Request, Settled};

mod hold;
mod phase;
#[cfg(test)]
mod tests;
mod why;

pub use hold::{Hold, Stage};
pub use why::Why;

/// The format this build writes; a higher number is a newer build's and is not touched.
pub(crate) const VERSION: u32 = 1;

/// Reboots kept in the state file: at least as many as `reboot.max_per_day` may allow.
pub(crate) const HISTORY_MAX: usize = 100;

/// Of them, those shown in the Node annotation: enough to see a loop at a glance.
const HISTORY_SHOWN: usize = 8;
/// Of the newest of these, packages that are shown there: each has at most 300 characters, most have 20.
const PACKAGES_SHOWN: usize = 10;

/// Longest time that a clock of one boot, or of one drain, can say: 100 years.
const CLOCK_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Above any count of ours: a hold writes ahead some tens of times.
const COUNT_MAX: u64 = 1_000_000_000;

/// Everything durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
    /// The waiting record this node wants beside its heartbeat Lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Requests that ended without a reboot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flaps: Option<Flaps>,
    /// Autoscalers are kept from the Node for a while after a hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
    /// How the time of the cycle under way went so far, as of the last write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<Times>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Past>,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            version: VERSION,
            hold: None,
            request: None,
            settled: None,
            waiting: None,
            kept: None,
            backoff: None,
            flaps: None,
            guard: None,
            times: None,
            history: Vec::new(),
        }
    }
}

/// A cordon of ours that a person's pause turned into theirs, until `resume` or an uncordon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub node_uid: String,
    pub since: Timestamp,
    pub why: String,
}

/// For how long autoscalers are kept from the Node after a hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// It ends with this boot, or at `until` on its clock.
    pub boot: Boot,
    pub until: Duration,
}

impl Guard {
    pub(crate) fn lasts(&self, boot: &Boot, now: Duration) -> bool {
        self.boot == *boot && now < self.until
    }
}

/// In so long a time one failed attempt is forgotten: as long as the longest back-off.
const FORGOTTEN: Duration = Duration::from_secs(6 * 3600);

/// After a failed attempt: when the next may begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    pub failures: u32,
    /// The back-off ends with this boot, or at `until` on its clock.
    pub boot: Boot,
    pub until: Duration,
    pub why: String,
}

impl Backoff {
    /// How many failures still count at `now` of `boot`.
    pub(crate) fn left(&self, boot: &Boot, now: Duration) -> u32 {
        if self.boot != *boot {
            return 0;
        }
        remembered(self.failures, self.until, now, FORGOTTEN)
    }
}

/// Why a stored record cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    #[error("it is not a state record: {0}")]
    Damaged(String),
    #[error("version {0} was written by a newer kube-rebootd; this one knows {VERSION}")]
    Newer(u32),
}

/// Only the version, to tell a newer file from a damaged one.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Record {
    /// Where the Leases are: a slot stays where it was taken, whatever is configured meanwhile (I4).
    pub fn namespace<'a>(&'a self, configured: &'a str) -> &'a str {
        let hold = self.hold.as_ref();
        hold.map_or(configured, |hold| &hold.take.namespace)
    }

    /// The text of the state file.
    pub fn encode(&self) -> String {
        // A record holds only strings, numbers and timestamps: there is nothing that could fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// # Errors
    /// [`CodecError`] says whether the text is damaged or newer than this build.
    pub fn decode(text: &str) -> Result<Self, CodecError> {
        let damaged = |err: serde_json::Error| CodecError::Damaged(err.to_string());
        if !text.trim_start().starts_with('{') {
            // serde would read `[1]` as a record whose only field is its version.
            return Err(CodecError::Damaged("it is no JSON object".to_owned()));
        }
        let Versioned { version } = serde_json::from_str(text).map_err(damaged)?;
        match version {
            VERSION => {}
            0 => return Err(CodecError::Damaged("there is no version 0".to_owned())),
            newer => return Err(CodecError::Newer(newer)),
        }
        let mut record: Self = serde_json::from_str(text).map_err(damaged)?;
        // Nothing rests on them: no record is lost for them.
        record.times = record.times.filter(|times| !times.beyond());
        for past in &mut record.history {
            past.times = past.times.take().filter(|times| !times.beyond());
        }
        match record.beyond() {
            Some(what) => Err(CodecError::Damaged(format!("{what} is beyond all bounds"))),
            None => Ok(record),
        }
    }

    /// This record with everything in words cleaned: it came from the Node, where others write, too (I14).
    #[must_use]
    pub fn cleaned(mut self) -> Self {
        if let Some(hold) = &mut self.hold {
            hold.take.lease = text::name(&hold.take.lease, NAME);
            hold.take.namespace = text::name(&hold.take.namespace, NAME);
            if let Stage::Undoing(why) = &hold.stage {
                hold.stage = Stage::Undoing(why.clone().bounded());
            }
            hold.before = std::mem::take(&mut hold.before).cleaned();
            let askers = std::mem::take(&mut hold.askers).into_iter();
            hold.askers = askers.map(|by| text::clean(&by, WORDS)).collect();
        }
        self.request = self.request.map(Request::cleaned);
        if let Some(kept) = &mut self.kept {
            kept.why = text::clean(&kept.why, WORDS);
        }
        if let Some(backoff) = &mut self.backoff {
            backoff.why = text::clean(&backoff.why, MESSAGE);
        }
        self.times = self.times.and_then(Times::cleaned);
        self.history = self.history.into_iter().map(Past::cleaned).collect();
        self
    }

    /// A number that no daemon has written and that could not be counted with: `decide` adds to them.
    fn beyond(&self) -> Option<&'static str> {
        let hold = self.hold.as_ref();
        let (backoff, flaps) = (self.backoff.as_ref(), self.flaps.as_ref());
        let reasons = self.request.iter().flat_map(|request| &request.reasons);
        let counts = [
            ("hold.step", hold.map(|hold| hold.step)),
            ("hold.asks", hold.map(|hold| hold.asks.into())),
            (
                "backoff.failures",
                backoff.map(|backoff| backoff.failures.into()),
            ),
            ("flaps.times", flaps.map(|flaps| flaps.times.into())),
        ];
        let clocks = [
            (
                "hold.drain_spent",
                hold.map(|hold| Duration::from_secs(hold.drain_spent)),
            ),
            ("hold.asked", hold.and_then(|hold| hold.asked)),
            ("hold.cordoned", hold.and_then(|hold| hold.cordoned)),
            ("backoff.until", backoff.map(|backoff| backoff.until)),
            ("flaps.until", flaps.map(|flaps| flaps.until)),
            ("guard.until", self.guard.as_ref().map(|guard| guard.until)),
            (
                "settled.proved_boot",
                self.settled.as_ref().map(|settled| settled.proved_boot),
            ),
            (
                "since_boot of a reason",
                reasons.map(|reason| reason.since_boot).max(),
            ),
        ];
        let count = counts.iter().find(|(_, count)| *count >= Some(COUNT_MAX));
        let clock = clocks.iter().find(|(_, clock)| *clock >= Some(CLOCK_MAX));
        count
            .map(|(what, _)| *what)
            .or(clock.map(|(what, _)| *what))
    }

    /// The text of the Node annotation `kube-rebootd/state`: all that the rest of a cycle needs, at most some
    /// 30 KiB of it. All annotations of a Node share 256 KiB; what is only compared is kept as its hash.
    pub fn annotation(&self) -> Option<String> {
        if self.hold.is_none() && self.kept.is_none() {
            return None;
        }
        let mut carried = Self {
            history: Vec::new(),
            backoff: None,
            flaps: None,
            waiting: None,
            settled: None,
            guard: None,
            ..self.clone()
        };
        if let Some(request) = &mut carried.request {
            request.shorten();
        }
        if let Some(kept) = &mut carried.kept {
            kept.why = crate::trigger::wish(&kept.why);
        }
        let hold = carried.hold.as_mut();
        if let Some(marks) = hold.and_then(|hold| hold.marks.as_mut()) {
            marks.shorten();
        }
        serde_json::to_string(&carried).ok()
    }

    /// This record with its hold ordered back in `boot`; none when there is nothing to turn: no hold, one that goes back
    /// already, or a take that must first be answered.
    ///
    /// A person's order waits for no health: after a new boot the hold counts as one of this boot. The reboot that was asked
    /// for goes into the history unproved, as `max_per_day` counts it, and settles what it was for, which asks for no second
    /// one (I10).
    pub fn give_back(&self, boot: &Boot, now: Now) -> Option<Self> {
        let hold = self.hold.as_ref()?;
        let rebooted = hold.boot != *boot;
        match &hold.stage {
            Stage::Taking => return None,
            Stage::Undoing(_) if !rebooted => return None,
            Stage::Releasing if self.settled.as_ref().is_some_and(|s| s.boot == *boot) => {
                return None;
            }
            _ => {}
        }
        let mut record = self.clone();
        // From Uncordoned on it is settled and counted already, or no reboot of ours.
        let counted = matches!(hold.stage, Stage::Releasing);
        if rebooted && hold.asked() && !counted {
            let done = Kind::between(&hold.boot, boot);
            let times = self.times.clone().unwrap_or_default();
            let past = Past {
                kind: done,
                ..Past::of(self.request.as_ref(), now.wall)
            };
            let past = past.took(times, hold.take.acquire_time);
            record.history.insert(0, past);
            record.history.truncate(HISTORY_MAX);
            record.times = None;
            let request = record.request.take();
            let (served, left) = request.map_or((None, None), |it| it.served_by(done));
            let settled = Settled::by(done, served.as_ref(), boot, now.boot);
            record.settled = Some(settled.after(record.settled.take()));
            record.request = Request::with(served.and_then(Request::after_reboot), left);
        }
        record.hold = Some(Hold {
            step: hold.step + 1,
            boot: boot.clone(),
            stage: Stage::Undoing(Why::Ordered),
            ..hold.clone()
        });
        Some(record)
    }

    /// The same without wishes to keep the node drained; none: there is none.
    pub fn unkept(&self) -> Option<Self> {
        let request = self.request.as_ref()?;
        request.latched.iter().find_map(Latched::keeper)?;
        let request = request.clone().without(|it| it.keeper().is_some());
        let record = self.clone();
        Some(Self { request, ..record })
    }

    /// The text of the Node annotation `kube-rebootd/history`.
    pub(crate) fn history_annotation(&self) -> Option<String> {
        if self.history.is_empty() {
            return None;
        }
        let shown = self.history.iter().take(HISTORY_SHOWN);
        // All annotations of a Node share 256 KiB: of the newest alone it is told what it was for.
        let shown = shown.cloned().enumerate().map(|(index, mut past)| {
            past.later.clear();
            let kept = if index == 0 { PACKAGES_SHOWN } else { 0 };
            if past.packages.len() > kept {
                past.packages.truncate(kept);
                past.packages
                    .extend((kept > 0).then(|| "and more".to_owned()));
            }
            past
        });
        serde_json::to_string(&shown.collect::<Vec<_>>()).ok()
    }
}
