//! The integration tests, as one binary: the simulator, the real API server, real hosts.

mod cluster_lease;
mod plane;
mod simulator;
