//! What a command prints, and the directory in which PID 1 finds where to.
//!
//! PID 1 gets paths, and no file descriptors over the bus: who may send some gets some as well, from any user of the
//! host, and closing one may take as long as its sender likes (I14). The directory is ours alone, so that nobody else
//! can put something in the place of a path. Output comes through a FIFO: a file would have to hold all of it, and a
//! command whose write fails as /run is full may end with the code of a reboot (I8).

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::stat::Mode;
use nix::unistd::{self, mkdtemp, mkfifo};
use tokio::net::unix::pipe::{OpenOptions, Receiver};

use crate::root::Root;

/// Gone with the boot at the latest.
const RUN: &str = "/run";
/// How the name of each directory begins; the number of its process follows.
const PREFIX: &str = "kube-rebootd-output-";
/// As mkdtemp(3) wants it.
const RANDOM: &str = "-XXXXXX";
/// How the name ends once nothing below it is to be found any more.
const GONE: &str = "-gone";
/// Bytes that a command may print: more is no answer of a check, and reading without end is no work for the daemon.
pub(super) const MOST_PRINTED: u64 = 256 * 1024 * 1024;
/// As much as a pipe usually holds (pipe(7)).
const AT_ONCE: usize = 64 * 1024;
/// As much as it may be made to hold, usually: a command that does not wait for room is not to find none.
const ROOM: i32 = 1024 * 1024;

/// A directory for one command; gone with this value.
#[derive(Debug)]
pub(super) struct Place(PathBuf);

impl Place {
    /// Removes first what processes left that were killed.
    pub(super) fn new(root: &Root) -> io::Result<Self> {
        remove_leftovers(root);
        let name = format!("{PREFIX}{}{RANDOM}", std::process::id());
        // PID 1 has another working directory.
        let template = std::path::absolute(root.path(RUN))?.join(name);
        Ok(Self(mkdtemp(&template)?))
    }

    /// Where a command is to print; the first `keep` bytes are kept.
    pub(super) fn output(&self, name: &str, keep: usize) -> io::Result<Output> {
        self.opened(name, keep, false)
    }

    /// The same, where the last `keep` bytes are kept.
    pub(super) fn end_of_output(&self, name: &str, keep: usize) -> io::Result<Output> {
        self.opened(name, keep, true)
    }

    fn opened(&self, name: &str, keep: usize, end: bool) -> io::Result<Output> {
        let path = self.0.join(name);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        // Open for writing as well: it would read as ended until the command has opened it.
        let receiver = OpenOptions::new().read_write(true).open_receiver(&path)?;
        if let Err(error) = fcntl(&receiver, FcntlArg::F_SETPIPE_SZ(ROOM)) {
            tracing::debug!("a command's output has little room: {error}");
        }
        Ok(Output {
            path,
            receiver,
            kept: Vec::new(),
            keep,
            end,
            printed: 0,
        })
    }

    /// A file with this text, which root alone can read.
    pub(super) fn file(&self, name: &str, text: &str) -> io::Result<String> {
        let path = self.0.join(name);
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600);
        options.open(&path)?.write_all(text.as_bytes())?;
        Ok(told(&path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            tracing::warn!("cannot remove {}: {error}", self.0.display());
        }
    }
}

/// PID 1 makes a file where it finds none to open: so first no path leads there any more.
fn remove(directory: &Path) -> io::Result<()> {
    let mut gone = directory.as_os_str().to_owned();
    gone.push(GONE);
    fs::rename(directory, &gone)?;
    fs::remove_dir_all(&gone)
}

fn told(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Removes what processes left that were killed.
fn remove_leftovers(root: &Root) {
    let Ok(entries) = fs::read_dir(root.path(RUN)) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let Some((process, _)) = rest.and_then(|rest| rest.split_once('-')) else {
            continue;
        };
        // The daemon's, or that of a command which somebody runs now.
        let ours = process == std::process::id().to_string();
        if ours || root.path("/proc").join(process).exists() {
            continue;
        }
        if let Err(error) = remove(&entry.path()) {
            tracing::warn!("cannot remove {}: {error}", entry.path().display());
        }
    }
}

/// What a command prints, read while it runs.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    receiver: Receiver,
    kept: Vec<u8>,
    keep: usize,
    /// The last bytes are kept, and not the first.
    end: bool,
    printed: u64,
}

impl Output {
    /// As PID 1 is told.
    pub(super) fn path(&self) -> String {
        told(&self.path)
    }

    /// What was kept of it.
    pub(super) fn into_kept(self) -> Vec<u8> {
        self.kept
    }

    /// Reads until more than [`MOST_PRINTED`] came. May be dropped at any await: nothing is lost.
    pub(super) async fn read(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; AT_ONCE];
        while self.printed <= MOST_PRINTED {
            self.receiver.readable().await?;
            match self.receiver.try_read(&mut bytes) {
                Ok(read) => self.take(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            // One that prints without end is not to keep the loop from everything else.
            tokio::task::consume_budget().await;
        }
        Ok(())
    }

    /// Reads what is there still, which is all of it once the command has ended. Whether that was too much.
    pub(super) fn rest(&mut self) -> io::Result<bool> {
        let mut bytes = vec![0; AT_ONCE];
        while self.printed <= MOST_PRINTED {
            // Of the kernel: tokio knows only what it has heard of already.
            match unistd::read(&self.receiver, &mut bytes) {
                Ok(read) => self.take(&bytes[..read]),
                Err(Errno::EAGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.printed += bytes.len() as u64;
        if self.end {
            self.kept.extend(bytes);
            let over = self.kept.len().saturating_sub(self.keep);
            self.kept.drain(..over);
            return;
        }
        let free = self.keep.saturating_sub(self.kept.len());
        self.kept.extend(bytes.iter().take(free));
    }
}
