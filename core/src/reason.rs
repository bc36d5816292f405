//! Why a node is where it is, in one word: the reason of its condition `RebootRequired` (docs/design.md 11).

use std::fmt;

use crate::drain::Blocker;
use crate::gates::{Closed, Gate};
use crate::phase::Phase;

/// So many failed attempts in a row are no accident: with the pauses between them they take hours.
const FAILING: u32 = 3;

/// Why a node is where it is. Its text is part of the interface: alert rules name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Nothing asks for a reboot.
    Idle,
    /// Nothing asks for a reboot, but a trigger gives no answer.
    TriggerUnknown,
    /// The last reboot did not clear what asked for it.
    NotCleared,
    /// It did not bring the kernel or the deployment that it was for: the same came up again, or an older one.
    RolledBack,
    /// `mode = "observe"`: nothing is begun.
    Observing,
    /// A reboot is required, and something else than the reasons below keeps it pending.
    Pending,
    Paused,
    /// A soft-reboot is asked for, and the host does none.
    SoftRebootNotDone,
    /// No window is open, or not for long enough.
    OutsideWindow,
    /// The clock is not synchronized, and windows rest on it.
    ClockNotSynchronized,
    Inhibited,
    PackageManager,
    /// Prometheus has alerts that are active, or cannot be asked.
    Alerts,
    MinUptime,
    Settling,
    /// Only a newer kernel asks, and the running one is patched live.
    LivePatched,
    /// An autoscaler is about to remove the Node.
    Autoscaler,
    /// A condition of the Node that `gates.conditions` names.
    NodeCondition,
    BlockedByPod,
    /// A pod runs that `gates.blocking_pods` names, or that is not to be disturbed.
    ProtectedPod,
    /// Another daemon that reboots hosts is at work on this node.
    OtherRebootDaemon,
    /// Pods of the cluster wait for room on a node.
    PodsUnschedulable,
    /// It is not known whether they do: the right to list them is missing, or there are too many without a node.
    PodsNotKnown,
    /// Another API server of the control plane is not ready.
    ApiServerNotReady,
    /// A command of `[[gates.command]]`, or a hook of `gate.d`.
    GateCommand,
    /// Somebody is logged in on the host.
    UsersLoggedIn,
    /// The state file cannot be written.
    StateNotWritable,
    ShuttingDown,
    /// `reboot.max_per_day` is reached.
    LimitReached,
    /// What asks for a reboot came and went of late.
    Flapping,
    /// The last attempt failed.
    BackingOff,
    /// So did several before it.
    Failing,
    /// The API server would refuse what a hold sets on the Node.
    NodeRefused,
    /// Waiting for a slot.
    Queued,
    /// The API server has no such Node.
    NotRegistered,
    /// The Leases cannot be had.
    SlotsUnknown,
    /// Its group has no slot.
    NoSlot,
    /// A slot is free, but too many nodes are unavailable.
    TooFewAvailable,
    Claiming,
    Draining,
    BlockedByBudget,
    /// A pod that `drain.escalate` selects was deleted past its budget.
    PodDeleted,
    /// Drained, and kept so for a person or a script.
    Maintenance,
    Rebooting,
    /// Drained, and the updater of the host is to reboot it by itself (FleetLock).
    AwaitsUpdater,
    Verifying,
    /// Not healthy within `health.timeout`.
    Unhealthy,
    Releasing,
    Undoing,
    /// Giving back what it took takes too long: mostly because it is refused.
    NotReleased,
    /// A hook of `undo.d` fails: what hooks have done is not taken back, and the slot is kept.
    UndoHookFailed,
}

