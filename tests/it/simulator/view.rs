//! What the daemon of a host sees: its memory, the watches, the disk, the host.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_rebootd_core::health::Marks;
use kube_rebootd_core::machine::Machine;
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
        // Watches lag only until they are asked to matter.
        if machine.facts.started && !self.api_down && !host.cut {
            machine.see_node(watched, now);
            // A watch that is refused shows nothing new.
            if !self.pruned {
                let shown = leases.into_values().collect();
                machine.see_leases(&machine.group(), Some(shown), None, now);
            }
        }
        let facts = &mut machine.facts;
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
