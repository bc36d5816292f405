//! `make demo`: three real hosts, each a Kubernetes node with the real kubelet and containerd, want a reboot in the
//! same moment; what they do about it, and whether it was right (I1, I3, I4, I9).

use std::fs;
use std::path::PathBuf;
use std::process::{self, Command, ExitCode};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Parser;
use jiff::Timestamp;
use nix::fcntl::{Flock, FlockArg};
use testbed::budgets::Watch;
use testbed::timeline::Timeline;
use testbed::{Bed, Host, HostSpec};

use crate::paper::Paper;

mod judge;
mod paper;

/// The demo's bed: its own, so that it stands beside a test bed.
const BED: &str = "demo";
/// Names of the hosts and their Nodes.
const HOSTS: [&str; 3] = ["n1", "n2", "n3"];
/// Group and Lease that the manifests are shipped with.
const GROUP: &str = "default";
/// Namespace of the Leases.
const NAMESPACE: &str = "kube-rebootd";
/// What says that a reboot is required.
const SENTINEL: &str = "/run/reboot-required";
/// Three cycles take less than a minute; a machine that is busy with other things takes longer.
const LIMIT: Duration = Duration::from_secs(300);
/// Between two looks at journals and audit log: quick to a person, nothing to the machine.
const LOOK: Duration = Duration::from_millis(400);
/// How long pods may take to spread over new hosts.
const SPREAD: Duration = Duration::from_secs(120);
/// Where the hosts are configured, and how: the sentinel would settle for ten minutes, and each of the three would wait half a
/// minute after its boot, which is long for who watches.
const SHORT: (&str, &str) = (
    "/etc/kube-rebootd/config.d/50-demo.toml",
    "[triggers]\nsettle = \"0s\"\n[health]\nready_for = \"5s\"\n",
);
/// One demo at a time.
const LOCK: &str = "/run/kube-rebootd-demo.lock";

const WORKLOAD: &str = include_str!("workload.yaml");

/// Watch three real hosts reboot one after another.
#[derive(Parser)]
struct Cli {
    /// Leave the bed up at the end, to look around.
    #[arg(long)]
    keep: bool,
    /// How many nodes may be down at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3))]
    slots: u32,
    /// The kube-rebootd that prints the manifests and runs on the hosts.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/kube-rebootd"))]
    binary: PathBuf,
}

/// Takes the bed down when the demo ends, however it does.
struct Standing {
    keep: bool,
}

impl Drop for Standing {
    fn drop(&mut self) {
        if self.keep {
            eprintln!(
                "\nThe bed stands. Look: target/debug/bed exec --name {BED} -- kubectl get nodes"
            );
            eprintln!("Take it down: target/debug/bed down --name {BED}");
        } else {
            take_down();
        }
    }
}

fn take_down() {
    // A host that was just being furnished may put files where they are being removed.
    let gone = (0..3).any(|_| Bed::down(BED).is_ok());
    if !gone && let Err(err) = Bed::down(BED) {
        eprintln!("demo: {err:#}; run target/debug/bed down --name {BED}");
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(err) => {
            eprintln!("demo: {err:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything was in order.
fn run(cli: &Cli) -> Result<bool> {
    let lock =
        fs::File::create(LOCK).with_context(|| format!("cannot make {LOCK}: run it as root"))?;
    let _lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
        .map_err(|_| anyhow!("another demo is running"))?;
    Bed::down(BED).context("cannot take down what an earlier demo left")?;
    let _standing = Standing { keep: cli.keep };
    end_on_signal(cli.keep)?;
    let binary = fs::canonicalize(&cli.binary)
        .with_context(|| format!("no {}: run `make demo`", cli.binary.display()))?;
    let bed = Bed::up(BED, &binary)?;
    bed.enter()?;
    let leases = slots(&bed, cli)?;
    let hosts = boot(&bed)?;
    workload(&bed)?;
    let good = show(&bed, &hosts, &leases);
    // They go with the bed, or stay with it.
    hosts.into_iter().for_each(std::mem::forget);
    good
}

/// Ctrl-C takes the bed down too.
fn end_on_signal(keep: bool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let end = async move {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok::<(), std::io::Error>(())
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if let Err(err) = runtime.block_on(end) {
                eprintln!("demo: cannot await signals: {err}");
                return;
            }
            eprintln!("\ndemo: interrupted");
            drop(Standing { keep });
            process::exit(130); // 128 + SIGINT, as a shell reports it
        })?;
    Ok(())
}

/// The manifests, with the slots opened: the last step of an installation.
fn slots(bed: &Bed, cli: &Cli) -> Result<Vec<String>> {
    let out = Command::new(&cli.binary)
        .args(["manifests", "--slots", &cli.slots.to_string()])
        .output()
        .with_context(|| format!("cannot run {}: run `make demo`", cli.binary.display()))?;
    if !out.status.success() {
        bail!(
            "kube-rebootd manifests: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    bed.apply(&String::from_utf8(out.stdout)?)?;
    let group = format!("kube-rebootd/group={GROUP}");
    let leases = |args: &[&str]| {
        let base = ["-n", NAMESPACE];
        bed.kubectl(&[&base, args, &["-l", &group]].concat())
    };
    leases(&["annotate", "lease", "kube-rebootd/paused-"])?;
    let names = leases(&["get", "lease", "-o", "jsonpath={.items[*].metadata.name}"])?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

fn boot(bed: &Bed) -> Result<Vec<Host>> {
    let begun = Instant::now();
    eprintln!("demo: booting {} ...", HOSTS.join(", "));
    let hosts = on_all(&HOSTS, |name| {
        let host = bed.boot(&HostSpec::real(*name).file(SHORT.0, SHORT.1))?;
        bed.wait_ready(name)?;
        Ok(host)
    })?;
    for host in &hosts {
        let what = format!("the daemon on {} to be idle", host.name());
        bed.wait_for(&what, Duration::from_secs(30), || {
            let status = host.status()?;
            if !status.starts_with("idle") {
                bail!("it says {status:?}");
            }
            Ok(true)
        })?;
    }
    eprintln!(
        "demo: three hosts, Ready: {:.1} s",
        begun.elapsed().as_secs_f32()
    );
    Ok(hosts)
}

/// Pods on every host, all healthy, as the budgets see it.
fn workload(bed: &Bed) -> Result<()> {
    eprintln!("demo: a Deployment and a StatefulSet with budgets, a DaemonSet ...");
    bed.apply(&WORKLOAD.replace("IMAGE", testbed::IMAGE))?;
    let healthy = "jsonpath={range .items[*]}{.status.currentHealthy}/{.spec.maxUnavailable} {end}";
    let ready = "jsonpath={.status.numberReady}";
    bed.wait_for("the pods to be healthy", SPREAD, || {
        let budgets = bed.kubectl(&["-n", "demo", "get", "pdb", "-o", healthy])?;
        let agents = bed.kubectl(&["-n", "demo", "get", "daemonset", "agent", "-o", ready])?;
        if budgets.trim() != "3/1 6/1" || agents != "3" {
            bail!("healthy/maxUnavailable: {budgets}; agents: {agents}");
        }
        Ok(true)
    })
}

/// The same on every one of them at once.
fn on_all<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = items
            .iter()
            .map(|item| scope.spawn(move || work(item)))
            .collect();
        let done = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(anyhow!("a thread panicked")))
        });
        // All are joined before the first error ends the demo.
        done.collect::<Vec<_>>().into_iter().collect()
    })
}

