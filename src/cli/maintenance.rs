//! `drain`, `undrain`, `hold` and `release`: this host's own daemon is asked, and what comes of it is waited for (I4).
//!
//! A script that does not get what it waits for takes its wish back: a slot that nobody uses keeps all others waiting.

use std::future::poll_fn;
use std::process::ExitCode;
use std::task::{Context, Poll};
use std::time::Duration;

use kube_rebootd_core::order::Order;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::text::{MESSAGE, NAME as NAME_MAX, clean, span};
use kube_rebootd_core::trigger::Keeper;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep};
use zbus::Proxy;
use zbus::proxy::{Builder, CacheProperties};

use super::{block_on, complain, exit, order, print};
use crate::host::Bus;
use crate::host::bus::BusError;
use crate::host::dbus::{INTERFACE, NAME, PATH};

/// Between two looks at what the daemon does: a drain takes minutes.
const LOOK: Duration = Duration::from_secs(1);
/// So long a daemon that does not answer may take to be there again: its unit is started anew after ten seconds.
const AGAIN: Duration = Duration::from_secs(45);

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
        // Before it is asked: whoever ends this program meanwhile must leave no wish behind.
        let mut stops = Stops::new();
        let asked = tokio::select! {
            asked = order::given(&bus, order) => Some(asked),
            () = stops.next() => None,
        };
        let keeper = match order {
            Order::Drain { keeper, .. } => Some(*keeper),
            _ => None,
        };
        match (asked, wait) {
            (Some(Ok(lines)), limit) => {
                print(&format!("{}\n", lines.join("\n")));
                let Some(limit) = limit else {
                    return ExitCode::SUCCESS;
                };
                match (until(&bus, &mut stops, keeper, limit).await, keeper) {
                    (End::Reached, _) => ExitCode::SUCCESS,
                    (end, Some(keeper)) => not_drained(&bus, &end, keeper, limit).await,
                    (end, None) => {
                        let why = why(&end, limit);
                        complain(&format!("{why}; what was asked for goes on"));
                        ExitCode::from(exit::NOT_NOW)
                    }
                }
            }
            (Some(Err(err)), wait) => {
                let code = order::failed(&err);
                // It may be done all the same.
                if keeper == Some(Keeper::Script) && wait.is_some() && !order::refused(&err) {
                    take_back(&bus).await;
                }
                code
            }
            (None, _) => {
                complain(&"interrupted");
                if keeper == Some(Keeper::Script) {
                    take_back(&bus).await;
                }
                ExitCode::from(exit::NOT_NOW)
            }
        }
    })
}

/// Nobody is left who would use what a script asked for.
async fn take_back(bus: &Bus) {
    let deadline = Instant::now() + AGAIN;
    loop {
        match order::given(bus, &Order::Undrain(Keeper::Script)).await {
            Ok(lines) => return complain(&lines.join("; ")),
            Err(err) if !order::refused(&err) && Instant::now() < deadline => sleep(LOOK).await,
            Err(err) => {
                order::failed(&err);
                let ends = Keeper::Script.ends();
                return complain(&format!("what was asked for may go on until {ends}"));
            }
        }
    }
}

/// Looks until the node is drained for `keeper`, or without one until it holds nothing any more.
async fn until(bus: &Bus, stops: &mut Stops, keeper: Option<Keeper>, limit: Duration) -> End {
    let deadline = Instant::now() + limit;
    let mut told = String::new();
    let mut heard = false;
    let mut last = None;
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
            () = stops.next() => return End::Interrupted,
        }
    }
}

/// Signals by which somebody ends this program: Ctrl-C, `kill`, a terminal that goes.
struct Stops(Vec<Signal>);

impl Stops {
    /// From now on they are heard, and end nothing by themselves.
    fn new() -> Self {
        let all = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ];
        Self(
            all.into_iter()
                .filter_map(|kind| signal(kind).ok())
                .collect(),
        )
    }

    async fn next(&mut self) {
        let any = |context: &mut Context<'_>| {
            let mut all = self.0.iter_mut();
            if all.any(|one| one.poll_recv(context).is_ready()) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        };
        poll_fn(any).await;
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
        Keeper::Script => {
            complain(&why);
            take_back(bus).await;
        }
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
