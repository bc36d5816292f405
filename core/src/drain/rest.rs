//! From the cordon to the first eviction: load balancers get the time to send nobody here any more (I9: no pod is asked to
//! leave meanwhile). It is no part of `timeout`, and a restart of the daemon goes on with it (I6).

use std::time::Duration;

use super::{Drain, Next, Policy, State, earliest};
use crate::text::span;

/// What is waited for before the first eviction; every time is on the boot clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Until then load balancers take the Node out.
    balancers: Option<(Duration, Duration)>,
}

impl Rest {
    /// Of a cordon that landed at `since`; `excluded`: with the label for load balancers.
    pub(crate) fn new(policy: &Policy, since: Duration, excluded: bool) -> Self {
        let until = |wait: Duration| (since.saturating_add(wait), wait);
        Self {
            balancers: excluded.then(|| until(policy.load_balancer_wait)),
        }
    }

    /// What is still waited for at `now`, in words, and until when; none: nothing.
    pub(crate) fn waits(&self, now: Duration) -> Option<(String, Duration)> {
        let (until, wait) = self.balancers.filter(|(until, _)| now < *until)?;
        let words = format!("drain.load_balancer_wait of {}", span(wait));
        Some((words, until))
    }
}

impl Drain {
    /// What this drain waits for before its first eviction. To be told before all that is new: no time counts up to `now`.
    pub(crate) fn rest(&mut self, since: Duration, excluded: bool, now: Duration) {
        let rest = Rest::new(&self.policy, since, excluded);
        let rested = self.rest.replace(rest).is_some();
        if rest.waits(now).is_some() || (rested && self.resting) {
            self.clock.anew(now);
        }
    }

    /// The wait, if it is not over: nobody is asked to leave.
    pub(super) fn rests(&mut self, now: Duration) -> Option<Next> {
        let waits = self.rest.and_then(|rest| rest.waits(now));
        self.resting = waits.is_some();
        let (waits, until) = waits?;
        let held = self.left.values().filter_map(super::Entry::held_until);
        Some(Next {
            evict: Vec::new(),
            state: State::Resting {
                left: self.left.len(),
                waits,
            },
            held_by_finalizer: self.held_by_finalizer(),
            confirm: false,
            wake: earliest(Some(until), held.min().filter(|_| !self.blind)),
        })
    }
}
