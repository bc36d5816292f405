//! A fake logind: what [`crate::fake_bus::Knobs`] say.

// clippy.toml allows unwrap in test functions only; all of this is test code.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use std::fs::File;

use nix::fcntl::OFlag;
use nix::time::{ClockId, clock_gettime};
use zbus::{
    BoxDBusError, DBusError, OwnedObjectPath, fdo, interface, object_server::SignalEmitter,
};

use crate::fake_bus::{InhibitorRow, Refusal, Shared};

pub(crate) fn inhibited(state: &Shared) -> String {
    let state = state.lock().unwrap();
    let mut what: Vec<&str> = state
        .inhibitors
        .iter()
        .filter(|row| row.3 == "block")
        .flat_map(|row| row.0.split(':'))
        .collect();
    what.sort_unstable();
    what.dedup();
    what.join(":")
}

/// Error names of logind's own.
#[derive(Debug, DBusError)]
#[zbus(prefix = "org.freedesktop.login1")]
enum LoginError {
    #[zbus(error)]
    ZBus(zbus::Error),
    BlockedByInhibitorLock(String),
    OperationInProgress(String),
}

/// systemd-timedated.
pub(crate) struct FakeTimedate {
    pub(crate) state: Shared,
}

#[interface(name = "org.freedesktop.timedate1")]
impl FakeTimedate {
    #[zbus(property, name = "NTPSynchronized")]
    fn synchronized(&self) -> fdo::Result<bool> {
        let said = self.state.lock().unwrap().synchronized;
        said.ok_or_else(|| fdo::Error::Failed("it does not know".to_owned()))
    }
}

/// Sessions that there may be: each has an object, whether it is there or not.
pub(crate) const SESSIONS: usize = 2;
/// Id, user id, user, seat and object, as `ListSessions` has them.
type SessionRow = (String, u32, String, String, OwnedObjectPath);

/// Somebody called alice who is logged in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FakeSession {
    pub(crate) id: &'static str,
    pub(crate) class: &'static str,
    /// How long nothing was typed.
    pub(crate) idle: Duration,
}

pub(crate) fn session_path(number: usize) -> OwnedObjectPath {
    let path = format!("/org/freedesktop/login1/session/_{number}");
    OwnedObjectPath::try_from(path).unwrap()
}

/// The object of one session.
pub(crate) struct FakeSessionObject {
    pub(crate) state: Shared,
    pub(crate) number: usize,
}

impl FakeSessionObject {
    fn session(&self) -> fdo::Result<FakeSession> {
        let state = self.state.lock().unwrap();
        let session = state.sessions.get(self.number).copied();
        session.ok_or_else(|| fdo::Error::UnknownObject("it has ended".to_owned()))
    }
}

#[interface(name = "org.freedesktop.login1.Session")]
impl FakeSessionObject {
    #[zbus(property)]
    fn class(&self) -> fdo::Result<String> {
        Ok(self.session()?.class.to_owned())
    }

    #[zbus(property)]
    fn state(&self) -> fdo::Result<String> {
        self.session().map(|_| "active".to_owned())
    }

    #[zbus(property, name = "Type")]
    fn kind(&self) -> fdo::Result<String> {
        self.session().map(|_| "tty".to_owned())
    }

    #[zbus(property, name = "TTY")]
    fn terminal(&self) -> fdo::Result<String> {
        self.session().map(|_| "pts/0".to_owned())
    }

    #[zbus(property)]
    fn remote_host(&self) -> fdo::Result<String> {
        self.session().map(|_| "desk".to_owned())
    }

    #[zbus(property)]
    fn idle_hint(&self) -> fdo::Result<bool> {
        self.session().map(|_| false)
    }

    #[zbus(property)]
    fn idle_since_hint_monotonic(&self) -> fdo::Result<u64> {
        let idle = self.session()?.idle;
        let uptime = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
        let since = Duration::from(uptime).saturating_sub(idle);
        Ok(u64::try_from(since.as_micros()).unwrap())
    }
}

pub(crate) struct FakeLogin {
    pub(crate) state: Shared,
}

impl FakeLogin {
    /// Never, while logind is mute.
    async fn heard(&self) {
        if self.state.lock().unwrap().mute {
            std::future::pending::<()>().await;
        }
    }

