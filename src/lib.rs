//! The daemon with its edges, and the command line, as a library for its own binary and tests; ARCHITECTURE.md is the map.

pub mod alerts;
pub mod bounded;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod daemon;
#[cfg(test)]
mod documents;
pub mod host;
#[cfg(test)]
mod hostile;
pub mod layers;
pub mod notices;
pub mod root;
pub mod trusted;
mod web;
