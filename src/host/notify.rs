//! What is told to systemd (`sd_notify(3)`): READY, STATUS, RELOADING, STOPPING, WATCHDOG.
//!
//! The daemon does not wait for systemd longer than a moment: what PID 1 does not take, as it reloads or is busy, is owed
//! and told again (I7). A message that cannot be delivered never fails the daemon, and without `NOTIFY_SOCKET` all of this does
//! nothing.

use std::collections::VecDeque;
use std::env;
use std::ffi::OsStr;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use sd_notify::NotifyState;

use kube_rebootd_core::text;

/// Characters of STATUS; systemd shows one line.
const SENTENCE: usize = 2_000;
/// So long a message waits in turn with those of others.
const MOMENT: Duration = Duration::from_millis(50);
/// What is owed is told again after so long: short beside any `WatchdogSec=`.
const AGAIN: Duration = Duration::from_secs(1);
/// Messages owed at most; the oldest is dropped first. A STATUS or WATCHDOG takes the place of the one before.
const OWED: usize = 16;

/// The channel to systemd. Remembers the status, which is sent only when it changed.
#[derive(Debug, Default)]
pub struct Notify {
    /// None: nobody listens.
    socket: Option<SocketAddr>,
    status: Option<String>,
    owed: VecDeque<String>,
}

impl Notify {
    /// To the socket of `NOTIFY_SOCKET`; nothing sent yet.
    pub fn new() -> Self {
        let socket = env::var_os("NOTIFY_SOCKET").and_then(|socket| match address(&socket) {
            Ok(address) => Some(address),
            Err(error) => {
                tracing::warn!("NOTIFY_SOCKET is {}: {error}", socket.display());
                None
            }
        });
        Self {
            socket,
            ..Self::default()
        }
    }

    /// Started: configuration read and bus reached. Also ends a reload.
    pub fn ready(&mut self) {
        self.tell(&[NotifyState::Ready]);
    }

    /// One sentence for `systemctl status`; a newline would begin another message, and becomes a
    /// space. Longer than any sentence of ours is nothing that a person reads there.
    pub fn status(&mut self, sentence: &str) {
        let line = text::clean(sentence, SENTENCE);
        if self.status.as_deref() == Some(line.as_str()) {
            return;
        }
        self.tell(&[NotifyState::Status(&line)]);
        self.status = Some(line);
    }

    /// The sentence that was told last.
    pub fn said(&self) -> &str {
        self.status.as_deref().unwrap_or_default()
    }

    /// A reload begins; [`Notify::ready`] ends it.
    pub fn reloading(&mut self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.tell(&[NotifyState::Reloading, now]),
            Err(_) => self.tell(&[NotifyState::Reloading]),
        }
    }

    /// The daemon is ending.
    pub fn stopping(&mut self) {
        self.tell(&[NotifyState::Stopping]);
    }

    /// The main loop is alive; from nowhere else, or a stuck loop looks alive. Tells what is owed, too.
    pub fn watchdog(&mut self) {
        self.tell(&[NotifyState::Watchdog]);
    }

    /// Has systemd keep a descriptor over restarts of this daemon; whether it was sent. One that could not be is not owed: its
    /// owner asks again.
    pub fn store(&mut self, fd: BorrowedFd<'_>, name: &str) -> bool {
        self.flush();
        let Some(socket) = self.socket.as_ref().filter(|_| self.owed.is_empty()) else {
            return false;
        };
        // logind closes its end when it is restarted, which is no reason to forget the other.
        let message = format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0");
        let sent = send(socket, &message, &[fd]);
        if let Err(error) = &sent {
            tracing::debug!(%error, "systemd was not given {name}");
        }
        sent.is_ok()
    }

    /// systemd closes all that it keeps under this name.
    pub fn forget(&mut self, name: &str) {
        self.say(format!("FDSTOREREMOVE=1\nFDNAME={name}"));
    }

    /// When systemd must be told again what it did not take; none: nothing is owed.
    pub fn again(&self) -> Option<Duration> {
        (!self.owed.is_empty()).then_some(AGAIN)
    }

    /// These lines as one message, after what is owed.
    fn tell(&mut self, lines: &[NotifyState<'_>]) {
        let words: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let message = words.join("\n");
        if let [NotifyState::Status(_) | NotifyState::Watchdog] = lines {
            let word = |message: &str| message.split('=').next().map(str::to_owned);
            self.owed.retain(|owed| word(owed) != word(&message));
        }
        self.say(message);
    }

    fn say(&mut self, message: String) {
        self.owed.push_back(message);
        if self.owed.len() > OWED {
            self.owed.pop_front();
        }
        self.flush();
    }

    /// What is owed, as far as systemd takes it now.
    fn flush(&mut self) {
        let Some(socket) = &self.socket else {
            self.owed.clear();
            return;
        };
        while let Some(message) = self.owed.front() {
            match send(socket, message, &[]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => tracing::debug!(%error, "systemd was not told"),
                Ok(()) => {}
            }
            self.owed.pop_front();
        }
    }
}

