//! The world of the simulator: hosts, Nodes, Leases, time, and what happens to a request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd::boot::Boot;
use kube_rebootd::budget::MaxUnavailable;
use kube_rebootd::cluster::lease::follow;
use kube_rebootd::decide::{Policy, Step, decide};
use kube_rebootd::facts::{Effect, Facts};
use kube_rebootd::gates::Closed;
use kube_rebootd::health::Marks;
use kube_rebootd::names;
use kube_rebootd::node::Seen;
use kube_rebootd::now::Now;
use kube_rebootd::phase::Phase;
use kube_rebootd::record::Record;
use kube_rebootd::slot::{Lease, TakeAnswer, Waiting};
use kube_rebootd::trigger::{Finding, Verdict, observe};

/// A repeatable source of chance: `SplitMix64`.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn seed(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n.max(1)).unwrap()).unwrap()
    }

    /// True `percent` of the time.
    pub(crate) fn hit(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// What happens to a host's next write, beside being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    /// Done, but nobody hears of it.
    AnswerLost,
    /// Never arrives.
    Lost,
    /// Arrives later.
    Late,
    /// The daemon dies after the write-ahead, before the effect.
    KilledBefore,
    /// The daemon dies after the effect, before it learned of it.
    KilledAfter,
    /// The host loses power instead of the effect.
    PowerLoss,
}

#[derive(Debug, Clone)]
pub(super) struct ModelNode {
    pub(super) uid: String,
    pub(super) version: u64,
    pub(super) cordon: BTreeSet<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) ours: BTreeSet<String>,
    pub(super) annotations: BTreeMap<String, String>,
}

#[allow(clippy::struct_excessive_bools)] // knobs of a model
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(super) name: String,
    pub(crate) policy: Policy,
    pub(super) boots: u64,
    booted: Duration,
    disk: Option<String>,
    pub(super) facts: Option<Facts>,
    pub(super) sentinel: bool,
    /// The sentinel survives the reboot.
    pub(crate) sticky: bool,
    pub(super) shutting_down: bool,
    pub(super) kubelet_up: bool,
    pub(super) pods: usize,
    pub(super) drained: Option<Duration>,
    /// After the last pod its volumes are in use for so long; it has none when zero.
    pub(crate) unmounting: Duration,
    pub(super) mounted: bool,
    /// A budget that never opens.
    pub(crate) stuck: bool,
    pub(crate) closed: Vec<Closed>,
    /// Its kubelet does not come back.
    pub(crate) broken: bool,
    /// Off for good: nothing runs on it.
    dead: bool,
    /// logind answers yes and does nothing.
    pub(crate) deaf: bool,
    pub(super) waiting: Option<Waiting>,
    wake: Duration,
    pub(crate) phases: Vec<Phase>,
    cordoned_before: bool,
    pub(super) asked: u32,
    status: String,
}

/// A definite answer of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Done,
    Conflict,
    Refused,
}

/// The cluster, its hosts and the time.
#[derive(Debug, Clone)]
pub(crate) struct World {
    clock: Duration,
    version: u64,
    pub(super) leases: BTreeMap<String, Lease>,
    pub(super) nodes: BTreeMap<String, ModelNode>,
    pub(crate) hosts: Vec<Host>,
    late: Vec<(Duration, usize, Effect)>,
    pub(crate) effects: u64,
    pub(crate) api_down: bool,
    /// Nobody may count the Nodes.
    pub(crate) uncounted: bool,
    /// Slots that were cleared for a holder that is gone.
    pub(crate) cleared: usize,
    pub(crate) trace: Vec<String>,
}

const START: i64 = 1_790_000_000;

impl World {
    /// `hosts` nodes and `slots` Leases of one group; `quorum` of the nodes are control-plane.
    pub(crate) fn new(hosts: usize, slots: usize, quorum: usize) -> Self {
        let mut world = Self {
            clock: Duration::from_secs(1_000),
            version: 1,
            leases: BTreeMap::new(),
            nodes: BTreeMap::new(),
            hosts: Vec::new(),
            late: Vec::new(),
            effects: 0,
            api_down: false,
            uncounted: false,
            cleared: 0,
            trace: Vec::new(),
        };
        for slot in 0..slots {
            let name = if slot == 0 {
                "default".to_owned()
            } else {
                format!("default-{slot}")
            };
            world.leases.insert(name.clone(), free_lease(&name));
        }
        for index in 0..hosts {
            let name = format!("n{index}");
            let labels = (index < quorum)
                .then(|| (names::QUORUM_ROLES[0].to_owned(), String::new()))
                .into_iter()
                .collect();
            world.nodes.insert(
                name.clone(),
                ModelNode {
                    uid: format!("uid-{name}"),
                    version: 1,
                    cordon: BTreeSet::new(),
                    labels,
                    ours: BTreeSet::new(),
                    annotations: BTreeMap::new(),
                },
            );
            world.hosts.push(Host::new(&name));
        }
        world
    }

