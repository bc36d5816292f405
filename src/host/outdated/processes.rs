//! The host's processes and the replaced code they run, from /proc alone.
//!
//! Nothing is looked up by the paths in there: a process may have another mount namespace. Whether it
//! has the host's root tells `PID/root`, not the namespace: hardened services have their own.
//!
//! Any user can make such a namespace, mount what he likes over /usr, and delete a file there or wait until root deletes
//! it, so that the path of a mapping proves nothing for a process that is not root's. There three things must prove that
//! root replaced the file (I14): the process is in the host's user namespace, so that root made its mount namespace; the
//! mapped file was reached through a mount of that namespace, not of one whose file was handed over; and the file is code,
//! lies on the host's own file system at that path, in directories that only root may change, was root's alone, has no
//! name left, and is not what the host has there now. All of it is asked of one open file: what is mapped at an address
//! can be another file a moment later.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use kube_rebootd_outdated::libraries::{Process, Processes};
use kube_rebootd_outdated::{cgroup, maps};
use nix::fcntl::OFlag;

use super::{Unread, gone, head, names, open, roots, whole};
use crate::root::Root;
use crate::trusted;

/// Write permission of the group and of all others.
const OTHERS_WRITE: u32 = 0o022;

/// More than any kernel's default `pid_max` on 64 bits (`proc_sys_kernel(5)`).
const PROCESSES: usize = 5_000_000;
/// A million mappings; the kernel's default limit is 65530 (`vm.max_map_count`).
const MAPS: u64 = 128 * 1024 * 1024;
/// Of the small files in /proc/PID.
const SMALL: u64 = 64 * 1024;
/// `/proc/PID/mountinfo`: tens of thousands of mounts, on a node with many pods.
const MOUNTS: u64 = 16 * 1024 * 1024;
/// How every program and library begins (`elf(5)`).
const ELF: &[u8] = b"\x7fELF";
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

fn process(host_root: &Root, dir: &Path, host: (u64, u64)) -> io::Result<Seen> {
    let program = fs::read_link(dir.join("exe"))?;
    let program = program.to_string_lossy();
    let program = program.strip_suffix(" (deleted)").unwrap_or(&program);
    if program.rsplit('/').next() == Some(OWN) {
        return Ok(Seen::Nothing);
    }
    // Before its root: that of a container may lie on a dead mount, where a look never ends.
    let place = cgroup::place(&whole(&dir.join("cgroup"), SMALL)?);
    if place.container {
        return Ok(Seen::Foreign);
    }
    let root = fs::metadata(dir.join("root"))?;
    if (root.dev(), root.ino()) != host {
        return Ok(Seen::Foreign);
    }
    let status = whole(&dir.join("status"), SMALL)?;
    let mut replaced = replaced(dir)?;
    if !replaced.is_empty() && !roots(&status) {
        proved(host_root, dir, &mut replaced)?;
    }
    Ok(Seen::Host(Process {
        name: whole(&dir.join("comm"), SMALL)?.trim().to_owned(),
        unit: place.unit,
        replaced: replaced.into_iter().map(|code| code.file).collect(),
    }))
}

/// An executable mapping of a file that is no longer there.
struct Code {
    /// The path, as the process sees it.
    file: String,
    /// The name in `/proc/PID/map_files`, which leads to the file itself, wherever the process sees it and whether or
    /// not it still has a name.
    range: Option<String>,
}

/// Keeps of what a user's process maps that which root replaced on the host.
fn proved(host: &Root, dir: &Path, replaced: &mut Vec<Code>) -> io::Result<()> {
    let namespace = |process: &Path| fs::read_link(process.join("ns/user"));
    if namespace(dir)? != namespace(&host.path("/proc/1"))? {
        replaced.clear();
        return Ok(());
    }
    let mounts = mounts(&whole(&dir.join("mountinfo"), MOUNTS)?);
    replaced.retain(|code| by_root(host, dir, code, &mounts).unwrap_or(false));
    Ok(())
}

