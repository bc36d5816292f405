//! The main job on real hosts: systemd, logind, journald and the real kubelet code in nspawn hosts,
//! the real API server with NodeRestriction, the daemon as `make install` puts it there.
//!
//! Every test has hosts, Leases and a group of its own in the one bed that `make test` brings up.

use std::time::Duration;

use kube_rebootd_core::names;
use serde_json::Value;
use testbed::{Bed, Host, HostSpec, Standing, at_once};

mod adoption;
mod boot_ok;
mod builtin;
mod checks;
mod conditions;
mod cordon;
mod credentials;
mod dbus;
mod dead_holder;
mod drain;
mod escalate;
mod explained;
mod fleet_lock;
mod gates;
mod guard;
mod holding;
mod kill_matrix;
mod kills;
pub(crate) mod log;
mod loops;
mod maintenance;
mod notices;
mod observing;
mod one_host;
mod order;
mod orders;
mod outages;
mod pausing;
pub(crate) mod phases;
pub(crate) mod pods;
mod rebootmgr;
mod rivals;
mod soft_reboot;
mod sorts;
mod stop_points;
mod three_hosts;
mod troubles;
mod trust;
mod unit;
mod update_engine;
pub(crate) mod workload;
mod zincati;

/// Longest wait for a whole cycle of one host, on two busy cores.
pub(crate) const CYCLE: Duration = Duration::from_secs(120);

/// Keys on a Node that outlive a hold.
pub(crate) const STAY: [&str; 3] = [names::HISTORY, names::GROUP, names::VERSION];
/// Where the slots are.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-rebootd/leases";
/// Where kubelets have their heartbeats.
pub(crate) const HEARTBEATS: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// A bed of the test's own, beside the one that `make test` brings up: what happens to its control plane happens to no
/// other test. It goes down on failure as well.
pub(crate) struct Own {
    pub(crate) bed: Bed,
    _standing: Standing,
}

impl Own {
    pub(crate) fn up(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let standing = Standing::of(&name);
        let bed = Bed::connect().unwrap().up_beside(&name).unwrap();
        bed.enter().unwrap();
        Self {
            bed,
            _standing: standing,
        }
    }
}

/// One test's part of the bed: a group with its Leases.
pub(crate) struct Site {
    pub(crate) bed: Bed,
    pub(crate) group: String,
}

impl Site {
    /// A group with `slots` open Leases.
    pub(crate) fn new(group: &str, slots: u32) -> Self {
        Self::on(Bed::connect().unwrap(), group, slots)
    }

    /// The same in a bed of the test's own.
    pub(crate) fn on(bed: Bed, group: &str, slots: u32) -> Self {
        let manifests = kube_rebootd::cluster::manifests::manifests(group, slots).unwrap();
        bed.apply(&manifests).unwrap();
        let site = Self {
            bed,
            group: group.to_owned(),
        };
        for lease in site.leases() {
            site.kubectl(&[
                "-n",
                "kube-rebootd",
                "annotate",
                "lease",
                &lease,
                "kube-rebootd/paused-",
            ]);
        }
        site
    }

    /// One more group with one open Lease, where the manifests have been applied already.
    pub(crate) fn beside(group: &str) -> Self {
        let bed = Bed::connect().unwrap();
        let lease = format!(
            "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata:\n  name: {group}\n  \
             namespace: kube-rebootd\n  labels: {{kube-rebootd/group: {group}, kube-rebootd/protocol: \"1\"}}\n"
        );
        bed.apply(&lease).unwrap();
        Self {
            bed,
            group: group.to_owned(),
        }
    }

    /// Names of the group's Leases.
    pub(crate) fn leases(&self) -> Vec<String> {
        let of = format!("labelSelector=kube-rebootd%2Fgroup%3D{}", self.group);
        let list = self.bed.get(&format!("{LEASES}?{of}")).unwrap();
        let leases = list["items"].as_array().cloned().unwrap_or_default();
        let name = |lease: &Value| lease["metadata"]["name"].as_str().map(str::to_owned);
        leases.iter().filter_map(name).collect()
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        self.bed.kubectl(args).unwrap()
    }

