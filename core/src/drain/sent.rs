//! Evictions on their way, and what an answer tells about the pod, its controller and the API server.

use std::time::Duration;

use crate::pod::EvictAnswer;

use super::entry::{Ask, PodRef};
use super::escalate::How;
use super::{Drain, SLOW};

/// An eviction, or an escalation, on its way.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) at: Duration,
    /// Whose pace the answer tells; none: nobody's, as no budget was asked.
    pub(super) controller: Option<String>,
    /// It is an escalation: how, and why in words.
    pub(super) escalates: Option<(How, String)>,
}

/// What has become of a pod by an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Went {
    /// It was evicted.
    Evicted,
    /// It was deleted past its budget.
    Deleted,
}

impl Sent {
    pub(super) fn escalation(at: Duration, how: How, words: String) -> Self {
        Self {
            at,
            controller: None,
            escalates: Some((how, words)),
        }
    }
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
    pub(crate) fn answer(&mut self, uid: &str, answer: EvictAnswer, now: Duration) -> Option<Went> {
        let answered = !matches!(answer, EvictAnswer::Unanswered { .. });
        let accepted = answer == EvictAnswer::Accepted;
        let Some(sent) = self.sent.remove(uid) else {
            return accepted.then_some(Went::Evicted);
        };
        if !answered || now.saturating_sub(sent.at) > SLOW {
            self.clock.lost(sent.at);
        }
        if answered {
            self.heard(now);
        }
        let budget = matches!(answer, EvictAnswer::Budget(_));
        let went = accepted.then_some(match &sent.escalates {
            // It was on its way already.
            Some((How::Grace(_), _)) => None,
            Some((How::Delete(_), _)) => Some(Went::Deleted),
            None => Some(Went::Evicted),
        });
        let went = went.flatten();
        if let Some(escalated) = sent.escalates {
            self.escalated(uid, escalated, &answer, now);
        }
        let vouched = self.clock.spent();
        let mut jitter = 0;
        if let Some(entry) = self.left.get_mut(uid) {
            let refused = matches!(answer, EvictAnswer::Budget(_) | EvictAnswer::TwoBudgets(_));
            entry.answered(answer, now);
            // Busy, 401 and no answer say nothing of the budget: they neither begin nor keep its time.
            if refused || !entry.budget_blocked() {
                entry.ladder.answered(refused, vouched, now);
            }
            jitter = entry.jitter();
            if budget && sent.controller.is_some() {
                // What it asks for is asked at the controller's pace, not at its own.
                entry.ask = Ask::From(now);
            }
        }
        let Some(controller) = sent.controller else {
            return went;
        };
        let pace = self.paces.entry(controller.clone()).or_default();
        if budget {
            let first = self.speakers.entry(controller);
            // Of those that were asked side by side one speaks, and one refusal counts.
            if *first.or_insert_with(|| uid.to_owned()) == uid {
                pace.refused(jitter, now);
            }
            return went;
        }
        if accepted {
            pace.accepted(now);
        }
        if self.speakers.get(&controller).is_some_and(|it| it == uid) {
            self.speakers.remove(&controller);
        }
        went
    }
}
