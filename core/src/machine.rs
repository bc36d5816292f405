//! One node's daemon without IO: what it has seen, what it concludes from that, and its next step.
//!
//! Whoever has the clients tells it what the watches show (`views`), has it [`Machine::observe`] whether a reboot is
//! wanted, looks at what is due then (`due`) and tells what was seen, has it [`Machine::judge`] all that, takes the
//! [`Machine::next`] step, tells that its record is durable ([`Machine::wrote`]), and what became of its effect
//! (`answers`).

mod alerts;
mod answers;
mod api_servers;
mod autoscaler;
mod capacity;
mod clock;
mod commands;
mod conditions;
mod draining;
mod due;
mod fleet_lock;
mod gates;
mod hooks;
mod live_patches;
mod memory;
mod orders;
mod own_inhibitor;
mod packages;
mod proof;
mod rebootmgr;
mod rivals;
mod soft_reboots;
mod tell;
#[cfg(test)]
mod tests;
mod tries;
mod users;
mod views;
mod wishes;

use std::mem;
use std::time::Duration;

use jiff::Timestamp;

pub use capacity::{Listed, Unplaced};
pub use commands::Asked;
pub use due::HOST_POLL;
pub use memory::{HostNow, Sight};
pub use orders::Ordered;
pub use packages::PackageManager;

use crate::booted::Booted;
use crate::config::{Bound, Config, ConfigError};
use crate::decide::{self, Policy, Step};
use crate::drain::{self, PodRef, Went};
use crate::facts::{Drained, Facts, LastList};
use crate::health::{DaemonSet, Found, Marks};
use crate::node::Seen;
use crate::now::Now;
use crate::phase::Phase;
use crate::pod::{EvictAnswer, Pod};
use crate::record::Record;
use crate::trigger::Finding;
use memory::Memory;

/// One node's daemon without IO.
#[derive(Debug, Clone)]
pub struct Machine {
    facts: Facts,
    config: Config,
    memory: Memory,
    /// What is to be said in the log.
    said: Vec<String>,
    /// What everybody who is logged in on the host is to be told.
    walls: Vec<String>,
}

impl Machine {
    /// A process that knows what `facts` say and has looked at nothing else yet.
    pub fn new(config: Config, facts: Facts) -> Self {
        Self {
            facts,
            config,
            memory: Memory::default(),
            said: Vec::new(),
            walls: Vec::new(),
        }
    }

    /// What was seen, and what it means.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Another configuration. A drain under way keeps the policy it began with.
    pub fn configure(&mut self, config: Config) {
        self.config = config;
        self.memory.blocking = None;
        self.memory.protected.clear();
        self.memory.alerts = alerts::Seen::default();
        self.memory.capacity = capacity::Seen::default();
        self.memory.api_servers = None;
        self.memory.tries = tries::Seen::default();
        // What was not looked at, as nothing rested on it, may be wanted now: what is unknown closes a gate.
        self.memory.host_changed = true;
        self.facts.config_error = None;
    }

    /// The configuration files are wrong; the configuration stays (I12).
    pub fn refuse(&mut self, error: ConfigError) {
        self.facts.config_error = Some(error);
    }

    /// What another configuration does not change at once.
    pub fn bound(&self) -> Bound {
        Bound {
            hold: self.facts.record.hold.is_some(),
            drain: self.memory.drain.is_some(),
        }
    }

    /// Where the Leases are: a slot stays where it was taken, whatever is configured meanwhile (I4).
    pub fn namespace(&self) -> &str {
        let configured = &self.config.coordination.namespace;
        self.facts.record.namespace(configured)
    }

    /// The group: while a slot is held, the slot's; else the Node's label when one is configured and set,
    /// else the configured name.
    pub fn group(&self) -> String {
        let held = self.facts.record.hold.as_ref();
        let slot = held.and_then(|hold| self.facts.leases.get(&hold.take.lease));
        if let Some(lease) = slot.filter(|lease| !lease.group.is_empty()) {
            return lease.group.clone();
        }
        let coordination = &self.config.coordination;
        match &self.facts.node {
            Seen::Present(node) => coordination.group_of(&node.labels),
            Seen::Absent | Seen::Unknown => coordination.group.to_string(),
        }
    }

    /// What decisions about the Node `me` read of the configuration.
    pub fn policy(&self, me: Option<&str>) -> Policy {
        Policy::of(&self.config, me, self.namespace(), &self.group())
    }

