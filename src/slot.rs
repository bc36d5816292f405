//! Slots as data: what a Lease says, whose turn it is, what counts against a take (I1, I5, I13).
//!
//! The protocol is DESIGN.md 5; what the API server answers to it is proved in tests against a real
//! one. Nothing here reads a clock or the network.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Longest Lease name that is also a valid label value.
pub const NAME_MAX: usize = 63;

/// One Lease of the group, as last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub group: String,
    /// `spec.holderIdentity`, empty read as none.
    pub holder: Option<String>,
    pub acquire_time: Option<Timestamp>,
    /// `kube-rebootd/paused`.
    pub paused: Option<String>,
    /// `kube-rebootd/protocol`; an unreadable number is read as the highest.
    pub protocol: u64,
    /// `kube-rebootd/role` says control-plane.
    pub control_plane: bool,
    /// `kube-rebootd/next`, in order.
    pub next: Vec<String>,
    /// When this daemon saw the slot become free, on its boot clock; none when it was free at first
    /// sight or is held.
    pub freed: Option<Duration>,
    /// The view is a consistent read (a GET or the answer to a write) asked for at this boot time,
    /// not what a watch delivered.
    pub read: Option<Duration>,
}

/// A take, exactly as it is sent and, if need be, repeated: what makes it safe to send twice is that
/// nothing in it changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Take {
    pub lease: String,
    pub uid: String,
    pub resource_version: String,
    pub acquire_time: Timestamp,
    pub control_plane: bool,
}

/// What became of the take on record; kept in memory only, a restart knows nothing and repeats.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakeAnswer {
    /// A send had no answer (timeout, 5xx), so it may still land; when it was sent.
    pub unanswered: Option<Duration>,
    /// The last definite answer.
    pub said: Option<TakeSaid>,
}

/// A definite answer to a take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeSaid {
    /// 200.
    Taken,
    /// 409 at this boot time: read the Lease and believe it.
    Conflict(Duration),
    /// Another 4xx: the reason in words.
    Refused(String),
}

/// Another Node that carries the slot label (or, before a take, a role that counts).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub node: String,
    /// The value of `kube-rebootd/slot`.
    pub slot: String,
    /// It has a role label of a quorum.
    pub quorum: bool,
}

/// One consistent list of the labelled Nodes and of the names of all Leases of all groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peers {
    /// Boot time at which the list was asked for: it shows at least what was true then.
    pub asked: Duration,
    pub labelled: Vec<Peer>,
    pub leases: BTreeSet<String>,
}

/// A node that waits for a slot, from its kube-node-lease Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    pub node: String,
    pub since: Timestamp,
}

/// Group and since-time that this node's own kube-node-lease Lease shows to those who give up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    pub group: String,
    pub since: Timestamp,
}

/// The one request that gives a slot up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GiveUp {
    pub lease: String,
    pub resource_version: String,
    /// Who may take it first.
    pub next: Vec<String>,
    /// Value of `kube-rebootd/last-hold`.
    pub last_hold: String,
}

/// Labels and annotations, as everything on an object is looked at.
pub type Keys = BTreeMap<String, String>;
