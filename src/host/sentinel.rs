//! Sentinel files such as `/run/reboot-required`: read with bounds, watched by inotify.
//!
//! The watch only makes it fast. Mounts and NFS give no events, so the caller's slow poll of
//! [`Reader::look`] is the truth. What cannot be read is an error, never "no sentinel" and never "reboot"
//! (I8).

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

mod watch;

pub use watch::Watch;

use kube_rebootd_core::kind::Kind;
use kube_rebootd_core::text::{self, MESSAGE, NAME};

use super::beside::Beside;
use crate::bounded::{self, ReadError};
use crate::root::Root;

/// A `.pkgs` file of a whole distribution upgrade is about 50 KiB; the rest is not needed.
const MAX_BYTES: u64 = 64 * 1024;
const KEXEC: &str = "kexec";
/// Reading a few local files; only a dead network mount takes longer.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Which file it was: any difference means that it was written or made anew. ext4 reuses an inode
/// number at once (proved), hence the times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub inode: u64,
    /// Last change of the content: seconds and nanoseconds since 1970.
    pub mtime: (i64, i64),
    /// Last change of the inode: seconds and nanoseconds since 1970.
    pub ctime: (i64, i64),
}

impl Identity {
    /// Which file it is over a soft-reboot, whose systemd may label what is in /run anew: that changes the inode's time.
    pub fn mark(&self) -> String {
        let (seconds, nanos) = self.mtime;
        format!("{}:{}:{seconds}.{nanos:09}", self.dev, self.inode)
    }
}

/// A sentinel file that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentinel {
    /// The path as configured.
    pub path: String,
    /// The lines of `PATH.pkgs`: who asked.
    pub pkgs: BTreeSet<String>,
    /// The beginning of its text, for people.
    pub content: String,
    /// Tells it from a later file of the same name.
    pub identity: Identity,
}

impl Sentinel {
    /// zypp's contract: the content may name the kind of the reboot; none: it names none. A kexec would skip the
    /// firmware, and a full reboot does all that it does.
    pub fn kind(&self) -> Option<Kind> {
        match self.content.as_str() {
            KEXEC => Some(Kind::Reboot),
            content => Kind::of(content),
        }
    }

    /// What it asks for, for people, where an ordinary reboot does not show it.
    pub fn asks_for(&self) -> Option<&'static str> {
        match (self.content.as_str(), self.kind()) {
            (KEXEC, _) => Some("asks for kexec; an ordinary reboot does it"),
            (_, Some(Kind::SoftReboot)) => Some("asks for a soft-reboot"),
            (_, Some(Kind::Reboot) | None) => None,
        }
    }
}

/// Why it is not known whether a sentinel exists.
#[derive(Debug, Error)]
pub enum SentinelError {
    /// The file is there or may be there, and cannot be read.
    #[error("cannot read the sentinel {path}: {source}")]
    Read {
        /// The path as configured, or that of its `.pkgs` file.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something of that name is there, but no regular file.
    #[error("the sentinel {path} is not a regular file; remove it or change triggers.sentinels")]
    Kind {
        /// The path as configured, or that of its `.pkgs` file.
        path: String,
    },
    /// Reading took too long: probably a network mount whose server is gone.
    #[error("the sentinels could not be read within {} s", READ_TIMEOUT.as_secs())]
    Timeout,
}

/// What [`Reader::look`] found, in the order of the paths.
pub type Found = Vec<Result<Option<Sentinel>, SentinelError>>;

/// Reads sentinels beside the loop.
#[derive(Debug, Default)]
pub struct Reader {
    beside: Beside<Found>,
}

impl Reader {
    /// Reads all `paths`, each on its own terms. Cancel safe.
    pub async fn look(&mut self, root: &Root, paths: &[String]) -> Result<Found, SentinelError> {
        if paths.iter().all(|path| absent_at_once(root, path)) {
            return Ok(paths.iter().map(|_| Ok(None)).collect());
        }
        let (root, paths) = (root.clone(), paths.to_vec());
        let read = move || paths.iter().map(|path| read(&root, path)).collect();
        let found = self.beside.look(READ_TIMEOUT, read).await;
        found.ok_or(SentinelError::Timeout)
    }
}

/// Nothing is there, seen without a thread and its two wake-ups: /run is in memory, where nothing hangs, and a link
/// in it is not followed.
fn absent_at_once(root: &Root, path: &str) -> bool {
    let in_run = Path::new(path).parent() == Some(Path::new("/run"));
    let looked = || std::fs::symlink_metadata(root.path(path));
    in_run && looked().is_err_and(|err| err.kind() == io::ErrorKind::NotFound)
}

/// Reads one sentinel; `None` only when the kernel says that there is no such file.
pub fn read(root: &Root, path: &str) -> Result<Option<Sentinel>, SentinelError> {
    let failed = |path: &str| {
        let path = path.to_owned();
        move |source| SentinelError::Read { path, source }
    };
    let Some(file) = open(root, path)? else {
        return Ok(None);
    };
    let metadata = file.metadata().map_err(failed(path))?;
    let (content, _) = beginning(file).map_err(failed(path))?;
    let list = format!("{path}.pkgs");
    let pkgs = match open(root, &list)? {
        None => BTreeSet::new(),
        Some(file) => packages(beginning(file).map_err(failed(&list))?),
    };
    Ok(Some(Sentinel {
        path: path.to_owned(),
        pkgs,
        content: text::block(content.trim(), MESSAGE),
        identity: Identity {
            dev: metadata.dev(),
            inode: metadata.ino(),
            mtime: (metadata.mtime(), metadata.mtime_nsec()),
            ctime: (metadata.ctime(), metadata.ctime_nsec()),
        },
    }))
}

fn open(root: &Root, path: &str) -> Result<Option<File>, SentinelError> {
    let real = root.resolve(Path::new(path)).map_err(ReadError::from);
    let path = path.to_owned();
    match real.and_then(|real| bounded::open(&real)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.absent() => Ok(None),
        Err(ReadError::Io(source)) => Err(SentinelError::Read { path, source }),
        Err(ReadError::NotRegular | ReadError::Larger(_) | ReadError::NotText(_)) => {
            Err(SentinelError::Kind { path })
        }
    }
}

/// The text, and whether it was cut at [`MAX_BYTES`].
fn beginning(file: File) -> io::Result<(String, bool)> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    let limit = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX);
    let cut = bytes.len() > limit;
    bytes.truncate(limit);
    Ok((String::from_utf8_lossy(&bytes).into_owned(), cut))
}

fn packages((text, cut): (String, bool)) -> BTreeSet<String> {
    let whole = match text.rfind('\n') {
        // The last line of a cut text is half a name.
        Some(end) if cut => &text[..end],
        _ => &text,
    };
    whole
        .lines()
        .map(|line| text::clean(line, NAME))
        .filter(|line| !line.is_empty())
        .collect()
}

#[cfg(test)]
mod tests;
