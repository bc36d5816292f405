//! What a host is to be, before it is booted.

use std::path::PathBuf;

/// The distribution that hosts run unless they say otherwise: systemd 257.
pub const SUITE: &str = "trixie";

/// What there is beside a minimal Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// What `make install` puts there.
    Installed,
    /// Nothing of ours: a package brings it.
    Bare,
    /// The same, and the updaters of several distributions.
    Updaters,
    /// What `make install` puts there, and the real Zincati, which asks our daemon: see `zincati.rs`.
    Zincati,
}

impl Content {
    /// Whether the daemon is there from the first boot on.
    pub(crate) fn installed(self) -> bool {
        matches!(self, Self::Installed | Self::Zincati)
    }
}

/// What runs a host's pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// The real kubelet code with a fake runtime, as kubemark: quick and small, but pods end at once and nothing is
    /// mounted.
    Kubemark,
    /// The real kubelet and the real containerd.
    Containerd,
}

/// What a host is to be.
#[derive(Debug, Clone)]
pub struct HostSpec {
    /// Host and Node name; unique in the bed, at most 12 characters (a veth's name).
    pub name: String,
    /// /etc/kube-rebootd/config.toml, with [`crate::at_once`]; none: as installed.
    pub config: Option<String>,
    /// Labels of the Node, `key=value`.
    pub labels: Vec<String>,
    /// Enable kube-rebootd.service.
    pub daemon: bool,
    /// Run a kubelet.
    pub kubelet: bool,
    /// And what below it.
    pub runtime: Runtime,
    /// Debian's release: bookworm is systemd 252, trixie 257.
    pub suite: String,
    /// A virtual machine, with firmware and a kernel of its own; else a container.
    pub machine: bool,
    /// What is there at its first boot.
    pub content: Content,
    /// The daemon's program; none: as installed.
    pub program: Option<PathBuf>,
    /// More files: path and text.
    pub files: Vec<(String, String)>,
}

impl HostSpec {
    /// A host with kubelet and daemon.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            config: None,
            labels: Vec::new(),
            daemon: true,
            kubelet: true,
            runtime: Runtime::Kubemark,
            suite: SUITE.to_owned(),
            machine: false,
            content: Content::Installed,
            program: None,
            files: Vec::new(),
        }
    }

    /// The same with the real kubelet and the real containerd.
    pub fn real(name: impl Into<String>) -> Self {
        Self::named(name).on(Runtime::Containerd)
    }

    /// A virtual machine with the real kubelet and the real containerd, on which nothing of ours is installed yet.
    pub fn machine(name: impl Into<String>) -> Self {
        let machine = true;
        Self {
            machine,
            ..Self::real(name).content(Content::Bare)
        }
    }

    /// With this kubelet and what is below it.
    #[must_use]
    pub fn on(mut self, runtime: Runtime) -> Self {
        self.runtime = runtime;
        self
    }

    /// With this configuration of the daemon.
    #[must_use]
    pub fn config(mut self, text: impl Into<String>) -> Self {
        self.config = Some(text.into());
        self
    }

    /// Where a package will bring the daemon.
    #[must_use]
    pub fn content(mut self, content: Content) -> Self {
        self.daemon = content.installed();
        self.content = content;
        self
    }

    /// With this build of the daemon.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(path.into());
        self
    }

    /// With this file from its first boot on.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, text: impl Into<String>) -> Self {
        self.files.push((path.into(), text.into()));
        self
    }

    /// With these settings of the real kubelet, as YAML.
    #[must_use]
    pub fn kubelet_config(self, settings: &str) -> Self {
        let kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration";
        let file = "/etc/kubernetes/kubelet.d/50-test.conf";
        self.file(file, format!("{kind}\n{settings}"))
    }

    /// With this label on its Node.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.labels.push(label.into());
        self
    }
}
