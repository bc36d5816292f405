//! `kube-rebootd status`: what this node does and why, from the state file and the unit (I6).
//!
//! Reads only: a damaged state file stays where it is, for the daemon to keep aside. Works as anybody
//! who may read the file, with the daemon running or not.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use zbus::Proxy;
use zbus::proxy::{Builder, CacheProperties};

use super::{block_on, exit, print};
use crate::boot::Boot;
use crate::bounded::{self, ReadError};
use crate::host::bus::BusError;
use crate::host::{Bus, Clock, Store, boot, store, systemd};
use crate::now::Now;
use crate::phase::Phase;
use crate::record::{Hold, Record, Stage};
use crate::root::Root;
use crate::text::{self, MESSAGE, NAME};
use crate::trigger::Past;

/// The daemon's unit.
pub const UNIT: &str = "kube-rebootd.service";

/// `status --json`, stable: keys are added, never renamed or removed. A key without a value is `null`,
/// times are RFC 3339 in UTC, durations whole seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The unit is active.
    pub running: bool,
    /// The unit's `ActiveState` (systemd); null: systemd did not answer.
    pub unit: Option<String>,
    /// The unit's `StatusText`: the daemon's own sentence on what it does or waits for.
    pub status: Option<String>,
    /// `idle`, `pending`, `queued`, `claiming`, `draining`, `rebooting`, `verifying`, `releasing` or
    /// `undoing`, by the record; null: the record cannot be read.
    pub phase: Option<Phase>,
    /// Why a reboot is wanted; empty: it is not.
    pub reasons: Vec<Reason>,
    /// Since when a reboot is wanted.
    pub since: Option<Timestamp>,
    pub hold: Option<Held>,
    pub backoff: Option<Later>,
    /// Why a person's pause keeps the cordon of an earlier hold.
    pub kept_cordon: Option<String>,
    /// The last reboots, oldest first.
    pub history: Vec<Done>,
    /// What could not be read, with the cure.
    pub problems: Vec<String>,
}

/// One reason of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The trigger, or who asked.
    pub trigger: String,
    pub words: String,
    pub since: Timestamp,
}

/// The slot this node holds, or may hold (`claiming`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    pub lease: String,
    pub since: Timestamp,
    /// Times the host was asked to reboot.
    pub asks: u32,
    /// Why it is undone; null: it is not.
    pub undoing: Option<String>,
}

/// The wait after a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Later {
    pub failures: u32,
    /// 0: over.
    pub seconds_left: u64,
    pub why: String,
}

/// One reboot that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Done {
    pub at: Timestamp,
    pub reasons: Vec<String>,
}

/// What systemd says about the unit.
struct Unit {
    active: String,
    text: String,
}

/// Prints it; 3 when the daemon does not run (or systemd does not say that it does).
pub fn main(root: &Root, json: bool) -> ExitCode {
    block_on(async {
        let bus = Bus::system();
        let now = Clock::Real.now();
        let record = read(Store::state(root).path());
        let boot = boot::read(root, &bus).await;
        let unit = unit(&bus).await;
        let status = tell(record, boot.ok().as_ref(), unit, now);
        if json {
            // Strings, numbers and timestamps only: nothing in it can fail to encode.
            let text = serde_json::to_string_pretty(&status).unwrap_or_default();
            print(&format!("{text}\n"));
        } else {
            print(&table(&status));
        }
        if status.running {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(exit::NOT_RUNNING)
        }
    })
}

/// The record; a host that never wrote one has an empty one.
fn read(path: &Path) -> Result<Record, String> {
    let damaged = |why: &dyn std::fmt::Display| {
        format!(
            "{}: {why}; the daemon keeps it aside at its next start",
            path.display()
        )
    };
    match bounded::text(path, store::MAX_BYTES) {
        Ok(text) => Record::decode(&text).map_err(|why| damaged(&why)),
        Err(err) if err.absent() => Ok(Record::default()),
        Err(ReadError::Io(err)) if err.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(format!("{}: {err}; ask as root", path.display()))
        }
        Err(ReadError::Io(err)) => Err(format!("{}: {err}", path.display())),
        Err(odd @ (ReadError::NotRegular | ReadError::Larger(_) | ReadError::NotText(_))) => {
            Err(damaged(&odd))
        }
    }
}

async fn unit(bus: &Bus) -> Result<Unit, BusError> {
    bus.call("reading the unit's status", |connection| async move {
        let path = systemd::manager(&connection).await?.load_unit(UNIT).await?;
        let proxy = |interface| {
            Builder::<Proxy<'_>>::new(&connection)
                .destination("org.freedesktop.systemd1")
                .path(path.clone())
                .interface(interface)
                .cache_properties(CacheProperties::No)
                .build()
        };
        let unit = proxy("org.freedesktop.systemd1.Unit").await?;
        let active: String = unit.get_property("ActiveState").await?;
        let service = proxy("org.freedesktop.systemd1.Service").await?;
        // A unit that is not installed has no such interface to fill it.
        let said: String = service.get_property("StatusText").await.unwrap_or_default();
        Ok(Unit {
            active: text::clean(&active, NAME),
            text: text::clean(&said, MESSAGE),
        })
    })
    .await
}

