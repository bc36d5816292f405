//! Row 2: how quick one host is about what is its own to do, on real hosts: logind, kubelet and boots are
//! real, and what they take is told apart.

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::Value;
use testbed::{Host, HostSpec, Request};

use crate::figures::{Figure, Goal};
use crate::world::{DAEMON, NAMESPACE, World, seconds};

/// The group of these hosts, and its Lease.
pub(crate) const GROUP: &str = "hosts";
const NAMES: [&str; 2] = ["n1", "n2"];
const SENTINEL: &str = "/run/reboot-required";

/// One rollout over both hosts: the first wants a reboot, the second soon after.
#[derive(Default)]
struct Times {
    /// Sentinel to Lease, s.
    taken: Vec<f64>,
    /// Lease given up to Lease taken by the other, s.
    handed: Vec<f64>,
    /// The first host's cycle, all of it.
    whole: Vec<f64>,
    /// Of that the daemon's own.
    own: Vec<f64>,
}

/// The figures of row 2.
pub(crate) fn measure(world: &World) -> Result<Vec<Figure>> {
    let config = format!(
        "[health]\nready_for = \"0s\"\n[coordination]\ngroup = \"{GROUP}\"\n[reboot]\nmax_per_day = 100\n"
    );
    let mut hosts = Vec::new();
    for name in NAMES {
        hosts.push(world.bed.boot(&HostSpec::named(name).config(&config))?);
        world.bed.wait_ready(name)?;
    }
    for host in &hosts {
        idle(world, host)?;
    }
    let mut times = Times::default();
    for run in 0..world.runs {
        rollout(world, &hosts, run, &mut times)?;
    }
    Ok(vec![
        Figure::of("sentinel created to Lease taken", "s", times.taken).goal(Goal::AtMost(0.1)),
        Figure::of("slot given up to the next waiter's Lease", "s", times.handed)
            .goal(Goal::AtMost(0.3)),
        Figure::of("one host's cycle less boot and kubelet", "s", times.own)
            .goal(Goal::AtMost(3.0))
            .note("sentinel to asking logind (a drain without pods is in it), and the kubelet's first report to the slot given up"),
        Figure::of("one host's cycle, all of it", "s", times.whole),
    ])
}

/// Waits until the daemon has nothing to do.
pub(crate) fn idle(world: &World, host: &Host) -> Result<()> {
    world.until(&format!("{} to be idle", host.name()), || {
        let said = host.status().unwrap_or_default();
        Ok(said.starts_with("idle"))
    })
}

/// Says that a reboot is required, for a reason of its own; when, by the file's own time.
pub(crate) fn require(host: &Host, reason: &str) -> Result<Timestamp> {
    let line =
        format!("echo {reason} > {SENTINEL}.pkgs && touch {SENTINEL} && stat -c %.6Y {SENTINEL}");
    let seconds: f64 = host.sh(&line)?.trim().parse()?;
    // Whole microseconds of this century fit a double exactly enough: 2^53 us are 285 years.
    #[allow(clippy::cast_possible_truncation)]
    Ok(Timestamp::from_microsecond((seconds * 1e6).round() as i64)?)
}

fn rollout(world: &World, hosts: &[Host], run: usize, times: &mut Times) -> Result<()> {
    let [first, second] = hosts else {
        anyhow::bail!("two hosts")
    };
    let boots = second.boots()?;
    let touched = require(first, &format!("run-{run}"))?;
    world.until("the first host to hold", || {
        Ok(world.holder(GROUP)?.as_deref() == Some(first.name()))
    })?;
    require(second, &format!("run-{run}"))?;
    world.until("the second host to have rebooted", || {
        Ok(second.boots()? > boots && world.holder(GROUP)?.is_none())
    })?;
    for host in hosts {
        idle(world, host)?;
    }
    let requests = world.since(DAEMON, touched)?;
    let slots: Vec<&Request> = requests.iter().filter(|one| is_slot(one)).collect();
    let took = |name: &str| {
        let mut takes = slots.iter().filter(|one| holder(one) == Some(name));
        takes
            .next()
            .map(|one| one.done)
            .with_context(|| format!("{name} took nothing"))
    };
    let gave = slots.iter().find(|one| holder(one).is_none());
    let gave = gave.context("nobody gave up")?;
    times.taken.push(seconds(touched, took(first.name())?));
    times.handed.push(seconds(gave.done, took(second.name())?));
    times.whole.push(seconds(touched, gave.done));
    let asked = asked(first, touched)?;
    let alive = alive(world, first)?;
    times
        .own
        .push(seconds(touched, asked) + seconds(alive, gave.done));
    Ok(())
}

/// A write of a Lease that was done.
fn is_slot(request: &Request) -> bool {
    request.resource == "leases"
        && request.namespace == NAMESPACE
        && request.verb == "patch"
        && request.code == 200
}

/// The holder after a write.
fn holder(request: &Request) -> Option<&str> {
    let holder = request.response.as_ref()?["spec"]["holderIdentity"].as_str();
    holder.filter(|holder| !holder.is_empty())
}

/// When logind was asked, by the journal.
fn asked(host: &Host, since: Timestamp) -> Result<Timestamp> {
    let records = host.journal_json("kube-rebootd")?;
    let at = |record: &Value| -> Option<Timestamp> {
        let micros = record["__REALTIME_TIMESTAMP"].as_str()?.parse().ok()?;
        Timestamp::from_microsecond(micros).ok()
    };
    let asking = |record: &&Value| record["MESSAGE"] == "asking for the reboot";
    let mut times = records.iter().filter(asking).filter_map(at);
    times
        .find(|at| *at >= since)
        .context("logind was not asked")
}

/// The kubelet's first report of the new boot, with its boot ID: nothing is proved before it, whatever a
/// daemon does.
fn alive(world: &World, host: &Host) -> Result<Timestamp> {
    let first = "journalctl --boot --output=short-unix --no-pager | head -1 | cut -d' ' -f1";
    let seconds: f64 = host.sh(first)?.trim().parse().context("no journal")?;
    #[allow(clippy::cast_possible_truncation)] // as in `require`
    let booted = Timestamp::from_microsecond((seconds * 1e6) as i64)?;
    let user = format!("system:node:{}", host.name());
    let all = world.since("", booted)?;
    let report = all.iter().find(|one| {
        one.user == user
            && !one.user_agent.starts_with(DAEMON)
            && one.verb == "patch"
            && one.resource == "nodes/status"
    });
    Ok(report.context("the kubelet reported nothing")?.done)
}
