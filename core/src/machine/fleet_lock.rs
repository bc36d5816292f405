//! What becomes of what a client of FleetLock asks (I2, I6, I8).
//!
//! `pre-reboot` makes a request as any other. Its answer is yes once that has come to where logind would be asked; until then it is
//! told what is waited for. `steady-state` takes the request back, and is answered with yes when nothing of this host is held.

use std::time::Duration;

use super::Machine;
use crate::config::Mode;
use crate::decide::Step;
use crate::effect::Effect;
use crate::fleet_lock::{self, Answer, Ask, Kind, No};
use crate::now::Now;
use crate::phase::Phase;
use crate::record::{Hold, Record, Stage};
use crate::trigger::{Latched, Request};

use super::orders::latch;

/// From a yes to the shutdown the updater takes no longer, but for users it waits for, and then it asks again.
const LAST: Duration = Duration::from_secs(300);

impl Machine {
    /// What this question makes of the record; none: nothing. What is returned must be durable before it is answered (I6).
    ///
    /// # Errors
    /// It is answered at once: with no, and why.
    pub fn client_asks(&mut self, ask: Ask, now: Now) -> Result<Option<Record>, No> {
        // Also what is refused now shows that it still wants to.
        if ask == Ask::PreReboot {
            self.facts.client.asked = Some(now.boot);
        }
        if !self.facts.started {
            let why = "the daemon has just started, and the API server has not answered yet";
            return Err(No::new(Kind::NotReady, why));
        }
        let record = &self.facts.record;
        match ask {
            Ask::PreReboot if self.config.mode == Mode::Observe => Err(No::new(
                Kind::GateClosed,
                "mode = \"observe\": this daemon drains no node",
            )),
            Ask::PreReboot => {
                let known = record.request.as_ref().is_some_and(Request::of_client);
                // What is asked for now is then no part of what the reboot was for.
                let settles = |hold: &Hold| hold.settles(&self.facts.boot);
                if known || record.hold.as_ref().is_some_and(settles) {
                    return Ok(None);
                }
                let mut record = record.clone();
                let wish = Latched {
                    by: fleet_lock::BY.to_owned(),
                    reason: fleet_lock::reason(),
                    at: now.wall,
                    // Whoever reboots the host meanwhile does what was asked for.
                    boot: Some(self.facts.boot.clone()),
                    ended: false,
                    kind: crate::kind::Kind::Reboot,
                };
                latch(&mut record, wish, Latched::of_client);
                Ok(Some(record))
            }
            Ask::SteadyState => {
                let asked_before = |wish: &Latched| {
                    wish.of_client() && wish.boot.as_ref() == Some(&self.facts.boot)
                };
                let request = record.request.as_ref();
                if !request.is_some_and(|request| request.latched.iter().any(asked_before)) {
                    return Ok(None);
                }
                let mut record = record.clone();
                let request = record.request.take();
                record.request = request.and_then(|request| request.without(asked_before));
                Ok(Some(record))
            }
        }
    }

    /// Whether the client waits now for an answer to `pre-reboot`.
    pub fn client_waits(&mut self, waits: bool) {
        self.facts.client.waits = waits;
    }

    /// The reboot is the client's: it is told to go on, and logind is not asked.
    pub fn grants(&self) -> bool {
        let record = &self.facts.record;
        let granted = record.hold.as_ref().is_some_and(|hold| hold.granted);
        granted && record.request.as_ref().is_some_and(Request::of_client)
    }

    /// What the client is answered after this step was decided. None: it may change in a moment. `late`: nobody waits for that
    /// any longer.
    pub fn answers_client(&self, ask: Ask, step: &Step, now: Now, late: bool) -> Option<Answer> {
        let phase = step.phase;
        // A step that undoes, or reads what may end the hold, speaks against it.
        let rests = phase == Phase::Rebooting && step.effect == Effect::Wait;
        let moving = match ask {
            Ask::PreReboot if rests && self.granted() => return Some(self.again(now)),
            Ask::PreReboot => match phase {
                // Where it is idle, the next step begins something of it.
                Phase::Idle | Phase::Claiming | Phase::Draining | Phase::Rebooting => true,
                // What is being looked at may open the way.
                Phase::Pending => step.effect != Effect::Wait,
                Phase::Queued => step.effect != Effect::Wait || self.slot_is_free(),
                Phase::Undoing | Phase::Verifying | Phase::Releasing | Phase::Drained => false,
            },
            Ask::SteadyState if self.is_free() => return Some(Ok(())),
            Ask::SteadyState => true,
        };
        if !late && moving {
            return None;
        }
        let mut no = No::yet(phase, &step.status);
        let backoff = self.facts.record.backoff.as_ref();
        let waits = backoff.is_some_and(|it| it.boot == self.facts.boot && it.until > now.boot);
        if ask == Ask::PreReboot && phase == Phase::Pending && waits {
            no.kind = Kind::Undone;
        }
        Some(Err(no))
    }

    /// It may be this node's in a moment.
    fn slot_is_free(&self) -> bool {
        let group = self.group();
        let mut leases = self.facts.leases.values();
        leases.any(|lease| lease.group == group && lease.open())
    }

    /// Yes once more, unless the client's time is nearly over: it would reboot the host in the middle of the undoing.
    fn again(&self, now: Now) -> Answer {
        let hold = self.facts.record.hold.as_ref();
        let limit = self.config.reboot_within(true);
        let limit = hold.map_or(limit, |hold| hold.granted_within(limit));
        let asked = hold.and_then(|hold| hold.asked).unwrap_or_default();
        let last = asked.saturating_add(limit.saturating_sub(LAST.min(limit / 2)));
        if now.boot < last {
            return Ok(());
        }
        let why = "the time in which this host was to be rebooted is nearly over; ask again when the drain is undone";
        Err(No::new(Kind::Undone, why))
    }

    /// This process has told the client to go on, or tells it now: all that a reboot rests on was looked at, and the fence stands.
    fn granted(&self) -> bool {
        let hold = self.facts.record.hold.as_ref();
        let here = |hold: &Hold| hold.stage == Stage::Rebooting && hold.boot == self.facts.boot;
        hold.is_some_and(here) && self.facts.ask_accepted.is_some() && self.grants()
    }

    /// Nothing is held that the client has asked for, and no boot is to be proved. What others asked for in this boot does not
    /// concern it: Zincati looks for no update before it hears a yes.
    fn is_free(&self) -> bool {
        let Some(hold) = &self.facts.record.hold else {
            return true;
        };
        let gives_back = matches!(
            hold.stage,
            Stage::Undoing(_) | Stage::Uncordoned | Stage::Releasing
        );
        let kept = hold.stage == Stage::Drained;
        let others = self.facts.record.request.is_some();
        kept || others && hold.boot == self.facts.boot && !gives_back && !hold.granted
    }
}
