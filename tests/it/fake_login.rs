//! A fake logind: what [`crate::fake_bus::Knobs`] say.

// clippy.toml allows unwrap in test functions only; all of this is test code.
#![allow(clippy::unwrap_used)]

use zbus::{BoxDBusError, DBusError, fdo, interface, object_server::SignalEmitter};

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
}

#[interface(name = "org.freedesktop.login1.Manager")]
impl FakeLogin {
    async fn reboot(
        &self,
        interactive: bool,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
    ) -> Result<(), BoxDBusError> {
        assert!(!interactive, "a daemon has nobody to ask");
        let (refusal, prepare) = {
            let mut state = self.state.lock().unwrap();
            state.reboots += 1;
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
                state.going_down.notify_one();
            }
            Self::prepare_for_shutdown(&emitter, true)
                .await
                .map_err(fdo::Error::from)?;
        }
        Ok(())
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
        state.inhibitors.clone()
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
