//! `kube-rebootd status`: what this node does and why, from the state file and the unit (I6).
//!
//! Reads only: a damaged state file stays where it is, for the daemon to keep aside. Works as anybody
//! who may read the file, with the daemon running or not.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use kube_rebootd_core::boot::Boot;
use kube_rebootd_core::now::Now;
use kube_rebootd_core::record::Record;
use kube_rebootd_core::text::{self, MESSAGE, NAME};
use zbus::Proxy;
use zbus::proxy::{Builder, CacheProperties};

use super::{block_on, exit, print};
use crate::bounded::{self, ReadError};
use crate::clock::Clock;
use crate::host::bus::BusError;
use crate::host::view::{self, View};
use crate::host::{Bus, Store, boot, store, systemd};
use crate::root::Root;

pub(super) mod shape;
mod table;

pub(super) use shape::done;
pub use shape::{Done, Held, Later, Reason, Status, Took};
use shape::{held, reasons};
use table::table;
pub(super) use table::{did_not_take, softly};

/// The daemon's unit.
pub const UNIT: &str = "kube-rebootd.service";

/// What systemd says about the unit.
#[derive(Default)]
struct Unit {
    active: String,
    text: String,
    /// 0: no process.
    pid: u32,
    /// How the last process ended.
    exit: i32,
}

impl Unit {
    fn runs(&self) -> bool {
        matches!(self.active.as_str(), "active" | "reloading" | "refreshing")
    }
}

/// What is known on this host of its daemon.
pub(super) struct Known {
    pub(super) now: Now,
    pub(super) status: Status,
    /// What the running daemon sees; empty: none runs, or it shows nothing.
    pub(super) view: View,
    pub(super) record: Record,
}

/// Reads all of it.
pub(super) async fn known(root: &Root) -> Known {
    let bus = Bus::system();
    let now = Clock::Real.now();
    let record = record(root);
    let boot = boot::read(root, &bus).await;
    let unit = unit(&bus).await;
    let pid = unit.as_ref().map_or(0, |unit| unit.pid);
    // What a daemon that ended saw says nothing about now.
    let runs = unit.as_ref().is_ok_and(Unit::runs);
    let view = view::read(root, pid).filter(|_| runs);
    Known {
        now,
        view: view.clone().unwrap_or_default(),
        record: record.clone().ok().flatten().unwrap_or_default(),
        status: tell(record, boot.ok().as_ref(), unit, view, now),
    }
}

/// 3 when the daemon does not run, 1 when systemd does not say whether it does.
pub(super) fn code(status: &Status) -> ExitCode {
    match status.running {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::from(exit::NOT_RUNNING),
        None => ExitCode::from(exit::FAILED),
    }
}

/// Prints it.
pub fn main(root: &Root, json: bool) -> ExitCode {
    block_on(async {
        let Known { status, .. } = known(root).await;
        if json {
            // Strings, numbers and timestamps only: nothing in it can fail to encode.
            let text = serde_json::to_string_pretty(&status).unwrap_or_default();
            print(&format!("{text}\n"));
        } else {
            print(&table(&status));
        }
        code(&status)
    })
}

/// The record; none on a host that never wrote one.
pub(super) fn record(root: &Root) -> Result<Option<Record>, String> {
    read(Store::state(root).path())
}

fn read(path: &Path) -> Result<Option<Record>, String> {
    let damaged = |why: &dyn std::fmt::Display| {
        format!(
            "{}: {why}; the daemon keeps it aside at its next start",
            path.display()
        )
    };
    match bounded::text(path, store::MAX_BYTES) {
        Ok(text) => Record::decode(&text).map(Some).map_err(|why| damaged(&why)),
        Err(err) if err.absent() => Ok(None),
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
            pid: service.get_property("MainPID").await.unwrap_or_default(),
            exit: service
                .get_property("ExecMainStatus")
                .await
                .unwrap_or_default(),
        })
    })
    .await
}

fn tell(
    record: Result<Option<Record>, String>,
    boot: Option<&Boot>,
    unit: Result<Unit, BusError>,
    view: Option<View>,
    now: Now,
) -> Status {
    let mut problems = Vec::new();
    let unit = unit.map_err(|err| problems.push(err.to_string())).ok();
    let unread = record.is_err();
    let record = record.map_err(|err| problems.push(err)).ok().flatten();
    let running = unit.as_ref().map(Unit::runs);
    if let Some(unit) = unit.as_ref().filter(|unit| !unit.runs()) {
        problems.push(stopped(unit));
    }
    // What a daemon that ended saw says nothing about now.
    let view = view.filter(|_| running == Some(true)).unwrap_or_default();
    problems.extend(refused(&view.config_error));
    let phase = view
        .phase
        .or(record.as_ref().map(|record| record.phase(boot)));
    let record = record.unwrap_or_default();
    let known = |text: String| Some(text).filter(|text| !text.is_empty());
    Status {
        running,
        version: known(view.version),
        node: view.node,
        group: known(view.group),
        waits: view.waits,
        kept_by: view.kept_by,
        holders: view.holders,
        blockers: view.blockers,
        config_error: view.config_error,
        status: unit
            .as_ref()
            .map(|unit| unit.text.clone())
            .filter(|text| !text.is_empty()),
        unit: unit.map(|unit| unit.active),
        phase,
        kind: record.kind(),
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
        unread,
    }
}

/// What is wrong with the configuration files of a daemon that runs, and the cure.
fn refused(lines: &[String]) -> Vec<String> {
    if lines.is_empty() {
        return Vec::new();
    }
    let cure = "the configuration is refused and not in use, as below; mend it, then: systemctl reload kube-rebootd";
    std::iter::once(cure.to_owned())
        .chain(lines.iter().cloned())
        .collect()
}

/// Why the daemon does not run, as far as its unit tells, with the cure.
fn stopped(unit: &Unit) -> String {
    let wrong = i32::from(exit::CONFIGURATION);
    match unit.active.as_str() {
        "failed" if unit.exit == wrong => {
            "the daemon does not run: its configuration is wrong; `kube-rebootd config check` says where, then: systemctl start kube-rebootd"
                .to_owned()
        }
        "failed" => format!(
            "the daemon does not run: it failed (status {}); journalctl -u kube-rebootd says why, then: systemctl start kube-rebootd",
            unit.exit
        ),
        "activating" => "the daemon starts; if it stays so: journalctl -u kube-rebootd".to_owned(),
        _ => "the daemon does not run; systemctl start kube-rebootd".to_owned(),
    }
}

#[cfg(test)]
mod tests;
