//! All that a decision rests on, gathered elsewhere.
//!
//! A fact that is not known says so: there is no default that could pass for a yes (I8).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::beats::Beats;
use crate::before::Before;
use crate::boot::Boot;
use crate::config::ConfigError;
use crate::drain::{Blocker, Escalated, PodRef};
use crate::fleet_lock;
use crate::gates::{Closed, Gate, Standing};
use crate::health::Marks;
use crate::hook;
use crate::kind::Kind;
use crate::node::Seen;
use crate::node_fields::Leftovers;
use crate::peers::Peers;
use crate::record::{Hold, Record};
use crate::shutdown::Scheduled;
use crate::slot::{Crowd, Lease, Mark, TakeAnswer, Waiter};
use crate::stale::Look;
use crate::times::Times;
use crate::trigger::{Heard, Observed, Request};

/// The world as this daemon sees it at one moment.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The three start-up reads were made and merged; none of them is believed alone.
    pub started: bool,
    pub boot: Boot,
    /// As last written, or as it would be if it could be.
    pub record: Record,
    /// The state file can be written.
    pub writable: bool,
    /// What is wrong with the configuration files, which are therefore not in use (I12); none: they are.
    pub config_error: Option<ConfigError>,
    /// logind's `PreparingForShutdown`.
    pub shutting_down: bool,
    /// When (boot clock) the host's gates and `shutting_down` were last read.
    pub host_read: Option<Duration>,
    /// logind's `ScheduledShutdown`, read with `shutting_down`.
    pub scheduled: Option<Scheduled>,
    /// A scheduled shutdown that is to become a request, and to be cancelled once it is one.
    pub adopts: Option<Scheduled>,
    pub observed: Observed,
    /// `max_per_day` is reached until then.
    pub limited: Option<Timestamp>,
    /// What each configured trigger says, the Node annotation among them, and since when: for people.
    pub heard: Vec<Heard>,
    /// How each gate stands, for people: [`Facts::closed`] follows from the same look.
    pub gates: Vec<Standing>,
    /// Gates that are closed, or cannot be evaluated (I8).
    pub closed: Vec<Closed>,
    /// Since when (boot clock) at least one gate has been closed without a break; none: all are open.
    pub closed_since: Option<Duration>,
    pub answers: Answers,
    /// How the hooks stand that the stage of the hold runs.
    pub hooks: hook::Standing,
    pub node: Seen,
    /// This process' last successful apply was this step of this hold, answered then.
    pub applied: Option<Applied>,
    /// What this process took off the own Node at this step of the hold, or was refused to, once each.
    pub mended: Vec<Mended>,
    /// An apply to the own Node, or a fence, that the API server refused, or of which something did not stay.
    pub refused: Option<RefusedApply>,
    /// The last dry run of what a hold sets on the own Node.
    pub rehearsed: Option<Rehearsed>,
    /// The API server refuses to let this node read or give up Leases: in words, with the cure. None: the
    /// last such request was not refused.
    pub denied: Option<String>,
    /// All Leases known: the group's by watch, others by name.
    pub leases: BTreeMap<String, Lease>,
    /// Leases that a GET answered 404, and when it was asked.
    pub absent: BTreeMap<String, Duration>,
    /// The group's Leases have been listed; false: why not.
    pub listed: Result<(), String>,
    /// Making the Lease `default` was refused, and why.
    pub create_refused: Option<String>,
    pub peers: Option<Peers>,
    pub take: TakeAnswer,
    pub waiters: Option<Waiters>,
    /// The last look at the Node of a holder, by Lease.
    pub looks: BTreeMap<String, Look>,
    /// What the own kube-node-lease Lease shows.
    pub mark: Mark,
    /// The place of this node could not be shown.
    pub hidden: Option<Hidden>,
    /// Since when this process has been ready to take a slot: see [`crate::decide::ready`].
    pub ready: Option<Duration>,
    /// Who else waits, by the one look after this node's place was shown.
    pub crowd: Option<Crowd>,
    /// The pods of this node, once their watch has listed them.
    pub marks: Option<Marks>,
    /// What of the host is to be compared after a reboot, as it was when `host_read` says.
    pub before: Before,
    pub drain: Drained,
    /// From when on the cordon of this drain has been on the Node, where that is waited with before the first eviction.
    pub cordoned: Option<Duration>,
    /// Evictions and escalations that this process has asked for, and that are not answered yet.
    pub evicting: usize,
    /// Pods without a controller that stay and that the kubelet ends for ever with the shutdown.
    pub ending: Vec<PodRef>,
    /// Pods whose eviction would be refused now, as was tried before the cordon: for people alone.
    pub refusing: Vec<Blocker>,
    /// The consistent list of pods after the drain.
    pub last_list: Option<LastList>,
    /// When the last [`Effect::Confirm`](crate::effect::Effect::Confirm) was asked for that was answered in full.
    pub confirmed: Option<Duration>,
    /// The heartbeats of the other nodes of the quorum, as far as this process has seen them in this hold.
    pub beats: Beats,
    /// This process has written ahead that it asks logind, and has not asked yet.
    pub fenced: Option<Fenced>,
    /// How long this process has worked on this stage of the hold without a rest.
    pub in_stage: Duration,
    /// This process' last call of logind was refused.
    pub ask: Option<Refusal>,
    /// It was accepted; when it was made.
    pub ask_accepted: Option<Duration>,
    /// What this process has heard of the client of FleetLock.
    pub client: fleet_lock::Heard,
    /// The first step of docs/design.md 9, or what is missing.
    pub host_health: Result<(), Vec<String>>,
    /// The second step, or what is missing.
    pub pod_health: Result<(), Vec<String>>,
    /// Verifying has lasted this long in this process.
    pub verifying: Duration,
    /// Releasing or Undoing has lasted this long in this process.
    pub giving_back: Duration,
    /// How the time of the cycle under way went so far, for people alone.
    pub times: Times,
}

