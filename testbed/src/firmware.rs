//! The machine's firmware: boots a host, and boots it again whenever it reboots. It is a process of
//! its own, in the bed's network and in a mount namespace that ends with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{shell, tools};

/// What nspawn exits with when the host asked for a reboot (systemd-nspawn(1)).
const REBOOTED: i32 = 133;

/// File of a host's directory: what its container is allowed and shown beyond the usual, an argument of nspawn a line;
/// containers within it need what nspawn's filter of system calls denies.
pub(crate) const MACHINE: &str = "machine";

/// The `bed` program: this one, or the one beside the test that runs.
pub(crate) fn program() -> Result<PathBuf> {
    let exe = std::env::current_exe().context("which program is this?")?;
    if exe.file_name().is_some_and(|name| name == "bed") {
        return Ok(exe);
    }
    exe.ancestors()
        .map(|dir| dir.join("bed"))
        .find(|program| program.is_file())
        .context("the program `bed` is not built: cargo build -p testbed")
}

/// The machine's firmware: boots the host again whenever it reboots. Runs as a process of its own,
/// in the bed's network and in a mount namespace that ends with it.
///
/// `layers` of its file system, the upmost first, with colons between them.
pub fn firmware(dir: &Path, layers: &str, name: &str) -> Result<()> {
    let root = dir.join("root");
    let (upper, work) = (dir.join("upper"), dir.join("work"));
    let options = format!(
        "lowerdir={layers},upperdir={},workdir={}",
        upper.display(),
        work.display()
    );
    shell::run(
        "mount",
        &[
            "-t",
            "overlay",
            "overlay",
            "-o",
            &options,
            &root.display().to_string(),
        ],
    )?;
    let binaries = tools::binaries()?;
    loop {
        unplug(name);
        let mut nspawn = Command::new("systemd-nspawn");
        nspawn
            .env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1")
            .arg("-D")
            .arg(&root);
        nspawn.args([
            "--boot",
            "--register=no",
            "--keep-unit",
            "--console=pipe",
            "--quiet",
        ]);
        nspawn.args(["--network-bridge=br0", "--kill-signal=SIGRTMIN+3"]);
        nspawn.arg(format!("--machine={name}"));
        nspawn.arg(format!("--bind-ro={}:/opt/bed", binaries.display()));
        if let Ok(machine) = fs::read_to_string(dir.join(MACHINE)) {
            nspawn.env("SYSTEMD_SECCOMP", "0").args(machine.lines());
        }
        let mut child = nspawn.spawn().context("cannot start systemd-nspawn")?;
        fs::write(dir.join("nspawn.pid"), child.id().to_string())?;
        let mut boots = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(dir.join("boots"))?;
        std::io::Write::write_all(&mut boots, b"boot\n")?;
        let status = child.wait()?;
        let _ = fs::remove_file(dir.join("nspawn.pid"));
        if status.code() != Some(REBOOTED) {
            bail!("{name} is off: {status}");
        }
    }
}

/// Takes away the network card of an earlier life: after a power loss the kernel does so only when it has cleaned up
/// that network, which takes a second where containers ran, and nspawn does not start beside it.
fn unplug(name: &str) {
    let card = format!("vb-{name}");
    let _ = Command::new("ip")
        .args(["link", "delete", &card])
        .stderr(std::process::Stdio::null())
        .status();
}
