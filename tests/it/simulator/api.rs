//! How the model answers: reads, writes under preconditions, and what a daemon remembers of them.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_rebootd_core::drain::PodRef;
use kube_rebootd_core::facts::{Effect, Waiters};
use kube_rebootd_core::machine::Machine;
use kube_rebootd_core::names;
use kube_rebootd_core::node::Node;
use kube_rebootd_core::node_fields::{Leftovers, NodeFields};
use kube_rebootd_core::now::Now;
use kube_rebootd_core::peers::Census;
use kube_rebootd_core::peers::{Peer, Peers};
use kube_rebootd_core::pod::EvictAnswer;
use kube_rebootd_core::slot::{Crowd, Fence, GiveUp, Lease, MANY, Shown, Take, TakeSaid, Waiter};
use kube_rebootd_core::stale::Found;

use super::host::{Host, ModelNode, pods};
use super::turn::Said;
use super::world::World;

impl World {
    /// Does the effect; an error is a definite refusal.
    pub(super) fn perform(&mut self, index: usize, effect: &Effect, now: Now) -> Said {
        let coordinator = matches!(
            effect,
            Effect::ReadStart
                | Effect::ReadLease(_)
                | Effect::ListPeers
                | Effect::ListWaiters
                | Effect::ReadHolder(_)
                | Effect::Take(_)
                | Effect::GiveUp(_)
                | Effect::Clear { .. }
        );
        if coordinator && self.pruned {
            return Said::Refused;
        }
        match effect {
            Effect::Apply { .. } | Effect::Rehearse(_) if self.nodes_refused => Said::Refused,
            Effect::Take(take) => self.take(index, take),
            Effect::Apply { set, .. } => self.apply(index, set),
            Effect::Mend(left) => self.mend(index, left),
            Effect::GiveUp(give_up) => self.give_up(Some(index), give_up),
            Effect::Fence(fence) => self.fence(fence),
            Effect::Clear { holder, give_up } => self.clear(holder, give_up),
            Effect::Mark(waiting) => {
                self.hosts[index].waiting = Some(waiting.clone());
                Said::Done
            }
            Effect::Unmark => {
                self.hosts[index].waiting = None;
                Said::Done
            }
            Effect::Evict(pods) => self.evict(index, pods),
            Effect::AskReboot => {
                self.may_reboot(index, now);
                self.service.asked(index, self.hosts[index].sentinel);
                let host = &mut self.hosts[index];
                host.asked += 1;
                host.shutting_down = !host.deaf;
                Said::Done
            }
            Effect::CreateLease => Said::Refused,
            Effect::ListWaiters if self.waiters_refused => Said::Refused,
            Effect::Wait
            | Effect::ReadStart
            | Effect::Begin
            | Effect::ReadLease(_)
            | Effect::ReadNode
            | Effect::ReadMark
            | Effect::ReadHost
            | Effect::CancelShutdown
            | Effect::ListPeers
            | Effect::ListWaiters
            | Effect::CountWaiters
            | Effect::ReadHolder(_)
            | Effect::Rehearse(_)
            | Effect::Confirm { .. }
            | Effect::ListPods => Said::Done,
        }
    }

    fn evict(&mut self, index: usize, evicted: &[PodRef]) -> Said {
        let clock = self.clock;
        let host = &mut self.hosts[index];
        if host.stuck {
            return Said::Refused;
        }
        host.pods.retain(|pod| !evicted.contains(&PodRef::of(pod)));
        if host.pods.is_empty() {
            host.emptied.get_or_insert(clock);
        }
        Said::Done
    }

    fn take(&mut self, index: usize, take: &Take) -> Said {
        let me = self.hosts[index].name.clone();
        let version = self.bump();
        let Some(lease) = self.leases.get_mut(&take.lease) else {
            return Said::Refused;
        };
        if lease.uid != take.uid || lease.resource_version != take.resource_version {
            return Said::Conflict;
        }
        self.lease_changes += 1;
        lease.holder = Some(me);
        lease.acquire_time = Some(take.acquire_time);
        lease.control_plane = take.control_plane;
        lease.resource_version = version;
        self.served(index);
        Said::Done
    }

