//! `kube-rebootd status`: what this node does and why, from the state file and the unit (I6).
//!
//! Reads only: a damaged state file stays where it is, for the daemon to keep aside. Works as anybody
//! who may read the file, with the daemon running or not.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd_core::boot::Boot;
use kube_rebootd_core::history::Past;
use kube_rebootd_core::now::Now;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::record::{Hold, Record, Stage};
use kube_rebootd_core::text::{self, MESSAGE, NAME, span};
use kube_rebootd_core::times::Times;
use serde::Serialize;
use zbus::Proxy;
use zbus::proxy::{Builder, CacheProperties};

use super::{block_on, exit, print};
use crate::bounded::{self, ReadError};
use crate::clock::Clock;
use crate::host::bus::BusError;
use crate::host::view::{self, Blocked, Holder, View};
use crate::host::{Bus, Store, boot, store, systemd};
use crate::root::Root;

/// The daemon's unit.
pub const UNIT: &str = "kube-rebootd.service";

/// `status --json`, stable: keys are added, never renamed or removed. A key without a value is `null`,
/// times are RFC 3339 in UTC, durations whole seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The unit is active; null: systemd did not answer.
    pub running: Option<bool>,
    /// The unit's `ActiveState` (systemd); null: systemd did not answer.
    pub unit: Option<String>,
    /// The unit's `StatusText`: the daemon's own sentence on what it does or waits for.
    pub status: Option<String>,
    /// Of the running daemon; null: none runs, or it says nothing.
    pub version: Option<String>,
    /// The Node of this host, as the running daemon knows it.
    pub node: Option<String>,
    /// The group of slots that it waits in or holds one of.
    pub group: Option<String>,
    /// `idle`, `pending`, `queued`, `claiming`, `draining`, `drained`, `rebooting`, `verifying`, `releasing`
    /// or `undoing`, by the daemon or else by the record; null: there is no record, or it cannot be read.
    pub phase: Option<Phase>,
    /// Why a reboot is wanted; empty: it is not.
    pub reasons: Vec<Reason>,
    /// Since when a reboot is wanted.
    pub since: Option<Timestamp>,
    /// Every closed gate, or what is missing after a boot, by the running daemon.
    pub waits: Vec<String>,
    /// The commands by which somebody wants the node drained and kept so, by the running daemon.
    pub kept_by: Vec<String>,
    /// The group's slots that somebody holds, by the running daemon.
    pub holders: Vec<Holder>,
    /// Pods that hold the drain up, by the running daemon.
    pub blockers: Vec<Blocked>,
    pub hold: Option<Held>,
    pub backoff: Option<Later>,
    /// Why a person's pause keeps the cordon of an earlier hold.
    pub kept_cordon: Option<String>,
    /// The last reboots, newest first.
    pub history: Vec<Done>,
    /// What is wrong with the configuration files, a line each, by the running daemon, which does not use them until they are
    /// right; empty: it uses them.
    pub config_error: Vec<String>,
    /// What could not be read, and what is wrong, with the cure.
    pub problems: Vec<String>,
    /// The state file is there and cannot be read: `problems` says why.
    #[serde(skip)]
    pub unread: bool,
}

/// One reason of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The trigger, or who asked.
    pub trigger: String,
    pub words: String,
    /// What was replaced, where the trigger says it.
    pub packages: Vec<String>,
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
    pub packages: Vec<String>,
    /// When each of `reasons` was first seen; empty: an older release did not keep it.
    pub since: Vec<Timestamp>,
    /// Packages that were first seen after the first of `reasons`, and when; the cluster does not know it.
    pub later: BTreeMap<String, Timestamp>,
    /// How the time went; null: it is not known.
    pub times: Option<Took>,
    /// The update that it was for did not take, in words; null: it did, nothing was expected, or an older release did not keep it.
    pub rolled_back: Option<String>,
}

/// How the time of a cycle went, in seconds while the daemon ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Took {
    /// From the first reason to the take of the slot, by the wall clock; null: not known.
    pub slot: Option<u64>,
    /// What that time went to, by the reason of the condition `RebootRequired`.
    pub waits: BTreeMap<String, u64>,
    /// Attempts that were undone.
    pub undone: u64,
    pub claim: u64,
    pub drain: u64,
    /// Pods that were evicted in it.
    pub evicted: u32,
    /// The last looks before the host was asked to reboot.
    pub last_look: u64,
    /// From then to the daemon's first look in the new boot, by the wall clock; null: not known.
    pub boot: Option<u64>,
    pub verify: u64,
    /// The same for people.
    #[serde(skip)]
    pub words: String,
}

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

