//! Gates: what says not now (docs/design.md 10). Keeps I8: a gate that cannot be evaluated is closed.

use std::mem;
use std::time::Duration;

use crate::drain::Blocker;
use crate::inhibitor::Inhibitor;
use crate::now::Now;
use crate::trigger::{Finding, Request};

/// Every gate there is; a new one is a variant and a line in [`all`], and in [`Gate::passing`] if it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    NodePaused,
    GroupPaused,
    Inhibitors,
    PackageManager,
    MinUptime,
    Settle,
    BlockingPods,
}

impl Gate {
    /// In `explain --json` and in metrics: never changed.
    pub fn name(self) -> &'static str {
        match self {
            Self::NodePaused => "node-paused",
            Self::GroupPaused => "group-paused",
            Self::Inhibitors => "inhibitors",
            Self::PackageManager => "package-manager",
            Self::MinUptime => "min-uptime",
            Self::Settle => "settle",
            Self::BlockingPods => "blocking-pods",
        }
    }

    /// When it opens, for people, after the word "opens": of one that is closed and has no time for it.
    pub fn opens_when(self) -> &'static str {
        match self {
            Self::NodePaused => "when `kubectl rebootd resume NODE` ends the pause",
            Self::GroupPaused => {
                "when `kubectl rebootd resume --group GROUP` opens a slot of the group"
            }
            Self::Inhibitors => "when that process lets go of its lock, or ends",
            Self::PackageManager => "30 seconds after the package manager has finished",
            Self::MinUptime => "when the host has been up for gates.min_uptime",
            Self::Settle => "when a trigger that is configured asks for the reboot",
            Self::BlockingPods => "when these pods have gone, or the configuration lets them leave",
        }
    }

    /// It speaks against a drain; the others speak against a reboot alone, which is not done while somebody wants the node
    /// drained.
    fn about_drains(self) -> bool {
        match self {
            Self::NodePaused | Self::GroupPaused | Self::BlockingPods => true,
            Self::Inhibitors | Self::PackageManager | Self::MinUptime | Self::Settle => false,
        }
    }

    /// All of them, in the order in which they are looked at.
    pub const ALL: [Self; 7] = [
        Self::NodePaused,
        Self::GroupPaused,
        Self::Inhibitors,
        Self::PackageManager,
        Self::MinUptime,
        Self::Settle,
        Self::BlockingPods,
    ];

    /// What closes it goes by itself, most often within minutes: a drain under way is not given up for it, and looks
    /// again when it has ended.
    pub(crate) fn passing(self) -> bool {
        match self {
            Self::Inhibitors | Self::PackageManager => true,
            Self::NodePaused
            | Self::GroupPaused
            | Self::MinUptime
            | Self::Settle
            | Self::BlockingPods => false,
        }
    }
}

/// A gate that is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    pub gate: Gate,
    /// For people, with the subject.
    pub why: String,
    /// Boot time at which it opens by itself, when that is known.
    pub opens: Option<Duration>,
}

/// What one gate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Open,
    Closed {
        /// For people, with the subject.
        why: String,
        /// Boot time at which it opens by itself, when that is known.
        opens: Option<Duration>,
    },
    /// It cannot be evaluated, and so it is closed (I8).
    Unknown {
        why: String,
    },
    /// It speaks against a reboot alone, and somebody keeps the node drained: it keeps nothing waiting.
    Aside,
}

/// How one gate stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub gate: Gate,
    pub state: State,
    /// Boot time since which this process has seen it open, closed or unknown, whatever the words.
    pub since: Duration,
}

/// What the gates look at.
#[derive(Debug, Clone)]
pub(crate) struct GateFacts<'a> {
    pub node_pause: Pause,
    /// Paused when every slot of the group is.
    pub group_pause: Pause,
    /// Foreign block inhibitors whose `what` contains shutdown; none when logind did not say.
    pub inhibitors: Option<Vec<Inhibitor>>,
    pub packages: Packages,
    pub request: Option<&'a Request>,
    pub findings: &'a [Finding],
    pub blocking: Blocking,
}

/// An annotation `kube-rebootd/paused`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Not read yet.
    Unknown,
    None,
    Paused(String),
}

/// What package managers do. Not all of them inhibit a shutdown, and a reboot in the middle of their hooks leaves a
/// host that does not boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packages {
    Quiet,
    /// In words.
    Work(String),
    /// Who worked until now; it counts as quiet from this boot time on: scripts call it several times.
    Rest(&'static str, Duration),
    /// Why it is not known.
    Unknown(String),
}

/// Pods that would stop the drain whatever the API server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Blocking {
    /// The pods are not listed yet.
    Unknown,
    /// [`crate::drain::seen_before_cordon`].
    Seen(Vec<Blocker>),
    /// After the cordon they are the drain's own matter.
    Cordoned,
    /// Nothing is evicted: the cluster has no other Node, or `drain.mode` says so.
    Undrained,
}

/// What the configuration says about gates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct GatePolicy {
    /// Time since boot before which nothing is begun; zero for none.
    pub min_uptime: Duration,
}

