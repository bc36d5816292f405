//! As much of HTTP/1.1 (RFC 9112) as a scraper needs: `GET /metrics`, one answer, and the connection ends.
//!
//! A request has a limit of size and of time, so that nobody who connects has more than a few kilobytes for a few seconds (I14).

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd_core::metrics::Page;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::text::{TYPE, text};
use crate::host::door::Stream;
use crate::host::http::{TOO_LONG, head, send};

/// From the first byte of a request to the last of its answer; Prometheus itself gives up after 10 seconds.
const LIMIT: Duration = Duration::from_secs(5);

/// Answers one request.
pub(super) async fn serve(stream: Stream, page: Page) {
    let served = async {
        match stream {
            Stream::Tcp(stream) => answer(stream, &page).await,
            Stream::Unix(stream) => answer(stream, &page).await,
        }
    };
    match timeout(LIMIT, served).await {
        Ok(Ok(())) => {}
        Ok(Err(err)) => tracing::debug!("a scraper was not answered: {err}"),
        Err(_) => tracing::debug!("a scraper was too slow"),
    }
}

async fn answer<S>(mut stream: S, page: &Page) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some((head, _)) = head(&mut stream).await? else {
        return send(&mut stream, TOO_LONG, "", "", false).await;
    };
    let asked = asked(&head);
    let body = match asked {
        Asked::Metrics { .. } => text(page, Timestamp::now()),
        Asked::Method | Asked::Elsewhere | Asked::Nonsense => String::new(),
    };
    match asked {
        Asked::Metrics { body: with_body } => {
            let kind = format!("Content-Type: {TYPE}\r\n");
            send(&mut stream, "200 OK", &kind, &body, with_body).await
        }
        Asked::Method => {
            let allowed = "Allow: GET, HEAD\r\n";
            send(&mut stream, "405 Method Not Allowed", allowed, "", true).await
        }
        Asked::Elsewhere => send(&mut stream, "404 Not Found", "", "see /metrics\n", true).await,
        Asked::Nonsense => send(&mut stream, "400 Bad Request", "", "", true).await,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Metrics { body: bool },
    Method,
    Elsewhere,
    Nonsense,
}

/// What the request line asks for.
fn asked(head: &[u8]) -> Asked {
    let line = head.split(|&byte| byte == b'\r').next();
    let line = line.and_then(|line| std::str::from_utf8(line).ok());
    let words: Vec<&str> = line.unwrap_or_default().split(' ').collect();
    let [method, target, version] = words[..] else {
        return Asked::Nonsense;
    };
    if !["HTTP/1.1", "HTTP/1.0"].contains(&version) {
        return Asked::Nonsense;
    }
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        (_, path) if path != "/metrics" => Asked::Elsewhere,
        ("GET", _) => Asked::Metrics { body: true },
        ("HEAD", _) => Asked::Metrics { body: false },
        _ => Asked::Method,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixStream;

    use super::*;
    use crate::host::http::LONGEST;

    #[test]
    fn one_page_by_one_method() {
        let metrics = Asked::Metrics { body: true };
        for (line, expected) in [
            ("GET /metrics HTTP/1.1", metrics),
            ("GET /metrics HTTP/1.0", metrics),
            ("GET /metrics?x=/y HTTP/1.1", metrics),
            ("HEAD /metrics HTTP/1.1", Asked::Metrics { body: false }),
            ("POST /metrics HTTP/1.1", Asked::Method),
            ("GET / HTTP/1.1", Asked::Elsewhere),
            ("GET /metrics/../etc/passwd HTTP/1.1", Asked::Elsewhere),
            ("GET  /metrics HTTP/1.1", Asked::Nonsense),
            ("GET /metrics", Asked::Nonsense),
            ("GET /metrics HTTP/2.0", Asked::Nonsense),
            ("", Asked::Nonsense),
        ] {
            let head = format!("{line}\r\nHost: n1\r\n\r\n");
            assert_eq!(asked(head.as_bytes()), expected, "{line}");
        }
        assert_eq!(asked(&[0xff, 0xfe, b'\r', b'\n']), Asked::Nonsense);
    }

    /// What is answered to these bytes, the last of which may come late.
    async fn ask(parts: &[&[u8]]) -> String {
        let (client, server) = tokio::io::duplex(64);
        let (mut reads, mut writes) = tokio::io::split(client);
        let mut said = String::new();
        let write = async {
            for part in parts {
                // It may have heard enough already.
                if writes.write_all(part).await.is_err() {
                    return;
                }
            }
        };
        let page = Page::stopped();
        let _ = tokio::join!(
            write,
            reads.read_to_string(&mut said),
            answer(server, &page)
        );
        said
    }

    #[tokio::test]
    async fn a_request_may_come_in_pieces() {
        let said = ask(&[b"GET /metrics HTTP/1.1\r\nHost: n1\r", b"\n\r", b"\n"]).await;
        let (head, body) = said.split_once("\r\n\r\n").expect("an answer");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("Content-Type: text/plain; version=0.0.4"));
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
        assert!(body.ends_with("kube_rebootd_running 0.0\n"), "{body}");
        let said = ask(&[b"HEAD /metrics HTTP/1.1\r\n\r\n"]).await;
        assert!(
            said.ends_with("\r\n\r\n") && !said.contains("Length: 0"),
            "{said}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn i14_neither_a_long_request_nor_a_slow_one_is_heard_out() {
        let long = vec![b'x'; 3 * LONGEST];
        let said = ask(&[b"GET /metrics HTTP/1.1\r\nCookie: ", &long]).await;
        assert!(said.starts_with("HTTP/1.1 431 "), "{said}");
        let (mut client, server) = UnixStream::pair().expect("a pair");
        client.write_all(b"GET /met").await.expect("written");
        let began = tokio::time::Instant::now();
        serve(Stream::Unix(server), Page::stopped()).await;
        assert_eq!(began.elapsed(), LIMIT);
        let mut said = String::new();
        client.read_to_string(&mut said).await.expect("closed");
        assert_eq!(said, "");
    }
}