    fn say(&mut self, words: String) {
        self.said.push(words);
    }

    /// Warnings for the log, each once.
    pub fn take_warnings(&mut self) -> Vec<String> {
        mem::take(&mut self.said)
    }

    /// Messages for the terminals of all who are logged in, each once; at most 1,000 characters.
    pub fn take_walls(&mut self) -> Vec<String> {
        mem::take(&mut self.walls)
    }
}

/// What it is told.
impl Machine {
    /// The host was looked at.
    pub fn saw_host(&mut self, mut host: HostNow) {
        self.saw_patches(&host);
        // It is the same for as long as this runs, but for an update; a systemd that is silent for once undoes nothing.
        let last = self.memory.host.take();
        host.systemd = host.systemd.or(last.and_then(|last| last.systemd));
        self.memory.host = Some(host);
        self.memory.host_changed = false;
    }

    /// What came up with this boot; none: it cannot be read.
    #[must_use]
    pub fn booted(mut self, booted: Option<Booted>) -> Self {
        self.memory.booted = booted;
        self
    }

    /// The deployment that the next boot is to bring, by a look just now.
    pub fn saw_staged(&mut self, staged: Option<String>) {
        self.memory.staged = staged;
    }

    /// The host's state may have changed since the last look.
    pub fn host_changed(&mut self) {
        self.memory.host_changed = true;
    }

    /// It was tried to cancel a scheduled shutdown.
    pub fn cancelled(&mut self, now: Now) {
        self.memory.cancelled = Some(now.boot);
    }

    /// The own pods, as their watch shows them, if it shows any; and how well it sees, if there is one.
    pub fn saw_pods(&mut self, pods: Option<Vec<Pod>>, sight: Option<Sight>) {
        self.memory.pods = pods;
        self.memory.sight = sight.unwrap_or(self.memory.sight);
    }

    /// The API server gave a sign of life at this boot time.
    pub fn heard(&mut self, at: Duration) {
        self.memory.heard = Some(at);
    }

    /// The API server answered at `at` what was asked for at `sent`.
    pub fn answered(&mut self, sent: Duration, at: Duration) {
        self.memory.answered = Some((sent, at));
    }

    /// The evictions that were due are asked for, so many of them; each will be answered.
    pub fn sent(&mut self, evictions: usize) {
        self.memory.queue.clear();
        self.facts.evicting += evictions;
    }

    /// The escalations that were due are asked for, so many of them; each will be answered.
    pub fn escalations_sent(&mut self, escalations: usize) {
        self.memory.escalate.clear();
        self.facts.evicting += escalations;
    }

    /// The eviction of the pod `uid`, or its escalation, was answered.
    pub fn evicted(&mut self, uid: &str, answer: EvictAnswer, now: Duration) {
        self.facts.evicting = self.facts.evicting.saturating_sub(1);
        let Some(drain) = &mut self.memory.drain else {
            return;
        };
        match drain.answer(uid, answer, now) {
            Some(Went::Evicted) => self.facts.times.evicts(),
            Some(Went::Deleted) => self.facts.times.deletes(),
            None => {}
        }
        let said = drain.take_said();
        self.said.extend(said);
    }

    /// A consistent list of the own pods, asked for at `asked`.
    pub fn listed(&mut self, pods: &[Pod], asked: Duration) {
        self.facts.last_list = Some(LastList {
            asked,
            clean: self.clean(pods),
            marks: Marks::take(pods),
        });
    }

    /// A list of the own pods before the cordon.
    pub fn listed_before(&mut self, pods: &[Pod], now: Now) {
        let policy = &self.config.drain.policy;
        self.memory.unmanaged = drain::not_made_again(pods, policy);
        self.look_before_cordon(pods, now);
    }

    /// Whether the cluster has no other Node; none: that is to be looked at again.
    pub fn saw_alone(&mut self, alone: Option<bool>, now: Now) {
        self.memory.alone = alone.map(|alone| (now.boot, alone));
    }

    /// What package managers do, or why that is not known.
    pub fn saw_packages(&mut self, found: Result<Option<PackageManager>, String>, now: Now) {
        self.memory.packages.look(found, now);
    }

    /// Nobody looks at package managers, as nothing rests on them.
    pub fn forget_packages(&mut self) {
        self.memory.packages.forget();
    }

