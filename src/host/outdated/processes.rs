//! The host's processes and the replaced code they run, from /proc alone.
//!
//! Nothing is looked up by the paths in there: a process may have another mount namespace. Whether it
//! has the host's root tells `PID/root`, not the namespace: hardened services have their own (proved).
//!
//! Any user can make such a namespace, mount a file system of his own over /usr, and delete a file there, so that
//! the path of a mapping proves nothing for a process that is not root's. There the file itself must prove that
//! root replaced it: it lies on the host's own file system at that path, it was root's alone, none of its names
//! is left, and the host has another file there now (I14).

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::errno::Errno;

use super::{Unread, names, open, whole};
use crate::outdated::libraries::{Process, Processes};
use crate::outdated::{cgroup, maps};
use crate::root::Root;

/// Write permission of the group and of all others.
const OTHERS_WRITE: u32 = 0o022;

/// More than any kernel's default `pid_max` on 64 bits (`proc_sys_kernel(5)`).
const PROCESSES: usize = 5_000_000;
/// A million mappings; the kernel's default limit is 65530 (`vm.max_map_count`).
const MAPS: u64 = 128 * 1024 * 1024;
/// Of the small files in /proc/PID.
const SMALL: u64 = 64 * 1024;
/// The daemon, and this process: they are never a reason. On Arch an upgrade leaves the old one running.
const OWN: &str = "kube-rebootd";

/// What a process is to this check.
enum Seen {
    /// It ended, has no code (kernel threads), or is our own.
    Nothing,
    /// Of a container, or of another root.
    Foreign,
    /// Of the host, with the replaced files it runs.
    Host(Process),
}

/// All of them.
pub(super) fn read(root: &Root) -> Result<Processes, Unread> {
    let top = root.path("/");
    let host = fs::metadata(&top).map_err(Unread::at(&top))?;
    let host = (host.dev(), host.ino());
    let proc = root.path("/proc");
    let mut processes = Processes::default();
    for name in names(&proc, PROCESSES)? {
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        match process(root, &proc.join(name), host) {
            Ok(Seen::Nothing | Seen::Foreign) => {}
            Ok(Seen::Host(process)) => {
                processes.read += 1;
                if !process.replaced.is_empty() {
                    processes.found.push(process);
                }
            }
            Err(err) if gone(&err) => {}
            Err(_) => processes.unreadable += 1,
        }
    }
    if processes.read == 0 && processes.unreadable == 0 {
        let none = io::Error::other("it shows no process");
        return Err(Unread::at(&proc)(none));
    }
    Ok(processes)
}

/// Ended between two reads; a kernel thread has no program and says so in the same way.
fn gone(err: &io::Error) -> bool {
    err.kind() == io::ErrorKind::NotFound || err.raw_os_error() == Some(Errno::ESRCH as i32)
}

fn process(host_root: &Root, dir: &Path, host: (u64, u64)) -> io::Result<Seen> {
    let program = fs::read_link(dir.join("exe"))?;
    let program = program.to_string_lossy();
    let program = program.strip_suffix(" (deleted)").unwrap_or(&program);
    if program.rsplit('/').next() == Some(OWN) {
        return Ok(Seen::Nothing);
    }
    let root = fs::metadata(dir.join("root"))?;
    if (root.dev(), root.ino()) != host {
        return Ok(Seen::Foreign);
    }
    let place = cgroup::place(&whole(&dir.join("cgroup"), SMALL)?);
    if place.container {
        return Ok(Seen::Foreign);
    }
    let status = whole(&dir.join("status"), SMALL)?;
    let proof = (!roots(&status)).then_some(host_root);
    Ok(Seen::Host(Process {
        name: whole(&dir.join("comm"), SMALL)?.trim().to_owned(),
        unit: place.unit,
        replaced: replaced(dir, proof)?,
    }))
}

/// All four uids of the process are root's (`proc_pid_status(5)`). The owner of /proc/PID is no sign: it is root
/// for every process that may not be traced.
fn roots(status: &str) -> bool {
    let mut lines = status.lines();
    let uids = lines.find_map(|line| line.strip_prefix("Uid:"));
    uids.is_some_and(|uids| uids.split_ascii_whitespace().eq(["0"; 4]))
}

/// The mapped file proves that root replaced it on the host. It is reached through `/proc/PID/map_files`, which
/// leads to the file itself, wherever the process sees it and whether or not it still has a name.
fn proved(host: &Root, dir: &Path, line: &str, file: &str) -> bool {
    let Some(range) = maps::range(line) else {
        return false;
    };
    let path = host.path(file);
    let (Ok(mapped), Some(Ok(parent))) = (
        fs::metadata(dir.join("map_files").join(range)),
        path.parent().map(fs::metadata),
    ) else {
        return false;
    };
    let roots = mapped.uid() == 0 && mapped.mode() & OTHERS_WRITE == 0;
    let there = fs::metadata(&path).is_ok_and(|now| now.ino() == mapped.ino());
    roots && mapped.nlink() == 0 && mapped.dev() == parent.dev() && !there
}

/// The replaced files that a process runs; with `proof` only those that prove it on that host.
fn replaced(dir: &Path, proof: Option<&Root>) -> io::Result<BTreeSet<String>> {
    let mut lines = BufReader::new(open(&dir.join("maps"))?.take(MAPS));
    let (mut found, mut line) = (BTreeSet::new(), Vec::new());
    while lines.read_until(b'\n', &mut line)? > 0 {
        // A path need not be UTF-8; what decides is ASCII.
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches('\n');
        if let Some(file) = maps::replaced(text)
            && proof.is_none_or(|host| proved(host, dir, text, file))
        {
            found.insert(file.to_owned());
        }
        line.clear();
    }
    if lines.get_ref().limit() == 0 {
        return Err(io::Error::other("it is too long"));
    }
    Ok(found)
}
