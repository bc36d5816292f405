//! The invariants, at every step and at the end.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_rebootd_core::decide::Step;
use kube_rebootd_core::effect::Effect;
use kube_rebootd_core::names;
use kube_rebootd_core::now::Now;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::record::{Hold, Stage, Why};

use super::host::{Host, ModelNode};
use super::world::World;

impl World {
    /// I2, at the moment logind is asked.
    pub(super) fn may_reboot(&self, index: usize, now: Now) {
        let host = &self.hosts[index];
        let facts = host.machine.as_ref().unwrap().facts();
        let hold = facts.record.hold.as_ref().unwrap();
        let lease = &self.leases[&hold.take.lease];
        assert_eq!(
            lease.holder.as_deref(),
            Some(host.name.as_str()),
            "I2: not the holder\n{}",
            self.told()
        );
        let fenced = facts.fenced.expect("I2: no fence");
        assert_eq!(fenced.asks, hold.asks, "I2: another ask's fence");
        let fenced = fenced.at.expect("I2: a fence without an answer");
        let read = facts.confirmed.expect("I2: not confirmed");
        assert!(read <= fenced, "I2: read after the fence");
        assert!(
            now.since(read) <= Duration::from_secs(60),
            "I2: an old read"
        );
        assert!(
            facts.host_read >= Some(fenced),
            "I2: an old look at the gates"
        );
        assert!(host.pods.is_empty(), "I2: not drained");
        assert!(
            !host.mounted(self.clock),
            "volumes are mounted\n{}",
            self.told()
        );
        assert!(facts.closed.is_empty(), "I2: a gate is closed");
        assert!(!host.inhibited, "I2: beside a block inhibitor");
        let node = &self.nodes[&host.name];
        assert!(
            !node.annotations.contains_key(names::PAUSED),
            "I2: beside a pause"
        );
        assert!(self.cordoned(index), "I2: not cordoned");
    }

    /// I4, when the daemon decides to uncordon or to give up after a reboot of its hold: the kubelet runs, and has reported
    /// this boot.
    pub(super) fn proved(&self, index: usize, step: &Step) {
        let host = &self.hosts[index];
        let Some(node) = self.nodes.get(&host.name) else {
            return;
        };
        let maintained = |hold: &Hold| hold.stage == Stage::Undoing(Why::Maintained);
        let maintained = step.record.hold.as_ref().is_some_and(maintained);
        let after = matches!(step.phase, Phase::Verifying | Phase::Releasing) || maintained;
        let ends = match &step.effect {
            Effect::Apply { set, .. } => {
                !set.unschedulable && node.cordon.contains(names::NODE_MANAGER)
            }
            Effect::GiveUp(_) => true,
            _ => false,
        };
        assert!(
            !(after && ends) || (self.up(host) && node.status.boot_id == host.boot_id()),
            "I4: {:?} before the proof\n{}",
            step.effect,
            self.told()
        );
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
            .machine
            .as_ref()
            .is_some_and(|machine| machine.facts().record.kept.is_some());
        assert!(
            kept || !node.cordon.contains(names::NODE_MANAGER),
            "I4: cordon after the Lease"
        );
        assert!(!host.shutting_down, "I4: given up while the host goes down");
        assert!(
            !host.set_by_hooks,
            "I3: what hooks set is not taken back\n{}",
            self.told()
        );
    }

    /// I1 and I13, after every step.
    pub(super) fn not_too_many_down(&self) {
        let down = |node: &&ModelNode| {
            // Of one that is out of service a person says that its host is off.
            !node.out_of_service
                && node.labels.contains_key(names::SLOT)
                && node.cordon.contains(names::NODE_MANAGER)
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

    /// The story so far, and what each host says, for a failure.
    pub(crate) fn told(&self) -> String {
        let from = self.trace.len().saturating_sub(60);
        let says = |host: &Host| format!("{}: {}", host.name, host.status);
        let says: Vec<String> = self.hosts.iter().map(says).collect();
        format!("{}\n{}", self.trace[from..].join("\n"), says.join("\n"))
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
            assert!(
                !host.set_by_hooks,
                "I3: what hooks set is left on {}\n{}",
                host.name,
                self.told()
            );
            assert_eq!(
                self.record(index).hold,
                None,
                "I6: hold left on {}: {}\n{}",
                host.name,
                host.status,
                self.told()
            );
            // Who still wants a reboot and may not try yet keeps its place.
            let keeps = self.record(index).request.is_some();
            let left = host.waiting.as_ref().filter(|shown| shown.ready || !keeps);
            assert_eq!(left, None, "waiting record left on {}", host.name);
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
