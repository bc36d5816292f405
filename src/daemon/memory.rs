//! What one process knows beside the record and the facts; a restart begins it anew.

use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd_core::beats::Beats;
use kube_rebootd_core::config::{self, Config};
use kube_rebootd_core::drain::{self, Drain, Next, PodRef, State};
use kube_rebootd_core::facts::{Drained, Facts};
use kube_rebootd_core::health::{self, Pulse};
use kube_rebootd_core::inhibitor::Inhibitor;
use kube_rebootd_core::node::Seen;
use kube_rebootd_core::pod::Pod;
use kube_rebootd_core::record::Stage;
use kube_rebootd_core::shutdown::Scheduled;
use kube_rebootd_core::slot::TakeAnswer;
use tokio::time::Instant;
use tracing::warn;

use super::act::Evicted;
use super::packages;
use crate::host::Bus;
use crate::host::logind::Changes;
use crate::host::sentinel::Watch;
use crate::root::Root;

/// What logind writes when a shutdown is scheduled (`logind-dbus.c`); its directory exists from boot.
const SCHEDULE: &str = "/run/systemd/shutdown/scheduled";

/// Whether the watch of the own pods tells how they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    Seen,
    /// The API server is silent as a whole.
    Silent,
    /// Only this watch fails.
    Unseen,
}

/// What one process knows beside the record; a restart begins it anew.
pub(super) struct Memory {
    pub(super) host_changes: Changes,
    /// Tells when logind schedules a shutdown, which 252 gives no signal of.
    pub(super) schedule: Watch,
    /// What was said about the scheduled shutdown last.
    pub(super) warned: Option<String>,
    /// The scheduled shutdown was cancelled, or it was tried, then.
    pub(super) cancelled: Option<Duration>,
    pub(super) host: Option<HostNow>,
    pub(super) pods: Option<Vec<Pod>>,
    pub(super) sight: Sight,
    /// A watch's last sign of life that was counted.
    watch_heard: Option<Instant>,
    /// When the API server was last heard, if the drain does not know yet.
    heard: Option<Duration>,
    /// The same of an answer, with when it was asked for.
    answered: Option<(Duration, Duration)>,
    pub(super) drain_policy: drain::Policy,
    pub(super) mode: drain::Mode,
    pub(super) health_policy: health::Policy,
    pub(super) judge_pods: bool,
    drain: Option<Drain>,
    /// The hold is older than this process.
    resumed: bool,
    /// Pods the drain wants evicted and nobody asked for yet.
    queue: Vec<PodRef>,
    done: Option<Duration>,
    pub(super) packages: packages::Seen,
    pub(super) blocking: Option<(Duration, Vec<drain::Blocker>)>,
    /// Whether the cluster has no other Node, and when that was looked at.
    pub(super) alone: Option<(Duration, bool)>,
    /// Pods without a controller that stay, as last listed before the cordon.
    pub(super) unmanaged: Vec<PodRef>,
    pub(super) pulse: Pulse,
    pub(super) pulse_read: Option<Duration>,
    pub(super) verifying: Option<Duration>,
    /// DaemonSets that had no pod here: when they were looked for, and what was found.
    pub(super) found: BTreeMap<health::DaemonSet, (Duration, health::Found)>,
    /// What is not waited for any longer after the boot, and was said.
    pub(super) waived: Vec<String>,
    /// How often in a row the others that wait could not be counted, without an answer.
    pub(super) uncounted: u32,
    /// The stage of the hold in this boot, and since when this process has worked on it without a rest.
    stage: Option<(Timestamp, Discriminant<Stage>, Duration)>,
}

/// The host, at one look.
pub(super) struct HostNow {
    pub(super) read: Duration,
    pub(super) dirty: bool,
    pub(super) shutting_down: Option<bool>,
    pub(super) inhibitors: Option<Vec<Inhibitor>>,
    /// The kubelet ends the pods at a shutdown; false also when logind did not say.
    pub(super) graceful: bool,
    pub(super) system_state: Option<String>,
    pub(super) boot_complete: Option<bool>,
    /// None: nothing is scheduled, or it is not known, and then neither is `shutting_down`.
    pub(super) scheduled: Option<Scheduled>,
}

impl Memory {
    pub(super) fn new(root: &Root, bus: Bus, config: &Config) -> Self {
        Self {
            host_changes: Changes::new(bus),
            schedule: Watch::new(root, &[SCHEDULE.to_owned()]),
            warned: None,
            cancelled: None,
            host: None,
            pods: None,
            sight: Sight::Seen,
            watch_heard: None,
            heard: None,
            answered: None,
            drain_policy: config.drain.policy.clone(),
            mode: config.drain.mode,
            health_policy: health_policy(&config.health),
            judge_pods: config.health.pods,
            drain: None,
            resumed: true,
            queue: Vec::new(),
            done: None,
            packages: packages::Seen::default(),
            blocking: None,
            alone: None,
            unmanaged: Vec::new(),
            pulse: Pulse::default(),
            pulse_read: None,
            verifying: None,
            found: BTreeMap::new(),
            waived: Vec::new(),
            uncounted: 0,
            stage: None,
        }
    }

    /// How long this process has worked on this stage of the hold without a rest.
    pub(super) fn in_stage(&mut self, facts: &Facts, now: Duration) -> Duration {
        // A start that has no answers yet works on no stage.
        let hold = facts.record.hold.as_ref().filter(|_| facts.started);
        let Some(hold) = hold.filter(|hold| hold.boot == facts.boot) else {
            self.stage = None;
            return Duration::ZERO;
        };
        let key = (hold.take.acquire_time, discriminant(&hold.stage));
        let known = self.stage.filter(|known| (known.0, known.1) == key);
        let (.., since) = *self.stage.insert(known.unwrap_or((key.0, key.1, now)));
        now.saturating_sub(since)
    }

