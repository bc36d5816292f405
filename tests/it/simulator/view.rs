//! What the daemon of a host sees, told to its machine as the daemon tells it: the watches, the triggers, the host.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_rebootd_core::hook::Hook;
use kube_rebootd_core::kind::Kind;
use kube_rebootd_core::machine::{Machine, Sight};
use kube_rebootd_core::trigger::{Finding, Verdict};

use super::host::{NodeStatus, fresh};
use super::world::World;

/// The Node controller misses a kubelet after so long (`node-monitor-grace-period`).
const MISSED: Duration = Duration::from_secs(50);
/// A watch without any sign of life for so long is taken for silent.
const SILENT: Duration = Duration::from_secs(90);
/// The API server sends one about once a minute.
const BOOKMARK: Duration = Duration::from_secs(60);

impl World {
    /// What the daemon of this host sees, and what follows from it.
    pub(super) fn gather(&mut self, index: usize) -> Machine {
        let now = self.now(index);
        // The kubelet comes some time after the boot.
        self.hosts[index].kubelet_up |= self.up(&self.hosts[index]);
        self.report(index);
        let host = &mut self.hosts[index];
        let mut machine = host.machine.take().unwrap_or_else(|| fresh(host));
        if *machine.config() != host.config {
            machine.configure(host.config.clone());
        }
        for (uid, answer) in host.answers.drain(..) {
            machine.evicted(&uid, answer, now.boot);
        }
        self.ask(index, &mut machine);
        let reached = !self.api_down && !self.hosts[index].cut;
        if machine.facts().started {
            self.watched(index, &mut machine, reached);
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
            kind: host.soft.then_some(Kind::SoftReboot),
            mark: Some(host.file.to_string()),
        };
        let findings = [finding];
        machine.observe(&findings, now);
        if machine.host_due(now) {
            machine.saw_host(host.looked_at(now.boot));
        }
        if machine.pulse_due(now) && reached {
            machine.pulse_read(now);
            let runs = host.kubelet_up && !host.broken;
            machine.renewed(runs.then_some(now.wall));
        }
        if machine.blocking_due(now) && reached {
            machine.listed_before(&host.pods, now);
        }
        if machine.packages_matter() {
            machine.saw_packages(Ok(None), now);
        } else {
            machine.forget_packages();
        }
        machine.saw_commands(Ok(Vec::new()));
        machine.forget_hooks();
        let mut hook = machine.hooks_wanted();
        while let Some(looked) = hook {
            let there = host.hooks && looked != Hook::PostBoot;
            machine.saw_hooks(looked, Ok(there));
            hook = machine.hooks_ahead();
        }
        machine.judge(&findings, now);
        machine
    }

    /// The kubelet reports what has changed; of one that does not run the Node controller says it, some time after a boot.
    fn report(&mut self, index: usize) {
        let (host, clock) = (&self.hosts[index], self.clock);
        let Some(node) = self.nodes.get(&host.name) else {
            return;
        };
        let mut status = node.status.clone();
        if host.kubelet_up && !host.broken {
            status = NodeStatus {
                ready: true,
                boot_id: host.boot_id(),
                mounted: host.mounted(clock),
            };
        } else if clock.saturating_sub(host.booted) >= MISSED {
            status.ready = false;
        }
        if node.status != status {
            let name = host.name.clone();
            self.changes(&name).status = status;
        }
    }

    /// The watches of the Leases, the own Node and, while they matter, the own pods. One that is silent shows what it
    /// showed, and is noticed later.
    fn watched(&mut self, index: usize, machine: &mut Machine, reached: bool) {
        let (now, version) = (self.now(index), self.version);
        let host = &mut self.hosts[index];
        if reached {
            host.silent = None;
        } else {
            host.silent.get_or_insert(self.clock);
        }
        let silent = host
            .silent
            .filter(|since| self.clock.saturating_sub(*since) >= SILENT);
        if !machine.pods_matter() {
            host.shown = None;
        } else if reached {
            host.shown = Some(host.pods.clone());
        }
        let sight = if silent.is_some() {
            Sight::Silent
        } else {
            Sight::Seen
        };
        machine.saw_pods(host.shown.clone(), Some(sight));
        // A change, or a bookmark; what was told once is no news.
        let (at, seen) = host.heard;
        if reached && (version != seen || self.clock.saturating_sub(at) >= BOOKMARK) {
            host.heard = (self.clock, version);
            machine.heard(now.boot);
        }
        if reached {
            machine.see_node(self.node_view(index, None), now);
        }
        let trouble = if self.pruned {
            Some("denied")
        } else {
            silent.map(|_| "silent")
        };
        let shown = || self.leases.values().cloned().collect();
        let shown = (reached && !self.pruned).then(shown);
        if shown.is_some() || trouble.is_some() {
            let group = machine.group();
            machine.see_leases(&group, shown, trouble.map(str::to_owned), now);
        }
    }
}
