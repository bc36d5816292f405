//! The one list of outside effects, and of the reads that must be consistent: nothing else is done to the host or to the
//! cluster. Before any of them, what must be durable is written (I6).

use crate::condition::{Condition, Event};
use crate::drain::{Escalated, PodRef};
use crate::facts::Point;
use crate::hook::Hook;
use crate::node_fields::{Leftovers, NodeFields};
use crate::slot::{Fence, GiveUp, Keys, Shown, Take};
use crate::stale::Held;
use crate::topic::Topic;

/// Conditions to be written on the own Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tell {
    /// Of the Node: one registered anew is another.
    pub uid: String,
    pub conditions: Vec<Condition>,
    /// Those of [`OF_THE_DAEMON`](crate::names::OF_THE_DAEMON) that the Node lacks; or that are to go.
    pub annotations: Keys,
    /// What is told beside them, once they are written.
    pub event: Option<Event>,
    /// The same to whoever the configuration names.
    pub topic: Option<Topic>,
}

/// Every outside effect there is, and the reads that must be consistent. What must be durable first
/// is the record of the same step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Nothing to do until something changes or the step's `wake`.
    Wait,
    /// The three reads of a start: Leases of all groups, own Node, own kube-node-lease Lease.
    ReadStart,
    /// The record is merged: from now on it is decided upon.
    Begin,
    ReadLease(String),
    ReadNode,
    /// The waiting record on the own kube-node-lease Lease.
    ReadMark,
    /// Gates, inhibitors, `PreparingForShutdown`.
    ReadHost,
    ListPeers,
    /// All waiters, for the hint of who gives up.
    ListWaiters,
    /// One page of the waiters, for who waits.
    CountWaiters,
    /// Whether the Node of a holder exists.
    ReadHolder(Held),
    ListPods,
    /// All that a reboot rests on in the cluster, at once: the own Lease, Node and pods, and for a node of the
    /// `quorum` the others.
    Confirm {
        lease: String,
        quorum: bool,
    },
    CreateLease,
    /// A dry run of what the hold would set on the own Node: it changes nothing.
    Rehearse(NodeFields),
    Take(Take),
    Apply {
        set: NodeFields,
        point: Point,
    },
    Mend(Leftovers),
    Mark(Shown),
    Unmark,
    /// What the cluster sees of this node: nothing rests on it.
    Tell(Tell),
    Evict(Vec<PodRef>),
    /// Pods that `drain.escalate` selects get a shorter grace period, or are deleted past their budget.
    Escalate(Vec<Escalated>),
    /// A round of the hooks of one directory is begun, beside the loop: what it says comes later.
    Hooks(Hook),
    /// The last write before logind is asked; what is said on terminals goes to logind before it.
    Fence(Fence),
    AskReboot,
    /// Cancels a scheduled shutdown that has become a request.
    CancelShutdown,
    GiveUp(GiveUp),
    /// Gives a slot up for a holder whose Node is gone.
    Clear {
        holder: String,
        give_up: GiveUp,
    },
}

impl Effect {
    /// It changes something outside this process.
    pub fn outside(&self) -> bool {
        match self {
            Self::CreateLease
            | Self::Take(_)
            | Self::Apply { .. }
            | Self::Mend(_)
            | Self::Mark(_)
            | Self::Unmark
            | Self::Tell(_)
            | Self::Evict(_)
            | Self::Escalate(_)
            | Self::Hooks(_)
            | Self::Fence(_)
            | Self::AskReboot
            | Self::CancelShutdown
            | Self::GiveUp(_)
            | Self::Clear { .. } => true,
            Self::Wait
            | Self::ReadStart
            | Self::Begin
            | Self::ReadLease(_)
            | Self::ReadNode
            | Self::ReadMark
            | Self::ReadHost
            | Self::ListPeers
            | Self::ListWaiters
            | Self::CountWaiters
            | Self::ReadHolder(_)
            | Self::Rehearse(_)
            | Self::ListPods
            | Self::Confirm { .. } => false,
        }
    }
}
