//! How the model answers: reads, writes under preconditions, and what a daemon remembers of them.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_rebootd::cluster::lease::follow;
use kube_rebootd_core::decide::census_matters;
use kube_rebootd_core::drain::PodRef;
use kube_rebootd_core::facts::{
    Applied, Drained, Effect, Facts, Fenced, LastList, Refusal, RefusedApply, Rehearsed, Waiters,
};
use kube_rebootd_core::health::Marks;
use kube_rebootd_core::names;
use kube_rebootd_core::node::{Node, Seen};
use kube_rebootd_core::node_set::{Leftovers, NodeSet};
use kube_rebootd_core::now::Now;
use kube_rebootd_core::peers::Census;
use kube_rebootd_core::peers::{Peer, Peers};
use kube_rebootd_core::slot::{Crowd, Fence, GiveUp, Lease, MANY, Mark, Take, TakeSaid, Waiter};
use kube_rebootd_core::stale::{Found, Look};

use super::host::{Host, ModelNode};
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
            Effect::Evict(pods) => {
                let gone = pods.len();
                let host = &mut self.hosts[index];
                host.pods = host.pods.saturating_sub(gone);
                Said::Done
            }
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

    fn apply(&mut self, index: usize, set: &NodeSet) -> Said {
        let version = self.bump();
        let name = self.hosts[index].name.clone();
        let Some(node) = self.nodes.get_mut(&name) else {
            return Said::Conflict;
        };
        if node.uid != set.uid || node.version.to_string() != set.resource_version {
            return Said::Conflict;
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
        let (pods, waiting) = (self.hosts[index].pods, self.hosts[index].waiting.clone());
        let nodes = self.nodes.clone();
        let host = &mut self.hosts[index];
        let Some(machine) = &mut host.machine else {
            return;
        };
        let facts = &mut machine.facts;
        let confirms = matches!(effect, Effect::Confirm { .. });
        if !confirms && !census_matters(facts, &host.policy, &peers) {
            (peers.counted, peers.census) = (false, Err("not asked for".to_owned()));
            peers.quorum_down = Err("not asked for".to_owned());
        }
        learn_of_slots(facts, effect, said, &leases, &nodes, now);
        learn_before_logind(facts, effect, said, now);
        learn_of_take(facts, effect, said, &leases, now);
        learn_of_waiters(facts, effect, said, waiters, now);
        if let (Effect::Confirm { quorum, .. }, Some(Said::Done)) = (effect, said) {
            facts.node = node;
            facts.peers = quorum.then_some(peers).or(facts.peers.take());
            let (asked, clean) = (now.boot, pods == 0);
            facts.last_list = Some(LastList {
                asked,
                clean,
                marks: Marks::default(),
            });
            facts.confirmed = Some(now.boot);
            return;
        }
        let known = facts.leases.clone();
        let read = |lease: &Lease| read(&known, lease, now);
        match (effect, said) {
            (Effect::AskReboot, Some(_)) => facts.ask_accepted = Some(now.boot),
            (Effect::AskReboot, None) => {
                facts.ask = Some(Refusal {
                    at: now.boot,
                    why: "no answer".to_owned(),
                });
            }
            // A lost answer of a write says nothing; the object must be read again.
            (
                Effect::Apply { .. } | Effect::Mend(_),
                None | Some(Said::Conflict | Said::Refused),
            ) => {
                facts.node = Seen::Unknown;
                if let (Effect::Apply { point, .. }, Some(Said::Refused)) = (effect, said) {
                    facts.refused = Some(RefusedApply {
                        point: *point,
                        why: "a policy".to_owned(),
                    });
                }
            }
            (Effect::Rehearse(_), Some(said)) => {
                let said = match said {
                    Said::Done => Ok(()),
                    Said::Conflict | Said::Refused => Err("a policy".to_owned()),
                };
                facts.rehearsed = Some(Rehearsed { at: now.boot, said });
            }
            (Effect::Apply { point, .. }, Some(Said::Done)) => {
                facts.node = node;
                facts.applied = Some(Applied {
                    point: *point,
                    at: now.boot,
                });
            }
            (Effect::ReadNode | Effect::Mend(_), Some(Said::Done)) => facts.node = node,
            (Effect::ReadStart, Some(Said::Done)) => {
                facts.node = node;
                facts.leases = leases
                    .iter()
                    .map(|(name, lease)| (name.clone(), read(lease)))
                    .collect();
                facts.listed = Ok(());
                facts.mark = waiting.into();
            }
            (Effect::ReadStart, Some(_)) => {
                facts.node = node;
                facts.listed = Err("denied".to_owned());
                facts.denied = Some("denied".to_owned());
            }
            (Effect::Begin, Some(_)) => facts.started = true,
            (Effect::ListPeers, Some(Said::Done)) => facts.peers = Some(peers),
            (Effect::ListPods, Some(Said::Done)) => {
                let (asked, clean) = (now.boot, pods == 0);
                facts.last_list = Some(LastList {
                    asked,
                    clean,
                    marks: Marks::default(),
                });
            }
            (Effect::Unmark, Some(_)) => (facts.mark, facts.crowd) = (waiting.into(), None),
            (Effect::Mark(_) | Effect::Unmark | Effect::ReadMark, said) => {
                facts.mark = said.map_or(Mark::Unknown, |_| waiting.into());
            }
            (Effect::ReadHost, Some(_)) => facts.host_read = Some(now.boot),
            _ => {}
        }
    }

    pub(super) fn node_view(&self, index: usize, read: Option<Duration>) -> Seen {
        let name = &self.hosts[index].name;
        let Some(node) = self.nodes.get(name) else {
            return Seen::Absent;
        };
        Seen::Present(Box::new(Node {
            name: name.clone(),
            uid: node.uid.clone(),
            resource_version: node.version.to_string(),
            unschedulable: !node.cordon.is_empty(),
            cordon_owners: node.cordon.iter().cloned().collect(),
            labels: node.labels.clone(),
            annotations: node.annotations.clone(),
            ready: self.hosts[index].kubelet_up && !self.hosts[index].broken,
            heartbeat: None,
            boot_id: String::new(),
            volumes_in_use: Vec::new(),
            read,
        }))
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

    /// The drain, much simplified: what `drain` makes of real pods has tests of its own.
    pub(super) fn drained(&mut self, index: usize, now: Now) -> Drained {
        let host = &mut self.hosts[index];
        if host.stuck {
            return Drained::Failed {
                why: "budget web".to_owned(),
            };
        }
        if host.pods == 0 {
            let since = *host.drained.get_or_insert(now.boot);
            let at = since + host.unmounting;
            host.mounted = now.boot < at;
            if host.mounted {
                let (words, wake) = ("1 volume still in use".to_owned(), Some(at));
                return Drained::Unmounting { words, wake };
            }
            return Drained::Done { at };
        }
        let pod = |number: usize| PodRef {
            namespace: "shop".to_owned(),
            name: format!("pod-{number}"),
            uid: format!("uid-{number}"),
        };
        Drained::Going {
            evict: (0..host.pods.min(2)).map(pod).collect(),
            words: format!("{} pods left", host.pods),
            spent: Duration::ZERO,
            confirm: false,
            unseen: false,
            wake: None,
            blocked: Vec::new(),
        }
    }
}

fn learn_of_waiters(
    facts: &mut Facts,
    effect: &Effect,
    said: Option<Said>,
    waiters: Waiters,
    now: Now,
) {
    match (effect, said) {
        (Effect::ListWaiters, Some(Said::Done)) => facts.waiters = Some(waiters),
        (Effect::ListWaiters, said) => {
            let before = facts.waiters.as_ref();
            facts.waiters = Some(Waiters::unlisted(before, now.boot, said.is_some()));
        }
        (Effect::CountWaiters, Some(Said::Done)) => {
            let others = waiters.list;
            let many = others.len() >= MANY as usize;
            facts.crowd = Some(Crowd { others, many });
        }
        _ => {}
    }
}

fn learn_of_take(
    facts: &mut Facts,
    effect: &Effect,
    said: Option<Said>,
    leases: &BTreeMap<String, Lease>,
    now: Now,
) {
    let Effect::Take(take) = effect else { return };
    match said {
        None => facts.take.unanswered = Some(now.boot),
        Some(Said::Done) => {
            let taken = read(&facts.leases, &leases[&take.lease], now);
            facts.leases.insert(take.lease.clone(), taken);
            facts.take.said = Some(TakeSaid::Taken);
        }
        Some(Said::Conflict) => facts.take.said = Some(TakeSaid::Conflict(now.boot)),
        Some(Said::Refused) => facts.take.said = Some(TakeSaid::Refused("no".to_owned())),
    }
}

/// A consistent read, as the daemon's own `know` takes it.
fn read(known: &BTreeMap<String, Lease>, lease: &Lease, now: Now) -> Lease {
    let lease = Lease {
        read: Some(now.boot),
        ..lease.clone()
    };
    follow(known.get(&lease.name), lease, now.boot)
}

/// The fence, whatever became of it, and logind's call.
fn learn_before_logind(facts: &mut Facts, effect: &Effect, said: Option<Said>, now: Now) {
    let done = said == Some(Said::Done);
    match effect {
        Effect::Fence(fence) => {
            let hold = facts.record.hold.as_ref().unwrap();
            facts.fenced = Some(Fenced {
                hold: hold.take.acquire_time,
                asks: hold.asks,
                at: done.then_some(now.boot),
            });
            if !done {
                facts.leases.remove(&fence.lease);
                facts.confirmed = None;
            }
        }
        Effect::AskReboot => (facts.fenced, facts.confirmed) = (None, None),
        _ => {}
    }
}

/// Giving up, clearing, and what is asked about a slot or its holder.
fn learn_of_slots(
    facts: &mut Facts,
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
            let read = read(&facts.leases, &leases[lease], now);
            facts.denied = None;
            facts.leases.insert(lease.clone(), read);
        }
        (Effect::ReadLease(_), Some(_)) => facts.denied = Some("denied".to_owned()),
        // A lost answer of a write says nothing; the object must be read again.
        (Effect::GiveUp(give_up), said) => {
            facts.leases.remove(&give_up.lease);
            facts.denied = (said == Some(Said::Refused)).then(|| "denied".to_owned());
        }
        (Effect::Clear { give_up, .. }, _) => {
            facts.leases.remove(&give_up.lease);
            facts.looks.remove(&give_up.lease);
        }
        (Effect::ReadHolder(held), said) => {
            let found = said.map(|_| match nodes.get(&held.holder) {
                None => Found::Absent,
                Some(node) if node.out_of_service => Found::OutOfService,
                Some(_) => Found::Present,
            });
            let before = facts.looks.get(&held.lease);
            let look = Look::next(before, held.clone(), now.boot, found);
            facts.looks.insert(held.lease.clone(), look);
        }
        _ => {}
    }
}
