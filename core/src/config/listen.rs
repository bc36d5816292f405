//! Where something is served: `metrics.listen`, `fleet_lock.listen`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::label::is_absolute;

/// Longest path of a Unix socket, bytes: `sun_path` of unix(7) has 108 and ends with a NUL.
const PATH_MAX: usize = 107;

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
