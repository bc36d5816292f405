//! `nodes` and `unlock` from the command line: which kubeconfig, which namespace, what to say.
//!
//! On a laptop there is no configuration and no kubelet: `--kubeconfig`, `$KUBECONFIG`,
//! `~/.kube/config`, and only then the host's own credential through the coordinator (I11).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jiff::Timestamp;
use kube::Client;

use super::unlock::UnlockError;
use super::{Cluster, block_on, complain, exit, nodes, print, unlock};
use crate::cluster::answer::ApiError;
use crate::cluster::client::{ConnectError, Connector, admin};
use crate::config::{self, Config};
use crate::daemon::access;
use crate::root::Root;

/// As a person, or as this host.
enum Identity {
    Person(Client),
    /// The host's coordinator, and its node client, which knows its own name only.
    Host {
        coordinator: Client,
        node: Client,
    },
}

/// `kube-rebootd nodes`: the table of the group.
pub fn nodes(
    root: &Root,
    file: Option<&Path>,
    cluster: &Cluster,
    group: Option<String>,
) -> ExitCode {
    let config = match configured(root, file) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let namespace = namespace(&config, cluster);
    let group = group.unwrap_or_else(|| config.coordination.group.to_string());
    block_on(async {
        let client = match identity(root, &config, cluster).await {
            Ok(Identity::Person(client)) => client,
            Ok(Identity::Host { coordinator, .. }) => coordinator,
            Err(err) => return failed(&err),
        };
        match nodes::read(&client, &namespace, &group).await {
            Ok(seen) => {
                print(&nodes::table(&seen, Timestamp::now()));
                ExitCode::SUCCESS
            }
            Err(err) => refused(&err),
        }
    })
}

/// `kube-rebootd unlock NODE`.
pub fn unlock(root: &Root, file: Option<&Path>, cluster: &Cluster, node: &str) -> ExitCode {
    let config = match configured(root, file) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let namespace = namespace(&config, cluster);
    block_on(async {
        let client = match identity(root, &config, cluster).await {
            Ok(Identity::Person(client) | Identity::Host { node: client, .. }) => client,
            // No admin here: the lines work wherever one is.
            Err(ConnectError::NoKubeconfig(_)) if cluster.kubeconfig.is_none() => {
                let lines = unlock::lines(&namespace, node, None);
                complain(&format!(
                    "no kubeconfig of an admin here (--kubeconfig FILE); where there is one run\n{lines}"
                ));
                return ExitCode::from(exit::DENIED);
            }
            Err(err) => return failed(&err),
        };
        match unlock::unlock(&client, &namespace, node).await {
            Ok(done) => {
                print(&told(node, &done));
                ExitCode::SUCCESS
            }
            Err(err @ UnlockError::NodeIdentity { .. }) => {
                complain(&err);
                ExitCode::from(exit::DENIED)
            }
            Err(UnlockError::Api(err @ ApiError::Denied { .. })) => {
                let lines = unlock::lines(&namespace, node, None);
                complain(&format!("{err}; as an admin run\n{lines}"));
                ExitCode::from(exit::DENIED)
            }
            Err(err) => failed(&err),
        }
    })
}

/// Writing to a String does not fail.
fn told(node: &str, done: &unlock::Unlocked) -> String {
    let mut text = String::new();
    if done.node {
        let _ = writeln!(text, "node {node}: label and record taken off");
    }
    for lease in &done.leases {
        let _ = writeln!(text, "slot {lease}: free");
    }
    if text.is_empty() {
        return format!("{node} holds nothing\n");
    }
    let _ = writeln!(
        text,
        "a cordon stays: look at the host, then kubectl uncordon {node}"
    );
    text
}

/// The host's configuration; a laptop has none, which is a valid one.
fn configured(root: &Root, file: Option<&Path>) -> Result<Config, ExitCode> {
    config::load(root, file)
        .map(|effective| effective.config)
        .map_err(|err| {
            complain(&err);
            ExitCode::from(exit::CONFIGURATION)
        })
}

fn namespace(config: &Config, cluster: &Cluster) -> String {
    cluster
        .namespace
        .clone()
        .unwrap_or_else(|| config.coordination.namespace.clone())
}

async fn identity(
    root: &Root,
    config: &Config,
    cluster: &Cluster,
) -> Result<Identity, ConnectError> {
    if let Some(file) = cluster.kubeconfig.clone().or_else(persons) {
        // A person's file is where the shell says, not below --root.
        let file = std::path::absolute(&file).unwrap_or(file);
        return admin(&Root::host(), &file).await.map(Identity::Person);
    }
    let clients = Connector::new(access(root, config)).connect().await?;
    Ok(Identity::Host {
        coordinator: clients.coordinator,
        node: clients.node,
    })
}

/// `$KUBECONFIG` (its first file that exists), else `~/.kube/config`.
fn persons() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECONFIG").filter(|text| !text.is_empty());
    if let Some(named) = named {
        return std::env::split_paths(&named).find(|path| path.is_file());
    }
    let file = Path::new(&std::env::var_os("HOME")?).join(".kube/config");
    file.is_file().then_some(file)
}

fn refused(err: &ApiError) -> ExitCode {
    complain(err);
    match err {
        ApiError::Denied { .. } => ExitCode::from(exit::DENIED),
        _ => ExitCode::from(exit::FAILED),
    }
}

fn failed(err: &dyn std::fmt::Display) -> ExitCode {
    complain(err);
    ExitCode::from(exit::FAILED)
}
