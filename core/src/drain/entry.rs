//! One pod that must leave: what was asked of it, and what was answered (I9, docs/design.md 7).

use std::time::Duration;

use crate::backoff::doubled;
use crate::names;
use crate::pod::{EvictAnswer, Pod};
use crate::scatter::scatter;
use crate::text::{self, WORDS, span};

use super::escalate::Ladder;
use super::judge::{Block, Finish, Judgement};

/// Priority from which a pod is system-critical (system-cluster-critical, scheduling/types.go).
pub(super) const CRITICAL: i32 = 2_000_000_000;
/// First retry after most refusals; doubles.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// Longest retry after a budget: a freed budget should be noticed soon.
const RETRY_LAST: Duration = Duration::from_secs(15);
/// So long a pod that has finished is waited for when only a finalizer keeps its object: whoever set the finalizer
/// gets the time to look at the pod, and a forgotten one does not stop the reboot.
const FINALIZER: Duration = Duration::from_secs(30);
/// So long after its grace a terminating pod is named as what holds the drain up: killing a container and
/// unmounting a volume take a few seconds.
const OVERDUE: Duration = Duration::from_secs(30);
/// Longest retry of what only the next view or the namespace's own deletion settles.
const RETRY_LOOK: Duration = Duration::from_secs(5);

/// A pod by what an eviction needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl PodRef {
    pub fn of(pod: &Pod) -> Self {
        Self {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        }
    }

    /// `namespace/name`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A pod that stops the drain, and why in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    pub pod: PodRef,
    pub why: String,
    /// `namespace/name` of the PodDisruptionBudget, when the answer named one.
    pub budget: Option<String>,
}

/// Whether the pod may be asked to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// From this boot time on.
    From(Duration),
    /// Sent, no answer yet.
    Asked,
    /// It will go; never asked again.
    Accepted,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) pod: PodRef,
    pub(super) controller: Option<String>,
    pub(super) critical: bool,
    /// Of `drain.order`.
    pub(super) tier: usize,
    pub(super) round: u32,
    pub(super) ask: Ask,
    pub(super) judgement: Judgement,
    /// `namespace/name` of the Job it belongs to.
    job: Option<String>,
    /// Since when it is known to be terminating, on the own clock: deletionTimestamp is of another's.
    terminating: Option<Duration>,
    pub(super) grace: Duration,
    /// Since when it is known to have finished as well.
    pub(super) finished: Option<Duration>,
    finalizers: Vec<String>,
    tries: u32,
    /// The last refusal; cleared by another kind of answer.
    refusal: Option<Refusal>,
    pub(super) ladder: Ladder,
    /// How long its eviction may take, where the configuration lets that count.
    pub(super) patience: Option<Duration>,
    /// When it was first asked to leave.
    pub(super) asked: Option<Duration>,
}

#[derive(Debug, Clone)]
enum Refusal {
    Budget(String),
    TwoBudgets(String),
    Other(String),
}

impl Entry {
    pub(super) fn new(pod: &Pod, judgement: Judgement, round: u32, now: Duration) -> Self {
        let mut entry = Self {
            pod: PodRef::of(pod),
            controller: pod.controller.as_ref().map(|owner| owner.uid.clone()),
            critical: pod.priority >= CRITICAL,
            tier: 0,
            round,
            ask: Ask::From(now),
            judgement,
            job: pod
                .job()
                .map(|job| format!("{}/{}", pod.namespace, job.name)),
            terminating: None,
            grace: Duration::ZERO,
            finished: None,
            finalizers: Vec::new(),
            tries: 0,
            refusal: None,
            ladder: Ladder::default(),
            patience: None,
            asked: None,
        };
        entry.seen(pod, judgement, now);
        entry
    }

    /// A view shows it again.
    pub(super) fn seen(&mut self, pod: &Pod, judgement: Judgement, now: Duration) {
        self.judgement = judgement;
        if pod.terminating {
            self.terminating.get_or_insert(now);
            self.grace = Duration::from_secs(pod.grace_seconds);
            self.refusal = None;
        }
        if pod.cleaning_up() {
            self.finished.get_or_insert(now);
        }
        self.finalizers.clone_from(&pod.finalizers);
    }

