//! What the daemon of a host sees: its memory, the watches, the disk, the host.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_rebootd::cluster::lease::follow;
use kube_rebootd_core::facts::Facts;
use kube_rebootd_core::health::Marks;
use kube_rebootd_core::names;
use kube_rebootd_core::node::Seen;
use kube_rebootd_core::trigger::{Asked, Finding, Verdict, Wishes, observe};

use super::host::fresh;
use super::world::World;

impl World {
    /// What the daemon of this host sees: its memory, the watches, the disk, the host.
    pub(super) fn gather(&mut self, index: usize) -> Facts {
        let now = self.now(index);
        let watched = self.node_view(index, None);
        let (leases, drained) = (self.leases.clone(), self.drained(index, now));
        let host = &mut self.hosts[index];
        let mut facts = host.facts.take().unwrap_or_else(|| fresh(host));
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
        let annotation = match &facts.node {
            Seen::Present(node) => match node.annotations.get(names::REBOOT) {
                Some(text) => Asked::Yes(text),
                None => Asked::No,
            },
            Seen::Absent => Asked::No,
            Seen::Unknown => Asked::Unknown,
        };
        facts.observed = observe(
            facts.record.request.clone(),
            facts.record.settled.clone(),
            &[finding],
            Wishes {
                annotation,
                scheduled: None,
            },
            &facts.boot,
            now,
        );
        facts.marks = Some(Marks::default());
        facts.drain = drained;
        // The kubelet comes some time after the boot.
        host.kubelet_up |= now.boot > Duration::from_secs(3) && !host.broken;
        facts.host_health = if host.kubelet_up {
            Ok(())
        } else {
            Err(vec!["kubelet".to_owned()])
        };
        facts
    }
}
