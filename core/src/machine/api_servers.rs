//! Whether the other API servers of the control plane are ready, and when they are to be asked (I2, I7, I8, I13).
//!
//! They are asked beside the loop. As for Prometheus, [`Machine::answers_after`] says since when an answer must have been asked for.

use std::time::Duration;

use super::Machine;
use crate::gates::ApiServers;
use crate::node::Seen;
use crate::now::Now;

impl Machine {
    /// From which boot time on they must have been asked. None: nothing rests on it. A Node that is not known may be one of the
    /// control plane.
    fn api_servers_after(&self, now: Duration) -> Option<Duration> {
        let other = matches!(&self.facts.node, Seen::Present(node) if !node.quorum());
        if self.config.gates.api_servers.is_empty() || other {
            return None;
        }
        self.answers_after(now)
    }

    /// They are to be asked now: whoever does tells it by [`Self::asks_api_servers`].
    pub fn api_servers_due(&mut self, now: Now) -> bool {
        let Some(after) = self.api_servers_after(now.boot) else {
            // What was said is void.
            self.memory.api_servers = None;
            return false;
        };
        let held = self.facts.record.hold.is_some();
        let one = self.memory.api_servers.as_ref();
        one.is_none_or(|one| one.rest(one.period(held), after, now.boot).is_zero())
    }

    /// They are asked now.
    pub fn asks_api_servers(&mut self, now: Now) {
        self.memory.api_servers.get_or_insert_default().asks(now);
    }

    /// Which of them are not ready, in words; none: all are. They were asked at `asked`.
    pub fn saw_api_servers(&mut self, asked: Duration, unready: Option<String>) {
        let one = self.memory.api_servers.as_mut();
        // Else nobody waits for it any more.
        if let Some(one) = one.filter(|one| one.was_asked(asked)) {
            one.answers(asked, Ok(unready));
        }
    }

    /// What the gate rests on.
    pub(super) fn api_servers(&self, now: Now) -> ApiServers<'_> {
        let Some(after) = self.api_servers_after(now.boot) else {
            return ApiServers::Ignored;
        };
        let last = self.memory.api_servers.as_ref();
        let last = last.and_then(|one| one.last(now));
        match last.filter(|(asked, _)| *asked >= after) {
            None => ApiServers::Asked,
            Some((_, Ok(None))) => ApiServers::Ready,
            Some((_, Ok(Some(why)) | Err(why))) => ApiServers::NotReady(why),
        }
    }

    /// Since when what counts was asked for, if it was answered.
    pub(super) fn api_servers_asked(&self, now: Now) -> Option<Duration> {
        if self.api_servers_after(now.boot).is_none() {
            // There is nothing to wait for.
            return Some(Duration::MAX);
        }
        let one = self.memory.api_servers.as_ref();
        one.and_then(|one| one.last(now)).map(|(asked, _)| asked)
    }
}
