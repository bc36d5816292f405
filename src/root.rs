//! Every host path lives below a root, so that a test or an image is a directory tree.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use nix::errno::Errno;

/// As many symbolic links as the kernel follows (`path_resolution(7)`).
pub(crate) const LINKS_MAX: usize = 40;

/// The directory that stands for `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// The host itself.
    pub fn host() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A directory tree (`--root DIR`).
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self(dir.into())
    }

    /// The running host, and no directory tree in its place.
    pub fn is_host(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Where the absolute host path `path` is.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The same with its links followed: below a root that is not `/` an absolute one must stay below it.
    ///
    /// On the host the path stays as it is: there the kernel follows links, each time anew (the kubelet's
    /// certificate is a link that moves: `real::certificates`). From what is missing, or cannot be looked at, the rest is
    /// taken as written: whoever opens it is told why.
    ///
    /// # Errors
    /// Links without an end.
    pub fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        if self.is_host() {
            return Ok(path.to_owned());
        }
        let mut left = parts(path);
        let mut at = PathBuf::new();
        let mut links = 0;
        while let Some(part) = left.pop() {
            if part == ".." {
                at.pop();
                continue;
            }
            let next = self.0.join(&at).join(&part);
            match fs::read_link(&next) {
                Ok(target) => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Errno::ELOOP.into());
                    }
                    if target.is_absolute() {
                        at = PathBuf::new();
                    }
                    left.extend(parts(&target));
                }
                // It exists and is no link.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => at.push(part),
                Err(_) => {
                    let rest = left.iter().rev();
                    return Ok(rest.fold(next, |path, part| path.join(part)));
                }
            }
        }
        Ok(self.0.join(at))
    }
}

/// The parts of a path, last one first.
pub(crate) fn parts(path: &Path) -> Vec<OsString> {
    let mut parts: Vec<OsString> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        fs::create_dir_all(root.path("/a")).unwrap();
        fs::create_dir(root.path("/run")).unwrap();
        (dir, root)
    }

    #[test]
    fn a_link_out_of_the_root_stays_in_it() {
        let (dir, root) = tree();
        symlink("../../../../etc/passwd", root.path("/a/up")).unwrap();
        symlink("/run", root.path("/a/run")).unwrap();
        let resolved = |path: &str| root.resolve(Path::new(path)).unwrap();
        assert_eq!(resolved("/a/up"), dir.path().join("etc/passwd"));
        assert_eq!(resolved("/a/run/x"), dir.path().join("run/x"));
        assert_eq!(resolved("/a/../../run"), dir.path().join("run"));
    }

    #[test]
    fn links_without_an_end_are_an_error() {
        let (_dir, root) = tree();
        symlink("/a/loop", root.path("/a/loop")).unwrap();
        symlink("other/x", root.path("/a/other")).unwrap();
        for path in ["/a/loop", "/a/loop/x", "/a/other"] {
            assert!(root.resolve(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn what_is_missing_is_for_the_open_to_find() {
        let (_dir, root) = tree();
        fs::write(root.path("/a/file"), "").unwrap();
        for (path, kind) in [
            ("/none/x", io::ErrorKind::NotFound),
            // The kernel says so, too: a missing directory has no parent.
            ("/none/../a/file", io::ErrorKind::NotFound),
            ("/a/file/x", io::ErrorKind::NotADirectory),
        ] {
            let real = root.resolve(Path::new(path)).unwrap();
            let error = fs::File::open(real).unwrap_err();
            assert_eq!(error.kind(), kind, "{path}");
        }
    }

    #[test]
    fn on_the_host_the_kernel_follows_links() {
        let path = Path::new("/proc/self/exe");
        assert_eq!(Root::host().resolve(path).unwrap(), path);
    }
}
