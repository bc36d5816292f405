//! The loop: gather, decide, make the intent durable, act (I2, I6, I7).
//!
//! One thread, one loop. Nothing in here decides: what happens is `decide`'s step, and a step is
//! done only when its record is on disk. Errors never end the process; they are facts.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::FutureExt as _;
use kube_rebootd_core::config::Table;
use kube_rebootd_core::decide::{Policy, Step};
use kube_rebootd_core::effect::Effect;
use kube_rebootd_core::machine::{HOST_POLL, Machine};
use kube_rebootd_core::metrics::{Counters, Page};
use kube_rebootd_core::motd::login;
use kube_rebootd_core::now::Now;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::record::Stage;
use kube_rebootd_core::silence::Silence;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use crate::clock::Clock;
use crate::cluster::events::Events;
use crate::host::dbus::{Orders, Publisher};
use crate::host::fleet_lock::Questions;
use crate::host::journal::Naming;
use crate::host::notify::{Notify, watchdog_interval};
use crate::host::own_inhibitor::OwnInhibitor;
use crate::host::rebootmgr::Clients;
use crate::host::{Bus, Store, metrics, motd, view};
use crate::notices::{Notices, Silences};
use crate::root::Root;

mod act;
mod alerts;
mod api;
mod api_backoff;
mod api_servers;
mod capacity;
mod commands;
mod credential;
mod fleet_lock;
mod gather;
mod hooks;
mod orders;
mod own_node;
mod reads;
mod rebootmgr;
mod reload;
mod report;
mod stale;
mod start;
#[cfg(debug_assertions)]
mod stop_point;
mod tries;
mod triggers;
mod undrain;

use api::Api;
use api_backoff::ApiBackoff;
use commands::Commands;
use gather::HostWatch;
use hooks::Rounds;
use reload::Asked;
use report::Report;
use triggers::Triggers;

pub use credential::{access, connect, kubelets};
pub use start::{StartError, start};
pub(crate) use triggers::{command, sentinel};
pub use undrain::{Left, Released};

/// After a write that failed: what must be durable waits, the CPU rests.
const UNWRITABLE: Duration = Duration::from_secs(1);

/// Everything the loop owns.
pub struct Daemon {
    root: Root,
    /// `--config FILE`, for a reload.
    config_file: Option<PathBuf>,
    /// Every key of the configuration in force.
    keys: Vec<Table>,
    asked: Asked,
    clock: Clock,
    bus: Bus,
    store: Store,
    last_valid: Store,
    api: Api,
    triggers: Triggers,
    commands: Commands,
    rounds: Rounds,
    host: HostWatch,
    machine: Machine,
    /// The record is on disk as it is in the facts.
    saved: bool,
    report: Report,
    notify: Notify,
    /// `reboot.guard`
    own_inhibitor: OwnInhibitor,
    publisher: Publisher,
    orders: Orders,
    metrics: metrics::Publisher,
    counters: Counters,
    motd: motd::Motd,
    /// Evictions that were answered.
    evicted: mpsc::UnboundedReceiver<act::Evicted>,
    evictions: mpsc::UnboundedSender<act::Evicted>,
    /// Evictions that are only tried.
    tries: tries::Tries,
    events: Events,
    notices: Notices,
    silences: Silences,
    /// What a client of FleetLock asks, and who waits for an answer.
    questions: Questions,
    waiting: Vec<fleet_lock::Waiting>,
    /// What clients of rebootmgr ask, and are shown.
    rebootmgr: Clients,
    alerts: alerts::Alerts,
    capacity: capacity::Capacity,
    api_servers: api_servers::ApiServers,
    /// When the API server is asked again after it refused or was silent.
    api_backoff: ApiBackoff,
    /// A watch's last sign of life that the machine knows, on the boot clock.
    heard: Option<Duration>,
    /// How often in a row the others that wait could not be counted, without an answer.
    uncounted: u32,
}

/// Why the loop woke.
enum Woke {
    /// Something may have changed.
    Change,
    Reload,
    Stop,
}

struct Signals {
    stop: Signal,
    interrupt: Signal,
    reload: Signal,
}

impl Daemon {
    /// Names the node in the journal's records.
    #[must_use]
    pub fn naming(mut self, naming: Naming) -> Self {
        self.report.names(naming);
        self
    }

