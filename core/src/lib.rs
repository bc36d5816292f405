//! What kube-rebootd decides, and all that a decision rests on, as data. Nothing in this crate reads a file, a clock, the
//! environment or the network, and nothing awaits: the time is an argument. ARCHITECTURE.md is the map.

pub mod backoff;
pub mod beats;
pub mod boot;
pub mod budget;
pub mod condition;
pub mod config;
pub mod decide;
pub mod drain;
pub mod facts;
pub mod gates;
pub mod health;
pub mod inhibitor;
pub mod kubelet;
pub mod machine;
pub mod metrics;
pub mod names;
pub mod node;
pub mod node_fields;
pub mod notice;
pub mod now;
pub mod order;
pub mod peers;
pub mod phase;
pub mod plugin;
pub mod pod;
pub mod record;
pub mod scatter;
pub mod selector;
pub mod shutdown;
pub mod slot;
pub mod stale;
pub mod text;
pub mod times;
pub mod trigger;
pub mod waits;
