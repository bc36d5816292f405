//! `kube-rebootd manifests`: what a cluster needs, for `kubectl apply -f -`; and with a group or a number of
//! slots, the slots as well, for `kubectl create`.

use std::process::ExitCode;

use super::{complain, print};
use crate::cluster::manifests::{Grant, granting, in_namespace, shared, with_capacity};

/// Exit code 2: clap's own, for a value that cannot be.
const USAGE: u8 = 2;

/// Prints what is shared; and the slots, when a group or their number is given: what is applied again
/// has no slots in it, so that it never pauses one that is open. With `capacity`, also what that gate needs.
pub fn main(
    namespace: Result<String, ExitCode>,
    group: Option<&str>,
    slots: Option<u32>,
    grant: &Grant,
    capacity: bool,
) -> ExitCode {
    let namespace = match namespace {
        Ok(namespace) => namespace,
        // Why it is not known was said.
        Err(code) => return code,
    };
    let text = match (group, slots) {
        (None, None) => shared(grant),
        (group, slots) => granting(group.unwrap_or("default"), slots.unwrap_or(1), grant),
    };
    let text = text.map(|text| {
        if capacity {
            with_capacity(&text, grant)
        } else {
            text
        }
    });
    match text.and_then(|text| in_namespace(&text, &namespace)) {
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
