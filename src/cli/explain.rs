//! `kube-rebootd explain`: why this node is where it is, with all that says so, and what would happen now.
//!
//! What the daemon sees is what it showed last, as for `status`. What would become of the pods, and who waits before this node,
//! the API server is asked here and now, because a person wants to know: evictions are dry runs (I9). Nothing is changed.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use jiff::{Timestamp, Unit};
use kube_rebootd_core::now::Now;
use serde::Serialize;

use super::status::{self, Known, Status};
use super::{block_on, print};
use crate::host::view::{self, State, Verdict};
use crate::root::Root;

mod cluster;
pub mod node;
mod page;
#[cfg(test)]
mod tests;
mod text;

use cluster::Asked;
pub use cluster::{Before, Drain, Fated, Queue};

/// `explain --json`, stable: all keys of `status --json`, and these. Keys are added, never renamed or removed. A key without a
/// value is `null`, times are RFC 3339 in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained {
    #[serde(flatten)]
    pub status: Status,
    /// The reason of the condition `RebootRequired`, by the running daemon.
    pub reason: Option<String>,
    /// Every configured trigger, the Node annotation among them, by the running daemon.
    pub triggers: Vec<Trigger>,
    /// Every gate, by the running daemon.
    pub gates: Vec<Gate>,
    /// What makes a request wait beside the gates.
    pub limits: Vec<Limit>,
    /// The place among those who wait for a slot; null: this node does not.
    pub queue: Option<Queue>,
    /// What a drain would do now.
    pub drain: Drain,
}

/// What one trigger says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trigger {
    pub trigger: String,
    /// `yes`, `no`, `unknown`, or `not-cleared`: it asks for what the last reboot was for, and is ignored.
    pub verdict: Verdict,
    pub words: String,
    pub since: Timestamp,
    /// From when on it counts, if it goes on to ask; null: it does not ask.
    pub settles: Option<Timestamp>,
}

/// How one gate stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gate {
    /// One of [`Gate::ALL`](kube_rebootd_core::gates::Gate::ALL), by its name.
    pub gate: String,
    /// `open`, `closed`, `unknown` (which counts as closed), `forced` (passed over by `gates.force_after`), or `not-looked-at` where nothing asks for a
    /// reboot, or somebody keeps the node drained.
    pub state: State,
    pub why: Option<String>,
    pub since: Timestamp,
    /// When it opens by itself; null: it is not closed, or that is not known.
    pub opens: Option<Timestamp>,
    /// The same in words, of a gate that is closed and has no time for it.
    pub opens_when: Option<String>,
}

/// What makes a request wait beside the gates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// `back-off`, `flapping` or `max-per-day`.
    pub limit: &'static str,
    pub why: String,
    pub until: Timestamp,
}

/// Prints it; 3 when the daemon does not run, 1 when systemd does not say whether it does.
pub fn main(root: &Root, file: Option<&Path>, json: bool) -> ExitCode {
    block_on(async {
        let known = status::known(root).await;
        let asked = Box::pin(cluster::ask(root, file, &known.record)).await;
        let now = known.now;
        let explained = explained(known, asked);
        if json {
            // Strings, numbers and timestamps only: nothing in it can fail to encode.
            let text = serde_json::to_string_pretty(&explained).unwrap_or_default();
            print(&format!("{text}\n"));
        } else {
            print(&text::page(&explained, now));
        }
        status::code(&explained.status)
    })
}

fn explained(known: Known, asked: Asked) -> Explained {
    let Known {
        now, status, view, ..
    } = known;
    let limits = limits(&status, &view, now);
    Explained {
        reason: Some(view.reason).filter(|reason| !reason.is_empty()),
        triggers: (view.triggers.into_iter())
            .map(|one| trigger(one, &status, now))
            .collect(),
        gates: view.gates.into_iter().map(|one| gate(one, now)).collect(),
        limits,
        queue: asked.queue,
        drain: asked.drain,
        status,
    }
}

/// A moment of this host's boot clock as people read it.
fn wall(at: Duration, now: Now) -> Timestamp {
    let moment = if at > now.boot {
        now.wall.checked_add(at.saturating_sub(now.boot))
    } else {
        now.wall.checked_sub(now.since(at))
    };
    // Unrepresentably far is for ever.
    let moment = moment.unwrap_or(Timestamp::MAX);
    moment.round(Unit::Second).unwrap_or(moment)
}

fn trigger(one: view::Trigger, status: &Status, now: Now) -> Trigger {
    // Older than this boot, perhaps.
    let mut reasons = status.reasons.iter();
    let reason = reasons.find(|reason| reason.trigger == one.trigger);
    let asked = reason.filter(|_| one.verdict == Verdict::Yes);
    Trigger {
        since: asked.map_or_else(|| wall(one.since, now), |reason| reason.since),
        trigger: one.trigger,
        verdict: one.verdict,
        words: one.words,
        settles: one.settles.map(|at| wall(at, now)),
    }
}

fn gate(one: view::Gate, now: Now) -> Gate {
    Gate {
        gate: one.gate,
        state: one.state,
        why: one.why,
        since: wall(one.since, now),
        opens: one.opens.map(|at| wall(at, now)),
        opens_when: one.opens_when,
    }
}

fn limits(status: &Status, view: &view::View, now: Now) -> Vec<Limit> {
    let backoff = status.backoff.as_ref().map(|later| Limit {
        limit: "back-off",
        why: format!(
            "{} failed in a row, the last because {}",
            later.failures, later.why
        ),
        until: wall(now.boot + Duration::from_secs(later.seconds_left), now),
    });
    let flapping = view.flapping.map(|until| Limit {
        limit: "flapping",
        why: "what asks for it came and went of late".to_owned(),
        until: wall(until, now),
    });
    let limited = view.limited.map(|until| Limit {
        limit: "max-per-day",
        why: "reboot.max_per_day is reached".to_owned(),
        until,
    });
    let all = [backoff, flapping, limited].into_iter().flatten();
    all.filter(|limit| limit.until > now.wall).collect()
}
