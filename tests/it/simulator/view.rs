//! What the daemon of a host sees, told to its machine as the daemon tells it: the watches, the triggers, the host.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_rebootd_core::machine::{Machine, Sight};
use kube_rebootd_core::trigger::{Finding, Verdict};

use super::host::fresh;
use super::world::World;

impl World {
    /// What the daemon of this host sees, and what follows from it.
    pub(super) fn gather(&mut self, index: usize) -> Machine {
        let now = self.now(index);
        // The kubelet comes some time after the boot.
        self.hosts[index].kubelet_up |= self.up(&self.hosts[index]);
        self.report(index);
        let host = &mut self.hosts[index];
        let mut machine = host.machine.take().unwrap_or_else(|| fresh(host));
        let reached = !self.api_down && !self.hosts[index].cut;
        // Watches lag only until they are asked to matter.
        if machine.facts().started {
            if reached {
                self.watched(index, &mut machine);
            }
            self.watched_pods(index, &mut machine, reached);
        }
        let host = &self.hosts[index];
        let finding = Finding {
            trigger: "sentinel".to_owned(),
            verdict: if host.sentinel {
                Verdict::Reboot {
                    pkgs: BTreeSet::new(),
                    words: String::new(),
                }
            } else {
                Verdict::No
            },
            settle: Duration::ZERO,
        };
        let findings = [finding];
        machine.observe(&findings, now);
        if machine.host_due(now) {
            machine.saw_host(host.looked_at(now.boot));
        }
        if machine.pulse_due(now) && reached {
            machine.pulse_read(now);
            machine.renewed(host.kubelet_up.then_some(now.wall));
        }
        if machine.blocking_due(now) && reached {
            machine.listed_before(&host.pods, now);
        }
        if machine.packages_matter() {
            machine.saw_packages(Ok(None), now);
        } else {
            machine.forget_packages();
        }
        machine.judge(&findings, now);
        machine
    }

    /// The kubelet reports what has changed; of one that does not run the Node controller says it.
    fn report(&mut self, index: usize) {
        let (host, clock) = (&self.hosts[index], self.clock);
        let Some(node) = self.nodes.get(&host.name) else {
            return;
        };
        let ready = host.kubelet_up && !host.broken;
        let mut status = node.status.clone();
        status.ready = ready;
        if ready {
            status.boot_id = host.boot_id();
            status.mounted = host.mounted(clock);
        }
        if node.status != status {
            let name = host.name.clone();
            self.changes(&name).status = status;
        }
    }

    /// The Leases and the own Node.
    fn watched(&self, index: usize, machine: &mut Machine) {
        let now = self.now(index);
        machine.see_node(self.node_view(index, None), now);
        // A watch that is refused shows nothing new.
        if !self.pruned {
            let shown = self.leases.values().cloned().collect();
            machine.see_leases(&machine.group(), Some(shown), None, now);
        }
        machine.heard(now.boot);
    }

    /// The own pods, while they matter; one that is silent shows what it showed.
    fn watched_pods(&mut self, index: usize, machine: &mut Machine, reached: bool) {
        let host = &mut self.hosts[index];
        if !machine.pods_matter() {
            host.shown = None;
        } else if reached {
            host.shown = Some(host.pods.clone());
        }
        let sight = if reached { Sight::Seen } else { Sight::Silent };
        machine.saw_pods(host.shown.clone(), Some(sight));
    }
}
