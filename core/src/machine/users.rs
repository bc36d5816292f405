//! Users of the host are told before it goes: a warning when they are all that is in the way, and a word when the drain begins.

use std::time::Duration;

use super::Machine;
use crate::config::Mode;
use crate::decide::Step;
use crate::gates::{Stretch, UserFacts, UserPolicy};
use crate::now::Now;
use crate::phase::Phase;
use crate::reason::Reason;
use crate::text::{MESSAGE, clean};
use crate::trigger::Request;
use crate::users::Users;
use crate::waits;

impl Machine {
    /// Whether logind is to be asked who is logged in. Also while nothing is wanted, when the host is looked at seldom: what
    /// begins to ask for a reboot is not to wait for the next look.
    pub fn users_matter(&self) -> bool {
        self.config.gates.users != Users::Ignore
    }

    pub(super) fn user_policy(&self) -> UserPolicy {
        let gates = &self.config.gates;
        UserPolicy {
            users: gates.users,
            idle: gates.users_idle,
            delay: gates.users_delay,
        }
    }

    pub(super) fn user_facts(&self, begun: bool) -> UserFacts<'_> {
        let host = self.memory.host.as_ref();
        let request = self.facts.observed.request.as_ref();
        UserFacts {
            sessions: host.and_then(|host| host.sessions.as_deref()),
            warned: &self.memory.warned_users,
            stretch: self.memory.waits_for_users,
            begun,
            urgent: request.is_some_and(Request::urgent),
        }
    }

    /// What everybody who is logged in is told now, if anything: each message once.
    pub(super) fn warn_users(&mut self, step: &Step, now: Now) {
        let gates = &self.config.gates;
        let Some(sessions) = (self.memory.host.as_ref()).and_then(|host| host.sessions.as_ref())
        else {
            return;
        };
        self.memory
            .warned_users
            .retain(|id, _| sessions.iter().any(|session| session.id == *id));
        if gates.users != Users::Warn || self.config.mode == Mode::Observe {
            return;
        }
        if step.phase == Phase::Claiming
            && let Some(before) = self.memory.waits_for_users
        {
            // Who was not waited for any more before the take is not waited for until the cordon either.
            self.memory.waits_for_users =
                Some(Stretch::on(Some(before), gates.users_delay, now.boot));
        }
        let active = sessions.iter().filter(|one| one.active(gates.users_idle));
        let why = waits::reasons(step).unwrap_or_default();
        // The gate of users is the last: all others are open.
        if step.phase == Phase::Pending && step.reason == Reason::UsersLoggedIn {
            let before = self.memory.waits_for_users;
            self.memory.waits_for_users = Some(Stretch::on(before, gates.users_delay, now.boot));
            let warned = &mut self.memory.warned_users;
            let new: Vec<String> = active
                .filter(|session| !warned.contains_key(&session.id))
                .map(|session| session.id.clone())
                .collect();
            if new.is_empty() {
                return;
            }
            warned.extend(new.into_iter().map(|id| (id, now.boot)));
            let when = soon(gates.users_delay);
            self.walls.push(clean(
                &format!(
                    "kube-rebootd: this host is to be drained and rebooted {when}, or later: {why}. \
                     `sudo kube-rebootd status` tells more, `sudo kube-rebootd pause` keeps it up."
                ),
                MESSAGE,
            ));
        } else if step.phase == Phase::Draining
            && self.memory.begun
            && !self.memory.drain_told
            && self
                .facts
                .record
                .request
                .as_ref()
                .is_some_and(Request::reboots)
        {
            self.memory.drain_told = true;
            if sessions.is_empty() {
                return;
            }
            self.walls.push(clean(
                &format!("kube-rebootd: this host is being drained, and reboots then: {why}."),
                MESSAGE,
            ));
        }
    }
}

fn soon(delay: Duration) -> String {
    match delay.as_secs().div_ceil(60) {
        0 => "now".to_owned(),
        1 => "in a minute".to_owned(),
        minutes => format!("in {minutes} minutes"),
    }
}