    /// `mode` of its configuration, reloaded.
    pub(crate) fn observe(&mut self, host: usize, observe: bool) {
        self.hosts[host].policy.observe = observe;
        self.hosts[host].wake = Duration::ZERO;
    }

    pub(crate) fn cordon_by_admin(&mut self, host: usize) {
        let name = self.hosts[host].name.clone();
        self.hosts[host].cordoned_before = true;
        let node = self.nodes.get_mut(&name).unwrap();
        node.cordon.insert("kubectl-cordon".to_owned());
        node.version += 1;
    }

    pub(crate) fn uncordon_by_admin(&mut self, host: usize) {
        let name = self.hosts[host].name.clone();
        let node = self.nodes.get_mut(&name).unwrap();
        node.cordon.clear();
        node.version += 1;
        self.hosts[host].wake = Duration::ZERO;
    }

    pub(crate) fn unlock_by_admin(&mut self, lease: &str) {
        self.version += 1;
        let lease = self.leases.get_mut(lease).unwrap();
        lease.holder = None;
        lease.acquire_time = None;
        lease.resource_version = self.version.to_string();
    }

    pub(crate) fn annotate(&mut self, host: usize, key: &str, value: Option<&str>) {
        let name = self.hosts[host].name.clone();
        let node = self.nodes.get_mut(&name).unwrap();
        match value {
            Some(value) => node.annotations.insert(key.to_owned(), value.to_owned()),
            None => node.annotations.remove(key),
        };
        node.version += 1;
        self.hosts[host].wake = Duration::ZERO;
    }

    /// The Node is deleted and registered anew.
    pub(crate) fn replace_node(&mut self, host: usize) {
        let name = self.hosts[host].name.clone();
        self.version += 1;
        let uid = format!("uid-{name}-{}", self.version);
        let node = self.nodes.get_mut(&name).unwrap();
        node.uid = uid;
        node.version = self.version;
        node.cordon.clear();
        node.labels.remove(names::SLOT);
        node.annotations.clear();
        self.hosts[host].cordoned_before = false;
        self.hosts[host].wake = Duration::ZERO;
    }

    /// The Node is deleted; with its host, or under it.
    pub(crate) fn delete_node(&mut self, host: usize) {
        let name = self.hosts[host].name.clone();
        self.nodes.remove(&name);
        self.hosts[host].wake = Duration::ZERO;
    }

    /// A Node of this name, with nothing on it.
    pub(crate) fn make_node(&mut self, name: &str) {
        self.version += 1;
        let node = ModelNode {
            uid: format!("uid-{name}-{}", self.version),
            version: self.version,
            cordon: BTreeSet::new(),
            labels: BTreeMap::new(),
            ours: BTreeSet::new(),
            annotations: BTreeMap::new(),
        };
        self.nodes.insert(name.to_owned(), node);
    }

    pub(crate) fn label(&mut self, node: &str, key: &str, value: &str) {
        let node = self.nodes.get_mut(node).unwrap();
        node.labels.insert(key.to_owned(), value.to_owned());
        node.version += 1;
    }

    /// The pause of a slot.
    pub(crate) fn annotate_lease(&mut self, lease: &str, paused: Option<&str>) {
        let version = self.bump();
        let lease = self.leases.get_mut(lease).unwrap();
        lease.paused = paused.map(str::to_owned);
        lease.resource_version = version;
        self.wake_all();
    }

    pub(crate) fn hold_by_admin(&mut self, lease: &str, holder: &str) {
        let version = self.bump();
        let lease = self.leases.get_mut(lease).unwrap();
        lease.holder = Some(holder.to_owned());
        lease.resource_version = version;
        self.wake_all();
    }