    /// Holder of a Lease; empty for none.
    pub(crate) fn holder(&self, lease: &str) -> String {
        let lease = self.bed.get(&format!("{LEASES}/{lease}")).unwrap();
        let holder = lease["spec"]["holderIdentity"].as_str();
        holder.unwrap_or_default().to_owned()
    }

    /// Pauses every slot of the group.
    pub(crate) fn pause(&self, why: &str) {
        self.annotate(&format!("kube-rebootd/paused={why}"));
    }

    /// Opens every slot of the group.
    pub(crate) fn resume(&self) {
        self.annotate("kube-rebootd/paused-");
    }

    fn annotate(&self, annotation: &str) {
        for lease in self.leases() {
            self.kubectl(&[
                "-n",
                "kube-rebootd",
                "annotate",
                "lease",
                &lease,
                annotation,
            ]);
        }
    }

    /// Writes a Lease's holder as an admin; empty: nobody.
    pub(crate) fn hold_by_admin(&self, lease: &str, holder: &str) {
        let patch = format!("{{\"spec\":{{\"holderIdentity\":\"{holder}\"}}}}");
        self.kubectl(&[
            "-n",
            "kube-rebootd",
            "patch",
            "lease",
            lease,
            "--type=merge",
            "-p",
            &patch,
        ]);
    }

    /// A host of the group, joined and Ready; `config` is added to what the group needs.
    pub(crate) fn host(&self, name: &str, config: &str) -> Host {
        self.boot(&HostSpec::named(name).config(self.config(config)))
    }

    /// Hosts of other tests die in the same bed: the budget of this group must not care. That a Node stays Ready for a while
    /// is not waited for at each of their many reboots; `whole::proof` shows it.
    pub(crate) fn config(&self, more: &str) -> String {
        at_once(&format!(
            "[health]\nready_for = \"0s\"\n[coordination]\ngroup = \"{}\"\nmax_unavailable = \"100%\"\n{more}",
            self.group
        ))
    }

    pub(crate) fn boot(&self, spec: &HostSpec) -> Host {
        let host = self.bed.boot(spec).unwrap();
        if spec.kubelet {
            self.bed.wait_ready(host.name()).unwrap();
        }
        host
    }

    /// Whether the Node is unschedulable.
    pub(crate) fn cordoned(&self, host: &Host) -> bool {
        self.node(host)["spec"]["unschedulable"] == true
    }

    /// The host's Node.
    pub(crate) fn node(&self, host: &Host) -> Value {
        let path = format!("/api/v1/nodes/{}", host.name());
        self.bed.get(&path).unwrap()
    }

    /// Waits, at most a cycle.
    pub(crate) fn wait(&self, what: &str, done: impl FnMut() -> anyhow::Result<bool>) {
        self.bed.wait_for(what, CYCLE, done).unwrap();
    }

    /// Waits until a host's STATUS contains `words`.
    pub(crate) fn wait_status(&self, host: &Host, words: &str) {
        let what = format!("{} to say {words:?}", host.name());
        self.bed
            .wait_for(&what, CYCLE, || {
                let status = host.status()?;
                anyhow::ensure!(status.contains(words), "it says {status:?}");
                Ok(true)
            })
            .unwrap();
    }

    /// Waits until the daemon's journal contains all of `words`.
    pub(crate) fn wait_journal<T: AsRef<str>>(&self, host: &Host, words: &[T]) {
        let what = format!("{} to log", host.name());
        self.bed
            .wait_for(&what, CYCLE, || {
                let journal = host.journal("kube-rebootd")?;
                let mut words = words.iter().map(AsRef::as_ref);
                let missing = words.find(|words| !journal.contains(words));
                anyhow::ensure!(missing.is_none(), "it did not say {missing:?}");
                Ok(true)
            })
            .unwrap();
    }

