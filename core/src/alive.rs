//! Whether the kubelet of this boot is alive, for `kube-rebootd boot-ok` (docs/design.md 9).
//!
//! All of it is known on the host alone: boot loaders fall back by it, and no boot may count as bad because the API server is
//! away. Keeps I8 (what is not known is no sign of life) and I14 (a server of an ordinary user is none).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use crate::kubelet::MainProcess;
use crate::text::{self, NAME, span};

/// Services whose kubelet is one of several parts of a process. It begins only once that process has reached its server, so
/// that the process itself has to do, once it has stayed for [`STEADY`].
pub const WHOLE: [&str; 7] = [
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "k0scontroller.service",
    "k0sworker.service",
    "snap.microk8s.daemon-kubelite.service",
];
/// A process that cannot work on this host has ended before, and systemd has begun another.
const STEADY: Duration = Duration::from_secs(60);
/// Sockets that are connected and that listen, in /proc/net/tcp.
const CONNECTED: &str = "01";
const LISTENS: &str = "0A";

/// What one look at the host found.
#[derive(Debug, Clone)]
pub struct Look {
    /// Whether the kubelet answers on its port, or why that is not known.
    pub healthz: Result<(), String>,
    /// Main processes of [`WHOLE`], and of a kubelet that somebody else than root may keep from being heard; or why they are not
    /// known.
    pub services: Result<Vec<MainProcess>, String>,
}

/// What was seen of one boot.
#[derive(Debug, Default)]
pub struct Signs {
    /// Main process by service, and since when it is seen.
    seen: BTreeMap<String, (u32, Duration)>,
}

impl Signs {
    /// By what it is seen that the kubelet is alive, in words.
    ///
    /// # Errors
    /// It is not seen, and what is missing.
    pub fn look(&mut self, look: Look, now: Duration) -> Result<String, String> {
        let mut missing = match look.healthz {
            Ok(()) => return Ok("it answers at /healthz".to_owned()),
            Err(why) => vec![why],
        };
        match look.services {
            Ok(services) => {
                let before = std::mem::take(&mut self.seen);
                for one in services {
                    let same = before.get(&one.unit).filter(|(pid, _)| *pid == one.pid);
                    let since = same.map_or(now, |(_, since)| *since);
                    let unit = text::name(&one.unit, NAME);
                    let lasts = now.saturating_sub(since);
                    if lasts >= STEADY {
                        return Ok(format!("{unit} has run for {}", span(lasts)));
                    }
                    missing.push(format!("{unit} runs for {} only", span(lasts)));
                    self.seen.insert(one.unit, (one.pid, since));
                }
            }
            Err(why) => missing.push(why),
        }
        Err(missing.join("; "))
    }
}

/// Reads what a server answered to a request for /healthz.
///
/// # Errors
/// It is no yes, and what it is.
pub fn answer(head: &[u8]) -> Result<(), String> {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let http = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
    if http && words.next() == Some("200") {
        return Ok(());
    }
    Err(match text::clean(&line, NAME) {
        line if line.is_empty() => "there is no answer to /healthz".to_owned(),
        line => format!("the answer to /healthz is {line}"),
    })
}

/// Who answers at `server` to a socket of ours at `client` is root, by a line of /proc/net/tcp or tcp6: any user may listen at
/// a port of a kubelet that does not run, and beside one that does. The line of a connection has the user who accepted it, as
/// long as both ends are open.
pub fn answers_as_root(line: &str, server: SocketAddr, client: SocketAddr) -> bool {
    Socket::of(line, CONNECTED).is_some_and(|socket| {
        same(socket.local, server) && same(socket.remote, client) && socket.uid == 0
    })
}

/// Whose socket at `client` is connected to one of this host at `server`, by a line of the same tables.
pub fn connects(line: &str, client: SocketAddr, server: SocketAddr) -> Option<u32> {
    let socket = Socket::of(line, CONNECTED)?;
    (same(socket.local, client) && same(socket.remote, server)).then_some(socket.uid)
}

fn same(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && one.ip().to_canonical() == other.ip().to_canonical()
}

