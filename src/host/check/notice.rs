//! `notify.command` as a transient unit, as check commands are (I14).

use std::time::Duration;

use zbus::Variant;

use super::{Exit, Job, Place, RunError, Streams, end_of, ours, unit_name};
use crate::host::bus::Bus;
use crate::root::Root;
use crate::trusted::Untrusted;

/// Begins the name of its unit: a reload stops checks, and no notices.
const PREFIX: &str = "kube-rebootd-notify-";
/// Nobody looks at what it prints.
const KEPT: usize = 0;

/// Why somebody was not told.
#[derive(Debug, thiserror::Error)]
pub enum NoticeError {
    #[error(transparent)]
    Program(#[from] Untrusted),
    #[error("it ended with exit code {0}")]
    Code(u8),
    #[error("{0}")]
    Lost(String),
    #[error("{0}")]
    Run(String),
}

impl From<RunError> for NoticeError {
    fn from(error: RunError) -> Self {
        Self::Run(error.to_string())
    }
}

/// Runs it to its end, as `what` in its unit's name, with these variables (`NAME=VALUE`). Ends by itself at most 30 s after `timeout`.
pub async fn tell(
    root: &Root,
    bus: &Bus,
    what: &str,
    command: &[String],
    environment: Vec<String>,
    timeout: Duration,
) -> Result<(), NoticeError> {
    ours(root, command)?;
    let place = Place::new(root).map_err(RunError::Place)?;
    let output = place.output("output", KEPT).map_err(RunError::Place)?;
    let job = Job {
        unit: unit_name(PREFIX, what),
        description: format!("kube-rebootd tells: {what}"),
        command,
        timeout,
        more: vec![
            ("StandardError", "journal".into()),
            ("Environment", Variant::new(environment)),
        ],
    };
    let errors = None;
    let mut streams = Streams { output, errors };
    match end_of(bus, &job, &mut streams).await? {
        Exit::Code(0) => Ok(()),
        Exit::Code(code) => Err(NoticeError::Code(code)),
        Exit::Lost(why) => Err(NoticeError::Lost(why)),
    }
}
