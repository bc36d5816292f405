//! How the model answers: reads, and writes under preconditions.

use std::time::Duration;

use kube_rebootd_core::drain::{Escalated, PodRef};
use kube_rebootd_core::effect::{Effect, Tell};
use kube_rebootd_core::hook::Hook;
use kube_rebootd_core::machine::Machine;
use kube_rebootd_core::names;
use kube_rebootd_core::node::Node;
use kube_rebootd_core::node_fields::{Leftovers, NodeFields};
use kube_rebootd_core::now::Now;
use kube_rebootd_core::peers::{Census, Peer, Peers};
use kube_rebootd_core::slot::{Fence, GiveUp, Take, Waiter};

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
            Effect::Tell(tell) => self.tell(index, tell),
            Effect::Evict(pods) => self.evict(index, pods),
            Effect::Escalate(all) => self.escalate(index, all),
            Effect::AskReboot => {
                self.may_reboot(index, now);
                let machine = self.hosts[index].machine.as_ref();
                if machine.is_some_and(Machine::grants) {
                    let heard = self.tell_updater(index);
                    return if heard { Said::Done } else { Said::Refused };
                }
                self.service.asked(index, self.hosts[index].sentinel);
                let host = &mut self.hosts[index];
                // As it was written: the kind is on disk before (I6).
                let machine = host.machine.as_ref().unwrap();
                let hold = machine.facts().record.hold.as_ref();
                host.softly = hold.is_some_and(|hold| hold.kind.soft());
                assert_eq!(host.softly, host.soft && host.sentinel, "{}", host.status);
                host.asked += 1;
                host.shutting_down = !host.deaf;
                Said::Done
            }
            Effect::Hooks(hook) => self.round_of(index, *hook),
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

    /// Hooks run; that they may have is on disk before (I6).
    fn round_of(&mut self, index: usize, hook: Hook) -> Said {
        let host = &mut self.hosts[index];
        // As it was written: the disk may be lost at this very moment.
        let machine = host.machine.as_ref().unwrap();
        let hold = machine.facts().record.hold.as_ref();
        assert!(
            hold.is_some_and(|hold| hold.hooked),
            "I6: no mark on record"
        );
        assert!(host.hooks, "there are none");
        host.rounds.push(hook);
        if hook == Hook::Undo && host.undo_fails > 0 {
            host.undo_fails -= 1;
            return Said::Refused;
        }
        host.set_by_hooks = hook != Hook::Undo;
        Said::Done
    }

    /// The server merges by type.
    fn tell(&mut self, index: usize, tell: &Tell) -> Said {
        let version = self.bump();
        let node = self.nodes.get_mut(&self.hosts[index].name);
        let Some(node) = node.filter(|node| node.uid == tell.uid) else {
            return Said::Conflict;
        };
        for condition in &tell.conditions {
            let shown = &mut node.conditions;
            shown.retain(|one| one.kind != condition.kind);
            shown.push(condition.clone());
        }
        node.annotations.extend(tell.annotations.clone());
        node.version = version.parse().unwrap();
        Said::Done
    }

    fn evict(&mut self, index: usize, evicted: &[PodRef]) -> Said {
        if self.hosts[index].stuck {
            return Said::Refused;
        }
        self.ends(index, evicted)
    }

    /// A deletion asks no budget.
    fn escalate(&mut self, index: usize, all: &[Escalated]) -> Said {
        let pods: Vec<PodRef> = all.iter().map(|one| one.pod.clone()).collect();
        self.ends(index, &pods)
    }

    fn ends(&mut self, index: usize, evicted: &[PodRef]) -> Said {
        let clock = self.clock;
        let host = &mut self.hosts[index];
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
            guarded: (names::GUARDS.iter().chain([&names::EXCLUDED]))
                .map(|(key, _)| (*key).to_owned())
                .filter(|key| node.ours.contains(key))
                .collect(),
            exclusion_owners: Vec::new(),
            ready: node.status.ready,
            heartbeat: None,
            turned: None,
            boot_id: node.status.boot_id.clone(),
            conditions: node.conditions.clone(),
            taints: Vec::new(),
            candidate: None,
            reported: std::collections::BTreeMap::new(),
            volumes_in_use: if node.status.mounted {
                vec!["kubernetes.io/csi/disk^1".to_owned()]
            } else {
                Vec::new()
            },
            read,
        })
    }

    pub(super) fn peers(&self, index: usize, asked: Duration) -> Peers {
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

    pub(super) fn waiters(&self, index: usize) -> Vec<Waiter> {
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