impl Reason {
    /// All of them; docs/operating.md explains each to an operator.
    pub const ALL: [Self; 51] = [
        Self::Idle,
        Self::TriggerUnknown,
        Self::NotCleared,
        Self::RolledBack,
        Self::Observing,
        Self::Pending,
        Self::Paused,
        Self::SoftRebootNotDone,
        Self::OutsideWindow,
        Self::ClockNotSynchronized,
        Self::Inhibited,
        Self::PackageManager,
        Self::Alerts,
        Self::MinUptime,
        Self::Settling,
        Self::LivePatched,
        Self::Autoscaler,
        Self::NodeCondition,
        Self::BlockedByPod,
        Self::ProtectedPod,
        Self::OtherRebootDaemon,
        Self::PodsUnschedulable,
        Self::PodsNotKnown,
        Self::ApiServerNotReady,
        Self::GateCommand,
        Self::UsersLoggedIn,
        Self::StateNotWritable,
        Self::ShuttingDown,
        Self::LimitReached,
        Self::Flapping,
        Self::BackingOff,
        Self::Failing,
        Self::NodeRefused,
        Self::Queued,
        Self::NotRegistered,
        Self::SlotsUnknown,
        Self::NoSlot,
        Self::TooFewAvailable,
        Self::Claiming,
        Self::Draining,
        Self::BlockedByBudget,
        Self::PodDeleted,
        Self::Maintenance,
        Self::Rebooting,
        Self::AwaitsUpdater,
        Self::Verifying,
        Self::Unhealthy,
        Self::Releasing,
        Self::Undoing,
        Self::NotReleased,
        Self::UndoHookFailed,
    ];

    /// What a phase says when nothing more is known.
    pub(crate) fn of(phase: Phase) -> Self {
        match phase {
            Phase::Idle => Self::Idle,
            Phase::Pending => Self::Pending,
            Phase::Queued => Self::Queued,
            Phase::Claiming => Self::Claiming,
            Phase::Draining => Self::Draining,
            Phase::Drained => Self::Maintenance,
            Phase::Rebooting => Self::Rebooting,
            Phase::Verifying => Self::Verifying,
            Phase::Releasing => Self::Releasing,
            Phase::Undoing => Self::Undoing,
        }
    }

    /// That the first of these gates is closed.
    pub(crate) fn of_gates(closed: &[Closed]) -> Self {
        let first = closed.first();
        match first.map(|closed| closed.gate) {
            None => Self::Pending,
            Some(Gate::Capacity) if first.is_some_and(|closed| closed.why.lasts()) => {
                Self::PodsNotKnown
            }
            Some(Gate::NodePaused | Gate::GroupPaused) => Self::Paused,
            Some(Gate::SoftReboot) => Self::SoftRebootNotDone,
            Some(Gate::Windows) => Self::OutsideWindow,
            Some(Gate::Clock) => Self::ClockNotSynchronized,
            Some(Gate::Inhibitors) => Self::Inhibited,
            Some(Gate::PackageManager) => Self::PackageManager,
            Some(Gate::Alerts) => Self::Alerts,
            Some(Gate::MinUptime) => Self::MinUptime,
            Some(Gate::Settle) => Self::Settling,
            Some(Gate::LivePatches) => Self::LivePatched,
            Some(Gate::Autoscaler) => Self::Autoscaler,
            Some(Gate::Conditions) => Self::NodeCondition,
            Some(Gate::BlockingPods) => Self::BlockedByPod,
            Some(Gate::ProtectedPods) => Self::ProtectedPod,
            Some(Gate::Rivals) => Self::OtherRebootDaemon,
            Some(Gate::Capacity) => Self::PodsUnschedulable,
            Some(Gate::ApiServers) => Self::ApiServerNotReady,
            Some(Gate::Commands) => Self::GateCommand,
            Some(Gate::Users) => Self::UsersLoggedIn,
        }
    }

    /// After so many failed attempts in a row.
    pub(crate) fn of_failures(failures: u32) -> Self {
        if failures < FAILING {
            return Self::BackingOff;
        }
        Self::Failing
    }

    /// That these pods hold the drain up; `deleted`: one of them was deleted past its budget.
    pub(crate) fn of_blockers(blocked: &[Blocker], deleted: bool) -> Self {
        match blocked {
            _ if deleted => Self::PodDeleted,
            [] => Self::Draining,
            blocked if blocked.iter().any(|one| one.budget.is_some()) => Self::BlockedByBudget,
            _ => Self::BlockedByPod,
        }
    }

    /// The reason of this name; none: a newer version's, or another's.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }

