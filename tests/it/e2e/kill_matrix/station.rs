//! A host of the kill matrix: a group, a Lease and a pod of its own, looked at without a process per
//! look, as a matrix looks often.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use testbed::{Host, HostSpec, IMAGE, Runtime};
use tokio::runtime;

use super::Kind;
use crate::e2e::{STAY, Site, fleet_lock, stop_points};

pub(super) const STATE: &str = "/var/lib/kube-rebootd";
const SENTINEL: &str = "/run/reboot-required";
/// What the updater waits with. Lost with the power, as what ostree has staged.
const STAGED: &str = "/run/staged";
/// Asks as Zincati does: at each start whether the host may be used, then until it is told to go on.
const UPDATER: &str = r#"#!/bin/bash
says_yes() { runuser -u zincati -- timeout 20 bash /usr/local/lib/ask "$1" 2>/dev/null | grep -q '^HTTP/1.1 200 '; }
until says_yes steady-state; do sleep 0.5; done
while sleep 0.5; do
    [ -e /run/staged ] && says_yes pre-reboot && rm /run/staged && systemctl --no-block reboot --check-inhibitors=no
done
"#;
const UPDATER_UNIT: &str =
    "[Service]\nExecStart=bash /usr/local/lib/updater\n[Install]\nWantedBy=multi-user.target\n";
/// Its user, and the unit from now on at each boot.
const WITH_UPDATER: &str =
    "echo 'u zincati - \"Zincati user\"' | systemd-sysusers - && systemctl enable --now updater";

/// Quick where a person's patience is the only reason to be slow; two reboots a day are few here.
const CONFIG: &str = "[drain]\nmode = \"always\"\n[reboot]\nretry = \"1s\"\nmax_per_day = 100\n";
/// Restarted at once, not after `RestartSec=10s`: the same start, sooner.
const AT_ONCE: &str = "[Service]\nRestartSec=50ms\n";
/// Long enough to kill the daemon in while the host waits to go down.
const INHIBIT: &str = "[Login]\nInhibitDelayMaxSec=30\n";
/// The kubelet renews its Lease when it starts, and again after 10 s, which cannot be shortened: the
/// daemon is to be there for the first.
const LATER: &str = "[Unit]\nAfter=kube-rebootd.service\n[Service]\nExecStartPre=sleep 1\n";
/// A made-up node that holds the slot until the host has queued.
const HOLDER: &str = "somebody-else";

/// One host and what belongs to it.
pub(super) struct Station {
    pub(super) kind: Kind,
    pub(super) host: Host,
    pub(super) site: Site,
    runtime: runtime::Runtime,
    kubelet: Runtime,
    client: Client,
    config: &'static str,
    hosts: u32,
}

impl Station {
    pub(super) fn new(kind: Kind, group: &str, kubelet: Runtime, config: &'static str) -> Self {
        let site = Site::beside(group);
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = runtime.block_on(site.bed.admin()).unwrap();
        site.bed.apply(&workload(group, kind)).unwrap();
        let host = boot(&site, kind, kubelet, config, 0);
        Self {
            kind,
            host,
            site,
            runtime,
            kubelet,
            client,
            config,
            hosts: 1,
        }
    }

    /// Another host: the last one is in a state that a next case must not begin with.
    pub(super) fn renew(&mut self) {
        // The old one goes first: the pod moves.
        let new = boot(&self.site, self.kind, self.kubelet, self.config, self.hosts);
        drop(std::mem::replace(&mut self.host, new));
        self.hosts += 1;
        self.hold("").unwrap();
        self.move_pod();
    }

    /// Asks for a reboot; no two requests have the same reasons (I10).
    pub(super) fn want(&self, why: &str) -> Result<()> {
        if self.kind == Kind::Updater {
            return Ok(fs::write(self.host.outer(STAGED), why)?);
        }
        fs::write(
            self.host.outer(&format!("{SENTINEL}.pkgs")),
            format!("{why}\n"),
        )?;
        Ok(fs::write(self.host.outer(SENTINEL), "")?)
    }

