//! The integration tests, as one binary: the simulator, the real API server, real hosts; and fakes
//! for what the real part will not do on request.

#![allow(clippy::unwrap_used)] // helpers of tests as well

mod alertmanager;
mod alerts;
mod built;
mod cli_boot_ok;
mod cli_check;
mod cli_doctor;
mod cli_host;
mod cli_migrate;
mod cli_status;
mod cli_undrain;
mod cluster_access;
mod cluster_cli;
mod cluster_explain;
mod cluster_lease;
mod cluster_migrate;
mod cluster_node;
mod cluster_pods;
mod cluster_queue;
mod cluster_wish;
mod control_plane;
mod e2e;
mod example_hooks;
mod fake_bus;
mod fake_login;
mod fake_units;
mod host_bus;
mod host_check;
mod host_dbus;
mod host_hook;
mod host_kubelet;
mod host_logind;
mod host_rebootmgr;
mod host_update_engine;
mod hostile;
mod kubeconfigs;
mod marks;
mod memory;
mod model;
mod notices;
mod outdated;
mod packagers;
mod plane;
mod prometheus;
mod real;
mod reapply;
mod rotation;
mod run_dropped;
mod run_queue;
mod simulator;
mod whole;