    fn fence(&mut self, fence: &Fence) -> Said {
        let version = self.bump();
        let Some(lease) = self.leases.get_mut(&fence.lease) else {
            return Said::Refused;
        };
        if lease.resource_version != fence.resource_version {
            return Said::Conflict;
        }
        self.lease_changes += 1;
        lease.resource_version = version;
        Said::Done
    }

    /// A waiter's clearing; the model knows better whether the holder is gone (I5).
    fn clear(&mut self, holder: &str, give_up: &GiveUp) -> Said {
        let lease = &self.leases[&give_up.lease];
        if lease.resource_version == give_up.resource_version {
            assert_eq!(lease.holder.as_deref(), Some(holder), "I5: another's hold");
            assert!(!lease.control_plane, "I13: a control-plane node's hold");
            let there = self.nodes.get(holder);
            assert!(
                there.is_none_or(|node| node.out_of_service),
                "I5: the Node of {holder} is there\n{}",
                self.told()
            );
            let claims = |node: &ModelNode| {
                !node.out_of_service && node.labels.get(names::SLOT) == Some(&give_up.lease)
            };
            assert!(!self.nodes.values().any(claims), "I5: a Node claims it");
        }
        self.cleared += 1;
        self.give_up(None, give_up)
    }

    /// `by`: the holder itself, which must have nothing of the hold left.
    fn give_up(&mut self, by: Option<usize>, give_up: &GiveUp) -> Said {
        let version = self.bump();
        let Some(lease) = self.leases.get_mut(&give_up.lease) else {
            return Said::Refused;
        };
        if lease.resource_version != give_up.resource_version {
            return Said::Conflict;
        }
        self.lease_changes += 1;
        lease.holder = None;
        lease.acquire_time = None;
        lease.next.clone_from(&give_up.next);
        lease.last_hold = Some(give_up.last_hold.clone());
        lease.control_plane = false;
        lease.resource_version = version;
        if let Some(index) = by {
            self.clean_at_give_up(index);
        }
        Said::Done
    }

    fn apply(&mut self, index: usize, set: &NodeFields) -> Said {
        let version = self.bump();
        let name = self.hosts[index].name.clone();
        let Some(node) = self.nodes.get_mut(&name) else {
            return Said::Conflict;
        };
        if node.uid != set.uid || node.version.to_string() != set.resource_version {
            return Said::Conflict;
        }
        // It takes pods again.
        if !set.unschedulable && node.cordon.contains(names::NODE_MANAGER) {
            let host = &mut self.hosts[index];
            (host.pods, host.emptied) = (pods(), None);
        }
        if set.unschedulable {
            node.cordon.insert(names::NODE_MANAGER.to_owned());
        } else {
            node.cordon.remove(names::NODE_MANAGER);
        }
        for key in std::mem::take(&mut node.ours) {
            node.labels.remove(&key);
            node.annotations.remove(&key);
        }
        for (key, value) in &set.labels {
            node.labels.insert(key.clone(), value.clone());
            node.ours.insert(key.clone());
        }
        for (key, value) in &set.annotations {
            node.annotations.insert(key.clone(), value.clone());
            node.ours.insert(key.clone());
        }
        node.version = version.parse().unwrap();
        Said::Done
    }

    fn mend(&mut self, index: usize, left: &Leftovers) -> Said {
        let version = self.bump();
        let name = self.hosts[index].name.clone();
        let Some(node) = self.nodes.get_mut(&name) else {
            return Said::Conflict;
        };
        if node.uid != left.uid || node.version.to_string() != left.resource_version {
            return Said::Conflict;
        }
        for key in &left.labels {
            node.labels.remove(key);
        }
        for key in &left.annotations {
            node.annotations.remove(key);
        }
        if left.cordon {
            node.cordon.clear();
        }
        node.version = version.parse().unwrap();
        Said::Done
    }

