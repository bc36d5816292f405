//! Whether a package manager works, by the locks that each of them really takes.
//!
//! Asked of the kernel itself (`F_GETLK` of fcntl(2)), which is right on every file system; the device
//! numbers in /proc/locks are others than stat(2)'s on btrfs. Nothing is locked here.

use std::os::fd::AsFd;
use std::path::Path;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::{Unread, absent, open, text};
use crate::root::Root;

/// Exists as long as pacman works; libalpm makes it with `O_EXCL` and takes no lock.
const PACMAN: &str = "/var/lib/pacman/db.lck";
/// Write locks by fcntl(2): dpkg and apt; rpm in both places of its database, for a transaction;
/// dnf 5 around it.
const LOCKS: [(&str, &str); 5] = [
    ("dpkg or apt", "/var/lib/dpkg/lock-frontend"),
    ("dpkg", "/var/lib/dpkg/lock"),
    ("rpm", "/var/lib/rpm/.rpm.lock"),
    ("rpm", "/usr/lib/sysimage/rpm/.rpm.lock"),
    ("dnf", "/run/dnf/rpmtransaction.lock"),
];
/// libzypp's: the holder's pid, emptied at its end; left there by a holder that was killed.
const ZYPP: &str = "/run/zypp.pid";
/// A pid, or rests of a name.
const SMALL: u64 = 4096;

/// Who works, in words.
pub(super) fn held(root: &Root) -> Result<Option<String>, Unread> {
    let pacman = root.path(PACMAN);
    // Of mode 0: its existence is all there is to read.
    if absent(std::fs::symlink_metadata(&pacman))
        .map_err(Unread::at(&pacman))?
        .is_some()
    {
        let words = format!("pacman works; if it does not: rm {PACMAN}");
        return Ok(Some(words));
    }
    for (who, path) in LOCKS {
        let path = root.path(path);
        if locked(&path).map_err(Unread::at(&path))? {
            return Ok(Some(format!("{who} works")));
        }
    }
    let holder = text(&root.path(ZYPP), SMALL)?;
    let holder = holder.and_then(|text| text.split_whitespace().next()?.parse::<u32>().ok());
    let runs = |pid: u32| root.path(format!("/proc/{pid}")).exists();
    Ok(holder
        .filter(|pid| *pid > 0 && runs(*pid))
        .map(|pid| format!("zypper or PackageKit works (pid {pid})")))
}

/// Whether somebody else holds a write lock on any byte; readers do not count: `rpm -q` is one.
fn locked(path: &Path) -> std::io::Result<bool> {
    let Some(file) = absent(open(path))? else {
        return Ok(false);
    };
    // "Could I take a read lock?" Zero length is to the end.
    let mut lock = libc::flock {
        l_type: lock_type(libc::F_RDLCK),
        l_whence: lock_type(libc::SEEK_SET),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(file.as_fd(), FcntlArg::F_GETLK(&mut lock))?;
    Ok(lock.l_type != lock_type(libc::F_UNLCK))
}

/// The constants are of another width than the fields they are for.
fn lock_type(constant: i32) -> i16 {
    i16::try_from(constant).unwrap_or(i16::MAX)
}
