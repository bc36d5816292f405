//! Why there is no connection to the API server (yet), in words that say what to do.

use std::path::PathBuf;
use std::time::Duration;

use kube_rebootd_core::plugin::PluginError;

use crate::cluster::answer::ApiError;
use crate::cluster::credentials::Searched;

/// Username prefix of a kubelet's identity.
pub(super) const NODE_USER: &str = "system:node:";

/// Why there are no clients (yet).
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("no kubeconfig found; searched {}", listed(.0))]
    NoKubeconfig(Vec<Searched>),
    #[error("kubeconfig {path} cannot be used: {why}", path = path.display())]
    Unusable { path: PathBuf, why: String },
    #[error("kubeconfig {path}: its credential plugin {command} {why}", path = path.display())]
    Plugin {
        path: PathBuf,
        command: String,
        why: PluginError,
    },
    /// It is being worked on beside the loop.
    #[error(
        "waiting for the credential of the kubeconfig: is its plugin, or the API server, slow?"
    )]
    Pending,
    /// A file system hangs; one attempt at a time is made.
    #[error("reading the kubeconfig and its files took more than {} s: does a file system hang?", .0.as_secs())]
    Slow(Duration),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(
        "the kubeconfig's identity {user} is not a node's ({NODE_USER}NAME); set node.name to the name of this node"
    )]
    NotANode { user: String },
    #[error(
        "node.name is {configured}, but the kubeconfig is that of node {real}; remove node.name"
    )]
    OtherNode { configured: String, real: String },
}

fn listed(searched: &[Searched]) -> String {
    let paths: Vec<String> = searched.iter().map(ToString::to_string).collect();
    paths.join(", ")
}
