//! The kubelet's own word for its health, at /healthz on a port of this host.
//!
//! Keeps I7: a server that is silent, or does not end, is waited for a moment. What it means is `core`'s.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use kube_rebootd_core::alive;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::sockets;
use crate::root::Root;

/// The connection is kept, so that it is seen whose it is.
const REQUEST: &[u8] =
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nUser-Agent: kube-rebootd\r\n\r\n";
const LIMIT: Duration = Duration::from_secs(5);
/// Bytes of the answer that are read: its first line counts.
const HEAD: usize = 1024;
/// No kubelet can be heard there, as somebody else than root has the port. Where root listens, what it says counts.
pub fn contended(root: &Root, at: SocketAddr) -> bool {
    let any = |root_does: bool| {
        let is = |uid: &u32| (*uid == 0) == root_does;
        sockets::find(root, |line| alive::listens(line, at).filter(is)).is_some()
    };
    !any(true) && (any(false) || taken(at))
}

/// A socket has the port, though it listens to nobody and stands in no table.
fn taken(at: SocketAddr) -> bool {
    let socket = match at {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    let bound = socket.and_then(|socket| {
        // As Go does, so that connections that have ended are in nobody's way.
        socket.set_reuseaddr(true)?;
        socket.bind(at)
    });
    bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

/// Whether the kubelet answers there.
///
/// # Errors
/// It does not, and why.
pub async fn ask(root: &Root, at: SocketAddr) -> Result<(), String> {
    let asked = match timeout(LIMIT, exchange(at)).await {
        Err(_) => Err(format!(
            "{at}: no answer within {} seconds",
            LIMIT.as_secs()
        )),
        Ok(Err(error)) => Err(format!("{at}: {error}")),
        Ok(Ok((stream, head))) => alive::answer(&head)
            .map(|()| stream)
            .map_err(|why| format!("{at}: {why}")),
    };
    let stream = asked?;
    let ours = stream
        .local_addr()
        .map_err(|error| format!("{at}: {error}"))?;
    let is = |line: &str| alive::answers_as_root(line, at, ours).then_some(());
    if sockets::find(root, is).is_some() {
        return Ok(());
    }
    Err(format!(
        "{at}: who answers is not known to be root, by /proc/net/tcp"
    ))
}

/// The first line of the answer, and the connection, which is still open.
async fn exchange(at: SocketAddr) -> io::Result<(TcpStream, Vec<u8>)> {
    let mut stream = TcpStream::connect(at).await?;
    stream.write_all(REQUEST).await?;
    let mut head = Vec::new();
    while head.len() < HEAD && !head.contains(&b'\n') {
        let mut part = [0; HEAD];
        let read = stream.read(&mut part).await?;
        if read == 0 {
            break;
        }
        head.extend_from_slice(part.get(..read).unwrap_or_default());
    }
    Ok((stream, head))
}
