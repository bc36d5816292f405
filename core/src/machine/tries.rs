//! Evictions that are tried before a cordon: when, and who would be refused (I9).

use std::time::Duration;

use super::Machine;
use crate::drain::{self, Blocker, Try};
use crate::now::Now;
use crate::pod::{EvictAnswer, Pod};
use crate::record::Stage;

/// So long what was answered is told; a reboot may wait for days, and five thousand nodes may wait at once.
const AGAIN: Duration = Duration::from_secs(6 * 3600);

/// What this process knows of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// When it was last looked what to try; none: never, for this request.
    looked: Option<Duration>,
    to_try: Vec<Try>,
    refused: Vec<Blocker>,
}

impl Seen {
    /// A hold has begun or ended: before the next one all is tried anew, and until then this is what is known.
    pub(super) fn forget_hold(&mut self) {
        self.looked = None;
        self.to_try.clear();
    }

    /// Some would be refused.
    pub(super) fn refuses(&self) -> bool {
        !self.refused.is_empty()
    }
}

impl Machine {
    /// It is to be looked what to try: somebody wants a reboot, and pods will be evicted for it.
    pub(super) fn tries_due(&self, now: Now) -> bool {
        let looked = self.memory.tries.looked;
        self.facts.started
            && self.waits()
            && self.config.drain.mode.evicts(self.lonely())
            && looked.is_none_or(|looked| now.since(looked) >= AGAIN)
    }

    /// The own pods are seen before the cordon.
    pub(super) fn look_what_to_try(&mut self, pods: &[Pod], now: Now) {
        if self.tries_due(now) {
            self.memory.tries = Seen {
                looked: Some(now.boot),
                to_try: drain::to_try(pods, &self.config.drain.policy),
                refused: Vec::new(),
            };
        }
    }

    /// The evictions to be tried now: they count as asked from here on.
    pub fn tries(&mut self) -> Vec<Try> {
        std::mem::take(&mut self.memory.tries.to_try)
    }

    /// What was answered.
    pub fn tried(&mut self, tried: Vec<(Try, EvictAnswer)>) {
        self.memory.tries.refused = drain::refused(tried);
    }

    /// Pods that a drain could not evict now, until it begins.
    pub(super) fn refusing(&self) -> Vec<Blocker> {
        let hold = self.facts.record.hold.as_ref();
        let claims = |stage: &Stage| matches!(stage, Stage::Taking | Stage::Claiming);
        let before = hold.map_or_else(|| self.waits(), |hold| claims(&hold.stage));
        if before && self.config.drain.mode.evicts(self.lonely()) {
            return self.memory.tries.refused.clone();
        }
        Vec::new()
    }

    /// Nothing is wanted any more: what is wanted next is tried anew.
    pub(super) fn forget_tries(&mut self) {
        if self.facts.record.hold.is_none() && self.facts.observed.request.is_none() {
            self.memory.tries = Seen::default();
        }
    }
}
