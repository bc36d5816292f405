//! Whether a package manager works, by the locks that each of them really takes.
//!
//! Asked of the kernel itself (`F_GETLK` of fcntl(2)), which is right on every file system; the device
//! numbers in /proc/locks are others than stat(2)'s on btrfs. Nothing is locked here.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use kube_rebootd_core::machine::PackageManager;
use kube_rebootd_core::text::{self, NAME};
use kube_rebootd_outdated::cgroup;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::super::beside::Beside;
use super::super::check::PREFIX;
use super::{Unread, absent, gone, open, package_manager, roots, text, whole};
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

/// A process's name and cgroup.
const PROC: u64 = 16 * 1024;
/// A process's `status`: `Groups` has up to 65,536 numbers (`NGROUPS_MAX`).
const STATUS: u64 = 1024 * 1024;
/// Reading a few local files; only a dead network mount takes longer.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Looks beside the loop.
#[derive(Debug, Default)]
pub struct Locks {
    beside: Beside<Result<Option<PackageManager>, String>>,
}

impl Locks {
    /// Who works now, or why that is not known. Cancel safe.
    pub async fn look(&mut self, root: &Root) -> Result<Option<PackageManager>, String> {
        let root = root.clone();
        let look = move || package_manager(&root);
        let found = self.beside.look(READ_TIMEOUT, look).await;
        let slow = || {
            let seconds = READ_TIMEOUT.as_secs();
            Err(format!("its locks could not be read within {seconds} s"))
        };
        found.unwrap_or_else(slow)
    }
}

/// Who works.
pub(super) fn held(root: &Root) -> Result<Option<PackageManager>, Unread> {
    let pacman = root.path(PACMAN);
    // Of mode 0: its existence is all there is to read.
    if absent(std::fs::symlink_metadata(&pacman))
        .map_err(Unread::at(&pacman))?
        .is_some()
    {
        let how = format!("; if it does not: rm {PACMAN}");
        return Ok(Some(PackageManager { who: "pacman", how }));
    }
    for (who, path) in LOCKS {
        let path = root.path(path);
        match locked(&path).map_err(Unread::at(&path))? {
            Some(pid) if !of_a_check(root, pid) => {
                let how = format!(" ({})", process(root, pid));
                return Ok(Some(PackageManager { who, how }));
            }
            Some(_) | None => {}
        }
    }
    let holder = text(&root.path(ZYPP), SMALL)?;
    let holder = holder.and_then(|text| text.split_whitespace().next()?.parse::<i32>().ok());
    let Some(pid) = holder.filter(|pid| *pid > 0) else {
        return Ok(None);
    };
    let cure = || format!("; if neither zypper nor PackageKit works: rm {ZYPP}");
    let ours = of_root(root, pid).map_err(|why| Unread {
        cure: cure(),
        ..why
    })?;
    if !ours || of_a_check(root, pid) {
        return Ok(None);
    }
    let process = process(root, pid);
    Ok(Some(PackageManager {
        who: "zypper or PackageKit",
        how: format!(" ({process}); if that is neither: rm {ZYPP}"),
    }))
}

/// A process of the host runs under this number, and it is root's: of a file that was left behind any user, and any pod,
/// can take the number (I14).
fn of_root(root: &Root, pid: i32) -> Result<bool, Unread> {
    let read = |name: &str, most: u64| {
        let path = root.path(format!("/proc/{pid}/{name}"));
        match whole(&path, most) {
            Ok(text) => Ok(Some(text)),
            // Without either it has ended; what cannot be read otherwise is not known (I8).
            Err(err) if gone(&err) => Ok(None),
            Err(err) => Err(Unread::at(&path)(err)),
        }
    };
    // The cgroup of a process that is not root's is not even looked at: its user may make it hard to read.
    if !read("status", STATUS)?.is_some_and(|text| roots(&text)) {
        return Ok(false);
    }
    let cgroup = read("cgroup", PROC)?;
    Ok(cgroup.is_some_and(|text| !cgroup::place(&text).container))
}

/// A tool may take its lock only to answer whether a reboot is required: that must not close the gate it opens.
fn of_a_check(root: &Root, pid: i32) -> bool {
    let cgroup = text(&root.path(format!("/proc/{pid}/cgroup")), PROC);
    cgroup.is_ok_and(|text| text.is_some_and(|text| text.contains(PREFIX)))
}

