//! A host: real systemd, logind, D-Bus and journald in an nspawn container, with the real kubelet
//! code as its kubelet.service.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::bed::Bed;
use crate::spec::{Content, HostSpec};
use crate::{firmware, ground, image, shell, zincati};

/// How long a boot may take: a second alone, far longer beside a build on two cores.
pub(crate) const BOOTED: Duration = Duration::from_secs(120);

/// How long a boot may take where QEMU has to translate every instruction: twice what it was seen to, on two cores.
const TRANSLATED: Duration = Duration::from_secs(600);

/// What a command on a host did.
#[derive(Debug, Clone)]
pub struct Output {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<process::Output> for Output {
    fn from(out: process::Output) -> Self {
        Self {
            code: out.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
        }
    }
}

/// A booted host; it is destroyed with this value.
#[derive(Debug)]
pub struct Host {
    pub(crate) bed: Bed,
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    /// Destroyed when dropped.
    owned: bool,
}

impl Bed {
    /// Boots a host and waits until its systemd is up.
    pub fn boot(&self, spec: &HostSpec) -> Result<Host> {
        check_name(&spec.name)?;
        let base = if spec.machine {
            image::machine()?
        } else {
            image::base(&spec.suite, spec.content, spec.runtime)?
        };
        let dir = self.path("hosts").join(&spec.name);
        // Before the value exists: its drop would destroy the host that has the name.
        fs::create_dir(&dir)
            .with_context(|| format!("a host named {} exists in this bed", spec.name))?;
        let host = Host {
            bed: self.clone(),
            name: spec.name.clone(),
            dir,
            owned: true,
        };
        let mut layers = base.display().to_string();
        if spec.content == Content::Zincati {
            layers = format!("{}:{layers}", zincati::layer()?.display());
        }
        if spec.content.installed() {
            layers = format!("{}:{layers}", self.path("install").display());
        }
        fs::write(host.dir.join("layers"), layers)?;
        host.furnish(spec)
            .with_context(|| format!("cannot furnish {}", spec.name))?;
        if spec.machine {
            host.assemble(&base)
                .with_context(|| format!("cannot make the disk of {}", spec.name))?;
        }
        host.power_on()?;
        host.give_roles(spec)?;
        if spec.daemon {
            host.systemctl(&["enable", "kube-rebootd.service"])?;
            // Not waited for: a configuration that is refused is a test's business.
            host.systemctl(&["start", "--no-block", "kube-rebootd.service"])?;
        }
        Ok(host)
    }

    /// A host that is there already; it is left alone when this value is dropped.
    pub fn host(&self, name: &str) -> Result<Host> {
        check_name(name)?;
        let dir = self.path("hosts").join(name);
        if !dir.is_dir() {
            bail!("no host named {name} in bed {}", self.name());
        }
        Ok(Host {
            bed: self.clone(),
            name: name.to_owned(),
            dir,
            owned: false,
        })
    }
}

/// Names a Node, a directory and a veth (`vb-NAME`, at most 15 characters).
fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 12 || !name.chars().all(plain) || name.starts_with('-') {
        bail!("a host's name is 1 to 12 of a-z, 0-9 and -, not {name:?}");
    }
    Ok(())
}

impl Host {
    /// Host and Node name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its IPv4 address in the bed's network.
    pub fn address(&self) -> Result<String> {
        fs::read_to_string(self.dir.join("address"))
            .with_context(|| format!("{} has no address", self.name))
    }

    pub(crate) fn upper(&self) -> PathBuf {
        self.dir.join("upper")
    }

    /// Power is on: starts the machine's firmware, which boots it, and waits for its systemd.
    pub fn power_on(&self) -> Result<()> {
        if self.is_machine() {
            self.start_machine()?;
            return self.wait_up();
        }
        let layers = fs::read_to_string(self.dir.join("layers"))?;
        let cgroup = format!("host-{}", self.name);
        fs::create_dir_all(ground::cgroup(self.bed.name()).join(&cgroup))?;
        let firmware = firmware::program()?;
        let mut command = self.bed.within(&cgroup, Path::new("unshare"));
        command.args(["--mount", "--propagation=slave"]);
        command.arg(firmware).arg("firmware").arg(&self.dir);
        command.arg(layers).arg(&self.name);
        self.bed
            .detached(&mut command, &format!("host-{}", self.name))?;
        self.wait_up()
    }

    fn wait_up(&self) -> Result<()> {
        let limit = if self.is_machine() {
            TRANSLATED
        } else {
            BOOTED
        };
        self.bed
            .wait_for(&format!("{} to boot", self.name), limit, || {
                // It answers at the end of the boot, or at once while there is no systemd to ask yet.
                let said = self.run(&["systemctl", "is-system-running", "--wait"])?;
                Ok(matches!(said.stdout.trim(), "running" | "degraded"))
            })
            .with_context(|| self.bed.log_tail(&format!("host-{}", self.name)))
    }

