//! Files that outlive the daemon, in `/var/lib/kube-rebootd`: the state (I6) and the last valid
//! configuration (I12).
//!
//! A write is atomic and durable when it returns: temporary file, fsync, rename, fsync of the
//! directory. What the text means is the caller's business. The unit has no `StateDirectory=`
//! (systemd 257 refuses to start on a read-only /var; proved), so the directory is made here.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use nix::fcntl::OFlag;

use crate::bounded::{self, ReadError};
use crate::root::Root;

/// Where both files live.
pub const DIRECTORY: &str = "/var/lib/kube-rebootd";
/// A state is a few kilobytes; anything over 1 MiB is not ours and must not fill memory.
pub(crate) const MAX_BYTES: u64 = 1024 * 1024;
/// Root only: the state names pods and reasons.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// What was found in place of a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Stored {
    /// Nothing: never written, or a fresh host.
    Absent,
    /// The whole text.
    Text(String),
    /// Something that cannot be ours; moved out of the way.
    Damaged {
        /// Where it is now.
        kept_aside: PathBuf,
        /// What was wrong with it.
        why: String,
    },
}

/// One durable file.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
}

impl Store {
    /// `state.json`.
    pub fn state(root: &Root) -> Self {
        Self {
            path: root.path(DIRECTORY).join("state.json"),
        }
    }

    /// `config.last-valid.toml`.
    pub fn last_valid_config(root: &Root) -> Self {
        Self {
            path: root.path(DIRECTORY).join("config.last-valid.toml"),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it. An error means that it could not be read, not that there is none; `now` names the
    /// copy of a damaged file.
    pub fn read(&self, now: Timestamp) -> io::Result<Stored> {
        let why = match bounded::text(&self.path, MAX_BYTES) {
            // A torn write leaves no such file, a full disk on an old file system may.
            Ok(text) if text.trim().is_empty() => "it is empty".to_owned(),
            Ok(text) => return Ok(Stored::Text(text)),
            Err(error) if error.absent() => return Ok(Stored::Absent),
            Err(ReadError::Io(error)) => return Err(self.named("read", &error)),
            Err(why @ (ReadError::NotRegular | ReadError::Larger(_) | ReadError::NotText(_))) => {
                why.to_string()
            }
        };
        let kept_aside = self.keep_aside(now)?;
        Ok(Stored::Damaged { kept_aside, why })
    }

    /// Replaces it. When this returns, the new text survives a power loss; on an error the old one is still there, or the new
    /// one where only its directory could not be flushed: who does not want that writes the old one again.
    pub fn write(&self, text: &str) -> io::Result<()> {
        self.replace(text)
            .map_err(|error| self.named("write", &error))
    }

    /// The same, if it is another text: three flushes of a disk are most of a start.
    pub fn keep(&self, text: &str) -> io::Result<()> {
        let there = bounded::bytes(&self.path, text.len() as u64);
        if there.is_ok_and(|there| there == text.as_bytes()) {
            return Ok(());
        }
        self.write(text)
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let directory = self.directory()?;
        let temporary = self.beside("tmp");
        let mut file = fresh(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        File::open(directory)?.sync_all()
    }

    /// Whether a write would succeed now: writes and removes a small file beside it.
    pub fn probe(&self) -> io::Result<()> {
        let probe = self.beside("probe");
        let tried = self.directory().and_then(|_| {
            let mut file = fresh(&probe)?;
            // A full disk lets a file be made and refuses its first block.
            file.write_all(b"probe\n")?;
            file.sync_all()?;
            fs::remove_file(&probe)
        });
        tried.map_err(|error| self.named("write", &error))
    }

    /// Moves it to `NAME.damaged-<wall time>`: for a text that does not parse, too.
    pub fn keep_aside(&self, now: Timestamp) -> io::Result<PathBuf> {
        let aside = self.beside(&format!("damaged-{}", now.strftime("%Y%m%dT%H%M%SZ")));
        fs::rename(&self.path, &aside).map_err(|error| self.named("rename", &error))?;
        Ok(aside)
    }

    fn directory(&self) -> io::Result<&Path> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(directory)?;
        Ok(directory)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".");
        name.push(suffix);
        PathBuf::from(name)
    }

    fn named(&self, verb: &str, error: &io::Error) -> io::Error {
        io::Error::new(
            error.kind(),
            format!("cannot {verb} {}: {error}", self.path.display()),
        )
    }
}

/// An empty file to write to, without waiting for the reader of a FIFO of that name.
fn fresh(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::bounded::odd::{self, Odd};

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::state(&Root::at(dir.path()));
        (dir, store)
    }