    /// It does not go on by itself, or will come again: somebody has to look at the node, or at what asks for the reboot.
    pub fn needs_person(self) -> bool {
        match self {
            Self::TriggerUnknown
            | Self::NotCleared
            | Self::RolledBack
            | Self::SoftRebootNotDone
            | Self::PodsNotKnown
            | Self::StateNotWritable
            | Self::LimitReached
            | Self::Failing
            | Self::NodeRefused
            | Self::NotRegistered
            | Self::SlotsUnknown
            | Self::NoSlot
            | Self::Unhealthy
            | Self::NotReleased
            | Self::UndoHookFailed => true,
            Self::Idle
            | Self::Observing
            | Self::Pending
            | Self::Paused
            | Self::OutsideWindow
            | Self::ClockNotSynchronized
            | Self::Inhibited
            | Self::PackageManager
            | Self::Alerts
            | Self::MinUptime
            | Self::Settling
            | Self::LivePatched
            | Self::Autoscaler
            | Self::NodeCondition
            | Self::BlockedByPod
            | Self::ProtectedPod
            | Self::OtherRebootDaemon
            | Self::PodsUnschedulable
            | Self::ApiServerNotReady
            | Self::GateCommand
            | Self::UsersLoggedIn
            | Self::ShuttingDown
            | Self::Flapping
            | Self::BackingOff
            | Self::Queued
            | Self::TooFewAvailable
            | Self::Claiming
            | Self::Draining
            | Self::BlockedByBudget
            | Self::PodDeleted
            | Self::Maintenance
            | Self::Rebooting
            | Self::AwaitsUpdater
            | Self::Verifying
            | Self::Releasing
            | Self::Undoing => false,
        }
    }

    /// Of a node that holds a slot, or is about to.
    pub(crate) fn of_a_hold(self) -> bool {
        matches!(
            self,
            Self::Claiming
                | Self::Draining
                | Self::BlockedByBudget
                | Self::PodDeleted
                | Self::Maintenance
                | Self::Rebooting
                | Self::AwaitsUpdater
                | Self::Verifying
                | Self::Unhealthy
                | Self::Releasing
                | Self::Undoing
                | Self::NotReleased
                | Self::UndoHookFailed
        )
    }