    /// Waits until the record on a host's disk contains all of `words`.
    pub(crate) fn wait_record(&self, host: &Host, words: &[&str]) {
        let what = format!("{} to record {words:?}", host.name());
        self.bed
            .wait_for(&what, CYCLE, || {
                let record = host.read("/var/lib/kube-rebootd/state.json")?;
                anyhow::ensure!(words.iter().all(|words| record.contains(words)), "{record}");
                Ok(true)
            })
            .unwrap();
    }

    /// Every phase a host entered, from its journal.
    pub(crate) fn phases(host: &Host) -> anyhow::Result<Vec<String>> {
        let journal = host.journal_json("kube-rebootd")?;
        let phases = journal.iter().filter_map(|line| line["PHASE"].as_str());
        let mut phases: Vec<String> = phases.map(str::to_owned).collect();
        // A phase has a record for each change of what it waits for.
        phases.dedup();
        Ok(phases)
    }

    /// Waits until a host has rebooted `times` and is idle again.
    pub(crate) fn wait_rebooted(&self, host: &Host, times: usize) {
        let what = format!("{} to have rebooted {times} times and be idle", host.name());
        self.bed
            .wait_for(&what, CYCLE, || {
                // Only then: a shutdown waits up to 90 s for a process that entered the host meanwhile.
                let boots = host.boots()?;
                anyhow::ensure!(boots == times + 1, "{boots} boots");
                let status = host.status()?;
                anyhow::ensure!(status.starts_with("idle"), "it says {status:?}");
                Ok(true)
            })
            .unwrap();
    }

    /// Waits until a host has rebooted its userspace `times`, never more than that, and is idle again.
    pub(crate) fn wait_soft_rebooted(&self, host: &Host, times: u32) {
        let what = format!("{} to have soft-rebooted {times} times", host.name());
        self.bed
            .wait_for(&what, CYCLE, || {
                let (count, _) = host.soft_reboots()?;
                anyhow::ensure!(count == times, "{count} times");
                let status = host.status()?;
                anyhow::ensure!(status.starts_with("idle"), "it says {status:?}");
                Ok(true)
            })
            .unwrap();
    }

    /// Nothing of a hold is left: on the Node, its heartbeat Lease, the group's Leases.
    pub(crate) fn nothing_left(&self, host: &Host) {
        let node = self.node(host);
        assert_eq!(node["spec"].get("unschedulable"), None, "still cordoned");
        Self::no_keys(&node["metadata"], &STAY);
        let path = format!("{HEARTBEATS}/{}", host.name());
        // The kubelet makes it some seconds after its start.
        self.wait("the heartbeat Lease", || Ok(self.bed.get(&path).is_ok()));
        // Whoever is idle says so first, and takes the waiting record away then.
        self.wait("nothing to be left on the heartbeat Lease", || {
            let beat = self.bed.get(&path)?;
            let left = Self::left(&beat["metadata"], &[]);
            anyhow::ensure!(left.is_none(), "{left:?}");
            Ok(true)
        });
        for lease in self.leases() {
            assert_ne!(self.holder(&lease), host.name(), "still holding {lease}");
        }
    }

    fn no_keys(metadata: &Value, but: &[&str]) {
        assert_eq!(Self::left(metadata, but), None, "on {}", metadata["name"]);
    }

    /// A label or an annotation of ours that is there.
    fn left(metadata: &Value, but: &[&str]) -> Option<String> {
        let kinds = [&metadata["labels"], &metadata["annotations"]];
        let mut keys = (kinds.into_iter())
            .filter_map(Value::as_object)
            .flat_map(serde_json::Map::keys);
        let left = |key: &&String| key.starts_with("kube-rebootd/") && !but.contains(&key.as_str());
        keys.find(left).cloned()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let selector = format!("kube-rebootd/group={}", self.group);
        let _ = self
            .bed
            .kubectl(&["-n", "kube-rebootd", "delete", "lease", "-l", &selector]);
    }
}
