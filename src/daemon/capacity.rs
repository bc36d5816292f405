//! The pods that wait for room on a node are listed beside the loop (I7): on a large cluster that may take a while.

use std::time::Duration;

use kube_rebootd_core::machine::Listed;
use kube_rebootd_core::now::Now;
use tokio::sync::mpsc;

use super::Daemon;
use crate::cluster::answer::ApiError;
use crate::cluster::capacity::unplaced;
use crate::cluster::manifests::capacity_cure;

/// What was answered.
pub(super) struct Answer {
    /// Boot time of the question.
    asked: Duration,
    said: Result<Listed, ApiError>,
}

/// Answers on their way to the loop.
pub(super) struct Capacity {
    send: mpsc::UnboundedSender<Answer>,
    answers: mpsc::UnboundedReceiver<Answer>,
}

impl Default for Capacity {
    fn default() -> Self {
        let (send, answers) = mpsc::unbounded_channel();
        Self { send, answers }
    }
}

impl Capacity {
    /// The next answer. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Answer> {
        self.answers.recv().await
    }
}

impl Daemon {
    /// Takes the answers that have come, and asks if it is time to.
    pub(super) fn ask_capacity(&mut self, now: Now) {
        while let Ok(answer) = self.capacity.answers.try_recv() {
            self.placed(answer);
        }
        if !self.machine.capacity_due(now) || self.api_backoff.paused_until(now.boot).is_some() {
            return;
        }
        let Some(requests) = self.api.requests() else {
            return;
        };
        self.machine.asks_capacity(now);
        let coordinator = requests.clients.coordinator.clone();
        let (send, asked) = (self.capacity.send.clone(), now.boot);
        tokio::spawn(async move {
            let said = unplaced(&coordinator).await;
            // The loop only ends with the process.
            let _ = send.send(Answer { asked, said });
        });
    }

    /// A refusal is an answer; no answer, or one that new credentials may change, is none. It pauses nothing else: this list alone
    /// may be too much for a server.
    pub(super) fn placed(&mut self, answer: Answer) {
        let Answer { asked, said } = answer;
        if let Err(err) = &said {
            self.counters.failed(err.fault());
        }
        let now = self.now();
        match said {
            Err(err) if err.unauthorized() => {
                self.api.refused();
                self.machine.missed_capacity(asked, err.to_string());
            }
            Err(err) if err.refused() => {
                let cure = capacity_cure(self.machine.namespace());
                let why = format!("{err}; {cure}");
                self.machine.saw_capacity(asked, Err(why), now);
            }
            Err(err) => self.machine.missed_capacity(asked, err.to_string()),
            Ok(listed) => self.machine.saw_capacity(asked, Ok(listed), now),
        }
    }
}
