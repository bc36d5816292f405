//! `unlock NODE`: an admin frees what a node holds that will not come back, or not by itself.
//!
//! First the Node's label, then the Lease, as a give-up does (I4). The history stays, and so does a
//! cordon: the daemon, when it comes back, takes off what is its own (I3).

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
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    GiveUp(#[from] GiveUpError),
}

/// Frees everything that `node` holds in any group of `namespace`.
pub async fn unlock(client: &Client, namespace: &str, node: &str) -> Result<Unlocked, UnlockError> {
    let user = whoami(client).await?;
    if user.starts_with("system:node:") {
        return Err(UnlockError::NodeIdentity {
            user,
            lines: lines(namespace, node, None),
        });
    }
    let mut done = Unlocked {
        node: clear(client, node).await?,
        leases: Vec::new(),
    };
    let leases = Leases::new(client.clone(), namespace, "kube-rebootd-unlock");
    for lease in leases.all(Duration::ZERO).await? {
        if lease.holder.as_deref() != Some(node) {
            continue;
        }
        if leases
            .unlock(&lease.name, node, Duration::ZERO)
            .await?
            .is_some()
        {
            done.leases.push(lease.name);
        }
    }
    Ok(done)
}

/// Removes our label and record from the Node; false when there is nothing.
async fn clear(client: &Client, name: &str) -> Result<bool, ApiError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let what = format!("get Node {name}");
    let Some(node) = found(call(&what, CALL, nodes.get_metadata(name)).await)? else {
        return Ok(false);
    };
    let marked =
        node.labels().contains_key(names::SLOT) || node.annotations().contains_key(names::STATE);
    if !marked {
        return Ok(false);
    }
    let patch = Patch::Merge(json!({"metadata": {
        "resourceVersion": node.resource_version(),
        "labels": {(names::SLOT): null},
        "annotations": {(names::STATE): null},
    }}));
    let params = PatchParams::default();
    let what = format!("clear Node {name}");
    call(&what, CALL, nodes.patch_metadata(name, &params, &patch)).await?;
    Ok(true)
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
