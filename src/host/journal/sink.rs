//! Where log records end: journald's native protocol, or lines on standard error.
//!
//! Only the log's own thread writes here: both block when their reader is stuck.
//! Protocol: <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>.

use std::{
    io::{self, Write},
    os::unix::net::UnixDatagram,
    path::PathBuf,
};

use super::Record;
use crate::root::Root;

const SOCKET: &str = "/run/systemd/journal/socket";
/// `SYSLOG_IDENTIFIER` of every record.
pub const IDENTIFIER: &str = "kube-rebootd";

/// The end of the log.
#[derive(Debug)]
pub enum Sink {
    /// Datagrams to journald, which is addressed anew each time: it may restart.
    Journald {
        /// Ours, unbound.
        socket: UnixDatagram,
        /// journald's.
        path: PathBuf,
    },
    /// Lines, for terminals and containers.
    Stderr,
}

impl Sink {
    /// journald, or standard error when no socket can be made.
    pub fn journald(root: &Root) -> Self {
        match UnixDatagram::unbound() {
            Ok(socket) => Self::Journald {
                socket,
                path: root.path(SOCKET),
            },
            Err(_) => Self::Stderr,
        }
    }

    /// As systemd calls it: `journal`, or `console`.
    pub(super) fn target(&self) -> &'static str {
        match self {
            Self::Journald { .. } => "journal",
            Self::Stderr => "console",
        }
    }

    /// Writes one record; what journald does not take goes to standard error.
    pub(super) fn write(&self, record: &Record) {
        match self {
            Self::Journald { socket, path } => {
                if socket.send_to(&datagram(record), path).is_err() {
                    to_stderr(record);
                }
            }
            Self::Stderr => to_stderr(record),
        }
    }

    /// The same right before the process ends.
    pub(super) fn write_last(&self, record: &Record) {
        match self {
            Self::Journald { .. } => on_stderr(&stream(record)),
            Self::Stderr => to_stderr(record),
        }
    }
}

fn to_stderr(record: &Record) {
    on_stderr(&line(record));
}

fn on_stderr(text: &str) {
    // Nobody is left to tell when this fails.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// One datagram: a line for each field, or the binary form for values with a newline.
pub(super) fn datagram(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    field(&mut bytes, "MESSAGE", &record.message);
    field(&mut bytes, "PRIORITY", &record.priority.to_string());
    field(&mut bytes, "SYSLOG_IDENTIFIER", IDENTIFIER);
    for (key, value) in &record.fields {
        field(&mut bytes, key, value);
    }
    bytes
}

fn field(bytes: &mut Vec<u8>, key: &str, value: &str) {
    bytes.extend_from_slice(key.as_bytes());
    if value.contains('\n') {
        bytes.push(b'\n');
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        bytes.push(b'=');
    }
    bytes.extend_from_slice(value.as_bytes());
    bytes.push(b'\n');
}

/// The message as journald reads it from a stream: each line is a record and begins with its priority (sd-daemon(3)).
pub(super) fn stream(record: &Record) -> String {
    let mut text = String::new();
    let level = format!("<{}>", record.priority);
    for line in record.message.lines() {
        text.push_str(&level);
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// `LEVEL message key=value`, in one line.
pub(super) fn line(record: &Record) -> String {
    let level = match record.priority {
        ..=3 => "ERROR",
        4 => "WARN",
        5 | 6 => "INFO",
        7.. => "DEBUG",
    };
    let mut line = format!("{level} {}", record.message);
    for (key, value) in &record.fields {
        if key != "MESSAGE_ID" {
            line.push(' ');
            line.push_str(&key.to_ascii_lowercase());
            line.push('=');
            line.push_str(value);
        }
    }
    line = line.replace('\n', " ");
    line.push('\n');
    line
}
