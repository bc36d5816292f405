//! The guarded door (`reboot.guard`): a block inhibitor of the daemon's own, which keeps everybody else from a shutdown.
//!
//! logind holds a lock as long as its descriptor is open somewhere. systemd keeps a second one in the unit's store of file
//! descriptors, so that a restart or a crash of the daemon opens the door for nobody; `systemctl stop` empties the store.
//! The daemon lets go before it reboots the host (I2), and waits until logind has seen that, as it refuses otherwise (I7).

use std::fmt::Display;
use std::os::fd::{AsFd as _, OwnedFd, RawFd};
use std::time::Duration;

use tracing::{info, warn};

use super::bus::{Bus, Descriptors};
use super::logind;
use super::notify::Notify;

/// What the journal and `doctor` say up to systemd 256.
pub const OLD: &str = "this systemd lets root shut the host down beside any inhibitor; version 257 or newer refuses it";
/// Of the descriptor in systemd's store.
const NAME: &str = "inhibitor";
/// What whoever is refused is shown, after "kube-rebootd": who to ask.
const WHY: &str = "use kube-rebootd reboot, or --force";
/// Between two tries to take it.
const AGAIN: Duration = Duration::from_secs(60);
/// For all the calls that it takes; the loop waits for it, and the watchdog of the unit for the loop.
const TAKEN_WITHIN: Duration = Duration::from_secs(20);
/// For systemd to close what it has stored, and for logind to see it: milliseconds, but where systemd is reloading.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks meanwhile.
const LOOK: Duration = Duration::from_millis(20);

fn not_inhibited(why: impl Display) -> String {
    format!("other shutdowns are not inhibited: {why}")
}

/// The lock, as far as it is held.
#[derive(Debug)]
pub struct OwnInhibitor {
    bus: Bus,
    descriptors: Descriptors,
    held: Option<OwnedFd>,
    /// systemd has it as well.
    stored: bool,
    /// What systemd gave this process: the lock of the one before, until this one has its own.
    inherited: Vec<RawFd>,
    /// Not tried before this boot time.
    again: Option<Duration>,
    /// Why it is not held, as it was said.
    said: Option<String>,
}

impl OwnInhibitor {
    /// Nothing is asked of logind yet.
    pub fn new(bus: &Bus) -> Self {
        let given = sd_notify::listen_fds_with_names();
        let ours = |(fd, name): (RawFd, String)| (name == NAME).then_some(fd);
        Self {
            bus: bus.clone(),
            descriptors: Descriptors::default(),
            held: None,
            stored: false,
            inherited: given.map_or_else(|_| Vec::new(), |given| given.filter_map(ours).collect()),
            again: None,
            said: None,
        }
    }

    /// Takes the lock, or lets it go, where that is not done yet.
    pub async fn keep(&mut self, wanted: bool, notify: &mut Notify, now: Duration) {
        if !wanted {
            self.let_go(notify).await;
        } else if self.held.is_none() && self.again.is_none_or(|again| now >= again) {
            self.take(notify, now).await;
        } else {
            self.store(notify);
        }
    }

    /// Whether logind lists a lock of this daemon. One that it has lost is taken anew.
    pub fn seen(&mut self, listed: bool) {
        if self.held.is_some() && !listed {
            self.held = None;
            self.again = None;
        }
    }

    async fn take(&mut self, notify: &mut Notify, now: Duration) {
        match self.taken().await {
            Ok(held) => {
                self.held = Some(held);
                if self.said.take().is_some() {
                    info!("every other shutdown is inhibited now (reboot.guard)");
                }
                // What the last process left goes when the new one is there: the door is never open in between.
                notify.forget(NAME);
                self.stored = false;
                self.store(notify);
                self.close_inherited();
            }
            Err(why) => {
                self.again = Some(now + AGAIN);
                if self.said.as_ref() != Some(&why) {
                    warn!("reboot.guard: {why}");
                    self.said = Some(why);
                }
            }
        }
    }

    async fn taken(&self) -> Result<OwnedFd, String> {
        let taken = async {
            if !logind::heeds_root(&self.bus).await.map_err(not_inhibited)? {
                return Err(OLD.to_owned());
            }
            let taken = logind::inhibit(&self.bus, &self.descriptors, WHY);
            taken.await.map_err(not_inhibited)
        };
        let late = || not_inhibited("logind does not answer");
        let taken = tokio::time::timeout(TAKEN_WITHIN, taken).await;
        taken.unwrap_or_else(|_| Err(late()))
    }

    fn store(&mut self, notify: &mut Notify) {
        if let Some(held) = &self.held
            && !self.stored
        {
            self.stored = notify.store(held.as_fd(), NAME);
        }
    }

    async fn let_go(&mut self, notify: &mut Notify) {
        self.again = None;
        if self.held.take().is_none() && self.inherited.is_empty() {
            return;
        }
        notify.forget(NAME);
        self.stored = false;
        self.close_inherited();
        let gone = async {
            while logind::locks(&self.bus).await.is_ok_and(|locks| locks.own) {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(GONE_WITHIN, gone).await.is_err() {
            warn!(
                "the daemon's own inhibitor is still there {} s after it was let go; logind will refuse the reboot until systemd has closed it",
                GONE_WITHIN.as_secs()
            );
        }
    }

    fn close_inherited(&mut self) {
        for fd in self.inherited.drain(..) {
            // Of this process, and used nowhere else.
            if let Err(err) = nix::unistd::close(fd) {
                warn!("cannot close the inhibitor of the daemon before this one: {err}");
            }
        }
    }
}
