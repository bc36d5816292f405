//! Commands of the gate and hooks as transient units, as check commands are (I8, I14).

use std::time::Duration;

use kube_rebootd_core::hook::Answer;
use zbus::Variant;

use super::{Exit, Job, Place, RunError, SYSTEMD_CODES, Streams, WHOLE_BYTES};
use super::{end_of, ours, unit_name};
use crate::host::bus::Bus;
use crate::root::Root;

/// Begins the name of its unit: a reload stops checks, and none of these.
pub(super) const PREFIX: &str = "kube-rebootd-hook-";
/// The same of a hook that is one of a round.
pub(super) const ROUND_PREFIX: &str = "kube-rebootd-hooks-";

/// A command, or a hook.
#[derive(Debug, Clone, Copy)]
pub struct Hook<'a> {
    /// Names it in the unit's name.
    pub name: &'a str,
    /// Program and arguments; never a shell's line.
    pub command: &'a [String],
    /// When PID 1 ends it.
    pub timeout: Duration,
    /// It is one of a round: before the next round begins, it is ended.
    pub round: bool,
}

/// What it answers, run with these variables (`NAME=VALUE`). Ends by itself at most 30 s after its timeout.
pub async fn run(root: &Root, bus: &Bus, hook: &Hook<'_>, environment: Vec<String>) -> Answer {
    if let Err(why) = ours(root, hook.command) {
        return Answer::Unknown(why.to_string());
    }
    match attempt(root, bus, hook, environment).await {
        Ok((exit, printed)) => Answer::of(code(exit), &String::from_utf8_lossy(&printed)),
        Err(error) => Answer::of(Err(error.to_string()), ""),
    }
}

fn code(exit: Exit) -> Result<u8, String> {
    match exit {
        Exit::Code(code) if SYSTEMD_CODES.contains(&code) => Err(format!(
            "systemd could not start it (exit code {code}, see systemd.exec(5))"
        )),
        Exit::Code(code) => Ok(code),
        Exit::Lost(why) => Err(why),
    }
}

async fn attempt(
    root: &Root,
    bus: &Bus,
    hook: &Hook<'_>,
    environment: Vec<String>,
) -> Result<(Exit, Vec<u8>), RunError> {
    let place = Place::new(root).map_err(RunError::Place)?;
    let output = place.end_of_output("output", WHOLE_BYTES);
    let prefix = if hook.round { ROUND_PREFIX } else { PREFIX };
    let job = Job {
        unit: unit_name(prefix, hook.name),
        description: format!("kube-rebootd hook {}", hook.name),
        command: hook.command,
        timeout: hook.timeout,
        more: vec![
            ("StandardError", "journal".into()),
            ("Environment", Variant::new(environment)),
        ],
    };
    let mut streams = Streams {
        output: output.map_err(RunError::Place)?,
        errors: None,
    };
    let exit = end_of(bus, &job, &mut streams).await?;
    Ok((exit, streams.output.into_kept()))
}
