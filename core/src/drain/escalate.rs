//! `[[drain.escalate]]`: pods that an admin does not let hold a reboot up get a shorter grace period, or are deleted past
//! their PodDisruptionBudget (docs/design.md 7).
//!
//! Keeps I9: who is not selected is never hit, and nobody is deleted whom a budget has not refused for `after`; and I7: only
//! time that the API server's answers vouch for counts, as a deletion cannot be taken back.

use std::time::Duration;

use super::entry::{Ask, Entry, PodRef};
use super::judge::Judgement;
use super::sent::Sent;
use super::{Drain, earliest};
use crate::pod::{EvictAnswer, Pod};
use crate::selector::PodSelector;
use crate::text::span;

/// From one request for a pod to the next: the watch shows within a second or two what came of the last one, and a request
/// that was refused is refused again.
const AGAIN: Duration = Duration::from_secs(15);
/// An older refusal says nothing of the budget now: who is asked for is asked every 20 s at the latest, and has an answer in 15.
const FRESH: Duration = Duration::from_secs(60);

/// One `[[drain.escalate]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Escalation {
    pub name: String,
    /// Pods that one of these selects; never empty.
    pub pods: Vec<PodSelector>,
    /// Since a budget first refused the pod, or since the pod was first seen terminating.
    pub after: Duration,
    /// The grace period then, in whole seconds and at least one; none: the pod's own.
    pub grace: Option<Duration>,
    pub action: Action,
}

/// What is done about a pod that a budget refuses. One that is terminating gets the shorter grace period with both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing: it is asked as ever.
    Grace,
    /// It is deleted, which no budget keeps.
    Delete,
}

impl Escalation {
    pub(super) fn selects(&self, pod: &Pod) -> bool {
        self.pods.iter().any(|one| one.matches(pod))
    }

    /// How long a terminating pod of this grace period takes at most by this entry.
    pub(super) fn ends_within(&self, grace: Duration) -> Duration {
        let shorter = self.grace.map(|own| self.after.saturating_add(own));
        shorter.map_or(grace, |shorter| shorter.min(grace))
    }
}

/// A pod that is to be escalated now, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Escalated {
    pub pod: PodRef,
    pub how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It is terminating: evicted again, it has this grace period in place of its longer one.
    Grace(Duration),
    /// It is deleted past its budget, with this grace period or its own.
    Delete(Option<Duration>),
}

impl How {
    /// The label value of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grace(_) => "grace",
            Self::Delete(_) => "delete",
        }
    }
}

/// How far a pod is on its way to an escalation. Times are those of the drain's clock, unless said otherwise.
#[derive(Debug, Clone, Default)]
pub(super) struct Ladder {
    /// Places in the policy of those that select the pod.
    selected: Vec<usize>,
    /// Since when a budget refuses it, without another answer.
    refused: Option<Duration>,
    /// Boot time of the last time that it did.
    said_no: Duration,
    /// Since when it is known to be terminating.
    ending: Option<Duration>,
    /// Boot time before which nothing more is asked.
    from: Duration,
    /// Why it was deleted past its budget.
    deleted: Option<String>,
}

impl Ladder {
    /// The entries that select the pod as it is now: its labels may be changed so that it is left alone.
    pub(super) fn select(&mut self, pod: &Pod, policy: &[Escalation]) {
        let all = policy.iter().enumerate();
        let selected = all.filter(|(_, one)| one.selects(pod));
        self.selected = selected.map(|(place, _)| place).collect();
    }

    /// The pod is terminating, at this time of the drain.
    pub(super) fn ends(&mut self, spent: Duration) {
        self.ending.get_or_insert(spent);
    }

    /// Whether a budget refuses the pod, by an answer of just now. After a time in which nobody asked it begins anew: the budget may
    /// have let it go meanwhile.
    pub(super) fn answered(&mut self, refused: bool, spent: Duration, now: Duration) {
        let before = self.refused.filter(|_| self.fresh(now));
        self.refused = refused.then(|| before.unwrap_or(spent));
        if refused {
            self.said_no = now;
        }
    }

    fn fresh(&self, now: Duration) -> bool {
        now.saturating_sub(self.said_no) <= FRESH
    }

    /// Why the pod was deleted past its budget; none: it was not.
    pub(super) fn deleted(&self) -> Option<&str> {
        self.deleted.as_deref()
    }
}

/// What may be done about a pod, and from which time of the drain on.
struct Rung<'a> {
    due: Duration,
    how: How,
    by: &'a Escalation,
}