/// The ids of the mounts in a mountinfo (`proc_pid_mountinfo(5)`, first field).
fn mounts(mountinfo: &str) -> BTreeSet<String> {
    let ids = mountinfo.lines().filter_map(|line| line.split(' ').next());
    ids.map(str::to_owned).collect()
}

/// The mapped file proves that root replaced it on the host; what cannot be seen proves nothing.
fn by_root(host: &Root, dir: &Path, code: &Code, mounts: &BTreeSet<String>) -> io::Result<bool> {
    let Some(range) = &code.range else {
        return Ok(false);
    };
    let file = Held::open(&dir.join("map_files").join(range))?;
    let path = host.path(&code.file);
    let Some(parent) = path.parent() else {
        return Ok(false);
    };
    let (mapped, parent) = (file.0.metadata()?, fs::metadata(parent)?);
    let roots = mapped.uid() == 0 && mapped.mode() & OTHERS_WRITE == 0;
    let there = fs::metadata(&path).is_ok_and(|now| now.ino() == mapped.ino());
    let replaced = roots && mapped.nlink() == 0 && mapped.dev() == parent.dev() && !there;
    Ok(replaced
        && trusted::only_root_can_change(host, Path::new(&code.file)).is_ok()
        && mounts.contains(&file.mount()?)
        && maps::deleted(&file.path()?) == Some(code.file.as_str())
        && file.begins_with(ELF)?)
}

/// A file that is held without being open for reading, so that all questions are about the same one. What the kernel
/// tells of it is below this process' own /proc, whatever the root is.
struct Held(File);

impl Held {
    fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlag::O_PATH.bits());
        options.open(path).map(Self)
    }

    /// The id of the mount through which it was reached (`proc_pid_fdinfo(5)`).
    fn mount(&self) -> io::Result<String> {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", self.0.as_raw_fd()))?;
        let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:"));
        let id = id.ok_or_else(|| io::Error::other("the kernel does not tell its mount"))?;
        Ok(id.trim().to_owned())
    }

    /// Its path, with the word that it is deleted, as in maps.
    fn path(&self) -> io::Result<String> {
        let path = fs::read_link(format!("/proc/self/fd/{}", self.0.as_raw_fd()))?;
        Ok(path.to_string_lossy().into_owned())
    }

    fn begins_with(&self, bytes: &[u8]) -> io::Result<bool> {
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        Ok(head(Path::new(&path), 4)? == bytes)
    }
}

/// The replaced files that a process runs.
fn replaced(dir: &Path) -> io::Result<Vec<Code>> {
    let mut lines = BufReader::new(open(&dir.join("maps"))?.take(MAPS));
    let (mut found, mut line) = (Vec::new(), Vec::new());
    while lines.read_until(b'\n', &mut line)? > 0 {
        // A path need not be UTF-8; what decides is ASCII.
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches('\n');
        if let Some(file) = maps::replaced(text) {
            found.push(Code {
                file: file.to_owned(),
                range: maps::range(text),
            });
        }
        line.clear();
    }
    if lines.get_ref().limit() == 0 {
        return Err(io::Error::other("it is too long"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by reading: the root of a container on a dead mount was looked at, and the look never ended. Here it cannot
    /// be looked at, which would count as a process that cannot be read.
    #[test]
    fn i7_the_root_of_a_container_is_not_looked_at() {
        let dir = tempfile::tempdir().expect("a directory");
        let proc = dir.path().join("proc");
        for (pid, cgroup) in [
            (
                "10",
                "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-a.scope\n",
            ),
            ("11", "0::/system.slice/ssh.service\n"),
        ] {
            let process = proc.join(pid);
            fs::create_dir_all(&process).expect("made");
            fs::write(process.join("cgroup"), cgroup).expect("written");
            std::os::unix::fs::symlink("/bin/app", process.join("exe")).expect("linked");
            // A link to itself: ELOOP.
            std::os::unix::fs::symlink("root", process.join("root")).expect("linked");
        }
        let found = read(&Root::at(dir.path())).expect("read");
        assert_eq!((found.read, found.unreadable), (0, 1), "only that of ssh");
    }
}
