//! What this node may do in the cluster, tried with `dryRun=All`, and the group it would use (I1, I11).

use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use kube_rebootd_core::config::Config;
use kube_rebootd_core::names;
use kube_rebootd_core::node::Node;
use kube_rebootd_core::slot::Lease;
use serde_json::json;

use super::Check;
use super::grant::{ESCAPE, GRANT, NOBODY, escape, grant};
use super::marks::{DAEMON_SETS, MARKS, daemon_sets, marks};
use super::pods::{BUDGETS, PODS, budgets, pods};
use super::refused::{MANAGER, manifests, refused};
use crate::clock::Clock;
use crate::cluster::answer::{ApiError, CALL, call};
use crate::cluster::capacity::unplaced;
use crate::cluster::client::Clients;
use crate::cluster::heartbeat;
use crate::cluster::lean::{Lease as LeaseObject, Named, Node as NodeObject};
use crate::cluster::lease::Leases;
use crate::cluster::manifests::capacity_cure;
use crate::cluster::readyz::unready;

const OWN_NODE: &str = "own Node";
const HEARTBEAT: &str = "own heartbeat";
const NODES: &str = "other Nodes";
const WAITERS: &str = "waiters";
const SLOTS: &str = "slots";
const TAKE: &str = "slot write";
/// Only where the configuration asks for it.
const CAPACITY: &str = "pods that wait";
/// The same, of a node of the control plane.
const API_SERVERS: &str = "API servers";
/// In the order of the table.
pub(super) const NAMES: [&str; 12] = [
    OWN_NODE,
    HEARTBEAT,
    PODS,
    BUDGETS,
    GRANT,
    NODES,
    DAEMON_SETS,
    WAITERS,
    SLOTS,
    TAKE,
    MARKS,
    ESCAPE,
];
pub(super) async fn checks(clients: &Clients, config: &Config, node: Option<&Node>) -> Vec<Check> {
    let namespace = config.coordination.namespace.as_str();
    let group = group(config, node);
    let (own, beat, pods, budgets, grant, nodes, sets, waiters, slots, marks, escape) = tokio::join!(
        own_node(clients, node),
        heartbeat(clients),
        pods(clients, config),
        budgets(clients, config),
        grant(clients, &config.coordination),
        other_nodes(&clients.coordinator, namespace),
        daemon_sets(&clients.coordinator, namespace),
        waiters(&clients.coordinator, namespace, &group),
        slots(clients, namespace, &group),
        marks(clients, namespace),
        escape(&clients.node),
    );
    let (slots, leases) = slots;
    let take = match leases.first() {
        Some(lease) => take(clients, config, lease).await,
        None => Check::skipped(TAKE, SLOTS),
    };
    let mut checks = vec![
        own, beat, pods, budgets, grant, nodes, sets, waiters, slots, take, marks, escape,
    ];
    if !config.gates.capacity_wait.is_zero() {
        checks.push(capacity(&clients.coordinator, namespace).await);
    }
    let other = node.is_some_and(|node| !node.quorum());
    if !config.gates.api_servers.is_empty() && !other {
        checks.push(api_servers(clients).await);
    }
    checks
}

/// As the daemon's.
fn group(config: &Config, node: Option<&Node>) -> String {
    let coordination = &config.coordination;
    node.map_or_else(
        || coordination.group.to_string(),
        |node| coordination.group_of(&node.labels),
    )
}

/// Makes the slots of a group that has none, paused; existing Leases are left alone.
fn make_slots(namespace: &str, group: &str) -> String {
    format!(
        "as an admin: kube-rebootd manifests --group {group} --slots 1{} | kubectl create -l {} -f -",
        names::option(namespace),
        names::GROUP
    )
}

