//! A host that is a directory tree: the daemon's binary runs for real against the API server, with
//! `--root` and a bus that somebody plays. For loads of many nodes; a [`crate::Host`] is the real thing.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::{Context, Result};

use crate::at_once;
use crate::bed::Bed;
use crate::certs::Authority;
use crate::ground;

/// Where the kernel tells the boot.
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";
/// What says that a reboot is required.
const SENTINEL: &str = "run/reboot-required";

/// A directory tree and the daemon that runs on it; both go with this value.
#[derive(Debug)]
pub struct Stub {
    bed: Bed,
    name: String,
    dir: PathBuf,
    binary: PathBuf,
    bus: String,
    boots: usize,
    daemon: Option<Child>,
}

impl Stub {
    /// Furnishes the tree, with the node's own credential; `bus` is an address of D-Bus.
    pub fn new(bed: &Bed, name: &str, binary: &Path, bus: &str, config: &str) -> Result<Self> {
        ground::make_annex(bed.name())?;
        let dir = bed.path("stubs").join(name);
        let kubernetes = dir.join("etc/kubernetes");
        for place in ["etc/kube-rebootd", "etc/kubernetes", "run", "var/lib"] {
            fs::create_dir_all(dir.join(place))?;
        }
        fs::create_dir_all(
            dir.join(BOOT_ID)
                .parent()
                .context("a boot id has a place")?,
        )?;
        let pki = bed.path("pki");
        let user = format!("system:node:{name}");
        Authority::at(&pki).client(&format!("stub-{name}"), &user, "system:nodes")?;
        for (from, to) in [
            ("ca.crt".to_owned(), "ca.crt"),
            (format!("stub-{name}.crt"), "client.crt"),
            (format!("stub-{name}.key"), "client.key"),
        ] {
            fs::copy(pki.join(from), kubernetes.join(to))?;
        }
        let at = |file: &str| format!("/etc/kubernetes/{file}");
        let text =
            Authority::kubeconfig(&user, &at("ca.crt"), &at("client.crt"), &at("client.key"));
        fs::write(kubernetes.join("kubelet.conf"), text)?;
        fs::write(dir.join("etc/kube-rebootd/config.toml"), at_once(config))?;
        let mut stub = Self {
            bed: bed.clone(),
            name: name.to_owned(),
            dir,
            binary: binary.to_owned(),
            bus: bus.to_owned(),
            boots: 0,
            daemon: None,
        };
        stub.new_boot()?;
        Ok(stub)
    }

    /// Host and Node name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn new_boot(&mut self) -> Result<()> {
        self.boots += 1;
        fs::write(
            self.dir.join(BOOT_ID),
            format!("{}-{}\n", self.name, self.boots),
        )?;
        Ok(())
    }

    /// Starts the daemon.
    pub fn start(&mut self) -> Result<()> {
        fs::create_dir_all(self.bed.cgroup("stubs"))?;
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.join("log"))?;
        let mut command = self.bed.within_annex("stubs", &self.binary);
        command.arg("run").arg("--root").arg(&self.dir);
        command
            .env("DBUS_SYSTEM_BUS_ADDRESS", &self.bus)
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        self.daemon = Some(command.spawn().context("cannot start the daemon")?);
        Ok(())
    }

    /// The daemon's process; what started it has become it.
    pub fn pid(&self) -> Option<u32> {
        self.daemon.as_ref().map(Child::id)
    }

    /// Ends the daemon at once.
    pub fn stop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }

    /// Power off and on: another boot, with an empty /run.
    pub fn reboot(&mut self) -> Result<()> {
        self.stop();
        fs::remove_dir_all(self.dir.join("run"))?;
        fs::create_dir(self.dir.join("run"))?;
        self.new_boot()?;
        self.start()
    }

    /// Says that a reboot is required, for a reason of its own each time: the daemon ignores what its last
    /// reboot did not clear.
    pub fn require(&self, reason: &str) -> Result<()> {
        fs::write(self.dir.join(format!("{SENTINEL}.pkgs")), reason)?;
        fs::write(self.dir.join(SENTINEL), "")?;
        Ok(())
    }

    /// Says that none is required any more.
    pub fn relent(&self) -> Result<()> {
        fs::remove_file(self.dir.join(SENTINEL))?;
        Ok(())
    }

    /// What the daemon has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.dir);
    }
}