/// Whose socket listens where the kubelet is to answer, by a line of the same tables: who is not root may keep it from being
/// heard.
pub fn listens(line: &str, server: SocketAddr) -> Option<u32> {
    let socket = Socket::of(line, LISTENS)?;
    let ip = socket.local.ip().to_canonical();
    let here = ip == server.ip().to_canonical() || ip.is_unspecified();
    (socket.local.port() == server.port() && here).then_some(socket.uid)
}

/// A line of the tables (`proc_net_tcp.txt` of the kernel's documentation).
struct Socket {
    local: SocketAddr,
    remote: SocketAddr,
    uid: u32,
}

impl Socket {
    /// None: it is in another state, or no such line.
    fn of(line: &str, state: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_ascii_whitespace().take(8).collect();
        let [_, local, remote, is, _, _, _, uid] = words[..] else {
            return None;
        };
        (is == state).then_some(())?;
        Some(Self {
            local: place(local)?,
            remote: place(remote)?,
            uid: uid.parse().ok()?,
        })
    }
}

fn place(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(SocketAddr::new(address(ip)?, port))
}

/// Words of 32 bits in the order of the host's bytes.
fn address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = hex.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(word, 16).ok()?.to_ne_bytes())
    };
    match hex.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            Some(Ipv6Addr::from(<[u8; 16]>::try_from(words).ok()?).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: &str = "127.0.0.1:10248: connection refused";

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn process(unit: &str, pid: u32) -> MainProcess {
        MainProcess {
            unit: unit.to_owned(),
            pid,
            cgroup: String::new(),
        }
    }

    fn silent(services: Result<Vec<MainProcess>, String>) -> Look {
        Look {
            healthz: Err(NOTHING.to_owned()),
            services,
        }
    }

    #[test]
    fn a_kubelet_that_answers_is_alive_whatever_else_is_known() {
        let look = Look {
            healthz: Ok(()),
            services: Err("no bus".to_owned()),
        };
        assert!(Signs::default().look(look, seconds(1)).is_ok());
    }

    #[test]
    fn i8_what_is_not_known_is_no_sign_of_life() {
        let mut signs = Signs::default();
        for (services, wanted) in [
            (Ok(Vec::new()), NOTHING.to_owned()),
            (Err("no bus".to_owned()), format!("{NOTHING}; no bus")),
        ] {
            // However long it is waited for.
            for now in [0, 3600] {
                let said = signs.look(silent(services.clone()), seconds(now));
                assert_eq!(said, Err(wanted.clone()));
            }
        }
    }

    /// Its kubelet begins only once it has reached its server, which may be away.
    #[test]
    fn a_process_that_has_the_kubelet_in_it_is_alive_once_it_stays() {
        let mut signs = Signs::default();
        let mut see = |pids: &[u32], now: u64| {
            let all = pids.iter().map(|pid| process("k3s-agent.service", *pid));
            signs.look(silent(Ok(all.collect())), seconds(now))
        };
        assert!(see(&[7], 100).is_err());
        let said = see(&[7], 159).unwrap_err();
        assert_eq!(
            said,
            format!("{NOTHING}; k3s-agent.service runs for 59s only")
        );
        // It crashes again and again: another process each time, or none for a moment.
        assert!(see(&[8], 160).is_err());
        assert!(see(&[8], 219).is_err());
        assert!(see(&[], 220).is_err());
        assert!(see(&[8], 221).is_err(), "not since when it was seen first");
        assert_eq!(
            see(&[8], 281),
            Ok("k3s-agent.service has run for 1m".to_owned())
        );
    }

    #[test]
    fn i14_only_a_yes_is_a_yes() {
        for good in ["HTTP/1.1 200 OK\r\n\r\nok", "HTTP/1.0 200\n"] {
            assert_eq!(answer(good.as_bytes()), Ok(()), "{good:?}");
        }
        for (bad, wanted) in [
            (&b""[..], "there is no answer to /healthz"),
            (b"\r\n", "there is no answer to /healthz"),
            (
                b"HTTP/1.1 500 Internal Server Error\r\n\r\n",
                "the answer to /healthz is HTTP/1.1 500 Internal Server Error",
            ),
            (b"HTTP/1.1\n200", "the answer to /healthz is HTTP/1.1"),
            (b"SSH-2.0 200", "the answer to /healthz is SSH-2.0 200"),
        ] {
            assert_eq!(answer(bad), Err(wanted.to_owned()));
        }
        let odd = answer(b"HTTP/1.1 500 \x1b[2J\xff").unwrap_err();
        assert!(!odd.contains('\u{1b}'), "{odd:?}");
    }

    /// As the kernel writes them.
    fn row(local: &str, remote: &str, state: &str, uid: u32) -> String {
        format!(
            "   1: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {uid:5}        0 18231 1 0 100 0 0 10 0\n"
        )
    }

    #[test]
    fn i14_a_server_of_an_ordinary_user_is_no_kubelet() {
        let [server, client] = ["127.0.0.1:10248", "127.0.0.1:40000"].map(|at| at.parse().unwrap());
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let four = word([127, 0, 0, 1]);
        let (zero, mapped) = (word([0; 4]), word([0, 0, 0xff, 0xff]));
        let six = format!("{zero}{zero}{mapped}{four}");
        let root = |local: &str, remote: &str, state: &str, uid| {
            answers_as_root(&row(local, remote, state, uid), server, client)
        };
        for ip in [&four, &six] {
            let (own, peer) = (format!("{ip}:2808"), format!("{ip}:9C40"));
            assert!(root(&own, &peer, "01", 0), "{ip}");
            assert!(!root(&own, &peer, "01", 1000), "{ip}");
            // A server that has closed it has nobody's name any more; and our own end is ours.
            for state in ["04", "05", "06", "08", "0A"] {
                assert!(!root(&own, &peer, state, 0), "{ip} {state}");
            }
            assert!(!root(&peer, &own, "01", 0), "{ip}");
            // Another's connection to the same server, and ours to another.
            assert!(!root(&own, &format!("{ip}:9C41"), "01", 0), "{ip}");
            assert!(!root(&format!("{ip}:2809"), &peer, "01", 0), "{ip}");
        }
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        for odd in ["", head, "x: y:z 0A\n"] {
            assert!(!answers_as_root(odd, server, client), "{odd:?}");
        }
        let [server, client] = ["[::1]:10248", "[::1]:40000"].map(|at| at.parse().unwrap());
        let one = format!("{zero}{zero}{zero}{}", word([0, 0, 0, 1]));
        let line = row(&format!("{one}:2808"), &format!("{one}:9C40"), "01", 0);
        assert!(answers_as_root(&line, server, client));
    }

    /// Found by review: a user who listened there as well made every boot a bad one.
    #[test]
    fn i14_who_else_listens_is_seen() {
        let server = "127.0.0.1:10248".parse().unwrap();
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let zero = word([0; 4]);
        let nobody = format!("{zero}:0000");
        let whose = |ip: &str, port: &str, state: &str, uid| {
            listens(&row(&format!("{ip}:{port}"), &nobody, state, uid), server)
        };
        let any6 = format!("{zero}{zero}{zero}{zero}");
        for ip in [&word([127, 0, 0, 1]), &zero, &any6] {
            assert_eq!(whose(ip, "2808", "0A", 1000), Some(1000), "{ip}");
            assert_eq!(whose(ip, "2808", "0A", 0), Some(0), "{ip}");
            assert_eq!(whose(ip, "2808", "01", 1000), None, "{ip}");
            assert_eq!(whose(ip, "2809", "0A", 1000), None, "{ip}");
        }
        assert_eq!(whose(&word([127, 0, 0, 2]), "2808", "0A", 1000), None);
    }

    #[test]
    fn whatever_the_tables_hold_nothing_panics() {
        let text = row("0100007F:2808", "0100007F:9C40", "01", 0);
        for end in 0..text.len() {
            let at = "127.0.0.1:10248".parse().unwrap();
            answers_as_root(&text[..end], at, at);
            answers_as_root(&text[end..], at, at);
        }
        assert_eq!(address("é000000"), None);
    }
}
