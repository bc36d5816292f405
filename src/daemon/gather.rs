//! From watches, reads and the host to [`Facts`].

use std::time::Duration;

use kube_rebootd_core::drain;
use kube_rebootd_core::facts::{Drained, Facts, Fenced};
use kube_rebootd_core::gates::{self, GateFacts, GatePolicy, Pause};
use kube_rebootd_core::health::Marks;
use kube_rebootd_core::names;
use kube_rebootd_core::node::Seen;
use kube_rebootd_core::now::Now;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::slot::Lease;
use kube_rebootd_core::trigger;

use super::memory::{HostNow, Sight};
use super::{Daemon, HOST_POLL, start, views};
use crate::host::{logind, systemd};

/// In Idle every change wakes the loop by itself; this is for what no signal tells.
const IDLE_POLL: Duration = Duration::from_secs(300);
/// While the kubelet is awaited, how often its heartbeat Lease is read: that Lease cannot be watched
/// by a node (proved), and the kubelet renews it every 10 s.
const PULSE_POLL: Duration = Duration::from_secs(2);
/// The API server sends a bookmark on each watch about once a minute: who heard nothing for so long hears nothing.
const SIGN_OF_LIFE: Duration = Duration::from_secs(90);

/// Something is wanted or held: the host's own state matters.
fn busy(facts: &Facts) -> bool {
    facts.record.hold.is_some() || facts.observed.request.is_some()
}

/// At least how often to look although nothing changed.
pub(super) fn poll(facts: &Facts) -> Duration {
    if verifying(facts) {
        PULSE_POLL
    } else if busy(facts) {
        HOST_POLL
    } else {
        IDLE_POLL
    }
}

pub(super) fn verifying(facts: &Facts) -> bool {
    facts.record.phase(Some(&facts.boot)) == Phase::Verifying
}

impl Daemon {
    /// Brings the facts up to date.
    pub(super) async fn gather(&mut self) {
        let now = self.now();
        let findings = self.triggers.findings().await;
        self.stay_connected(now).await;
        self.watched(now);
        // What became of evictions counts before any later sign of life.
        while let Ok(evicted) = self.evicted.try_recv() {
            self.memory.evicted(evicted, now.boot);
        }
        self.observe(&findings, now);
        if self.host_due(now) {
            self.read_host().await;
        }
        self.pulse(now).await;
        self.daemon_sets(now).await;
        self.blocking(now).await;
        self.alone(now).await;
        self.packages(now).await;
        self.gates(&findings, now);
        self.judge(now);
        self.facts.ending = self.ending();
    }

    /// Pods that nobody starts again after this reboot, from when it is wanted until the host goes down.
    fn ending(&self) -> Vec<drain::PodRef> {
        let graceful = self.memory.host.as_ref().is_some_and(|host| host.graceful);
        let (wanted, hold) = (&self.facts.observed.request, &self.facts.record.hold);
        let before = hold
            .as_ref()
            .is_none_or(|hold| hold.boot == self.facts.boot);
        if !graceful || !before || (wanted.is_none() && hold.is_none()) {
            return Vec::new();
        }
        match (hold, &self.memory.pods) {
            (Some(_), Some(pods)) => drain::not_made_again(pods, &self.memory.drain_policy),
            _ => self.memory.unmanaged.clone(),
        }
    }

    /// The host is looked at when it said that something changed, and polled only while it matters.
    fn host_due(&self, now: Now) -> bool {
        let Some(host) = &self.memory.host else {
            return true;
        };
        let unknown = host.shutting_down.is_none();
        host.dirty || ((busy(&self.facts) || unknown) && now.since(host.read) >= HOST_POLL)
    }

