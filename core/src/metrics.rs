//! What Prometheus is shown of a node (docs/operating.md, "Metrics and alerts"): a fixed set of families, each sample of which
//! follows from the step, the facts and what this process has counted. Nothing rests on them.
//!
//! No label has a value that others could make more and more of: no pods, no words for people (I14). Times are of the
//! host's wall clock, for display (I5).

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::decide::{Policy, Step};
use crate::facts::{Drained, Facts};
use crate::gates::Gate;
use crate::history::Past;
use crate::phase::Phase;
use crate::reason::Reason;
use crate::text::{NAME, clean};
use crate::trigger::Request;
use crate::waits;

mod counters;
mod family;
#[cfg(test)]
mod tests;

pub use counters::{Counters, Fault};
pub use family::{Family, Kind};

/// Triggers that are shown at most: more than anybody configures, and the record's copy on the Node is not ours alone.
const TRIGGERS: usize = 64;

/// The value of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// How often something happened.
    Count(u64),
    Number(f64),
    /// Seconds since then.
    Since(Timestamp),
}

impl Value {
    /// As a number, at this time of the host. What is to come has not begun.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    pub fn at(self, wall: Timestamp) -> f64 {
        match self {
            Self::Count(count) => count as f64,
            Self::Number(number) => number,
            Self::Since(then) => (wall.as_second() - then.as_second()).max(0) as f64,
        }
    }
}

/// One line of a family.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// In the order of [`Family::labels`].
    pub labels: Vec<String>,
    pub value: Value,
}

/// All that is shown at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    pub families: Vec<(Family, Vec<Sample>)>,
}

impl Page {
    /// What this step is, and what was counted until then.
    pub fn of(step: &Step, facts: &Facts, policy: &Policy, counters: &Counters) -> Self {
        let samples = |family: Family| (family, samples(family, step, facts, policy, counters));
        Self {
            families: Family::ALL.into_iter().map(samples).collect(),
        }
    }

    /// What a daemon that was stopped leaves behind: nothing that is not true any more.
    pub fn stopped() -> Self {
        Self {
            families: vec![(Family::Running, one(0.0))],
        }
    }
}

fn samples(
    family: Family,
    step: &Step,
    facts: &Facts,
    policy: &Policy,
    counters: &Counters,
) -> Vec<Sample> {
    let record = &step.record;
    let (request, hold) = (record.request.as_ref(), record.hold.as_ref());
    match family {
        Family::Running => one(1.0),
        Family::Info => {
            let mode = if policy.observe { "observe" } else { "active" };
            let version = env!("CARGO_PKG_VERSION");
            let labels = [version, &policy.group, mode];
            vec![sample(&labels, Value::Number(1.0))]
        }
        Family::Phase => each(Phase::ALL.map(|phase| (phase.name(), phase == step.phase))),
        Family::Reason => each(Reason::ALL.map(|reason| (reason.name(), reason == step.reason))),
        Family::RebootRequired => {
            let not = matches!(step.reason, Reason::Idle | Reason::TriggerUnknown);
            // As the condition: who wants the node drained alone wants no reboot.
            let reboots = request.is_none_or(Request::reboots);
            one(flag(!not && reboots))
        }
        Family::RequiredSince => {
            let reboots = request.filter(|request| request.reboots());
            moment(reboots.map(|request| request.since))
        }
        Family::TriggerAsks => asking(step),
        Family::GateClosed => {
            let closed = |gate| facts.closed.iter().any(|one| one.gate == gate);
            each(Gate::ALL.map(|gate| (gate.name(), closed(gate))))
        }
        Family::WaitingSeconds => since(record.waiting.as_ref().map(|waiting| waiting.since)),
        Family::HoldingSeconds => since(hold.map(|hold| hold.take.acquire_time)),
        Family::DrainSeconds => {
            let spent = hold.map_or(0, |hold| hold.drain_spent);
            one(match &facts.drain {
                Drained::Going { spent, .. } => spent.as_secs_f64(),
                _ => seconds(spent),
            })
        }
        Family::VerifySeconds => one(match step.phase {
            Phase::Verifying => facts.verifying.as_secs_f64(),
            _ => 0.0,
        }),
        Family::BlockedPods => {
            let blocked = u64::try_from(waits::blockers(facts).len()).unwrap_or(u64::MAX);
            one(seconds(blocked))
        }
        Family::FailedAttempts => {
            let failures = record
                .backoff
                .as_ref()
                .map_or(0, |backoff| backoff.failures);
            one(f64::from(failures))
        }
        Family::LastReboot => moment(record.history.first().map(|past| past.at)),
        Family::LastStages => stages(record.history.first()),
        Family::Evictions => counted(counters.evictions()),
        Family::Escalations => counted(counters.escalations()),
        Family::Reboots => {
            let ends = counters.ends();
            ends.map(|(labels, count)| sample(&labels, Value::Count(count)))
                .collect()
        }
        Family::ApiErrors => counted(counters.faults()),
        Family::Reloads => counted(counters.reloads()),
        Family::ReloadSuccessful => one(flag(facts.config_error.is_none())),
    }
}

/// How long each stage of a reboot took, as far as that is known.
fn stages(past: Option<&Past>) -> Vec<Sample> {
    let Some(times) = past.and_then(|past| past.times.as_ref()) else {
        return Vec::new();
    };
    let stages = [
        ("slot", times.slot),
        ("claim", Some(times.claim)),
        ("drain", Some(times.drain)),
        ("boot", times.boot),
        ("verify", Some(times.verify)),
    ];
    let known = stages
        .into_iter()
        .filter_map(|(stage, took)| Some((stage, took?)));
    known
        .map(|(stage, took)| sample(&[stage], Value::Number(seconds(took))))
        .collect()
}

/// The triggers that ask, each once.
fn asking(step: &Step) -> Vec<Sample> {
    let request = step.record.request.iter();
    let names = request.flat_map(|request| {
        let triggers = request.reasons.iter().map(|reason| &reason.trigger);
        triggers.chain(request.latched.iter().map(|wish| &wish.by))
    });
    let names: BTreeSet<String> = names.map(|name| clean(name, NAME)).collect();
    let yes = |name: String| sample(&[&name], Value::Number(1.0));
    names.into_iter().take(TRIGGERS).map(yes).collect()
}

fn sample(labels: &[&str], value: Value) -> Sample {
    Sample {
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        value,
    }
}

fn one(number: f64) -> Vec<Sample> {
    vec![sample(&[], Value::Number(number))]
}

fn flag(yes: bool) -> f64 {
    if yes { 1.0 } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn seconds(whole: u64) -> f64 {
    whole as f64
}

/// One label value each, all that there are.
fn each<const N: usize>(rows: [(&str, bool); N]) -> Vec<Sample> {
    let rows = rows.into_iter();
    rows.map(|(label, is)| sample(&[label], Value::Number(flag(is))))
        .collect()
}

fn counted(rows: impl Iterator<Item = (&'static str, u64)>) -> Vec<Sample> {
    rows.map(|(label, count)| sample(&[label], Value::Count(count)))
        .collect()
}

/// A time that is known, as seconds since 1970.
fn moment(at: Option<Timestamp>) -> Vec<Sample> {
    let at = at.into_iter();
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    at.map(|at| sample(&[], Value::Number(at.as_second() as f64)))
        .collect()
}

/// How long it lasts; 0: it does not.
fn since(at: Option<Timestamp>) -> Vec<Sample> {
    let value = at.map_or(Value::Number(0.0), Value::Since);
    vec![sample(&[], value)]
}
