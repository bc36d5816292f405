//! A host for the command line: a directory as its root, a fake system bus, and the built binary.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use kube_rebootd::boot::Boot;
use kube_rebootd::root::Root;
use tempfile::TempDir;

use crate::fake_bus::FakeHostBus;

pub(crate) const BOOT_ID: &str = "b0000000-0000-4000-8000-000000000000";

pub(crate) struct CliHost {
    dir: TempDir,
    pub(crate) bus: FakeHostBus,
}

/// What the binary said.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CliHost {
    pub(crate) async fn start() -> Self {
        let host = Self {
            dir: tempfile::tempdir().expect("a directory"),
            bus: FakeHostBus::start().await,
        };
        host.write("/proc/sys/kernel/random/boot_id", &format!("{BOOT_ID}\n"));
        host.write("/run/.keep", "");
        host
    }

    pub(crate) fn root(&self) -> Root {
        Root::at(self.dir.path())
    }

    /// The boot that the root and the bus tell.
    pub(crate) fn boot(&self) -> Boot {
        Boot {
            id: BOOT_ID.to_owned(),
            userspace: self.bus.knobs().boot_usec,
        }
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.root().path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(&path, text).expect("written");
        path
    }

    /// The node's own kubeconfig where kubeadm puts it.
    pub(crate) fn join(&self, kubeconfig: PathBuf) {
        let text = fs::read_to_string(kubeconfig).expect("a kubeconfig");
        self.write("/etc/kubernetes/kubelet.conf", &text);
    }

    /// Runs the binary on this host, in the network namespace of the calling thread.
    pub(crate) async fn run(&self, words: &[&str]) -> Said {
        let mut command = binary();
        command
            .arg("--root")
            .arg(self.dir.path())
            .env("DBUS_SYSTEM_BUS_ADDRESS", self.bus.address())
            .args(words);
        said(command.output().await.expect("it runs"))
    }
}

/// The binary without anything of the caller's environment that could lead it to a cluster.
pub(crate) fn binary() -> tokio::process::Command {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_kube-rebootd"));
    command
        .env_remove("KUBECONFIG")
        .env_remove("HOME")
        .env("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent")
        .kill_on_drop(true);
    command
}

pub(crate) fn said(output: Output) -> Said {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Said {
        code: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}
