//! Checks from the kubeconfig to the Node: can this host talk to the cluster, and as whom (I11).

use jiff::Timestamp;
use kube::Client;
use kube_rebootd_core::config::Config;
use kube_rebootd_core::names;
use kube_rebootd_core::node::Node;

use super::certificate::{CREDENTIAL, credential};
use super::repair::{REPAIR, repair};
use super::{Check, aside, rights, slow};
use crate::clock::Clock;
use crate::cluster::answer::ApiError;
use crate::cluster::client::{Clients, Connector, server_time, whoami};
use crate::cluster::connect_error::ConnectError;
use crate::cluster::credentials;
use crate::cluster::node::OwnNode;
use crate::daemon::{access, connect, kubelets};
use crate::host::Bus;
use crate::root::Root;

const KUBECONFIG: &str = "kubeconfig";
const SERVER: &str = "API server";
const IDENTITY: &str = "identity";
const NODE: &str = "node";
const CLOCK: &str = "clock";
/// Seconds between the clocks that are worth a word: certificates, logs and windows get wrong.
const APART: i64 = 30;

pub(super) async fn checks(root: &Root, bus: &Bus, config: Option<&Config>) -> Vec<Check> {
    let Some(config) = config else {
        let mut skipped = all_skipped("a valid configuration");
        skipped.insert(0, Check::skipped(KUBECONFIG, "a valid configuration"));
        return skipped;
    };
    let (found, credential) = kubeconfig(root, bus, config).await;
    if found.failed() {
        return [vec![found], all_skipped("a kubeconfig")].concat();
    }
    let found = vec![found, credential];
    let connector = Connector::new(access(root, config));
    let more = match connect(&connector, root, bus).await {
        Ok(clients) => Box::pin(connected(&clients, config)).await,
        Err(err) => return not_connected(found, &err),
    };
    [found, more].concat()
}

/// Everything behind the kubeconfig.
fn all_skipped(needs: &'static str) -> Vec<Check> {
    let here = [CREDENTIAL, SERVER, IDENTITY, CLOCK, NODE, REPAIR];
    let names = here.into_iter().chain(rights::NAMES);
    names.map(|name| Check::skipped(name, needs)).collect()
}

async fn kubeconfig(root: &Root, bus: &Bus, config: &Config) -> (Check, Check) {
    let kubelets = kubelets(root, bus).await;
    let (root, explicit) = (root.clone(), config.node.kubeconfig.clone());
    let configured = explicit.is_some();
    let look = move || {
        credentials::find(&root, explicit.as_deref(), &kubelets).map(|found| {
            let credential = credential(&root, &found, Timestamp::now());
            (found.path, credential)
        })
    };
    let skipped = Check::skipped(CREDENTIAL, "a kubeconfig");
    let found = match aside(look).await {
        Some(Ok((path, credential))) => {
            return (
                Check::ok(KUBECONFIG, path.display().to_string()),
                credential,
            );
        }
        Some(Err(searched)) => {
            let searched: Vec<String> = searched.iter().map(ToString::to_string).collect();
            let cure = if configured {
                "correct node.kubeconfig in the configuration"
            } else {
                "join the node to a cluster, or set node.kubeconfig in the configuration"
            };
            Check::fail(
                KUBECONFIG,
                format!("none found; searched {}", searched.join(", ")),
                cure,
            )
        }
        None => slow(KUBECONFIG),
    };
    (found, skipped)
}

