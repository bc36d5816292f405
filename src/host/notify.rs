//! What is told to systemd (`sd_notify(3)`): READY, STATUS, RELOADING, STOPPING, WATCHDOG.
//!
//! A message that cannot be delivered never fails the daemon, and without `NOTIFY_SOCKET` all of
//! this does nothing.

use std::time::Duration;

use sd_notify::NotifyState;

use crate::text;

/// Characters of STATUS; systemd shows one line.
const SENTENCE: usize = 2_000;

/// The channel to systemd. Remembers the status, which is sent only when it changed.
#[derive(Debug, Default)]
pub struct Notify {
    status: Option<String>,
}

impl Notify {
    /// Nothing sent yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Started: configuration read and bus reached. Also ends a reload.
    pub fn ready(&self) {
        send(&[NotifyState::Ready]);
    }

    /// One sentence for `systemctl status`; a newline would begin another message, and becomes a
    /// space. Longer than any sentence of ours is nothing that a person reads there.
    pub fn status(&mut self, sentence: &str) {
        let line = text::clean(sentence, SENTENCE);
        if self.status.as_deref() == Some(line.as_str()) {
            return;
        }
        send(&[NotifyState::Status(&line)]);
        self.status = Some(line);
    }

    /// A reload begins; [`Notify::ready`] ends it.
    pub fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => send(&[NotifyState::Reloading, now]),
            Err(_) => send(&[NotifyState::Reloading]),
        }
    }

    /// The daemon is ending.
    pub fn stopping(&self) {
        send(&[NotifyState::Stopping]);
    }

    /// The main loop is alive; from nowhere else, or a stuck loop looks alive.
    pub fn watchdog(&self) {
        send(&[NotifyState::Watchdog]);
    }
}

/// How often [`Notify::watchdog`] is due: half of `WatchdogSec=`, as `sd_watchdog_enabled(3)`
/// advises; `None` without one.
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}

fn send(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "systemd was not told");
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixDatagram, process::Command};

    use super::*;

    /// Run by `systemd_is_told` in a process of its own, because the socket is an environment
    /// variable; run without one it proves that nothing fails then.
    #[test]
    fn speaks_to_the_socket_it_is_given() {
        let mut notify = Notify::new();
        notify.ready();
        notify.status("one\ntwo");
        notify.status("one two");
        notify.status("three");
        notify.reloading();
        notify.watchdog();
        notify.stopping();
        let expected = std::env::var("NOTIFY_SOCKET")
            .ok()
            .map(|_| Duration::from_secs(90));
        assert_eq!(watchdog_interval(), expected);
    }

    #[test]
    fn systemd_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "host::notify::tests::speaks_to_the_socket_it_is_given",
            ])
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "180000000")
            .env_remove("WATCHDOG_PID")
            .output()
            .unwrap();
        assert!(child.status.success(), "{child:?}");
        let mut seen = Vec::new();
        while seen.last().is_none_or(|line| line != "STOPPING=1") {
            let mut bytes = [0; 512];
            let length = socket.recv(&mut bytes).unwrap();
            seen.push(String::from_utf8_lossy(&bytes[..length]).trim().to_owned());
        }
        assert!(
            seen[3].starts_with("RELOADING=1\nMONOTONIC_USEC="),
            "{seen:?}"
        );
        seen.remove(3);
        assert_eq!(
            seen,
            [
                "READY=1",
                "STATUS=one two",
                "STATUS=three",
                "WATCHDOG=1",
                "STOPPING=1"
            ]
        );
    }
}
