//! Gates: what says not now (docs/design.md 10). Keeps I8: a gate that cannot be evaluated is closed.

mod alerts;
mod api_servers;
mod capacity;
mod clock;
mod commands;
mod force;
mod host;
mod live_patches;
mod node;
mod pause;
mod pods;
mod rivals;
mod soft_reboots;
mod time;
mod users;
mod windows;
mod words;

use std::mem;
use std::time::Duration;

use alerts::alerts;
use api_servers::api_servers;
use capacity::capacity;
use clock::clock;
use commands::commands;
use host::{inhibitors, packages};
use live_patches::live_patches;
use node::{autoscaler, conditions};
use pause::pause;
use pods::{blocking, protected};
use rivals::rivals;
use soft_reboots::soft_reboots;
use time::{min_uptime, settle};
use users::users;
use windows::windows;

pub(crate) use alerts::{Said, Server, asked};
pub(crate) use api_servers::ApiServers;
pub(crate) use capacity::Capacity;
pub(crate) use clock::Clock;
pub(crate) use commands::Commands;
pub use force::Force;
pub(crate) use host::Packages;
pub(crate) use live_patches::LivePatches;
pub(crate) use node::Signs;
pub(crate) use pause::Pause;
pub(crate) use pods::{Blocking, Protecting};
pub(crate) use rivals::Rivals;
pub(crate) use soft_reboots::SoftReboots;
pub(crate) use users::{Stretch, UserFacts, UserPolicy};
pub(crate) use windows::{ClosePolicy, Expected, WindowFacts};
pub use words::Words;

use crate::inhibitor::Inhibitor;
use crate::now::Now;
use crate::trigger::{Finding, Request};
use crate::users::Users;

/// Every gate there is; a new one is a variant, a line in [`all`], and a file or a function of its family below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    NodePaused,
    GroupPaused,
    SoftReboot,
    Windows,
    Clock,
    Inhibitors,
    PackageManager,
    Alerts,
    MinUptime,
    Settle,
    LivePatches,
    Autoscaler,
    Conditions,
    BlockingPods,
    ProtectedPods,
    Rivals,
    Capacity,
    ApiServers,
    Commands,
    /// The last one, so that it is the reason only when nothing else is in the way: then users are warned.
    Users,
}

