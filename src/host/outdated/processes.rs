//! The host's processes and the replaced code they run, from /proc alone.
//!
//! Nothing is looked up by the paths in there: a process may have another mount namespace. Whether it
//! has the host's root tells `PID/root`, not the namespace: hardened services have their own (proved).

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
        match process(&proc.join(name), host) {
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

fn process(dir: &Path, host: (u64, u64)) -> io::Result<Seen> {
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
    Ok(Seen::Host(Process {
        name: whole(&dir.join("comm"), SMALL)?.trim().to_owned(),
        unit: place.unit,
        replaced: replaced(&dir.join("maps"))?,
    }))
}

fn replaced(path: &Path) -> io::Result<BTreeSet<String>> {
    let mut lines = BufReader::new(open(path)?.take(MAPS));
    let (mut found, mut line) = (BTreeSet::new(), Vec::new());
    while lines.read_until(b'\n', &mut line)? > 0 {
        // A path need not be UTF-8; what decides is ASCII.
        let text = String::from_utf8_lossy(&line);
        if let Some(file) = maps::replaced(text.trim_end_matches('\n')) {
            found.insert(file.to_owned());
        }
        line.clear();
    }
    if lines.get_ref().limit() == 0 {
        return Err(io::Error::other("it is too long"));
    }
    Ok(found)
}