    /// In fixed words, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Idle => "no reboot is required",
            Self::TriggerUnknown => "a trigger gives no answer",
            Self::NotCleared => "the last reboot did not clear what asked for it",
            Self::RolledBack => "the last reboot did not bring the update that it was for",
            Self::Observing => "a reboot is required, and the daemon only observes",
            Self::Pending => "a reboot is required, and waits",
            Self::Paused => "a reboot is required, and the node or its group is paused",
            Self::SoftRebootNotDone => {
                "a soft-reboot is asked for, which the host does not do, or that is not known"
            }
            Self::OutsideWindow => "a reboot is required, and waits for a window",
            Self::ClockNotSynchronized => {
                "a reboot is required, and the clock, by which windows open, is not synchronized"
            }
            Self::Inhibited => "a reboot is required, and a program of the host inhibits it",
            Self::PackageManager => "a reboot is required, and a package manager works",
            Self::Alerts => "a reboot is required, and waits for alerts of Prometheus to end",
            Self::MinUptime => "a reboot is required, and the host started a short time ago",
            Self::Settling => "a reboot is required, and what asks for it has not settled yet",
            Self::LivePatched => {
                "a reboot is required for a newer kernel, and the running one is patched live"
            }
            Self::Autoscaler => {
                "a reboot is required, and an autoscaler is about to remove the node"
            }
            Self::NodeCondition => {
                "a reboot is required, and a condition of the Node speaks against it"
            }
            Self::BlockedByPod => "a reboot is required, and a pod is in its way",
            Self::ProtectedPod => "a reboot is required, and waits for a protected pod",
            Self::OtherRebootDaemon => {
                "a reboot is required, and another daemon may reboot this host, too"
            }
            Self::PodsUnschedulable => {
                "a reboot is required, and Pods of the cluster wait for room"
            }
            Self::PodsNotKnown => {
                "a reboot is required, and it is not known whether Pods wait for room"
            }
            Self::ApiServerNotReady => "a reboot is required, and another API server is not ready",
            Self::GateCommand => "a reboot is required, and a command of gates says not now",
            Self::UsersLoggedIn => "a reboot is required, and somebody is logged in on the host",
            Self::StateNotWritable => "a reboot is required, and the state file cannot be written",
            Self::ShuttingDown => "the host is shutting down",
            Self::LimitReached => "a reboot is required, and reboot.max_per_day is reached",
            Self::Flapping => "what asks for a reboot came and went of late",
            Self::BackingOff => "the last attempt failed; the next one is later",
            Self::Failing => "three attempts or more failed in a row; the next one is later",
            Self::NodeRefused => "the API server would refuse what a hold sets on the Node",
            Self::Queued => "waiting for a slot",
            Self::NotRegistered => "there is no such Node",
            Self::SlotsUnknown => "the Leases of the slots cannot be had",
            Self::NoSlot => "the group has no slot",
            Self::TooFewAvailable => "too few nodes are available, or it is not known how many are",
            Self::Claiming => "taking a slot",
            Self::Draining => "draining the node",
            Self::BlockedByBudget => "a PodDisruptionBudget holds the drain up",
            Self::PodDeleted => "a pod was deleted past its PodDisruptionBudget (drain.escalate)",
            Self::Maintenance => "drained, and kept so for maintenance",
            Self::Rebooting => "about to reboot the host",
            Self::AwaitsUpdater => "drained, and waiting for the updater of the host",
            Self::Verifying => "the host is not proved healthy yet",
            Self::Unhealthy => "the host was not healthy within health.timeout",
            Self::Releasing => "healthy after the reboot, giving the slot back",
            Self::Undoing => "giving back what was taken",
            Self::NotReleased => "giving the slot back takes too long",
            Self::UndoHookFailed => "a hook of undo.d fails, and the slot is kept",
        }
    }

    /// As the condition writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "Idle",
            Self::TriggerUnknown => "TriggerUnknown",
            Self::NotCleared => "NotCleared",
            Self::RolledBack => "RolledBack",
            Self::Observing => "Observing",
            Self::Pending => "Pending",
            Self::Paused => "Paused",
            Self::SoftRebootNotDone => "SoftRebootNotDone",
            Self::OutsideWindow => "OutsideWindow",
            Self::ClockNotSynchronized => "ClockNotSynchronized",
            Self::Inhibited => "Inhibited",
            Self::PackageManager => "PackageManager",
            Self::Alerts => "Alerts",
            Self::MinUptime => "MinUptime",
            Self::Settling => "Settling",
            Self::LivePatched => "LivePatched",
            Self::Autoscaler => "Autoscaler",
            Self::NodeCondition => "NodeCondition",
            Self::BlockedByPod => "BlockedByPod",
            Self::ProtectedPod => "ProtectedPod",
            Self::OtherRebootDaemon => "OtherRebootDaemon",
            Self::PodsUnschedulable => "PodsUnschedulable",
            Self::PodsNotKnown => "PodsNotKnown",
            Self::ApiServerNotReady => "ApiServerNotReady",
            Self::GateCommand => "GateCommand",
            Self::UsersLoggedIn => "UsersLoggedIn",
            Self::StateNotWritable => "StateNotWritable",
            Self::ShuttingDown => "ShuttingDown",
            Self::LimitReached => "LimitReached",
            Self::Flapping => "Flapping",
            Self::BackingOff => "BackingOff",
            Self::Failing => "Failing",
            Self::NodeRefused => "NodeRefused",
            Self::Queued => "Queued",
            Self::NotRegistered => "NotRegistered",
            Self::SlotsUnknown => "SlotsUnknown",
            Self::NoSlot => "NoSlot",
            Self::TooFewAvailable => "TooFewAvailable",
            Self::Claiming => "Claiming",
            Self::Draining => "Draining",
            Self::BlockedByBudget => "BlockedByBudget",
            Self::PodDeleted => "PodDeleted",
            Self::Maintenance => "Maintenance",
            Self::Rebooting => "Rebooting",
            Self::AwaitsUpdater => "AwaitsUpdater",
            Self::Verifying => "Verifying",
            Self::Unhealthy => "Unhealthy",
            Self::Releasing => "Releasing",
            Self::Undoing => "Undoing",
            Self::NotReleased => "NotReleased",
            Self::UndoHookFailed => "UndoHookFailed",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}