/// What each gate says now, in the order in which they are told.
pub(crate) fn all(facts: &GateFacts, policy: &GatePolicy, now: Now) -> Vec<(Gate, State)> {
    let uptime = min_uptime(facts.request, policy.min_uptime, now);
    let kept = facts.request.is_some_and(Request::keeps);
    let all = [
        (Gate::NodePaused, pause("node", &facts.node_pause)),
        (Gate::GroupPaused, pause("group", &facts.group_pause)),
        (Gate::Inhibitors, inhibitors(facts.inhibitors.as_deref())),
        (Gate::PackageManager, packages(&facts.packages)),
        (Gate::MinUptime, uptime),
        (Gate::Settle, settle(facts.request, facts.findings, now)),
        (Gate::BlockingPods, blocking(&facts.blocking)),
    ];
    let aside = |gate: Gate| kept && !gate.about_drains();
    all.into_iter()
        .map(|(gate, state)| (gate, if aside(gate) { State::Aside } else { state }))
        .collect()
}

/// The gates that are closed; none = go. One that is unknown is closed (I8).
pub(crate) fn closed(all: &[(Gate, State)]) -> Vec<Closed> {
    let shut = all.iter().filter_map(|(gate, state)| {
        let (why, opens) = match state {
            State::Open | State::Aside => return None,
            State::Closed { why, opens } => (why, *opens),
            State::Unknown { why } => (why, None),
        };
        let (gate, why) = (*gate, why.clone());
        Some(Closed { gate, why, opens })
    });
    shut.collect()
}

/// How each gate stands, by how it stood `before`.
pub(crate) fn standing(
    before: &[Standing],
    all: Vec<(Gate, State)>,
    now: Duration,
) -> Vec<Standing> {
    let since = |gate: Gate, state: &State| {
        let same = |one: &&Standing| {
            one.gate == gate && mem::discriminant(&one.state) == mem::discriminant(state)
        };
        before.iter().find(same).map_or(now, |one| one.since)
    };
    all.into_iter()
        .map(|(gate, state)| Standing {
            gate,
            since: since(gate, &state),
            state,
        })
        .collect()
}

fn shut(why: impl Into<String>) -> State {
    let why = why.into();
    State::Closed { why, opens: None }
}

fn shut_until(why: String, opens: Duration) -> State {
    let opens = Some(opens);
    State::Closed { why, opens }
}

fn unknown(why: impl Into<String>) -> State {
    State::Unknown { why: why.into() }
}

fn pause(subject: &str, pause: &Pause) -> State {
    match pause {
        Pause::None => State::Open,
        Pause::Unknown => unknown(format!("not known whether the {subject} is paused")),
        Pause::Paused(why) if why.is_empty() => shut(format!("{subject} paused")),
        Pause::Paused(why) => shut(format!("{subject} paused: {why}")),
    }
}

/// Inhibitors that are named: a user at the host may take thousands, and `systemd-inhibit --list` shows them all.
const NAMED: usize = 5;

fn inhibitors(inhibitors: Option<&[Inhibitor]>) -> State {
    let Some(inhibitors) = inhibitors else {
        return unknown("not known whether something inhibits a shutdown: logind did not say");
    };
    if inhibitors.is_empty() {
        return State::Open;
    }
    let each = |one: &Inhibitor| format!("{} ({})", one.who, one.why);
    let named = inhibitors.iter().take(NAMED).map(each);
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match inhibitors.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shut(format!("shutdown inhibited by {named}{more}"))
}

fn packages(packages: &Packages) -> State {
    match packages {
        Packages::Quiet => State::Open,
        Packages::Work(words) => shut(words.clone()),
        Packages::Rest(who, opens) => shut_until(format!("{who} worked a moment ago"), *opens),
        Packages::Unknown(why) => {
            unknown(format!("not known whether a package manager works: {why}"))
        }
    }
}

fn min_uptime(request: Option<&Request>, least: Duration, now: Now) -> State {
    if now.boot >= least || request.is_some_and(Request::urgent) {
        return State::Open;
    }
    shut_until(
        format!("up for less than gates.min_uptime of {least:?}"),
        least,
    )
}

/// Open as soon as one reason has settled, and for every latched wish: a trigger that needs no time
/// does not wait for one that does.
fn settle(request: Option<&Request>, findings: &[Finding], now: Now) -> State {
    let Some(request) = request.filter(|request| request.latched.is_empty()) else {
        return State::Open;
    };
    let settles = |trigger: &str| {
        let finding = findings.iter().find(|finding| finding.trigger == trigger);
        finding.map(|finding| finding.settle)
    };
    let opens = (request.reasons.iter())
        .filter_map(|reason| Some((settles(&reason.trigger)? + reason.since_boot, reason)))
        .min_by_key(|(opens, _)| *opens);
    match opens {
        None => shut("no trigger of the request is configured any more"),
        Some((opens, _)) if opens <= now.boot => State::Open,
        Some((opens, reason)) => {
            shut_until(format!("{} has not settled yet", reason.trigger), opens)
        }
    }
}

fn blocking(blocking: &Blocking) -> State {
    match blocking {
        Blocking::Cordoned | Blocking::Undrained => State::Open,
        Blocking::Unknown => {
            unknown("not known which pods would block the drain: pods not listed yet")
        }
        Blocking::Seen(pods) => match pods.first() {
            None => State::Open,
            Some(first) => {
                let (pod, number) = (first.pod.path(), pods.len());
                shut(format!(
                    "{number} would block the drain: pod {pod} {}",
                    first.why
                ))
            }
        },
    }
}

#[cfg(test)]
mod tests;
