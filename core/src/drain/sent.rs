//! Evictions on their way, and what an answer tells about the pod, its controller and the API server.

use std::time::Duration;

use crate::pod::EvictAnswer;

use super::entry::{Ask, PodRef};
use super::{Drain, SLOW};

/// An eviction on its way.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) at: Duration,
    pub(super) controller: Option<String>,
}

impl Drain {
    /// These were chosen and never sent: no answer comes for them.
    pub(crate) fn unsent(&mut self, pods: impl IntoIterator<Item = PodRef>) {
        for pod in pods {
            let sent = self.sent.remove(&pod.uid);
            if let (Some(sent), Some(entry)) = (sent, self.left.get_mut(&pod.uid)) {
                entry.ask = Ask::From(sent.at);
            }
        }
    }

    /// What came of an eviction. Of a pod that has gone meanwhile it still tells about its controller.
    pub(crate) fn answer(&mut self, uid: &str, answer: EvictAnswer, now: Duration) {
        let answered = !matches!(answer, EvictAnswer::Unanswered { .. });
        let Some(sent) = self.sent.remove(uid) else {
            return;
        };
        if !answered || now.saturating_sub(sent.at) > SLOW {
            self.clock.lost(sent.at);
        }
        if answered {
            self.heard(now);
        }
        let budget = matches!(answer, EvictAnswer::Budget(_));
        let accepted = answer == EvictAnswer::Accepted;
        let mut jitter = 0;
        if let Some(entry) = self.left.get_mut(uid) {
            entry.answered(answer, now);
            jitter = entry.jitter();
            if budget && sent.controller.is_some() {
                // What it asks for is asked at the controller's pace, not at its own.
                entry.ask = Ask::From(now);
            }
        }
        let Some(controller) = sent.controller else {
            return;
        };
        let pace = self.paces.entry(controller.clone()).or_default();
        if budget {
            let first = self.speakers.entry(controller);
            // Of those that were asked side by side one speaks, and one refusal counts.
            if *first.or_insert_with(|| uid.to_owned()) == uid {
                pace.refused(jitter, now);
            }
            return;
        }
        if accepted {
            pace.accepted(now);
        }
        if self.speakers.get(&controller).is_some_and(|it| it == uid) {
            self.speakers.remove(&controller);
        }
    }
}
