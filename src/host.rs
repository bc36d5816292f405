//! The host edges: everything the daemon reads from or asks of the machine it runs on.
//!
//! Thin code: no decision is taken here. Every D-Bus call has a timeout, every read has a bound,
//! and "could not find out" is an error of its own, never an answer (I8).

pub mod beside;
pub mod boot;
pub mod booted;
pub mod bus;
pub mod check;
pub mod dbus;
mod desk;
mod door;
pub mod fleet_lock;
pub mod healthz;
pub mod hooks;
mod http;
pub mod journal;
pub mod lock;
pub mod logind;
pub mod look;
pub mod metrics;
pub mod motd;
pub mod notify;
pub mod outdated;
pub mod own_inhibitor;
pub mod rebootmgr;
mod replace;
pub mod sentinel;
pub mod sessions;
mod sockets;
pub mod store;
pub mod systemd;
pub mod timedated;
pub mod update_engine;
pub mod view;
pub mod zone;

pub use bus::{Bus, BusError, DescriptorError, Descriptors};
pub use logind::RebootError;
pub use store::{Store, Stored};