/// There are no clients: which check that fails, and what is left to skip.
fn not_connected(found: Vec<Check>, err: &ConnectError) -> Vec<Check> {
    let what = err.to_string();
    let unreachable = |cure: &str| Check::fail(SERVER, what.clone(), cure);
    let (server, identity) = match err {
        ConnectError::NoKubeconfig(_) => {
            let cure = "correct coordination.kubeconfig in the configuration";
            return failed_file(what, cure);
        }
        ConnectError::Unusable { .. } => {
            return failed_file(
                what,
                "renew it: join the node again, or restart the kubelet",
            );
        }
        ConnectError::Plugin { .. } => {
            return failed_file(what, "run it by hand as root, and mend it");
        }
        ConnectError::Slow(_) | ConnectError::Pending => {
            return failed_file(what, "look for a mount that hangs: findmnt");
        }
        ConnectError::Api(ApiError::Denied { .. }) => (
            Check::ok(SERVER, "answers"),
            Check::fail(
                IDENTITY,
                what,
                "renew the credential: restart the kubelet, or join the node again",
            ),
        ),
        ConnectError::Api(_) if what.contains("invalid peer certificate") => (
            unreachable(
                "the API server's certificate is refused here: as an admin renew it (kubeadm certs check-expiration), see that the kubeconfig's CA is that of the server, and that this host's clock is right (timedatectl)",
            ),
            Check::skipped(IDENTITY, SERVER),
        ),
        ConnectError::Api(_) => (
            unreachable(
                "see that the server of the kubeconfig is right, is up and can be reached from here: its address, name, route, firewall and CA",
            ),
            Check::skipped(IDENTITY, SERVER),
        ),
        ConnectError::NotANode { .. } => (
            Check::ok(SERVER, "answers"),
            Check::fail(IDENTITY, what, "set node.name in the configuration"),
        ),
        ConnectError::OtherNode { .. } => (
            Check::ok(SERVER, "answers"),
            Check::fail(IDENTITY, what, "remove node.name from the configuration"),
        ),
    };
    let needs = if server.failed() { SERVER } else { IDENTITY };
    let rest = [CLOCK, NODE, REPAIR].into_iter().chain(rights::NAMES);
    let rest = rest.map(|name| Check::skipped(name, needs));
    found
        .into_iter()
        .chain([server, identity])
        .chain(rest)
        .collect()
}

fn failed_file(what: String, cure: &str) -> Vec<Check> {
    let found = Check::fail(KUBECONFIG, what, cure);
    [vec![found], all_skipped("a kubeconfig that works")].concat()
}

async fn connected(clients: &Clients, config: &Config) -> Vec<Check> {
    let identity = match whoami(&clients.node).await {
        Ok(user) => Check::ok(IDENTITY, format!("{user}, node {}", clients.name)),
        Err(err) => Check::fail(IDENTITY, err.to_string(), "run doctor again"),
    };
    let (clock, seen) = tokio::join!(clock(&clients.node), own_node(clients));
    let (node, seen) = seen;
    let repair = match &seen {
        Some(node) => repair(node, config),
        None => Check::skipped(REPAIR, NODE),
    };
    let mut checks = vec![Check::ok(SERVER, "answers"), identity, clock, node, repair];
    checks.extend(Box::pin(rights::checks(clients, config, seen.as_ref())).await);
    checks
}

async fn own_node(clients: &Clients) -> (Check, Option<Node>) {
    let name = &clients.name;
    let own = OwnNode::new(clients.node.clone(), name);
    match own.get(Clock::Real.now().boot).await {
        Ok(Some(node)) => {
            let check = if let Some(why) = node.annotations.get(names::PAUSED) {
                Check::warn(
                    NODE,
                    format!("{name} is paused: {why}"),
                    format!(
                        "when it may reboot: kubectl annotate node {name} {}-",
                        names::PAUSED
                    ),
                )
                .until("the node is no longer paused")
            } else if node.ready {
                Check::ok(NODE, format!("{name} is Ready"))
            } else {
                Check::warn(
                    NODE,
                    format!("{name} is not Ready"),
                    "a reboot would not be proved healthy: journalctl -u kubelet",
                )
            };
            (check, Some(node))
        }
        Ok(None) => {
            let what = format!("Node {name} is not registered");
            let cure = "see why the kubelet does not register it: journalctl -u kubelet";
            (Check::fail(NODE, what, cure), None)
        }
        Err(err) => {
            let cure = "a node may read itself by the built-in ClusterRole system:node and the Node authorizer: is --authorization-mode=Node,RBAC set?";
            (Check::fail(NODE, err.to_string(), cure), None)
        }
    }
}

/// Only a warning: nothing rests on clocks that agree (I5), but people read times.
async fn clock(client: &Client) -> Check {
    let Some(theirs) = server_time(client).await else {
        return Check::warn(
            CLOCK,
            "the API server did not say what time it is",
            "compare by hand: timedatectl",
        );
    };
    let apart = Timestamp::now().as_second() - theirs.as_second();
    let words = match apart {
        0.. => format!("{apart} s ahead of the API server's"),
        _ => format!("{} s behind the API server's", -apart),
    };
    if apart.abs() > APART {
        Check::warn(CLOCK, words, "set up time synchronization: timedatectl")
    } else {
        Check::ok(CLOCK, "agrees with the API server's")
    }
}