impl Entry {
    fn rungs<'a>(&self, policy: &'a [Escalation], now: Duration) -> Vec<Rung<'a>> {
        let (refused, ending) = (self.ladder.refused, self.ladder.ending);
        let selected = self.ladder.selected.iter();
        let selected = selected.filter_map(|place| policy.get(*place));
        let rung = |by: &'a Escalation| {
            let (since, how) = match (self.judgement, by.action, by.grace) {
                (Judgement::Evict, Action::Delete, grace)
                    if self.budget_blocked() && self.ladder.fresh(now) =>
                {
                    (refused?, How::Delete(grace))
                }
                // One that has finished only waits for the kubelet, or for a finalizer.
                (Judgement::Wait, _, Some(grace))
                    if grace < self.grace && self.finished.is_none() =>
                {
                    (ending?, How::Grace(grace))
                }
                _ => return None,
            };
            let due = since.saturating_add(by.after);
            Some(Rung { due, how, by })
        };
        selected.filter_map(rung).collect()
    }

    /// What is due at this time of the drain: of two grace periods the shorter one.
    fn due<'a>(
        &self,
        policy: &'a [Escalation],
        spent: Duration,
        now: Duration,
    ) -> Option<Rung<'a>> {
        let rungs = self.rungs(policy, now).into_iter();
        let due = rungs.filter(|rung| rung.due <= spent);
        due.min_by_key(|rung| match rung.how {
            How::Grace(grace) => grace,
            How::Delete(grace) => grace.unwrap_or(Duration::MAX),
        })
    }

    fn escalation_words(&self, rung: &Rung<'_>, rounds: u32) -> String {
        let (after, name) = (span(rung.by.after), &rung.by.name);
        match rung.how {
            How::Grace(grace) => format!(
                "has been terminating for {after} and gets {} to end in place of {} (drain.escalate {name:?})",
                span(grace),
                span(self.grace)
            ),
            How::Delete(_) => {
                let blocker = self.blocker(rounds);
                let budget = blocker.and_then(|one| one.budget).map_or_else(
                    || "its budgets, which have".to_owned(),
                    |budget| format!("budget {budget}, which has"),
                );
                format!(
                    "is deleted past {budget} refused its eviction for {after} (drain.escalate {name:?})"
                )
            }
        }
    }
}

impl Drain {
    /// The pods that are to be escalated now: they count as asked from here on.
    pub(super) fn escalate(&mut self, now: Duration) -> Vec<Escalated> {
        let vouched = self.clock.spent();
        let room = (self.policy.parallelism.max(1)).saturating_sub(self.sent.len());
        let sent = &mut self.sent;
        let mut chosen = Vec::new();
        for (uid, entry) in &mut self.left {
            if chosen.len() == room || sent.contains_key(uid) || entry.ladder.from > now {
                continue;
            }
            // What a pod was given comes first.
            if entry.own_end(now).is_some() {
                continue;
            }
            let Some(rung) = entry.due(&self.policy.escalate, vouched, now) else {
                continue;
            };
            let (words, how) = (entry.escalation_words(&rung, super::ROUNDS), rung.how);
            self.said.push(format!("pod {} {words}", entry.pod.path()));
            entry.ladder.from = now.saturating_add(AGAIN);
            if matches!(how, How::Delete(_)) {
                entry.ask = Ask::Asked;
            }
            sent.insert(uid.clone(), Sent::escalation(now, how, words));
            let pod = entry.pod.clone();
            chosen.push(Escalated { pod, how });
        }
        chosen
    }

    /// What came of the escalation of `uid`.
    pub(super) fn escalated(
        &mut self,
        uid: &str,
        (how, words): (How, String),
        answer: &EvictAnswer,
        now: Duration,
    ) {
        let Some(entry) = self.left.get_mut(uid) else {
            return;
        };
        match (how, answer) {
            (How::Grace(grace), EvictAnswer::Accepted) => {
                // The kubelet begins anew with it (`pod_workers.go`, `gracePeriod`).
                entry.grace = grace;
                entry.restarts_its_end(now);
            }
            (How::Delete(_), EvictAnswer::Accepted) => {
                let was = words.replacen("is deleted", "was deleted", 1);
                entry.ladder.deleted = Some(was);
            }
            // It has gone, is another, or goes with its namespace: the next view says so.
            (_, EvictAnswer::LookAgain | EvictAnswer::NamespaceTerminating) => {}
            (
                _,
                EvictAnswer::Budget(why)
                | EvictAnswer::TwoBudgets(why)
                | EvictAnswer::Refused(why)
                | EvictAnswer::Unauthorized(why)
                | EvictAnswer::Busy { why, .. },
            ) => {
                let path = entry.pod.path();
                let deed = match how {
                    How::Grace(_) => "its grace period was not shortened",
                    How::Delete(_) => "it was not deleted",
                };
                self.said.push(format!("pod {path}: {deed}: {why}"));
            }
            // The request may have been carried out, and only its answer be lost.
            (_, EvictAnswer::Unanswered { why, .. }) => {
                let path = entry.pod.path();
                let deed = match how {
                    How::Grace(_) => "its grace period was shortened",
                    How::Delete(_) => "it was deleted",
                };
                self.said.push(format!(
                    "pod {path}: whether {deed} is not known, as there was no answer: {why}"
                ));
            }
        }
    }

    /// When the next one is due if nothing changes, and whether one is due if the API server was there until now.
    pub(super) fn escalates(&self, now: Duration) -> (Option<Duration>, bool) {
        let spent = self.clock.spent();
        let reading = spent.saturating_add(self.clock.unvouched(now));
        let (mut wake, mut confirm) = (None, false);
        for (uid, entry) in &self.left {
            if self.sent.contains_key(uid) {
                continue;
            }
            for rung in entry.rungs(&self.policy.escalate, now) {
                let due = now.saturating_add(rung.due.saturating_sub(reading));
                let own = entry.own_end(now).unwrap_or_default();
                let from = due.max(entry.ladder.from).max(own);
                if from > now {
                    wake = earliest(wake, Some(from));
                } else {
                    confirm |= rung.due > spent;
                }
            }
        }
        (wake, confirm)
    }

    /// Warnings for the journal, each once.
    pub(crate) fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }
}