    /// The own heartbeat Lease was asked for.
    pub fn pulse_read(&mut self, now: Now) {
        self.memory.pulse_read = Some(now.boot);
    }

    /// The kubelet has renewed its heartbeat Lease at `at`, by its own clock.
    pub fn renewed(&mut self, at: Option<Timestamp>) {
        self.memory.pulse.renewed(at);
    }

    /// What was found of a `DaemonSet` that has no pod here.
    pub fn saw_daemon_set(&mut self, set: DaemonSet, found: Found, now: Now) {
        self.memory.found.insert(set, (now.boot, found));
    }
}

/// What follows.
impl Machine {
    /// The gates, the drain, and the health of what came back, as far as the phase needs them.
    pub fn judge(&mut self, findings: &[Finding], now: Now) {
        self.gates(findings, now);
        self.facts.in_stage = self.memory.in_stage(&self.facts, now.boot);
        self.facts.marks = self.memory.pods.as_deref().map(Marks::take);
        let draining = matches!(self.phase(), Phase::Draining | Phase::Rebooting);
        let pods = self.memory.pods.take();
        self.facts.drain = match &pods {
            Some(pods) if draining => self.drained(pods, now.boot),
            _ => Drained::Starting,
        };
        self.memory.pods = pods;
        // One that has not answered leaves all of them without an answer.
        let asked = self.commands_asked(now).min(self.alerts_asked(now));
        let asked = asked.min(self.capacity_asked(now));
        self.facts.answers.asked = asked.min(self.api_servers_asked(now));
        self.facts.hooks = self.hooks_stand();
        self.prove(now);
        self.gives_back(now);
        self.facts.ending = self.ending();
        self.forget_tries();
        self.facts.refusing = self.refusing();
    }

    /// Pods that nobody starts again after this reboot, from when it is wanted until the host goes down.
    fn ending(&self) -> Vec<PodRef> {
        let graceful = self.memory.host.as_ref().is_some_and(|host| host.graceful);
        let (hold, wanted) = (&self.facts.record.hold, &self.facts.observed.request);
        let before = hold
            .as_ref()
            .is_none_or(|hold| hold.boot == self.facts.boot);
        if !graceful || !before || (wanted.is_none() && hold.is_none()) {
            return Vec::new();
        }
        match (hold, &self.memory.pods) {
            (Some(_), Some(pods)) => drain::not_made_again(pods, &self.config.drain.policy),
            _ => self.memory.unmanaged.clone(),
        }
    }

    /// The next step: what must be durable, then one effect.
    pub fn next(&mut self, policy: &Policy, now: Now) -> Step {
        self.pass(now);
        let step = decide::decide(&self.facts, policy, now);
        let since = self.memory.spent.map_or(now.boot, |(_, since)| since);
        self.memory.spent = decide::spent(&step).map(|spent| (spent, since));
        self.facts.ready = decide::ready(&self.facts, &step, now);
        self.warn_users(&step, now);
        self.tells(step, policy, now)
    }

    /// The time since the last step went to what that step was about, in whole seconds: what is left goes to the next.
    fn pass(&mut self, now: Now) {
        let facts = &mut self.facts;
        let hold = facts.record.hold.as_ref();
        if hold.is_some_and(|hold| hold.boot != facts.boot) {
            facts.times.booted(now.wall);
        }
        if let Some((spent, since)) = &mut self.memory.spent {
            let passed = now.since(*since).as_secs();
            facts.times.add(*spent, passed);
            *since += Duration::from_secs(passed);
        }
    }

    /// The record of a step is durable, or may be believed without. What was known of another hold is void then.
    pub fn wrote(&mut self, record: Record) {
        let of = |record: &Record| record.hold.as_ref().map(|hold| hold.take.acquire_time);
        let another = of(&self.facts.record) != of(&record);
        if record != self.facts.record {
            // With all that has passed, or without what is over.
            self.facts.times = record.times.clone().unwrap_or_default();
        }
        self.facts.record = record;
        if another {
            self.facts.forget_hold();
            self.memory.forget_hold();
        }
    }

    /// If the step only waits for something with a time limit of its own, that of its stage starts anew.
    pub fn rests(&mut self, step: &Step) {
        if decide::rests(&self.facts, step) {
            self.memory.rests();
        }
    }
}