    fn wake_all(&mut self) {
        for host in &mut self.hosts {
            host.wake = Duration::ZERO;
        }
    }

    /// The host's next step is this effect.
    pub(crate) fn asks(&self, host: usize, effect: &str) -> bool {
        let mut world = self.clone();
        world.clock += Duration::from_millis(5);
        let facts = world.gather(host);
        let step = decide(&facts, &world.hosts[host].policy, world.now(host));
        format!("{:?}", step.effect).starts_with(effect)
    }

    /// The host never runs again; its Node is another matter.
    pub(crate) fn die(&mut self, host: usize) {
        self.hosts[host].dead = true;
        self.hosts[host].broken = true;
        self.hosts[host].facts = None;
        self.hosts[host].waiting = None;
        self.hosts[host].shutting_down = false;
    }

    pub(crate) fn waiting_since(&self, host: usize) -> Option<Timestamp> {
        let waiting = self.hosts[host].waiting.as_ref();
        waiting.map(|waiting| waiting.since)
    }

    /// Its kubelet reports; soon after a boot, whether anybody looks or not.
    pub(super) fn up(&self, host: &Host) -> bool {
        let booted = self.clock.saturating_sub(host.booted) > Duration::from_secs(2);
        !host.broken && (host.kubelet_up || booted)
    }

    pub(crate) fn lease(&self, name: &str) -> &Lease {
        &self.leases[name]
    }

    pub(crate) fn clock(&self) -> Duration {
        self.clock
    }

    pub(crate) fn lose_disk(&mut self, host: usize) {
        self.hosts[host].disk = None;
    }

    pub(crate) fn touch(&mut self, host: usize) {
        self.hosts[host].sentinel = true;
        self.hosts[host].wake = Duration::ZERO;
    }

    pub(crate) fn remove_sentinel(&mut self, host: usize) {
        self.hosts[host].sentinel = false;
        self.hosts[host].wake = Duration::ZERO;
    }

    pub(crate) fn kill(&mut self, host: usize) {
        self.hosts[host].facts = None;
        self.hosts[host].drained = None;
        self.hosts[host].wake = Duration::ZERO;
    }

    /// A reboot by whomever.
    pub(crate) fn boot(&mut self, host: usize) {
        let clock = self.clock;
        let host = &mut self.hosts[host];
        host.facts = None;
        host.boots += 1;
        host.booted = clock;
        host.shutting_down = false;
        host.kubelet_up = false;
        host.drained = None;
        host.sentinel &= host.sticky;
        host.wake = Duration::ZERO;
    }

    pub(crate) fn phase(&self, host: usize) -> Option<Phase> {
        self.hosts[host].phases.last().copied()
    }

    pub(crate) fn boots(&self, host: usize) -> u64 {
        self.hosts[host].boots
    }

    pub(crate) fn holder(&self, lease: &str) -> Option<&str> {
        self.leases[lease].holder.as_deref()
    }

    pub(crate) fn cordoned(&self, host: usize) -> bool {
        !self.nodes[&self.hosts[host].name].cordon.is_empty()
    }

    pub(crate) fn annotation(&self, host: usize, key: &str) -> Option<&String> {
        self.nodes[&self.hosts[host].name].annotations.get(key)
    }

    pub(crate) fn status(&self, host: usize) -> &str {
        &self.hosts[host].status
    }

    pub(crate) fn record(&self, host: usize) -> Record {
        let disk = self.hosts[host].disk.as_deref();
        disk.map_or_else(Record::default, |text| Record::decode(text).unwrap())
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.clock += by;
        for host in &mut self.hosts {
            host.wake = Duration::ZERO;
        }
    }

    fn now(&self, host: usize) -> Now {
        let seconds = i64::try_from(self.clock.as_secs()).unwrap();
        let nanos = i32::try_from(self.clock.subsec_nanos()).unwrap();
        Now {
            wall: Timestamp::new(START + seconds, nanos).unwrap(),
            boot: self.clock.saturating_sub(self.hosts[host].booted) + Duration::from_secs(1),
        }
    }