    /// It has finished, and a finalizer keeps the object: which, in words.
    pub(super) fn held(&self) -> Option<Blocker> {
        self.finished.filter(|_| !self.finalizers.is_empty())?;
        Some(Blocker {
            pod: self.pod.clone(),
            why: text::clean(&self.finalizers.join(", "), WORDS),
            budget: None,
        })
    }

    /// Until when one that is held by a finalizer is waited for. The kubelet that has cleaned up says so by
    /// deleting with a grace of 0, which the object then shows.
    pub(super) fn held_until(&self) -> Option<Duration> {
        self.held()?;
        let stopped = self.terminating?.saturating_add(self.grace);
        Some(stopped.max(self.finished?).saturating_add(FINALIZER))
    }

    pub(super) fn may_be_asked(&self) -> bool {
        self.judgement == Judgement::Evict && self.ask != Ask::Accepted
    }

    /// It takes the time it takes.
    pub(super) fn may_finish(&self) -> bool {
        matches!(self.judgement, Judgement::Finish(_))
    }

    /// A pod that may finish, and why.
    pub(super) fn unhurried(&self) -> Option<Blocker> {
        let Judgement::Finish(finish) = self.judgement else {
            return None;
        };
        let why = match (finish, &self.job) {
            (Finish::Job, Some(job)) => format!("of Job {job} has not finished"),
            (Finish::Job | Finish::Label, _) => finish.words().to_owned(),
        };
        Some(Blocker {
            pod: self.pod.clone(),
            why,
            budget: None,
        })
    }

    pub(super) fn budget_blocked(&self) -> bool {
        self.judgement == Judgement::Evict
            && matches!(
                self.refusal,
                Some(Refusal::Budget(_) | Refusal::TwoBudgets(_))
            )
    }

    /// When the time of its own ends, if it is terminating and that is still ahead: its grace, or that of a
    /// finalizer.
    pub(super) fn grace_end(&self, now: Duration) -> Option<Duration> {
        let grace = self.terminating?.saturating_add(self.grace);
        let end = self.held_until().unwrap_or(grace);
        (end > now).then_some(end)
    }

    /// Terminating, and still within the grace that it asked for; a finalizer is named elsewhere.
    pub(super) fn in_grace(&self, now: Duration) -> Option<Blocker> {
        let waits = self.grace_end(now).is_some() && self.held().is_none();
        waits.then(|| Blocker {
            pod: self.pod.clone(),
            why: format!("may take {} to end (its grace period)", span(self.grace)),
            budget: None,
        })
    }

    /// When the time that it was given ends, from the first eviction on, if that is still ahead.
    pub(super) fn own_end(&self, now: Duration) -> Option<Duration> {
        let since = self.asked.or(self.terminating)?;
        let end = since.saturating_add(self.patience?);
        (end > now).then_some(end)
    }

    /// Its eviction may take so long, and still does.
    pub(super) fn in_own_time(&self, now: Duration) -> Option<Blocker> {
        self.own_end(now)?;
        let time = span(self.patience?);
        Some(Blocker {
            pod: self.pod.clone(),
            why: format!(
                "may take {time} to leave (annotation {})",
                names::DRAIN_TIMEOUT
            ),
            budget: None,
        })
    }

    /// It has its whole grace period again from `now` on.
    pub(super) fn restarts_its_end(&mut self, now: Duration) {
        self.terminating = Some(now);
    }

    /// It was deleted past its budget, and still ends.
    pub(super) fn deleted(&self) -> Option<Blocker> {
        let why = self.ladder.deleted()?.to_owned();
        Some(Blocker {
            pod: self.pod.clone(),
            why,
            budget: None,
        })
    }

    /// Terminating for longer than it may take.
    pub(super) fn overdue(&self, now: Duration) -> Option<Blocker> {
        let end = self.terminating?.saturating_add(self.grace);
        let late = self.held_until().is_none() && now >= end.saturating_add(OVERDUE);
        late.then(|| self.unfinished())
    }

