//! The verbs of the command line, as functions over what they need.

pub mod nodes;
pub mod unlock;
