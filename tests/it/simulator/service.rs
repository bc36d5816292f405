//! Who was served when: one reboot for each request, first come first served.

use jiff::Timestamp;

use super::world::World;

/// What a long run counts beside the invariants of every step.
#[derive(Debug, Clone, Default)]
pub(super) struct Service {
    /// Reboots by the daemons' own wish, by host.
    pub(super) reboots: Vec<u32>,
    /// Of waiters that met no accident: how many that came later were served before them, by host.
    passed: Vec<u32>,
    /// Met an accident while it waited: its place in the queue may be lost.
    unlucky: Vec<bool>,
    /// Most that any lucky waiter was passed by in one wait.
    pub(super) most_passed: u32,
    pub(super) takes: u32,
}

impl Service {
    pub(super) fn of(hosts: usize) -> Self {
        Self {
            reboots: vec![0; hosts],
            passed: vec![0; hosts],
            unlucky: vec![false; hosts],
            most_passed: 0,
            takes: 0,
        }
    }

    /// logind is asked: never without a request that no reboot has answered yet (I6).
    pub(super) fn asked(&mut self, host: usize, wanted: bool) {
        if let Some(reboots) = self.reboots.get_mut(host) {
            assert!(wanted, "I6: n{host} reboots without a request");
            *reboots += 1;
        }
    }

    pub(super) fn accident(&mut self, host: usize) {
        self.unlucky[host] = true;
    }
}

impl World {
    fn since(&self, host: usize) -> Option<Timestamp> {
        self.hosts[host]
            .waiting
            .as_ref()
            .map(|shown| shown.place.since)
    }

    /// This host has a slot: whom did it pass?
    pub(super) fn served(&mut self, host: usize) {
        if self.service.passed.is_empty() {
            return;
        }
        let came = self.since(host);
        for other in 0..self.hosts.len() {
            // Who is not ready keeps its place and is passed over.
            let ready = self.hosts[other].waiting.as_ref();
            let ready = ready.is_some_and(|shown| shown.ready);
            let waits = self.since(other).filter(|_| ready);
            // Who shows no record came last: nobody knows of it yet.
            let earlier = waits.is_some() && came.is_none_or(|came| waits < Some(came));
            let service = &mut self.service;
            if other != host && earlier && !service.unlucky[other] {
                service.passed[other] += 1;
                service.most_passed = service.most_passed.max(service.passed[other]);
            }
        }
        self.service.takes += 1;
        self.service.passed[host] = 0;
        self.service.unlucky[host] = false;
    }
}
