//! `unlock NODE`: an admin frees what a node holds that will not come back, or not by itself.
//!
//! First the Node's label, then the Lease, as a give-up does (I4). The history stays, and so does a
//! cordon: the daemon, when it comes back, takes off what is its own (I3). A node that is Ready is left alone
//! unless the person insists: its daemon gives back by itself, and may be about to reboot it.

use std::fmt::Write;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::cluster::answer::{ApiError, CALL, call, found};
use crate::cluster::client::whoami;
use crate::cluster::lease::{GiveUpError, Leases};
use crate::names;

/// What a person wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order<'a> {
    pub namespace: &'a str,
    pub node: &'a str,
    /// Also of a node that is Ready.
    pub force: bool,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unlocked {
    /// The Node was there and carried something of a hold.
    pub node: bool,
    pub leases: Vec<String>,
}

/// Why it was not (all) done.
#[derive(Debug, thiserror::Error)]
pub enum UnlockError {
    /// A node may change its own Node only, and is not to free others' slots.
    #[error("{user} is a node and may not unlock; with an admin's kubeconfig run\n{lines}")]
    NodeIdentity { user: String, lines: String },
    #[error(
        "node {node} is Ready and holds {what}: its daemon gives that back by itself when it is done. Look there with kube-rebootd status; if kube-rebootd is gone from there, use --force: a cordon stays"
    )]
    Ready { node: String, what: String },
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    GiveUp(#[from] GiveUpError),
}

/// Frees everything that the node holds in any group of the namespace.
pub async fn unlock(client: &Client, order: &Order<'_>) -> Result<Unlocked, UnlockError> {
    let Order {
        namespace,
        node: name,
        force,
    } = *order;
    let user = whoami(client).await?;
    if user.starts_with("system:node:") {
        return Err(UnlockError::NodeIdentity {
            user,
            lines: lines(namespace, name, None),
        });
    }
    let leases = Leases::new(client.clone(), namespace, "kube-rebootd-unlock");
    let nodes: Api<Node> = Api::all(client.clone());
    let what = format!("get Node {name}");
    let node = found(call(&what, CALL, nodes.get(name)).await)?;
    let mut held = leases.all(Duration::ZERO).await?;
    held.retain(|lease| lease.holder.as_deref() == Some(name));
    let marked = node.as_ref().is_some_and(marked);
    if !force && node.as_ref().is_some_and(ready) && (marked || !held.is_empty()) {
        let mut what: Vec<String> = held.iter().map(|lease| lease.name.clone()).collect();
        if what.is_empty() {
            what.push("a label and a record".to_owned());
        }
        return Err(UnlockError::Ready {
            node: name.to_owned(),
            what: what.join(", "),
        });
    }
    if let Some(node) = node.filter(|_| marked) {
        clear(&nodes, name, &node).await?;
    }
    let mut done = Unlocked {
        node: marked,
        leases: Vec::new(),
    };
    for lease in held {
        let freed = leases.unlock(&lease.name, name, Duration::ZERO).await?;
        if freed.is_some() {
            done.leases.push(lease.name);
        }
    }
    Ok(done)
}

/// It carries something of a hold.
fn marked(node: &Node) -> bool {
    node.labels().contains_key(names::SLOT) || node.annotations().contains_key(names::STATE)
}

/// Its kubelet says so, and was heard of lately: else the lifecycle controller says Unknown.
fn ready(node: &Node) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Removes our label and record from the Node.
async fn clear(nodes: &Api<Node>, name: &str, node: &Node) -> Result<(), ApiError> {
    let patch = Patch::Merge(json!({"metadata": {
        "resourceVersion": node.resource_version(),
        "labels": {(names::SLOT): null},
        "annotations": {(names::STATE): null},
    }}));
    let params = PatchParams::default();
    let what = format!("clear Node {name}");
    call(&what, CALL, nodes.patch_metadata(name, &params, &patch)).await?;
    Ok(())
}

/// The kubectl lines that do the same, for whoever has an admin's kubeconfig elsewhere.
pub fn lines(namespace: &str, node: &str, lease: Option<&str>) -> String {
    let keys = json!({"metadata": {
        "labels": {(names::SLOT): null},
        "annotations": {(names::STATE): null},
    }});
    let slot = json!({
        "metadata": {"annotations": {(names::ROLE): null}},
        "spec": {"holderIdentity": null, "acquireTime": null},
    });
    let mut text = format!("  kubectl patch node {node} --type=merge -p '{keys}'\n");
    // Writing to a String does not fail.
    let _ = write!(
        text,
        "  kubectl -n {namespace} patch lease {} --type=merge -p '{slot}'",
        lease.unwrap_or("LEASE")
    );
    if lease.is_none() {
        let _ = write!(
            text,
            "\nwhere LEASE is the one that {node} holds: kubectl -n {namespace} get leases"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i4_the_lines_clear_the_node_before_the_lease() {
        let text = lines("kube-rebootd", "n1", Some("default"));
        assert_eq!(
            text,
            "  kubectl patch node n1 --type=merge -p '{\"metadata\":{\"annotations\":{\"kube-rebootd/state\":null},\"labels\":{\"kube-rebootd/slot\":null}}}'\n  \
             kubectl -n kube-rebootd patch lease default --type=merge -p '{\"metadata\":{\"annotations\":{\"kube-rebootd/role\":null}},\"spec\":{\"acquireTime\":null,\"holderIdentity\":null}}'"
        );
        assert!(lines("ns", "n1", None).contains("get leases"));
    }
}
