//! As much of HTTP/1.1 (RFC 9112) as is served on this host: one request, one answer, and the connection ends.
//!
//! hyper's server would bring its parts of HTTP that nothing here uses. A head has a limit of size, and who serves it sets one of
//! time, so that nobody who connects has more than a few kilobytes for a few seconds (I14).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Request line and headers, bytes: those of Prometheus and Zincati are some hundred.
pub(super) const LONGEST: usize = 8 * 1024;
/// The answer to a head that is longer. It is not heard out: the kernel may tell it of a reset.
pub(super) const TOO_LONG: &str = "431 Request Header Fields Too Large";

/// All up to the empty line, and what of the body came with it; none: there is more than is read. Who ends before it has not
/// asked anything.
pub(super) async fn head<S: AsyncRead + Unpin>(
    stream: &mut S,
) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    const END: &[u8] = b"\r\n\r\n";
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while head.len() < LONGEST {
        let read = stream.read(&mut chunk).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // The end may stand across two of them.
        let from = head.len().saturating_sub(END.len() - 1);
        head.extend_from_slice(&chunk[..read]);
        let mut ends = head[from..].windows(END.len());
        if let Some(at) = ends.position(|end| end == END) {
            let body = head.split_off(from + at + END.len());
            return Ok(Some((head, body)));
        }
    }
    Ok(None)
}

/// The rest of a body of `length` bytes, of which `begun` came with the head. What comes after it is nobody's.
pub(super) async fn body<S: AsyncRead + Unpin>(
    stream: &mut S,
    begun: Vec<u8>,
    length: usize,
) -> io::Result<Vec<u8>> {
    let mut body = begun;
    body.truncate(length);
    let had = body.len();
    body.resize(length, 0);
    stream.read_exact(&mut body[had..]).await?;
    Ok(body)
}

/// Answers, and ends the connection.
pub(super) async fn send<S: AsyncWrite + Unpin>(
    stream: &mut S,
    status: &str,
    headers: &str,
    body: &str,
    with_body: bool,
) -> io::Result<()> {
    let length = body.len();
    let mut answer = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if with_body {
        answer.push_str(body);
    }
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}
