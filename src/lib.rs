//! kube-rebootd as a library, for its own binary and tests; ARCHITECTURE.md is the map.

pub mod backoff;
pub mod beats;
pub mod boot;
pub mod bounded;
pub mod budget;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod daemon;
pub mod decide;
#[cfg(test)]
mod documents;
pub mod drain;
pub mod facts;
#[cfg(test)]
mod garble;
pub mod gates;
pub mod health;
pub mod host;
pub mod inhibitor;
pub mod kubelet;
pub mod names;
pub mod node;
pub mod node_set;
pub mod now;
pub mod outdated;
pub mod phase;
pub mod plugin;
pub mod pod;
pub mod record;
pub mod root;
pub mod selector;
pub mod shutdown;
pub mod slot;
pub mod stale;
pub mod text;
pub mod trigger;
pub mod trusted;