async fn own_node(clients: &Clients, node: Option<&Node>) -> Check {
    let Some(node) = node else {
        return Check::skipped(OWN_NODE, "a registered node");
    };
    let api: Api<NodeObject> = Api::all(clients.node.clone());
    let params = PatchParams::apply(MANAGER).force().dry_run();
    let body = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": node.name, "uid": node.uid, "labels": {(names::SLOT): "doctor"}},
        "spec": {"unschedulable": true}});
    let patch = Patch::Apply(body);
    let tried = api.patch(&node.name, &params, &patch);
    match call("cordon and label own Node (dry run)", CALL, tried).await {
        Ok(_) => Check::ok(OWN_NODE, "may cordon and label itself"),
        Err(err) => refused(
            OWN_NODE,
            &err,
            "a kubelet's credential may do this by the Node authorizer: --authorization-mode=Node,RBAC; another identity needs a ClusterRole with patch and reboot on nodes",
        ),
    }
}

async fn heartbeat(clients: &Clients) -> Check {
    let api: Api<Named<LeaseObject>> = Api::namespaced(clients.node.clone(), names::NODE_LEASES);
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default().dry_run()
    };
    let patch = Patch::Merge(json!({"metadata": {"labels": {(names::WAITING): "doctor"}}}));
    let tried = api.patch(&clients.name, &params, &patch);
    match call("label own kube-node-lease Lease (dry run)", CALL, tried).await {
        Ok(_) => Check::ok(HEARTBEAT, "may show that it waits"),
        Err(err @ ApiError::Gone { .. }) => Check::warn(
            HEARTBEAT,
            err.to_string(),
            "the kubelet makes it: journalctl -u kubelet",
        ),
        Err(err) => refused(
            HEARTBEAT,
            &err,
            "a kubelet's credential may do this; another identity needs a Role with get and patch on leases in kube-node-lease",
        ),
    }
}

async fn other_nodes(coordinator: &Client, namespace: &str) -> Check {
    let api: Api<Named<NodeObject>> = Api::all(coordinator.clone());
    let params = ListParams::default().labels(names::SLOT);
    match call("list labelled Nodes", CALL, api.list(&params)).await {
        Ok(list) => Check::ok(
            NODES,
            format!(
                "may be listed; {} carry the label of a slot",
                list.items.len()
            ),
        ),
        Err(err) => refused(NODES, &err, &manifests(namespace)),
    }
}

async fn waiters(coordinator: &Client, namespace: &str, group: &str) -> Check {
    match heartbeat::list(coordinator, group, "").await {
        Ok(list) => Check::ok(WAITERS, format!("may be listed; {} wait", list.len())),
        Err(err) => refused(WAITERS, &err, &manifests(namespace)),
    }
}

/// As `gates.capacity_wait` asks.
async fn capacity(coordinator: &Client, namespace: &str) -> Check {
    match unplaced(coordinator).await {
        Ok(listed) => {
            let (count, more) = (listed.pods.len(), if listed.more { " or more" } else { "" });
            let what = format!("may be listed; {count}{more} wait for room on a node");
            Check::ok(CAPACITY, what)
        }
        Err(err) => refused(CAPACITY, &err, &capacity_cure(namespace)),
    }
}

/// As `gates.api_servers` asks.
async fn api_servers(clients: &Clients) -> Check {
    match unready(&clients.api_servers).await {
        None => Check::ok(API_SERVERS, "each other one of gates.api_servers is ready"),
        Some(why) => Check::warn(
            API_SERVERS,
            why,
            "see on that host why its API server is not ready, or correct gates.api_servers: an address, name and port that its certificate has",
        )
        .until("each other API server is ready"),
    }
}

async fn slots(clients: &Clients, namespace: &str, group: &str) -> (Check, Vec<Lease>) {
    let leases = Leases::new(clients.coordinator.clone(), namespace, &clients.name);
    let asked = Clock::Real.now().boot;
    match leases.group(group, asked).await {
        Err(err) => (refused(SLOTS, &err, &manifests(namespace)), Vec::new()),
        Ok(leases) => (judge(&leases, namespace, group), leases),
    }
}

/// Of a group that is paused as a whole.
fn first_pause(leases: &[Lease]) -> Option<(&Lease, &String)> {
    let paused: Option<Vec<_>> = leases
        .iter()
        .map(|lease| Some((lease, lease.paused.as_ref()?)))
        .collect();
    paused?.into_iter().next()
}

