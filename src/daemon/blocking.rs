//! Pods that would stop a drain, before the cordon: they close a gate, where anything is evicted at all (I2, I8).

use std::time::Duration;

use kube_rebootd_core::drain;
use kube_rebootd_core::gates::Blocking;
use kube_rebootd_core::now::Now;
use kube_rebootd_core::peers::Census;
use kube_rebootd_core::record::Stage;

use super::Daemon;
use crate::cluster::peers;

/// How often pods that close the gate before the cordon are listed again where their watch shows nothing.
const BLOCKING_AGAIN: Duration = Duration::from_secs(60);
/// How often it is looked for other Nodes meanwhile: a cluster rarely begins or ceases to have any.
const ALONE_AGAIN: Duration = Duration::from_secs(5 * 60);

impl Daemon {
    /// Something asks for a reboot, no slot is held, and pods would stop the drain.
    pub(super) fn blocked_before(&self) -> bool {
        let known = self.memory.blocking.as_ref();
        self.facts.record.hold.is_none()
            && self.facts.observed.request.is_some()
            && known.is_some_and(|(_, blockers)| !blockers.is_empty())
    }

    /// Pods that would stop a drain, looked at before the queue: by one list, as waiting is long; while there are
    /// some, by a watch, which tells at once when the last of them has gone.
    pub(super) async fn blocking(&mut self, now: Now) {
        let wanted = self.facts.started
            && self.facts.record.hold.is_none()
            && self.facts.observed.request.is_some();
        if self.blocked_before()
            && let Some(pods) = &self.memory.pods
        {
            let blockers = drain::seen_before_cordon(pods, &self.memory.drain_policy);
            self.memory.blocking = Some((now.boot, blockers));
            return;
        }
        let known = self.memory.blocking.as_ref();
        let due = known.is_none_or(|(read, blockers)| {
            !blockers.is_empty() && now.since(*read) >= BLOCKING_AGAIN
        });
        if !wanted
            || !due
            || self.memory.mode == drain::Mode::Never
            || self.patience.until(now.boot).is_some()
        {
            return;
        }
        let Some(connected) = self.api.connected() else {
            return;
        };
        self.patience.asks(false);
        match connected.pods.list().await {
            Ok(pods) => {
                let blockers = drain::seen_before_cordon(&pods, &self.memory.drain_policy);
                self.memory.blocking = Some((now.boot, blockers));
                self.memory.unmanaged = drain::not_made_again(&pods, &self.memory.drain_policy);
                self.patience.worked(now.boot);
            }
            Err(err) => self.failed(&err),
        }
    }

    /// While pods close the gate: where the cluster has no other Node nothing is evicted, and they stop nothing.
    pub(super) async fn alone(&mut self, now: Now) {
        let due = (self.memory.alone).is_none_or(|(read, _)| now.since(read) >= ALONE_AGAIN);
        if self.memory.mode != drain::Mode::Auto
            || !due
            || !self.blocked_before()
            || self.patience.until(now.boot).is_some()
        {
            return;
        }
        let Some(connected) = self.api.connected() else {
            return;
        };
        let clients = &connected.clients;
        self.patience.asks(false);
        let others = peers::others(&clients.coordinator, &clients.name).await;
        match others {
            Ok(others) => {
                self.memory.alone = Some((now.boot, !others));
                self.patience.worked(now.boot);
            }
            Err(err) => {
                // Who cannot look does not know that it is alone (I8), and looks again later: what else is to be asked comes
                // first.
                self.memory.alone = (!err.unauthorized()).then_some((now.boot, false));
                self.failed(&err);
            }
        }
    }

    /// The cluster has no other Node, as was seen last: by a look, or by the list of the others around a take. What could
    /// not be counted then has others (I8).
    fn lonely(&self) -> bool {
        let listed = self.facts.peers.as_ref().filter(|peers| peers.counted);
        let listed = listed.map(|peers| {
            let alone = peers.census.as_ref().is_ok_and(Census::alone);
            (peers.asked, alone)
        });
        let looks = self.memory.alone.into_iter().chain(listed);
        let last = looks.max_by_key(|(read, _)| *read);
        last.is_some_and(|(_, alone)| alone)
    }

    pub(super) fn blocking_gate(&self) -> Blocking {
        let (hold, policy) = (&self.facts.record.hold, &self.memory.drain_policy);
        let cordoned = |stage: &Stage| !matches!(stage, Stage::Taking | Stage::Claiming);
        if hold.as_ref().is_some_and(|hold| cordoned(&hold.stage)) {
            return Blocking::Cordoned;
        }
        if !self.memory.mode.evicts(self.lonely()) {
            return Blocking::Undrained;
        }
        match (hold, &self.memory.pods, &self.memory.blocking) {
            (Some(_), Some(pods), _) => Blocking::Seen(drain::seen_before_cordon(pods, policy)),
            (_, _, Some((_, blockers))) => Blocking::Seen(blockers.clone()),
            (Some(_), None, None) => Blocking::Cordoned,
            (None, _, None) => Blocking::Unknown,
        }
    }
}
