//! What makes the common image this host: its name, address, units and credentials, and the roles of
//! its Node.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Result;

use crate::at_once;
use crate::bed::Bed;
use crate::certs::Authority;
use crate::host::{BOOTED, Host};
use crate::runtime::enable;
use crate::spec::{Content, HostSpec, Runtime};

impl Host {
    /// The files that make the image this host.
    pub(crate) fn furnish(&self, spec: &HostSpec) -> Result<()> {
        let etc = self.upper().join("etc");
        let units = etc.join("systemd/system");
        for dir in [
            "upper/etc/kubernetes/pki",
            "upper/var/lib/kubelet/pki",
            "upper/var/log/journal",
            "work",
            "root",
        ] {
            fs::create_dir_all(self.dir.join(dir))?;
        }
        fs::create_dir_all(&units)?;
        fs::write(etc.join("hostname"), format!("{}\n", self.name))?;
        let address = self.bed.address(&self.name)?;
        fs::write(self.dir.join("address"), &address)?;
        let network = NETWORK.replace("ADDRESS", &address);
        fs::write(units.join("bed-network.service"), network)?;
        enable(&units, "bed-network.service")?;
        let own = spec.labels.iter().filter(|label| !is_role(label));
        let mut labels = own.cloned().collect::<Vec<_>>().join(",");
        if !labels.is_empty() {
            labels = format!(" --node-labels={labels}");
        }
        match spec.runtime {
            Runtime::Kubemark => fs::write(
                units.join("kubelet.service"),
                KUBELET
                    .replace("NAME", &self.name)
                    .replace("LABELS", &labels),
            )?,
            Runtime::Containerd => self.furnish_runtime(spec, &address, &labels)?,
        }
        if spec.kubelet {
            enable(&units, "kubelet.service")?;
        }
        self.credentials(&etc.join("kubernetes"))?;
        if let Some(program) = &spec.program {
            let bin = self.upper().join("usr/bin");
            fs::create_dir_all(&bin)?;
            fs::copy(program, bin.join("kube-rebootd"))?;
        }
        if spec.content == Content::Zincati {
            self.furnish_zincati()?;
        }
        for (path, text) in &spec.files {
            let path = self.upper().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap_or(&etc))?;
            fs::write(path, text)?;
        }
        // To the built-in check `kernel` it is a machine: a container has no kernel of its own.
        let machine = etc.join("tmpfiles.d");
        fs::create_dir_all(&machine)?;
        fs::write(machine.join("bed.conf"), "r! /run/systemd/container\n")?;
        // What nspawn has mounted nobody mounts again after a soft-reboot, which ends all mounts but those without umount.target.
        let programs = units.join("opt-bed.mount.d");
        fs::create_dir_all(&programs)?;
        fs::write(
            programs.join("bed.conf"),
            "[Unit]\nDefaultDependencies=no\n",
        )?;
        if let Some(config) = &spec.config {
            fs::create_dir_all(etc.join("kube-rebootd"))?;
            fs::write(etc.join("kube-rebootd/config.toml"), at_once(config))?;
        }
        Ok(())
    }

    /// The kubelet's credentials as kubeadm lays them out.
    fn credentials(&self, kubernetes: &Path) -> Result<()> {
        let pki = self.bed.path("pki");
        self.bed.node_kubeconfig(&self.name)?;
        let file = format!("system_node_{}", self.name);
        let cert = fs::read_to_string(pki.join(format!("{file}.crt")))?;
        let key = fs::read_to_string(pki.join(format!("{file}.key")))?;
        let kubelet = self.upper().join("var/lib/kubelet/pki");
        fs::write(
            kubelet.join("kubelet-client-2026-01-01-00-00-00.pem"),
            format!("{cert}{key}"),
        )?;
        symlink(
            "kubelet-client-2026-01-01-00-00-00.pem",
            kubelet.join("kubelet-client-current.pem"),
        )?;
        fs::copy(pki.join("ca.crt"), kubernetes.join("pki/ca.crt"))?;
        let pem = "/var/lib/kubelet/pki/kubelet-client-current.pem";
        let user = format!("system:node:{}", self.name);
        let text = Authority::kubeconfig(&user, "/etc/kubernetes/pki/ca.crt", pem, pem);
        fs::write(kubernetes.join("kubelet.conf"), text)?;
        Ok(())
    }

    /// Labels the Node with the roles its kubelet may not give itself.
    pub(crate) fn give_roles(&self, spec: &HostSpec) -> Result<()> {
        let roles = spec.labels.iter().filter(|label| is_role(label));
        let roles: Vec<&str> = roles.map(String::as_str).collect();
        if roles.is_empty() {
            return Ok(());
        }
        let args = [&["label", "node", &self.name, "--overwrite"], &roles[..]].concat();
        let what = format!("Node {} to take its roles", self.name);
        self.bed
            .wait_for(&what, BOOTED, || self.bed.kubectl(&args).map(|_| true))
    }
}

impl Bed {
    /// The address of a host: counted up under a lock, as tests boot hosts side by side; a name keeps its own.
    pub(crate) fn address(&self, host: &str) -> Result<String> {
        let path = self.path("addresses");
        let file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(&path)?;
        let lock = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusive)
            .map_err(|(_, errno)| errno)?;
        let text = fs::read_to_string(&path)?;
        let known = text.lines().position(|line| line == host);
        if known.is_none() {
            std::io::Write::write_all(&mut &*lock, format!("{host}\n").as_bytes())?;
        }
        let taken = known.unwrap_or_else(|| text.lines().count()) + 2;
        Ok(format!("10.123.{}.{}", taken / 250, taken % 250 + 2))
    }
}

/// A role label: NodeRestriction lets no kubelet set it, an admin does (as kubeadm).
fn is_role(label: &str) -> bool {
    label.starts_with("node-role.kubernetes.io/")
}

const NETWORK: &str = "[Unit]
Description=Network of the test bed
DefaultDependencies=no
Before=network.target network-online.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=ip addr add ADDRESS/16 dev host0
ExecStart=ip link set host0 up
ExecStart=ip link set lo up
[Install]
WantedBy=multi-user.target
";

const KUBELET: &str = "[Unit]
Description=The kubelet, with a fake container runtime
After=bed-network.service
[Service]
ExecStart=/opt/bed/kubelet --name=NAME --kubeconfig=/etc/kubernetes/kubelet.conf --v=1LABELS
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
";
