//! `unlock NODE`: an admin frees what a node holds that will not come back, or not by itself.
//!
//! First the Lease, as it was looked at, then the Node's label and record. A node that lives can no longer go down once the
//! Lease is not its own (I1), nor label itself again, and as long as its label is there nobody else takes the slot. (A
//! give-up goes the other way round, as there the node itself goes on with what is left, I4.) The history stays, and so
//! does a cordon: the daemon, when it comes back, takes off what is its own (I3). A node that is Ready, or that said that it
//! goes down, is left alone unless the person insists: its daemon gives back by itself, and may be about to reboot it.

use std::fmt::Write;
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use kube_rebootd_core::config::{is_dns_label, is_subdomain};
use kube_rebootd_core::names;
use kube_rebootd_core::record::{Hold, Record};
use kube_rebootd_core::slot::Lease;
use serde_json::json;

use crate::cluster::answer::{ApiError, CALL, call, found};
use crate::cluster::client::whoami;
use crate::cluster::lean::{Named, Node};
use crate::cluster::lease::{GiveUpError, Leases};
use crate::cluster::node::ready;

/// So often a Node that changes meanwhile is read again: a kubelet writes its status every few seconds at most.
const TRIES: u32 = 5;

/// What a person wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order<'a> {
    pub namespace: &'a str,
    pub node: &'a str,
    /// Also of a node that is Ready, or that said that it goes down.
    pub force: bool,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unlocked {
    /// The Node was there and carried something of a hold.
    pub node: bool,
    pub leases: Vec<String>,
    /// There are no slots in this namespace at all.
    pub no_slots: bool,
    /// The Node keeps load balancers away, as the hold had it.
    pub excluded: bool,
}

/// Why it was not (all) done.
#[derive(Debug, thiserror::Error)]
pub enum UnlockError {
    /// A node may change its own Node only, and is not to free others' slots.
    #[error("{user} is a node and may not unlock; with an admin's kubeconfig run\n{lines}")]
    NodeIdentity { user: String, lines: String },
    #[error(
        "node {node} is Ready and holds {what}: its daemon gives that back by itself when it is done. Look there with kube-rebootd status: if it says that the node is not healthy, or if kube-rebootd is gone from there, pause its group first, or the next node starts at once, with the same update (kube-rebootd pause --group GROUP), then use --force; a cordon stays"
    )]
    Ready { node: String, what: String },
    #[error(
        "node {node} said that it goes down: {words}. It may be in the middle of its reboot: be sure that its host is off, or that kube-rebootd is gone from there, before you use --force"
    )]
    GoingDown { node: String, words: String },
    /// It may be about to reboot.
    #[error(
        "slot {lease} is not freed: somebody changed it meanwhile, perhaps the daemon of {node} itself. Look with kube-rebootd nodes, and be sure that the host is off, before you unlock again; the label of its Node is still there"
    )]
    Changed { node: String, lease: String },
    #[error(
        "the slot is free, but label and record are still on Node {node}, and nobody takes the slot while they are: {refused}; run the same again with --force"
    )]
    Marked { node: String, refused: ApiError },
    /// The label would go and the slot stay taken, or be its own when the daemon comes back.
    #[error(
        "node {node} holds nothing here, but by its own record {lease} in namespace {namespace}; use --namespace {namespace}"
    )]
    Elsewhere {
        node: String,
        lease: String,
        namespace: String,
    },
    #[error(
        "Node {node} is marked as holding a slot, and namespace {namespace} has no slots: name theirs with --namespace; if they are deleted, use --force"
    )]
    NoSlots { node: String, namespace: String },
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
    let marked = node.as_ref().is_some_and(marked);
    let no_slots = held.is_empty();
    if let Some(node) = node.as_ref().filter(|_| marked) {
        let mine = |lease: &Lease| lease.holder.as_deref() == Some(name);
        if !held.iter().any(mine) {
            there(node, order, no_slots)?;
        }
    }
    held.retain(|lease| lease.holder.as_deref() == Some(name));
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
    let down = held.iter().find_map(|lease| lease.going_down.clone());
    if let Some(words) = down.filter(|_| !force && node.is_some()) {
        return Err(UnlockError::GoingDown {
            node: name.to_owned(),
            words,
        });
    }
    let mut done = Unlocked {
        node: marked,
        leases: Vec::new(),
        no_slots,
        excluded: node.as_ref().is_some_and(excluded),
    };
    for lease in held {
        match leases.unlock(&lease, Duration::ZERO).await {
            Ok(_) => done.leases.push(lease.name),
            Err(GiveUpError::Api(ApiError::Conflict { .. })) => {
                return Err(UnlockError::Changed {
                    node: name.to_owned(),
                    lease: lease.name,
                });
            }
            Err(err) => return Err(err.into()),
        }
    }
    if let Some(node) = node.filter(|_| marked) {
        unmark(&nodes, &leases, node).await?;
    }
    Ok(done)
}

