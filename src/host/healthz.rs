//! The kubelet's own word for its health, at /healthz on a port of this host.
//!
//! Keeps I7: a server that is silent, or does not end, is waited for a moment. What it means is `core`'s.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use kube_rebootd_core::alive;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::bounded;
use crate::root::Root;

const REQUEST: &[u8] = b"GET /healthz HTTP/1.0\r\nUser-Agent: kube-rebootd\r\n\r\n";
const LIMIT: Duration = Duration::from_secs(5);
/// Bytes of the answer that are read: its first line counts.
const HEAD: u64 = 1024;
/// Who listens where. A node may have some ten thousand connections, each a line of 150 bytes.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
const TABLE_MAX: u64 = 64 * 1024 * 1024;

/// Whether the kubelet answers there.
///
/// # Errors
/// It does not, and why.
pub async fn ask(root: &Root, at: SocketAddr) -> Result<(), String> {
    match timeout(LIMIT, exchange(at)).await {
        Err(_) => Err(format!(
            "{at}: no answer within {} seconds",
            LIMIT.as_secs()
        )),
        Ok(Err(error)) => Err(format!("{at}: {error}")),
        Ok(Ok(head)) => alive::answer(&head).map_err(|why| format!("{at}: {why}")),
    }?;
    // tcp6 is not there where the kernel has no IPv6.
    let table = |path| bounded::bytes(&root.path(path), TABLE_MAX).unwrap_or_default();
    let tables = TABLES.map(table).concat();
    if alive::roots(&String::from_utf8_lossy(&tables), at) {
        return Ok(());
    }
    Err(format!(
        "{at}: who answers is not known to be root's, by /proc/net/tcp"
    ))
}

async fn exchange(at: SocketAddr) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(at).await?;
    stream.write_all(REQUEST).await?;
    let mut head = Vec::new();
    stream.take(HEAD).read_to_end(&mut head).await?;
    Ok(head)
}
