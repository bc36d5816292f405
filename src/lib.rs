//! kube-rebootd as a library, for its own binary and tests; ARCHITECTURE.md is the map.

pub mod boot;
pub mod drain;
pub mod names;
pub mod node;
pub mod now;
pub mod pod;
pub mod root;
pub mod selector;
pub mod slot;
