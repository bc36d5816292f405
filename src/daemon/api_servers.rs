//! The other API servers are asked beside the loop whether they are ready: one that hangs keeps nothing waiting (I7).

use std::time::Duration;

use kube_rebootd_core::now::Now;
use tokio::sync::mpsc;

use super::Daemon;
use crate::cluster::readyz::unready;

/// What they said.
pub(super) struct Answer {
    /// Boot time of the question.
    asked: Duration,
    unready: Option<String>,
}

/// Answers on their way to the loop.
pub(super) struct ApiServers {
    send: mpsc::UnboundedSender<Answer>,
    answers: mpsc::UnboundedReceiver<Answer>,
}

impl Default for ApiServers {
    fn default() -> Self {
        let (send, answers) = mpsc::unbounded_channel();
        Self { send, answers }
    }
}

impl ApiServers {
    /// The next answer. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Answer> {
        self.answers.recv().await
    }
}

impl Daemon {
    /// Takes the answers that have come, and asks if it is time to. Without clients nobody can be asked, and nothing is known (I8).
    pub(super) fn ask_api_servers(&mut self, now: Now) {
        while let Ok(answer) = self.api_servers.answers.try_recv() {
            self.ready(answer);
        }
        if !self.machine.api_servers_due(now) {
            return;
        }
        let Some(requests) = self.api.requests() else {
            return;
        };
        self.machine.asks_api_servers(now);
        let servers = requests.clients.api_servers.clone();
        let (send, asked) = (self.api_servers.send.clone(), now.boot);
        tokio::spawn(async move {
            let unready = unready(&servers).await;
            // The loop only ends with the process.
            let _ = send.send(Answer { asked, unready });
        });
    }

    pub(super) fn ready(&mut self, answer: Answer) {
        let Answer { asked, unready } = answer;
        self.machine.saw_api_servers(asked, unready);
    }
}
