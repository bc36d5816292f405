//! What is looked at before a decision: the watches, the host, and whatever the machine says is due (I5, I7).

use std::time::Duration;

use kube_rebootd_core::machine::{HostNow, Sight};
use kube_rebootd_core::now::Now;
use kube_rebootd_core::rivals;
use tracing::warn;

use super::Daemon;
use super::credential::held_access;
use crate::cluster::answer::ApiError;
use crate::cluster::{daemon_sets, peers, watch};
use crate::host::fleet_lock::zincati;
use crate::host::logind::Changes;
use crate::host::look::{Wanted, look};
use crate::host::outdated::Locks;
use crate::host::sentinel::Watch;
use crate::host::{Bus, booted, outdated, timedated};
use crate::root::Root;

/// What logind writes when a shutdown is scheduled (`logind-dbus.c`); its directory exists from boot.
const SCHEDULE: &str = "/run/systemd/shutdown/scheduled";
/// The API server sends a bookmark on each watch about once a minute: who heard nothing for so long hears nothing.
const SIGN_OF_LIFE: Duration = Duration::from_secs(90);

/// What tells that the host's state may have changed, and who looks at package managers.
pub(super) struct HostWatch {
    logind: Changes,
    /// Tells when logind schedules a shutdown, which 252 gives no signal of.
    schedule: Watch,
    locks: Locks,
}

impl HostWatch {
    pub(super) fn new(root: &Root, bus: &Bus) -> Self {
        Self {
            logind: Changes::new(bus),
            schedule: Watch::new(root, &[SCHEDULE.to_owned()]),
            locks: Locks::default(),
        }
    }

    /// Resolves when the host is to be looked at again. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            biased;
            () = self.logind.next() => {}
            () = self.schedule.changed() => {}
        }
    }
}

impl Daemon {
    /// Looks at all that is due, and has the machine draw its conclusions.
    pub(super) async fn gather(&mut self) {
        let now = self.now();
        let findings = self.triggers.findings().await;
        self.stay_connected(now).await;
        self.watched(now);
        // What became of evictions counts before any later sign of life.
        while let Ok(evicted) = self.evicted.try_recv() {
            (self.machine).evicted(&evicted.uid, evicted.answer, now.boot);
        }
        self.machine.saw_staged(booted::staged(&self.root));
        self.machine.observe(&findings, now);
        // Before reads that may take long: of a shutdown that goes around the drain somebody must hear in time.
        self.warn();
        let inhibits = self.machine.inhibits();
        (self.own_inhibitor)
            .keep(inhibits, &mut self.notify, now.boot)
            .await;
        if self.machine.host_due(now) {
            self.read_host().await;
        }
        self.clock(now).await;
        self.pulse(now).await;
        self.daemon_sets(now).await;
        self.blocking(now).await;
        self.alone(now).await;
        self.try_evictions(now);
        self.packages(now).await;
        // On the heap it is no part of every future that waits for this one.
        Box::pin(self.commands()).await;
        Box::pin(self.hooks()).await;
        self.ask_alerts(now);
        self.ask_capacity(now);
        self.ask_api_servers(now);
        self.machine.judge(&findings, now);
        self.warn();
    }

    /// What the machine has to say.
    fn warn(&mut self) {
        for words in self.machine.take_warnings() {
            warn!("{words}");
        }
    }

    /// The host's state, and who inhibits a shutdown; read now, also before a reboot.
    pub(super) async fn read_host(&mut self) {
        let read = self.now().boot;
        if !self.machine.facts().writable {
            self.machine.writable(self.store.probe().is_ok());
        }
        // Also where nothing is wanted: a look is good for some seconds, in which a slot may be taken and the host rebooted.
        let wanted = Wanted {
            boot_complete: self.machine.verifying() && self.machine.config().health.boot_complete,
            sessions: self.machine.users_matter(),
            rivals: self.machine.rivals_matter(),
        };
        // On the heap it is no part of every future that waits for this one.
        let seen = Box::pin(look(&self.bus, wanted)).await;
        if let Some(locks) = &seen.locks {
            self.own_inhibitor.seen(locks.own);
        }
        let rivals = seen.rivals.map(|mut units| {
            // It asks this daemon, and reboots when it is told to.
            let served = self.machine.config().fleet_lock.as_ref();
            let asks = served.is_some_and(|it| zincati::asks(&self.root, &it.listen));
            units.retain(|unit| !(asks && unit == rivals::ZINCATI));
            units
        });
        let live_patches = if self.machine.live_patches_matter() {
            outdated::live_patches(&self.root)
        } else {
            None
        };
        self.machine.saw_host(HostNow {
            read,
            // A schedule that cannot be read may be there, and may begin at any time (I8).
            shutting_down: seen.shutting_down.filter(|_| seen.scheduled.is_ok()),
            graceful: seen.locks.as_ref().is_some_and(|locks| locks.kubelet),
            inhibitors: seen.locks.map(|locks| locks.block),
            system_state: seen.system_state,
            failed: seen.failed,
            boot_complete: seen.boot_complete,
            sessions: seen.sessions,
            rivals,
            live_patches,
            scheduled: seen.scheduled.ok().flatten(),
            systemd: seen.systemd,
        });
    }

    /// Whether the clock is synchronized, where windows rest on it.
    async fn clock(&mut self, now: Now) {
        if self.machine.clock_due(now) {
            let said = timedated::synchronized(&self.bus).await.ok();
            self.machine.saw_clock(said, now);
        }
    }

