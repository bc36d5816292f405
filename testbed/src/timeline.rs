//! The timeline of a run: transitions from the hosts' own journals, holders from the audit log and boots
//! from the firmware, told in the order they happened.
//!
//! Times are display only: all hosts of a bed share one machine's clock.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::bed::Bed;
use crate::host::Host;
use crate::verdict;

/// Unit whose records are told.
const UNIT: &str = "kube-rebootd";
/// How long a line waits for an earlier one: longer than a round of reading all sources.
const PATIENCE: SignedDuration = SignedDuration::from_millis(1500);

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub at: Timestamp,
    /// A node, or `lease NAME`.
    pub subject: String,
    /// What became of it: the phase's word, or another short one.
    pub event: Event,
    /// Why, in the source's own words.
    pub why: String,
}

/// What a line tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The daemon went into a phase.
    Phase(String),
    /// The daemon warned of something.
    Warning,
    /// The firmware boots the host.
    Boot,
    /// A Lease has another holder.
    Lease,
}

impl Event {
    /// A word for the column; the phase's own.
    pub fn word(&self) -> &str {
        match self {
            Self::Phase(phase) => phase,
            Self::Warning => "warning",
            Self::Boot => "boot",
            Self::Lease => "slot",
        }
    }
}

/// `+12.3s`: tenths of a second since the beginning.
#[derive(Debug, Clone, Copy)]
pub struct Since(pub SignedDuration);

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0.as_millis() / 100;
        let sign = if tenths < 0 { '-' } else { '+' };
        let tenths = tenths.unsigned_abs();
        f.pad(&format!("{sign}{}.{}s", tenths / 10, tenths % 10))
    }
}

/// How far one host has been read.
#[derive(Debug, Default)]
struct Reader {
    cursor: String,
    boots: usize,
    phase: Option<(String, String)>,
}

/// What has been read so far; lines before `start` are left out.
#[derive(Debug)]
pub struct Timeline {
    start: Timestamp,
    readers: BTreeMap<String, Reader>,
    changes: BTreeMap<String, usize>,
    waiting: Vec<Line>,
}

impl Timeline {
    /// From `start` on, for hosts that have booted as often as they say now.
    pub fn from(start: Timestamp, hosts: &[Host]) -> Result<Self> {
        let mut readers = BTreeMap::new();
        for host in hosts {
            let boots = host.boots()?;
            let reader = Reader {
                boots,
                ..Reader::default()
            };
            readers.insert(host.name().to_owned(), reader);
        }
        Ok(Self {
            start,
            readers,
            changes: BTreeMap::new(),
            waiting: Vec::new(),
        })
    }

    /// Reads all sources; the lines that no later reading can precede, in order.
    pub fn read(&mut self, bed: &Bed, hosts: &[Host], leases: &[String]) -> Result<Vec<Line>> {
        let begun = Timestamp::now();
        for host in hosts {
            self.host(host)?;
        }
        self.leases(bed, leases)?;
        Ok(self.told(begun - PATIENCE))
    }

    /// When it begins.
    pub fn start(&self) -> Timestamp {
        self.start
    }

    /// What is still held back, at the end.
    pub fn rest(&mut self) -> Vec<Line> {
        self.told(Timestamp::MAX)
    }

    /// Phase that a host told last, and the boot it told it in.
    pub fn phase(&self, host: &str) -> Option<(&str, &str)> {
        let (phase, boot) = self.readers.get(host)?.phase.as_ref()?;
        Some((phase, boot))
    }

    fn told(&mut self, until: Timestamp) -> Vec<Line> {
        self.waiting.sort_by_key(|line| line.at);
        let ready = self.waiting.partition_point(|line| line.at <= until);
        let told = self.waiting.drain(..ready);
        told.filter(|line| line.at >= self.start).collect()
    }

    fn host(&mut self, host: &Host) -> Result<()> {
        let reader = self.readers.entry(host.name().to_owned()).or_default();
        let boots = host.boots()?;
        if boots > reader.boots {
            reader.boots = boots;
            self.waiting.push(Line {
                at: Timestamp::now(),
                subject: host.name().to_owned(),
                event: Event::Boot,
                why: "the host is down; the firmware boots it again".to_owned(),
            });
        }
        for record in host.records_after(UNIT, &reader.cursor)? {
            if let Some(cursor) = record["__CURSOR"].as_str() {
                cursor.clone_into(&mut reader.cursor);
            }
            if let Some(phase) = record["PHASE"].as_str() {
                let boot = record["_BOOT_ID"].as_str().unwrap_or_default();
                reader.phase = Some((phase.to_owned(), boot.to_owned()));
            }
            self.waiting.extend(line(host.name(), &record));
        }
        Ok(())
    }