/// For people, who may want to look at it.
fn process(root: &Root, pid: i32) -> String {
    // A lock of an open file belongs to no process (F_OFD_SETLK of fcntl(2)).
    if pid <= 0 {
        return "which process, the kernel does not tell".to_owned();
    }
    match text(&root.path(format!("/proc/{pid}/comm")), PROC) {
        Ok(Some(comm)) => format!("{}, pid {pid}", text::clean(&comm, NAME)),
        Ok(None) | Err(_) => format!("pid {pid}"),
    }
}

/// Who holds a write lock on any byte, if it is not we; readers do not count: `rpm -q` is one.
fn locked(path: &Path) -> std::io::Result<Option<i32>> {
    let Some(file) = absent(open(path))? else {
        return Ok(None);
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
    Ok((lock.l_type != lock_type(libc::F_UNLCK)).then_some(lock.l_pid))
}

/// The constants are of another width than the fields they are for.
fn lock_type(constant: i32) -> i16 {
    i16::try_from(constant).unwrap_or(i16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root in which libzypp's lock names a process of this cgroup.
    fn zypper(cgroup: &str) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        let files = [
            ("/run/zypp.pid", "123\n"),
            ("/proc/123/comm", "zypper\n"),
            ("/proc/123/status", "Name:\tzypper\nUid:\t0\t0\t0\t0\n"),
            ("/proc/123/cgroup", cgroup),
        ];
        for (path, text) in files {
            let path = root.path(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        (dir, root)
    }

    #[test]
    fn a_check_that_takes_a_lock_to_answer_closes_no_gate() {
        let (_dir, root) = zypper("0::/system.slice/kube-rebootd-check-zypper-1f.service\n");
        assert_eq!(held(&root).expect("read"), None);
    }

    #[test]
    fn i14_a_left_pid_that_a_container_has_now_closes_no_gate() {
        let (_dir, root) =
            zypper("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-a.scope\n");
        assert_eq!(held(&root).expect("read"), None);
    }

    /// Found by reading: a process that cannot be looked at was taken for none.
    #[test]
    fn i8_a_holder_that_cannot_be_looked_at_is_not_known() {
        let (_dir, root) = zypper("0::/user.slice/user-0.slice/session-1.scope\n");
        let status = root.path("/proc/123/status");
        std::fs::remove_file(&status).expect("removed");
        // A link to itself: ELOOP.
        std::os::unix::fs::symlink("status", &status).expect("linked");
        assert!(held(&root).is_err());
    }

    /// Found by reading: who took the number of a zypper that was killed, and has more groups than usual, stopped all
    /// reboots of the host.
    #[test]
    fn i14_a_process_with_many_groups_closes_nothing() {
        let (_dir, root) = zypper("0::/user.slice/user-1000.slice/session-1.scope\n");
        let status = root.path("/proc/123/status");
        let groups = "1234567890 ".repeat(3_000);
        let of =
            |uid: u32| format!("Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGroups:\t{groups}\n");
        std::fs::write(&status, of(1000)).expect("written");
        // A link to itself: what is no root's is not looked at any further.
        let cgroup = root.path("/proc/123/cgroup");
        std::fs::remove_file(&cgroup).expect("removed");
        std::os::unix::fs::symlink("cgroup", &cgroup).expect("linked");
        assert_eq!(held(&root).expect("read"), None);
        // Of root it is not known, and what helps is said.
        std::fs::write(&status, of(0)).expect("written");
        let why = held(&root).expect_err("unread").to_string();
        assert!(why.contains("rm /run/zypp.pid"), "{why}");
    }

    #[test]
    fn whoever_works_is_named_with_a_way_out() {
        let (_dir, root) = zypper("0::/user.slice/user-0.slice/session-1.scope\n");
        let words = held(&root).expect("read").expect("held").to_string();
        let wanted =
            "zypper or PackageKit works (zypper, pid 123); if that is neither: rm /run/zypp.pid";
        assert_eq!(words, wanted);
        // Found by reading: left by one that was killed, and a user's process has its number now.
        std::fs::write(
            root.path("/proc/123/status"),
            "Uid:\t1000\t1000\t1000\t1000\n",
        )
        .expect("written");
        assert_eq!(held(&root).expect("read"), None);
        // Left by one that was killed, and nobody has it.
        std::fs::remove_dir_all(root.path("/proc/123")).expect("removed");
        assert_eq!(held(&root).expect("read"), None);
    }
}
