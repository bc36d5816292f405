//! Row 3: what the daemon weighs: memory, the binary, and what it does while there is nothing to do.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jiff::Timestamp;
use testbed::{Host, HostSpec, at_once};

use crate::figures::{Figure, Goal};
use crate::latency::{idle, require};
use crate::process::{Look, SHOW};
use crate::world::{DAEMON, World, count, seconds};

/// Group of the host whose memory is watched.
pub(crate) const MEMORY: &str = "memory";
/// Group of the host that does nothing.
pub(crate) const IDLE: &str = "idle";
/// Cycles in one process.
const CYCLES: usize = 100;
/// After a start, before the idle time counts: the first lists and the first poll are over.
const SETTLE: Duration = Duration::from_secs(15);

/// That a Node stays Ready for `health.ready_for` is no work of the daemon's, and is left out here as in the other rows.
fn config(group: &str, more: &str) -> String {
    format!(
        "[health]\nready_for = \"0s\"\n[coordination]\ngroup = \"{group}\"\n[reboot]\nmax_per_day = 100\n{more}"
    )
}

pub(crate) fn look(host: &Host) -> Result<Look> {
    let line = format!("pid=$(systemctl show -P MainPID kube-rebootd); {SHOW}");
    Look::read(&host.sh(&line)?)
}

/// The figures of row 3 but for those of idle time.
pub(crate) fn measure(world: &World) -> Result<Vec<Figure>> {
    let name = "m1";
    let host = world
        .bed
        .boot(&HostSpec::named(name).config(config(MEMORY, "")))?;
    world.bed.wait_ready(name)?;
    idle(world, &host)?;
    let starts = starts(world, &host, world.runs)?;
    let at_start = look(&host)?;
    let boots = host.boots()?;
    require(&host, "whole")?;
    world.until("a whole cycle", || {
        Ok(host.boots()? > boots && world.holder(MEMORY)?.is_none())
    })?;
    idle(world, &host)?;
    let after_one = look(&host)?;
    host.write(
        "/etc/kube-rebootd/config.toml",
        &at_once(&config(MEMORY, "delay = \"1h\"\n")),
    )?;
    host.systemctl(&["reload", "kube-rebootd"])?;
    for cycle in 0..CYCLES {
        undone(world, &host, cycle)?;
    }
    let after_all = look(&host)?;
    let size = fs::metadata(&world.binary)?.len();
    #[allow(clippy::cast_precision_loss)] // megabytes
    let size = size as f64 / 1e6;
    // Six sevenths are pages of the program and of libc, which follow from its size.
    let most = Goal::AtMost(14.0);
    Ok(vec![
        Figure::of("start to READY", "s", starts).goal(Goal::AtMost(0.1)),
        Figure::of("resident memory at start", "MB", vec![at_start.resident]).goal(most),
        Figure::of("... after a cycle with a boot", "MB", vec![after_one.resident]).goal(most),
        Figure::of(format!("... after {CYCLES} cycles in one process"), "MB", vec![after_all.resident])
            .goal(most)
            .note(format!(
                "such a cycle: take, label, cordon, drain, and all undone as it is cancelled; the most it was: {:.1} MB",
                after_all.peak
            )),
        Figure::of("binary", "MB", vec![size]).goal(Goal::AtMost(11.0)),
    ])
}

/// From the start of the process to READY, by systemd.
fn starts(world: &World, host: &Host, runs: usize) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..runs {
        host.systemctl(&["restart", "kube-rebootd"])?;
        let show =
            "show kube-rebootd -P ExecMainStartTimestampMonotonic -P ActiveEnterTimestampMonotonic";
        let said = host.systemctl(&[show])?;
        let mut micros = said.split_whitespace().map(str::parse::<f64>);
        let (start, ready) = (
            micros.next().context("no start")??,
            micros.next().context("no READY")??,
        );
        times.push((ready - start) / 1e6);
        idle(world, host)?;
    }
    Ok(times)
}

/// The slot is taken, the node cordoned and drained, and all is given back as it is cancelled. A trigger that comes and goes would
/// wait longer each time.
fn undone(world: &World, host: &Host, cycle: usize) -> Result<()> {
    host.sh(&format!("kube-rebootd reboot --reason cycle-{cycle}"))?;
    world.until("the cordon", || {
        let spec = world.node(host.name())?.spec.unwrap_or_default();
        Ok(spec.unschedulable == Some(true))
    })?;
    host.sh("kube-rebootd cancel")?;
    world.until("the slot to be given up", || {
        Ok(world.holder(MEMORY)?.is_none())
    })
}

/// A host with nothing to do, watched while the other rows run.
pub(crate) struct Idle {
    host: Host,
    before: Look,
    since: Timestamp,
    begun: Instant,
}

impl Idle {
    pub(crate) fn begin(world: &World) -> Result<Self> {
        let host = world
            .bed
            .boot(&HostSpec::named(IDLE).config(config(IDLE, "")))?;
        world.bed.wait_ready(IDLE)?;
        idle(world, &host)?;
        world.rest(SETTLE);
        Ok(Self {
            before: look(&host)?,
            host,
            since: Timestamp::now(),
            begun: Instant::now(),
        })
    }

    /// Ends when it has lasted `least`.
    pub(crate) fn end(self, world: &World, least: Duration) -> Result<Vec<Figure>> {
        let left = least.saturating_sub(self.begun.elapsed());
        if !left.is_zero() {
            eprintln!("bench: idle for another {} s ...", left.as_secs());
            world.rest(left);
        }
        let after = look(&self.host)?;
        let time = seconds(self.since, Timestamp::now());
        let requests = requests(world, self.since, time)?;
        #[allow(clippy::cast_precision_loss)] // thousands
        let waits = (after.waits - self.before.waits) as f64;
        let note = format!("from {:.1} minutes", time / 60.0);
        let per = |amount: f64, period: f64| vec![amount * period / time];
        Ok(vec![
            Figure::of("requests per idle hour", "", vec![requests])
                .goal(Goal::AtMost(15.0))
                .note(format!(
                    "{note}; a watch by the time it was asked for, as it outlasts that"
                )),
            Figure::of(
                "wake-ups per idle hour (voluntary switches)",
                "",
                per(waits, 3600.0),
            )
            .goal(Goal::AtMost(120.0))
            .note(&note),
            Figure::of(
                "CPU per idle day",
                "s",
                per(after.cpu - self.before.cpu, 86400.0),
            )
            .note(note),
            Figure::of("resident memory after that", "MB", vec![after.resident])
                .goal(Goal::AtMost(14.0)),
        ])
    }
}

/// Requests in an hour: watches are opened again when the time is over that was asked for (the daemon may
/// have got less), all others as they came.
fn requests(world: &World, since: Timestamp, time: f64) -> Result<f64> {
    let user = format!("system:node:{IDLE}");
    let mut all = world.bed.requests_by(DAEMON)?;
    all.retain(|one| one.user == user);
    let mut watches = BTreeMap::new();
    for watch in all.iter().filter(|one| one.verb == "watch") {
        let (_, asked) = watch
            .uri
            .split_once("timeoutSeconds=")
            .context("a watch without an end")?;
        let digits: String = asked.chars().take_while(char::is_ascii_digit).collect();
        watches.insert(&watch.resource, 3600.0 / digits.parse::<f64>()?);
    }
    let others = all
        .iter()
        .filter(|one| one.verb != "watch" && one.at >= since);
    Ok(watches.values().sum::<f64>() + count(others.count()) * 3600.0 / time)
}
