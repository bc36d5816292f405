//! What may stand where a file belongs, for the test of each reader (I7): none may hang on it, read it whole,
//! or take it for an answer.

use std::fs::{self, File};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::{Uid, mkfifo};

/// Far above what a read of at most some MiB takes: only one that hangs is ended by it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Far above what the tests of this crate need together, far below [`SPARSE`]: in KiB, as /proc says it.
const MEMORY_MAX: u64 = 1024 * 1024;
/// Bytes of a file that takes no room on the disk and would fill memory.
const SPARSE: u64 = 2 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Odd {
    /// Nobody writes into it.
    Fifo,
    Directory,
    /// What /dev/zero is; no link to it, which would end below a test's root. Root alone makes one, and `make test`
    /// is root's; where a distribution builds a package, a FIFO stands for it.
    Endless,
    Sparse,
    /// One byte more than the limit.
    OneOver,
}

impl Odd {
    pub(crate) const ALL: [Self; 5] = [
        Self::Fifo,
        Self::Directory,
        Self::Endless,
        Self::Sparse,
        Self::OneOver,
    ];

    /// Makes one at `path`, in place of what is there.
    pub(crate) fn put(self, path: &Path, limit: u64) {
        if fs::symlink_metadata(path).is_ok_and(|there| there.is_dir()) {
            fs::remove_dir(path).expect("removed");
        } else {
            let _ = fs::remove_file(path);
        }
        match self {
            Self::Directory => fs::create_dir(path).expect("a directory"),
            Self::Endless if Uid::effective().is_root() => {
                mknod(path, SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 5)).expect("a device");
            }
            Self::Fifo | Self::Endless => mkfifo(path, Mode::S_IRWXU).expect("a FIFO"),
            Self::Sparse => sized(path, SPARSE),
            Self::OneOver => sized(path, limit + 1),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Fifo | Self::Directory | Self::Endless => "not a regular file",
            Self::Sparse | Self::OneOver => "larger than",
        }
    }
}

fn sized(path: &Path, bytes: u64) {
    let file = File::create(path).expect("a file");
    file.set_len(bytes).expect("its size");
}

/// Puts each of them at `path` in turn; `read`, whose file that is, must soon say what is wrong with it.
pub(crate) fn each(path: &Path, limit: u64, read: impl Fn() -> String + Send + Sync + 'static) {
    let read = Arc::new(read);
    for odd in Odd::ALL {
        odd.put(path, limit);
        let reader = Arc::clone(&read);
        let said = soon(odd, move || reader());
        assert!(said.contains(odd.words()), "{odd:?}: {said}");
    }
}

/// What `read` answers, which must not take for ever nor all memory.
pub(crate) fn soon<T: Send + 'static>(odd: Odd, read: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, said) = mpsc::channel();
    let thread = std::thread::spawn(move || send.send(read()).is_ok());
    let said = match said.recv_timeout(PATIENCE) {
        Ok(said) => said,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{odd:?}: the reader hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            panic!("{odd:?}: the reader panicked: {:?}", thread.join())
        }
    };
    memory();
    said
}

/// This process never had more memory than its tests need.
pub(crate) fn memory() {
    let peak = peak();
    assert!(peak < MEMORY_MAX, "{peak} KiB of memory were used");
}

/// The most memory that this process ever had, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number
        .and_then(|number| number.parse().ok())
        .expect("VmHWM")
}