    /// The container's PID 1, as this machine numbers it.
    ///
    /// Before it exists nspawn has another child, still in this machine's namespaces: a command sent
    /// there would run on the outer machine.
    pub fn leader(&self) -> Result<i32> {
        let text = fs::read_to_string(self.dir.join("nspawn.pid")).context("the host is off")?;
        let nspawn: i32 = text.trim().parse()?;
        let children = fs::read_to_string(format!("/proc/{nspawn}/task/{nspawn}/children"))?;
        children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .find(|pid| leads_a_namespace(*pid))
            .context("the host is off")
    }

    /// Runs a command on the host, for at most 30 s.
    pub fn run(&self, args: &[&str]) -> Result<Output> {
        self.run_for(30, args)
    }

    /// Runs a command on the host, for at most so many seconds.
    ///
    /// `nsenter` does not fork, and `timeout` stays outside the host: a forking nsenter stops itself
    /// when the host's shutdown stops its child, never reaps it, and the host's PID 1 waits for that
    /// for ever (seen: the host did not reboot until nsenter was killed).
    pub fn run_for(&self, seconds: u32, args: &[&str]) -> Result<Output> {
        if self.is_machine() {
            return self.over_ssh(seconds, args);
        }
        let leader = self.leader()?.to_string();
        let out = Command::new("nsenter")
            .args(["--target", &leader, "--all", "--no-fork", "--"])
            .args([
                "env",
                "-i",
                "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                "TERM=dumb",
                "timeout",
                "--kill-after=5",
            ])
            .arg(seconds.to_string())
            .args(args)
            .output()?;
        Ok(out.into())
    }

    /// Runs a shell line on the host; an error when it fails.
    pub fn sh(&self, line: &str) -> Result<String> {
        let out = self.run(&["sh", "-c", line])?;
        if out.code != 0 {
            bail!(
                "{}: {line}: exit {}: {}{}",
                self.name,
                out.code,
                out.stdout,
                out.stderr
            );
        }
        Ok(out.stdout)
    }

    /// The kernel's id of the current boot.
    pub fn boot_id(&self) -> Result<String> {
        Ok(self
            .sh("cat /proc/sys/kernel/random/boot_id")?
            .trim()
            .to_owned())
    }

    /// How often userspace alone was rebooted in this boot, and when the present one began, in microseconds of this boot.
    pub fn soft_reboots(&self) -> Result<(u32, u64)> {
        let count = self.systemctl(&["show", "-P", "SoftRebootsCount"])?;
        let began = self.systemctl(&["show", "-P", "UserspaceTimestampMonotonic"])?;
        Ok((count.trim().parse()?, began.trim().parse()?))
    }

    /// How often the firmware has booted this host.
    pub fn boots(&self) -> Result<usize> {
        Ok(fs::read_to_string(self.dir.join("boots"))?.lines().count())
    }

    /// When it did so last.
    pub fn booted(&self) -> Result<jiff::Timestamp> {
        let written = fs::metadata(self.dir.join("boots"))?.modified()?;
        Ok(written.try_into()?)
    }

    /// The journal of a unit, over all boots.
    pub fn journal(&self, unit: &str) -> Result<String> {
        self.sh(&format!(
            "journalctl --no-pager -o short-iso-precise -u {unit}"
        ))
    }

    /// The journal of a unit, one JSON object a line.
    pub fn journal_json(&self, unit: &str) -> Result<Vec<serde_json::Value>> {
        let text = self.sh(&format!("journalctl --no-pager -o json -u {unit}"))?;
        text.lines()
            .map(|line| Ok(serde_json::from_str(line)?))
            .collect()
    }

    /// Records of a unit after a cursor (empty: all), one JSON object each, read from the host's disk:
    /// this works while the host is off, and holds what it wrote last before a reboot.
    pub fn records_after(&self, unit: &str, cursor: &str) -> Result<Vec<serde_json::Value>> {
        let mut journalctl = Command::new("journalctl");
        journalctl
            .arg("--directory")
            .arg(self.upper().join("var/log/journal"))
            .args(["--quiet", "--no-pager", "--output=json", "--unit", unit]);
        if !cursor.is_empty() {
            journalctl.arg(format!("--after-cursor={cursor}"));
        }
        let text = shell::output(&mut journalctl)?;
        text.lines()
            .map(|line| Ok(serde_json::from_str(line)?))
            .collect()
    }

    /// The unit's STATUS.
    pub fn status(&self) -> Result<String> {
        Ok(self
            .sh("systemctl show -P StatusText kube-rebootd")?
            .trim()
            .to_owned())
    }

