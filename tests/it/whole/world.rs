//! A cluster of whole daemons, and what a test asks of it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd::clock::Clock;
use kube_rebootd_core::names;
use kube_rebootd_core::now::Now;
use serde_json::{Value, json};

use super::cluster;
use super::host::Host;
use super::log::Log;
use crate::memory::{Server, annotation, cordoned, holder, label};

/// A Friday in November 2026.
const START: i64 = 1_795_000_000;
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
/// Between two looks at whether something has come true.
pub(super) const LOOK: Duration = Duration::from_millis(500);
/// The shortest phase takes a few requests, each a millisecond.
pub(super) const SOON: Duration = Duration::from_millis(1);
/// Lines of log and trace with a failure.
const TOLD: usize = 150;

pub(super) struct World {
    pub(super) server: Server,
    pub(super) hosts: Vec<Host>,
    pub(super) log: Log,
}

/// What a world begins with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) hosts: usize,
    pub(super) slots: usize,
    /// So many of the hosts are control-plane nodes.
    pub(super) quorum: usize,
    pub(super) config: &'static str,
}

impl World {
    pub(super) async fn new(hosts: usize, slots: usize) -> Self {
        Self::with(Plan {
            hosts,
            slots,
            quorum: 0,
            config: "",
        })
        .await
    }

    /// Two hosts and a slot: where a node is alone nothing is evicted.
    pub(super) async fn pair(config: &'static str) -> Self {
        Self::with(Plan {
            hosts: 2,
            slots: 1,
            quorum: 0,
            config,
        })
        .await
    }

    pub(super) async fn with(plan: Plan) -> Self {
        let wall = Timestamp::from_second(START).unwrap();
        let clock = Clock::starting_at(Now {
            wall,
            boot: Duration::ZERO,
        });
        let log = Log::start(clock.clone());
        let server = Server::start(clock);
        for slot in 0..plan.slots {
            let name = if slot == 0 {
                "default".to_owned()
            } else {
                format!("default-{}", slot + 1)
            };
            cluster::make_slot(&server, &name);
        }
        tokio::spawn(cluster::controllers(server.clone()));
        let mut hosts = Vec::new();
        for index in 0..plan.hosts {
            let name = format!("n{index}");
            cluster::make_node(&server, &name, index < plan.quorum);
            hosts.push(Host::start(&server, &name, plan.config, wall));
        }
        let world = Self { server, hosts, log };
        world
            .until("every daemon has started", MINUTE, |world| {
                (0..plan.hosts).all(|host| world.phase(host) == "Idle")
            })
            .await;
        world
    }

    /// The sentinel appears.
    pub(super) fn want(&self, host: usize) {
        self.hosts[host].write("/run/reboot-required", "*** System restart required ***\n");
    }

    pub(super) fn unwant(&self, host: usize) {
        let _ = std::fs::remove_file(self.hosts[host].path("/run/reboot-required"));
    }

    /// The last phase the daemon told of.
    pub(super) fn phase(&self, host: usize) -> String {
        self.log.phase(&self.hosts[host].name).unwrap_or_default()
    }

    pub(super) fn phases(&self, host: usize) -> Vec<String> {
        let records = self.log.of(&self.hosts[host].name);
        let phases = records.into_iter().map(|record| record.phase);
        let mut phases: Vec<String> = phases.filter(|phase| !phase.is_empty()).collect();
        // A phase has a record for each change of what it waits for.
        phases.dedup();
        phases
    }

    /// Something that the host's daemon said.
    pub(super) fn said(&self, host: usize, words: &str) -> bool {
        self.log
            .of(&self.hosts[host].name)
            .iter()
            .any(|record| record.text.contains(words))
    }

    pub(super) fn boots(&self, host: usize) -> u64 {
        self.hosts[host].state().boots
    }

    pub(super) fn node(&self, host: usize) -> Arc<Value> {
        let name = &self.hosts[host].name;
        self.server
            .state()
            .object(("nodes", "", name))
            .unwrap_or_else(|| Arc::new(json!(null)))
    }

