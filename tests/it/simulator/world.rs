//! The cluster of the simulator, and what people and accidents do to it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd_core::config::Mode;
use kube_rebootd_core::effect::Effect;
use kube_rebootd_core::names;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::record::Record;
use kube_rebootd_core::slot::Lease;

use super::host::{Host, ModelNode};
use super::service::Service;

/// The cluster, its hosts and the time.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools)] // each is a fault of its own
pub(crate) struct World {
    pub(super) clock: Duration,
    pub(super) version: u64,
    pub(super) leases: BTreeMap<String, Lease>,
    pub(super) nodes: BTreeMap<String, ModelNode>,
    pub(crate) hosts: Vec<Host>,
    pub(super) late: Vec<(Duration, usize, Effect)>,
    pub(crate) effects: u64,
    /// Of them, those that met another fate than `Done`, by fate.
    pub(crate) met: BTreeMap<String, u64>,
    pub(crate) api_down: bool,
    /// Requests that had no answer because it was down.
    pub(crate) unanswered: u64,
    /// Nobody may count the Nodes.
    pub(crate) uncounted: bool,
    /// Nobody may list who waits.
    pub(crate) waiters_refused: bool,
    /// The rights of the coordinator are gone: no Lease can be read or written, no Node listed.
    pub(crate) pruned: bool,
    /// A policy refuses every apply to a Node.
    pub(crate) nodes_refused: bool,
    /// Slots that were cleared for a holder that is gone.
    pub(crate) cleared: usize,
    pub(crate) trace: Vec<String>,
    /// The story is kept; it costs more than all else.
    pub(super) telling: bool,
    /// Writes of Leases: what watches of all hosts show.
    pub(super) lease_changes: u64,
    /// How much longer than it asked for an idle daemon sleeps.
    pub(super) nap: Duration,
    /// Who was served past whom: see `month`.
    pub(super) service: Service,
}

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
            met: BTreeMap::new(),
            api_down: false,
            unanswered: 0,
            uncounted: false,
            waiters_refused: false,
            pruned: false,
            nodes_refused: false,
            cleared: 0,
            trace: Vec::new(),
            telling: true,
            lease_changes: 0,
            nap: Duration::ZERO,
            service: Service::default(),
        };
        for slot in 0..slots {
            let name = if slot == 0 {
                "default".to_owned()
            } else {
                format!("default-{slot}")
            };
            world
                .leases
                .insert(name.clone(), Lease::free(&name, "default"));
        }
        for index in 0..hosts {
            let name = format!("n{index}");
            let labels = (index < quorum)
                .then(|| (names::QUORUM_ROLES[0].to_owned(), String::new()))
                .into_iter()
                .collect();
            world.nodes.insert(
                name.clone(),
                ModelNode::new(format!("uid-{name}"), 1, labels),
            );
            world.hosts.push(Host::new(&name, hosts == 1));
        }
        world
    }

    /// `mode` of its configuration, reloaded.
    pub(crate) fn observe(&mut self, host: usize, observe: bool) {
        self.hosts[host].config.mode = if observe { Mode::Observe } else { Mode::Active };
        self.hosts[host].wake = Duration::ZERO;
    }

    /// Whether the hosts have hooks.
    pub(crate) fn hook(&mut self, there: bool) {
        for host in &mut self.hosts {
            host.hooks = there;
        }
    }

    /// Somebody takes a lock against a shutdown, or gives it back: logind says so.
    pub(crate) fn inhibit(&mut self, host: usize, inhibited: bool) {
        let host = &mut self.hosts[host];
        host.inhibited = inhibited;
        if let Some(machine) = &mut host.machine {
            machine.host_changed();
        }
        host.wake = Duration::ZERO;
    }

    pub(crate) fn cordon_by_admin(&mut self, host: usize) {
        let name = self.hosts[host].name.clone();
        self.hosts[host].cordoned_before = true;
        let node = self.changes(&name);
        node.cordon.insert("kubectl-cordon".to_owned());
    }

    pub(crate) fn uncordon_by_admin(&mut self, host: usize) {
        let name = self.hosts[host].name.clone();
        let node = self.changes(&name);
        node.cordon.clear();
        self.hosts[host].wake = Duration::ZERO;
    }

    pub(crate) fn unlock_by_admin(&mut self, lease: &str) {
        self.version += 1;
        self.lease_changes += 1;
        let lease = self.leases.get_mut(lease).unwrap();
        lease.holder = None;
        lease.acquire_time = None;
        lease.resource_version = self.version.to_string();
    }

    pub(crate) fn annotate(&mut self, host: usize, key: &str, value: Option<&str>) {
        let name = self.hosts[host].name.clone();
        let node = self.changes(&name);
        match value {
            Some(value) => node.annotations.insert(key.to_owned(), value.to_owned()),
            None => node.annotations.remove(key),
        };
        self.hosts[host].wake = Duration::ZERO;
    }

    /// The Node is deleted and registered anew.
    pub(crate) fn replace_node(&mut self, host: usize) {
        let name = self.hosts[host].name.clone();
        self.version += 1;
        let uid = format!("uid-{name}-{}", self.version);
        let node = self.changes(&name);
        node.uid = uid;
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
        let uid = format!("uid-{name}-{}", self.version);
        let node = ModelNode::new(uid, self.version, BTreeMap::new());
        self.nodes.insert(name.to_owned(), node);
    }

    /// A person taints the Node of a host that is off.
    pub(crate) fn out_of_service(&mut self, host: usize, off: bool) {
        let name = self.hosts[host].name.clone();
        let node = self.changes(&name);
        node.out_of_service = off;
    }

    /// `unlock NODE`: its Lease, then label and record of the Node.
    pub(crate) fn unlock_node(&mut self, host: usize, lease: &str) {
        self.unlock_by_admin(lease);
        let name = self.hosts[host].name.clone();
        let node = self.changes(&name);
        node.labels.remove(names::SLOT);
        node.annotations.remove(names::STATE);
        self.wake_all();
    }

    pub(crate) fn labelled(&self, host: usize) -> bool {
        let name = &self.hosts[host].name;
        self.nodes[name].labels.contains_key(names::SLOT)
    }

    pub(crate) fn label(&mut self, node: &str, key: &str, value: &str) {
        let node = self.changes(node);
        node.labels.insert(key.to_owned(), value.to_owned());
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

    pub(super) fn wake_all(&mut self) {
        for host in &mut self.hosts {
            host.wake = Duration::ZERO;
        }
    }

    /// What the host's next turn does.
    fn next(&self, host: usize) -> Effect {
        let mut world = self.clone();
        world.clock += Duration::from_millis(5);
        let mut machine = world.gather(host);
        let policy = machine.policy(Some(&world.hosts[host].name));
        let step = machine.next(&policy, world.now(host));
        step.effect
    }

    /// The host's next step is this effect.
    pub(crate) fn asks(&self, host: usize, effect: &str) -> bool {
        format!("{:?}", self.next(host)).starts_with(effect)
    }

    /// The host's next step changes something outside.
    pub(crate) fn writes(&self, host: usize) -> bool {
        self.next(host).outside()
    }

    /// The host never runs again; its Node is another matter.
    pub(crate) fn die(&mut self, host: usize) {
        self.hosts[host].dead = true;
        self.hosts[host].broken = true;
        self.hosts[host].machine = None;
        self.hosts[host].waiting = None;
        self.hosts[host].shutting_down = false;
    }

    pub(crate) fn waiting_since(&self, host: usize) -> Option<Timestamp> {
        let waiting = self.hosts[host].waiting.as_ref();
        waiting.map(|shown| shown.place.since)
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
        self.hosts[host].file += 1;
        self.hosts[host].wake = Duration::ZERO;
    }

    pub(crate) fn remove_sentinel(&mut self, host: usize) {
        self.hosts[host].sentinel = false;
        self.hosts[host].wake = Duration::ZERO;
    }

    pub(crate) fn kill(&mut self, host: usize) {
        self.hosts[host].machine = None;
        self.hosts[host].shown = None;
        self.hosts[host].answers.clear();
        self.hosts[host].wake = Duration::ZERO;
        self.updater_lost(host, false);
    }

    /// A soft-reboot by whomever: the kernel goes on, and what lies in /run.
    pub(crate) fn soft_boot(&mut self, host: usize) {
        let (boots, sentinel) = (self.hosts[host].boots, self.hosts[host].sentinel);
        self.boot(host);
        let host = &mut self.hosts[host];
        (host.boots, host.sentinel) = (boots, sentinel);
        host.userspaces += 1;
    }

    /// A reboot by whomever.
    pub(crate) fn boot(&mut self, host: usize) {
        let clock = self.clock;
        self.updater_lost(host, true);
        let host = &mut self.hosts[host];
        host.machine = None;
        host.boots += 1;
        host.booted = clock;
        host.shutting_down = false;
        host.softly = false;
        host.kubelet_up = false;
        host.shown = None;
        host.answers.clear();
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

    /// A watch shows what people did.
    pub(super) fn wake(&mut self, host: usize) {
        self.hosts[host].wake = Duration::ZERO;
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.clock += by;
        for host in &mut self.hosts {
            host.wake = Duration::ZERO;
        }
    }

    /// A Node whose object changes: versions of all objects count up together, as etcd's do.
    pub(super) fn changes(&mut self, name: &str) -> &mut ModelNode {
        self.version += 1;
        let node = self.nodes.get_mut(name).unwrap();
        node.version = self.version;
        node
    }

    pub(super) fn bump(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }
}
