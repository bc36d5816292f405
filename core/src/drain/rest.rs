//! From the cordon to the first eviction: load balancers get the time to send nobody here any more, and pods the time to end by
//! themselves (I9: none is asked to leave meanwhile). It is no part of `timeout`, and a restart of the daemon goes on with it
//! (I6).

use std::time::Duration;

use super::{Drain, Next, Policy, State, earliest};
use crate::text::span;

/// What is waited for before the first eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Load balancers take the Node out; none: they are told nothing.
    balancers: Option<Wait>,
    /// The node is only cordoned, while there is a pod that must leave.
    cordon: Wait,
}

/// One wait by its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    key: &'static str,
    time: Duration,
    /// Boot time of its end.
    until: Duration,
}

impl Rest {
    /// Of a cordon that landed at `since`; `excluded`: with the label for load balancers. Both waits begin then.
    pub(crate) fn new(policy: &Policy, since: Duration, excluded: bool) -> Self {
        let wait = |key, time| Wait {
            key,
            time,
            until: since.saturating_add(time),
        };
        Self {
            balancers: excluded
                .then(|| wait("drain.load_balancer_wait", policy.load_balancer_wait)),
            cordon: wait("drain.cordon_only", policy.cordon_only),
        }
    }

    /// What is still waited for at `now`, in words, and until when; none: nothing. Of two the longer one is named. `left`:
    /// a pod is there that must leave.
    pub(crate) fn waits(&self, left: bool, now: Duration) -> Option<(String, Duration)> {
        let cordon = Some(self.cordon).filter(|_| left);
        let waits = self.balancers.into_iter().chain(cordon);
        let waits = waits.filter(|wait| now < wait.until);
        let last = waits.max_by_key(|wait| wait.until)?;
        Some((format!("{} of {}", last.key, span(last.time)), last.until))
    }
}

impl Drain {
    /// What this drain waits for before its first eviction. To be told before all that is new: what passed while it waited
    /// does not count.
    pub(crate) fn rest(&mut self, since: Duration, excluded: bool, now: Duration) {
        let rest = Rest::new(&self.policy, since, excluded);
        if self.rest.replace(rest).is_none() || self.resting {
            self.clock.anew(now);
        }
    }

    /// Its policy says that pods are not asked to leave at once.
    pub(crate) fn only_cordons(&self) -> bool {
        !self.policy.cordon_only.is_zero()
    }

    /// The wait, if it is not over: nobody is asked to leave.
    pub(super) fn rests(&mut self, now: Duration) -> Option<Next> {
        let seen = self.synced && !self.blind;
        let left = !seen || !self.left.is_empty();
        let waits = self.rest.and_then(|rest| rest.waits(left, now));
        self.resting = waits.is_some();
        let (waits, until) = waits?;
        let held = self.left.values().filter_map(super::Entry::held_until);
        Some(Next {
            evict: Vec::new(),
            escalate: Vec::new(),
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
