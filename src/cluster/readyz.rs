//! Whether the other API servers of the control plane say at `/readyz` that they are ready (I8, I13).
//!
//! Anybody may ask that by the built-in `ClusterRole` `system:public-info-viewer`. Each is asked with the credential and the CA of the
//! kubeconfig, as the one that it names.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use futures_util::future::join_all;
use http::{Request, StatusCode, Uri};
use kube::Client;
use kube::client::Body;
use tokio::net::lookup_host;
use tokio::time::timeout;

use crate::cluster::answer::call;

/// For one answer, and for the addresses of one name.
const WITHIN: Duration = Duration::from_secs(10);
/// Of https.
const PORT: u16 = 443;

/// One that is configured.
#[derive(Clone)]
pub struct ApiServer {
    url: String,
    client: Client,
}

impl ApiServer {
    pub fn new(url: &str, client: Client) -> Self {
        Self {
            url: url.to_owned(),
            client,
        }
    }

    /// Why it does not count as ready; none: it is, or it is this host's own.
    async fn unready(&self) -> Option<String> {
        if own(&self.url).await {
            return None;
        }
        let request = match Request::get("/readyz").body(Body::empty()) {
            Ok(request) => request,
            Err(error) => return Some(format!("{}: {error}", self.url)),
        };
        let what = format!("ask {}/readyz", self.url);
        match call(&what, WITHIN, self.client.send(request)).await {
            Ok(answer) if answer.status() == StatusCode::OK => None,
            Ok(answer) => Some(format!(
                "{}/readyz answers {}",
                self.url,
                answer.status().as_u16()
            )),
            Err(error) => Some(error.to_string()),
        }
    }
}

/// Which of them are not ready, and why; none: all but this host's own are.
pub async fn unready(servers: &[ApiServer]) -> Option<String> {
    let all = join_all(servers.iter().map(ApiServer::unready)).await;
    let why: Vec<String> = all.into_iter().flatten().collect();
    (!why.is_empty()).then(|| why.join("; "))
}

/// All addresses of it are this host's. What cannot be resolved is another's (I8).
async fn own(url: &str) -> bool {
    let Ok(url) = url.parse::<Uri>() else {
        return false;
    };
    let host = url.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let found = timeout(WITHIN, lookup_host((host, url.port_u16().unwrap_or(PORT)))).await;
    let Ok(Ok(found)) = found else {
        return false;
    };
    let found: Vec<SocketAddr> = found.collect();
    !found.is_empty() && found.iter().all(is_own)
}

/// The way to an address of this host begins at that address; nothing is sent. Whether one can be bound says less: with
/// `net.ipv4.ip_nonlocal_bind`, as keepalived wants it, any can. The way to a second address of one network begins at the first:
/// such a one is asked, as another's.
fn is_own(address: &SocketAddr) -> bool {
    let any = if address.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let way = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    let ip = address.ip();
    ip.is_loopback() || way.is_ok_and(|from| from.ip() == ip)
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    /// One of no host that there is (RFC 5737), which answers so.
    fn server(answer: Option<u16>) -> ApiServer {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            assert_eq!(request.uri().path(), "/readyz");
            let Some(code) = answer else {
                return Err(std::io::Error::other("connection refused"));
            };
            let mut response = Response::new(Body::from("[-]etcd failed".to_owned().into_bytes()));
            *response.status_mut() = StatusCode::from_u16(code).expect("a code");
            Ok(response)
        });
        ApiServer::new("https://192.0.2.7:6443", Client::new(service, "default"))
    }

    #[tokio::test]
    async fn i8_only_200_is_ready() {
        assert_eq!(unready(&[]).await, None);
        assert_eq!(unready(&[server(Some(200))]).await, None);
        for code in [204, 301, 401, 403, 404, 429, 500, 503] {
            let said = unready(&[server(Some(200)), server(Some(code))]).await;
            let words = format!("https://192.0.2.7:6443/readyz answers {code}");
            assert_eq!(said, Some(words));
        }
        let said = unready(&[server(None), server(Some(500))]).await;
        let said = said.expect("two are not");
        for words in [
            "ask https://192.0.2.7:6443/readyz: no answer: ",
            "connection refused; https://192.0.2.7:6443/readyz answers 500",
        ] {
            assert!(said.contains(words), "{said}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn i7_i8_one_that_hangs_is_not_ready() {
        let service = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, std::io::Error>>()
        });
        let silent = ApiServer::new("https://192.0.2.7:6443", Client::new(service, "default"));
        let said = unready(&[silent]).await.expect("it is not ready");
        assert!(said.contains("nothing within 10 s"), "{said}");
    }

    #[tokio::test]
    async fn an_address_of_this_host_is_its_own_and_is_not_asked() {
        for (url, is) in [
            ("https://127.0.0.1:6443", true),
            ("https://127.9.9.9", true),
            ("https://[::1]:6443", true),
            ("https://192.0.2.7:6443", false),
            ("https://name.invalid:6443", false),
            ("no url", false),
        ] {
            assert_eq!(own(url).await, is, "{url}");
        }
        let silent = tower::service_fn(|_: Request<Body>| async {
            Err::<Response<Body>, _>(std::io::Error::other("it was asked"))
        });
        let client = Client::new(silent, "default");
        assert_eq!(
            unready(&[ApiServer::new("https://127.0.0.1:6443", client)]).await,
            None
        );
    }
}
