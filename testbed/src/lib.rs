//! A real Kubernetes control plane and real systemd hosts on one machine.
//!
//! Everything of a bed lives in its own network namespace, its own cgroup and its own directory, so
//! that several stand side by side with the same addresses and one command leaves nothing behind.

mod at_once;
mod audit;
mod bed;
pub mod budgets;
mod butane;
pub mod certs;
mod clean;
mod components;
mod control_plane;
mod door;
mod faults;
mod firmware;
mod furnish;
mod ground;
mod host;
mod image;
pub mod kwok;
mod machine;
mod pack;
mod prepare;
mod reads;
pub mod releases;
mod runtime;
mod shared;
mod shell;
mod sources;
mod spec;
mod stacked;
mod standing;
mod stub;
pub mod timeline;
mod tools;
pub mod verdict;
mod zincati;

pub use at_once::at_once;
pub use audit::Request;
pub use bed::{BRIEF, Bed};
pub use butane::butane;
pub use control_plane::{TOKEN, TOKEN_HOST};
pub use host::{Host, Output};
pub use prepare::{Need, prepare};
pub use shared::Shared;
pub use sources::{PACKAGES, Package, Sources};
pub use spec::{Content, HostSpec, Runtime, SUITE};
pub use stacked::Stacked;
pub use standing::Standing;
pub use stub::Stub;
pub use tools::{IMAGE, binaries, kubelet, prepared, runtime};

/// What a host's supervisor runs: see `firmware`.
pub use firmware::firmware;
