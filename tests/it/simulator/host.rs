//! What the model keeps of a machine and of its Node: disk, boot, pods, and the daemon's memory.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_rebootd_core::boot::Boot;
use kube_rebootd_core::condition::Condition;
use kube_rebootd_core::config::Config;
use kube_rebootd_core::drain::Mode;
use kube_rebootd_core::facts::Facts;
use kube_rebootd_core::hook::Hook;
use kube_rebootd_core::inhibitor::Inhibitor;
use kube_rebootd_core::machine::{HostNow, Machine};
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::pod::{Controller, EvictAnswer, Pod, PodPhase, RestartPolicy};
use kube_rebootd_core::record::Record;
use kube_rebootd_core::slot::Shown;

use super::updater::Updater;

#[derive(Debug, Clone)]
pub(super) struct ModelNode {
    pub(super) uid: String,
    pub(super) version: u64,
    pub(super) cordon: BTreeSet<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) ours: BTreeSet<String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) out_of_service: bool,
    pub(super) status: NodeStatus,
    /// What the daemon told.
    pub(super) conditions: Vec<Condition>,
}

/// What the kubelet reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeStatus {
    pub(super) ready: bool,
    /// The boot that it reported last.
    pub(super) boot_id: String,
    pub(super) mounted: bool,
}

impl ModelNode {
    pub(super) fn new(uid: String, version: u64, labels: BTreeMap<String, String>) -> Self {
        Self {
            uid,
            version,
            cordon: BTreeSet::new(),
            labels,
            ours: BTreeSet::new(),
            annotations: BTreeMap::new(),
            out_of_service: false,
            status: NodeStatus {
                ready: true,
                boot_id: String::new(),
                mounted: false,
            },
            conditions: Vec::new(),
        }
    }
}

