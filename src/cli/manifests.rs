//! `kube-rebootd manifests`: what a cluster needs once, for `kubectl apply -f -`.

use std::process::ExitCode;

use super::{complain, print};
use crate::cluster::manifests::{Grant, granting};

/// Exit code 2: clap's own, for a value that cannot be.
const USAGE: u8 = 2;

/// Prints the manifests of `slots` slots of `group`.
pub fn main(group: &str, slots: u32, grant: &Grant) -> ExitCode {
    match granting(group, slots, grant) {
        Ok(text) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(err) => {
            complain(&err);
            ExitCode::from(USAGE)
        }
    }
}
