//! What the configuration says about a drain, as the pure core wants it (docs/design.md 7).

use std::time::Duration;

use super::escalate::Escalation;
use super::order::Group;
use crate::selector::Selector;

/// `[drain]` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Time of the whole drain; does not run while the API server is silent.
    pub timeout: Duration,
    /// Time in which no pod went away; does not run while the API server is silent.
    pub stall: Duration,
    pub on_timeout: OnTimeout,
    /// How long the node is only cordoned before the first eviction.
    pub cordon_only: Duration,
    /// How long load balancers get to take the Node out, before the first eviction; zero: they are told nothing.
    pub load_balancer_wait: Duration,
    /// Evictions sent and not yet answered, at least 1.
    pub parallelism: usize,
    pub unmanaged: Unmanaged,
    pub jobs: Jobs,
    pub empty_dir: EmptyDir,
    /// How long volumes may take to be unmounted when the pods have gone; zero: not waited for.
    pub volumes_timeout: Duration,
    /// Pods that one of these matches are left alone.
    pub skip: Vec<Selector>,
    /// Of the time that pods ask for by an annotation so much counts at most; zero: nothing.
    pub pod_timeout_max: Duration,
    /// In which groups pods leave, one after another; by default in one.
    pub order: Vec<Group>,
    /// What is done about pods that hold the drain up; by default nothing.
    pub escalate: Vec<Escalation>,
}

/// Pods without a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmanaged {
    Leave,
    Evict,
    Block,
}

/// Pods whose controller is a Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jobs {
    /// As any other: the Job makes another, which begins anew.
    Evict,
    /// Until they have finished; not evicted.
    Wait,
}

/// Pods with an emptyDir volume, whose content an eviction destroys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyDir {
    Evict,
    Block,
}

/// What a drain that does not end comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTimeout {
    Abort,
    Reboot,
}

/// Whether pods are evicted at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Auto,
    Always,
    Never,
}

impl Mode {
    /// Whether to evict; `alone`: the cluster has no other Node, so that evicted pods could only wait for this one.
    pub(crate) fn evicts(self, alone: bool) -> bool {
        match self {
            Self::Auto => !alone,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i9_pods_are_evicted_as_the_mode_says() {
        for (mode, with_others, alone) in [
            (Mode::Auto, true, false),
            (Mode::Always, true, true),
            (Mode::Never, false, false),
        ] {
            assert_eq!(mode.evicts(false), with_others, "{mode:?}");
            assert_eq!(mode.evicts(true), alone, "{mode:?}");
        }
    }
}
