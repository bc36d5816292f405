//! `kube-rebootd undrain --release`: gives back what a stopped daemon holds (I3, I4).
//!
//! It is a person's order: after a new boot it does not wait for the host to be healthy. It takes the
//! daemon's lock, so the two never work at once (I1), and it never asks logind for anything (I2).

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::unlock::lines;
use super::{block_on, complain, exit, print};
use crate::clock::Clock;
use crate::cluster::client::Origin;
use crate::daemon::{self, Left, StartError};
use crate::host::Bus;
use crate::host::lock::{Lock, LockError};
use crate::root::Root;

/// Releases within `limit`; what is not done by then is named, and can be tried again.
pub fn main(root: Root, config: Option<PathBuf>, limit: Duration) -> ExitCode {
    let lock = match Lock::take(&root) {
        Ok(lock) => lock,
        Err(err @ LockError::Held { .. }) => {
            return failed(&format!(
                "{err}; stop it first: systemctl stop kube-rebootd"
            ));
        }
        Err(err) => return failed(&err),
    };
    let code = block_on(async {
        let daemon =
            match daemon::start(root, config, Bus::system(), Clock::Real, Origin::Kubeconfig).await
            {
                Ok(daemon) => daemon,
                Err(err @ StartError::Config(_)) => {
                    complain(&err);
                    return ExitCode::from(exit::CONFIGURATION);
                }
                Err(err) => return failed(&err),
            };
        match Box::pin(daemon.release(limit)).await {
            Ok(released) => {
                print(&format!("{}\n", released.words));
                stays(released.stays.as_deref());
                ExitCode::SUCCESS
            }
            Err(left) => {
                stays(left.stays.as_deref());
                failed(&unfinished(&left, limit))
            }
        }
    });
    drop(lock);
    code
}

/// What the daemon told stays on the Node, for this reason.
fn stays(why: Option<&str>) {
    if let Some(why) = why {
        complain(&format!(
            "the Node's conditions, and its annotations kube-rebootd/group and kube-rebootd/version, stay: {why}; an admin takes them away (docs/distributions.md)"
        ));
    }
}

/// What is left and who can give it back instead.
fn unfinished(left: &Left, limit: Duration) -> String {
    let node = left.node.as_deref().unwrap_or("NODE");
    let lines = lines(&left.namespace, node, left.lease.as_deref());
    let (seconds, trouble) = (limit.as_secs(), &left.trouble);
    format!(
        "not everything is given back after {seconds} s: {trouble}; run it again, or as an admin\n{lines}"
    )
}

fn failed(err: &dyn std::fmt::Display) -> ExitCode {
    complain(err);
    ExitCode::from(exit::FAILED)
}
