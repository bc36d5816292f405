//! The edges to the API server: credentials, the two clients, and one file per kind of request.
//!
//! Data go in and out as the types of `slot`, `node` and `pod`; every call ends within its own time
//! limit (I7), an answer is classified in `answer` and nowhere else, and nothing is written but what
//! I11 lists.

pub mod answer;
pub mod capacity;
pub mod certificate;
pub mod client;
pub mod connect_error;
pub mod credentials;
pub mod daemon_sets;
pub mod events;
pub mod heartbeat;
mod identity;
pub mod lean;
pub mod lease;
pub mod manifests;
pub mod node;
pub mod peers;
pub mod plugin;
pub mod pods;
pub mod readyz;
pub mod rights;
mod table;
pub mod watch;
