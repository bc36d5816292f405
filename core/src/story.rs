//! The story of a cycle, for the journal: what begins and why, what ended before it, and how long that took. It adds to
//! the sentence of STATUS what is of interest once, and sums the cycle up at its end.

use jiff::Timestamp;

use crate::boot::Boot;
use crate::booted;
use crate::decide::Step;
use crate::facts::Facts;
use crate::gates::State;
use crate::history::Past;
use crate::kind::Kind;
use crate::phase::Phase;
use crate::record::{Hold, Stage, Why};
use crate::times::{Times, long};
use crate::trigger::Request;
use crate::waits;

/// The sentence of `step`, which is told after one of `before`; none: nothing was told yet.
pub fn sentence(step: &Step, facts: &Facts, before: Option<Phase>) -> String {
    let status = &step.status;
    let proves = proves(step, facts);
    if before == Some(step.phase) && !proves {
        return status.clone();
    }
    let times = &facts.times;
    match step.phase {
        Phase::Idle if matches!(before, Some(Phase::Pending | Phase::Queued)) => {
            format!("{status}; what asked for it is gone")
        }
        Phase::Pending | Phase::Queued if begins(before) => match wanted(step) {
            Some(wanted) => format!("{wanted}; {status}"),
            None => status.clone(),
        },
        Phase::Claiming => {
            let waited = times.waited();
            let waited = waited.map_or_else(String::new, |it| format!(", after a wait of {it}"));
            format!("{status}{waited}{}", forced(facts))
        }
        Phase::Draining if before == Some(Phase::Claiming) => {
            let slot = step.record.hold.as_ref().map(|hold| &hold.take.lease);
            let slot = slot.map_or("", |lease| lease.as_str());
            format!("slot {slot} is taken: {status}, to drain it")
        }
        Phase::Rebooting | Phase::Drained if before == Some(Phase::Draining) => {
            format!("{status}; the drain took {}", times.drained())
        }
        Phase::Verifying if proves => {
            let after = long(times.verify);
            format!("{status}; systemd, kubelet and static pods were proved in {after}")
        }
        Phase::Verifying => match rebooted(step, facts) {
            Some(rebooted) => format!("{rebooted}; {status}"),
            None => status.clone(),
        },
        Phase::Releasing if before == Some(Phase::Verifying) => {
            let after = long(times.verify);
            format!("{status}; the host and the pods of DaemonSets were proved in {after}")
        }
        Phase::Undoing if times.drain > 0 || times.evicted > 0 => {
            format!("{status}; the drain had taken {}", times.drained())
        }
        _ => status.clone(),
    }
}

/// Gates that the request is too old for, and what they say.
fn forced(facts: &Facts) -> String {
    let forced = facts.gates.iter().filter_map(|one| match &one.state {
        State::Forced { why } => Some(&**why),
        State::Open | State::Closed { .. } | State::Unknown { .. } | State::Aside => None,
    });
    let forced: Vec<&str> = forced.collect();
    if forced.is_empty() {
        return String::new();
    }
    let forced = forced.join("; ");
    format!("; the request is older than gates.force_after, which passes over: {forced}")
}

/// No cycle was under way.
fn begins(before: Option<Phase>) -> bool {
    matches!(before, None | Some(Phase::Idle | Phase::Releasing))
}

/// The step that takes the cordon off, once the host is healthy.
fn proves(step: &Step, facts: &Facts) -> bool {
    let uncordoned = |hold: &Option<Hold>| {
        let stage = hold.as_ref().map(|hold| &hold.stage);
        stage == Some(&Stage::Uncordoned)
    };
    uncordoned(&step.record.hold) && !uncordoned(&facts.record.hold)
}

/// What begins, and for what.
fn wanted(step: &Step) -> Option<String> {
    let request = step.record.request.as_ref()?;
    let what = match request.kind() {
        _ if !request.reboots() => "the node is to be drained",
        Kind::Reboot => "a reboot is required",
        Kind::SoftReboot => "a soft-reboot is required",
    };
    let reasons = waits::reasons(step)?;
    let packages = request.packages();
    let packages = if packages.is_empty() {
        String::new()
    } else {
        format!(", packages {}", packages.join(", "))
    };
    Some(format!("{what}: {reasons}{packages}"))
}