    /// What the daemon learns; `None` is no answer at all.
    pub(super) fn answer(&mut self, index: usize, effect: &Effect, said: Option<Said>, now: Now) {
        let node = self.node_view(index, Some(now.boot));
        let leases = self.leases.clone();
        let mut peers = self.peers(index, now.boot);
        let waiters = Waiters::listed(now.boot, self.waiters(index));
        let waiting = self.hosts[index].waiting.clone();
        let nodes = self.nodes.clone();
        let host = &mut self.hosts[index];
        let looked_at = host.looked_at(now.boot);
        let Some(machine) = &mut host.machine else {
            return;
        };
        let confirms = matches!(effect, Effect::Confirm { .. });
        if !confirms && !machine.counts(&peers, &host.name) {
            (peers.counted, peers.census) = (false, Err("not asked for".to_owned()));
            peers.quorum_down = Err("not asked for".to_owned());
        }
        learn_of_slots(machine, effect, said, &leases, &nodes, now);
        learn_before_logind(machine, effect, said, now);
        learn_of_take(machine, effect, said, &leases, now);
        learn_of_waiters(machine, effect, said, waiters, now);
        learn_of_the_node(machine, effect, said, node.clone(), now);
        match (effect, said) {
            (Effect::Confirm { quorum, .. }, Some(Said::Done)) => {
                machine.read_node(node);
                if *quorum {
                    machine.see_peers(peers, &BTreeMap::new(), now.boot);
                }
                machine.listed(&host.pods, now.boot);
                machine.confirmed(now);
            }
            (Effect::ReadStart, Some(Said::Done)) => {
                let leases = leases.values().map(|lease| read(lease, now)).collect();
                machine.read_start(leases, waiting, now.boot);
            }
            (Effect::ReadStart, Some(_)) => {
                machine.no_leases("denied".to_owned());
                machine.denied(Some("denied".to_owned()));
            }
            (Effect::Begin, Some(_)) => machine.begin(),
            (Effect::ListPeers, Some(Said::Done)) => {
                machine.see_peers(peers, &BTreeMap::new(), now.boot);
            }
            (Effect::ListPods, Some(Said::Done)) => machine.listed(&host.pods, now.boot),
            (Effect::Evict(pods), said) => {
                machine.sent();
                host.answers.extend(answers(pods, said));
            }
            (Effect::ReadMark, Some(_)) => machine.read_mark(waiting),
            (Effect::Mark(shown), said) => marked(machine, Some(shown), said, waiting),
            (Effect::Unmark, said) => marked(machine, None, said, waiting),
            (Effect::ReadHost, Some(_)) => machine.saw_host(looked_at),
            _ => {}
        }
    }

    pub(super) fn node_view(&self, index: usize, read: Option<Duration>) -> Option<Node> {
        let name = &self.hosts[index].name;
        let node = self.nodes.get(name)?;
        Some(Node {
            name: name.clone(),
            uid: node.uid.clone(),
            resource_version: node.version.to_string(),
            unschedulable: !node.cordon.is_empty(),
            cordon_owners: node.cordon.iter().cloned().collect(),
            labels: node.labels.clone(),
            annotations: node.annotations.clone(),
            ready: node.status.ready,
            heartbeat: None,
            boot_id: node.status.boot_id.clone(),
            volumes_in_use: if node.status.mounted {
                vec!["kubernetes.io/csi/disk^1".to_owned()]
            } else {
                Vec::new()
            },
            read,
        })
    }

