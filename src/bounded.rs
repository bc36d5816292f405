//! Reads of files that others write: never without a limit, and never of what is no file.
//!
//! A FIFO would hold an open for ever and a file without an end would fill memory; both would stop the daemon
//! as surely as a crash (I6, I7). What was not read whole is an error and never a part of the text (I8).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::Utf8Error;

use nix::errno::Errno;
use nix::fcntl::OFlag;

/// Why a file was not read. All but [`ReadError::Io`] say that no such file can be meant.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Io(io::Error),
    /// A directory, FIFO, device or socket, or a file of the kernel's that waits for more to come.
    #[error("it is not a regular file")]
    NotRegular,
    /// More bytes than this.
    #[error("it is larger than {}", size(*.0))]
    Larger(u64),
    #[error("it is not UTF-8: {0}")]
    NotText(Utf8Error),
}

impl ReadError {
    /// There is no such file.
    pub fn absent(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        // A socket (open(2)), and what would wait although it was opened not to.
        let odd = error.raw_os_error() == Some(Errno::ENXIO as i32)
            || error.kind() == io::ErrorKind::WouldBlock;
        if odd {
            Self::NotRegular
        } else {
            Self::Io(error)
        }
    }
}

/// Opens a regular file for reading, without waiting for anybody.
pub fn open(path: &Path) -> Result<File, ReadError> {
    // Looked at before it is opened, for opening a device may do something: /dev/watchdog starts to count.
    regular(&fs::metadata(path)?)?;
    let file = OpenOptions::new()
        .read(true)
        // It may have become a FIFO meanwhile.
        .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
        .open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

/// The whole content of a regular file of at most `limit` bytes.
pub fn bytes(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    let file = open(path)?;
    if file.metadata()?.len() > limit {
        return Err(ReadError::Larger(limit));
    }
    let mut bytes = Vec::new();
    // Its size is not believed: it may grow, and those of /proc say 0.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(ReadError::Larger(limit));
    }
    Ok(bytes)
}

/// As [`bytes`], of a text.
pub fn text(path: &Path, limit: u64) -> Result<String, ReadError> {
    String::from_utf8(bytes(path, limit)?).map_err(|error| ReadError::NotText(error.utf8_error()))
}

fn regular(metadata: &fs::Metadata) -> Result<(), ReadError> {
    if metadata.is_file() {
        Ok(())
    } else {
        Err(ReadError::NotRegular)
    }
}

/// A limit in the largest unit that leaves no rest.
fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
pub(crate) mod odd;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 4096;

    #[test]
    fn a_file_is_read_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        for length in [0, 1, 4095, 4096] {
            fs::write(&file, vec![b'x'; length]).unwrap();
            assert_eq!(bytes(&file, LIMIT).unwrap().len(), length);
        }
        fs::write(&file, b"a\xff").unwrap();
        assert!(matches!(text(&file, LIMIT), Err(ReadError::NotText(_))));
        fs::remove_file(&file).unwrap();
        assert!(bytes(&file, LIMIT).unwrap_err().absent());
    }

    #[test]
    fn i7_what_is_no_file_or_has_no_end_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        odd::each(&file.clone(), LIMIT, move || {
            bytes(&file, LIMIT).unwrap_err().to_string()
        });
    }

    #[test]
    fn the_size_that_a_file_says_is_not_believed() {
        let status = Path::new("/proc/self/status");
        assert_eq!(fs::metadata(status).unwrap().len(), 0);
        assert!(matches!(bytes(status, 10), Err(ReadError::Larger(10))));
        assert!(text(status, LIMIT * 16).unwrap().starts_with("Name:"));
    }

    #[test]
    fn a_socket_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(matches!(open(&path), Err(ReadError::NotRegular)));
        // Even when it takes the place of a file between the look and the open.
        let late = ReadError::from(io::Error::from(Errno::ENXIO));
        assert!(matches!(late, ReadError::NotRegular));
    }

    #[test]
    fn limits_are_told_in_their_unit() {
        for (bytes, words) in [(1 << 20, "1 MiB"), (64 << 10, "64 KiB"), (100, "100 bytes")] {
            assert_eq!(size(bytes), words);
        }
    }
}