#[allow(clippy::struct_excessive_bools)] // knobs of a model
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(super) name: String,
    /// As it is configured now; its daemon reloads it.
    pub(crate) config: Config,
    pub(super) boots: u64,
    /// Soft-reboots.
    pub(super) userspaces: u64,
    /// Its sentinel asks for one; it lies in /run.
    pub(crate) soft: bool,
    /// Which file that is.
    pub(super) file: u64,
    /// The shutdown that is under way is one of userspace alone.
    pub(super) softly: bool,
    pub(super) booted: Duration,
    pub(super) disk: Option<String>,
    pub(super) machine: Option<Machine>,
    pub(super) sentinel: bool,
    /// The sentinel survives the reboot.
    pub(crate) sticky: bool,
    pub(super) shutting_down: bool,
    pub(super) kubelet_up: bool,
    pub(super) pods: Vec<Pod>,
    /// What the watch of the pods showed this process last.
    pub(super) shown: Option<Vec<Pod>>,
    /// Evictions that were answered, and that the loop has not heard of yet.
    pub(super) answers: Vec<(String, EvictAnswer)>,
    /// When its watches told a sign of life last, and which version of the cluster.
    pub(super) heard: (Duration, u64),
    /// Since when its watches have been silent.
    pub(super) silent: Option<Duration>,
    /// When the last pod went.
    pub(super) emptied: Option<Duration>,
    /// After the last pod its volumes are in use for so long; it has none when zero.
    pub(crate) unmounting: Duration,
    /// A budget that never opens.
    pub(crate) stuck: bool,
    /// Somebody holds a lock against a shutdown.
    pub(super) inhibited: bool,
    /// Its kubelet does not come back.
    pub(crate) broken: bool,
    /// Off for good: nothing runs on it.
    pub(super) dead: bool,
    /// There are hooks that set something before the cordon and before the reboot, and one that takes it back.
    pub(crate) hooks: bool,
    /// It is set.
    pub(super) set_by_hooks: bool,
    /// So often the hook that takes it back fails.
    pub(crate) undo_fails: u32,
    /// Rounds of the hooks that were begun.
    pub(super) rounds: Vec<Hook>,
    /// logind answers yes and does nothing.
    pub(crate) deaf: bool,
    pub(super) updater: Option<Updater>,
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
    /// `alone`: no other host is there to which pods could go; it drains all the same.
    pub(super) fn new(name: &str, alone: bool) -> Self {
        let mut config = Config::default();
        // How many there may be is not what the simulator is about.
        config.reboot.max_per_day = 100;
        if alone {
            config.drain.mode = Mode::Always;
        }
        Self {
            name: name.to_owned(),
            config,
            boots: 0,
            userspaces: 0,
            soft: false,
            file: 0,
            softly: false,
            booted: Duration::ZERO,
            disk: None,
            machine: None,
            sentinel: false,
            sticky: false,
            shutting_down: false,
            kubelet_up: true,
            pods: pods(),
            shown: None,
            answers: Vec::new(),
            heard: (Duration::ZERO, 0),
            silent: None,
            emptied: None,
            unmounting: Duration::ZERO,
            stuck: false,
            inhibited: false,
            broken: false,
            dead: false,
            hooks: false,
            set_by_hooks: false,
            undo_fails: 0,
            rounds: Vec::new(),
            deaf: false,
            updater: None,
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

    /// `/proc/sys/kernel/random/boot_id`.
    pub(super) fn boot_id(&self) -> String {
        format!("boot-{}-{}", self.name, self.boots)
    }

    /// When the volumes of the pods are unmounted; none: they have none, or it is not known yet.
    pub(super) fn unmounted(&self) -> Option<Duration> {
        let emptied = self.emptied.filter(|_| !self.unmounting.is_zero());
        emptied.map(|at| at + self.unmounting)
    }

    pub(super) fn mounted(&self, clock: Duration) -> bool {
        !self.unmounting.is_zero() && self.unmounted().is_none_or(|at| clock < at)
    }

    /// What logind and systemd say.
    pub(super) fn looked_at(&self, read: Duration) -> HostNow {
        let backup = Inhibitor {
            what: "shutdown".to_owned(),
            who: "backup".to_owned(),
            why: "writes".to_owned(),
            mode: "block".to_owned(),
            uid: 0,
            pid: 1,
        };
        HostNow {
            read,
            shutting_down: Some(self.shutting_down),
            inhibitors: Some(self.inhibited.then_some(backup).into_iter().collect()),
            graceful: false,
            system_state: Some("running".to_owned()),
            failed: Some(BTreeSet::new()),
            boot_complete: None,
            sessions: Some(Vec::new()),
            rivals: Some(Vec::new()),
            live_patches: Some(Vec::new()),
            scheduled: None,
            systemd: Some("257".to_owned()),
        }
    }
}

/// What runs there while it takes pods.
pub(super) fn pods() -> Vec<Pod> {
    (0..3).map(pod).collect()
}

/// A pod of a Deployment.
fn pod(number: usize) -> Pod {
    Pod {
        namespace: "shop".to_owned(),
        name: format!("pod-{number}"),
        uid: format!("uid-{number}"),
        labels: BTreeMap::new(),
        mirror: false,
        shield: None,
        patience: None,
        rival: None,
        started: None,
        controller: Some(Controller {
            api: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: "web".to_owned(),
            uid: "uid-web".to_owned(),
        }),
        phase: PodPhase::Running,
        restart_policy: RestartPolicy::Always,
        terminating: false,
        grace_seconds: 0,
        finalizers: Vec::new(),
        empty_dir: false,
        volumes: vec!["shop/data".to_owned()],
        priority: 0,
        ready: true,
        containers: Vec::new(),
    }
}

/// A daemon that just started: the disk, the boot, and nothing else.
pub(super) fn fresh(host: &Host) -> Machine {
    let boot = Boot {
        id: host.boot_id(),
        userspace: 1 + host.userspaces,
    };
    let record = host
        .disk
        .as_deref()
        .map_or_else(Record::default, |text| Record::decode(text).unwrap());
    Machine::new(host.config.clone(), Facts::of_a_start(boot, record))
}
