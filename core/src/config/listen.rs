//! Where something is served: `metrics.listen`, `fleet_lock.listen`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use crate::label::is_absolute;

/// Longest path of a Unix socket, bytes: `sun_path` of unix(7) has 108 and ends with a NUL.
const PATH_MAX: usize = 107;
/// Where a URL of HTTP names no port.
const HTTP: u16 = 80;

/// Where somebody may connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A Unix socket at this absolute path.
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl Listen {
    /// `unix:` and an absolute path, or an IP address with a port that is not 0; none: neither.
    pub fn new(text: &str) -> Option<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            let good = is_absolute(path) && !path.ends_with('/') && path.len() <= PATH_MAX;
            return good.then(|| Self::Unix(PathBuf::from(path)));
        }
        let address: SocketAddr = text.parse().ok()?;
        (address.port() != 0).then_some(Self::Tcp(address))
    }

    /// Only this host reaches it.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
        }
    }

    /// Whether a client of this URL connects there. A name may be anybody's; `localhost` is two addresses, and on the one where this
    /// does not listen any user of the host may (I14). Before a Unix socket there must be a proxy, which is on this host and has
    /// some port.
    pub(crate) fn is_at(&self, url: &str) -> bool {
        let Some(rest) = url.strip_prefix("http://") else {
            return false;
        };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
            _ => (host, Some(HTTP)),
        };
        let bare = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let ip = bare.unwrap_or(name).parse::<IpAddr>();
        let Self::Tcp(address) = self else {
            let local = ip.map_or(name == "localhost", |ip| ip.to_canonical().is_loopback());
            return local && port.is_some();
        };
        // Whoever listens at all addresses listens at the loopback ones of the same family; another address may be another host's.
        let (own, all) = (address.ip(), address.ip().is_unspecified());
        let is = |ip: IpAddr| ip == own || all && ip.is_loopback() && ip.is_ipv4() == own.is_ipv4();
        ip.is_ok_and(is) && port == Some(address.port())
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

/// `node_exporter` reads no other files.
pub(super) fn is_prom_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let stem = name.strip_suffix(".prom");
    is_absolute(path) && stem.is_some_and(|stem| !stem.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_socket_or_an_ip_address_with_a_port() {
        for text in [
            "unix:/run/kube-rebootd-metrics.sock",
            "127.0.0.1:9797",
            "[::1]:9797",
            "0.0.0.0:1",
        ] {
            let listen = Listen::new(text).expect(text);
            assert_eq!(listen.to_string(), text);
        }
        let long = format!("unix:/{}", "x".repeat(PATH_MAX));
        for text in [
            "",
            "unix:",
            "unix:run/metrics.sock",
            "unix:/",
            "/run/metrics.sock",
            "localhost:9797",
            "127.0.0.1",
            "127.0.0.1:0",
            ":9797",
            "::1:9797",
            "http://127.0.0.1:9797",
            long.as_str(),
        ] {
            assert_eq!(Listen::new(text), None, "{text}");
        }
    }

    #[test]
    fn i8_a_url_that_may_lead_elsewhere_does_not_lead_here() {
        for (listen, here) in [
            ("127.0.0.1:3333", "http://127.0.0.1:3333/"),
            ("127.0.0.1:3333", "http://127.0.0.1:3333"),
            ("127.0.0.1:3333", "http://127.0.0.1:3333/x?y#z"),
            ("127.0.0.1:80", "http://127.0.0.1/"),
            ("[::1]:3333", "http://[::1]:3333/"),
            ("[::1]:80", "http://[::1]/"),
            ("0.0.0.0:3333", "http://127.0.0.1:3333/"),
            ("[::]:3333", "http://[::1]:3333/"),
            ("10.0.0.1:3333", "http://10.0.0.1:3333/"),
            ("unix:/run/x", "http://127.0.0.1:8080/"),
            ("unix:/run/x", "http://[::1]/"),
            ("unix:/run/x", "http://localhost:8080/"),
        ] {
            let listen = Listen::new(listen).expect(listen);
            assert!(listen.is_at(here), "{listen} {here}");
        }
        for (listen, elsewhere) in [
            ("127.0.0.1:3333", ""),
            ("127.0.0.1:3333", "127.0.0.1:3333"),
            ("127.0.0.1:3333", "https://127.0.0.1:3333/"),
            ("127.0.0.1:3333", "http://127.0.0.1/"),
            ("127.0.0.1:3333", "http://127.0.0.1:3334/"),
            ("127.0.0.1:3333", "http://127.0.0.2:3333/"),
            ("127.0.0.1:3333", "http://lock.example:3333/"),
            ("127.0.0.1:3333", "http://127.0.0.1:3333@lock.example/"),
            ("127.0.0.1:3333", "http://lock.example/127.0.0.1:3333/"),
            ("127.0.0.1:3333", "http://${stream}:3333/"),
            ("127.0.0.1:3333", "http://[::1]:3333/"),
            // Found by review: at the other address of localhost any user may listen, and tell the updater to go on.
            ("127.0.0.1:3333", "http://localhost:3333/"),
            ("[::1]:3333", "http://localhost:3333/"),
            ("[::]:3333", "http://localhost:3333/"),
            ("0.0.0.0:3333", "http://[::1]:3333/"),
            ("10.0.0.1:3333", "http://localhost:3333/"),
            ("0.0.0.0:3333", "http://10.0.0.1:3333/"),
            ("unix:/run/x", "http://lock.example/"),
            ("unix:/run/x", "http://10.0.0.1:8080/"),
            ("unix:/run/x", "http://localhost:none/"),
            ("unix:/run/x", ""),
        ] {
            let listen = Listen::new(listen).expect(listen);
            assert!(!listen.is_at(elsewhere), "{listen} {elsewhere}");
        }
    }

    #[test]
    fn a_textfile_is_one_that_node_exporter_reads() {
        assert!(is_prom_file("/var/lib/node_exporter/kube-rebootd.prom"));
        for path in [
            "",
            "/x/.prom",
            "x.prom",
            "/x.prom/",
            "/x.txt",
            "/x.prom.tmp",
        ] {
            assert!(!is_prom_file(path), "{path}");
        }
    }
}
