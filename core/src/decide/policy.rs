//! What `decide` itself reads of the configuration; drain, gates and health have policies of their own.

use std::time::Duration;

use crate::budget::MaxUnavailable;
use crate::config::{self, Config};
use crate::drain::{Mode, OnTimeout};

/// What `decide` itself reads of the configuration, and who this node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Name of the own Node; none until the API server has told it.
    pub me: Option<String>,
    pub namespace: String,
    pub group: String,
    /// `mode = "observe"`: nothing is begun.
    pub observe: bool,
    /// `coordination.max_unavailable`
    pub max_unavailable: MaxUnavailable,
    /// `coordination.count_cordoned`
    pub count_cordoned: bool,
    /// `coordination.min_interval`
    pub min_interval: Duration,
    /// `coordination.stale_after`; none where the API server lets no node clear another's slot.
    pub stale_after: Option<Duration>,
    /// `coordination.autoscaler_protect`: for how long after a hold autoscalers are kept from the Node; zero: never.
    pub autoscaler_protect: Duration,
    /// `drain.load_balancer_wait`: before the first eviction; zero: load balancers are told nothing.
    pub load_balancer_wait: Duration,
    /// `drain.mode`
    pub drain: Mode,
    /// `drain.on_timeout = "reboot"`: a drain may end with pods that are left.
    pub leaves_pods: bool,
    /// `reboot.retry`: the first back-off.
    pub retry: Duration,
    /// `reboot.delay`: between the end of the drain and the reboot.
    pub delay: Duration,
    /// `reboot.timeout`: how long logind may take to begin the shutdown.
    pub reboot_timeout: Duration,
    /// `fleet_lock.reboot_within`: how long a client that was told to go on may take to begin it.
    pub granted: Duration,
    /// `health.timeout`: after it Verifying is reported as late.
    pub health_timeout: Duration,
}

impl Policy {
    /// The part of the configuration that decisions about the Node `me` use.
    pub fn of(config: &Config, me: Option<&str>, namespace: &str, group: &str) -> Self {
        Self {
            me: me.map(str::to_owned),
            namespace: namespace.to_owned(),
            group: group.to_owned(),
            observe: config.mode == config::Mode::Observe,
            max_unavailable: config.coordination.max_unavailable,
            count_cordoned: config.coordination.count_cordoned,
            min_interval: config.coordination.min_interval,
            // `manifests --strict`: a node may clear its own name only.
            stale_after: (!config.coordination.prove_node)
                .then_some(config.coordination.stale_after),
            autoscaler_protect: config.coordination.autoscaler_protect,
            load_balancer_wait: config.drain.policy.load_balancer_wait,
            drain: config.drain.mode,
            leaves_pods: config.drain.policy.on_timeout == OnTimeout::Reboot,
            retry: config.reboot.retry,
            delay: config.reboot.delay,
            reboot_timeout: config.reboot.timeout,
            granted: config.reboot_within(true),
            health_timeout: config.health.timeout,
        }
    }

    /// A hold tells load balancers to take the Node out.
    pub(super) fn excludes(&self) -> bool {
        !self.load_balancer_wait.is_zero()
    }

    /// A hold keeps autoscalers from the Node.
    pub(super) fn guards(&self) -> bool {
        !self.autoscaler_protect.is_zero()
    }
}