fn reasons(record: &Record) -> Vec<Reason> {
    let Some(request) = &record.request else {
        return Vec::new();
    };
    let found = request.reasons.iter().map(|reason| Reason {
        trigger: reason.trigger.clone(),
        words: reason.words.clone(),
        packages: reason.pkgs.iter().cloned().collect(),
        since: reason.since,
    });
    let asked = request.latched.iter().map(|wish| Reason {
        trigger: wish.by.clone(),
        words: wish.reason.clone(),
        packages: Vec::new(),
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

pub(super) fn done(past: Past) -> Done {
    Done {
        at: past.at,
        reasons: past.reasons,
        packages: past.packages,
        since: past.since,
        later: past.later,
        times: past.times.map(took),
        rolled_back: past.rolled_back,
    }
}

pub(super) fn took(times: Times) -> Took {
    Took {
        words: times.words(),
        slot: times.slot,
        waits: times.waits,
        undone: times.undone,
        claim: times.claim,
        drain: times.drain,
        evicted: times.evicted,
        last_look: times.last_look,
        boot: times.boot,
        verify: times.verify,
    }
}

/// For people. Writing to a String does not fail.
fn table(status: &Status) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{key:<9} {value}");
    };
    match &status.unit {
        Some(unit) => line("unit", unit),
        None => line("unit", "not known: systemd did not answer"),
    }
    if let Some(version) = &status.version {
        line("version", version);
    }
    if let Some(node) = &status.node {
        line("node", node);
    }
    if let Some(group) = &status.group {
        line("group", group);
    }
    if let Some(sentence) = &status.status {
        line("status", sentence);
    }
    let none = if status.unread {
        "unknown"
    } else {
        "none: nothing is on record on this host"
    };
    line("phase", status.phase.map_or(none, Phase::name));
    waiting(status, &mut line);
    for reason in &status.reasons {
        let words = match reason.words.as_str() {
            "" => String::new(),
            words => format!(": {words}"),
        };
        let since = reason.since;
        line(
            "reason",
            &format!("{}{words} (since {since:.0})", reason.trigger),
        );
        if !reason.packages.is_empty() {
            line("packages", &reason.packages.join(", "));
        }
    }
    if let Some(hold) = &status.hold {
        line("slot", &format!("{} since {:.0}", hold.lease, hold.since));
        if let Some(why) = &hold.undoing {
            line("undoing", why);
        }
    }
    if let Some(backoff) = status.backoff.as_ref().filter(|it| it.seconds_left > 0) {
        let Later {
            failures,
            seconds_left,
            why,
        } = backoff;
        line(
            "back-off",
            &format!(
                "{} left after {failures} failed: {why}",
                span(Duration::from_secs(*seconds_left))
            ),
        );
    }
    if let Some(why) = &status.kept_cordon {
        line("cordon", &format!("kept for a pause: {why}"));
    }
    for past in &status.history {
        line(
            "rebooted",
            &format!(
                "{:.0} for {}{}",
                past.at,
                past.reasons.join(", "),
                of(&past.packages)
            ),
        );
        if let Some(why) = &past.rolled_back {
            line("missed", &did_not_take(why));
        }
        if let Some(times) = &past.times {
            line("times", &times.words);
        }
    }
    for problem in &status.problems {
        line("problem", problem);
    }
    text
}

/// What keeps the phase from ending, each on a line of its own.
fn waiting(status: &Status, line: &mut impl FnMut(&str, &str)) {
    for wait in &status.waits {
        line("because", wait);
    }
    for blocked in &status.blockers {
        let budget = blocked.budget.as_ref();
        let budget = budget.map_or_else(String::new, |budget| format!(" (budget {budget})"));
        line(
            "blocked",
            &format!("pod {}: {}{budget}", blocked.pod, blocked.why),
        );
    }
    for holder in &status.holders {
        line("holder", &format!("{} holds {}", holder.node, holder.slot));
    }
}

/// What a reboot did not bring.
pub(super) fn did_not_take(why: &str) -> String {
    format!("the update did not take: {why}")
}

/// Packages in brackets.
fn of(packages: &[String]) -> String {
    if packages.is_empty() {
        return String::new();
    }
    format!(" ({})", packages.join(", "))
}

#[cfg(test)]
mod tests;