/// Asks for the reboots, tells what happens, and judges it.
fn show(bed: &Bed, hosts: &[Host], leases: &[String]) -> Result<bool> {
    let paper = Paper::new();
    let before = judge::boots(hosts)?;
    let watch = Watch::start(bed)?;
    let touched = touch(hosts)?;
    let start = *touched.iter().min().context("no host")?;
    let last = *touched.iter().max().context("no host")?;
    paper.title(&format!(
        "{} asked for a reboot by {SENTINEL}, within {} ms; one slot each in: {}",
        HOSTS.join(", "),
        last.duration_since(start).as_millis(),
        leases.join(", ")
    ));
    let mut timeline = Timeline::from(start, hosts)?;
    let ended = follow(bed, hosts, leases, &before, &mut timeline, &paper);
    for line in timeline.rest() {
        paper.line(start, &line);
    }
    let ended = ended?;
    let budgets = watch.finish();
    let case = judge::Case {
        bed,
        hosts,
        leases,
        before,
        touched,
        budgets,
    };
    let good = judge::verdict(&case, &paper) && ended;
    if !good {
        judge::evidence(bed, hosts);
    }
    Ok(good)
}

/// Touches the sentinel everywhere in one moment; when it was, by the files' own times.
fn touch(hosts: &[Host]) -> Result<Vec<Timestamp>> {
    let barrier = Barrier::new(hosts.len());
    on_all(hosts, |host| {
        barrier.wait();
        let said = host.sh(&format!("touch {SENTINEL} && stat -c %.6Y {SENTINEL}"))?;
        let seconds: f64 = said.trim().parse().context("stat does not tell a time")?;
        // Whole microseconds of this century fit a double exactly enough: 2^53 us are 285 years.
        #[allow(clippy::cast_possible_truncation)]
        Ok(Timestamp::from_microsecond((seconds * 1e6).round() as i64)?)
    })
}

/// Tells every line until all hosts are idle in a new boot; false when that takes too long.
fn follow(
    bed: &Bed,
    hosts: &[Host],
    leases: &[String],
    before: &[judge::Booted],
    timeline: &mut Timeline,
    paper: &Paper,
) -> Result<bool> {
    let (begun, start) = (Instant::now(), timeline.start());
    loop {
        for line in timeline.read(bed, hosts, leases)? {
            paper.line(start, &line);
        }
        let idle = |booted: &judge::Booted| {
            timeline
                .phase(&booted.host)
                .is_some_and(|(phase, boot)| phase == "Idle" && boot != booted.id)
        };
        if before.iter().all(idle) {
            return Ok(true);
        }
        if begun.elapsed() > LIMIT {
            paper.title(&format!("not all idle in a new boot after {LIMIT:?}"));
            return Ok(false);
        }
        thread::sleep(LOOK);
    }
}
