//! Which boot this is: `boot_id` and the start of userspace. Either changed means a new boot; a
//! soft-reboot keeps `boot_id`, a daemon-reexec changes neither (proved; I4, I10).

use std::{fs, io};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    bus::{Bus, BusError},
    systemd,
};
use crate::root::Root;

/// PID 1's view first: on systemd 252 in a container, a sandboxed service sees the outer machine's
/// `boot_id` under its own /proc/sys (proved). Needs `CAP_SYS_PTRACE`, hence the plain path after.
const BOOT_ID_PATHS: [&str; 2] = [
    "/proc/1/root/proc/sys/kernel/random/boot_id",
    "/proc/sys/kernel/random/boot_id",
];

/// One boot of the host. Equal values are the same boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// The kernel's `boot_id`.
    pub id: String,
    /// PID 1's `UserspaceTimestampMonotonic`, microseconds.
    pub userspace_usec: u64,
}

/// Why the boot is not known.
#[derive(Debug, Error)]
pub enum BootError {
    /// The kernel's file.
    #[error("cannot read the boot id in {path}: {source}")]
    Id {
        /// Where it was looked for last.
        path: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// PID 1.
    #[error(transparent)]
    Bus(#[from] BusError),
}

impl Boot {
    /// The present boot.
    pub async fn read(root: &Root, bus: &Bus) -> Result<Self, BootError> {
        Ok(Self {
            id: boot_id(root)?,
            userspace_usec: systemd::userspace_usec(bus).await?,
        })
    }
}

/// The kernel's boot id alone, which the kubelet reports as `nodeInfo.bootID`.
pub fn boot_id(root: &Root) -> Result<String, BootError> {
    let [first, plain] = BOOT_ID_PATHS;
    match read_id(root, first) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            read_id(root, plain).map_err(|source| BootError::Id {
                path: plain,
                source,
            })
        }
        answer => answer.map_err(|source| BootError::Id {
            path: first,
            source,
        }),
    }
}

fn read_id(root: &Root, path: &str) -> io::Result<String> {
    let id = fs::read_to_string(root.path(path))?.trim().to_owned();
    if id.is_empty() {
        // An empty id would equal the next empty id: two boots taken for one.
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the file is empty",
        ));
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        for (path, text) in files {
            let path = root.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (dir, root)
    }

    #[test]
    fn boot_id_is_pid_1s_when_visible() {
        let (_dir, root) = host(&[(BOOT_ID_PATHS[0], "inner\n"), (BOOT_ID_PATHS[1], "outer\n")]);
        assert_eq!(boot_id(&root).unwrap(), "inner");
        let (_dir, root) = host(&[(BOOT_ID_PATHS[1], "outer\n")]);
        assert_eq!(boot_id(&root).unwrap(), "outer");
    }

    #[test]
    fn i8_no_boot_id_is_an_error() {
        let (_dir, root) = host(&[]);
        assert!(boot_id(&root).is_err());
        let (_dir, root) = host(&[(BOOT_ID_PATHS[1], "\n")]);
        assert!(boot_id(&root).is_err());
    }
}
