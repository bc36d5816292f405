//! The back-off from an API server that refuses or is silent: when it is asked again (I7).

use std::time::Duration;

use kube_rebootd_core::backoff::doubled;
use tracing::{info, warn};

use crate::cluster::answer::ApiError;

/// First pause after a request that failed.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest pause: also how late a returned API server is noticed by writes.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// After a 404: a kubelet that has just joined makes its heartbeat Lease within seconds.
const GONE: Duration = Duration::from_secs(2);
/// After a conflict: the object is read again anyway; the lifecycle controller needs a moment.
const CONFLICT: Duration = Duration::from_millis(200);
/// More conflicts than this in a row are no race any more: a webhook refuses by this answer.
const CONFLICTS: u32 = 20;

/// A write that failed so long ago and was not sent again is nobody's trouble any more.
const FORGOTTEN: Duration = Duration::from_secs(120);

/// When an API server that refuses or is silent is asked again, and what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct ApiBackoff {
    failures: u32,
    /// So many in a row.
    conflicts: u32,
    paused_until: Option<Duration>,
    trouble: Option<String>,
    /// What is asked now is a write, and what failed last was one.
    writing: bool,
    write_failed: Option<Duration>,
}

impl ApiBackoff {
    /// A request is about to be sent; what comes of it is told next.
    pub(super) fn request_begins(&mut self, write: bool) {
        self.writing = write;
    }

    /// Nothing is asked before this boot time; none: ask.
    pub(super) fn paused_until(&self, now: Duration) -> Option<Duration> {
        self.paused_until.filter(|until| *until > now)
    }

    /// What is wrong, for STATUS. Where nothing has been asked for a while nobody knows, and nobody waits.
    pub(super) fn trouble(&self, now: Duration) -> Option<&str> {
        let fresh = |at: Duration| now.saturating_sub(at) <= FORGOTTEN;
        let lately = self
            .paused_until
            .into_iter()
            .chain(self.write_failed)
            .any(fresh);
        self.trouble.as_deref().filter(|_| lately)
    }

    /// A read that succeeds between two writes that are refused mends nothing: their pauses grow.
    pub(super) fn request_worked(&mut self, now: Duration) {
        let lately = |failed: Duration| now.saturating_sub(failed) <= FORGOTTEN;
        if !self.writing && self.write_failed.is_some_and(lately) {
            self.paused_until = None;
            return;
        }
        if self.trouble.is_some() {
            info!("the API server answers again");
        }
        *self = Self::default();
    }

    /// A request failed: when to ask again, said once per change.
    pub(super) fn request_failed(&mut self, err: &ApiError, now: Duration) {
        match err {
            ApiError::Conflict { .. }
            | ApiError::TaintsRace { .. }
            | ApiError::UidMismatch { .. } => {
                self.conflicts = self.conflicts.saturating_add(1);
                if self.conflicts > CONFLICTS {
                    return self.pause_longer(now, Duration::ZERO, err.to_string());
                }
                self.write_failed = self.writing.then_some(now);
                self.paused_until = Some(now + CONFLICT);
            }
            ApiError::Busy {
                retry_after: Some(seconds),
                ..
            } => self.pause_longer(now, Duration::from_secs(*seconds), err.to_string()),
            // Not there yet, or not any more: looked for again, and nobody's fault.
            ApiError::Gone { .. } => self.paused_until = Some(now + GONE),
            ApiError::Denied { .. }
            | ApiError::Invalid { .. }
            | ApiError::Busy { .. }
            | ApiError::Unreachable { .. }
            | ApiError::Expired { .. }
            | ApiError::Other { .. } => self.pause_longer(now, Duration::ZERO, err.to_string()),
        }
    }

    /// Longer with each failure, but `at_least` so long.
    pub(super) fn pause_longer(&mut self, now: Duration, at_least: Duration, why: String) {
        if self.trouble.as_ref() != Some(&why) {
            warn!("{why}");
        }
        let pause = doubled(PAUSE, self.failures, PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        self.write_failed = self.writing.then_some(now);
        self.paused_until = Some(now + pause.max(at_least));
        self.trouble = Some(why);
    }
}
