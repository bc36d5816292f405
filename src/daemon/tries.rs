//! Evictions that are only tried, before a cordon: dry runs (I9), beside the loop (I7). Nothing waits for what comes of them.

use kube_rebootd_core::now::Now;
use tokio::sync::mpsc;

use super::Daemon;
use crate::cluster::pods::Tried;

/// What was answered, on its way to the loop.
pub(super) struct Tries {
    send: mpsc::UnboundedSender<Tried>,
    answers: mpsc::UnboundedReceiver<Tried>,
}

impl Default for Tries {
    fn default() -> Self {
        let (send, answers) = mpsc::unbounded_channel();
        Self { send, answers }
    }
}

impl Tries {
    /// The next answers. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Tried> {
        self.answers.recv().await
    }
}

impl Daemon {
    /// Asks what would become of the evictions that are to be tried.
    pub(super) fn try_evictions(&mut self, now: Now) {
        if self.api_backoff.paused_until(now.boot).is_some() {
            return;
        }
        let Some(requests) = self.api.requests() else {
            return;
        };
        let tries = self.machine.tries();
        if tries.is_empty() {
            return;
        }
        let (own, send) = (requests.pods.clone(), self.tries.send.clone());
        tokio::spawn(async move {
            // The loop only ends with the process.
            let _ = send.send(own.try_all(tries).await);
        });
    }
}
