//! The other Nodes, through the coordinator client: who carries the slot label, and whether any could
//! take pods (I1, I13).

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::cluster::answer::{ApiError, CALL, call};
use crate::cluster::node::{ready, unschedulable};
use crate::names;
use crate::slot::{Peer, Peers};

/// Nodes per page: full Nodes are some 10 KB each, and the first page nearly always decides.
const PAGE: u32 = 100;

/// Every labelled Node but `me`, and the names of the Leases of all groups, by consistent reads
/// (without a resourceVersion) asked for at boot time `asked`.
///
/// Without a labelled Node the Leases are not asked for: nothing would be compared with them.
pub async fn list(
    coordinator: &Client,
    namespace: &str,
    me: &str,
    asked: Duration,
) -> Result<Peers, ApiError> {
    let nodes: Api<Node> = Api::all(coordinator.clone());
    let params = ListParams::default().labels(names::SLOT);
    let list = call("list labelled Nodes", CALL, nodes.list_metadata(&params)).await?;
    let labelled: Vec<Peer> = list
        .items
        .iter()
        .filter(|node| node.name_any() != me)
        .map(|node| Peer {
            node: node.name_any(),
            slot: node.labels().get(names::SLOT).cloned().unwrap_or_default(),
            quorum: names::QUORUM_ROLES
                .iter()
                .any(|role| node.labels().contains_key(*role)),
        })
        .collect();
    let mut peers = Peers {
        asked,
        labelled,
        leases: std::collections::BTreeSet::new(),
    };
    if !peers.labelled.is_empty() {
        let leases: Api<Lease> = Api::namespaced(coordinator.clone(), namespace);
        let params = ListParams::default().labels(names::GROUP);
        let list = call("list names of Leases", CALL, leases.list_metadata(&params)).await?;
        peers.leases = list.items.iter().map(ResourceExt::name_any).collect();
    }
    Ok(peers)
}

/// Another Ready and schedulable Node exists: evicted pods have somewhere to go. Stops at the first.
pub async fn others_schedulable(coordinator: &Client, me: &str) -> Result<bool, ApiError> {
    let nodes: Api<Node> = Api::all(coordinator.clone());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = call("list Nodes", CALL, nodes.list(&params)).await?;
        let fit = |node: &Node| node.name_any() != me && ready(node) && !unschedulable(node);
        if page.items.iter().any(fit) {
            return Ok(true);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(false),
        }
    }
}