    pub(super) fn cordoned(&self, host: usize) -> bool {
        self.node(host)["spec"]["unschedulable"] == true
    }

    pub(super) fn holder(&self, lease: &str) -> Option<String> {
        let lease = self
            .server
            .state()
            .object(("leases", "kube-rebootd", lease))?;
        holder(&lease).map(str::to_owned)
    }

    /// Fails with all that is known.
    pub(super) fn fail(&self, why: &str) -> ! {
        panic!(
            "{why}\n\n--- log\n{}\n\n--- requests\n{}",
            self.log.told(TOLD),
            self.server.told(TOLD)
        );
    }

    pub(super) fn require(&self, good: bool, why: &str) {
        if !good {
            self.fail(why);
        }
        let broken = self.server.state().broken.clone();
        if !broken.is_empty() {
            self.fail(&format!("broken:\n{}", broken.join("\n")));
        }
        for host in &self.hosts {
            let ended = host.state().ended.clone();
            if let Some(why) = ended {
                self.fail(&format!(
                    "the daemon of {} ended by itself: {why}",
                    host.name
                ));
            }
        }
    }

    /// Lets time pass until `seen`, at most `limit`.
    pub(super) async fn until(&self, what: &str, limit: Duration, seen: impl Fn(&Self) -> bool) {
        let begin = tokio::time::Instant::now();
        while !seen(self) {
            self.require(
                begin.elapsed() < limit,
                &format!("never within {limit:?}: {what}"),
            );
            tokio::time::sleep(LOOK).await;
        }
        self.require(true, "");
    }

    /// The moment at which the host's daemon comes to `phase`.
    pub(super) async fn until_phase(&self, host: usize, phase: &str, limit: Duration) {
        let begin = tokio::time::Instant::now();
        while self.phase(host) != phase {
            if begin.elapsed() > limit {
                self.fail(&format!("n{host} never came to {phase}"));
            }
            tokio::time::sleep(SOON).await;
        }
    }

    pub(super) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
        self.require(true, "");
    }

    /// All `hosts` have rebooted so often, and nothing of a hold is left anywhere.
    pub(super) async fn until_rebooted(&self, hosts: &[usize], boots: u64, limit: Duration) {
        let what = format!("{hosts:?} rebooted {boots} times");
        let done = |world: &Self| {
            hosts
                .iter()
                .all(|host| world.boots(*host) >= boots && world.phase(*host) == "Idle")
        };
        self.until(&what, limit, done).await;
        self.pass(MINUTE).await;
        self.at_rest();
        for host in hosts {
            let had = self.boots(*host);
            self.require(
                had == boots,
                &format!("n{host} booted {had} times instead of {boots}"),
            );
        }
    }

    /// As [`World::until_rebooted`], while others still want to.
    pub(super) async fn until_rebooted_with(
        &self,
        hosts: &[usize],
        boots: u64,
        limit: Duration,
        waiting: &[usize],
    ) {
        let done = |world: &Self| {
            let back = |host: &usize| world.boots(*host) >= boots && world.phase(*host) == "Idle";
            hosts.iter().all(back) && waiting.iter().all(|host| world.phase(*host) != "Idle")
        };
        self.until(&format!("{hosts:?} rebooted"), limit, done)
            .await;
        self.pass(MINUTE).await;
    }

    /// Nothing of a hold is left on the server.
    pub(super) fn at_rest(&self) {
        for index in 0..self.hosts.len() {
            let node = self.node(index);
            self.require(!cordoned(&node), &format!("n{index} is still cordoned"));
            self.require(
                label(&node, names::SLOT).is_none(),
                &format!("n{index} is still labelled"),
            );
            self.require(
                annotation(&node, names::STATE).is_none(),
                &format!("n{index} has a record still"),
            );
        }
        let leases = self.server.state().objects("leases");
        for lease in leases
            .iter()
            .filter(|lease| lease["metadata"]["namespace"] == "kube-rebootd")
        {
            self.require(
                holder(lease).is_none(),
                &format!("{} is held", lease["metadata"]["name"]),
            );
        }
    }
}
