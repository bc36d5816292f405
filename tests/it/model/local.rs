//! One host of the model, as `decide` sees it: [`Facts`] from the small state, and the step back.

use std::time::Duration;

use kube_rebootd_core::budget::MaxUnavailable;
use kube_rebootd_core::decide::{Policy, decide};
use kube_rebootd_core::effect::Effect;
use kube_rebootd_core::names;
use kube_rebootd_core::now::Now;
use kube_rebootd_core::record::Record;

use super::state::{Disk, Hold, Host, Id, Node, Write};
use super::wide::{NOW, acquired, boot, id, name, slot, version};

/// All that a decision of one host rests on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Local {
    pub(super) me: u8,
    pub(super) slots: u8,
    /// Every host is of the control plane.
    pub(super) quorum: bool,
    pub(super) mood: Mood,
    pub(super) host: Host,
    pub(super) id: Id,
    /// The model is made worse on purpose: see `Fault`.
    pub(super) blind: bool,
}

/// What the world outside the model wants of this host right now.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Mood {
    /// A reboot is wanted and allowed.
    Wanted,
    /// Wanted, but a gate is closed.
    Closed,
    /// Nothing asks for it.
    Withdrawn,
    /// Wanted and allowed, but host and pods are not healthy.
    Sick,
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    Nothing,
    ReadStart,
    Begin,
    ReadLease(u8),
    ReadNode,
    ListPeers,
    Confirm(u8),
    AskReboot,
    Write(Write),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Outcome {
    pub(super) disk: Disk,
    pub(super) act: Act,
}

impl Local {
    /// The code's own decision.
    pub(super) fn decide(&self) -> Outcome {
        let policy = Policy {
            me: Some(name(self.me)),
            namespace: "kube-rebootd".to_owned(),
            group: "default".to_owned(),
            observe: false,
            max_unavailable: MaxUnavailable::Percent(100),
            count_cordoned: true,
            min_interval: Duration::ZERO,
            // A stale holder's slot is cleared as anybody may clear it: `Move::Clear`.
            stale_after: None,
            // Annotations that nobody here looks at.
            autoscaler_protect: Duration::ZERO,
            load_balancer_wait: Duration::ZERO,
            leaves_pods: false,
            drain: kube_rebootd_core::drain::Mode::Auto,
            retry: Duration::ZERO,
            delay: Duration::ZERO,
            reboot_timeout: Duration::from_secs(10),
            granted: Duration::from_secs(1800),
            health_timeout: Duration::from_secs(900),
        };
        let now = Now {
            wall: acquired(self.id),
            boot: NOW,
        };
        let step = decide(&self.facts(), &policy, now);
        let record = &step.record;
        let disk = Disk {
            blank: *record == Record::default(),
            hold: record.hold.as_ref().map(|hold| Hold::of(hold, &self.host)),
            settled: (record.settled.as_ref()).is_some_and(|settled| settled.boot == boot(true)),
        };
        Outcome {
            disk,
            act: self.act(&step.effect),
        }
    }

    fn act(&self, effect: &Effect) -> Act {
        Act::Write(match effect {
            Effect::ReadStart => return Act::ReadStart,
            Effect::Begin => return Act::Begin,
            Effect::ReadLease(lease) => return Act::ReadLease(slot(lease)),
            Effect::ReadNode => return Act::ReadNode,
            Effect::ListPeers => return Act::ListPeers,
            Effect::Confirm { lease, .. } => return Act::Confirm(slot(lease)),
            Effect::Fence(fence) => Write::Fence {
                slot: slot(&fence.lease),
                current: fence.resource_version == version(true),
            },
            Effect::AskReboot => return Act::AskReboot,
            Effect::Take(take) => Write::Take {
                slot: slot(&take.lease),
                id: id(take.acquire_time),
                current: take.resource_version == version(true),
            },
            Effect::Apply { set, point } => Write::Apply {
                node: Node {
                    label: set.labels.get(names::SLOT).map(|lease| slot(lease)),
                    cordon: set.unschedulable,
                    record: (set.annotations.get(names::STATE))
                        .and_then(|text| Record::decode(text).unwrap().hold)
                        .map(|hold| Hold::of(&hold, &self.host)),
                },
                current: set.resource_version == version(true),
                point: (point.hold.map_or(0, id), u8::try_from(point.step).unwrap()),
            },
            Effect::Mend(left) => Write::Mend {
                label: left.labels.iter().any(|key| key == names::SLOT),
                record: left.annotations.iter().any(|key| key == names::STATE),
                cordon: left.cordon,
                current: left.resource_version == version(true),
            },
            Effect::GiveUp(give_up) => Write::GiveUp {
                slot: slot(&give_up.lease),
                current: give_up.resource_version == version(true),
            },
            // Hints, pods and gates: the lock does not rest on them.
            Effect::Wait
            | Effect::ReadMark
            | Effect::ReadHost
            | Effect::ListWaiters
            | Effect::CountWaiters
            | Effect::ReadHolder(_)
            | Effect::Clear { .. }
            | Effect::ListPods
            | Effect::Rehearse(_)
            | Effect::CreateLease
            | Effect::CancelShutdown
            | Effect::Mark(_)
            | Effect::Unmark
            | Effect::Tell(_)
            | Effect::Hooks(_)
            | Effect::Evict(_)
            | Effect::Escalate(_) => return Act::Nothing,
        })
    }
}
