//! One look at the host over D-Bus. What does not rest on another answer is asked together: a logind or a systemd that hangs
//! costs one time limit, and not one for each call (I7). What gives no answer is not known (I8).

use std::collections::BTreeSet;

use kube_rebootd_core::rivals;
use kube_rebootd_core::shutdown::Scheduled;
use kube_rebootd_core::users::Session;
use tokio::time::{Instant, timeout_at};

use super::bus::{Bus, BusError, CALL_TIMEOUT};
use super::logind::{self, Locks};
use super::{sessions, systemd};

/// What is looked at only where it matters.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub boot_complete: bool,
    pub sessions: bool,
    pub rivals: bool,
}

/// What was answered; none: no answer, or not asked.
#[derive(Debug)]
pub struct Look {
    pub shutting_down: Option<bool>,
    pub locks: Option<Locks>,
    pub system_state: Option<String>,
    /// Units that have failed.
    pub failed: Option<BTreeSet<String>>,
    pub boot_complete: Option<bool>,
    pub sessions: Option<Vec<Session>>,
    /// Units of other reboot daemons that are active.
    pub rivals: Option<Vec<String>>,
    pub scheduled: Result<Option<Scheduled>, BusError>,
    /// systemd's version.
    pub systemd: Option<String>,
}

/// Looks at the host.
pub async fn look(bus: &Bus, wanted: Wanted) -> Look {
    // Without a bus each call would wait for its own attempt to connect, one after another.
    if let Err(error) = bus.connection().await {
        return Look {
            shutting_down: None,
            locks: None,
            system_state: None,
            failed: None,
            boot_complete: None,
            sessions: None,
            rivals: None,
            scheduled: Err(error),
            systemd: None,
        };
    }
    let boot_complete = async {
        if !wanted.boot_complete {
            return None;
        }
        systemd::boot_complete(bus).await.ok()
    };
    let sessions = async {
        if !wanted.sessions {
            return None;
        }
        sessions::users(bus).await.ok()
    };
    let rivals = async {
        if !wanted.rivals {
            return None;
        }
        systemd::active_of(bus, &rivals::UNITS).await.ok()
    };
    let (
        shutting_down,
        locks,
        (system_state, failed),
        boot_complete,
        sessions,
        rivals,
        scheduled,
        systemd,
    ) = tokio::join!(
        logind::preparing_for_shutdown(bus),
        logind::locks(bus),
        state(bus),
        boot_complete,
        sessions,
        rivals,
        logind::scheduled_shutdown(bus),
        systemd::version(bus),
    );
    Look {
        shutting_down: shutting_down.ok(),
        locks: locks.ok(),
        system_state,
        failed,
        boot_complete,
        sessions,
        rivals,
        scheduled,
        systemd: systemd.ok(),
    }
}

/// systemd's own verdict, and the units that have failed: two calls, one after the other, within the time of one.
async fn state(bus: &Bus) -> (Option<String>, Option<BTreeSet<String>>) {
    let end = Instant::now() + CALL_TIMEOUT;
    let state = systemd::system_state(bus).await.ok();
    let failed = match state.as_deref() {
        Some("running") => Some(BTreeSet::new()),
        Some(_) => {
            let failed = timeout_at(end, systemd::failed_units(bus)).await;
            failed.ok().and_then(Result::ok)
        }
        None => None,
    };
    (state, failed)
}
