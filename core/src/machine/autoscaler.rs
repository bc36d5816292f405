//! What autoscalers say of the own Node by their taints, and how long a node that is only a candidate waits (I2, I5).

use std::time::Duration;

use jiff::Timestamp;

use super::Machine;
use super::gates::cordoned;
use crate::gates::Signs;
use crate::names;
use crate::node::{Node, Seen};
use crate::now::Now;

/// How long a candidate of cluster-autoscaler waits to be removed: three times the default of `--scale-down-unneeded-time`, after
/// which something keeps it, a budget or the least size of its group; and the taint may stay on a node that is needed
/// again.
const CANDIDATE: Duration = Duration::from_secs(30 * 60);

/// The own Node is a candidate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// As the taint says.
    since: Option<Timestamp>,
    /// Boot time at which that keeps nothing waiting any more.
    until: Duration,
}

impl Machine {
    /// Notes for how long the taint counts: from when it says that it was set, by the wall clock at the first look, but from that look
    /// where that is later. A clock that is wrong has it count for a shorter time, never for longer.
    pub(super) fn note_candidate(&mut self, now: Now) {
        let Seen::Present(node) = &self.facts.node else {
            return;
        };
        if !is_candidate(node) {
            self.memory.candidate = None;
            return;
        }
        let since = node.candidate;
        if self.memory.candidate.is_some_and(|one| one.since == since) {
            return;
        }
        let age = since.map(|since| now.wall.duration_since(since));
        let age = age.and_then(|age| Duration::try_from(age).ok());
        let until = now.boot + CANDIDATE.saturating_sub(age.unwrap_or_default());
        self.memory.candidate = Some(Candidate { since, until });
    }

    /// What they say before the cordon. After it they are not asked: a drained node looks unused, so that they mark
    /// what this drain has emptied, and an undoing would fill it and have it marked off again, over and over. One that
    /// removes the node meanwhile needs nothing of us: its pods leave either way.
    pub(super) fn autoscaler(&self, now: Now) -> Signs {
        let hold = self.facts.record.hold.as_ref();
        if hold.is_some_and(|hold| cordoned(&hold.stage)) {
            return Signs::Seen(Vec::new());
        }
        let waits = self.candidate_waits(now).is_some();
        self.signs(|node| {
            let all = node.taints.iter().filter(|key| speaks(key, waits));
            all.cloned().collect()
        })
    }

    /// When the gate opens by itself, where nothing closes it but that the node is a candidate.
    pub(super) fn candidate_until(&self, now: Now) -> Option<Duration> {
        let until = self.candidate_waits(now)?;
        let Seen::Present(node) = &self.facts.node else {
            return None;
        };
        let mut others = node.taints.iter().filter(|key| speaks(key, false));
        others.next().is_none().then_some(until)
    }

    fn candidate_waits(&self, now: Now) -> Option<Duration> {
        let until = self.memory.candidate.map(|one| one.until);
        until.filter(|until| now.boot < *until)
    }
}

fn is_candidate(node: &Node) -> bool {
    node.taints.iter().any(|key| key == names::CANDIDATE)
}

/// Whether this taint speaks against a reboot; `candidate`: that of a candidate does, too.
fn speaks(key: &str, candidate: bool) -> bool {
    names::AUTOSCALER_TAINTS.contains(&key) && (candidate || key != names::CANDIDATE)
}
