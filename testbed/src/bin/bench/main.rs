//! `make bench`: what the daemon costs and how quick it is, in one table, with `kubectl drain` and the
//! cluster's own floor measured beside it in the same run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::{Parser, ValueEnum};
use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};
use testbed::{Bed, Standing, kwok};

use crate::figures::Report;
use crate::footprint::Idle;
use crate::world::World;

mod asked;
mod bus;
mod drain;
#[allow(dead_code)]
#[path = "../../../../tests/it/fake_bus.rs"]
mod fake_bus;
#[path = "../../../../tests/it/fake_login.rs"]
mod fake_login;
#[allow(dead_code)]
#[path = "../../../../tests/it/fake_units.rs"]
mod fake_units;
mod figures;
mod footprint;
mod gates;
mod latency;
mod policy;
mod process;
mod waiters;
mod world;

/// The bench's bed: its own, so that it stands beside others.
const BED: &str = "bench";
/// One bench at a time.
const LOCK: &str = "/run/kube-rebootd-bench.lock";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Row {
    /// 110 and 500 pods leave a node, with and without budgets.
    Drain,
    /// Sentinel to Lease, Lease to Lease, a whole cycle, on real hosts.
    Latency,
    /// Memory, binary, start.
    Footprint,
    /// Requests, wake-ups and CPU while there is nothing to do; lasts as long as the other rows, at least
    /// `--idle`.
    Idle,
    /// 10, 100 and 1,000 daemons that wait for one slot.
    Waiters,
    /// A thousand questions a second on D-Bus.
    Asked,
    /// Ten thousand evaluations of all gates.
    Gates,
    /// What the policy on Nodes costs the API server for each status of a kubelet.
    Policy,
}

/// Measure the daemon.
#[derive(Parser)]
struct Cli {
    /// Only these rows; may be given several times.
    #[arg(long)]
    row: Vec<Row>,
    /// Runs per figure, where a run is short.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=50))]
    runs: u8,
    /// Numbers of waiters.
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000")]
    waiters: Vec<usize>,
    /// Least time without anything to do, minutes.
    #[arg(long, default_value_t = 10)]
    idle: u64,
    /// Without the drain of 500 pods.
    #[arg(long)]
    small: bool,
    /// The daemon that is measured.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/kube-rebootd"))]
    binary: PathBuf,
    /// Where the figures are written.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench.json"))]
    json: PathBuf,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("bench: {err:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let lock =
        fs::File::create(LOCK).with_context(|| format!("cannot make {LOCK}: run it as root"))?;
    let _lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
        .map_err(|_| anyhow!("another bench is running"))?;
    Bed::down(BED).context("cannot take down what an earlier bench left")?;
    let _standing = Standing::of(BED);
    let begun = Instant::now();
    let machine = machine(&cli.binary);
    let rows = rows(cli);
    // Rows of real hosts need no played nodes, and so build no kwok. Within the bed nothing could be downloaded.
    let played = rows
        .iter()
        .any(|row| !matches!(row, Row::Policy | Row::Asked | Row::Gates));
    if played {
        kwok::built()?;
    }
    let bed = Bed::up(BED, &fs::canonicalize(&cli.binary)?)?;
    bed.enter()?;
    if played {
        bed.start_kwok()?;
    }
    let world = World::new(bed, cli.binary.clone(), usize::from(cli.runs))?;
    let groups: Vec<String> = cli
        .waiters
        .iter()
        .map(|waiters| waiters::group(*waiters))
        .collect();
    let named = [
        "default",
        latency::GROUP,
        footprint::MEMORY,
        footprint::IDLE,
        asked::GROUP,
        gates::GROUP,
    ];
    world.slots(
        &named
            .into_iter()
            .chain(groups.iter().map(String::as_str))
            .collect::<Vec<_>>(),
    )?;
    let idle = rows
        .contains(&Row::Idle)
        .then(|| Idle::begin(&world))
        .transpose()?;
    let mut report = Report::default();
    for row in rows {
        match row {
            Row::Drain => report.add("Drain", drain::measure(&world, !cli.small)?),
            Row::Latency => report.add("Latency, real hosts", latency::measure(&world)?),
            Row::Footprint => report.add("Footprint, a real host", footprint::measure(&world)?),
            Row::Waiters => {
                for waiters in &cli.waiters {
                    let title = format!("{waiters} waiters, one process each");
                    report.add(&title, waiters::measure(&world, *waiters)?);
                }
            }
            Row::Asked => report.add(
                "A thousand questions a second, a real host",
                asked::measure(&world)?,
            ),
            Row::Gates => report.add("Gates, a real host", gates::measure(&world)?),
            Row::Policy => report.add("The policy on Nodes", policy::measure(&world)?),
            Row::Idle => {}
        }
    }
    if let Some(idle) = idle {
        let least = Duration::from_secs(cli.idle * 60);
        report.add("Idle, a real host", idle.end(&world, least)?);
    }
    report.write(&cli.json, &machine)?;
    println!("{}", report.table());
    println!("{machine}");
    println!(
        "{:.0} s; the same as JSON: {}",
        begun.elapsed().as_secs_f32(),
        cli.json.display()
    );
    Ok(())
}

fn rows(cli: &Cli) -> Vec<Row> {
    let all = Row::value_variants().iter().copied();
    all.filter(|row| cli.row.is_empty() || cli.row.contains(row))
        .collect()
}

/// Figures of another machine, or of a busy one, are other figures.
fn machine(binary: &Path) -> Value {
    let text = |path: &str| {
        fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "load_before": text("/proc/loadavg"),
        "kernel": text("/proc/sys/kernel/osrelease"),
        "binary": binary,
    })
}
