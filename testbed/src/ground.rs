//! The ground a bed stands on: its cgroup, its network namespace; made and taken away whole.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, setns};

use crate::certs::SERVER;
use crate::shell;

/// A bridge without an address of its own takes that of a port: with each host that came or went it
/// changed, and the other hosts spoke to the old one until ARP noticed, up to half a minute later.
const BRIDGE: &str = "02:00:0a:7b:00:01";
/// How long killed processes may take to be gone.
const GONE: Duration = Duration::from_secs(20);

/// The root of cgroup v2: below `unified` on a hybrid machine.
fn cgroups() -> PathBuf {
    let hybrid = Path::new("/sys/fs/cgroup/unified");
    if hybrid.join("cgroup.procs").exists() {
        hybrid.into()
    } else {
        "/sys/fs/cgroup".into()
    }
}

/// The cgroup of a bed.
pub(crate) fn cgroup(bed: &str) -> PathBuf {
    cgroups().join(format!("kbed-{bed}"))
}

/// The network namespace of a bed, as a file.
pub(crate) fn netns(bed: &str) -> PathBuf {
    PathBuf::from(format!("/run/netns/kbed-{bed}"))
}

/// The network this process came from, once a thread of it has left it.
static ORIGIN: OnceLock<fs::File> = OnceLock::new();

/// Moves the calling thread into a bed's network.
pub(crate) fn enter(bed: &str) -> Result<()> {
    if ORIGIN.get().is_none() {
        let own = fs::File::open("/proc/thread-self/ns/net")?;
        ORIGIN.get_or_init(|| own);
    }
    let network = fs::File::open(netns(bed)).context("the bed has no network")?;
    setns(network, CloneFlags::CLONE_NEWNET).context("cannot enter the bed's network")
}

/// A command in the network this process came from: no mirror is reached from a bed's.
pub(crate) fn outside(program: &str) -> Command {
    let Some(origin) = ORIGIN.get() else {
        return Command::new(program);
    };
    let mut command = Command::new("nsenter");
    let (pid, fd) = (std::process::id(), origin.as_raw_fd());
    command.arg(format!("--net=/proc/{pid}/fd/{fd}"));
    command.arg("--").arg(program);
    command
}

/// Root's inotify instances on this machine, at least: each host's systemd, journald, D-Bus, kubelet and
/// daemon are root's and have some ten. With 128, the default, a tenth host does not boot, without a word.
const INOTIFY: u32 = 1024;
const INOTIFY_NOW: &str = "/proc/sys/fs/inotify/max_user_instances";

fn allow_inotify() -> Result<()> {
    let now = fs::read_to_string(INOTIFY_NOW)?;
    if now.trim().parse::<u32>().is_ok_and(|now| now < INOTIFY) {
        fs::write(INOTIFY_NOW, INOTIFY.to_string())
            .with_context(|| format!("cannot raise {INOTIFY_NOW}"))?;
    }
    Ok(())
}

/// Gives the bed's hosts the controllers that the outer machine gives the bed.
fn delegate(cgroup: &Path) -> Result<()> {
    let controllers = fs::read_to_string(cgroup.join("cgroup.controllers"))?;
    for controller in controllers.split_whitespace() {
        fs::write(
            cgroup.join("cgroup.subtree_control"),
            format!("+{controller}"),
        )
        .with_context(|| format!("cannot give hosts the controller {controller}"))?;
    }
    Ok(())
}

/// Makes cgroup, namespace and bridge.
pub(crate) fn make(bed: &str) -> Result<()> {
    allow_inotify()?;
    fs::create_dir_all(cgroup(bed).join("control"))
        .with_context(|| format!("cannot make {}", cgroup(bed).display()))?;
    delegate(&cgroup(bed))?;
    let name = format!("kbed-{bed}");
    shell::run("ip", &["netns", "add", &name])?;
    let within = |args: &[&str]| shell::run("ip", &[&["-n", &name], args].concat());
    within(&["link", "set", "lo", "up"])?;
    within(&["link", "add", "br0", "address", BRIDGE, "type", "bridge"])?;
    within(&["addr", "add", &format!("{SERVER}/16"), "dev", "br0"])?;
    within(&["link", "set", "br0", "up"])?;
    nft(bed, CUTS)
}

