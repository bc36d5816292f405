//! What asks for a reboot: the triggers, the Node annotation, a scheduled shutdown (I8, I10).

use std::time::Duration;

use super::Machine;
use crate::config::Mode;
use crate::history;
use crate::names;
use crate::node::Seen;
use crate::now::Now;
use crate::phase::Phase;
use crate::record::Hold;
use crate::shutdown::{self, Scheduled};
use crate::trigger::{self, Asked, Finding, Wishes};

/// After a cancellation that failed.
const CANCEL_AGAIN: Duration = Duration::from_secs(5);

impl Machine {
    /// Why no scheduled shutdown becomes a request now.
    fn hindrance(&self) -> Option<&'static str> {
        let settles = |hold: &Hold| hold.settles(&self.facts.boot);
        match self.config.mode {
            Mode::Observe => Some("mode is \"observe\""),
            Mode::Active if !self.facts.started => {
                Some("it is taken over when the API server has answered")
            }
            Mode::Active if self.phase() == Phase::Drained => {
                Some("somebody keeps this node drained, and works on it")
            }
            Mode::Active if self.facts.record.hold.as_ref().is_some_and(settles) => {
                Some("it is taken over when this node has given its slot up")
            }
            Mode::Active => None,
        }
    }

    /// The node is drained, holds its slot, and has asked for the reboot: one that is scheduled goes around neither.
    fn going_down(&self) -> bool {
        let hold = self.facts.record.hold.as_ref();
        self.phase() == Phase::Rebooting && hold.is_some_and(Hold::asked)
    }

    /// A shutdown that somebody else scheduled: taken over, or told of once per change.
    fn scheduled(&mut self, now: Now) {
        let adoption = self.config.triggers.scheduled_shutdown;
        let hindrance = self.hindrance();
        let host = self.memory.host.as_ref();
        let scheduled = host.and_then(|host| host.scheduled.as_ref());
        let preparing = host.and_then(|host| host.shutting_down);
        let tried = self.memory.cancelled;
        let again = tried.is_none_or(|tried| now.since(tried) >= CANCEL_AGAIN);
        self.facts.adopts = shutdown::adopted(scheduled, preparing, adoption, hindrance, now.wall)
            .filter(|_| again)
            .cloned();
        let warning = scheduled
            .filter(|_| preparing == Some(false) && !self.going_down())
            .and_then(|it| shutdown::warning(it, adoption, hindrance, now.wall));
        if let Some(words) = warning.clone().filter(|_| self.memory.warned != warning) {
            self.say(words);
        }
        self.memory.warned = warning;
    }

    /// Whether a reboot is wanted, by what the triggers found and the Node's annotation says; and what the watches tell of
    /// pods that would stop the drain, and of the kubelet's life. What is due rests on it.
    pub fn observe(&mut self, findings: &[Finding], now: Now) {
        self.scheduled(now);
        let adopts = self.facts.adopts.as_ref().map(Scheduled::words);
        let record = &self.facts.record;
        let annotation = match &self.facts.node {
            _ if !self.config.triggers.node_annotation => Asked::No,
            Seen::Present(node) => match node.annotations.get(names::REBOOT) {
                Some(text) => Asked::Yes(text),
                None => Asked::No,
            },
            Seen::Absent => Asked::No,
            Seen::Unknown => Asked::Unknown,
        };
        let asked = (self.config.triggers.node_annotation).then(|| annotation.finding());
        let all = findings.iter().cloned().chain(asked);
        let heard = trigger::heard(&self.facts.heard, all, now.boot);
        let off = self.config.fleet_lock.is_none();
        let client_gone = self.facts.client.silent(now) || off;
        self.facts.observed = trigger::observe(
            record.request.clone(),
            record.settled.clone(),
            findings,
            Wishes {
                annotation,
                scheduled: adopts.as_deref(),
                staged: self.memory.staged.as_deref(),
                client_gone,
                kinds: self.kinds(),
            },
            &self.facts.boot,
            now,
        );
        self.facts.heard = heard;
        let most = usize::try_from(self.config.reboot.max_per_day).unwrap_or(usize::MAX);
        self.facts.limited = history::over_daily_limit(&record.history, most, now.wall);
        self.seen_before_cordon(now);
        if self.verifying() && self.facts.started {
            self.memory.pulse.node(&self.facts.node, now.boot);
        }
    }
}