    /// SIGKILLs the daemon.
    pub fn kill_daemon(&self) -> Result<()> {
        self.sh("systemctl kill -s KILL kube-rebootd").map(|_| ())
    }

    /// The daemon's main process; 0: none.
    pub fn daemon_pid(&self) -> Result<String> {
        let said = self.systemctl(&["show", "-P", "MainPID", "kube-rebootd"])?;
        Ok(said.trim().to_owned())
    }

    /// Creates a file, and its directory.
    pub fn touch(&self, path: &str) -> Result<()> {
        self.sh(&format!("mkdir -p $(dirname {path}) && touch {path}"))
            .map(|_| ())
    }

    /// Writes a file, and its directory.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        let quoted = text.replace('\'', "'\\''");
        self.sh(&format!(
            "mkdir -p $(dirname {path}) && printf %s '{quoted}' > {path}"
        ))
        .map(|_| ())
    }

    /// Reads a file.
    pub fn read(&self, path: &str) -> Result<String> {
        self.sh(&format!("cat {path}"))
    }

    /// A path of the host as this machine reaches it, whether it runs or is off: reading many times a
    /// second costs no process. What lies below /run is there while it runs.
    pub fn outer(&self, path: &str) -> PathBuf {
        let path = path.trim_start_matches('/');
        match self.leader() {
            Ok(leader) => Path::new("/proc")
                .join(leader.to_string())
                .join("root")
                .join(path),
            Err(_) => self.upper().join(path),
        }
    }

    /// Runs systemctl on the host.
    pub fn systemctl(&self, args: &[&str]) -> Result<String> {
        self.sh(&format!("systemctl {}", args.join(" ")))
    }

    /// Delays shutdowns of this boot as long as logind lets it (`InhibitDelayMaxSec=`), or until the unit `late` stops:
    /// whoever else has something to do then is not cut off on a busy machine.
    pub fn delay_shutdowns(&self) -> Result<()> {
        // Not before logind knows of it: who restarts logind or the bus right after this would end it in the middle.
        let line = "systemd-run --quiet --unit=late systemd-inhibit --what=shutdown --mode=delay sleep 600 && \
                    timeout 60 sh -c 'until systemd-inhibit --list --no-legend | grep -q \"sleep 600\"; do sleep 0.1; done'";
        self.sh(line).map(|_| ())
    }

    /// Power loss: every process ends at once.
    pub fn power_cut(&self) -> Result<()> {
        ground::clear(&ground::cgroup(self.bed.name()).join(format!("host-{}", self.name)))?;
        let _ = fs::remove_file(self.dir.join("nspawn.pid"));
        Ok(())
    }

    /// Leaves the host running when this value is dropped.
    pub fn keep(mut self) {
        self.owned = false;
    }

    /// Reboots as an admin would and waits until the next boot is up.
    pub fn reboot(&self) -> Result<()> {
        let before = self.boot_id()?;
        // Its answer may be lost in the shutdown; the new boot is the proof.
        self.run(&["systemctl", "--no-block", "reboot"])?;
        let what = format!("a new boot of {}", self.name);
        self.bed
            .wait_for(&what, BOOTED, || Ok(self.boot_id()? != before))?;
        self.wait_up()
    }

    /// Prints what daemon and kubelet said, its Node and all Leases.
    pub fn tell(&self) {
        // A kubelet says so much that its last moments would push everything else out of what CI keeps.
        let mut units = vec![("kube-rebootd", 200), ("kubelet", 40)];
        if self.has_zincati() {
            units.push(("zincati", 100));
        }
        for (unit, lines) in units {
            let said = self.sh(&format!("journalctl --no-pager -n {lines} -u {unit}"));
            eprintln!(
                "--- {} of {}:\n{}",
                unit,
                self.name,
                said.unwrap_or_else(|err| err.to_string())
            );
        }
        let node = self.bed.kubectl(&["get", "node", &self.name, "-o", "yaml"]);
        eprintln!(
            "--- Node {}:\n{}",
            self.name,
            node.unwrap_or_else(|err| err.to_string())
        );
        let leases = self
            .bed
            .kubectl(&["-n", "kube-rebootd", "get", "leases", "-o", "yaml"]);
        eprintln!(
            "--- Leases:\n{}",
            leases.unwrap_or_else(|err| err.to_string())
        );
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        if thread::panicking() {
            self.tell();
        }
        let _ = self.power_cut();
        let _ = self.bed.kubectl(&[
            "delete",
            "node",
            &self.name,
            "--ignore-not-found",
            "--wait=false",
        ]);
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Whether a process is PID 1 of a PID namespace below ours.
fn leads_a_namespace(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|line| {
        let mut numbers = line.split_whitespace().skip(1);
        numbers.next() == Some("1") && numbers.next().is_none()
    })
}
