//! Row 7: what many questions cost the daemon's loop. Its state is read on D-Bus a thousand times a second, and meanwhile it is
//! asked for something that the loop itself answers: how long that takes is how late a turn of the loop comes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use testbed::HostSpec;
use zbus::connection::Builder;
use zbus::{Connection, proxy};

use crate::figures::{Figure, Goal, median};
use crate::footprint::look;
use crate::latency::idle;
use crate::world::{World, count};

/// Group of the host that is asked.
pub(crate) const GROUP: &str = "asked";
/// Questions in a second, and for how long.
const RATE: u32 = 1_000;
const TIME: Duration = Duration::from_secs(60);
/// Between two things that the loop answers.
const PAUSE: Duration = Duration::from_millis(500);

#[proxy(
    interface = "org.kuberebootd1.Node",
    default_service = "org.kuberebootd1",
    default_path = "/org/kuberebootd1"
)]
pub(crate) trait Node {
    /// Nothing was asked for: nothing is taken back or written.
    fn cancel(&self) -> zbus::Result<Vec<String>>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn status(&self) -> zbus::Result<String>;
}

/// The figures of row 7.
pub(crate) fn measure(world: &World) -> Result<Vec<Figure>> {
    let config = format!("[coordination]\ngroup = \"{GROUP}\"\n");
    let host = world.bed.boot(&HostSpec::named("a1").config(&config))?;
    world.bed.wait_ready(host.name())?;
    idle(world, &host)?;
    let socket = host.outer("/run/dbus/system_bus_socket");
    let address = format!("unix:path={}", socket.display());
    world.runtime.block_on(async {
        let bus = || async { connect(&address).await };
        let (loop_bus, reads) = (bus().await?, bus().await?);
        let node = NodeProxy::new(&loop_bus).await?;
        let quiet = turns(&node).await?;
        let before = look(&host)?;
        let (asked, busy) = tokio::join!(storm(&reads), turns(&node));
        let (asked, busy) = (asked?, busy?);
        let cpu = (look(&host)?.cpu - before.cpu) / TIME.as_secs_f64() * 100.0;
        let worst = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
        let (usual, late) = (median(&quiet), worst(&busy));
        Ok(vec![
            Figure::of("questions answered in a second", "", vec![asked])
                .goal(Goal::AtLeast(f64::from(RATE) * 0.95)),
            Figure::of("the loop's answer without them", "ms", quiet),
            Figure::of("... with them", "ms", busy),
            Figure::of(
                "the latest of these, less a usual one",
                "ms",
                vec![late - usual],
            )
            .goal(Goal::AtMost(50.0)),
            Figure::of("the daemon's CPU meanwhile", "% of one", vec![cpu]),
        ])
    })
}

pub(crate) async fn connect(address: &str) -> Result<Connection> {
    let bus = Builder::address(address).build();
    bus.await.context("cannot reach the host's D-Bus")
}

/// How long the loop takes for an answer, again and again.
async fn turns(node: &NodeProxy<'_>) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    let end = Instant::now() + TIME;
    while Instant::now() < end {
        let begun = Instant::now();
        node.cancel().await.context("the loop did not answer")?;
        took.push(begun.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(took)
}

/// Questions at an even rate, each without waiting for the answer before; answers in a second.
async fn storm(bus: &Connection) -> Result<f64> {
    let node = NodeProxy::new(bus).await?;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / RATE);
    let mut asked = tokio::task::JoinSet::new();
    let begun = Instant::now();
    let mut answers: usize = 0;
    while begun.elapsed() < TIME {
        ticks.tick().await;
        let node = node.clone();
        asked.spawn(async move { node.status().await.is_ok() });
        while let Some(answered) = asked.try_join_next() {
            answers += usize::from(answered?);
        }
    }
    while let Some(answered) = asked.join_next().await {
        answers += usize::from(answered?);
    }
    Ok(count(answers) / begun.elapsed().as_secs_f64())
}
