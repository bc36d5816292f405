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
/// A socket that listens, in /proc/net/tcp.
const LISTENS: &str = "0A";

/// What one look at the host found.
#[derive(Debug, Clone)]
pub struct Look {
    /// Whether the kubelet answers on its port, or why that is not known.
    pub healthz: Result<(), String>,
    /// Main processes of [`WHOLE`], or why they are not known.
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

/// All that listen at this address are root's, by the tables /proc/net/tcp and tcp6. Any user may listen at a port of a kubelet
/// that does not run.
pub fn roots(tables: &str, at: SocketAddr) -> bool {
    let here = |local: &SocketAddr| {
        let ip = local.ip().to_canonical();
        local.port() == at.port() && (ip == at.ip().to_canonical() || ip.is_unspecified())
    };
    let listeners = tables.lines().filter_map(listener);
    let uids: Vec<u32> = listeners
        .filter(|(local, _)| here(local))
        .map(|(_, uid)| uid)
        .collect();
    !uids.is_empty() && uids.iter().all(|uid| *uid == 0)
}

/// Where a line's socket listens, and whose it is (`proc_net_tcp.txt` of the kernel's documentation).
fn listener(line: &str) -> Option<(SocketAddr, u32)> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(8).collect();
    let [_, local, _, LISTENS, _, _, _, uid] = words[..] else {
        return None;
    };
    let (ip, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    Some((SocketAddr::new(address(ip)?, port), uid.parse().ok()?))
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

    /// As the kernel writes them: one that listens, and one that is connected.
    fn row(local: &str, state: &str, uid: u32) -> String {
        format!(
            "   1: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {uid:5}        0 18231 1 0 100 0 0 10 0\n"
        )
    }

    #[test]
    fn i14_a_server_of_an_ordinary_user_is_no_kubelet() {
        let at = "127.0.0.1:10248".parse().unwrap();
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let [own, any] = [[127, 0, 0, 1], [0; 4]].map(|ip| format!("{}:2808", word(ip)));
        let other = format!("{}:2808", word([127, 0, 0, 2]));
        let (zero, mapped) = (word([0; 4]), word([0, 0, 0xff, 0xff]));
        let any6 = format!("{zero}{zero}{zero}{zero}:2808");
        let own6 = format!("{zero}{zero}{mapped}{}:2808", word([127, 0, 0, 1]));
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        let table = |rows: &[(&str, &str, u32)]| {
            let rows = rows
                .iter()
                .map(|(local, state, uid)| row(local, state, *uid));
            head.to_owned() + &rows.collect::<String>()
        };
        for local in [&own, &any, &any6, &own6] {
            assert!(roots(&table(&[(local, "0A", 0)]), at), "{local}");
            assert!(!roots(&table(&[(local, "0A", 1000)]), at), "{local}");
            // Connected only.
            assert!(!roots(&table(&[(local, "01", 0)]), at), "{local}");
        }
        assert!(!roots(&table(&[(&other, "0A", 0)]), at), "elsewhere");
        assert!(!roots(&table(&[(&own, "0A", 0), (&any, "0A", 1000)]), at));
        let beside = [(&*own, "0A", 0), (&*other, "0A", 1000), (&*own, "01", 1000)];
        assert!(roots(&table(&beside), at));
        assert!(!roots("", at) && !roots(head, at) && !roots("x: y:z 0A\n", at));
        let six = "[::1]:10248".parse().unwrap();
        let one = format!("{zero}{zero}{zero}{}:2808", word([0, 0, 0, 1]));
        assert!(roots(&table(&[(&one, "0A", 0)]), six));
    }

    #[test]
    fn whatever_the_tables_hold_nothing_panics() {
        let text = row("0100007F:2808", "0A", 0);
        for end in 0..text.len() {
            let at = "127.0.0.1:10248".parse().unwrap();
            roots(&text[..end], at);
            roots(&text[end..], at);
        }
        assert_eq!(address("é000000"), None);
    }
}
