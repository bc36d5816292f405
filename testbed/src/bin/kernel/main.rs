//! `make kernel`: the package on a virtual machine with firmware, systemd-boot, an initrd and a kernel of its own, as a
//! node of a real control plane: the main job, another kernel from apt, a boot that is found bad, a kernel that does not
//! boot (I2, I4, I10).

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use testbed::{Bed, HostSpec, Need, Standing};

mod fixture;
mod node;

use node::Machine;

/// Its own, so that it stands beside a test bed.
const BED: &str = "kernel";
/// The machine and the host to which its pods go.
const NAME: &str = "k1";
const OTHER: &str = "n1";
/// What systemd does not do for a boot that is not counted (docs/configuration.md).
const COMPLETE: &str = "systemctl add-wants multi-user.target boot-complete.target && systemctl start boot-complete.target";
/// How the name of an entry ends that is not counted any more.
const BLESSED: &str = ".conf";
/// Fails until the file is there, and with it the boot: the target is not reached.
const GOOD: &str = "[Unit]
Description=Whether this boot is good
Before=boot-complete.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/test -e /var/lib/good
[Install]
RequiredBy=boot-complete.target
";
/// The built-in checks at once: their defaults are there for restarts of services.
const CONFIG: &str = "[triggers]
builtin = [\"kernel\"]
builtin_settle = \"0s\"
settle = \"0s\"
period = \"10s\"
[health]
boot_complete = true
ready_for = \"0s\"
[reboot]
max_per_day = 10
";
/// Without KVM every instruction is translated; a cycle may have two boots.
const LIMIT: Duration = Duration::from_secs(900);

/// Reboot a node with a kernel of its own.
#[derive(Parser)]
struct Cli {
    /// Leave the bed up at the end, to look around.
    #[arg(long)]
    keep: bool,
    /// Write the journals and what the host's kernels look like below this directory.
    #[arg(long)]
    fixtures: Option<PathBuf>,
    /// The kube-rebootd that prints the manifests.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/kube-rebootd"))]
    binary: PathBuf,
    /// The package that is installed on the machine.
    package: PathBuf,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = run(&cli);
    if let Err(err) = &done {
        eprintln!("kernel: {err:#}");
    }
    if cli.keep {
        eprintln!("kernel: look around: target/debug/bed host --name {BED} {NAME} -- journalctl");
        eprintln!("kernel: take it down: target/debug/bed down --name {BED}");
    }
    done.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

fn run(cli: &Cli) -> Result<()> {
    testbed::prepare(Need::Machine)?;
    Bed::down(BED).context("cannot take down what an earlier run left")?;
    let _standing = (!cli.keep).then(|| Standing::of(BED));
    let binary = fs::canonicalize(&cli.binary).context("run `make kernel`")?;
    let bed = Bed::up(BED, &binary)?;
    bed.enter()?;
    node::slot(&bed, &binary)?;
    let mut other = HostSpec::named(OTHER);
    other.daemon = false;
    let other = bed.boot(&other)?;
    let begun = Instant::now();
    let machine = Machine {
        host: bed.boot(&HostSpec::machine(NAME))?,
        bed,
    };
    let booted = begun.elapsed();
    let shown = show(&machine, cli, booted);
    if shown.is_err() {
        machine.tell();
    }
    // They go with the bed, or stay with it.
    std::mem::forget((other, machine));
    shown
}

/// Does a step and says how long it took.
fn step<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let begun = Instant::now();
    let done = work().with_context(|| format!("FAILED: {what}"))?;
    println!("ok {:>6.1} s  {what}", begun.elapsed().as_secs_f32());
    Ok(done)
}

fn show(machine: &Machine, cli: &Cli, booted: Duration) -> Result<()> {
    let host = &machine.host;
    let by = match machine.sh("systemd-detect-virt")?.trim() {
        "kvm" => "KVM",
        "qemu" => "TCG: QEMU translates every instruction",
        other => bail!("what is {other}?"),
    };
    let (took, kernel) = (booted.as_secs_f32(), machine.kernel()?);
    println!("ok {took:>6.1} s  the disk was made, and {kernel} booted by systemd-boot ({by})");
    step(
        "the first boot is found good by systemd-boot's counter",
        || machine.wait("a blessed entry", || Ok(machine.entry(&kernel)? == BLESSED)),
    )?;
    step(
        "the Node is Ready, the package installed by apt, a pod runs",
        || {
            machine.wait("a Ready Node", || machine.ready())?;
            host.send(&cli.package, "/srv/kube-rebootd.deb")?;
            machine.apt("/srv/kube-rebootd.deb")?;
            host.write("/etc/kube-rebootd/config.d/50-kernel.toml", CONFIG)?;
            machine.sh("systemctl enable --now kube-rebootd")?;
            machine.idle()?;
            machine.pod()
        },
    )?;
    main_job(machine, &kernel)?;
    let new = other_kernel(machine, &kernel)?;
    fixture::write(machine, cli.fixtures.as_deref(), "upgrade")?;
    bad_kernel(machine, &new)?;
    fixture::write(machine, cli.fixtures.as_deref(), "fallback")
}

/// A boot of an entry that is not counted: nothing but an administrator has boot-complete.target reached.
fn main_job(machine: &Machine, kernel: &str) -> Result<()> {
    let host = &machine.host;
    let before = machine.boot()?;
    step(
        "a sentinel: the pod is evicted, logind reboots the machine",
        || {
            host.touch("/run/reboot-required")?;
            machine.booted_since(&before)?;
            ensure!(machine.kernel()? == kernel, "another kernel runs");
            ensure!(machine.pod_is_on()? != NAME, "the pod was not evicted");
            Ok(())
        },
    )?;
    step(
        "health.boot_complete: the slot is kept until the target is reached",
        || {
            machine.waits_for("boot-complete.target is not active")?;
            machine.sh(COMPLETE)?;
            machine.idle()
        },
    )
}

/// apt installs a newer kernel; what says whether its boot is good says no at first.
fn other_kernel(machine: &Machine, old: &str) -> Result<String> {
    let host = &machine.host;
    host.write("/etc/systemd/system/good.service", GOOD)?;
    machine.sh("systemctl enable good.service")?;
    let before = machine.boot()?;
    step(
        "apt installs a newer kernel: the node reboots by itself",
        || {
            machine.apt("/srv/kernels/good.deb")?;
            machine.booted_since(&before)
        },
    )?;
    let new = machine.kernel()?;
    step(&format!("{new} runs, in its first of three boots"), || {
        ensure!(new != old, "{old} runs again");
        let entry = machine.entry(&new)?;
        ensure!(entry == "+2-1.conf", "its entry ends with {entry}");
        Ok(())
    })?;
    step(
        "a boot that is not good: the slot is kept until it is",
        || {
            machine.waits_for(
                "units have failed that had not failed before: good.service; boot-complete.target is not active",
            )?;
            host.touch("/var/lib/good")?;
            machine.sh("systemctl start systemd-bless-boot.service")?;
            machine.idle()?;
            let entry = machine.entry(&new)?;
            ensure!(entry == BLESSED, "its entry ends with {entry}");
            machine.asks_for_nothing()
        },
    )?;
    Ok(new)
}

/// A kernel that does not find the root: systemd-boot falls back to the one before.
fn bad_kernel(machine: &Machine, running: &str) -> Result<()> {
    machine.sh("echo 1 >/etc/kernel/tries")?;
    let (before, boots) = (machine.boot()?, machine.boots()?);
    step(
        "apt installs a kernel that does not boot: the node reboots by itself",
        || {
            machine.apt("/srv/kernels/bad.deb")?;
            machine.booted_since(&before)
        },
    )?;
    step("systemd-boot fell back to the kernel before", || {
        ensure!(machine.kernel()? == running, "{} runs", machine.kernel()?);
        let entries = machine.sh("ls /boot/efi/loader/entries")?;
        ensure!(
            entries.contains("+0-1.conf"),
            "none was tried in vain: {entries}"
        );
        Ok(())
    })?;
    step(
        "the slot is given up, and nothing asks for another reboot",
        || {
            machine.idle()?;
            machine.asks_for_nothing()?;
            ensure!(machine.boots()? == boots + 1, "it booted once more");
            Ok(())
        },
    )?;
    step("it is said that the update did not take", || {
        let status = machine.host.status()?;
        let said = status.starts_with("idle: the update did not take: ");
        ensure!(said && status.contains(running), "it says {status:?}");
        machine.condition_says("RolledBack")?;
        let history = machine.history()?;
        let last = history.first().context("no reboot is told")?;
        let words = last["rolled_back"].as_str().unwrap_or_default();
        ensure!(words.contains(running), "the history has {last}");
        Ok(())
    })
}