    /// Watches need current clients though no effect asks for any: a phase that waits may be long, and
    /// a reload takes the clients away. New credentials are worth a try at once.
    async fn stay_connected(&mut self, now: Now) {
        // A hold ended that was taken in another namespace than is configured now.
        if self.api.namespace() != self.machine.namespace() {
            let access = held_access(
                &self.root,
                self.machine.config(),
                &self.machine.facts().record,
            );
            self.api.configure(access);
            self.machine.moved();
        }
        let may = self.api_backoff.paused_until(now.boot).is_none() || self.api.touched();
        if self.machine.facts().started && self.api.due() && may {
            self.connect().await;
        }
    }

    /// What the watches show, where it is newer than what is known.
    fn watched(&mut self, now: Now) {
        let (group, busy) = (self.machine.group(), self.machine.busy());
        let pods = self.machine.pods_matter();
        let Some(connected) = self.api.connected() else {
            return;
        };
        if !self.machine.facts().started {
            return;
        }
        connected.watch(&group, busy, pods);
        let mut refused = false;
        if let Some((_, watch)) = &mut connected.lease_watch {
            let view = watch.view();
            refused |= view.trouble.as_ref().is_some_and(ApiError::unauthorized);
            let shown = view.items.map(|items| items.into_values().collect());
            let trouble = view.trouble.map(|trouble| trouble.to_string());
            self.machine.see_leases(&group, shown, trouble, now);
        }
        if let Some((_, watch)) = &mut connected.node_watch {
            let view = watch.view();
            refused |= view.trouble.as_ref().is_some_and(ApiError::unauthorized);
            if let Some(items) = view.items {
                self.machine.see_node(items.into_values().next(), now);
            }
        }
        let heard = connected.heard();
        let lately = heard.is_some_and(|heard| self.clock.now().since(heard) < SIGN_OF_LIFE);
        let view = connected.pod_watch.as_mut().map(watch::Watch::view);
        let sight = view.as_ref().map(|view| match &view.trouble {
            None => Sight::Seen,
            Some(_) if lately => Sight::Unseen,
            Some(_) => Sight::Silent,
        });
        let trouble = view.as_ref().and_then(|view| view.trouble.as_ref());
        refused |= trouble.is_some_and(ApiError::unauthorized);
        let items = view.and_then(|view| view.items);
        let pods = items.map(|items| items.into_values().collect());
        self.machine.saw_pods(pods, sight);
        // Told again, a sign of life is no news.
        if heard > self.heard
            && let Some(at) = heard
        {
            self.heard = heard;
            // What came meanwhile is no later than the moment that is looked at.
            self.machine.heard(at.min(now.boot));
        }
        if refused {
            self.api.refused();
        }
    }

    /// The kubelet's signs of life in this boot, while they are awaited.
    async fn pulse(&mut self, now: Now) {
        if !self.machine.pulse_due(now) || self.api_backoff.paused_until(now.boot).is_some() {
            return;
        }
        let Some(requests) = self.api.requests() else {
            return;
        };
        self.machine.pulse_read(now);
        match requests.heartbeat.get().await {
            Ok(Some(beat)) => self.machine.renewed(beat.renewed),
            // Nothing else may be asked here for long: the credential is renewed by this.
            Err(err) if err.unauthorized() => self.failed(&err),
            // No sign of life.
            Ok(None) | Err(_) => {}
        }
        self.machine.host_changed();
    }

    /// The DaemonSets whose pod is absent, once the node takes pods again.
    async fn daemon_sets(&mut self, now: Now) {
        let due = self.machine.absent_due(now);
        if due.is_empty() || self.api_backoff.paused_until(now.boot).is_some() {
            return;
        }
        let Some(requests) = self.api.requests() else {
            return;
        };
        let clients = &requests.clients;
        let own = requests.node.api();
        match daemon_sets::look(&clients.coordinator, &own, &clients.name, &due).await {
            Ok(looks) => {
                // The pause grows once for one look, however many of its requests failed.
                let mut failed = None;
                for (set, found) in looks {
                    match found {
                        Ok(found) => self.machine.saw_daemon_set(set, found, now),
                        Err(err) => failed = Some(err),
                    }
                }
                if let Some(err) = failed {
                    self.failed(&err);
                }
            }
            Err(err) => self.failed(&err),
        }
    }

    /// Pods that would stop a drain, before the queue.
    async fn blocking(&mut self, now: Now) {
        if !self.machine.blocking_due(now) || self.api_backoff.paused_until(now.boot).is_some() {
            return;
        }
        let Some(requests) = self.api.requests() else {
            return;
        };
        self.api_backoff.request_begins(false);
        match requests.pods.list().await {
            Ok(pods) => {
                self.machine.listed_before(&pods, now);
                self.api_backoff.request_worked(now.boot);
            }
            Err(err) => self.failed(&err),
        }
    }

    /// Whether the cluster has another Node.
    async fn alone(&mut self, now: Now) {
        if !self.machine.alone_due(now) || self.api_backoff.paused_until(now.boot).is_some() {
            return;
        }
        let Some(requests) = self.api.requests() else {
            return;
        };
        let clients = &requests.clients;
        self.api_backoff.request_begins(false);
        match peers::others(&clients.coordinator, &clients.name).await {
            Ok(others) => {
                self.machine.saw_alone(Some(!others), now);
                self.api_backoff.request_worked(now.boot);
            }
            Err(err) => {
                // Who cannot look does not know that it is alone (I8), and looks again later: what else is to be asked comes
                // first.
                let alone = (!err.unauthorized()).then_some(false);
                self.machine.saw_alone(alone, now);
                self.failed(&err);
            }
        }
    }

    /// Package managers, at every turn: hooks that write a sentinel run before their package manager is done.
    async fn packages(&mut self, now: Now) {
        if self.machine.packages_matter() {
            let found = self.host.locks.look(&self.root).await;
            self.machine.saw_packages(found, now);
        } else {
            self.machine.forget_packages();
        }
    }
}
