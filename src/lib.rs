//! kube-rebootd: reboots Kubernetes nodes one after another, from a native host daemon.

pub mod host;
pub mod root;
