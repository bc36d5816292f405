//! After the boot: what the two steps of the health check rest on (I4, I8).

use std::collections::BTreeMap;
use std::time::Duration;

use kube_rebootd_core::health::{self, DaemonSet, Found, HostSeen};
use kube_rebootd_core::now::Now;
use kube_rebootd_core::record::Stage;
use tracing::warn;

use super::Daemon;
use super::gather::verifying;
use crate::cluster::daemon_sets;

/// Between two looks at a DaemonSet that has no pod here: nothing tells when it is deleted, and a pod that comes is
/// seen by the watch.
const AGAIN: Duration = Duration::from_secs(30);

impl Daemon {
    /// Looks for the DaemonSets whose pod is absent, once the node takes pods again.
    pub(super) async fn daemon_sets(&mut self, now: Now) {
        let due = self.absent(now);
        if due.is_empty() || self.patience.until(now.boot).is_some() {
            return;
        }
        let Some(connected) = self.api.connected() else {
            return;
        };
        let clients = &connected.clients;
        let own = connected.node.api();
        match daemon_sets::look(&clients.coordinator, &own, &clients.name, &due).await {
            Ok(found) => {
                let found = found
                    .into_iter()
                    .map(|(set, found)| (set, (now.boot, found)));
                self.memory.found.extend(found);
            }
            Err(err) => self.failed(&err),
        }
    }

    /// Those that are to be looked for now.
    fn absent(&self, now: Now) -> Vec<DaemonSet> {
        let hold = self.facts.record.hold.as_ref().filter(|hold| {
            matches!(hold.stage, Stage::Uncordoned | Stage::Releasing) && verifying(&self.facts)
        });
        let marks = hold.and_then(|hold| hold.marks.as_ref());
        let (Some(marks), Some(pods)) = (marks, &self.memory.pods) else {
            return Vec::new();
        };
        if !self.memory.judge_pods || !self.facts.started {
            return Vec::new();
        }
        let due = |set: &&DaemonSet| match self.memory.found.get(*set) {
            Some((_, Found::Gone)) => false,
            Some((read, _)) => now.since(*read) >= AGAIN,
            None => true,
        };
        let absent = health::absent(marks, pods);
        absent.into_iter().filter(due).cloned().collect()
    }

    /// Judges both steps while the boot is to be proved.
    pub(super) fn prove(&mut self, now: Now) {
        let facts = &mut self.facts;
        if !verifying(facts) {
            self.memory.verifying = None;
            return;
        }
        let since = *self.memory.verifying.get_or_insert(now.boot);
        facts.verifying = now.since(since);
        let late = facts.verifying > self.config.health.timeout;
        let hold = facts.record.hold.as_ref();
        let marks = hold.and_then(|hold| hold.marks.clone());
        let mut marks = marks.unwrap_or_default();
        if !self.memory.judge_pods {
            marks.daemon_sets.clear();
        }
        let host = self.memory.host.as_ref();
        let seen = HostSeen {
            boot: facts.boot.clone(),
            before: hold.map_or_else(|| facts.boot.clone(), |hold| hold.boot.clone()),
            system_state: host.and_then(|host| host.system_state.clone()),
            boot_complete: host.and_then(|host| host.boot_complete),
        };
        let pods = self.memory.pods.as_deref();
        let memory = &self.memory;
        facts.host_health = health::host_healthy(
            &seen,
            &memory.pulse,
            &facts.node,
            &marks,
            pods,
            &memory.health_policy,
            late,
            now.boot,
        );
        let found: BTreeMap<DaemonSet, Found> = (memory.found.iter())
            .map(|(set, (_, found))| (set.clone(), found.clone()))
            .collect();
        facts.pod_health = match pods {
            Some(pods) => health::pods_healthy(&marks, pods, &found, late),
            None if memory.judge_pods => Err(vec!["pods are not listed yet".to_owned()]),
            None => Ok(()),
        };
        if late && let Some(pods) = pods {
            let waived = health::waived(&marks, pods, &found);
            self.waive(waived);
        }
    }

    /// What is not waited for any longer is said once.
    fn waive(&mut self, waived: Vec<String>) {
        for words in waived {
            if !self.memory.waived.contains(&words) {
                warn!("not waited for any longer after health.timeout: {words}");
                self.memory.waived.push(words);
            }
        }
    }
}