/// A path, or the name of an abstract socket after `@`.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        path => SocketAddr::from_pathname(OsStr::from_bytes(path)),
    }
}

/// [`sd_notify::notify`] waits without a bound until the message is taken.
fn send(socket: &SocketAddr, message: &str, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let datagram = UnixDatagram::unbound()?;
    datagram.set_write_timeout(Some(MOMENT))?;
    datagram.connect_addr(socket)?;
    let fds: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let rights = if fds.is_empty() { &[][..] } else { &rights[..] };
    let bytes = [IoSlice::new(message.as_bytes())];
    let to = datagram.as_raw_fd();
    sendmsg::<()>(to, &bytes, rights, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// How often [`Notify::watchdog`] is due: half of `WatchdogSec=`, as `sd_watchdog_enabled(3)`
/// advises; `None` without one.
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::path::Path;
    use std::process::Command;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

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
        let expected = env::var("NOTIFY_SOCKET")
            .ok()
            .map(|_| Duration::from_secs(90));
        assert_eq!(watchdog_interval(), expected);
    }

    fn read(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 512];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).trim().to_owned()
    }

    /// Fills the queue of a socket, whose length the kernel's settings decide (`net.unix.max_dgram_qlen`); one sender's
    /// own buffer may be full before.
    fn fill(path: &Path) {
        let sender = || {
            let sender = UnixDatagram::unbound().unwrap();
            sender.set_nonblocking(true).unwrap();
            sender
        };
        let send = |sender: &UnixDatagram| sender.send_to(b"filler", path).is_ok();
        while {
            let one = sender();
            let some = send(&one);
            while send(&one) {}
            some
        } {}
    }

    /// A socket at `notify` in a directory, where nothing is read yet.
    fn listening() -> (tempfile::TempDir, UnixDatagram, Notify) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let notify = Notify {
            socket: Some(address(path.as_os_str()).unwrap()),
            ..Notify::default()
        };
        (dir, socket, notify)
    }

    /// Found by a test that did not read: the daemon stood still in the middle of a hold.
    #[test]
    fn i7_who_does_not_listen_is_not_waited_for_and_told_later() {
        let (dir, socket, mut notify) = listening();
        fill(&dir.path().join("notify"));
        notify.ready();
        for number in 0..10 {
            notify.watchdog();
            notify.status(&format!("look {number}"));
        }
        assert_eq!(notify.again(), Some(AGAIN));
        assert_eq!(notify.owed.len(), 3, "one of each: {:?}", notify.owed);
        let mut heard = Vec::new();
        while notify.again().is_some() {
            heard.push(read(&socket));
            notify.watchdog();
        }
        while heard.last().is_none_or(|last| last != "STATUS=look 9") {
            heard.push(read(&socket));
        }
        heard.retain(|message| message != "filler" && message != "WATCHDOG=1");
        assert_eq!(heard, ["READY=1", "STATUS=look 9"]);
    }

    #[test]
    fn systemd_keeps_a_descriptor_and_forgets_it() {
        let (dir, socket, mut notify) = listening();
        let (ours, theirs) = nix::unistd::pipe().unwrap();
        assert!(notify.store(theirs.as_fd(), "inhibitor"));
        drop(theirs);
        // On its way it is open.
        let mut ends = [PollFd::new(ours.as_fd(), PollFlags::empty())];
        assert_eq!(poll(&mut ends, PollTimeout::ZERO), Ok(0));
        assert_eq!(read(&socket), "FDSTORE=1\nFDNAME=inhibitor\nFDPOLL=0");
        // Read without what came beside it, that is closed.
        assert_eq!(poll(&mut ends, PollTimeout::ZERO), Ok(1));
        notify.forget("inhibitor");
        assert_eq!(read(&socket), "FDSTOREREMOVE=1\nFDNAME=inhibitor");
        // After what systemd did not take yet it would not be stored, but be forgotten.
        fill(&dir.path().join("notify"));
        notify.forget("inhibitor");
        assert!(!notify.store(ours.as_fd(), "inhibitor"));
        assert!(!Notify::default().store(ours.as_fd(), "inhibitor"));
    }

    #[test]
    fn systemd_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let child = Command::new(env::current_exe().unwrap())
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
            seen.push(read(&socket));
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
