//! The command line: one module per verb (DESIGN.md 12).

pub mod config;
