//! A command as a transient unit of PID 1: started, read, waited for, stopped (I8).
//!
//! Each property below answers a trap of systemd 252 and 257 (`host_check`, `e2e::checks`); docs/design.md 4.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    io,
    time::Duration,
};

use zbus::{Connection, Variant};

use super::Exit;
use super::output::{MOST_PRINTED, Output};
use super::unit::{Progress, Unit};
use crate::host::bus::{Bus, BusError, bounded};
use crate::host::systemd::{self, Property};

/// From SIGTERM to SIGKILL, for a command past its time.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// What our own deadline adds to `timeout`: PID 1 must be the one that ends the command, and needs
/// [`STOP_TIMEOUT`] and some slack for it.
const GRACE: Duration = Duration::from_secs(20);
/// How often the unit is read: soon for quick commands, then seldom, because PID 1 answers with
/// some 300 properties each time.
const POLL_MIN: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_secs(2);
/// `LOG_NOTICE`: PID 1's own start and stop lines of an hourly check would fill the journal.
const LOG_NOTICE: i32 = 5;
/// Of the unit's name; unit names end at 255 bytes.
const NAME_BYTES: usize = 64;

#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error("cannot read the command's output: {0}")]
    Output(#[from] io::Error),
    #[error("cannot make a place for the command's output in /run: {0}")]
    Place(io::Error),
}

/// What PID 1 is to run.
pub(super) struct Job<'a> {
    /// Name of its unit.
    pub(super) unit: String,
    pub(super) description: String,
    /// Program and arguments.
    pub(super) command: &'a [String],
    pub(super) timeout: Duration,
    pub(super) more: Vec<Property<'a>>,
}

/// Where it prints.
pub(super) struct Streams {
    pub(super) output: Output,
    /// None where the journal gets them.
    pub(super) errors: Option<Output>,
}

impl Streams {
    /// Ends only after too much was printed.
    async fn read(&mut self) -> io::Result<()> {
        let Some(errors) = &mut self.errors else {
            return self.output.read().await;
        };
        tokio::select! {
            read = self.output.read() => read,
            read = errors.read() => read,
        }
    }

    /// What is there still. Whether too much was printed.
    fn rest(&mut self) -> io::Result<bool> {
        let errors = self.errors.as_mut().map_or(Ok(false), Output::rest)?;
        Ok(self.output.rest()? || errors)
    }
}

/// Runs it to its end.
pub(super) async fn end_of(
    bus: &Bus,
    job: &Job<'_>,
    streams: &mut Streams,
) -> Result<Exit, RunError> {
    // One connection throughout: AddRef keeps the unit only as long as it lives.
    let connection = bus.connection().await?;
    let started = bounded("starting a command", start(&connection, job, streams)).await;
    let limit = job.timeout + GRACE;
    let too_much = || Exit::Lost(format!("it printed more than {MOST_PRINTED} bytes"));
    let ended = match started {
        Ok(()) => tokio::select! {
            ended = tokio::time::timeout(limit, ended(&connection, &job.unit)) => ended,
            read = streams.read() => {
                stop(&connection, &job.unit).await;
                read?;
                return Ok(too_much());
            }
        },
        Err(error) => Ok(Err(error)),
    };
    match ended {
        // It may have ended before all was read.
        Ok(Ok(exit)) => Ok(if streams.rest()? { too_much() } else { exit }),
        Ok(Err(error)) => {
            // Without an answer it may be running all the same.
            stop(&connection, &job.unit).await;
            Err(error.into())
        }
        Err(_) => {
            stop(&connection, &job.unit).await;
            let (unit, seconds) = (&job.unit, limit.as_secs());
            let why = format!("its unit {unit} did not end within {seconds} s");
            Ok(Exit::Lost(why))
        }
    }
}

async fn start(connection: &Connection, job: &Job<'_>, streams: &Streams) -> zbus::Result<()> {
    let program = job.command.first().map_or("", String::as_str);
    let exec = vec![(program, job.command, vec!["no-env-expand"])];
    let any_code: Vec<i32> = (1..=255).collect();
    let mut properties: Vec<Property<'_>> = vec![
        ("Description", job.description.as_str().into()),
        // RuntimeMaxSec is ignored for oneshot, and simple hides a command that is not there.
        ("Type", "exec".into()),
        // Plain ExecStart expands `$NAME` and turns `$$` into `$` in the admin's arguments.
        ("ExecStartEx", Variant::new(exec)),
        // A collected unit reads as success.
        ("AddRef", true.into()),
        ("CollectMode", "inactive-or-failed".into()),
        ("RuntimeMaxUSec", micros(job.timeout).into()),
        // Who opens the FIFO of a process that was killed waits for a reader.
        ("TimeoutStartUSec", micros(job.timeout).into()),
        ("TimeoutStopUSec", micros(STOP_TIMEOUT).into()),
        // Any other code would leave the unit failed and the host `degraded`.
        (
            "SuccessExitStatus",
            Variant::new((any_code, Vec::<i32>::new())),
        ),
        ("LogLevelMax", LOG_NOTICE.into()),
        ("StandardOutputFile", streams.output.path().into()),
    ];
    if let Some(errors) = &streams.errors {
        properties.push(("StandardErrorFile", errors.path().into()));
    }
    for (name, value) in &job.more {
        properties.push((name, value.try_clone()?));
    }
    let manager = systemd::manager(connection).await?;
    manager
        .start_transient_unit(&job.unit, "fail", &properties, &[])
        .await?;
    Ok(())
}

/// Reads the unit until it has ended, one way or the other.
async fn ended(connection: &Connection, name: &str) -> Result<Exit, BusError> {
    let unit = bounded("finding a check's unit", Unit::find(connection, name)).await?;
    let mut progress = Progress::default();
    let mut wait = POLL_MIN;
    loop {
        let state = bounded("reading a check's unit", unit.state()).await?;
        if let Some(exit) = progress.see(&state) {
            unit.unref().await;
            return Ok(exit);
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(POLL_MAX);
    }
}

async fn stop(connection: &Connection, name: &str) {
    let stopped = bounded("stopping a check", async {
        let manager = systemd::manager(connection).await?;
        manager.stop_unit(name, "replace").await?;
        // Its reference would keep it as long as the daemon is connected.
        manager.unref_unit(name).await
    });
    if let Err(error) = stopped.await {
        // Most often it never began. If not, its RuntimeMaxSec ends it.
        tracing::debug!(%error, unit = name, "A check could not be stopped");
    }
}

/// `PREFIXNAME-RANDOM.service`: a name used again would meet the unit of the last run.
pub(super) fn unit_name(prefix: &str, name: &str) -> String {
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .take(NAME_BYTES)
        .collect();
    // The standard library's only source of randomness; it need not be secret.
    let random = RandomState::new().build_hasher().finish();
    format!("{prefix}{name}-{random:016x}.service")
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