    pub(super) fn answered(&mut self, answer: EvictAnswer, now: Duration) {
        let (refusal, wait) = match answer {
            EvictAnswer::Accepted => {
                self.ask = Ask::Accepted;
                self.refusal = None;
                return;
            }
            EvictAnswer::Budget(message) => {
                (Some(Refusal::Budget(message)), self.backoff(RETRY_LAST))
            }
            EvictAnswer::Busy { retry_after, .. } | EvictAnswer::Unanswered { retry_after, .. } => {
                let backoff = self.backoff(RETRY_LAST);
                let wait =
                    retry_after.map_or(backoff, |least| self.spread(Duration::from_secs(least)));
                (self.refusal.take(), wait)
            }
            EvictAnswer::Unauthorized(_) => (self.refusal.take(), self.backoff(RETRY_LAST)),
            // NodeRestriction's cache knows a pod that has just come within milliseconds.
            EvictAnswer::LookAgain => (None, self.backoff(RETRY_LOOK)),
            EvictAnswer::NamespaceTerminating => (None, self.spread(RETRY_LOOK)),
            // An admin can mend both while we wait.
            EvictAnswer::TwoBudgets(message) => {
                (Some(Refusal::TwoBudgets(message)), self.spread(RETRY_LAST))
            }
            EvictAnswer::Refused(message) => {
                (Some(Refusal::Other(message)), self.spread(RETRY_LAST))
            }
        };
        self.refusal = refusal;
        if self.ask != Ask::Accepted {
            self.ask = Ask::From(now.saturating_add(wait));
        }
    }

    fn backoff(&mut self, most: Duration) -> Duration {
        let wait = doubled(RETRY_FIRST, self.tries, most);
        self.tries = self.tries.saturating_add(1);
        self.spread(wait)
    }

    /// At least `wait` and up to a quarter more.
    fn spread(&self, wait: Duration) -> Duration {
        wait.saturating_add(wait * self.jitter() / 4000)
    }

    /// From 0 to 1000, the same for the same pod and try.
    pub(super) fn jitter(&self) -> u32 {
        let hash = scatter(&[&self.pod.uid, &self.tries.to_string()]);
        u32::try_from(hash % 1001).unwrap_or(0)
    }

    pub(super) fn blocker(&self, rounds: u32) -> Option<Blocker> {
        let (why, budget) = match (&self.judgement, &self.refusal) {
            (Judgement::Block(why), _) => (Block::words(*why).to_owned(), None),
            (Judgement::Evict, _) if self.round > rounds && self.ask != Ask::Accepted => (
                format!("comes back: its controller put pods here {rounds} times after the cordon"),
                None,
            ),
            (Judgement::Evict, Some(Refusal::Budget(message))) => {
                (message.clone(), budget(&self.pod.namespace, message))
            }
            (Judgement::Evict, Some(Refusal::TwoBudgets(message) | Refusal::Other(message))) => {
                (message.clone(), None)
            }
            _ => return None,
        };
        Some(Blocker {
            pod: self.pod.clone(),
            why,
            budget,
        })
    }

    /// Left at the end without a refusal.
    pub(super) fn unfinished(&self) -> Blocker {
        if let Some(waited_for) = self.unhurried() {
            return waited_for;
        }
        let why = if self.finished.is_some() {
            "has finished, but the kubelet has not removed it; are its volumes unmounted?"
        } else if self.terminating.is_some() || self.ask == Ask::Accepted {
            "is still terminating"
        } else {
            "was not evicted in time"
        };
        Blocker {
            pod: self.pod.clone(),
            why: why.to_owned(),
            budget: None,
        }
    }
}

/// From "The disruption budget web needs 5 healthy pods ..." (eviction.go).
pub(super) fn budget(namespace: &str, message: &str) -> Option<String> {
    let (_, tail) = message.split_once("disruption budget ")?;
    let name = tail.split_whitespace().next()?;
    Some(format!("{namespace}/{name}"))
}
