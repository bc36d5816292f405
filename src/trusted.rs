//! Whether only root can change a file: what root believes as a credential, or runs, must be such a file (I14).
//!
//! A file is as safe as the way to it. Whoever may write to a directory on that way can put another file in
//! its place, so every directory is looked at, also those behind symbolic links. A link itself is as safe as
//! the directory that holds it. A sticky directory such as /tmp is not good enough: anybody can make a file
//! there first.
//!
//! Nothing can change between this look and the use of the file, because only root could change it.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::root::{self, Root};

/// Write permission of the group and of all others (`inode(7)`). With an access control list the group's bit
/// is the mask of the list: where it is not set, no entry of the list can give the right to write.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
const TO_USE: &str = "to use it: ";

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    #[error(
        "{path} belongs to uid {uid} and has mode {mode:04o}: somebody else than uid {owner} could change it, so it is not used; {cure}",
        path = .path.display()
    )]
    Changeable {
        /// As the host sees it, after links.
        path: PathBuf,
        uid: u32,
        /// The permission bits.
        mode: u32,
        /// Whose it must be.
        owner: u32,
        cure: String,
    },
    #[error("cannot see whether only root can change {path}: {source}", path = .path.display())]
    Unseen { path: PathBuf, source: io::Error },
}

impl Untrusted {
    /// What is wrong, and what to do about it, apart.
    pub fn parts(&self) -> (String, String) {
        match self {
            Self::Changeable {
                path,
                uid,
                mode,
                owner,
                cure,
            } => {
                let what = format!(
                    "{} belongs to uid {uid} and has mode {mode:04o}: somebody else than uid {owner} could change it",
                    path.display()
                );
                (what, cure.trim_start_matches(TO_USE).to_owned())
            }
            Self::Unseen { .. } => (self.to_string(), "run it as root".to_owned()),
        }
    }
}

/// Makes sure that `path` and every directory on the way to it belong to root and that nobody else may write
/// to them. Below a root that is not `/` the owner of that directory stands for root, and the way begins there.
///
/// What is missing passes, as far as the way to it is good: whoever opens it is told.
///
/// # Errors
/// The first file or directory that somebody else could change, with the command that cures it.
pub fn only_root_can_change(root: &Root, path: &Path) -> Result<(), Untrusted> {
    let top = Path::new("/");
    let unseen = |path: &Path| {
        let path = path.to_owned();
        move |source| Untrusted::Unseen { path, source }
    };
    let owner = owner(root).map_err(unseen(top))?;
    if root.is_host() {
        judge(top, &fs::metadata(top).map_err(unseen(top))?, owner)?;
    }
    let mut left = root::parts(path);
    let mut at = top.to_owned();
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        let real = root.path(&next);
        let metadata = match fs::symlink_metadata(&real) {
            Ok(metadata) => metadata,
            Err(error) if absent(&error) => return Ok(()),
            Err(error) => return Err(unseen(&next)(error)),
        };
        if metadata.is_symlink() {
            links += 1;
            if links > root::LINKS_MAX {
                return Err(unseen(&next)(Errno::ELOOP.into()));
            }
            let target = fs::read_link(&real).map_err(unseen(&next))?;
            if target.is_absolute() {
                top.clone_into(&mut at);
            }
            left.extend(root::parts(&target));
            continue;
        }
        judge(&next, &metadata, owner)?;
        at = next;
    }
    Ok(())
}

/// Who is root: below a root that is not `/` the owner of that directory stands for him.
pub(crate) fn owner(root: &Root) -> io::Result<u32> {
    if root.is_host() {
        Ok(0)
    } else {
        Ok(fs::metadata(root.path("/"))?.uid())
    }
}