    #[test]
    fn i6_written_text_is_read_back_and_nothing_else_is_left() {
        let (_dir, store) = store();
        assert_eq!(store.read(Timestamp::UNIX_EPOCH).unwrap(), Stored::Absent);
        store.probe().unwrap();
        store.write("one").unwrap();
        store.write("two").unwrap();
        assert_eq!(
            store.read(Timestamp::UNIX_EPOCH).unwrap(),
            Stored::Text("two".to_owned())
        );
        let directory = store.path().parent().unwrap();
        let mode = fs::metadata(directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, DIRECTORY_MODE);
        assert_eq!(fs::read_dir(directory).unwrap().count(), 1);
    }

    #[test]
    fn what_is_there_already_is_not_written_again() {
        let (_dir, store) = store();
        let file = |text: &str| {
            store.keep(text).unwrap();
            assert_eq!(fs::read_to_string(store.path()).unwrap(), text);
            fs::metadata(store.path()).unwrap().ino()
        };
        let first = file("one");
        assert_eq!(file("one"), first);
        // A temporary file takes its place; the old one must not lend its number.
        let _old = File::open(store.path()).unwrap();
        assert_ne!(file("two"), first);
    }

    #[test]
    fn i6_damaged_file_is_kept_aside() {
        let (_dir, store) = store();
        store.probe().unwrap();
        for bytes in [&b"\xff\xfe"[..], b"", &vec![b'x'; 1024 * 1024 + 1]] {
            fs::write(store.path(), bytes).unwrap();
            let Stored::Damaged { kept_aside, why } = store.read(Timestamp::UNIX_EPOCH).unwrap()
            else {
                panic!("{} bytes were taken for a state", bytes.len());
            };
            assert_eq!(fs::read(&kept_aside).unwrap(), bytes, "{why}");
            assert!(
                kept_aside
                    .to_string_lossy()
                    .ends_with("state.json.damaged-19700101T000000Z")
            );
            assert_eq!(store.read(Timestamp::UNIX_EPOCH).unwrap(), Stored::Absent);
        }
    }

    #[test]
    fn i6_what_is_no_file_of_ours_is_kept_aside_as_well() {
        let (_dir, store) = store();
        store.probe().unwrap();
        let there = store.clone();
        odd::each(store.path(), MAX_BYTES, move || {
            let Stored::Damaged { kept_aside, why } = there.read(Timestamp::UNIX_EPOCH).unwrap()
            else {
                return "it was taken for a state".to_owned();
            };
            // Out of the way: the next state can be written.
            there.write("new").unwrap();
            let _ = fs::remove_file(&kept_aside);
            let _ = fs::remove_dir(&kept_aside);
            why
        });
    }

    #[test]
    fn i7_a_configuration_is_kept_over_whatever_is_there() {
        let (_dir, store) = store();
        store.probe().unwrap();
        for odd in Odd::ALL {
            odd.put(store.path(), MAX_BYTES);
            let there = store.clone();
            let kept = odd::soon(odd, move || there.keep("text"));
            // A rename does not replace a directory.
            assert_eq!(kept.is_err(), odd == Odd::Directory, "{odd:?}: {kept:?}");
            if kept.is_ok() {
                assert_eq!(fs::read(store.path()).unwrap(), b"text");
            }
        }
    }

    #[test]
    fn i6_a_fifo_in_place_of_the_temporary_file_is_an_error() {
        let (_dir, store) = store();
        store.probe().unwrap();
        for name in ["tmp", "probe"] {
            nix::unistd::mkfifo(&store.beside(name), nix::sys::stat::Mode::S_IRWXU).unwrap();
        }
        assert!(store.write("x").is_err() && store.probe().is_err());
    }

    #[test]
    fn i6_unwritable_is_an_error_that_names_the_file() {
        let (_dir, store) = store();
        // Root ignores modes, so a file stands where the directory belongs.
        let directory = store.path().parent().unwrap();
        fs::create_dir_all(directory.parent().unwrap()).unwrap();
        fs::write(directory, "").unwrap();
        for error in [store.probe().unwrap_err(), store.write("x").unwrap_err()] {
            assert!(error.to_string().contains("state.json"), "{error}");
        }
        assert!(store.read(Timestamp::UNIX_EPOCH).is_err());
    }
}