    /// Both ways to ask.
    async fn go_down(&self, softly: bool, emitter: &SignalEmitter<'_>) -> Result<(), BoxDBusError> {
        let (refusal, prepare) = {
            let mut state = self.state.lock().unwrap();
            state.reboots += 1;
            state.soft_reboots += usize::from(softly);
            (state.refusal, state.prepare_on_reboot)
        };
        let denied = |text: &str| Err(fdo::Error::AccessDenied(text.to_owned()).into());
        match refusal {
            Refusal::No => {}
            Refusal::Blocked252 => {
                return denied("Access denied to root due to active block inhibitor");
            }
            Refusal::Blocked257 => return denied("Access denied due to active block inhibitor"),
            Refusal::Blocked258 => {
                return Err(Box::new(LoginError::BlockedByInhibitorLock(
                    "Operation denied due to active block inhibitor".to_owned(),
                )));
            }
            Refusal::Masked => return denied("Permission denied"),
            Refusal::Interactive => {
                return Err(fdo::Error::InteractiveAuthorizationRequired(
                    "Interactive authentication required.".to_owned(),
                )
                .into());
            }
            Refusal::InProgress => {
                return Err(Box::new(LoginError::OperationInProgress(
                    "There's already a shutdown or sleep operation in progress".to_owned(),
                )));
            }
            Refusal::Silent => std::future::pending::<()>().await,
        }
        if prepare {
            {
                let mut state = self.state.lock().unwrap();
                state.preparing = true;
                state.softly = softly;
                state.going_down.notify_one();
            }
            Self::prepare_for_shutdown(emitter, true)
                .await
                .map_err(fdo::Error::from)?;
        }
        Ok(())
    }
}

#[interface(name = "org.freedesktop.login1.Manager")]
impl FakeLogin {
    async fn reboot(
        &self,
        interactive: bool,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
    ) -> Result<(), BoxDBusError> {
        assert!(!interactive, "a daemon has nobody to ask");
        self.go_down(false, &emitter).await
    }

    /// `SD_LOGIND_SOFT_REBOOT` alone.
    async fn reboot_with_flags(
        &self,
        flags: u64,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
    ) -> Result<(), BoxDBusError> {
        assert_eq!(flags, 4, "no kexec, and no root that somebody has prepared");
        if !self.state.lock().unwrap().knows_soft_reboots {
            return Err(fdo::Error::InvalidArgs("Invalid flags parameter".to_owned()).into());
        }
        self.go_down(true, &emitter).await
    }

    #[zbus(property(emits_changed_signal = "false"))]
    async fn scheduled_shutdown(&self) -> fdo::Result<(String, u64)> {
        self.heard().await;
        let state = self.state.lock().unwrap();
        if state.schedule_unread {
            return Err(fdo::Error::Failed("the property cannot be read".to_owned()));
        }
        Ok(state.scheduled.clone())
    }

    async fn cancel_scheduled_shutdown(&self) -> bool {
        self.heard().await;
        let mut state = self.state.lock().unwrap();
        state.cancelled += 1;
        !std::mem::take(&mut state.scheduled).0.is_empty()
    }

    fn set_wall_message(&self, message: String, enable: bool) {
        self.state.lock().unwrap().wall = if enable { message } else { String::new() };
    }

    async fn list_inhibitors(&self) -> Vec<InhibitorRow> {
        self.heard().await;
        let mut state = self.state.lock().unwrap();
        state.listed = Some(tokio::time::Instant::now());
        state.inhibitors_now()
    }

    /// Held, as by logind, until the other end is closed.
    async fn inhibit(
        &self,
        what: String,
        who: String,
        why: String,
        mode: String,
    ) -> fdo::Result<zbus::OwnedFd> {
        self.heard().await;
        while !self.state.lock().unwrap().inhibits {
            self.state.lock().unwrap().inhibits_later = true;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (ours, theirs) = nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
        let mut state = self.state.lock().unwrap();
        state.inhibited += 1;
        state
            .locks
            .push((File::from(ours), (what, who, why, mode, 0, 1)));
        Ok(theirs.into())
    }

    #[zbus(property(emits_changed_signal = "false"))]
    fn block_weak_inhibited(&self) -> fdo::Result<String> {
        if self.state.lock().unwrap().heeds_root {
            return Ok(String::new());
        }
        Err(fdo::Error::UnknownProperty("BlockWeakInhibited".to_owned()))
    }

    /// Their objects are made by [`crate::fake_bus`].
    async fn list_sessions(&self) -> Vec<SessionRow> {
        self.heard().await;
        let state = self.state.lock().unwrap();
        let row = |(number, session): (usize, &FakeSession)| {
            let (id, user) = (session.id.to_owned(), "alice".to_owned());
            (id, 1000, user, String::new(), session_path(number))
        };
        state.sessions.iter().enumerate().map(row).collect()
    }

    #[zbus(property(emits_changed_signal = "false"))]
    async fn preparing_for_shutdown(&self) -> bool {
        self.heard().await;
        self.state.lock().unwrap().preparing
    }

    #[zbus(property)]
    fn block_inhibited(&self) -> String {
        inhibited(&self.state)
    }

    #[zbus(signal)]
    pub(crate) async fn prepare_for_shutdown(
        emitter: &SignalEmitter<'_>,
        start: bool,
    ) -> zbus::Result<()>;
}