fn judge(leases: &[Lease], namespace: &str, group: &str) -> Check {
    if leases.is_empty() {
        let what = format!("group {group} has no Lease in namespace {namespace}");
        return Check::fail(SLOTS, what, make_slots(namespace, group));
    }
    let newer = leases
        .iter()
        .find(|lease| lease.protocol > names::PROTOCOL_VERSION);
    if let Some(lease) = newer {
        let what = format!(
            "Lease {} speaks protocol {}, this kube-rebootd {}",
            lease.name,
            lease.protocol,
            names::PROTOCOL_VERSION
        );
        return Check::fail(SLOTS, what, "update kube-rebootd on this node");
    }
    if let Some((lease, why)) = leases
        .iter()
        .find_map(|lease| Some((lease, lease.unusable()?)))
    {
        let what = format!("Lease {} is no slot: {why}", lease.name);
        return Check::warn(SLOTS, what, "make it anew as the manifests do");
    }
    // One slot that is not paused is enough.
    if let Some((lease, why)) = first_pause(leases) {
        let names: Vec<&str> = leases.iter().map(|lease| lease.name.as_str()).collect();
        return Check::warn(
            SLOTS,
            format!("Lease {} is paused: {why}", lease.name),
            format!(
                "when nodes may reboot: kubectl -n {namespace} annotate lease {} {}-",
                names.join(" "),
                names::PAUSED
            ),
        )
        .until(format!("Lease {} is no longer paused", names.join(" or ")));
    }
    let held: Vec<String> = leases
        .iter()
        .filter_map(|lease| match (&lease.holder, &lease.paused) {
            (Some(holder), _) => Some(format!("{} held by {holder}", lease.name)),
            (None, Some(why)) => Some(format!("{} paused: {why}", lease.name)),
            (None, None) => None,
        })
        .collect();
    let held = if held.is_empty() {
        "all free".to_owned()
    } else {
        held.join(", ")
    };
    Check::ok(
        SLOTS,
        format!("group {group}: {} of them, {held}", leases.len()),
    )
}

/// The take as it would be sent, when the slot is free; a held one only says whether it may be patched.
async fn take(clients: &Clients, config: &Config, lease: &Lease) -> Check {
    let free = lease.holder.is_none();
    let own = free.then_some(clients.name.as_str());
    match claim(clients, config, lease, own).await {
        Ok(()) => {}
        Err(err @ ApiError::Invalid { .. }) if err.to_string().contains("prove_node") => {
            let cure = "set coordination.prove_node = true in the configuration";
            return Check::fail(TAKE, err.to_string(), cure);
        }
        Err(err) => return refused(TAKE, &err, &manifests(&config.coordination.namespace)),
    }
    let may = format!("may take {}", lease.name);
    if !free || !config.coordination.prove_node {
        return Check::ok(TAKE, may);
    }
    match claim(clients, config, lease, Some(NOBODY)).await {
        Err(ApiError::Invalid { .. }) => Check::ok(TAKE, may),
        Err(err) => refused(TAKE, &err, &manifests(&config.coordination.namespace)),
        Ok(()) => Check::warn(
            TAKE,
            format!("{may}, for any name: the strict policy is missing"),
            format!(
                "as an admin: kube-rebootd manifests{} --strict {} | kubectl apply --server-side -f -",
                names::option(&config.coordination.namespace),
                clients.name
            ),
        ),
    }
}

async fn claim(
    clients: &Clients,
    config: &Config,
    lease: &Lease,
    holder: Option<&str>,
) -> Result<(), ApiError> {
    let namespace = &config.coordination.namespace;
    let api: Api<LeaseObject> = Api::namespaced(clients.coordinator.clone(), namespace);
    let params = PatchParams::apply(MANAGER).force().dry_run();
    let mut body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": lease.name, "uid": lease.uid}});
    if let Some(holder) = holder {
        body["spec"] = json!({"holderIdentity": holder});
        // All that a hold writes: a policy of an earlier version knows less.
        body["metadata"]["annotations"] =
            json!({(names::ROLE): "worker", (names::GOING_DOWN): "doctor"});
    }
    let patch = Patch::Apply(body);
    let tried = api.patch(&lease.name, &params, &patch);
    call("take a slot (dry run)", CALL, tried).await.map(drop)
}