    /// Gates of the host and its state, read now (also before a reboot).
    pub(super) async fn read_host(&mut self) {
        let read = self.now().boot;
        if !self.facts.writable {
            self.facts.writable = self.store.probe().is_ok();
        }
        let shutting_down = logind::preparing_for_shutdown(&self.bus).await.ok();
        let locks = logind::locks(&self.bus).await.ok();
        let graceful = locks.as_ref().is_some_and(|locks| locks.kubelet);
        let inhibitors = locks.map(|locks| locks.block);
        let (mut system_state, mut boot_complete) = (None, None);
        if verifying(&self.facts) {
            system_state = systemd::system_state(&self.bus).await.ok();
            if self.config.health.boot_complete {
                boot_complete = systemd::boot_complete(&self.bus).await.ok();
            }
        }
        let scheduled = logind::scheduled_shutdown(&self.bus).await;
        // One that cannot be read may be there, and may begin at any time (I8).
        let shutting_down = shutting_down.filter(|_| scheduled.is_ok());
        let scheduled = scheduled.ok().flatten();
        let dirty = false;
        self.memory.host = Some(HostNow {
            read,
            dirty,
            shutting_down,
            inhibitors,
            graceful,
            system_state,
            boot_complete,
            scheduled,
        });
    }

    /// Watches need current clients though no effect asks for any: a phase that waits may be long, and
    /// a reload takes the clients away. New credentials are worth a try at once.
    async fn stay_connected(&mut self, now: Now) {
        // A hold ended that was taken in another namespace than is configured now.
        if self.api.namespace() != self.namespace() {
            let access = start::held_access(&self.root, &self.config, &self.facts.record);
            self.api.configure(access);
            self.facts.leases.clear();
            self.facts.listed = Err("asking the API server".to_owned());
        }
        let may = self.patience.until(now.boot).is_none() || self.api.touched();
        if self.facts.started && self.api.due() && may {
            self.connect().await;
        }
    }

    /// What the watches show, where it is newer than what is known.
    fn watched(&mut self, now: Now) {
        let group = self.group();
        let pods = self.facts.record.hold.is_some() || self.blocked_before();
        let Some(connected) = self.api.connected() else {
            return;
        };
        if !self.facts.started {
            return;
        }
        connected.watch(&group, busy(&self.facts), pods);
        let mut refused = views::leases(&mut self.facts, connected, &group, now.boot);
        refused |= views::own_node(&mut self.facts, connected, now.boot);
        self.memory.pods = None;
        let lately = (connected.heard()).is_some_and(|heard| heard.elapsed() < SIGN_OF_LIFE);
        if let Some(watch) = &mut connected.pod_watch {
            let view = watch.view();
            self.memory.sight = match &view.trouble {
                None => Sight::Seen,
                Some(_) if lately => Sight::Unseen,
                Some(_) => Sight::Silent,
            };
            refused |= view.trouble.is_some_and(|trouble| trouble.unauthorized());
            self.memory.pods = view.items.map(|items| items.into_values().collect());
        }
        self.memory.watch_heard(connected.heard(), now.boot);
        if refused {
            self.api.refused();
        }
    }

    /// The kubelet's signs of life in this boot, while they are awaited.
    async fn pulse(&mut self, now: Now) {
        if !verifying(&self.facts) || !self.facts.started {
            return;
        }
        self.memory.pulse.node(&self.facts.node, now.boot);
        let due = self
            .memory
            .pulse_read
            .is_none_or(|read| now.since(read) >= PULSE_POLL);
        if due
            && self.patience.until(now.boot).is_none()
            && let Some(connected) = self.api.connected()
        {
            self.memory.pulse_read = Some(now.boot);
            match connected.heartbeat.get().await {
                Ok(Some(beat)) => self.memory.pulse.renewed(beat.renewed),
                // Nothing else may be asked here for long: the credential is renewed by this.
                Err(err) if err.unauthorized() => self.failed(&err),
                // No sign of life.
                Ok(None) | Err(_) => {}
            }
            if let Some(host) = &mut self.memory.host {
                host.dirty = true;
            }
        }
    }

    fn gates(&mut self, findings: &[trigger::Finding], now: Now) {
        let host = self.memory.host.as_ref();
        self.facts.host_read = host.map(|host| host.read);
        let known = host.and_then(|host| host.shutting_down);
        self.facts.shutting_down = known.unwrap_or_else(|| may_go_down(&self.facts));
        self.facts.scheduled = host.and_then(|host| host.scheduled.clone());
        let gate_facts = GateFacts {
            node_pause: node_pause(&self.facts.node),
            group_pause: self.group_pause(),
            inhibitors: host
                .filter(|host| host.shutting_down.is_some())
                .and_then(|host| host.inhibitors.clone()),
            packages: self.memory.packages.known(now),
            request: self.facts.observed.request.as_ref(),
            findings,
            blocking: self.blocking_gate(),
        };
        let policy = GatePolicy {
            min_uptime: self.config.gates.min_uptime,
        };
        self.facts.closed = gates::closed(&gate_facts, &policy, now);
        self.facts.closed_since = match self.facts.closed.as_slice() {
            [] => None,
            _ => Some(self.facts.closed_since.unwrap_or(now.boot)),
        };
    }

