//! Every host path lives below a root, so that a test or an image is a directory tree.

use std::path::{Path, PathBuf};

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

    /// Where the absolute host path `path` is.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }
}