    fn peers(&self, index: usize, asked: Duration) -> Peers {
        let me = &self.hosts[index].name;
        let labelled = self
            .nodes
            .iter()
            .filter(|(name, _)| *name != me)
            .filter_map(|(name, node)| {
                Some(Peer {
                    node: name.clone(),
                    slot: node.labels.get(names::SLOT)?.clone(),
                    quorum: node.labels.contains_key(names::QUORUM_ROLES[0]),
                    out_of_service: node.out_of_service,
                })
            })
            .collect();
        let others = || {
            let there = |host: &&Host| host.name != *me && self.nodes.contains_key(&host.name);
            self.hosts.iter().filter(there)
        };
        let down = || others().filter(|host| !self.up(host));
        let cordoned = |host: &&Host| self.up(host) && !self.nodes[&host.name].cordon.is_empty();
        let quorum = |name: &str| {
            let node = self.nodes.get(name);
            node.is_some_and(|node| node.labels.contains_key(names::QUORUM_ROLES[0]))
        };
        Peers {
            asked,
            came: asked,
            labelled,
            leases: self.leases.keys().cloned().collect(),
            census: if self.uncounted {
                Err("denied".to_owned())
            } else {
                Ok(Census {
                    nodes: self.nodes.len(),
                    down: down().map(|host| host.name.clone()).collect(),
                    cordoned: (others().filter(cordoned))
                        .map(|host| host.name.clone())
                        .collect(),
                })
            },
            quorum_down: Ok((down().filter(|host| quorum(me) && quorum(&host.name)))
                .map(|host| host.name.clone())
                .collect()),
            counted: true,
        }
    }

    fn waiters(&self, index: usize) -> Vec<Waiter> {
        let others = self
            .hosts
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index);
        others
            .filter_map(|(_, host)| {
                let shown = host.waiting.as_ref()?;
                Some(Waiter {
                    node: host.name.clone(),
                    since: shown.place.since,
                    ready: shown.ready,
                })
            })
            .collect()
    }
}

/// Every eviction is answered, a lost one as not.
fn answers(pods: &[PodRef], said: Option<Said>) -> impl Iterator<Item = (String, EvictAnswer)> {
    let answer = match said {
        Some(Said::Done | Said::Conflict) => EvictAnswer::Accepted,
        Some(Said::Refused) => EvictAnswer::Budget("budget web".to_owned()),
        None => EvictAnswer::Unanswered {
            retry_after: None,
            why: "no answer".to_owned(),
        },
    };
    pods.iter()
        .map(move |pod| (pod.uid.clone(), answer.clone()))
}

/// What became of the mark.
fn marked(machine: &mut Machine, wanted: Option<&Shown>, said: Option<Said>, shows: Option<Shown>) {
    match said {
        Some(_) => machine.marked(shows),
        None => machine.not_marked(wanted, None),
    }
}

/// Reads and writes of the own Node.
fn learn_of_the_node(
    machine: &mut Machine,
    effect: &Effect,
    said: Option<Said>,
    node: Option<Node>,
    now: Now,
) {
    match (effect, said) {
        (Effect::Apply { point, .. }, Some(Said::Done)) => {
            machine.applied(node.unwrap(), *point, None, now.boot);
        }
        (Effect::Apply { point, .. }, said) => {
            let refused = (said == Some(Said::Refused)).then(|| "a policy".to_owned());
            machine.not_applied(*point, refused);
        }
        (Effect::ReadNode, Some(_)) => {
            machine.answered(now.boot, now.boot);
            machine.read_node(node);
        }
        (Effect::Mend(_), Some(Said::Done)) | (Effect::ReadStart, Some(_)) => {
            machine.read_node(node);
        }
        (Effect::Mend(_), _) => machine.doubt_node(),
        (Effect::Rehearse(_), Some(said)) => {
            let said = match said {
                Said::Done => Ok(()),
                Said::Conflict | Said::Refused => Err("a policy".to_owned()),
            };
            machine.rehearsed(said, now);
        }
        _ => {}
    }
}

