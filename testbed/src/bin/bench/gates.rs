//! Row 8: what the gates cost. A host waits for a window while every gate that a worker can have is configured, and its loop is
//! made to turn ten thousand times: each turn evaluates all of them. `gates.api_servers` does nothing on a worker, and is not among
//! them. The CPU is the whole daemon's, with the question on D-Bus that makes the
//! loop turn, so that it is an upper bound.

use std::time::Instant;

use anyhow::{Context, Result};
use testbed::HostSpec;
use zbus::Connection;

use crate::asked::{NodeProxy, connect};
use crate::figures::{Figure, Goal};
use crate::footprint::look;
use crate::latency::{idle, require};
use crate::world::World;

/// Group of the host that waits.
pub(crate) const GROUP: &str = "gates";
/// Evaluations that count, and those before them: what is allocated once is not growth.
const TURNS: u32 = 10_000;
const BEFORE: u32 = 1_000;

/// Nobody answers at port 9, which costs no network. Every date of these years is excluded, so that no window opens for as long as it is looked ahead.
const CONFIG: &str = r#"
[coordination]
group = "gates"

[[windows]]
name = "nights"
days = ["second tuesday", "after patch tuesday + 3d"]
start = "22:00"
end = "05:00"
time_zone = "Europe/Berlin"

[[windows]]
name = "weekends"
days = ["last sunday"]
start = "02:00"
end = "06:00"
time_zone = "America/New_York"

[gates]
min_uptime = "1s"
unsynchronized_clock = "ignore"
exclude_dates = ["2020-01-01..2099-12-31"]
conditions = ["KernelDeadlock", "ReadonlyFilesystem"]
blocking_pods = ["app=backup", "batch: app in (train,render)", "ci:"]
capacity_wait = "15m"
live_patch_wait = "14d"
users = "block"
force_after = "14d"
force = ["windows", "users"]

[[gates.command]]
name = "never"
command = ["/usr/bin/false"]
period = "10m"

[[gates.prometheus]]
name = "nobody"
url = "http://127.0.0.1:9"
on_error = "open"
"#;

/// The figures of row 8.
pub(crate) fn measure(world: &World) -> Result<Vec<Figure>> {
    let host = world.bed.boot(&HostSpec::named("g1").config(CONFIG))?;
    world.bed.wait_ready(host.name())?;
    idle(world, &host)?;
    require(&host, "gates")?;
    world.until("the host to wait at its gates", || {
        Ok(host.status().unwrap_or_default().contains("windows"))
    })?;
    let socket = host.outer("/run/dbus/system_bus_socket");
    let address = format!("unix:path={}", socket.display());
    let bus = world.runtime.block_on(connect(&address))?;
    turns(world, &bus, BEFORE)?;
    let (before, begun) = (look(&host)?, Instant::now());
    turns(world, &bus, TURNS)?;
    let (after, took) = (look(&host)?, begun.elapsed());
    let said = host.status()?;
    anyhow::ensure!(
        said.contains("windows"),
        "it does not wait any more: {said}"
    );
    let each = f64::from(TURNS);
    let cpu = (after.cpu - before.cpu) * 1e3 / each;
    let growth = (after.resident - before.resident).max(0.0);
    Ok(vec![
        Figure::of(
            "CPU of one evaluation of all gates, at most",
            "ms",
            vec![cpu],
        )
        .goal(Goal::AtMost(1.0))
        .note("the whole turn of the loop"),
        Figure::of(
            "... from question to answer",
            "ms",
            vec![took.as_secs_f64() * 1e3 / each],
        ),
        Figure::of(
            format!("memory that {TURNS} of them add"),
            "MB",
            vec![growth],
        )
        .goal(Goal::AtMost(0.5)),
    ])
}

/// There is nothing to take back: the loop looks, and answers.
fn turns(world: &World, bus: &Connection, turns: u32) -> Result<()> {
    world.runtime.block_on(async {
        let node = NodeProxy::new(bus).await?;
        for _ in 0..turns {
            node.cancel().await.context("the loop did not answer")?;
        }
        Ok(())
    })
}