/// Where [`crate::Stub`]s run: a network of their own at the bed's bridge, as one host with many daemons
/// would be, so that the bytes they move can be counted.
pub(crate) fn annex(bed: &str) -> String {
    format!("kbed-{bed}-stubs")
}

/// Its only address, out of the range that hosts get.
const ANNEX: &str = "10.123.255.1/16";

/// Makes it, once.
pub(crate) fn make_annex(bed: &str) -> Result<()> {
    let (name, annex) = (format!("kbed-{bed}"), annex(bed));
    if annex_path(bed).exists() {
        return Ok(());
    }
    shell::run("ip", &["netns", "add", &annex])?;
    let link = [
        "link", "add", "vb-stubs", "type", "veth", "peer", "name", "host0", "netns",
    ];
    shell::run(
        "ip",
        &[&["-n", &name], &link[..], &[annex.as_str()]].concat(),
    )?;
    shell::run(
        "ip",
        &[
            "-n", &name, "link", "set", "vb-stubs", "master", "br0", "up",
        ],
    )?;
    let within = |args: &[&str]| shell::run("ip", &[&["-n", annex.as_str()], args].concat());
    within(&["link", "set", "lo", "up"])?;
    within(&["addr", "add", ANNEX, "dev", "host0"])?;
    within(&["link", "set", "host0", "up"]).map(|_| ())
}

/// As a file.
pub(crate) fn annex_path(bed: &str) -> PathBuf {
    PathBuf::from("/run/netns").join(annex(bed))
}

/// Packets of cut hosts end here in both directions: a link that is down would be up again after the
/// host's next boot, as nspawn makes a new one.
const CUTS: &str = "table ip bed {
    set cut { type ipv4_addr; }
    chain input { type filter hook input priority 0; ip saddr @cut drop; }
    chain output { type filter hook output priority 0; ip daddr @cut drop; }
}";

/// Takes an address off the bed's network; once more is no error.
pub(crate) fn cut(bed: &str, address: &str) -> Result<()> {
    nft(bed, &format!("add element ip bed cut {{ {address} }}"))
}

/// Puts it back; it must have been cut.
pub(crate) fn mend(bed: &str, address: &str) -> Result<()> {
    nft(bed, &format!("delete element ip bed cut {{ {address} }}"))
}

/// Loses 30 % of an address's packets in each direction, by a table of its own.
pub(crate) fn lose(bed: &str, address: &str) -> Result<()> {
    let chain = |name: &str, field: &str| {
        format!(
            "    chain {name} {{ type filter hook {name} priority 1; \
             ip {field} {address} numgen random mod 100 < 30 drop; }}\n"
        )
    };
    let (input, output) = (chain("input", "saddr"), chain("output", "daddr"));
    let table = lossy(address);
    nft(bed, &format!("table ip {table} {{\n{input}{output}}}"))
}

/// Loses none any more.
pub(crate) fn lose_none(bed: &str, address: &str) -> Result<()> {
    nft(bed, &format!("delete table ip {}", lossy(address)))
}

fn lossy(address: &str) -> String {
    format!("lossy-{}", address.replace('.', "-"))
}

fn nft(bed: &str, script: &str) -> Result<()> {
    let name = format!("kbed-{bed}");
    shell::run("ip", &["netns", "exec", &name, "nft", script]).map(|_| ())
}

/// Kills what is left and takes the ground away; nothing there is no error.
pub(crate) fn remove(bed: &str) -> Result<()> {
    clear(&cgroup(bed))?;
    for name in [annex(bed), format!("kbed-{bed}")] {
        if Path::new("/run/netns").join(&name).exists() {
            shell::run("ip", &["netns", "del", &name])?;
        }
    }
    Ok(())
}

/// Kills every process of a cgroup tree, waits for their end and removes it.
pub(crate) fn clear(cgroup: &Path) -> Result<()> {
    let deadline = Instant::now() + GONE;
    while cgroup.exists() {
        // A host's own PID 1 goes with its tree: nothing outlives cgroup.kill.
        let _ = fs::write(cgroup.join("cgroup.kill"), "1");
        if remove_tree(cgroup).is_ok() {
            break;
        }
        if Instant::now() > deadline {
            bail!("{} does not empty", cgroup.display());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn remove_tree(cgroup: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(cgroup)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    match fs::remove_dir(cgroup) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