    /// Shows on D-Bus as well what it does, and takes orders from there.
    #[must_use]
    pub fn on_bus(mut self, publisher: Publisher, orders: Orders) -> Self {
        (self.publisher, self.orders) = (publisher, orders);
        self
    }

    /// Runs until a stop signal.
    pub async fn run(mut self) -> std::io::Result<()> {
        let mut signals = Signals {
            stop: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reload: signal(SignalKind::hangup())?,
        };
        self.notify.ready();
        loop {
            self.notify.watchdog();
            let turn = self.turn();
            let wake = tokio::select! {
                biased;
                _ = signals.stop.recv() => None,
                _ = signals.interrupt.recv() => None,
                wake = turn => Some(wake),
            };
            let Some(wake) = wake else { break };
            let Some(wake) = wake else {
                // Who does one thing after another hears of it as well.
                if signals.reload.recv().now_or_never().is_some() {
                    self.reload().await;
                }
                if let Ok(evicted) = self.evicted.try_recv() {
                    self.all_evicted(evicted);
                }
                continue;
            };
            match self.sleep(wake, &mut signals).await {
                Woke::Change => {}
                Woke::Reload => self.reload().await,
                Woke::Stop => break,
            }
        }
        self.stopping();
        self.motd.show(None);
        self.metrics.end();
        Ok(())
    }

    /// One look, one step. When to look again at the latest; none: at once.
    async fn turn(&mut self) -> Option<Duration> {
        self.gather().await;
        self.step().await
    }

    /// One step on the facts as they are.
    async fn step(&mut self) -> Option<Duration> {
        let now = self.clock.now();
        let policy = self.policy();
        let step = self.machine.next(&policy, now);
        self.answer_clients(&step);
        for words in self.machine.take_walls() {
            info!("telling all who are logged in: {words}");
            self.notices.tell_users(words);
        }
        self.report.step(
            &step,
            self.machine.facts(),
            &policy,
            &mut self.notify,
            self.api_backoff.trouble(now.boot),
        );
        if let Some(view) = self.report.view(&step, self.machine.facts(), &policy)
            && let Err(err) = view::write(&self.root, view)
        {
            tracing::debug!("cannot write what `kube-rebootd status` shows: {err}");
        }
        self.publisher
            .publish(self.report.shown(), self.notify.said());
        self.rebootmgr
            .show(self.machine.rebootmgr_shows(step.phase, self.notify.said()));
        let (facts, counters) = (self.machine.facts(), &self.counters);
        self.metrics.publish(&self.machine.config().metrics, || {
            Page::of(&step, facts, &policy, counters)
        });
        let said = (self.machine.config().notify.motd)
            .then(|| login(&step, facts, self.notify.said(), now.boot))
            .flatten();
        self.motd.show(said);
        // Before the API server has said which Node this is, what an earlier life of the daemon made is left alone.
        if policy.me.is_some() {
            let at = self.machine.config().notify.alertmanager.as_ref();
            self.silences
                .want(Silence::wanted(&step, &policy, &facts.node, at));
        }
        let Some(wrote) = self.write_ahead(&step) else {
            // Not durable: the facts say so now, and another step follows, not at full speed.
            return Some(now.boot + UNWRITABLE);
        };
        self.machine.rests(&step);
        if step.effect == Effect::Wait {
            return if wrote {
                None
            } else {
                Some(step.wake.unwrap_or(now.boot + HOST_POLL))
            };
        }
        if act::asks_api(&step.effect)
            && let Some(until) = self.api_backoff.paused_until(now.boot)
        {
            return Some(until.min(step.wake.unwrap_or(until)));
        }
        #[cfg(debug_assertions)]
        let point = stop_point::did(&step.effect, &self.machine.facts().record);
        self.act(step.effect, now).await;
        #[cfg(debug_assertions)]
        if let Some(point) = point {
            stop_point::pass(&self.root, &point);
        }
        None
    }

    /// The step's record, durable before its effect; whether there was anything to write. None: it
    /// could not be written and nothing may follow from it.
    fn write_ahead(&mut self, step: &Step) -> Option<bool> {
        let same = step.record == self.machine.facts().record;
        if same && self.saved {
            return Some(false);
        }
        let written = self.store.write(&step.record.encode());
        if self.machine.writable(written.is_ok())
            && let Err(err) = &written
        {
            error!("cannot write {}: {err}", self.store.path().display());
        }
        // What was begun is finished from memory and the Node's annotation (docs/design.md 6).
        if written.is_err() && !finishing(step) {
            return None;
        }
        self.saved = written.is_ok();
        if same {
            return Some(false);
        }
        self.counters
            .wrote(&self.machine.facts().record, &step.record);
        self.machine.wrote(step.record.clone());
        #[cfg(debug_assertions)]
        stop_point::pass(&self.root, &stop_point::wrote(&self.machine.facts().record));
        Some(true)
    }

