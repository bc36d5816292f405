//! What the audit log says about one test's nodes and slots, whatever runs beside it.

use std::fmt::Write;

use jiff::Timestamp;
use testbed::{Host, Request, verdict};

use super::Site;

/// Characters of a request's body that are printed: what matters stands at its beginning.
const BODY: usize = 1_000;

/// A point in the audit log from which a test judges: a bed that stays up remembers earlier runs.
#[derive(Clone, Copy)]
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

    /// For people: who evicted which pod of a namespace, who became ready, and what budgets counted then.
    pub(crate) fn disruptions(self, site: &Site, namespace: &str) -> String {
        let mut text = String::new();
        for request in site.bed.requests_by("").unwrap() {
            let (verb, resource) = (request.verb.as_str(), request.resource.as_str());
            let counts = match resource {
                "pods" => matches!(verb, "create" | "delete"),
                "poddisruptionbudgets/status" => true,
                _ => resource.starts_with("pods/"),
            };
            if !counts || request.namespace != namespace || request.at < self.0 {
                continue;
            }
            let body = request.request.map(|body| body.to_string());
            let body: String = body.unwrap_or_default().chars().take(BODY).collect();
            let line = format_args!(
                "{} to {}, {}: {verb} {} by {}: {body}",
                request.at, request.done, request.code, request.uri, request.user_agent
            );
            writeln!(text, "{line}").unwrap();
        }
        text
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
