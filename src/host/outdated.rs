//! Reads what the built-in checks rest on: the host's kernels, its processes, its package managers.
//!
//! The checks run in a process of their own outside the daemon's sandbox (docs/design.md 4): they want to see every
//! process and /usr/lib/modules. The daemon itself looks at the package managers' locks alone, for their gate.
//! Everything is below `Root`, reads have a bound (I8: what cannot be read is an error, never "no").

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use kube_rebootd_core::machine::PackageManager;
use kube_rebootd_core::trigger::Builtin;
use kube_rebootd_outdated::{Answer, kernel, libraries};
use nix::errno::Errno;

use super::bus::Bus;
use super::logind;
use crate::bounded::{self, ReadError};
use crate::root::Root;

mod kernels;
mod locks;
mod processes;

pub use locks::Locks;

/// What a built-in check says now. While a package manager works it says nothing: half of an upgrade
/// is no state to judge.
pub async fn look(root: &Root, bus: &Bus, builtin: Builtin) -> Answer {
    if let Some(answer) = at_work(root, bus).await {
        return answer;
    }
    let answer = match builtin {
        Builtin::Kernel => kernels::read(root).map(|kernels| kernel::judge(&kernels)),
        Builtin::Libraries => processes::read(root).map(|processes| libraries::judge(&processes)),
    };
    // One may have begun meanwhile.
    match at_work(root, bus).await {
        Some(busy) => busy,
        None => answer.unwrap_or_else(|err| Answer::unknown(err.to_string())),
    }
}

/// Which package manager works now, or why that is not known.
pub fn package_manager(root: &Root) -> Result<Option<PackageManager>, String> {
    locks::held(root).map_err(|err| err.to_string())
}

/// The live patches that are applied to the running kernel; none when they cannot be read.
pub fn live_patches(root: &Root) -> Option<Vec<String>> {
    kernels::patches(root).ok()
}

/// Who works with packages now, or why that is not known.
async fn at_work(root: &Root, bus: &Bus) -> Option<Answer> {
    match locks::held(root) {
        Ok(None) => {}
        Ok(Some(working)) => {
            let words = working.to_string();
            return Some(Answer::Unknown { words, busy: true });
        }
        Err(err) => return Some(Answer::unknown(err.to_string())),
    }
    match logind::block_inhibitors(bus).await {
        // apt's and rpm's own, and whoever else says that the host is not to go down.
        Ok(all) => all.first().map(|one| Answer::Unknown {
            words: format!("shutdown is inhibited by {} ({})", one.who, one.why),
            busy: true,
        }),
        Err(err) => Some(Answer::unknown(format!(
            "not known whether something inhibits a shutdown: {err}"
        ))),
    }
}

/// All four uids of a process are root's, by its status (`proc_pid_status(5)`). The owner of /proc/PID is no sign: it is
/// root for every process that may not be traced.
fn roots(status: &str) -> bool {
    let mut lines = status.lines();
    let uids = lines.find_map(|line| line.strip_prefix("Uid:"));
    uids.is_some_and(|uids| uids.split_ascii_whitespace().eq(["0"; 4]))
}

/// What could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}: {source}{cure}", path = .path.display())]
struct Unread {
    path: std::path::PathBuf,
    source: io::Error,
    /// What a person can do, with its separator; empty: nothing is known.
    cure: String,
}

impl Unread {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self {
            path,
            source,
            cure: String::new(),
        }
    }
}

/// Ended between two reads; a kernel thread has no program and says so in the same way.
fn gone(err: &io::Error) -> bool {
    err.kind() == io::ErrorKind::NotFound || err.raw_os_error() == Some(Errno::ESRCH as i32)
}

/// The text of a small file, at most `most` bytes; none when there is no such file.
fn text(path: &Path, most: u64) -> Result<Option<String>, Unread> {
    absent(whole(path, most)).map_err(Unread::at(path))
}

/// All of a file; one with more than `most` bytes is an error.
fn whole(path: &Path, most: u64) -> io::Result<String> {
    let bytes = head(path, most + 1)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > most) {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    // A path need not be UTF-8; what decides is ASCII.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The first `most` bytes of a file.
fn head(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Never what is no file: a FIFO would not let go.
fn open(path: &Path) -> io::Result<File> {
    bounded::open(path).map_err(|err| match err {
        ReadError::Io(err) => err,
        other => io::Error::other(other.to_string()),
    })
}

/// Only "there is none" is none; all else stays an error.
fn absent<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(err)
            if matches!(
                err.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(err) => Err(err),
    }
}

/// Names in a directory, at most `most`; none in one that is not there.
fn names(path: &Path, most: usize) -> Result<Vec<String>, Unread> {
    let Some(entries) = absent(fs::read_dir(path)).map_err(Unread::at(path))? else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    for entry in entries.take(most) {
        let name = entry.map_err(Unread::at(path))?.file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    Ok(names)
}
