//! `drain`, `undrain`, `hold` and `release`: this host's own daemon is asked, and what comes of it is waited for (I4).
//!
//! A script that does not get what it waits for takes its wish back: a slot that nobody uses keeps all others waiting.

use std::process::ExitCode;
use std::time::Duration;

use kube_rebootd_core::order::Order;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::text::{MESSAGE, NAME as NAME_MAX, clean, span};
use kube_rebootd_core::trigger::Keeper;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};
use zbus::Proxy;
use zbus::proxy::{Builder, CacheProperties};

use super::{block_on, complain, exit, order, print};
use crate::host::Bus;
use crate::host::bus::BusError;
use crate::host::dbus::{INTERFACE, NAME, PATH};

/// Between two looks at what the daemon does: a drain takes minutes.
const LOOK: Duration = Duration::from_secs(1);

/// What the daemon says that it does.
struct Seen {
    phase: String,
    status: String,
    /// The commands by which somebody wants the node drained.
    kept_by: Vec<String>,
}

impl Seen {
    fn is(&self, phases: &[Phase]) -> bool {
        let same = |phase: &Phase| phase.name().eq_ignore_ascii_case(&self.phase);
        phases.iter().any(same)
    }

    fn wanted_by(&self, keeper: Keeper) -> bool {
        self.kept_by.iter().any(|by| by == keeper.begins())
    }
}

/// How the waiting ended.
enum End {
    Reached,
    /// Somebody took the wish back meanwhile.
    TakenBack(Seen),
    Late(Option<Seen>),
    Interrupted,
}

/// Asks for it, and with `wait` for so long until the node is drained, or is so no more.
pub fn main(order: &Order, wait: Option<Duration>) -> ExitCode {
    let bus = Bus::system();
    block_on(async {
        match order::given(&bus, order).await {
            Ok(lines) => print(&format!("{}\n", lines.join("\n"))),
            Err(err) => return order::failed(&err),
        }
        let Some(limit) = wait else {
            return ExitCode::SUCCESS;
        };
        let keeper = match order {
            Order::Drain { keeper, .. } => Some(*keeper),
            _ => None,
        };
        match (until(&bus, keeper, limit).await, keeper) {
            (End::Reached, _) => ExitCode::SUCCESS,
            (end, Some(keeper)) => not_drained(&bus, &end, keeper, limit).await,
            (end, None) => {
                let why = why(&end, limit);
                complain(&format!("{why}; what was asked for goes on"));
                ExitCode::from(exit::NOT_NOW)
            }
        }
    })
}

/// Looks until the node is drained for `keeper`, or without one until it holds nothing any more.
async fn until(bus: &Bus, keeper: Option<Keeper>, limit: Duration) -> End {
    let deadline = Instant::now() + limit;
    let mut told = String::new();
    let mut heard = false;
    let mut last = None;
    let stopped = stopped();
    tokio::pin!(stopped);
    loop {
        // A daemon that restarts, or a bus that does, is there again soon.
        if let Ok(seen) = look(bus).await {
            let wanted = keeper.map(|keeper| seen.wanted_by(keeper));
            let reached = match wanted {
                Some(wanted) => wanted && seen.is(&[Phase::Drained]),
                None => seen.is(&[Phase::Idle, Phase::Pending, Phase::Queued]),
            };
            if reached {
                return End::Reached;
            }
            // The first look may be older than the wish.
            if heard && wanted == Some(false) {
                return End::TakenBack(seen);
            }
            heard |= wanted == Some(true);
            if told != seen.phase {
                complain(&seen.status);
                told.clone_from(&seen.phase);
            }
            last = Some(seen);
        }
        let now = Instant::now();
        if now >= deadline {
            return End::Late(last);
        }
        tokio::select! {
            () = sleep(LOOK.min(deadline - now)) => {}
            () = &mut stopped => return End::Interrupted,
        }
    }
}

/// Somebody wants this program to end.
async fn stopped() {
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    let [Ok(mut interrupt), Ok(mut terminate)] = signals else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

async fn look(bus: &Bus) -> Result<Seen, BusError> {
    bus.call("reading what kube-rebootd does", |connection| async move {
        let proxy: Proxy<'_> = Builder::new(&connection)
            .destination(NAME)
            .path(PATH)
            .interface(INTERFACE)
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        let phase: String = proxy.get_property("Phase").await?;
        let status: String = proxy.get_property("Status").await?;
        let kept_by: Vec<String> = proxy.get_property("KeptBy").await?;
        Ok(Seen {
            phase: clean(&phase, NAME_MAX),
            status: clean(&status, MESSAGE),
            kept_by,
        })
    })
    .await
}

/// A person's wish stays and is served later; a script's does not.
async fn not_drained(bus: &Bus, end: &End, keeper: Keeper, limit: Duration) -> ExitCode {
    let why = why(end, limit);
    match keeper {
        _ if matches!(end, End::TakenBack(_)) => complain(&why),
        Keeper::Person => complain(&format!("{why}; it goes on until {}", keeper.ends())),
        Keeper::Script => match order::given(bus, &Order::Undrain(keeper)).await {
            Ok(lines) => complain(&format!("{why}; {}", lines.join("; "))),
            Err(err) => {
                complain(&why);
                complain(&format!("the wish stays until {}", keeper.ends()));
                return order::failed(&err);
            }
        },
    }
    ExitCode::from(exit::NOT_NOW)
}

fn why(end: &End, limit: Duration) -> String {
    match end {
        End::Reached => String::new(),
        End::TakenBack(seen) => format!("somebody took it back meanwhile: {}", seen.status),
        End::Late(None) => format!("not within {}: the daemon does not answer", span(limit)),
        End::Late(Some(seen)) => format!("not within {}: {}", span(limit), seen.status),
        End::Interrupted => "interrupted".to_owned(),
    }
}
