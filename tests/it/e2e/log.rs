//! What the audit log says about one test's nodes and slots, whatever runs beside it.

use jiff::Timestamp;
use testbed::{Host, Request, verdict};

use super::Site;

/// A point in the audit log from which a test judges: a bed that stays up remembers earlier runs.
pub(crate) struct Since(Timestamp);

impl Since {
    pub(crate) fn now() -> Self {
        Self(Timestamp::now())
    }

    /// Writes to these Nodes and to the group's Leases.
    pub(crate) fn of(&self, site: &Site, hosts: &[Host]) -> Vec<Request> {
        let leases = site.leases();
        self.of_those(
            site,
            |node| hosts.iter().any(|host| host.name() == node),
            |lease| leases.iter().any(|name| name == lease),
        )
    }

    /// The same for the Lease of this name and Nodes whose names begin so.
    pub(crate) fn of_group(&self, site: &Site, group: &str) -> Vec<Request> {
        let prefix = format!("{group}-");
        self.of_those(
            site,
            |node| node.starts_with(&prefix),
            |lease| lease == group,
        )
    }

    fn of_those(
        &self,
        site: &Site,
        node: impl Fn(&str) -> bool,
        lease: impl Fn(&str) -> bool,
    ) -> Vec<Request> {
        let mut requests = site.bed.requests_by("").unwrap();
        requests.retain(|request| {
            let ours = match request.resource.as_str() {
                "nodes" => node(&request.name),
                "leases" => lease(&request.name),
                _ => false,
            };
            ours && request.at >= self.0
        });
        requests
    }
}

/// I1, I3, I4 for everything these requests did: one holder a Lease, no cordon outside of a hold, none
/// left at a give-up. At least `cordons` of them, so that "nothing happened" is no success.
pub(crate) fn in_order(site: &Site, requests: &[Request], cordons: usize) {
    for lease in site.leases() {
        verdict::one_holder_at_a_time(requests, &lease).unwrap();
    }
    let seen = verdict::cordons_while_holding(requests).unwrap();
    assert!(seen >= cordons, "only {seen} cordons");
    verdict::uncordoned_before_give_up(requests).unwrap();
}
