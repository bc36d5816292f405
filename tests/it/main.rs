//! The integration tests, as one binary: the simulator, the real API server, real hosts.

mod cluster_access;
mod cluster_cli;
mod cluster_lease;
mod cluster_node;
mod cluster_pods;
mod plane;
mod simulator;
