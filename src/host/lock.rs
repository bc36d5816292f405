//! One daemon per host: an exclusive flock on `/run/kube-rebootd.lock` (I1: two daemons of one node
//! would undo each other's work). `undrain --release` takes the same lock.
//!
//! Whoever can open the file can lock it, even for reading only, and would keep the daemon from starting.
//! So its mode is 0600 whoever makes it and whatever the umask is; one that was made otherwise is corrected (I14).

use std::{
    fs::{File, OpenOptions, Permissions},
    io::{self, Read, Seek, Write},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::PathBuf,
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg, OFlag},
    unistd::geteuid,
};
use thiserror::Error;

use crate::root::Root;

/// The lock file; it stays when the lock is given up, only the flock counts.
pub const PATH: &str = "/run/kube-rebootd.lock";
/// Read and write for its owner, nothing for others.
const MODE: u32 = 0o600;
/// Longest decimal pid, with room; the file is ours, but readable junk must not be read whole.
const PID_BYTES: u64 = 20;

/// Why the lock was not taken.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("{path} is locked by {holder}: kube-rebootd is already running on this host", path = .path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// `pid N`, or `another process` when the file does not tell.
        holder: String,
    },
    /// Somebody else made the file: root's is the only one that counts.
    #[error("{path} belongs to uid {uid}, who can keep kube-rebootd from running; remove it: rm {path}", path = .path.display())]
    Foreign {
        /// The lock file.
        path: PathBuf,
        /// Who made it.
        uid: u32,
    },
    /// The file cannot be opened, locked or written.
    #[error("cannot lock {path}: {source}", path = .path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The lock, held until dropped or until the process ends.
#[derive(Debug)]
pub struct Lock {
    _file: Flock<File>,
}

impl Lock {
    /// Takes the lock without waiting and writes our pid into it.
    pub fn take(root: &Root) -> Result<Self, LockError> {
        let path = root.path(PATH);
        let io = |source| LockError::Io {
            path: path.clone(),
            source,
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(MODE)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(&path)
            .map_err(io)?;
        let seen = file.metadata().map_err(io)?;
        if seen.uid() != geteuid().as_raw() {
            let uid = seen.uid();
            return Err(LockError::Foreign { path, uid });
        }
        if seen.mode() & 0o7777 != MODE {
            let mode = Permissions::from_mode(MODE);
            file.set_permissions(mode).map_err(io)?;
        }
        let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => file,
            Err((mut file, Errno::EWOULDBLOCK)) => {
                return Err(LockError::Held {
                    holder: holder(&mut file),
                    path,
                });
            }
            Err((_, errno)) => return Err(io(errno.into())),
        };
        write_pid(&mut file).map_err(io)?;
        Ok(Self { _file: file })
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.take(PID_BYTES).read_to_string(&mut text) {
        Ok(_) => match text.trim().parse::<u32>() {
            Ok(pid) => format!("pid {pid}"),
            Err(_) => "another process".to_owned(),
        },
        Err(_) => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_second_taker_is_refused_and_told_the_pid() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        std::fs::create_dir(root.path("/run")).unwrap();
        let first = Lock::take(&root).unwrap();
        let error = Lock::take(&root).unwrap_err().to_string();
        assert!(
            error.contains(&format!("pid {}", std::process::id())),
            "{error}"
        );
        drop(first);
        Lock::take(&root).unwrap();
    }

    #[test]
    fn i14_nobody_else_can_open_the_lock_whoever_made_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let path = root.path(PATH);
        std::fs::create_dir(root.path("/run")).unwrap();
        let mode = || std::fs::metadata(&path).unwrap().mode() & 0o7777;
        drop(Lock::take(&root).unwrap());
        assert_eq!(mode(), 0o600);
        // As older versions left it, and as a umask of 0777 would.
        for other in [0o644, 0o666, 0o000] {
            let other = Permissions::from_mode(other);
            std::fs::set_permissions(&path, other).unwrap();
            drop(Lock::take(&root).unwrap());
            assert_eq!(mode(), 0o600);
        }
        let error = std::os::unix::fs::chown(&path, Some(65534), None)
            .map(|()| Lock::take(&root).unwrap_err().to_string());
        let error = error.expect("this test wants root, which alone may chown");
        assert!(error.contains("belongs to uid 65534"), "{error}");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(matches!(Lock::take(&root), Err(LockError::Io { .. })));
    }
}
