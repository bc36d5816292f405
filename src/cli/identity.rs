//! Who asks: a person by a kubeconfig, or this host by its own.
//!
//! On a laptop there is no configuration and no kubelet: `--kubeconfig`, the files of `$KUBECONFIG` merged as
//! kubectl merges them, `~/.kube/config`, and only then the host's own credential through the coordinator (I11).

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use kube::Client;
use kube_rebootd_core::config::Config;

use crate::cli::Cluster;
use crate::cluster::client::{Admin, Clients, Connector, admin, server_time};
use crate::cluster::connect_error::ConnectError;
use crate::daemon::{access, connect};
use crate::host::Bus;
use crate::root::Root;

/// As a person, or as this host.
pub(super) enum Identity {
    Person(Admin),
    /// The host's coordinator, and the client and the name of its node.
    Host {
        coordinator: Client,
        node: Client,
        name: String,
    },
}

/// Whose kubeconfig there is.
pub(super) async fn identity(
    root: &Root,
    config: &Config,
    cluster: &Cluster,
) -> Result<Identity, ConnectError> {
    let files = match &cluster.kubeconfig {
        Some(file) => vec![file.clone()],
        None => persons(),
    };
    if !files.is_empty() {
        // A person's file is where the shell says, not below --root.
        let absolute = |file: PathBuf| std::path::absolute(&file).unwrap_or(file);
        let files = files.into_iter().map(absolute).collect();
        let admin = admin(files, cluster.context.clone()).await;
        return admin.map(Identity::Person);
    }
    // A context that was named, or a file, is not this host's cluster.
    let named = std::env::var_os("KUBECONFIG").filter(|named| !named.is_empty());
    if let Some(named) = named {
        return Err(ConnectError::Unusable {
            path: named.into(),
            why: "$KUBECONFIG names it, and there is no such file; unset it, or name another with --kubeconfig"
                .to_owned(),
        });
    }
    if let Some(context) = &cluster.context {
        return Err(ConnectError::Unusable {
            path: "~/.kube/config".into(),
            why: format!(
                "there is none, and so no context {context}; name another with --kubeconfig"
            ),
        });
    }
    let clients = host(root, config).await?;
    Ok(Identity::Host {
        coordinator: clients.coordinator,
        node: clients.node,
        name: clients.name,
    })
}

/// As this host.
pub(super) async fn host(root: &Root, config: &Config) -> Result<Clients, ConnectError> {
    connect(&Connector::new(access(root, config)), root, &Bus::system()).await
}

/// The files of `$KUBECONFIG` that exist, else `~/.kube/config` if that does.
fn persons() -> Vec<PathBuf> {
    let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let named: Vec<PathBuf> = std::env::split_paths(&named)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    let files = if named.is_empty() {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        let file = home.map(|home| Path::new(&home).join(".kube/config"));
        file.into_iter().collect()
    } else {
        named
    };
    files.into_iter().filter(|path| path.exists()).collect()
}

/// By the API server's clock: the ages of a laptop whose clock is wrong would call every node silent. A node's own is kept.
pub(super) async fn now(identity: &Identity) -> Timestamp {
    let theirs = match identity {
        Identity::Person(admin) => server_time(&admin.client).await,
        Identity::Host { .. } => None,
    };
    theirs.unwrap_or_else(Timestamp::now)
}

/// Said before anything is changed: the wrong cluster is a mistake that people make.
pub(super) fn which(admin: &Admin) -> String {
    let server = admin.server.trim_end_matches('/');
    format!("cluster {server}, context {}\n", admin.context)
}
