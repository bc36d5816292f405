//! What every row stands on: the bed, an admin's client, the fake bus, the daemon's binary.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use testbed::{Bed, Request, Stub};
use tokio::runtime::Runtime;

use crate::bus::Bus;

/// Namespace of the Leases.
pub(crate) const NAMESPACE: &str = "kube-rebootd";
/// User-Agent of the daemon.
pub(crate) const DAEMON: &str = "kube-rebootd/";
/// How long anything may take that is not itself measured.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);
/// Between two looks at something that is about to happen; what is measured is timed by others.
const LOOK: Duration = Duration::from_millis(50);
/// The same for what is timed by the look itself.
const SOON: Duration = Duration::from_millis(2);

/// What every row stands on.
pub(crate) struct World {
    pub(crate) bed: Bed,
    pub(crate) binary: PathBuf,
    pub(crate) runtime: Runtime,
    pub(crate) client: Client,
    pub(crate) bus: Bus,
    /// Runs per figure.
    pub(crate) runs: usize,
}

impl World {
    /// The bed must be up and this thread inside it.
    pub(crate) fn new(bed: Bed, binary: PathBuf, runs: usize) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let client = runtime.block_on(bed.admin())?;
        Ok(Self {
            bus: Bus::start()?,
            bed,
            binary,
            runtime,
            client,
            runs,
        })
    }

    /// The namespace, the rights, and one open slot for each group.
    pub(crate) fn slots(&self, groups: &[&str]) -> Result<()> {
        for group in groups {
            let out = Command::new(&self.binary)
                .args(["manifests", "--group", group])
                .output()
                .with_context(|| format!("cannot run {}", self.binary.display()))?;
            if !out.status.success() {
                bail!(
                    "kube-rebootd manifests: {}",
                    String::from_utf8_lossy(&out.stderr)
                );
            }
            self.bed.apply(&String::from_utf8(out.stdout)?)?;
        }
        let open = [
            "-n",
            NAMESPACE,
            "annotate",
            "lease",
            "--all",
            "kube-rebootd/paused-",
        ];
        self.bed.kubectl(&open).map(|_| ())
    }

    /// A group's only slot: holder and the whole object.
    pub(crate) fn slot(&self, group: &str) -> Result<Lease> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let params = ListParams::default().labels(&format!("kube-rebootd/group={group}"));
        let list = self.runtime.block_on(api.list(&params))?;
        list.items
            .into_iter()
            .next()
            .context("the group has no slot")
    }

    /// Who holds a group's slot.
    pub(crate) fn holder(&self, group: &str) -> Result<Option<String>> {
        let spec = self.slot(group)?.spec.unwrap_or_default();
        Ok(spec.holder_identity.filter(|holder| !holder.is_empty()))
    }

    /// Sets who holds a group's slot, as an admin may; `next` are those who are named to take it.
    pub(crate) fn set_holder(
        &self,
        group: &str,
        holder: Option<&str>,
        next: &[String],
    ) -> Result<()> {
        let name = self.slot(group)?.metadata.name.unwrap_or_default();
        let api: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let next = Some(next.join(",")).filter(|next| !next.is_empty());
        let patch = Patch::Merge(
            json!({"metadata": {"annotations": {"kube-rebootd/next": next}},
            "spec": {"holderIdentity": holder, "acquireTime": null}}),
        );
        self.runtime
            .block_on(api.patch(&name, &PatchParams::default(), &patch))?;
        Ok(())
    }

    /// A Node.
    pub(crate) fn node(&self, name: &str) -> Result<Node> {
        let api: Api<Node> = Api::all(self.client.clone());
        Ok(self.runtime.block_on(api.get(name))?)
    }

    /// A sign of life in place of the kubelet of a played Node, which kwok gives only every 10 s.
    pub(crate) fn beat(&self, node: &str) -> Result<()> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
        let now = Timestamp::now();
        let patch = Patch::Merge(json!({"spec": {"renewTime": format!("{now:.6}")}}));
        let params = PatchParams::default();
        self.runtime.block_on(api.patch(node, &params, &patch))?;
        Ok(())
    }

    /// Waits, looking often; the error tells what was waited for.
    pub(crate) fn until(&self, what: &str, done: impl FnMut() -> Result<bool>) -> Result<()> {
        self.poll(what, LOOK, done)
    }

    fn poll(
        &self,
        what: &str,
        pause: Duration,
        mut done: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let begun = Instant::now();
        loop {
            if done()? {
                return Ok(());
            }
            if begun.elapsed() > LIMIT {
                bail!("waited {LIMIT:?} in vain for {what}");
            }
            self.rest(pause);
        }
    }

    /// Sleeps, while connections go on.
    pub(crate) fn rest(&self, time: Duration) {
        self.runtime
            .block_on(async { tokio::time::sleep(time).await });
    }

    /// Waits until the next reboot is asked for; when that was.
    pub(crate) fn reboot_asked(&self, before: usize, stub: &Stub) -> Result<Timestamp> {
        self.poll("a reboot to be asked for", SOON, || {
            Ok(self.bus.reboots() > before)
        })
        .with_context(|| format!("{} says:\n{}", stub.name(), stub.log()))?;
        Ok(Timestamp::now())
    }

    /// The host comes back, its kubelet lives, and the daemon gives the slot up.
    pub(crate) fn come_back(&self, stub: &mut Stub, group: &str) -> Result<()> {
        stub.reboot()?;
        let (name, me) = (stub.name().to_owned(), Some(stub.name().to_owned()));
        let mut beaten = Instant::now();
        // Seldom: what the API server spends on this is no cost of the daemon's.
        let pause = Duration::from_millis(200);
        self.poll(&format!("{name} to give its slot up"), pause, || {
            if beaten.elapsed() > Duration::from_millis(500) {
                beaten = Instant::now();
                self.beat(&name)?;
            }
            Ok(self.holder(group)? != me)
        })
        .with_context(|| format!("{name} says:\n{}", stub.log()))
    }

    /// What some User-Agent asked since then; a watch is logged at its begin and at its end, and is one.
    pub(crate) fn since(&self, agent: &str, since: Timestamp) -> Result<Vec<Request>> {
        let mut all = self.bed.requests_by(agent)?;
        all.retain(|request| request.at >= since);
        all.dedup_by(|later, one| {
            later.at == one.at && later.uri == one.uri && later.user == one.user
        });
        Ok(all)
    }
}

/// Seconds from one time to a later one.
pub(crate) fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

/// As a figure.
#[allow(clippy::cast_precision_loss)] // counts of a bench are far below 2^53
pub(crate) fn count(number: usize) -> f64 {
    number as f64
}
