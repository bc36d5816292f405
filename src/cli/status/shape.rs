//! `status` and `status --json` as data, and what of the record becomes it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube_rebootd_core::history::Past;
use kube_rebootd_core::kind::Kind;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::record::{Hold, Record, Stage};
use kube_rebootd_core::times::Times;
use serde::Serialize;

use crate::host::view::{Blocked, Holder};

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
    /// `reboot` or `soft-reboot`: what serves all reasons; null: no reboot is wanted.
    pub kind: Option<Kind>,
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
    /// `reboot` or `soft-reboot`.
    pub kind: Kind,
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

pub(super) fn reasons(record: &Record) -> Vec<Reason> {
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

pub(super) fn held(hold: &Hold) -> Held {
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

pub(in crate::cli) fn done(past: Past) -> Done {
    Done {
        at: past.at,
        reasons: past.reasons,
        packages: past.packages,
        since: past.since,
        later: past.later,
        kind: past.kind,
        times: past.times.map(took),
        rolled_back: past.rolled_back,
    }
}

pub(in crate::cli) fn took(times: Times) -> Took {
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
