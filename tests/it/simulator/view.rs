//! What the daemon of a host sees: its memory, the watches, the disk, the host.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_rebootd::cluster::lease::follow;
use kube_rebootd_core::health::Marks;
use kube_rebootd_core::machine::Machine;
use kube_rebootd_core::node::Seen;
use kube_rebootd_core::trigger::{Finding, Verdict};

use super::host::fresh;
use super::world::World;

impl World {
    /// What the daemon of this host sees: its memory, the watches, the disk, the host.
    pub(super) fn gather(&mut self, index: usize) -> Machine {
        let now = self.now(index);
        let watched = self.node_view(index, None);
        let (leases, drained) = (self.leases.clone(), self.drained(index, now));
        let host = &mut self.hosts[index];
        let mut machine = host.machine.take().unwrap_or_else(|| fresh(host));
        let facts = &mut machine.facts;
        // Watches lag only until they are asked to matter: a change replaces what was read.
        if facts.started && !self.api_down && !host.cut {
            match (&facts.node, &watched) {
                (Seen::Present(old), Seen::Present(new))
                    if old.resource_version == new.resource_version => {}
                _ => facts.node = watched,
            }
            // A watch that is refused shows nothing new.
            let leases = if self.pruned { BTreeMap::new() } else { leases };
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
        machine.observe(&[finding], now);
        let facts = &mut machine.facts;
        facts.marks = Some(Marks::default());
        facts.drain = drained;
        // The kubelet comes some time after the boot.
        host.kubelet_up |= now.boot > Duration::from_secs(3) && !host.broken;
        facts.host_health = if host.kubelet_up {
            Ok(())
        } else {
            Err(vec!["kubelet".to_owned()])
        };
        machine
    }
}
