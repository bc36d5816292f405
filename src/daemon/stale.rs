//! Looking after holders that may be gone for good, and clearing what they left (I5, I7).

use kube_rebootd_core::now::Now;
use kube_rebootd_core::slot::GiveUp;
use kube_rebootd_core::stale::Held;
use tracing::warn;

use super::Daemon;
use super::api::Requests;
use crate::cluster::answer::ApiError;
use crate::cluster::peers;

impl Daemon {
    /// The holder's Node by a consistent read; no answer counts as little as finding it.
    pub(super) async fn read_holder(
        &mut self,
        requests: &Requests,
        held: Held,
        now: Now,
    ) -> Result<(), ApiError> {
        let found = peers::find(&requests.clients.coordinator, &held.holder).await;
        self.machine
            .see_holder(held, found.as_ref().ok().copied(), now);
        found.map(drop)
    }

    /// Only the hold that was looked into: the resourceVersion guards it. Whatever went wrong, the count
    /// starts again.
    pub(super) async fn clear(
        &mut self,
        requests: &Requests,
        holder: &str,
        give_up: &GiveUp,
        now: Now,
    ) -> Result<(), ApiError> {
        let name = give_up.lease.as_str();
        self.machine.forget_look(name);
        self.give_up(requests, give_up, now).await?;
        warn!(
            LEASE = name,
            HOLDER = holder,
            "cleared slot {name}: the Node of its holder {holder} is gone or out of service, and no other claims it"
        );
        Ok(())
    }
}
