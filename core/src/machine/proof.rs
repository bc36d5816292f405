//! After the boot: what the two steps of the health check say of what was seen (I4, I8); and how long the end takes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Machine;
use crate::before::Before;
use crate::health::{self, DaemonSet, Found, HostSeen, Pulse};
use crate::names;
use crate::node::Seen;
use crate::now::Now;
use crate::phase::Phase;

/// What still keeps pods off the Node by a taint, in words. Of the second step: a taint lets no pod come that does not
/// tolerate it, while what takes it away may be a pod that only comes to a node without a cordon.
fn unready(node: &Seen) -> Vec<String> {
    match node {
        // Nobody knows (I8).
        Seen::Unknown => vec!["the Node is not read yet".to_owned()],
        Seen::Absent => Vec::new(),
        Seen::Present(node) => {
            let all = node.taints.iter();
            let keys = all.filter(|key| key.starts_with(names::READINESS_TAINTS));
            keys.map(|key| format!("taint {key} is still on the Node"))
                .collect()
        }
    }
}

impl Machine {
    /// Judges both steps while the boot is to be proved.
    pub(super) fn prove(&mut self, now: Now) {
        if !self.verifying() {
            self.memory.verifying = None;
            self.memory.hooks.healthy = false;
            // What was heard before says nothing of a proof that begins later in the same boot.
            (self.memory.pulse, self.memory.pulse_read) = (Pulse::default(), None);
            return;
        }
        let since = *self.memory.verifying.get_or_insert(now.boot);
        let hooked = self.post_boot().map_err(|words| vec![words]);
        let facts = &mut self.facts;
        facts.verifying = now.since(since);
        let config = &self.config.health;
        let late = facts.verifying > config.timeout;
        let hold = facts.record.hold.as_ref();
        let marks = hold.and_then(|hold| hold.marks.clone());
        let mut marks = marks.unwrap_or_default();
        let was = hold.map_or_else(Before::default, |hold| hold.before.clone());
        if !config.pods {
            marks.daemon_sets.clear();
        }
        let before = hold.map_or_else(|| facts.boot.clone(), |hold| hold.boot.clone());
        let before =
            Some(before).filter(|_| !hold.is_some_and(|hold| hold.maintained(&facts.boot)));
        if before.is_none() {
            marks.not_anew();
        }
        let pulse = &mut self.memory.pulse;
        pulse.hears(&facts.boot, before.as_ref(), now.boot);
        let host = self.memory.host.as_ref();
        let seen = HostSeen {
            boot: facts.boot.clone(),
            before,
            system_state: host.and_then(|host| host.system_state.clone()),
            failed: host.and_then(|host| host.failed.clone()),
            was,
            boot_complete: host.and_then(|host| host.boot_complete),
        };
        let policy = health::Policy {
            allow_degraded: config.allow_degraded,
            boot_complete: config.boot_complete,
            ready_for: config.ready_for,
        };
        let pods = self.memory.pods.as_deref();
        facts.host_health = health::host_healthy(
            &seen,
            &self.memory.pulse,
            &facts.node,
            &marks,
            pods,
            &policy,
            late,
            now.boot,
        );
        self.memory.hooks.healthy = facts.host_health.is_ok();
        let found: BTreeMap<DaemonSet, Found> = (self.memory.found.iter())
            .map(|(set, (_, found))| (set.clone(), found.clone()))
            .collect();
        facts.pod_health = match pods {
            Some(pods) => health::pods_healthy(&marks, pods, &found, late),
            None if config.pods => Err(vec!["pods are not listed yet".to_owned()]),
            None => Ok(()),
        };
        if self.memory.hooks.healthy {
            facts.host_health = hooked;
        }
        let unready = unready(&facts.node);
        if !unready.is_empty() {
            let missing = facts.pod_health.as_mut().err().map(std::mem::take);
            facts.pod_health = Err(missing.into_iter().flatten().chain(unready).collect());
        }
        if late && let Some(pods) = pods {
            let waived = health::waived(&marks, pods, &found);
            self.waive(waived);
        }
    }

    /// How long it has been giving back what it took.
    pub(super) fn gives_back(&mut self, now: Now) {
        if !matches!(self.phase(), Phase::Releasing | Phase::Undoing) {
            self.memory.giving_back = None;
            self.facts.giving_back = Duration::ZERO;
            return;
        }
        let since = *self.memory.giving_back.get_or_insert(now.boot);
        self.facts.giving_back = now.since(since);
    }

    /// What is not waited for any longer is said once.
    fn waive(&mut self, waived: Vec<String>) {
        for words in waived {
            if !self.memory.waived.contains(&words) {
                self.say(format!(
                    "not waited for any longer after health.timeout: {words}"
                ));
                self.memory.waived.push(words);
            }
        }
    }
}
