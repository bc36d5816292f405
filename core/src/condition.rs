//! What the cluster sees of a node: the Node's conditions (docs/design.md 11).
//!
//! `RebootRequired` is this daemon's own. The other four are those that Kubernetes 1.37 names for maintenance (KEP-5683);
//! others may write them as well, so each is written only to say yes, and taken back only where it is our own: its reason is
//! [`OURS`].

use std::fmt;

use jiff::Timestamp;

mod event;
mod unwanted;

pub use event::Event;
pub(crate) use event::topic;
pub use unwanted::{BadUnwanted, Unwanted};

/// The reason of those conditions that others may write, too.
pub const OURS: &str = "KubeRebootd";

/// A type of condition that this daemon writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    RebootRequired,
    MaintenancePlanned,
    DrainInProgress,
    Drained,
    MaintenanceInProgress,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::RebootRequired,
        Self::MaintenancePlanned,
        Self::DrainInProgress,
        Self::Drained,
        Self::MaintenanceInProgress,
    ];

    /// Kubernetes `k8s.io/api/core/v1/types.go` for all but the first.
    pub fn name(self) -> &'static str {
        match self {
            Self::RebootRequired => "RebootRequired",
            Self::MaintenancePlanned => "MaintenancePlanned",
            Self::DrainInProgress => "DrainInProgress",
            Self::Drained => "Drained",
            Self::MaintenanceInProgress => "MaintenanceInProgress",
        }
    }

    /// The kind of this name; none: another's.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Whether it is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    True,
    False,
    Unknown,
}

impl Status {
    /// As the API writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// Whatever is neither yes nor no is not known.
    pub fn of(name: &str) -> Self {
        match name {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A condition, as it is on the Node or is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub kind: Kind,
    pub status: Status,
    pub reason: String,
    /// For people.
    pub message: String,
    /// Since when the status is this, by the clock of the host that wrote it; for display.
    pub since: Option<Timestamp>,
}

/// How much a condition differs from what the Node shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    None,
    Words,
    /// Status or reason.
    State,
}

impl Condition {
    /// How much this differs from `shown`.
    fn differs(&self, shown: Option<&Self>) -> Difference {
        match shown {
            Some(shown) if (shown.status, &shown.reason) != (self.status, &self.reason) => {
                Difference::State
            }
            Some(shown) if shown.message != self.message => Difference::Words,
            Some(_) => Difference::None,
            None => Difference::State,
        }
    }

    /// The same, whenever it began.
    pub(crate) fn says(&self, other: &Self) -> bool {
        self.kind == other.kind && self.differs(Some(other)) == Difference::None
    }
}

/// How much the Node, which shows `shown`, differs from `wanted`.
pub(crate) fn difference(wanted: &[Condition], shown: &[Condition]) -> Difference {
    let there = |kind| shown.iter().find(|one| one.kind == kind);
    let each = wanted.iter().map(|one| one.differs(there(one.kind)));
    each.max().unwrap_or(Difference::None)
}

/// Of what a Node shows, what this daemon wrote.
pub(crate) fn ours(shown: &[Condition]) -> Vec<Condition> {
    let ours = |one: &&Condition| one.kind == Kind::RebootRequired || one.reason == OURS;
    shown.iter().filter(ours).cloned().collect()
}
