//! The machine as a node: what it, its daemon and the API server say.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use testbed::{Bed, Host};

use crate::{LIMIT, NAME};

/// Prefers the machine, and is let go.
const WORKLOAD: &str = include_str!("workload.yaml");

pub(crate) struct Machine {
    pub(crate) bed: Bed,
    pub(crate) host: Host,
}

/// The manifests, with the one slot opened.
pub(crate) fn slot(bed: &Bed, binary: &Path) -> Result<()> {
    let out = Command::new(binary)
        .args(["manifests", "--slots", "1"])
        .output()?;
    ensure!(out.status.success(), "kube-rebootd manifests: {out:?}");
    bed.apply(&String::from_utf8(out.stdout)?)?;
    let lease = ["annotate", "lease", "--all", "kube-rebootd/paused-"];
    bed.kubectl(&[&["-n", "kube-rebootd"], &lease[..]].concat())?;
    Ok(())
}

impl Machine {
    pub(crate) fn sh(&self, line: &str) -> Result<String> {
        self.host.sh(line)
    }

    pub(crate) fn wait(&self, what: &str, done: impl FnMut() -> Result<bool>) -> Result<()> {
        self.bed.wait_for(what, LIMIT, done)
    }

    /// The release that runs.
    pub(crate) fn kernel(&self) -> Result<String> {
        Ok(self.sh("uname -r")?.trim().to_owned())
    }

    pub(crate) fn boot(&self) -> Result<String> {
        self.host.boot_id()
    }

    /// Boots that have a journal.
    pub(crate) fn boots(&self) -> Result<usize> {
        let said = self.sh("journalctl --quiet --list-boots --no-pager")?;
        Ok(said.lines().count())
    }

    pub(crate) fn booted_since(&self, before: &str) -> Result<()> {
        self.wait("another boot", || Ok(self.boot()? != before))
    }

    /// How the name of systemd-boot's entry for a kernel ends: with a plus, the tries that are left and those in vain;
    /// without these once a boot of it was found good.
    pub(crate) fn entry(&self, kernel: &str) -> Result<String> {
        let names = self.sh("ls /boot/efi/loader/entries")?;
        let mut ends = names.lines().filter_map(|name| name.split_once(kernel));
        let (_, end) = ends.next().context("it has no entry")?;
        Ok(end.to_owned())
    }

    /// Installs a file as an administrator would.
    pub(crate) fn apt(&self, file: &str) -> Result<()> {
        let env = ["env", "DEBIAN_FRONTEND=noninteractive"];
        let install = ["apt-get", "-y", "install", file];
        let out = self.host.run_for(600, &[&env[..], &install].concat())?;
        ensure!(out.code == 0, "apt-get: {}{}", out.stdout, out.stderr);
        Ok(())
    }

    fn node(&self, path: &str) -> Result<String> {
        let path = format!("jsonpath={path}");
        self.bed.kubectl(&["get", "node", NAME, "-o", &path])
    }

    pub(crate) fn ready(&self) -> Result<bool> {
        Ok(self.node("{.status.conditions[?(@.type==\"Ready\")].status}")? == "True")
    }

    fn holder(&self) -> Result<String> {
        let path = "jsonpath={.items[*].spec.holderIdentity}";
        self.bed
            .kubectl(&["-n", "kube-rebootd", "get", "leases", "-o", path])
    }

    /// Proved, schedulable and without the slot.
    pub(crate) fn idle(&self) -> Result<()> {
        self.wait("the daemon to be idle", || {
            let (status, holder) = (self.host.status()?, self.holder()?);
            let cordoned = self.node("{.spec.unschedulable}")?;
            if !status.starts_with("idle") || !holder.is_empty() || !cordoned.is_empty() {
                bail!("status {status:?}, holder {holder:?}, unschedulable {cordoned:?}");
            }
            Ok(true)
        })
    }

    /// It waits in its new boot, with slot and cordon, for this alone.
    pub(crate) fn waits_for(&self, what: &str) -> Result<()> {
        self.wait(what, || {
            let status = self.host.status()?;
            let alone = status.strip_suffix(what);
            if alone.is_none_or(|before| before.contains([';', ','])) {
                bail!("it says {status:?}");
            }
            Ok(true)
        })?;
        let (holder, cordoned) = (self.holder()?, self.node("{.spec.unschedulable}")?);
        ensure!(holder.starts_with(NAME), "the slot is {holder:?}'s");
        ensure!(cordoned == "true", "the Node is schedulable");
        Ok(())
    }

    /// The reason of the condition that the daemon writes.
    pub(crate) fn condition_says(&self, reason: &str) -> Result<()> {
        let path = "{.status.conditions[?(@.type==\"RebootRequired\")].reason}";
        self.wait(reason, || {
            let said = self.node(path)?;
            ensure!(said == reason, "the condition's reason is {said:?}");
            Ok(true)
        })
    }

    /// The reboots that the Node tells of, the last one first.
    pub(crate) fn history(&self) -> Result<Vec<Value>> {
        let told = self.node("{.metadata.annotations.kube-rebootd/history}")?;
        serde_json::from_str(&told).with_context(|| format!("the history is {told:?}"))
    }

    /// No trigger that is configured has a reason.
    pub(crate) fn asks_for_nothing(&self) -> Result<()> {
        self.wait("no reason for a reboot", || {
            let out = self.host.run(&["kube-rebootd", "check"])?;
            ensure!(
                out.code == 0,
                "kube-rebootd check: {}{}",
                out.stdout,
                out.stderr
            );
            Ok(true)
        })
    }

    /// A pod runs here.
    pub(crate) fn pod(&self) -> Result<()> {
        self.bed.apply(&WORKLOAD.replace("IMAGE", testbed::IMAGE))?;
        self.wait("a pod on the machine", || Ok(self.pod_is_on()? == NAME))
    }

    /// Where the pod that is Ready is.
    pub(crate) fn pod_is_on(&self) -> Result<String> {
        let path = "jsonpath={.items[?(@.status.containerStatuses[0].ready==true)].spec.nodeName}";
        self.bed.kubectl(&["get", "pods", "-o", path])
    }

    /// All that is needed to see why something was not as it should be.
    pub(crate) fn tell(&self) {
        let console = self.host.console().unwrap_or_default();
        let lines: Vec<&str> = console.lines().collect();
        let last = lines.len().saturating_sub(200);
        eprintln!("--- The end of the console:\n{}", lines[last..].join("\n"));
        let status = self.host.status().unwrap_or_else(|err| err.to_string());
        eprintln!("--- Status: {status}");
        self.host.tell();
    }
}
