//! What the model keeps of a machine and of its Node: disk, boot, pods, and the daemon's memory.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_rebootd_core::boot::Boot;
use kube_rebootd_core::config::Config;
use kube_rebootd_core::decide::Policy;
use kube_rebootd_core::facts::Facts;
use kube_rebootd_core::gates::Closed;
use kube_rebootd_core::machine::Machine;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::record::Record;
use kube_rebootd_core::slot::Shown;

#[derive(Debug, Clone)]
pub(super) struct ModelNode {
    pub(super) uid: String,
    pub(super) version: u64,
    pub(super) cordon: BTreeSet<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) ours: BTreeSet<String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) out_of_service: bool,
}

#[allow(clippy::struct_excessive_bools)] // knobs of a model
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(super) name: String,
    pub(crate) policy: Policy,
    pub(super) boots: u64,
    pub(super) booted: Duration,
    pub(super) disk: Option<String>,
    pub(super) machine: Option<Machine>,
    pub(super) sentinel: bool,
    /// The sentinel survives the reboot.
    pub(crate) sticky: bool,
    pub(super) shutting_down: bool,
    pub(super) kubelet_up: bool,
    pub(super) pods: usize,
    pub(super) drained: Option<Duration>,
    /// After the last pod its volumes are in use for so long; it has none when zero.
    pub(crate) unmounting: Duration,
    pub(super) mounted: bool,
    /// A budget that never opens.
    pub(crate) stuck: bool,
    pub(crate) closed: Vec<Closed>,
    /// Its kubelet does not come back.
    pub(crate) broken: bool,
    /// Off for good: nothing runs on it.
    pub(super) dead: bool,
    /// logind answers yes and does nothing.
    pub(crate) deaf: bool,
    pub(super) waiting: Option<Shown>,
    pub(super) wake: Duration,
    /// From the end of the shutdown to the start of the daemon.
    pub(super) firmware: Duration,
    /// Its requests reach nobody, and its watches are silent.
    pub(super) cut: bool,
    pub(crate) phases: Vec<Phase>,
    pub(super) cordoned_before: bool,
    pub(super) asked: u32,
    pub(super) status: String,
}

impl Host {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            policy: Policy::of(&Config::default(), name, "kube-rebootd", "default"),
            boots: 0,
            booted: Duration::ZERO,
            disk: None,
            machine: None,
            sentinel: false,
            sticky: false,
            shutting_down: false,
            kubelet_up: true,
            pods: 3,
            drained: None,
            unmounting: Duration::ZERO,
            mounted: false,
            stuck: false,
            broken: false,
            dead: false,
            deaf: false,
            closed: Vec::new(),
            waiting: None,
            wake: Duration::ZERO,
            firmware: Duration::ZERO,
            cut: false,
            phases: Vec::new(),
            cordoned_before: false,
            asked: 0,
            status: String::new(),
        }
    }
}

/// A daemon that just started: the disk, the boot, and nothing else.
pub(super) fn fresh(host: &Host) -> Machine {
    let boot = Boot {
        id: format!("boot-{}-{}", host.name, host.boots),
        userspace: 1,
    };
    let record = host
        .disk
        .as_deref()
        .map_or_else(Record::default, |text| Record::decode(text).unwrap());
    let facts = Facts {
        pod_health: Ok(()),
        ..Facts::of_a_start(boot, record)
    };
    let mut config = Config::default();
    // How many there may be is not what the simulator is about.
    config.reboot.max_per_day = 100;
    Machine::new(config, facts)
}
