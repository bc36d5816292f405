//! What came up with this boot, and which deployment the next one is to bring (docs/design.md 9).
//!
//! Keeps I8: what cannot be read is not known, and nothing follows from it.

use kube_rebootd_core::booted::{self, Booted};

use crate::bounded;
use crate::root::Root;

const RELEASE: &str = "/proc/sys/kernel/osrelease";
const BUILD: &str = "/proc/sys/kernel/version";
const COMMAND_LINE: &str = "/proc/cmdline";
/// A node has a mount for each volume of each pod.
const MOUNTS: &str = "/proc/self/mountinfo";
const MOUNTS_MAX: u64 = 16 * 1024 * 1024;
const SMALL: u64 = 64 * 1024;
/// os-release(5): the first that is there.
const RELEASES: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];
/// ostree's word for its own shutdown service; and where older ones said that it is locked.
const STAGED: &str = "/run/ostree/staged-deployment";
const LOCKED: &str = "/run/ostree/staged-deployment-locked";

/// What came up; none: not even the kernel is known.
pub fn read(root: &Root) -> Option<Booted> {
    let text = |path, limit| bounded::text(&root.path(path), limit).ok();
    // A mount point of an ordinary user may be no text.
    let mounts = bounded::bytes(&root.path(MOUNTS), MOUNTS_MAX).unwrap_or_default();
    let mounts = String::from_utf8_lossy(&mounts);
    let mut releases = RELEASES.into_iter().filter_map(|path| text(path, SMALL));
    Some(Booted::of(
        &text(RELEASE, SMALL)?,
        &text(BUILD, SMALL)?,
        &mounts,
        &text(COMMAND_LINE, SMALL).unwrap_or_default(),
        &releases.next().unwrap_or_default(),
    ))
}

/// The deployment that ostree or bootc brings with the next boot.
pub fn staged(root: &Root) -> Option<String> {
    let file = bounded::bytes(&root.path(STAGED), SMALL).ok()?;
    booted::staged(&file).filter(|_| !root.path(LOCKED).exists())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(root: &Root, path: &str, text: &str) {
        let path = root.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn i8_without_a_kernel_nothing_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        assert_eq!(read(&root), None);
        write(&root, RELEASE, "6.1.0-28-amd64\n");
        write(&root, BUILD, "#1 SMP\n");
        let booted = read(&root).unwrap();
        assert_eq!(
            (booted.kernel.as_str(), booted.build.as_str()),
            ("6.1.0-28-amd64", "#1 SMP")
        );
        assert_eq!(
            (booted.deployment.as_str(), booted.release.as_str()),
            ("", "")
        );
        write(&root, "/usr/lib/os-release", "ID=x\nVERSION_ID=1\n");
        assert_eq!(read(&root).unwrap().release, "x 1");
        // An administrator's own comes first.
        write(&root, "/etc/os-release", "ID=y\nVERSION_ID=2\n");
        assert_eq!(read(&root).unwrap().release, "y 2");
        bounded::odd::each(&root.path(RELEASES[0]), SMALL, move || {
            assert_eq!(read(&root).unwrap().release, "x 1", "the next one");
            bounded::text(&root.path(RELEASES[0]), SMALL)
                .unwrap_err()
                .to_string()
        });
    }

    /// Found by review: a mount point of an ordinary user that is no text hid the deployment.
    #[test]
    fn i14_a_mount_of_an_ordinary_user_hides_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        write(&root, RELEASE, "6.1.0-28-amd64\n");
        write(&root, BUILD, "#1 SMP\n");
        let own = format!("/ostree/deploy/os/deploy/{}.0", "b".repeat(64));
        let line = format!("1 0 8:1 {own} / rw - ext4 /dev/sda1 rw\n");
        write(&root, MOUNTS, &line);
        let deployment = read(&root).unwrap().deployment;
        assert!(deployment.starts_with("bbbb"), "{deployment:?}");
        let mut bytes = b"2 0 0:9 / /home/a/\xff rw - fuse a\xff rw\n".to_vec();
        bytes.extend(line.bytes());
        fs::write(root.path(MOUNTS), bytes).unwrap();
        assert_eq!(read(&root).unwrap().deployment, deployment);
    }

    #[test]
    fn what_is_staged_and_locked_comes_with_no_boot() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        assert_eq!(staged(&root), None);
        let name = format!("{}.0", "b".repeat(64));
        write(&root, STAGED, &format!("target\0\0name\0\0\0\0{name}\0\0s"));
        assert_eq!(staged(&root), Some(name));
        write(&root, LOCKED, "");
        assert_eq!(staged(&root), None);
        bounded::odd::each(&root.path(STAGED), SMALL, move || {
            assert_eq!(staged(&root), None);
            bounded::bytes(&root.path(STAGED), SMALL)
                .unwrap_err()
                .to_string()
        });
    }
}
