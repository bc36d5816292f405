//! The kubeconfigs of running kubelets, from /proc (I14). `kubelet` says which process is to be believed.

use std::path::PathBuf;

use kube_rebootd_core::kubelet::{self, MainProcess, Seen};

use crate::bounded::{self, ReadError};
use crate::root::Root;

/// Bytes of a command line: a kubelet's is a few KiB. The last flag counts, so a part of one says nothing.
pub(super) const COMMAND_MAX: u64 = 1024 * 1024;
/// Bytes of the small files in /proc/PID.
pub(super) const SMALL_MAX: u64 = 64 * 1024;

/// What the believed ones among `kubelets` were started with.
pub(super) fn kubeconfigs(root: &Root, kubelets: &[MainProcess]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for process in kubelets {
        // One that cannot be read has ended, or is not to be believed.
        if let Ok(seen) = seen(root, process.pid)
            && let Some(path) = kubelet::kubeconfig(process, &seen)
            && !paths.contains(&path)
        {
            paths.push(path);
        }
    }
    paths
}

fn seen(root: &Root, pid: u32) -> Result<Seen, ReadError> {
    let directory = root.path(format!("/proc/{pid}"));
    let text = |name: &str| bounded::text(&directory.join(name), SMALL_MAX);
    Ok(Seen {
        status: text("status")?,
        cgroup: text("cgroup")?,
        comm: text("comm").unwrap_or_default(),
        line: bounded::bytes(&directory.join("cmdline"), COMMAND_MAX)?,
    })
}
