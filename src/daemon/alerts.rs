//! The configured Prometheus servers are asked beside the loop, each by a task of its own: one that hangs delays its own
//! answer alone (I7).

use std::time::Duration;

use kube_rebootd_core::config::Config;
use kube_rebootd_core::now::Now;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::Daemon;
use crate::alerts::Asker;
use crate::root::Root;

/// The ways to the tasks, which end with it.
pub(super) struct Alerts {
    /// By name; each takes the boot time of the question.
    servers: Vec<(String, mpsc::Sender<Duration>)>,
    answers: mpsc::UnboundedReceiver<Answer>,
}

/// What one server said.
pub(super) struct Answer {
    name: String,
    /// Boot time of the question.
    asked: Duration,
    said: Result<Option<String>, String>,
}

impl Alerts {
    pub(super) fn new(root: &Root, config: &Config) -> Self {
        let (send, answers) = mpsc::unbounded_channel();
        let sources = config.gates.prometheus.iter();
        let servers = sources.map(|source| {
            let (ask, questions) = mpsc::channel(1);
            let asker = Asker::new(root, source);
            let task = answer(source.name.clone(), asker, questions, send.clone());
            tokio::spawn(task.in_current_span());
            (source.name.clone(), ask)
        });
        Self {
            servers: servers.collect(),
            answers,
        }
    }

    /// Never waits.
    fn ask(&self, name: &str, at: Duration) {
        let server = self.servers.iter().find(|(one, _)| one == name);
        if let Some((_, ask)) = server {
            // One that still asks is asked again later.
            let _ = ask.try_send(at);
        }
    }

    /// The next answer; none: nobody is asked. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Answer> {
        self.answers.recv().await
    }
}

/// One question after the other, until nobody asks.
async fn answer(
    name: String,
    mut asker: Asker,
    mut questions: mpsc::Receiver<Duration>,
    send: mpsc::UnboundedSender<Answer>,
) {
    while let Some(asked) = questions.recv().await {
        let said = asker.look().await;
        let name = name.clone();
        if send.send(Answer { name, asked, said }).is_err() {
            return;
        }
    }
}

impl Daemon {
    pub(super) fn answered(&mut self, answer: Answer) {
        let Answer { name, asked, said } = answer;
        self.machine.saw_alerts(&name, asked, said);
    }

    /// Takes the answers that have come, and asks whom it is time to ask.
    pub(super) fn ask_alerts(&mut self, now: Now) {
        while let Ok(answer) = self.alerts.answers.try_recv() {
            self.answered(answer);
        }
        for name in self.machine.alerts_due(now) {
            self.machine.asks_alerts(&name, now);
            self.alerts.ask(&name, now.boot);
        }
    }
}