impl Gate {
    /// In `explain --json` and in metrics: never changed.
    pub fn name(self) -> &'static str {
        match self {
            Self::NodePaused => "node-paused",
            Self::GroupPaused => "group-paused",
            Self::SoftReboot => "soft-reboot",
            Self::Rivals => "rivals",
            Self::Capacity => "capacity",
            Self::ApiServers => "api-servers",
            Self::Windows => "windows",
            Self::Clock => "clock",
            Self::Inhibitors => "inhibitors",
            Self::PackageManager => "package-manager",
            Self::Alerts => "alerts",
            Self::MinUptime => "min-uptime",
            Self::Settle => "settle",
            Self::LivePatches => "live-patches",
            Self::Autoscaler => "autoscaler",
            Self::Conditions => "conditions",
            Self::BlockingPods => "blocking-pods",
            Self::ProtectedPods => "protected-pods",
            Self::Commands => "commands",
            Self::Users => "users",
        }
    }

    /// When it opens, for people, after the word "opens": of one that is closed and has no time for it.
    pub fn opens_when(self) -> &'static str {
        match self {
            Self::NodePaused => "when `kubectl rebootd resume NODE` ends the pause",
            Self::GroupPaused => {
                "when `kubectl rebootd resume --group GROUP` opens a slot of the group"
            }
            Self::SoftReboot => {
                "when a full reboot is asked for, which serves all: `sudo kube-rebootd reboot --kind reboot`"
            }
            Self::Rivals => {
                "when that daemon is taken off this node, or has ended, or gates.other_reboot_daemons is \"ignore\""
            }
            Self::Capacity => {
                "when these Pods have a node, and all Pods of the cluster can be listed"
            }
            Self::ApiServers => "when each other server of gates.api_servers says that it is ready",
            Self::Windows => "when a window opens that is long enough",
            Self::Clock => {
                "when `timedatectl` says that the system clock is synchronized, or gates.unsynchronized_clock is \"ignore\""
            }
            Self::Inhibitors => "when that process lets go of its lock, or ends",
            Self::PackageManager => "30 seconds after the package manager has finished",
            Self::Alerts => {
                "when no alert of gates.prometheus is active, or each is silenced, and each server can be asked"
            }
            Self::MinUptime => "when the host has been up for gates.min_uptime",
            Self::Settle => "when a trigger that is configured asks for the reboot",
            Self::LivePatches => {
                "when /sys/kernel/livepatch can be read and no patch has been applied for 3 minutes, or at that time"
            }
            Self::Autoscaler => "when the autoscaler takes its taint off",
            Self::Conditions => "when that condition of the Node has changed",
            Self::BlockingPods => "when these pods have gone, or the configuration lets them leave",
            Self::ProtectedPods => "when these pods have ended, or are not protected any more",
            Self::Commands => {
                "when that command ends with exit code 0; it is run again every period"
            }
            Self::Users => "when they have logged out, or typed nothing for gates.users_idle",
        }
    }

    /// It speaks against a drain; the others speak against a reboot alone, which is not done while somebody wants the node
    /// drained.
    pub(crate) fn about_drains(self) -> bool {
        match self {
            // It takes no heed of a node that is kept drained either.
            Self::NodePaused
            | Self::GroupPaused
            | Self::Rivals
            | Self::Capacity
            | Self::BlockingPods
            | Self::ProtectedPods => true,
            Self::SoftReboot
            | Self::Windows
            | Self::Clock
            | Self::Inhibitors
            | Self::PackageManager
            | Self::ApiServers
            | Self::Alerts
            | Self::MinUptime
            | Self::Settle
            | Self::LivePatches
            | Self::Autoscaler
            | Self::Conditions
            | Self::Commands
            | Self::Users => false,
        }
    }

    /// All of them, in the order in which they are looked at.
    pub const ALL: [Self; 20] = [
        Self::NodePaused,
        Self::GroupPaused,
        Self::SoftReboot,
        Self::Windows,
        Self::Clock,
        Self::Inhibitors,
        Self::PackageManager,
        Self::Alerts,
        Self::MinUptime,
        Self::Settle,
        Self::LivePatches,
        Self::Autoscaler,
        Self::Conditions,
        Self::BlockingPods,
        Self::ProtectedPods,
        Self::Rivals,
        Self::Capacity,
        Self::ApiServers,
        Self::Commands,
        Self::Users,
    ];

    /// What closes it goes by itself, most often within minutes: a drain under way is not given up for it, and looks
    /// again when it has ended.
    pub(crate) fn passing(self) -> bool {
        match self {
            Self::Inhibitors
            | Self::PackageManager
            | Self::ApiServers
            | Self::Commands
            | Self::Users => true,
            Self::NodePaused
            | Self::GroupPaused
            | Self::SoftReboot
            | Self::Rivals
            | Self::Capacity
            | Self::Windows
            | Self::Clock
            | Self::Alerts
            | Self::MinUptime
            | Self::Settle
            | Self::LivePatches
            | Self::Autoscaler
            | Self::Conditions
            | Self::BlockingPods
            | Self::ProtectedPods => false,
        }
    }
}

/// A gate that is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    pub gate: Gate,
    pub why: Words,
    /// Boot time at which it opens by itself, when that is known.
    pub opens: Option<Duration>,
}