    /// One turn of one host's daemon; what it wrote meets `fate`. False: it had nothing to do.
    pub(crate) fn turn(&mut self, index: usize, fate: Fate) -> bool {
        self.clock += Duration::from_millis(5);
        self.land();
        let clock = self.clock;
        if self.hosts[index].shutting_down {
            // The shutdown takes its second; then the firmware starts the host again.
            self.clock += Duration::from_secs(1);
            self.boot(index);
            return true;
        }
        let facts = self.gather(index);
        let now = self.now(index);
        let step = decide(&facts, &self.hosts[index].policy, now);
        let wrote = self.write_ahead(index, facts, &step);
        if step.effect == Effect::Wait {
            let wake = step.wake.unwrap_or(now.boot);
            self.hosts[index].wake = clock + wake.saturating_sub(now.boot);
            if wrote {
                self.hosts[index].wake = Duration::ZERO;
            }
            self.check();
            return wrote;
        }
        if step.effect.outside() {
            self.effects += 1;
        }
        self.trace.push(format!(
            "{} {} {:?} {fate:?}",
            self.hosts[index].name, step.phase, step.effect
        ));
        self.meet(index, &step, fate, now);
        self.check();
        true
    }

    fn write_ahead(&mut self, index: usize, mut facts: Facts, step: &Step) -> bool {
        let host = &mut self.hosts[index];
        let wrote = facts.record != step.record;
        if wrote {
            host.disk = Some(step.record.encode());
            if step.record.hold.as_ref().map(|hold| hold.take.acquire_time)
                != facts
                    .record
                    .hold
                    .as_ref()
                    .map(|hold| hold.take.acquire_time)
            {
                facts.take = TakeAnswer::default();
                facts.ask = None;
                facts.ask_accepted = None;
            }
            facts.record = step.record.clone();
        }
        if host.phases.last() != Some(&step.phase) {
            host.phases.push(step.phase);
        }
        host.status.clone_from(&step.status);
        host.facts = Some(facts);
        wrote
    }

    fn meet(&mut self, index: usize, step: &Step, fate: Fate, now: Now) {
        let fate = if step.effect.outside() || !matches!(fate, Fate::Late) {
            fate
        } else {
            Fate::Done
        };
        let api = !matches!(
            step.effect,
            Effect::ReadHost | Effect::AskReboot | Effect::Begin
        );
        if self.api_down && api {
            self.answer(index, &step.effect, None, now);
            // The daemon's own back-off between retries.
            self.clock += Duration::from_secs(1);
            return;
        }
        match fate {
            Fate::Done => {
                let said = self.perform(index, &step.effect, now);
                self.answer(index, &step.effect, Some(said), now);
            }
            Fate::AnswerLost => {
                self.perform(index, &step.effect, now);
                self.answer(index, &step.effect, None, now);
            }
            Fate::Lost => self.answer(index, &step.effect, None, now),
            Fate::Late => {
                self.late.push((
                    self.clock + Duration::from_secs(40),
                    index,
                    step.effect.clone(),
                ));
                self.answer(index, &step.effect, None, now);
            }
            Fate::KilledBefore => self.kill(index),
            Fate::KilledAfter => {
                self.perform(index, &step.effect, now);
                self.kill(index);
            }
            Fate::PowerLoss => self.boot(index),
        }
    }

    /// Requests that were on their way arrive.
    fn land(&mut self) {
        let due: Vec<_> = self
            .late
            .iter()
            .filter(|late| late.0 <= self.clock)
            .cloned()
            .collect();
        self.late.retain(|late| late.0 > self.clock);
        for (_, index, effect) in due {
            let now = self.now(index);
            // logind is no network: nothing of it comes late.
            // A waiting record is a hint that may be wrong.
            if !matches!(effect, Effect::AskReboot | Effect::Mark(_) | Effect::Unmark) {
                self.trace
                    .push(format!("{} late {effect:?}", self.hosts[index].name));
                self.perform(index, &effect, now);
            }
        }
    }
}

