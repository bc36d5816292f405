//! Looking after holders that may be gone for good, and clearing what they left (I5, I7).

use std::collections::BTreeMap;

use kube_rebootd_core::now::Now;
use kube_rebootd_core::slot::{GiveUp, Lease};
use kube_rebootd_core::stale::{Held, Look};
use tracing::warn;

use super::Daemon;
use crate::cluster::answer::ApiError;
use crate::cluster::{lease, peers};

impl Daemon {
    /// The holder's Node by a consistent read; no answer counts as little as finding it.
    pub(super) async fn read_holder(&mut self, held: Held, now: Now) -> Result<(), ApiError> {
        let Some(connected) = self.api.connected() else {
            return Ok(());
        };
        let found = peers::find(&connected.clients.coordinator, &held.holder).await;
        let name = held.lease.clone();
        let before = self.machine.facts.looks.get(&name);
        let look = Look::next(before, held, now.boot, found.as_ref().ok().copied());
        self.machine.facts.looks.insert(name, look);
        found.map(drop)
    }

    /// Only the hold that was looked into: the resourceVersion guards it. Whatever went wrong, the count
    /// starts again.
    pub(super) async fn clear(
        &mut self,
        holder: &str,
        give_up: &GiveUp,
        now: Now,
    ) -> Result<(), ApiError> {
        let name = give_up.lease.as_str();
        self.machine.facts.looks.remove(name);
        self.give_up(give_up, now).await?;
        warn!(
            LEASE = name,
            HOLDER = holder,
            "cleared slot {name}: the Node of its holder {holder} is gone or out of service, and no other claims it"
        );
        Ok(())
    }

    /// The Leases of a start: whatever was known of them stays known.
    pub(super) fn followed(&self, leases: Vec<Lease>) -> BTreeMap<String, Lease> {
        let seen = self.now().boot;
        let follow =
            |new: Lease| lease::follow(self.machine.facts.leases.get(&new.name), new, seen);
        let by_name = |lease: Lease| (lease.name.clone(), lease);
        leases.into_iter().map(follow).map(by_name).collect()
    }
}