    fn leases(&mut self, bed: &Bed, leases: &[String]) -> Result<()> {
        let requests = bed.requests_by("kube-rebootd")?;
        for lease in leases {
            let changes = verdict::holders(&requests, lease);
            let known = self.changes.entry(lease.clone()).or_default();
            for change in changes.iter().skip(*known) {
                let name = |holder: &Option<String>| holder.clone().unwrap_or("free".to_owned());
                self.waiting.push(Line {
                    at: change.at,
                    subject: format!("lease {lease}"),
                    event: Event::Lease,
                    why: format!("{} -> {}", name(&change.from), name(&change.to)),
                });
            }
            *known = changes.len();
        }
        Ok(())
    }
}

/// A record of the daemon as a line: its transitions and warnings.
fn line(host: &str, record: &Value) -> Option<Line> {
    /// `syslog(3)`: warning and worse.
    const WARNING: u8 = 4;
    let text = |field: &str| record[field].as_str();
    let priority: u8 = text("PRIORITY").and_then(|level| level.parse().ok())?;
    let event = match text("PHASE") {
        Some(phase) => Event::Phase(phase.to_owned()),
        // What the service manager says of the unit is not the daemon's.
        None if priority <= WARNING && text("_PID") != Some("1") => Event::Warning,
        None => return None,
    };
    let message = text("MESSAGE").unwrap_or_default();
    // Why a reboot is required at all is told once, where a cycle begins.
    let why = match (&event, text("REASON")) {
        (Event::Phase(phase), Some(reason)) if phase == "Pending" => format!("{reason}; {message}"),
        _ => message.to_owned(),
    };
    let micros = text("__REALTIME_TIMESTAMP")?.parse().ok()?;
    Some(Line {
        at: Timestamp::from_microsecond(micros).ok()?,
        subject: host.to_owned(),
        event,
        why,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(fields: &Value) -> Value {
        let mut record = json!({"PRIORITY": "6", "_PID": "42",
            "__REALTIME_TIMESTAMP": "1795257743478315", "MESSAGE": "queued behind n2"});
        for (key, value) in fields.as_object().unwrap() {
            record[key] = value.clone();
        }
        record
    }

    #[test]
    fn transitions_and_warnings_are_told_and_nothing_else() {
        let event = |fields: &Value| line("n1", &record(fields)).map(|line| line.event);
        let phase = Event::Phase("Queued".to_owned());
        assert_eq!(event(&json!({"PHASE": "Queued"})), Some(phase));
        assert_eq!(event(&json!({"PRIORITY": "4"})), Some(Event::Warning));
        assert_eq!(event(&json!({"PRIORITY": "4", "_PID": "1"})), None);
        assert_eq!(event(&json!({})), None);
        let told = line("n1", &record(&json!({"PHASE": "Queued"}))).unwrap();
        assert_eq!(told.at.to_string(), "2026-11-21T10:42:23.478315Z");
        assert_eq!(told.why, "queued behind n2");
        let first = record(&json!({"PHASE": "Pending", "REASON": "a file"}));
        assert_eq!(line("n1", &first).unwrap().why, "a file; queued behind n2");
    }

    #[test]
    fn the_journal_of_a_machine_is_told() {
        let text = include_str!("../../tests/kernel/upgrade/daemon.json");
        let records = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let told = records.filter_map(|record| line("k1", &record));
        let phases: Vec<String> = told
            .filter(|line| matches!(line.event, Event::Phase(_)))
            .map(|line| line.event.word().to_owned())
            .collect();
        assert_eq!(phases.first().unwrap(), "Verifying", "{phases:?}");
        assert_eq!(phases.last().unwrap(), "Idle", "{phases:?}");
    }

    #[test]
    fn a_time_is_written_in_tenths() {
        let since = |millis| Since(SignedDuration::from_millis(millis)).to_string();
        assert_eq!(since(12_345), "+12.3s");
        assert_eq!(since(0), "+0.0s");
        assert_eq!(since(-250), "-0.2s");
    }

    #[test]
    fn lines_come_in_order_once_nothing_earlier_can_come() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let line = |second| Line {
            at: at(second),
            subject: "n1".to_owned(),
            event: Event::Boot,
            why: String::new(),
        };
        let mut timeline = Timeline::from(at(10), &[]).unwrap();
        timeline.waiting = vec![line(30), line(9), line(20), line(10)];
        assert_eq!(timeline.told(at(20)), [line(10), line(20)]);
        assert_eq!(timeline.rest(), [line(30)]);
    }
}
