//! Where the host's file tree begins: `/`, or a directory given by `--root` (tests, images).
//!
//! Every host path goes through a [`Root`], so that a test's host is a directory.

use std::path::{Path, PathBuf};

/// The directory that stands for the host's `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// The host itself.
    pub fn host() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A host whose `/` is `dir`.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self(dir.into())
    }

    /// The real place of the host path `path` (`/run/x` or `run/x`).
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }
}