fn tell(
    record: Result<Record, String>,
    boot: Option<&Boot>,
    unit: Result<Unit, BusError>,
    now: Now,
) -> Status {
    let mut problems = Vec::new();
    let unit = unit.map_err(|err| problems.push(err.to_string())).ok();
    let record = record.map_err(|err| problems.push(err)).ok();
    let phase = record.as_ref().map(|record| phase(record, boot));
    let record = record.unwrap_or_default();
    let active = unit.as_ref().map(|unit| unit.active.as_str());
    Status {
        running: matches!(active, Some("active" | "reloading" | "refreshing")),
        status: unit
            .as_ref()
            .map(|unit| unit.text.clone())
            .filter(|text| !text.is_empty()),
        unit: unit.map(|unit| unit.active),
        phase,
        since: record.request.as_ref().map(|request| request.since),
        reasons: reasons(&record),
        hold: record.hold.as_ref().map(held),
        backoff: record.backoff.as_ref().map(|backoff| {
            // It ends with its boot.
            let same = boot.is_none_or(|boot| *boot == backoff.boot);
            let left = backoff.until.saturating_sub(now.boot);
            let left = if same { left } else { Duration::ZERO };
            Later {
                failures: backoff.failures,
                seconds_left: left.as_secs(),
                why: backoff.why.clone(),
            }
        }),
        kept_cordon: record.kept.map(|kept| kept.why),
        history: record.history.into_iter().map(done).collect(),
        problems,
    }
}

/// As far as the record alone tells; the rest is in the daemon's own sentence.
fn phase(record: &Record, boot: Option<&Boot>) -> Phase {
    let Some(hold) = &record.hold else {
        return match (&record.request, &record.waiting) {
            (None, _) => Phase::Idle,
            (Some(_), None) => Phase::Pending,
            (Some(_), Some(_)) => Phase::Queued,
        };
    };
    let rebooted = boot.is_some_and(|boot| *boot != hold.boot);
    match hold.stage {
        Stage::Taking => Phase::Claiming,
        Stage::Releasing => Phase::Releasing,
        Stage::Uncordoned => Phase::Verifying,
        _ if rebooted => Phase::Verifying,
        Stage::Claiming => Phase::Claiming,
        Stage::Draining => Phase::Draining,
        Stage::Rebooting => Phase::Rebooting,
        Stage::Undoing(_) => Phase::Undoing,
    }
}

fn reasons(record: &Record) -> Vec<Reason> {
    let Some(request) = &record.request else {
        return Vec::new();
    };
    let found = request.reasons.iter().map(|reason| Reason {
        trigger: reason.trigger.clone(),
        words: reason.words.clone(),
        since: reason.since,
    });
    let asked = request.latched.iter().map(|wish| Reason {
        trigger: wish.by.clone(),
        words: wish.reason.clone(),
        since: wish.at,
    });
    found.chain(asked).collect()
}

fn held(hold: &Hold) -> Held {
    Held {
        lease: hold.take.lease.clone(),
        since: hold.take.acquire_time,
        asks: hold.asks,
        undoing: match &hold.stage {
            Stage::Undoing(why) => Some(why.words()),
            _ => None,
        },
    }
}

fn done(past: Past) -> Done {
    Done {
        at: past.at,
        reasons: past.reasons,
    }
}

/// For people. Writing to a String does not fail.
fn table(status: &Status) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{key:<9} {value}");
    };
    let unit = status.unit.as_deref().unwrap_or("unknown");
    if status.running {
        line("unit", unit);
    } else {
        line(
            "unit",
            &format!("{unit}: the daemon does not run; systemctl start kube-rebootd"),
        );
    }
    if let Some(sentence) = &status.status {
        line("status", sentence);
    }
    line("phase", status.phase.map_or("unknown", Phase::name));
    for reason in &status.reasons {
        let words = format!(
            "{}: {} (since {:.0})",
            reason.trigger, reason.words, reason.since
        );
        line("reason", &words);
    }
    if let Some(hold) = &status.hold {
        line("slot", &format!("{} since {:.0}", hold.lease, hold.since));
        if let Some(why) = &hold.undoing {
            line("undoing", why);
        }
    }
    if let Some(backoff) = &status.backoff {
        let Later {
            failures,
            seconds_left,
            why,
        } = backoff;
        line(
            "back-off",
            &format!("{seconds_left} s left after {failures} failed: {why}"),
        );
    }
    if let Some(why) = &status.kept_cordon {
        line("cordon", &format!("kept for a pause: {why}"));
    }
    for past in &status.history {
        line(
            "rebooted",
            &format!("{:.0} for {}", past.at, past.reasons.join(", ")),
        );
    }
    for problem in &status.problems {
        line("problem", problem);
    }
    text
}

#[cfg(test)]
mod tests;