fn learn_of_waiters(
    machine: &mut Machine,
    effect: &Effect,
    said: Option<Said>,
    waiters: Waiters,
    now: Now,
) {
    match (effect, said) {
        (Effect::ListWaiters, Some(Said::Done)) => machine.see_waiters(Some(waiters)),
        (Effect::ListWaiters, said) => {
            let before = machine.facts().waiters.as_ref();
            let none = Waiters::unlisted(before, now.boot, said.is_some());
            machine.see_waiters(Some(none));
        }
        (Effect::CountWaiters, Some(Said::Done)) => {
            let others = waiters.list;
            let many = others.len() >= MANY as usize;
            machine.see_crowd(Crowd { others, many });
        }
        _ => {}
    }
}

fn learn_of_take(
    machine: &mut Machine,
    effect: &Effect,
    said: Option<Said>,
    leases: &BTreeMap<String, Lease>,
    now: Now,
) {
    let Effect::Take(take) = effect else { return };
    let answer = said.map(|said| match said {
        Said::Done => TakeSaid::Taken,
        Said::Conflict => TakeSaid::Conflict(now.boot),
        Said::Refused => TakeSaid::Refused("no".to_owned()),
    });
    machine.took(answer, said.is_none(), now);
    if said == Some(Said::Done) {
        machine.know(read(&leases[&take.lease], now), now.boot);
    }
}

/// As a consistent read shows it.
fn read(lease: &Lease, now: Now) -> Lease {
    Lease {
        read: Some(now.boot),
        ..lease.clone()
    }
}

/// The fence, whatever became of it, and logind's call.
fn learn_before_logind(machine: &mut Machine, effect: &Effect, said: Option<Said>, now: Now) {
    match (effect, said) {
        (Effect::Fence(fence), said) => {
            let point = machine.fences().unwrap();
            // The Lease is learned with all others'.
            if said == Some(Said::Done) {
                let lease = machine.facts().leases[&fence.lease].clone();
                machine.fenced(lease, now.boot);
            } else {
                machine.not_fenced(&fence.lease, point, None);
            }
        }
        (Effect::AskReboot, said) => {
            machine.asks_reboot();
            machine.host_changed();
            match said {
                Some(_) => machine.accepted(now.boot),
                None => machine.not_accepted("no answer".to_owned(), now.boot),
            }
        }
        _ => {}
    }
}

/// Giving up, clearing, and what is asked about a slot or its holder.
fn learn_of_slots(
    machine: &mut Machine,
    effect: &Effect,
    said: Option<Said>,
    leases: &BTreeMap<String, Lease>,
    nodes: &BTreeMap<String, ModelNode>,
    now: Now,
) {
    match (effect, said) {
        (
            Effect::GiveUp(GiveUp { lease, .. })
            | Effect::Clear {
                give_up: GiveUp { lease, .. },
                ..
            }
            | Effect::ReadLease(lease)
            | Effect::Confirm { lease, .. }
            | Effect::Fence(Fence { lease, .. }),
            Some(Said::Done),
        ) => {
            machine.denied(None);
            machine.know(read(&leases[lease], now), now.boot);
        }
        (Effect::ReadLease(_), Some(_)) => machine.denied(Some("denied".to_owned())),
        // A lost answer of a write says nothing; the object must be read again.
        (Effect::GiveUp(give_up), said) => {
            machine.doubt_lease(&give_up.lease);
            machine.denied((said == Some(Said::Refused)).then(|| "denied".to_owned()));
        }
        (Effect::Clear { give_up, .. }, _) => {
            machine.doubt_lease(&give_up.lease);
            machine.forget_look(&give_up.lease);
        }
        (Effect::ReadHolder(held), said) => {
            let found = said.map(|_| match nodes.get(&held.holder) {
                None => Found::Absent,
                Some(node) if node.out_of_service => Found::OutOfService,
                Some(_) => Found::Present,
            });
            machine.see_holder(held.clone(), found, now);
        }
        _ => {}
    }
}
