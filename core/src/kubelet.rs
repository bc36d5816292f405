//! Which process is the host's kubelet, and where it says that its kubeconfig is (I14).
//!
//! Any user can start a process and call it kubelet, and the processes of pods are in the host's /proc as well.
//! What a process calls itself proves nothing, so only the main process of a system service counts, as PID 1
//! names it: it runs as root, in the host's own PID namespace, in the control group of that service.

use std::path::{Path, PathBuf};

/// Services that may be the kubelet: kubeadm's and most others' `kubelet.service`, snaps such as
/// `snap.kubelet-eks.daemon.service`. In k3s, RKE2, k0s and `MicroK8s` the kubelet is part of another process,
/// or a child of it, and has no such command line; their kubeconfigs are at known paths.
pub const SERVICES: [&str; 1] = ["*kubelet*.service"];

/// The main process of a service, by PID 1's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MainProcess {
    pub unit: String,
    pub pid: u32,
    /// Control group of the service, from the root of the hierarchy.
    pub cgroup: String,
}

/// What /proc says of a process, as it is written there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// `/proc/PID/status`.
    pub status: String,
    /// `/proc/PID/cgroup`.
    pub cgroup: String,
    /// `/proc/PID/comm`.
    pub comm: String,
    /// `/proc/PID/cmdline`: words that end with NUL.
    pub line: Vec<u8>,
}

/// The kubeconfig of a kubelet that is to be believed; none when it is no such process, or names none.
pub fn kubeconfig(process: &MainProcess, seen: &Seen) -> Option<PathBuf> {
    let believed = runs_as_root(&seen.status)
        && of_the_host(&seen.status, process.pid)
        && inside(&seen.cgroup, &process.cgroup);
    if !believed {
        return None;
    }
    let path = flag(&seen.line, seen.comm.trim_end())?;
    // A relative one is relative to a directory that nobody but the kubelet knows.
    path.is_absolute().then_some(path)
}

/// Real, effective, saved and file system uid (`proc_pid_status(5)`).
fn runs_as_root(status: &str) -> bool {
    let uids = field(status, "Uid:").map(Iterator::collect::<Vec<_>>);
    uids.is_some_and(|uids| uids == ["0", "0", "0", "0"])
}

/// The process has one number only, as seen from the PID namespace of our /proc: it is in no other. (The links
/// in /proc/PID/ns say the same, but the daemon's sandbox may not read those of root's processes.)
fn of_the_host(status: &str, pid: u32) -> bool {
    let numbers = field(status, "NSpid:").map(Iterator::collect::<Vec<_>>);
    numbers.is_some_and(|numbers| numbers == [pid.to_string()])
}

/// The words of one line; the kernel escapes line breaks in the process's name.
fn field<'a>(status: &'a str, name: &str) -> Option<impl Iterator<Item = &'a str>> {
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix(name))?;
    Some(line.split_ascii_whitespace())
}

/// A line of `cgroups(7)` says so: `0::PATH`, or `1:name=systemd:PATH` on hosts with version 1.
fn inside(cgroups: &str, service: &str) -> bool {
    let mut places = cgroups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let systemds = (number == "0" && controllers.is_empty()) || controllers == "name=systemd";
        systemds.then_some(path)
    });
    let below = |path: &str| {
        let rest = path.strip_prefix(service);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    // The root of all would hold everybody.
    service.len() > 1 && places.any(below)
}

/// Value of `--kubeconfig` in a kubelet's command line, whose words end with NUL.
fn flag(line: &[u8], comm: &str) -> Option<PathBuf> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let program = Path::new(std::str::from_utf8(words.first()?).ok()?).file_name()?;
    if program != "kubelet" && comm != "kubelet" {
        return None;
    }
    let mut rest = words.iter().skip(1);
    let mut found = None;
    while let Some(word) = rest.next() {
        // The last one counts, as in pflag; one dash is accepted there too by the kubelet's users.
        let word = word.strip_prefix(b"-").unwrap_or(word);
        let word = word.strip_prefix(b"-").unwrap_or(word);
        if let Some(value) = word.strip_prefix(b"kubeconfig=") {
            found = Some(value);
        } else if word == b"kubeconfig" {
            found = rest.next().copied();
        }
    }
    let path = String::from_utf8(found?.to_vec()).ok()?;
    (!path.is_empty()).then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests;
