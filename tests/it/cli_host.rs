//! A host for the command line: a directory as its root, a fake system bus, and the built binary.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use kube_rebootd::root::Root;
use kube_rebootd_core::boot::Boot;
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
        Self::on(FakeHostBus::start().await)
    }

    /// With a bus that is special.
    pub(crate) fn on(bus: FakeHostBus) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let host = Self { dir, bus };
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
        let file = self.root().path(path);
        fs::create_dir_all(file.parent().expect("a parent")).expect("made");
        fs::write(&file, text).expect("written");
        // Whatever the umask of whoever runs the tests is: nobody else may write (I14).
        let set = |path: &Path, mode| {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(self.root().path(path), mode).expect("a mode");
        };
        for directory in Path::new(path).ancestors().skip(1) {
            set(directory, 0o755);
        }
        set(Path::new(path), 0o644);
        file
    }

    /// The node's own kubeconfig where kubeadm puts it.
    pub(crate) fn join(&self, kubeconfig: PathBuf) {
        let text = fs::read_to_string(kubeconfig).expect("a kubeconfig");
        self.write("/etc/kubernetes/kubelet.conf", &text);
    }

    /// Starts the daemon on this host; what it says is in [`Self::log`].
    pub(crate) fn daemon(&self) -> tokio::process::Child {
        self.daemon_with(|_| {})
    }

    /// The same with something special about the process.
    pub(crate) fn daemon_with(
        &self,
        special: impl FnOnce(&mut tokio::process::Command),
    ) -> tokio::process::Child {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.root().path("/log"))
            .expect("a log");
        let mut command = binary();
        command
            .arg("--root")
            .arg(self.dir.path())
            .env("DBUS_SYSTEM_BUS_ADDRESS", self.bus.address())
            .arg("run")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        special(&mut command);
        command.spawn().expect("it runs")
    }

    /// What every daemon of this host said.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.root().path("/log")).unwrap_or_default()
    }

    /// The daemon's record as it is on disk.
    pub(crate) fn state(&self) -> String {
        let file = self.root().path("/var/lib/kube-rebootd/state.json");
        fs::read_to_string(file).unwrap_or_default()
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

/// SIGTERM, and the end that follows from it.
pub(crate) async fn terminate(mut daemon: tokio::process::Child) {
    let pid = daemon.id().and_then(|pid| i32::try_from(pid).ok());
    let pid = nix::unistd::Pid::from_raw(pid.expect("a pid"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("signalled");
    let ended = tokio::time::timeout(Duration::from_secs(10), daemon.wait()).await;
    assert!(ended.expect("it ends soon").expect("a status").success());
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