/// The API server did not show that this node waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hidden {
    /// Boot time of the answer.
    pub at: Duration,
    /// The kubelet has not made its heartbeat Lease yet; false: refused.
    pub missing: bool,
}

impl Facts {
    /// What a process knows that has looked at nothing yet.
    pub fn of_a_start(boot: Boot, record: Record) -> Self {
        let times = record.times.clone().unwrap_or_default();
        Self {
            started: false,
            boot,
            record,
            writable: true,
            config_error: None,
            shutting_down: false,
            host_read: None,
            scheduled: None,
            adopts: None,
            observed: Observed::default(),
            limited: None,
            heard: Vec::new(),
            gates: Vec::new(),
            closed: Vec::new(),
            closed_since: None,
            answers: Answers::default(),
            hooks: hook::Standing::default(),
            node: Seen::Unknown,
            applied: None,
            mended: Vec::new(),
            refused: None,
            rehearsed: None,
            denied: None,
            leases: BTreeMap::new(),
            absent: BTreeMap::new(),
            listed: Err("asking the API server".to_owned()),
            create_refused: None,
            peers: None,
            take: TakeAnswer::default(),
            waiters: None,
            looks: BTreeMap::new(),
            mark: Mark::Unknown,
            hidden: None,
            ready: None,
            crowd: None,
            marks: None,
            before: Before::default(),
            drain: Drained::Starting,
            cordoned: None,
            evicting: 0,
            ending: Vec::new(),
            refusing: Vec::new(),
            last_list: None,
            confirmed: None,
            beats: Beats::default(),
            fenced: None,
            in_stage: Duration::ZERO,
            ask: None,
            ask_accepted: None,
            client: fleet_lock::Heard::default(),
            host_health: Err(vec!["not looked yet".to_owned()]),
            pod_health: Err(vec!["not looked yet".to_owned()]),
            verifying: Duration::ZERO,
            giving_back: Duration::ZERO,
            times,
        }
    }

    /// The kind of the reboot for all that asks now, and for what was asked for when logind was asked first.
    pub fn kind(&self) -> Kind {
        let requests = [&self.record.request, &self.observed.request];
        let asking = requests.into_iter().flatten().filter(|it| it.reboots());
        asking.map(Request::kind).max().unwrap_or_default()
    }

    /// Each whom a gate asks beside the loop has answered, asked for at `since` or later.
    pub(crate) fn asked_since(&self, since: Option<Duration>) -> bool {
        self.answers.asked.is_some() && self.answers.asked >= since
    }

    /// Another hold, or none: what was known of the last one is void.
    pub(crate) fn forget_hold(&mut self) {
        self.take = TakeAnswer::default();
        self.ask = None;
        self.ask_accepted = None;
        (self.confirmed, self.fenced) = (None, None);
        self.mended.clear();
        self.beats = Beats::default();
        self.last_list = None;
        self.waiters = None;
    }
}

