//! What becomes of what rebootmgr's clients ask (I6), and what they are shown.
//!
//! `Reboot` makes a wish for this boot as `kube-rebootd reboot` does. It is not a person's unless it says `now`: updaters ask by
//! themselves, and what they ask for is counted (I10). `Cancel` takes back this wish alone.

use super::Machine;
use super::orders::{Ordered, Wish};
use crate::config::Mode;
use crate::gates::Gate;
use crate::now::Now;
use crate::order::OrderError;
use crate::phase::Phase;
use crate::rebootmgr::{self, Ask, No, Shown, Stands};
use crate::trigger::{Latched, Request};

impl Machine {
    /// What this makes of the record, which must be durable before it is answered (I6).
    ///
    /// # Errors
    /// It is not done, and why.
    pub fn rebootmgr_asks(&self, ask: Ask, now: Now) -> Result<Ordered, No> {
        if !self.facts.started {
            return Err(OrderError::Starting.into());
        }
        let request = self.facts.record.request.as_ref();
        let wishes = request.iter().flat_map(|it| &it.latched);
        let known: Vec<&Latched> = wishes.filter(|wish| wish.of_rebootmgr()).collect();
        let asked_now = known.iter().any(|wish| wish.of_rebootmgr_now());
        let known = known.iter().map(|wish| wish.kind).max();
        match ask {
            // rebootmgr's own goes on as well, `now` or not; but a full one is asked for in place of a soft one.
            Ask::Reboot { kind, .. } if known >= Some(kind) => {
                self.follows()?;
                Err(No::Asked)
            }
            Ask::Reboot { kind, now: at_once } => {
                // Who asked for a soft one at once has not taken that back.
                let at_once = at_once || asked_now;
                let by = Ask::Reboot { kind, now: at_once }.name();
                let wish = Wish {
                    by,
                    reason: rebootmgr::REASON,
                    kind: Some(kind),
                    at_once,
                    replaces: Latched::of_rebootmgr,
                };
                Ok(self.with_times(self.wished(&wish, now)?))
            }
            Ask::Cancel if known.is_some() => {
                let ordered = self.taken_back(Latched::of_rebootmgr)?;
                Ok(self.with_times(ordered))
            }
            Ask::Cancel => Err(No::NotAsked),
        }
    }

    /// What everybody is shown in `phase`, which `words` tell of.
    pub fn rebootmgr_shows(&self, phase: Phase, words: &str) -> Shown {
        let facts = &self.facts;
        let request = facts.record.request.as_ref();
        let stands = if request.is_some_and(Request::reboots) {
            Stands::of(phase)
        } else {
            Stands::Nothing
        };
        let paused = |gate| matches!(gate, Gate::NodePaused | Gate::GroupPaused);
        let disabled = self.config.mode == Mode::Observe
            || facts.closed.iter().any(|closed| paused(closed.gate));
        Shown {
            stands,
            kind: facts.kind(),
            when: words.to_owned(),
            disabled,
        }
    }
}