/// What the Node carries, which holds nothing in the namespace that was asked for, does not belong to slots elsewhere:
/// --force is for a node that is Ready, and takes no label off whose slot would stay taken. The node itself may have
/// written it: what could not be a name is not told to an admin (I14), and where it names a namespace without slots, --force
/// there takes it off.
fn there(node: &Node, order: &Order<'_>, no_slots: bool) -> Result<(), UnlockError> {
    let take = hold(node).map(|hold| hold.take);
    let elsewhere = take.filter(|take| {
        let names = is_dns_label(&take.namespace) && is_subdomain(&take.lease);
        names && take.namespace != order.namespace
    });
    let node = order.node.to_owned();
    match elsewhere {
        Some(take) => Err(UnlockError::Elsewhere {
            node,
            lease: take.lease,
            namespace: take.namespace,
        }),
        None if no_slots && !order.force => Err(UnlockError::NoSlots {
            node,
            namespace: order.namespace.to_owned(),
        }),
        None => Ok(()),
    }
}

/// Takes our label and record off a Node that holds nothing any more. A Node changes often, by its kubelet's status or
/// by the undoing of its own daemon: it is read again, and left alone if it has taken a slot since.
async fn unmark(nodes: &Api<Node>, leases: &Leases, mut node: Node) -> Result<(), UnlockError> {
    let name = node.name_any();
    let mut tries = TRIES;
    loop {
        let refused = match clear(nodes, &name, &node).await {
            Err(refused @ ApiError::Conflict { .. }) => refused,
            Err(ApiError::Gone { .. }) => return Ok(()),
            done => return Ok(done?),
        };
        tries -= 1;
        if tries == 0 {
            return Err(UnlockError::Marked {
                node: name,
                refused,
            });
        }
        let again = found(call("get Node", CALL, nodes.get(&name)).await)?;
        let Some(again) = again.filter(marked) else {
            return Ok(());
        };
        let all = leases.all(Duration::ZERO).await?;
        if all.iter().any(|lease| lease.holder.as_ref() == Some(&name)) {
            return Ok(());
        }
        node = again;
    }
}

/// It carries something of a hold.
fn marked(node: &Node) -> bool {
    node.labels().contains_key(names::SLOT) || node.annotations().contains_key(names::STATE)
}

/// Its record says that the label for load balancers is the hold's. As the cordon it stays until the node is healthy.
fn excluded(node: &Node) -> bool {
    let (key, value) = names::EXCLUDED;
    let there = node.labels().get(key).is_some_and(|is| is == value);
    let hold = hold(node).filter(|_| there);
    hold.is_some_and(|hold| hold.excluded)
}

/// The hold by the record on the Node, which its node may have written itself.
fn hold(node: &Node) -> Option<Hold> {
    let record = Record::decode(node.annotations().get(names::STATE)?).ok()?;
    record.cleaned().hold
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
    let nodes: Api<Named<Node>> = Api::all(nodes.clone().into_client());
    call(&what, CALL, nodes.patch(name, &params, &patch)).await?;
    Ok(())
}

/// The kubectl lines that do the same, for whoever has an admin's kubeconfig elsewhere.
pub fn lines(namespace: &str, node: &str, lease: Option<&str>) -> String {
    let keys = json!({"metadata": {
        "labels": {(names::SLOT): null},
        "annotations": {(names::STATE): null},
    }});
    let slot = json!({
        "metadata": {"annotations": {(names::ROLE): null, (names::GOING_DOWN): null}},
        "spec": {"holderIdentity": null, "acquireTime": null},
    });
    let mut text = String::new();
    // Writing to a String does not fail.
    if lease.is_none() {
        let elsewhere = names::option(namespace);
        let _ = writeln!(
            text,
            "  kube-rebootd unlock {node} --kubeconfig ADMIN{elsewhere}\n\
             or, where there is no kube-rebootd, and only if the host is off:"
        );
    }
    let _ = writeln!(
        text,
        "  kubectl -n {namespace} patch lease {} --type=merge -p '{slot}'",
        lease.unwrap_or("LEASE")
    );
    let _ = write!(text, "  kubectl patch node {node} --type=merge -p '{keys}'");
    if lease.is_none() {
        let _ = write!(
            text,
            "\nwhere LEASE is the one whose HOLDER is {node} (kubectl get leases -A -l kube-rebootd/group, with its namespace); \
             leave that line out only if there is none anywhere"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_the_lines_free_the_lease_before_the_node() {
        let text = lines("kube-rebootd", "n1", Some("default"));
        assert_eq!(
            text,
            "  kubectl -n kube-rebootd patch lease default --type=merge -p '{\"metadata\":{\"annotations\":{\"kube-rebootd/going-down\":null,\"kube-rebootd/role\":null}},\"spec\":{\"acquireTime\":null,\"holderIdentity\":null}}'\n  \
             kubectl patch node n1 --type=merge -p '{\"metadata\":{\"annotations\":{\"kube-rebootd/state\":null},\"labels\":{\"kube-rebootd/slot\":null}}}'"
        );
        let text = lines("ns", "n1", None);
        let safe = "  kube-rebootd unlock n1 --kubeconfig ADMIN --namespace ns\n";
        assert!(
            text.starts_with(safe) && text.contains("get leases -A"),
            "{text}"
        );
    }
}