    /// Waits for a change, a signal, or `until` on the boot clock.
    async fn sleep(&mut self, until: Duration, signals: &mut Signals) -> Woke {
        let now = self.clock.now().boot;
        let paused = self.api_backoff.paused_until(now).unwrap_or(until);
        let limit = until.min(paused).saturating_sub(now);
        let limit = limit.min(self.machine.poll(now));
        let limit = watchdog_interval().map_or(limit, |watchdog| limit.min(watchdog));
        let limit =
            (self.clients_until()).map_or(limit, |until| limit.min(until.saturating_sub(now)));
        let limit = self.notify.again().map_or(limit, |again| limit.min(again));
        let limit = limit.max(Duration::from_millis(1));
        tokio::select! {
            biased;
            _ = signals.stop.recv() => Woke::Stop,
            _ = signals.interrupt.recv() => Woke::Stop,
            _ = signals.reload.recv() => Woke::Reload,
            () = self.asked.next() => Woke::Reload,
            Some(evicted) = self.evicted.recv() => {
                self.all_evicted(evicted);
                Woke::Change
            }
            Some(tried) = self.tries.next() => {
                self.machine.tried(tried);
                Woke::Change
            }
            asked = self.orders.next() => {
                self.order(asked);
                Woke::Change
            }
            given = self.questions.next() => {
                self.client_asked(given);
                Woke::Change
            }
            given = self.rebootmgr.next() => {
                self.rebootmgr_asked(given);
                Woke::Change
            }
            Some(answer) = self.alerts.next() => {
                self.answered(answer);
                Woke::Change
            }
            Some(answer) = self.api_servers.next() => {
                self.ready(answer);
                Woke::Change
            }
            Some(answer) = self.capacity.next() => {
                self.placed(answer);
                Woke::Change
            }
            () = self.triggers.changed() => Woke::Change,
            () = self.commands.changed() => Woke::Change,
            said = self.rounds.ended() => {
                self.round_ended(said);
                Woke::Change
            }
            () = self.host.changed() => {
                self.machine.host_changed();
                Woke::Change
            }
            () = self.api.changed() => Woke::Change,
            () = tokio::time::sleep(limit) => Woke::Change,
        }
    }

    /// An eviction's answer, with all that came meanwhile: 110 answers are not 110 looks at the world.
    fn all_evicted(&mut self, first: act::Evicted) {
        let now = self.clock.now().boot;
        self.evicted(first, now);
        while let Ok(evicted) = self.evicted.try_recv() {
            self.evicted(evicted, now);
        }
        #[cfg(debug_assertions)]
        stop_point::pass(&self.root, stop_point::EVICTED);
    }

    fn policy(&self) -> Policy {
        self.machine.policy(self.api.name())
    }

    fn now(&self) -> Now {
        self.clock.now()
    }

    fn stopping(&mut self) {
        self.notify.stopping();
        match &self.machine.facts().record.hold {
            Some(hold) if !report::going_down(self.machine.facts()) => warn!(
                LEASE = hold.take.lease,
                "stopping while holding slot {}: cordon and slot stay; start kube-rebootd again, or \
                 give them back with `kube-rebootd undrain --release`",
                hold.take.lease
            ),
            Some(_) => {
                info!("stopping: the host goes down, and what is held goes on after the boot");
            }
            None => info!("stopping"),
        }
    }
}

/// Only takes back or proves: goes on although nothing can be written (docs/design.md 6).
fn finishing(step: &Step) -> bool {
    // What it was is nowhere but in the record.
    if step.effect == Effect::CancelShutdown {
        return false;
    }
    // A start only merges what was recorded elsewhere already.
    step.effect == Effect::Begin
        || step.record.hold.as_ref().is_none_or(|hold| {
            matches!(
                hold.stage,
                Stage::Undoing(_) | Stage::Releasing | Stage::Uncordoned
            ) || step.phase == Phase::Verifying
        })
}
