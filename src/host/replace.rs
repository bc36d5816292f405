//! Files that are replaced as a whole, for readers that must never see half of one: nothing in them outlives the boot or is
//! decided upon, so they are not flushed.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Puts `text` in the place of what stands there, whatever the umask is. In a directory of somebody else, nothing that he put
/// there is followed or written to (I14).
pub(super) fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let temporary = beside(path);
    remove(&temporary)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())?;
    fs::rename(&temporary, path)
}

/// It is there no more; what was not there is fine.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The name of a file beside `path` that nobody reads.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The directory of `metrics.textfile` may belong to another user: what he puts there leads root nowhere.
    #[test]
    fn i14_no_link_is_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").expect("written");
        let path = dir.path().join("k.prom");
        symlink(&victim, &path).expect("linked");
        symlink(&victim, beside(&path)).expect("linked");
        replace(&path, "metrics\n", 0o644).expect("written");
        assert_eq!(fs::read_to_string(&victim).expect("read"), "precious");
        let metadata = fs::symlink_metadata(&path).expect("there");
        assert!(metadata.is_file());
        assert_eq!(metadata.permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_to_string(&path).expect("read"), "metrics\n");
    }
}
