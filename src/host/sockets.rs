//! Sockets of this host's network, by the tables of the kernel (`proc_net_tcp.txt` of its documentation).

use std::io::{self, BufRead as _};
use std::net::SocketAddr;

use kube_rebootd_core::alive;

use crate::bounded;
use crate::root::Root;

/// Who is connected from where. A user may have hundreds of thousands of connections, each a line of 150 bytes: they are read a
/// line at a time. tcp6 is not there where the kernel has no IPv6.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// A line is no longer.
const LINE: u64 = 4096;

/// What one line of the tables tells; none: no line does, or they cannot be read.
pub(super) fn find<T>(root: &Root, tells: impl Fn(&str) -> Option<T>) -> Option<T> {
    let mut tables = TABLES.iter();
    tables.find_map(|table| listed(root, table, &tells).ok().flatten())
}

/// The user whose process is connected from `client` to a server of this host at `server`.
pub(super) fn user_of(root: &Root, client: SocketAddr, server: SocketAddr) -> Option<u32> {
    find(root, |line| alive::connects(line, client, server))
}

fn listed<T>(root: &Root, table: &str, tells: impl Fn(&str) -> Option<T>) -> io::Result<Option<T>> {
    let mut reader =
        io::BufReader::new(bounded::open(&root.path(table)).map_err(io::Error::other)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = io::Read::take(&mut reader, LINE).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        if let Some(told) = tells(&String::from_utf8_lossy(&line)) {
            return Ok(Some(told));
        }
    }
}