impl World {
    pub(super) fn bump(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    /// What the daemon of this host sees: its memory, the watches, the disk, the host.
    fn gather(&mut self, index: usize) -> Facts {
        let now = self.now(index);
        let watched = self.node_view(index, None);
        let (leases, drained) = (self.leases.clone(), self.drained(index, now));
        let host = &mut self.hosts[index];
        let mut facts = host.facts.take().unwrap_or_else(|| fresh(host));
        // Watches lag only until they are asked to matter: a change replaces what was read.
        if facts.started && !self.api_down {
            match (&facts.node, &watched) {
                (Seen::Present(old), Seen::Present(new))
                    if old.resource_version == new.resource_version => {}
                _ => facts.node = watched,
            }
            for (name, lease) in leases {
                let known = facts.leases.get(&name);
                if known.is_some_and(|known| known.resource_version == lease.resource_version) {
                    continue;
                }
                let lease = follow(known, lease, now.boot);
                facts.leases.insert(name, lease);
            }
        }
        facts.shutting_down = host.shutting_down;
        facts.closed.clone_from(&host.closed);
        let verdict = if host.sentinel {
            Verdict::Reboot {
                pkgs: BTreeSet::new(),
                words: String::new(),
            }
        } else {
            Verdict::No
        };
        let finding = Finding {
            trigger: "sentinel".to_owned(),
            verdict,
            settle: Duration::ZERO,
        };
        let annotation = match &facts.node {
            Seen::Present(node) => node.annotations.get(names::REBOOT).map(String::as_str),
            Seen::Absent | Seen::Unknown => None,
        };
        facts.observed = observe(
            facts.record.request.clone(),
            facts.record.settled.clone(),
            &[finding],
            annotation,
            &facts.boot,
            now,
        );
        facts.marks = Some(Marks::default());
        facts.drain = drained;
        // The kubelet comes some time after the boot.
        host.kubelet_up |= now.boot > Duration::from_secs(3);
        facts.host_health = if host.kubelet_up {
            Ok(())
        } else {
            Err(vec!["kubelet".to_owned()])
        };
        facts
    }

    /// I2, at the moment logind is asked.
    pub(super) fn may_reboot(&self, index: usize, now: Now) {
        let host = &self.hosts[index];
        let facts = host.facts.as_ref().unwrap();
        let hold = facts.record.hold.as_ref().unwrap();
        let lease = &self.leases[&hold.take.lease];
        assert_eq!(
            lease.holder.as_deref(),
            Some(host.name.as_str()),
            "I2: not the holder\n{}",
            self.told()
        );
        let read = facts.leases[&hold.take.lease].read.unwrap();
        assert!(now.since(read) <= Duration::from_secs(5), "I2: an old read");
        assert_eq!(host.pods, 0, "I2: not drained");
        assert!(!host.mounted, "volumes are mounted\n{}", self.told());
        assert!(facts.closed.is_empty(), "I2: a gate is closed");
        assert!(self.cordoned(index), "I2: not cordoned");
    }

    /// I4, at the moment a Lease is given up.
    pub(super) fn clean_at_give_up(&self, index: usize) {
        let host = &self.hosts[index];
        let Some(node) = self.nodes.get(&host.name) else {
            return;
        };
        assert!(
            !node.labels.contains_key(names::SLOT),
            "I4: label after the Lease\n{}",
            self.told()
        );
        let kept = host
            .facts
            .as_ref()
            .is_some_and(|facts| facts.record.kept.is_some());
        assert!(
            kept || !node.cordon.contains(names::NODE_MANAGER),
            "I4: cordon after the Lease"
        );
        assert!(!host.shutting_down, "I4: given up while the host goes down");
    }

    /// I1 and I13, after every step.
    fn check(&self) {
        let down = |node: &&ModelNode| {
            node.labels.contains_key(names::SLOT) && node.cordon.contains(names::NODE_MANAGER)
        };
        let down: Vec<&ModelNode> = self.nodes.values().filter(down).collect();
        let slots: BTreeSet<&String> = down.iter().map(|node| &node.labels[names::SLOT]).collect();
        assert_eq!(
            slots.len(),
            down.len(),
            "I1: two nodes down on one slot\n{}",
            self.told()
        );
        assert!(down.len() <= self.leases.len(), "I1: more down than slots");
        let quorum = down
            .iter()
            .filter(|node| node.labels.contains_key(names::QUORUM_ROLES[0]));
        assert!(
            quorum.count() <= 1,
            "I13: two of the quorum down\n{}",
            self.told()
        );
    }

    /// The story so far, for a failure.
    pub(crate) fn told(&self) -> String {
        let from = self.trace.len().saturating_sub(60);
        self.trace[from..].join("\n")
    }

    /// Turns of all hosts, each write meeting the fate that `fates` gives, until nobody has anything
    /// to do before `patience` has passed.
    pub(crate) fn run(
        &mut self,
        patience: Duration,
        mut fates: impl FnMut(&mut Self, usize) -> Fate,
    ) {
        let deadline = self.clock + patience;
        let mut turns = 0;
        while self.clock < deadline {
            turns += 1;
            assert!(turns < 20_000, "no rest\n{}", self.told());
            let due = (0..self.hosts.len()).filter(|host| {
                let host = &self.hosts[*host];
                !host.dead && (host.wake <= self.clock || host.shutting_down)
            });
            let due: Vec<usize> = due.collect();
            if due.is_empty() {
                let alive = self.hosts.iter().filter(|host| !host.dead);
                let next = alive.map(|host| host.wake).min();
                self.clock = next.map_or(deadline, |next| next.min(deadline));
                continue;
            }
            for host in due {
                if self.hosts[host].dead {
                    continue;
                }
                let fate = fates(self, host);
                if self.turn(host, fate) {
                    // What one does, the others' watches show.
                    for other in &mut self.hosts {
                        other.wake = Duration::ZERO;
                    }
                }
            }
        }
    }

    /// I3 and I6: what must be true when all is over.
    pub(crate) fn at_rest(&self) {
        for (index, host) in self.hosts.iter().enumerate() {
            if host.dead {
                continue;
            }
            let node = &self.nodes[&host.name];
            assert!(
                !node.labels.contains_key(names::SLOT),
                "label left on {}\n{}",
                host.name,
                self.told()
            );
            assert!(
                !node.annotations.contains_key(names::STATE),
                "record left on {}",
                host.name
            );
            assert!(
                !node.cordon.contains(names::NODE_MANAGER),
                "I3: cordon left on {}\n{}",
                host.name,
                self.told()
            );
            assert_eq!(
                !node.cordon.is_empty(),
                host.cordoned_before,
                "I3: foreign cordon on {}",
                host.name
            );
            assert_eq!(
                self.record(index).hold,
                None,
                "I6: hold left on {}: {}\n{}",
                host.name,
                host.status,
                self.told()
            );
            assert_eq!(host.waiting, None, "waiting record left on {}", host.name);
        }
        // Nobody clears what nobody waits for.
        let dead = |name: &str| (self.hosts.iter()).any(|host| host.dead && host.name == name);
        for lease in self.leases.values() {
            if lease.holder.as_deref().is_some_and(dead) {
                continue;
            }
            assert_eq!(
                lease.holder,
                None,
                "I6: {} is still held\n{}",
                lease.name,
                self.told()
            );
        }
    }
}

impl Host {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            policy: Policy {
                me: name.to_owned(),
                namespace: "kube-rebootd".to_owned(),
                group: "default".to_owned(),
                observe: false,
                max_unavailable: MaxUnavailable::Percent(10),
                min_interval: Duration::ZERO,
                stale_after: Some(Duration::from_secs(1800)),
                retry: Duration::from_secs(300),
                delay: Duration::ZERO,
                timeout: Duration::from_secs(600),
                health_timeout: Duration::from_secs(900),
            },
            boots: 0,
            booted: Duration::ZERO,
            disk: None,
            facts: None,
            sentinel: false,
            sticky: false,
            shutting_down: false,
            kubelet_up: true,
            pods: 3,
            drained: None,
            unmounting: Duration::ZERO,
            mounted: false,
            stuck: false,
            broken: false,
            dead: false,
            deaf: false,
            closed: Vec::new(),
            waiting: None,
            wake: Duration::ZERO,
            phases: Vec::new(),
            cordoned_before: false,
            asked: 0,
            status: String::new(),
        }
    }
}

fn free_lease(name: &str) -> Lease {
    Lease {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        resource_version: "1".to_owned(),
        group: "default".to_owned(),
        holder: None,
        acquire_time: None,
        paused: None,
        protocol: 1,
        control_plane: false,
        next: Vec::new(),
        freed: None,
        last_hold: None,
        last_seen: None,
        held: None,
        read: None,
    }
}

/// A daemon that just started: the disk, the boot, and nothing else.
fn fresh(host: &Host) -> Facts {
    let boot = Boot {
        id: format!("boot-{}-{}", host.name, host.boots),
        userspace: 1,
    };
    let record = host
        .disk
        .as_deref()
        .map_or_else(Record::default, |text| Record::decode(text).unwrap());
    Facts {
        pod_health: Ok(()),
        ..Facts::of_a_start(boot, record)
    }
}
