//! `gates.force_after`: gates that keep a request waiting for so long and no longer.
//!
//! The age of a request is measured with the wall clock, as it outlives boots. A clock that stands before the beginning of the
//! request opens nothing (I8).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Gate, State};
use crate::now::Now;
use crate::trigger::Request;

/// What the configuration says about it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Force {
    /// How old the request must be; zero: no request is ever old enough.
    pub after: Duration,
    /// Which gates are passed over then.
    pub gates: Vec<Gate>,
}

impl Force {
    /// What may be listed. Not what a person's pause says; not another daemon, whose lock is none of ours; not what would stop
    /// the drain or the reboot later all the same (pods that may not be evicted, inhibitors); not package managers, which leave
    /// a host that does not boot; not an API server without which the control plane may be down; and nothing that is over within an hour by itself.
    pub(crate) const WORDS: &'static [(&'static str, Gate)] = &[
        ("windows", Gate::Windows),
        ("alerts", Gate::Alerts),
        ("autoscaler", Gate::Autoscaler),
        ("conditions", Gate::Conditions),
        ("protected-pods", Gate::ProtectedPods),
        ("capacity", Gate::Capacity),
        ("live-patches", Gate::LivePatches),
        ("commands", Gate::Commands),
        ("users", Gate::Users),
    ];

    /// When `gate` is passed over for this request; none: never. It is as old as what asks for a reboot now: a wish to keep the
    /// node drained ages nothing, and neither does a reason that has gone.
    fn since(&self, gate: Gate, request: Option<&Request>) -> Option<Timestamp> {
        if self.after.is_zero() || !self.gates.contains(&gate) {
            return None;
        }
        let after = SignedDuration::try_from(self.after).ok()?;
        let request = request?;
        let reasons = request.reasons.iter().map(|one| one.since);
        let wishes = request.latched.iter().filter(|one| one.keeper().is_none());
        let first = reasons.chain(wishes.map(|one| one.at)).min()?;
        first.checked_add(after).ok()
    }

    /// The request is old enough for `gate` to be passed over.
    pub(crate) fn passes(&self, gate: Gate, request: Option<&Request>, now: Now) -> bool {
        let since = self.since(gate, request);
        since.is_some_and(|since| since <= now.wall)
    }

    /// What `state` of the gate comes to.
    pub(super) fn over(
        &self,
        gate: Gate,
        state: State,
        request: Option<&Request>,
        now: Now,
    ) -> State {
        let Some(since) = self.since(gate, request) else {
            return state;
        };
        if since <= now.wall {
            return match state {
                State::Closed { why, .. } | State::Unknown { why } => State::Forced { why },
                state @ (State::Open | State::Aside | State::Forced { .. }) => state,
            };
        }
        match state {
            State::Closed { why, opens } => {
                let left = Duration::try_from(since.duration_since(now.wall)).unwrap_or_default();
                let forced = now.boot.saturating_add(left);
                let opens = Some(opens.map_or(forced, |opens| opens.min(forced)));
                State::Closed { why, opens }
            }
            state => state,
        }
    }
}