    /// A pause on every slot of the group; it never affects a holder.
    fn group_pause(&self) -> Pause {
        let group = self.group();
        let slots: Vec<&Lease> = self
            .facts
            .leases
            .values()
            .filter(|lease| lease.group == group)
            .collect();
        let pauses: Option<Vec<&String>> =
            slots.iter().map(|lease| lease.paused.as_ref()).collect();
        let names: Vec<&str> = slots.iter().map(|lease| lease.name.as_str()).collect();
        match pauses.as_deref() {
            Some([first, ..]) if self.facts.record.hold.is_none() => {
                let places = format!("annotation {} of Lease {}", names::PAUSED, names.join(", "));
                Pause::Paused(match first.as_str() {
                    "" => places,
                    first => format!("{first} ({places})"),
                })
            }
            _ => Pause::None,
        }
    }

    /// The drain, and the health of what came back, as far as the phase needs them.
    fn judge(&mut self, now: Now) {
        self.facts.in_stage = self.memory.in_stage(&self.facts, now.boot);
        let facts = &mut self.facts;
        facts.marks = self.memory.pods.as_deref().map(Marks::take);
        let phase = facts.record.phase(Some(&facts.boot));
        let draining = matches!(phase, Phase::Draining | Phase::Rebooting);
        facts.drain = match self.memory.pods.take() {
            Some(pods) if draining => {
                let drained = self.memory.drained(facts, &pods, now.boot);
                self.memory.pods = Some(pods);
                drained
            }
            pods => {
                self.memory.pods = pods;
                Drained::Starting
            }
        };
        self.prove(now);
    }
}

/// Not known is not "no" once logind was asked in this boot: nothing is undone on a host that may go down. What is written
/// ahead of the first call is no call yet; after an earlier one the host may go down at any time.
fn may_go_down(facts: &Facts) -> bool {
    let hold = facts.record.hold.as_ref();
    let asked = hold.is_some_and(|hold| hold.asked() && hold.boot == facts.boot);
    let first = |fenced: &Fenced| fenced.asks <= 1;
    asked && !facts.fenced.as_ref().is_some_and(first)
}

fn node_pause(node: &Seen) -> Pause {
    match node {
        Seen::Unknown => Pause::Unknown,
        Seen::Absent => Pause::None,
        Seen::Present(node) => node
            .annotations
            .get(names::PAUSED)
            .cloned()
            .map_or(Pause::None, Pause::Paused),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kube_rebootd_core::boot::Boot;
    use kube_rebootd_core::record::{Hold, Record, Stage};
    use kube_rebootd_core::slot::{Lease, Take};

    use super::*;

    /// Found by review: beside the second ask an unknown answer passed for "it does not go down", and the slot was given
    /// up on a host that the first ask was taking down.
    #[test]
    fn i1_i8_a_host_that_was_asked_to_reboot_may_go_down_as_long_as_logind_does_not_say_no() {
        let lease = Lease::free("default", "default");
        let take = Take::of(&lease, "kube-rebootd", Timestamp::UNIX_EPOCH, false);
        for (asks, fenced, same_boot, may) in [
            (0, None, true, false),
            (1, Some(1), true, false),
            (1, None, true, true),
            (2, Some(2), true, true),
            (2, None, true, true),
            (1, None, false, false),
        ] {
            let mut facts = Facts::of_a_start(Boot::unknown(), Record::default());
            facts.record.hold = Some(Hold {
                stage: Stage::Rebooting,
                asks,
                ..Hold::begin(take.clone(), Boot::unknown())
            });
            facts.fenced = fenced.map(|asks| Fenced {
                hold: take.acquire_time,
                asks,
                at: None,
            });
            if !same_boot {
                facts.boot.id = "another".to_owned();
            }
            assert_eq!(may_go_down(&facts), may, "{asks} {fenced:?} {same_boot}");
        }
    }
}
