//! Which boot this is (I4, I6, I10).

use std::io;

use kube_rebootd_core::boot::Boot;
use thiserror::Error;

use super::{
    bus::{Bus, BusError},
    systemd,
};
use crate::bounded::{self, ReadError};
use crate::root::Root;

/// The kernel's boot id. On systemd 252 in a container, a sandboxed service sees the outer machine's
/// here (`packagers::versions`); PID 1's timestamp changes all the same, and reading /proc/1/root would need
/// `CAP_SYS_PTRACE`.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Bytes of it: a UUID and a line break are 37.
const BOOT_ID_MAX: u64 = 128;

/// Why the boot is not known.
#[derive(Debug, Error)]
pub enum BootError {
    /// The kernel's file.
    #[error("cannot read the boot id in {BOOT_ID}: {0}")]
    Id(ReadError),
    /// PID 1.
    #[error(transparent)]
    Bus(#[from] BusError),
}

/// The present boot.
pub async fn read(root: &Root, bus: &Bus) -> Result<Boot, BootError> {
    Ok(Boot {
        id: boot_id(root)?,
        userspace: systemd::userspace_usec(bus).await?,
    })
}

/// The kernel's boot id alone, which the kubelet reports as `nodeInfo.bootID` (`real::cycle`).
pub fn boot_id(root: &Root) -> Result<String, BootError> {
    let id = bounded::text(&root.path(BOOT_ID), BOOT_ID_MAX)
        .map_err(BootError::Id)?
        .trim()
        .to_owned();
    if id.is_empty() {
        // An empty id would equal the next empty id: two boots taken for one.
        let empty = io::Error::new(io::ErrorKind::InvalidData, "the file is empty");
        return Err(BootError::Id(ReadError::Io(empty)));
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn host(text: &str) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let path = root.path(BOOT_ID);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        (dir, root)
    }

    #[test]
    fn boot_id_is_the_kernels() {
        let (_dir, root) = host("inner\n");
        assert_eq!(boot_id(&root).unwrap(), "inner");
    }

    #[test]
    fn i8_no_boot_id_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(boot_id(&Root::at(dir.path())).is_err());
        let (_dir, root) = host("\n");
        assert!(boot_id(&root).is_err());
        bounded::odd::each(&root.path(BOOT_ID), BOOT_ID_MAX, move || {
            boot_id(&root).unwrap_err().to_string()
        });
    }
}