fn absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn judge(path: &Path, metadata: &Metadata, owner: u32) -> Result<(), Untrusted> {
    let (uid, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    if uid == owner && mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    let word = quoted(path);
    let mut cures = Vec::new();
    if uid != owner {
        let whose = if owner == 0 {
            "root:root".to_owned()
        } else {
            owner.to_string()
        };
        cures.push(format!("chown {whose} {word}"));
    }
    if mode & OTHERS_WRITE != 0 {
        cures.push(format!("chmod go-w {word}"));
    }
    let cure = if metadata.is_dir() && mode & STICKY != 0 {
        // Everybody needs /tmp as it is.
        "move the file out of this directory of everybody's, to one that only root may write to"
            .to_owned()
    } else {
        format!("{TO_USE}{}", cures.join(" && "))
    };
    Err(Untrusted::Changeable {
        path: path.to_owned(),
        uid,
        mode,
        owner,
        cure,
    })
}

/// The path as one word of a shell's line.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+@:,=".contains(c);
    if text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    const NOBODY: u32 = 65534;

    /// A tree with a good file at /etc/k/file.
    fn tree() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        for directory in ["/etc", "/etc/k", "/other", "/tmp"] {
            fs::create_dir(root.path(directory)).unwrap();
            mode(&root, directory, 0o755);
        }
        mode(&root, "/tmp", 0o1777);
        for file in ["/etc/k/file", "/other/file", "/tmp/file"] {
            fs::write(root.path(file), "x").unwrap();
            mode(&root, file, 0o644);
        }
        (dir, root)
    }

    fn mode(root: &Root, path: &str, mode: u32) {
        fs::set_permissions(root.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn said(root: &Root, path: &str) -> String {
        only_root_can_change(root, Path::new(path))
            .map_or_else(|error| error.to_string(), |()| "good".to_owned())
    }

    #[test]
    fn i14_a_file_that_others_may_write_is_refused_with_its_cure() {
        let (_dir, root) = tree();
        assert_eq!(said(&root, "/etc/k/file"), "good");
        for (path, bad, mended) in [
            ("/etc/k/file", 0o664, 0o640),
            ("/etc/k/file", 0o646, 0o644),
            ("/etc/k", 0o775, 0o700),
            ("/etc", 0o757, 0o755),
        ] {
            mode(&root, path, bad);
            let words = said(&root, "/etc/k/file");
            let begins = format!("{path} belongs to uid ");
            assert!(words.starts_with(&begins), "{words}");
            assert!(words.contains(&format!("mode {bad:04o}")), "{words}");
            assert!(words.ends_with(&format!("chmod go-w {path}")), "{words}");
            mode(&root, path, mended);
            assert_eq!(said(&root, "/etc/k/file"), "good", "{path}");
        }
        mode(&root, "/etc/k/file", 0o664);
        let why = only_root_can_change(&root, Path::new("/etc/k/file")).unwrap_err();
        let (what, cure) = why.parts();
        assert!(what.ends_with("could change it"), "{what}");
        assert_eq!(cure, "chmod go-w /etc/k/file");
    }

    #[test]
    fn i14_a_file_or_directory_of_somebody_else_is_refused_with_its_cure() {
        let (_dir, root) = tree();
        let owner = fs::metadata(root.path("/")).unwrap().uid();
        assert_eq!(owner, 0, "this test wants root, which alone may chown");
        for path in ["/etc/k/file", "/etc/k", "/etc"] {
            chown(root.path(path), Some(NOBODY), Some(NOBODY)).unwrap();
            let words = said(&root, "/etc/k/file");
            let begins = format!("{path} belongs to uid {NOBODY} and has mode 0");
            assert!(words.starts_with(&begins), "{words}");
            assert!(
                words.ends_with(&format!("chown root:root {path}")),
                "{words}"
            );
            chown(root.path(path), Some(0), Some(0)).unwrap();
        }
        assert_eq!(said(&root, "/etc/k/file"), "good");
        chown(root.path("/etc"), Some(NOBODY), None).unwrap();
        mode(&root, "/etc", 0o777);
        let words = said(&root, "/etc/k/file");
        assert!(
            words.ends_with("chown root:root /etc && chmod go-w /etc"),
            "{words}"
        );
        // Whose the tree is decides below another root, for the tests of an ordinary user.
        chown(root.path("/"), Some(NOBODY), None).unwrap();
        mode(&root, "/etc", 0o755);
        let words = said(&root, "/etc/k/file");
        assert!(words.starts_with("/etc/k belongs to uid 0"), "{words}");
    }

    #[test]
    fn i14_a_link_is_as_safe_as_the_way_that_it_leads() {
        let (_dir, root) = tree();
        for (link, target) in [
            ("/etc/k/out", "/tmp/file"),
            ("/etc/k/up", "../../tmp/file"),
            ("/etc/k/two", "up"),
            ("/etc/k/dir", "/tmp"),
        ] {
            symlink(target, root.path(link)).unwrap();
        }
        for path in ["/etc/k/out", "/etc/k/up", "/etc/k/two", "/etc/k/dir/file"] {
            let words = said(&root, path);
            assert!(words.starts_with("/tmp belongs to"), "{path}: {words}");
            assert!(words.contains("mode 1777"), "{path}: {words}");
            // The cure must not be to close the host's /tmp.
            assert!(!words.contains("chmod"), "{path}: {words}");
        }
        // The other way round: whoever holds the directory of the link decides where it leads.
        symlink("/etc/k/file", root.path("/tmp/in")).unwrap();
        assert!(said(&root, "/tmp/in").starts_with("/tmp belongs to"));
        symlink("../k/file", root.path("/etc/k/round")).unwrap();
        assert_eq!(said(&root, "/etc/k/round"), "good");
        symlink("loop", root.path("/etc/k/loop")).unwrap();
        assert!(said(&root, "/etc/k/loop").starts_with("cannot see"));
    }

    #[test]
    fn i14_what_is_missing_passes_only_where_nobody_else_could_make_it() {
        let (_dir, root) = tree();
        assert_eq!(said(&root, "/etc/k/none"), "good");
        assert_eq!(said(&root, "/etc/none/none"), "good");
        assert_eq!(said(&root, "/etc/k/file/none"), "good");
        assert!(said(&root, "/tmp/none").starts_with("/tmp belongs to"));
    }

    #[test]
    fn i14_on_the_host_itself_only_root_counts() {
        let dir = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        let words = said(&Root::host(), file.to_str().unwrap());
        assert!(words.starts_with("/tmp belongs to uid 0"), "{words}");
        assert_eq!(said(&Root::host(), "/etc/passwd"), "good");
    }

    #[test]
    fn a_path_is_one_word_of_the_cure() {
        assert_eq!(quoted(Path::new("/a/b-c.d")), "/a/b-c.d");
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