    /// It waits for something that has a time of its own.
    pub(super) fn rests(&mut self) {
        self.stage = None;
    }

    /// A drain under way keeps the policy it began with.
    pub(super) fn configure(&mut self, config: &Config) {
        self.drain_policy = config.drain.policy.clone();
        self.mode = config.drain.mode;
        self.health_policy = health_policy(&config.health);
        self.judge_pods = config.health.pods;
        self.blocking = None;
    }

    /// Another hold, or none: what was known of the last one is void.
    pub(super) fn forget_hold(&mut self, facts: &mut Facts) {
        facts.take = TakeAnswer::default();
        facts.ask = None;
        facts.ask_accepted = None;
        (facts.confirmed, facts.fenced) = (None, None);
        facts.mended.clear();
        facts.beats = Beats::default();
        facts.last_list = None;
        facts.waiters = None;
        self.drain = None;
        self.resumed = false;
        self.queue.clear();
        self.done = None;
        self.blocking = None;
        self.verifying = None;
        self.found.clear();
        self.waived.clear();
    }

    pub(super) fn host_dirty(&mut self) {
        if let Some(host) = &mut self.host {
            host.dirty = true;
        }
    }

    pub(super) fn evicted(&mut self, evicted: Evicted, now: Duration) {
        if let Some(drain) = &mut self.drain {
            drain.answer(&evicted.uid, evicted.answer, now);
        }
    }

    /// The API server answered what was asked for at `sent`.
    pub(super) fn answered(&mut self, sent: Duration, at: Duration) {
        self.answered = Some((sent, at));
    }

    /// A watch's last sign of life; told again it is no news.
    pub(super) fn watch_heard(&mut self, heard: Option<Instant>, now: Duration) {
        if let Some(instant) = heard
            && heard > self.watch_heard
        {
            self.watch_heard = heard;
            self.heard = Some(now.saturating_sub(instant.elapsed()));
        }
    }

    /// The queue is asked for.
    pub(super) fn sent(&mut self) {
        self.queue.clear();
    }

    pub(super) fn drained(&mut self, facts: &Facts, pods: &[Pod], now: Duration) -> Drained {
        if !self.evicts(facts) {
            return Drained::Done {
                at: *self.done.get_or_insert(now),
            };
        }
        let (next, spent) = self.progress(facts, pods, now);
        self.queue.extend(next.evict.iter().cloned());
        let words = drain::describe(&next);
        match next.state {
            State::Unmounting { .. } => {
                self.never_sent();
                self.done = None;
                let wake = next.wake;
                Drained::Unmounting { words, wake }
            }
            State::Drained { volumes, .. } => {
                self.never_sent();
                if self.done.is_none() && !volumes.is_empty() {
                    warn!(
                        "going on after drain.volumes_timeout although volumes are in use: {}",
                        volumes.join(", ")
                    );
                }
                Drained::Done {
                    at: *self.done.get_or_insert(now),
                }
            }
            State::Failed { .. } => Drained::Failed { why: words },
            State::Going { blocked, jobs, .. } => {
                self.done = None;
                Drained::Going {
                    evict: self.queue.clone(),
                    words,
                    spent,
                    confirm: next.confirm,
                    unseen: self.sight == Sight::Unseen,
                    wake: next.wake,
                    blocked: blocked.into_iter().chain(jobs).collect(),
                }
            }
        }
    }

    /// Pods leave by eviction: what was seen before the cordon stays true for the whole hold.
    fn evicts(&self, facts: &Facts) -> bool {
        let hold = facts.record.hold.as_ref();
        self.mode.evicts(hold.is_some_and(|hold| hold.alone))
    }

    /// Nobody is left to be asked: a pod that comes late must not wait for these answers.
    fn never_sent(&mut self) {
        if let Some(drain) = &mut self.drain {
            drain.unsent(self.queue.drain(..));
        }
    }

    /// The drain with all that is new, and the time it took.
    fn progress(&mut self, facts: &Facts, pods: &[Pod], now: Duration) -> (Next, Duration) {
        let hold = facts.record.hold.as_ref();
        let spent = Duration::from_secs(hold.map_or(0, |hold| hold.drain_spent));
        let begin = if self.resumed {
            Drain::resumed
        } else {
            Drain::new
        };
        let policy = &self.drain_policy;
        let drain = self
            .drain
            .get_or_insert_with(|| begin(policy.clone(), spent));
        // Before any other answer: a slow one says that the server was silent, which a later answer would hide.
        if let Some((sent, at)) = self.answered.take() {
            drain.confirmed(sent, at);
        }
        if let Some(heard) = self.heard.take() {
            drain.heard(heard);
        }
        drain.blind(self.sight != Sight::Seen, now);
        drain.pods(pods, now);
        drain.volumes(match &facts.node {
            Seen::Present(node) => Some(&node.volumes_in_use),
            Seen::Absent | Seen::Unknown => None,
        });
        (drain.next(now), drain.spent())
    }

    /// Whether nothing is left that must go, by one consistent list.
    pub(super) fn clean(&self, facts: &Facts, pods: &[Pod]) -> bool {
        if !self.evicts(facts) {
            return true;
        }
        match &self.drain {
            // on_timeout = "reboot": what was left behind on purpose does not keep us here.
            Some(drain) => drain.clean(pods) || drain.gave_up(),
            None => Drain::new(self.drain_policy.clone(), Duration::ZERO).clean(pods),
        }
    }
}

fn health_policy(config: &config::Health) -> health::Policy {
    health::Policy {
        allow_degraded: config.allow_degraded,
        boot_complete: config.boot_complete,
        ready_for: config.ready_for,
    }
}