/// That this is another boot than the one in which the slot was taken.
fn rebooted(step: &Step, facts: &Facts) -> Option<String> {
    let hold = step.record.hold.as_ref()?;
    if hold.boot == facts.boot || hold.boot == Boot::unknown() {
        return None;
    }
    let (was, now) = (&hold.before.booted, &facts.before.booted);
    let came = was.as_ref().zip(now.as_ref());
    let came = came.and_then(|(was, now)| booted::came(was, now));
    let came = came.map_or_else(String::new, |came| format!(": {came} came up"));
    let (did, came) = match Kind::between(&hold.boot, &facts.boot) {
        Kind::Reboot => ("the host has rebooted", came),
        // The kernel went on.
        Kind::SoftReboot => ("the host has soft-rebooted", String::new()),
    };
    Some(match facts.times.boot {
        _ if !hold.asked() => format!("{did}, and was not asked to by kube-rebootd{came}"),
        Some(boot) => format!("{did}, {} after it was asked to{came}", long(boot)),
        None => format!("{did}{came}"),
    })
}

/// How a hold ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its slot.
    pub lease: String,
    pub outcome: Outcome,
    /// Triggers, and who asked; empty: not known, or nobody any more.
    pub reasons: Vec<String>,
    /// The first of them, and how many more there were.
    pub packages: Vec<String>,
    /// When the first of the reasons was first seen.
    pub since: Option<Timestamp>,
    /// How the time went; none: it is not known.
    pub times: Option<Times>,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// And proved healthy.
    Rebooted,
    /// And proved healthy, but the update did not take, and what came up.
    RolledBack(String),
    /// For a person or a script, who has ended it.
    KeptDrained,
    /// Nothing was rebooted, and why.
    Undone(String),
}

impl Outcome {
    /// In one word, for searches.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Rebooted => "rebooted",
            Self::RolledBack(_) => "rolled-back",
            Self::KeptDrained => "kept-drained",
            Self::Undone(_) => "undone",
        }
    }

    /// The host was rebooted by it.
    pub fn reboots(&self) -> bool {
        match self {
            Self::Rebooted | Self::RolledBack(_) => true,
            Self::KeptDrained | Self::Undone(_) => false,
        }
    }
}

impl Ended {
    /// If a hold ends with `step`. One whose record was lost tells nothing.
    pub fn of(step: &Step, facts: &Facts) -> Option<Self> {
        let hold = facts.record.hold.as_ref()?;
        if step.record.hold.is_some() || hold.boot == Boot::unknown() {
            return None;
        }
        let lease = hold.take.lease.clone();
        let why = match &hold.stage {
            Stage::Releasing => {
                let done = facts.record.history.first();
                return done.map(|past| Self::reboot(lease, past));
            }
            Stage::Undoing(why) => why,
            // Another node got the slot.
            _ => return None,
        };
        let outcome = match why {
            Why::Maintained => Outcome::KeptDrained,
            why => Outcome::Undone(why.words()),
        };
        let request = facts.record.request.as_ref();
        let past = Past::of(request, hold.take.acquire_time);
        Some(Self {
            lease,
            outcome,
            since: past.since.iter().min().copied(),
            reasons: past.reasons,
            packages: request.map(Request::packages).unwrap_or_default(),
            times: Some(facts.times.clone()),
            kind: request.map_or(Kind::Reboot, Request::kind),
        })
    }

    /// The history has it since the host was proved.
    fn reboot(lease: String, past: &Past) -> Self {
        Self {
            lease,
            outcome: (past.rolled_back.clone()).map_or(Outcome::Rebooted, Outcome::RolledBack),
            reasons: past.reasons.clone(),
            packages: past.packages.clone(),
            since: past.since.iter().min().copied(),
            times: past.times.clone(),
            kind: past.kind,
        }
    }

    /// For people.
    pub fn words(&self) -> String {
        let reasons = match self.reasons.as_slice() {
            [] => String::new(),
            reasons => format!(" for {}", reasons.join(", ")),
        };
        let packages = match self.packages.as_slice() {
            [] => String::new(),
            packages => format!(" ({})", packages.join(", ")),
        };
        let since = self.since;
        let since = since.map_or_else(String::new, |since| format!(", first seen {since:.0}"));
        let wanted = reasons + &packages + &since;
        let times = self.times.as_ref();
        let all = || times.map_or_else(String::new, |times| format!(": {}", times.words()));
        let did = match self.kind {
            Kind::Reboot => "rebooted",
            Kind::SoftReboot => "soft-rebooted",
        };
        match &self.outcome {
            Outcome::Rebooted => format!("{did}{wanted}{}", all()),
            Outcome::RolledBack(why) => {
                let took = all();
                format!("{did}{wanted}, but the update did not take ({why}){took}")
            }
            Outcome::KeptDrained => {
                let took = times.map_or_else(String::new, |it| format!(": drain {}", it.drained()));
                format!("kept drained{wanted}{took}")
            }
            Outcome::Undone(why) => {
                let took = times.map_or_else(String::new, |it| format!("; drain {}", it.drained()));
                format!("not {did}{wanted}: {why}{took}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