    pub(super) fn withdraw(&self) -> Result<()> {
        Ok(fs::remove_file(self.host.outer(SENTINEL))?)
    }

    /// The slot's holder, as an admin says.
    pub(super) fn hold(&self, holder: &str) -> Result<()> {
        let patch = json!({"spec": {"holderIdentity": holder}});
        let api: Api<Lease> = Api::namespaced(self.client.clone(), "kube-rebootd");
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.runtime
            .block_on(api.patch(&self.site.group, &params, &patch))?;
        Ok(())
    }

    pub(super) fn hold_for_another(&self) -> Result<()> {
        self.hold(HOLDER)
    }

    fn lease(&self, namespace: &str, name: &str) -> Result<Lease> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), namespace);
        Ok(self.runtime.block_on(api.get(name))?)
    }

    pub(super) fn held_by_another(&self) -> Result<bool> {
        Ok(self.holder()? == HOLDER)
    }

    fn holder(&self) -> Result<String> {
        let lease = self.lease("kube-rebootd", &self.site.group)?;
        Ok(lease
            .spec
            .and_then(|spec| spec.holder_identity)
            .unwrap_or_default())
    }

    pub(super) fn node(&self) -> Result<Node> {
        let api: Api<Node> = Api::all(self.client.clone());
        Ok(self.runtime.block_on(api.get(self.host.name()))?)
    }

    /// Somebody else comes to own the slot label too, as a restore or an edit would: leaving it out of an
    /// apply no longer removes it. False: it is not there (any more).
    pub(super) fn own_label_too(&self) -> Result<bool> {
        let node = self.node()?;
        let key = "kube-rebootd/slot";
        let labels = node.metadata.labels.unwrap_or_default();
        let Some(value) = labels.get(key) else {
            return Ok(false);
        };
        // Applied: a patch to the same value would be none, and make nobody an owner.
        let patch = Patch::Apply(json!({"apiVersion": "v1", "kind": "Node", "metadata": {
            "labels": {key: value},
            "resourceVersion": node.metadata.resource_version,
        }}));
        let api: Api<Node> = Api::all(self.client.clone());
        let params = PatchParams::apply("restore").force();
        let applied = self
            .runtime
            .block_on(api.patch(self.host.name(), &params, &patch));
        Ok(applied.is_ok())
    }

    /// Its pod runs on this very host: there is something to drain.
    pub(super) fn peopled(&self) -> Result<bool> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        let mine = ListParams::default().labels(&format!("app={}", self.site.group));
        let pods = self.runtime.block_on(api.list(&mine))?.items;
        let [pod] = pods.as_slice() else {
            return Ok(false);
        };
        let here = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        let stays = pod.metadata.deletion_timestamp.is_none();
        Ok(stays && here == Some(self.host.name()) && phase == Some("Running"))
    }

    /// What ran on a host that is gone would be looked for there for minutes.
    fn move_pod(&self) {
        let selector = format!("app={}", self.site.group);
        let args = [
            "delete",
            "pod",
            "-l",
            &selector,
            "--force",
            "--grace-period=0",
        ];
        self.site.kubectl(&args);
    }

    /// What is left of a hold; none: nothing.
    pub(super) fn left(&self) -> Result<()> {
        let holder = self.holder()?;
        ensure!(holder.is_empty(), "the Lease is held by {holder}");
        let node = self.node()?;
        let unschedulable = node.spec.and_then(|spec| spec.unschedulable);
        ensure!(unschedulable != Some(true), "the Node is cordoned");
        let beat = self.lease("kube-node-lease", self.host.name())?;
        for (what, metadata) in [("Node", node.metadata), ("kube-node-lease", beat.metadata)] {
            let labels = metadata.labels.unwrap_or_default().into_keys();
            let annotations = metadata.annotations.unwrap_or_default().into_keys();
            let ours = labels
                .chain(annotations)
                .find(|key| key.starts_with("kube-rebootd/") && !STAY.contains(&key.as_str()));
            ensure!(ours.is_none(), "{what} still has {ours:?}");
        }
        let status = self.host.status()?;
        ensure!(status == "idle: no reboot needed", "it says {status:?}");
        Ok(())
    }

    /// Reboots in the history since, on the Node and on the disk.
    pub(super) fn history(&self, since: Timestamp) -> Result<(usize, usize)> {
        let node = self.node()?.metadata.annotations.unwrap_or_default();
        let node = node
            .get("kube-rebootd/history")
            .map_or("[]", String::as_str);
        let state = fs::read_to_string(self.host.outer(&format!("{STATE}/state.json")))?;
        let state: Value = serde_json::from_str(&state)?;
        let count = |history: &Value| -> Result<usize> {
            let past = history.as_array().into_iter().flatten();
            let times = past.map(|past| Ok(past["at"].as_str().context("no time")?.parse()?));
            let times = times.collect::<Result<Vec<Timestamp>>>()?;
            Ok(times.into_iter().filter(|at| *at >= since).count())
        };
        Ok((
            count(&serde_json::from_str(node)?)?,
            count(&state["history"])?,
        ))
    }

    /// For a failure: what the daemon said since.
    pub(super) fn journal(&self, since: Timestamp) -> String {
        let line = format!(
            "journalctl --no-pager -o short-precise -u kube-rebootd --since @{}",
            since.as_second()
        );
        self.host.sh(&line).unwrap_or_else(|err| err.to_string())
    }

    pub(super) fn wait(
        &self,
        what: &str,
        limit: Duration,
        mut done: impl FnMut() -> Result<bool>,
    ) -> Result<(), String> {
        let waited = self.site.bed.wait_for(what, limit, &mut done);
        waited.map_err(|err| format!("{err:#}"))
    }
}