/// What those have answered whom gates ask beside the loop: commands, Prometheus, other API servers, and who lists the pods that wait for
/// room.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answers {
    /// Each has answered, asked for at this boot time or later; none: one has not.
    pub asked: Option<Duration>,
    /// Gates of which one has not answered what it was to be asked anew, and none speaks against it: that ends no hold.
    pub awaited: Vec<Gate>,
}

impl Answers {
    /// There is none, or nobody asks them.
    pub const NONE: Self = Self {
        asked: Some(Duration::MAX),
        awaited: Vec::new(),
    };
}

/// An apply that was answered with 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    pub point: Point,
    pub at: Duration,
}

/// A removal that was answered with 200, or refused for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mended {
    pub point: Point,
    /// When it was answered.
    pub at: Duration,
    /// As it was asked for.
    pub left: Leftovers,
}

/// An apply to the own Node that was refused for good: sent again it would be refused again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedApply {
    pub point: Point,
    /// The server's words, or what did not stay on the Node.
    pub why: String,
}

/// A dry run of the apply that a hold would make, asked for at boot time `at`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rehearsed {
    pub at: Duration,
    /// Or why the API server would refuse it.
    pub said: Result<(), String>,
}

/// A write-ahead point of a hold; the default stands for no hold at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Point {
    /// The hold's acquire time.
    pub hold: Option<Timestamp>,
    pub step: u64,
}

impl Point {
    /// Where `hold` is.
    pub(crate) fn of(hold: &Hold) -> Self {
        Self {
            hold: Some(hold.take.acquire_time),
            step: hold.step,
        }
    }

    /// Where the hold of `record` is; without one, the point of no hold.
    pub(crate) fn of_record(record: &Record) -> Self {
        record.hold.as_ref().map(Self::of).unwrap_or_default()
    }
}

/// The waiters of the group, from the last list of them that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiters {
    pub asked: Duration,
    /// Empty where the list could not be had.
    pub list: Vec<Waiter>,
    /// So many tries in a row had no list; a definite refusal counts as the last try that is worth it.
    pub failed: u32,
}

impl Waiters {
    /// After so many tries a slot is given up without naming anybody: whom a list would name is only a hint.
    const TRIES: u32 = 2;

    pub fn listed(asked: Duration, list: Vec<Waiter>) -> Self {
        Self {
            asked,
            list,
            failed: 0,
        }
    }

    /// The list that was asked for at `asked` could not be had, as some `before` it; `refused`: the API
    /// server said no, and would say it again.
    pub fn unlisted(before: Option<&Self>, asked: Duration, refused: bool) -> Self {
        let failed = before.map_or(0, |before| before.failed) + 1;
        Self {
            asked,
            list: Vec::new(),
            failed: if refused { Self::TRIES } else { failed },
        }
    }

    /// Nobody asks for the list any more during this hold.
    pub(crate) fn hopeless(&self) -> bool {
        self.failed >= Self::TRIES
    }
}

/// Where the drain is; `drain` judges the pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drained {
    /// Its pods are not listed yet.
    Starting,
    /// Nobody is asked to leave yet: how it stands, and what is waited for, in words.
    Resting {
        words: String,
        waits: String,
        wake: Option<Duration>,
    },
    /// Pods to evict now (maybe none), and how it stands, in words.
    Going {
        evict: Vec<PodRef>,
        /// Pods to escalate now.
        escalate: Vec<Escalated>,
        words: String,
        spent: Duration,
        /// Whether the time is up hangs on the API server's having been there: ask it anything.
        confirm: bool,
        /// The pods are not seen any more, although the API server answers others.
        unseen: bool,
        wake: Option<Duration>,
        /// Pods that cannot leave now, and why.
        blocked: Vec<Blocker>,
        /// One of these was deleted past its budget.
        deleted: bool,
    },
    /// No pod is left, but volumes are still in use.
    Unmounting {
        words: String,
        wake: Option<Duration>,
    },
    /// Nothing is left that must go; since when.
    Done {
        at: Duration,
    },
    Failed {
        why: String,
    },
}

/// The consistent list of pods that ends a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastList {
    pub asked: Duration,
    /// Nothing is left that must go.
    pub clean: bool,
    pub marks: Marks,
}

/// The fence before one ask of logind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fenced {
    /// Acquire time of the hold, and which of its asks.
    pub hold: Timestamp,
    pub asks: u32,
    /// When it was answered with 200; none: it may or may not have been done.
    pub at: Option<Duration>,
}

/// logind (or the configured command) said no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub at: Duration,
    pub why: String,
}