/// What one gate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Open,
    Closed {
        why: Words,
        /// Boot time at which it opens by itself, when that is known.
        opens: Option<Duration>,
    },
    /// It cannot be evaluated, and so it is closed (I8).
    Unknown {
        why: Words,
    },
    /// It would be closed, and the request is too old for that (`gates.force_after`): it keeps nothing waiting.
    Forced {
        why: Words,
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
    pub soft_reboots: SoftReboots,
    pub rivals: Rivals,
    pub capacity: Capacity,
    pub api_servers: ApiServers<'a>,
    pub windows: WindowFacts<'a>,
    pub clock: Clock,
    /// Foreign block inhibitors whose `what` contains shutdown; none when logind did not say.
    pub inhibitors: Option<Vec<Inhibitor>>,
    pub packages: Packages,
    /// Every Prometheus that is configured.
    pub alerts: Vec<Server<'a>>,
    pub request: Option<&'a Request>,
    pub findings: &'a [Finding],
    pub live_patches: LivePatches,
    /// Taints of autoscalers.
    pub autoscaler: Signs,
    /// When that gate opens by itself.
    pub candidate_until: Option<Duration>,
    /// Conditions that `gates.conditions` names.
    pub conditions: Signs,
    pub blocking: Blocking,
    pub protecting: Protecting,
    pub commands: Commands,
    pub users: UserFacts<'a>,
}

/// What the configuration says about gates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct GatePolicy {
    /// Time since boot before which nothing is begun; zero for none.
    pub min_uptime: Duration,
    /// What becomes of a drain that outlasts its window.
    pub close: ClosePolicy,
    pub users: UserPolicy,
    /// Which gates an old request passes over.
    pub force: Force,
}

/// What each gate says now, in the order in which they are told.
pub(crate) fn all(facts: &GateFacts, policy: &GatePolicy, now: Now) -> Vec<(Gate, State)> {
    let uptime = min_uptime(facts.request, policy.min_uptime, now);
    let kept = facts.request.is_some_and(Request::keeps);
    let all = [
        (Gate::NodePaused, pause("node", &facts.node_pause)),
        (Gate::GroupPaused, pause("group", &facts.group_pause)),
        (Gate::SoftReboot, soft_reboots(&facts.soft_reboots)),
        (Gate::Windows, windows(&facts.windows, policy.close, now)),
        (Gate::Clock, clock(facts.clock)),
        (Gate::Inhibitors, inhibitors(facts.inhibitors.as_deref())),
        (Gate::PackageManager, packages(&facts.packages)),
        (Gate::Alerts, alerts(&facts.alerts)),
        (Gate::MinUptime, uptime),
        (
            Gate::Settle,
            settle(facts.request, facts.findings, facts.windows.begun, now),
        ),
        (Gate::LivePatches, live_patches(&facts.live_patches, now)),
        (
            Gate::Autoscaler,
            autoscaler(&facts.autoscaler, facts.candidate_until),
        ),
        (Gate::Conditions, conditions(&facts.conditions)),
        (Gate::BlockingPods, blocking(&facts.blocking)),
        (Gate::ProtectedPods, protected(&facts.protecting, now)),
        (Gate::Rivals, rivals(&facts.rivals)),
        (Gate::Capacity, capacity(&facts.capacity)),
        (Gate::ApiServers, api_servers(facts.api_servers)),
        (Gate::Commands, commands(&facts.commands)),
        (Gate::Users, users(&facts.users, policy.users, now)),
    ];
    let aside = |gate: Gate| kept && !gate.about_drains();
    all.into_iter()
        .map(|(gate, state)| {
            let state = match gate {
                _ if aside(gate) => State::Aside,
                // Nothing is won by no warning: it delays by minutes.
                Gate::Users if policy.users.users == Users::Warn => state,
                _ => policy.force.over(gate, state, facts.request, now),
            };
            (gate, state)
        })
        .collect()
}

/// The gates that are closed; none = go. One that is unknown is closed (I8).
pub(crate) fn closed(all: &[(Gate, State)]) -> Vec<Closed> {
    let shut = all.iter().filter_map(|(gate, state)| {
        let (why, opens) = match state {
            State::Open | State::Forced { .. } | State::Aside => return None,
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

fn shut(why: impl Into<Words>) -> State {
    let why = why.into();
    State::Closed { why, opens: None }
}

fn shut_until(why: impl Into<Words>, opens: Duration) -> State {
    let (why, opens) = (why.into(), Some(opens));
    State::Closed { why, opens }
}

fn unknown(why: impl Into<Words>) -> State {
    State::Unknown { why: why.into() }
}

#[cfg(test)]
mod tests;