fn boot(site: &Site, kind: Kind, kubelet: Runtime, config: &str, number: u32) -> Host {
    let name = format!("{}-{number}", site.group);
    let spec = stop_points::program(HostSpec::named(name).on(kubelet))
        .label(format!("test/group={}", site.group))
        .file(
            "/etc/systemd/system/kube-rebootd.service.d/test.conf",
            AT_ONCE,
        )
        .file("/etc/systemd/logind.conf.d/test.conf", INHIBIT)
        .file("/etc/systemd/system/kubelet.service.d/test.conf", LATER)
        .config(site.config(&format!("{CONFIG}{config}")));
    if kind != Kind::Updater {
        return site.boot(&spec);
    }
    let spec = spec
        .file("/usr/local/lib/updater", UPDATER)
        .file("/usr/local/lib/ask", fleet_lock::question())
        .file("/etc/systemd/system/updater.service", UPDATER_UNIT);
    let host = site.boot(&spec);
    host.sh(WITH_UPDATER).unwrap();
    host
}

/// One pod that runs on this group's host, made again wherever it may; in an undone cycle its budget
/// never lets it go, so that the drain waits.
fn workload(group: &str, kind: Kind) -> String {
    let allowed = match kind {
        Kind::Rebooted | Kind::Updater => 1,
        Kind::Undone => 0,
    };
    format!(
        r"apiVersion: apps/v1
kind: Deployment
metadata: {{name: {group}, namespace: default}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {group}}}}}
  template:
    metadata: {{labels: {{app: {group}}}}}
    spec:
      automountServiceAccountToken: false
      nodeSelector: {{test/group: {group}}}
      containers: [{{name: main, image: {IMAGE}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {group}, namespace: default}}
spec:
  maxUnavailable: {allowed}
  selector: {{matchLabels: {{app: {group}}}}}
"
    )
}

impl Drop for Station {
    fn drop(&mut self) {
        let objects = format!("deployment/{0},pdb/{0}", self.site.group);
        for object in objects.split(',') {
            let _ = self.site.bed.kubectl(&["delete", object, "--wait=false"]);
        }
    }
}
