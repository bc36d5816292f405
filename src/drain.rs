//! One drain as data: which pods are left, which to evict next, whether it is over (DESIGN.md 7).
//!
//! Keeps I9 (eviction only, by UID, one per accepted answer), I8 (nothing is over before a first whole
//! view, nor while the API server is silent) and I6 (time spent goes on over a restart).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::pod::{EvictAnswer, Pod};

mod entry;
pub mod judge;
mod pace;
mod policy;
#[cfg(test)]
mod tests;
mod words;

pub use entry::{Blocker, PodRef};
pub use judge::{Judgement, judge};
pub use policy::{EmptyDir, Mode, OnTimeout, Policy, Unmanaged};
pub use words::describe;

use entry::{Ask, Entry};
use pace::Pace;

/// A tier left with only budget-blocked pods for this long opens the next: a storage engine's pod may
/// be released only when its consumers are gone.
const TIER_WAIT: Duration = Duration::from_secs(30);
/// A replacement that ignores the cordon is evicted this often per controller: fewer would mistake a
/// race of scheduler and cordon for a toleration, more would only churn.
const ROUNDS: u32 = 5;

/// Progress of one drain, in memory; every `now` is on the boot clock.
#[derive(Debug, Clone)]
pub struct Drain {
    policy: Policy,
    /// Pods that must leave, by UID.
    left: BTreeMap<String, Entry>,
    held: Vec<PodRef>,
    /// By controller: when its next pod may be tried, if a budget limits them.
    paces: BTreeMap<String, Pace>,
    /// Controllers that a budget limits, and the pod that asks for all of them.
    speakers: BTreeMap<String, String>,
    /// Controller -> the round its next pod belongs to.
    rounds: BTreeMap<String, u32>,
    synced: bool,
    silent: bool,
    spent: Duration,
    /// Since a pod left, the API server not silent.
    still: Duration,
    ticked: Option<Duration>,
    stuck_since: Option<Duration>,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// To be evicted now, each to be answered by [`Drain::answer`].
    pub evict: Vec<PodRef>,
    pub state: State,
    /// Terminating and finished: only a finalizer keeps the object.
    pub held_by_finalizer: Vec<PodRef>,
    /// Boot time to ask again at, if no view or answer comes first.
    pub wake: Option<Duration>,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Going {
        left: usize,
        blocked: Vec<Blocker>,
    },
    /// Over; `leftover` only with `on_timeout = "reboot"`.
    Drained {
        leftover: Vec<Blocker>,
    },
    Failed {
        why: String,
        blocked: Vec<Blocker>,
    },
}

impl Drain {
    /// `spent`: what this drain took before a restart of the daemon.
    pub fn new(policy: Policy, spent: Duration) -> Self {
        Self {
            policy,
            left: BTreeMap::new(),
            held: Vec::new(),
            paces: BTreeMap::new(),
            speakers: BTreeMap::new(),
            rounds: BTreeMap::new(),
            synced: false,
            silent: false,
            spent,
            still: Duration::ZERO,
            ticked: None,
            stuck_since: None,
        }
    }

    /// Time taken so far without the time the API server was silent, up to the last call with a `now`.
    pub fn spent(&self) -> Duration {
        self.spent
    }

    /// It ended with pods left behind, as `on_timeout = "reboot"` wants.
    pub fn gave_up(&self) -> bool {
        self.policy.on_timeout == OnTimeout::Reboot && self.expired() && !self.left.is_empty()
    }

    /// The API server is silent, or answers again.
    pub fn silent(&mut self, silent: bool, now: Duration) {
        self.tick(now);
        self.silent = silent;
    }

    /// The whole view of this node's pods, from a watch that has synced.
    pub fn pods(&mut self, pods: &[Pod], now: Duration) {
        self.tick(now);
        self.synced = true;
        self.held.clear();
        let mut before = std::mem::take(&mut self.left);
        let mut arrived = Vec::new();
        for pod in pods {
            let judgement = judge(pod, &self.policy);
            if matches!(judgement, Judgement::Leave(_)) {
                if pod.terminating && judgement == Judgement::Leave(judge::Leave::Finished) {
                    self.held.push(PodRef::of(pod));
                }
            } else if let Some(mut entry) = before.remove(&pod.uid) {
                entry.seen(pod, judgement, now);
                if pod.terminating {
                    // A replacement is made as soon as this is seen, often before our own answer.
                    self.round_over(entry.controller.as_deref(), entry.round);
                }
                self.left.insert(pod.uid.clone(), entry);
            } else {
                arrived.push((pod, judgement));
            }
        }
        for entry in before.values() {
            self.still = Duration::ZERO;
            self.round_over(entry.controller.as_deref(), entry.round);
        }
        for (pod, judgement) in arrived {
            let controller = pod.controller.as_ref().map(|owner| &owner.uid);
            let round = controller.and_then(|uid| self.rounds.get(uid)).copied();
            let entry = Entry::new(pod, judgement, round.unwrap_or(0), now);
            self.left.insert(pod.uid.clone(), entry);
        }
        let left = &self.left;
        self.speakers
            .retain(|_, uid| left.get(uid).is_some_and(Entry::may_be_asked));
    }

    /// What came of an eviction; of a pod that has gone meanwhile it is ignored.
    pub fn answer(&mut self, uid: &str, answer: EvictAnswer, now: Duration) {
        self.tick(now);
        let Some(entry) = self.left.get_mut(uid) else {
            return;
        };
        let budget = matches!(answer, EvictAnswer::Budget(_));
        let accepted = answer == EvictAnswer::Accepted;
        entry.answered(answer, now);
        let Some(controller) = entry.controller.clone() else {
            return;
        };
        let pace = self.paces.entry(controller.clone()).or_default();
        if budget {
            // What it asks for is asked at the controller's pace, not at its own.
            entry.ask = Ask::From(now);
            let first = self.speakers.entry(controller);
            // Of those that were asked side by side one speaks, and one refusal counts.
            if *first.or_insert_with(|| uid.to_owned()) == uid {
                pace.refused(entry.jitter(), now);
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

    /// Decides. The pods in `evict` count as asked from here on.
    pub fn next(&mut self, now: Duration) -> Next {
        self.tick(now);
        let critical = self.critical_open(now);
        let over = self.over(now);
        let going = over.is_none() && self.synced && !self.silent;
        let (evict, mut wake) = if going {
            self.choose(critical, now)
        } else {
            (Vec::new(), None)
        };
        if going && !self.left.is_empty() {
            wake = earliest(wake, self.deadline(now));
            if !critical {
                wake = earliest(wake, self.stuck_since.map(|since| since + TIER_WAIT));
            }
        } else if over == Some(Over::Grace) {
            wake = self.left.values().filter_map(|e| e.grace_end(now)).min();
        }
        let state = match over {
            Some(Over::Drained) => State::Drained {
                leftover: self.leftover(),
            },
            Some(Over::Failed) => State::Failed {
                why: self.why(),
                blocked: self.leftover(),
            },
            Some(Over::Grace) | None => State::Going {
                left: self.left.len(),
                blocked: self.blocked(),
            },
        };
        Next {
            evict,
            state,
            held_by_finalizer: self.held.clone(),
            wake,
        }
    }

    fn tick(&mut self, now: Duration) {
        if let Some(before) = self.ticked
            && !self.silent
        {
            let passed = now.saturating_sub(before);
            self.spent += passed;
            self.still += passed;
        }
        self.ticked = Some(now);
    }

    fn round_over(&mut self, controller: Option<&str>, round: u32) {
        if let Some(controller) = controller {
            let next = self.rounds.entry(controller.to_owned()).or_default();
            *next = (*next).max(round.saturating_add(1));
        }
    }

    /// Whether system-critical pods may be evicted yet.
    fn critical_open(&mut self, now: Duration) -> bool {
        let mut ordinary = self.left.values().filter(|entry| !entry.critical);
        let Some(first) = ordinary.next() else {
            self.stuck_since = None;
            return true;
        };
        if !std::iter::once(first)
            .chain(ordinary)
            .all(|entry| entry.budget_blocked() || self.waits_for_sibling(entry))
        {
            self.stuck_since = None;
            return false;
        }
        let since = *self.stuck_since.get_or_insert(now);
        now.saturating_sub(since) >= TIER_WAIT
    }

    /// A sibling asks the budget for it.
    fn waits_for_sibling(&self, entry: &Entry) -> bool {
        let speaker = entry
            .controller
            .as_ref()
            .and_then(|uid| self.speakers.get(uid));
        entry.may_be_asked()
            && speaker.is_some_and(|uid| {
                *uid != entry.pod.uid && self.left.get(uid).is_some_and(Entry::budget_blocked)
            })
    }

    /// Marks as many as may be asked now; the wake-up is that of the next retry.
    fn choose(&mut self, critical: bool, now: Duration) -> (Vec<PodRef>, Option<Duration>) {
        let asked = self.left.values().filter(|entry| entry.ask == Ask::Asked);
        let mut room = self.policy.parallelism.max(1).saturating_sub(asked.count());
        let (mut evict, mut wake) = (Vec::new(), None);
        // Ordinary pods have the room first when both tiers are open.
        for tier in [false, true].into_iter().take(1 + usize::from(critical)) {
            for (uid, entry) in &mut self.left {
                if entry.critical != tier || !entry.may_be_asked() || entry.round > ROUNDS {
                    continue;
                }
                let Ask::From(mut from) = entry.ask else {
                    continue;
                };
                let limited = entry.controller.as_ref().and_then(|controller| {
                    let pace = self.paces.get(controller).filter(|pace| pace.limited());
                    Some((controller, pace?.from()))
                });
                if let Some((controller, next)) = limited {
                    if self.speakers.get(controller).is_some_and(|it| it != uid) {
                        continue;
                    }
                    from = from.max(next);
                }
                if from > now {
                    wake = earliest(wake, Some(from));
                } else if room > 0 {
                    room -= 1;
                    entry.ask = Ask::Asked;
                    if let Some((controller, _)) = limited {
                        self.speakers.insert(controller.clone(), uid.clone());
                    }
                    evict.push(entry.pod.clone());
                }
            }
        }
        (evict, wake)
    }

    /// When `timeout` or `stall` ends, if nothing changes.
    fn deadline(&self, now: Duration) -> Option<Duration> {
        let timeout = self.policy.timeout.saturating_sub(self.spent);
        let stall = self.policy.stall.saturating_sub(self.still);
        let grace = self.left.values().filter_map(|e| e.grace_end(now)).min();
        earliest(Some(now + timeout.min(stall)), grace)
    }

    fn expired(&self) -> bool {
        self.spent >= self.policy.timeout || self.still >= self.policy.stall
    }

    fn over(&self, now: Duration) -> Option<Over> {
        if !self.synced || self.silent {
            return None;
        }
        if self.left.is_empty() {
            return Some(Over::Drained);
        }
        if !self.expired() {
            return None;
        }
        let in_grace = |entry: &Entry| entry.grace_end(now).is_some();
        match self.policy.on_timeout {
            OnTimeout::Abort if self.left.values().all(in_grace) => Some(Over::Grace),
            OnTimeout::Abort => Some(Over::Failed),
            OnTimeout::Reboot if self.left.values().any(in_grace) => Some(Over::Grace),
            OnTimeout::Reboot => Some(Over::Drained),
        }
    }

    fn why(&self) -> String {
        let left = self.left.len();
        if self.spent >= self.policy.timeout {
            format!(
                "{left} pods left after drain.timeout of {:?}",
                self.policy.timeout
            )
        } else {
            format!(
                "no pod left for drain.stall of {:?}, {left} remain",
                self.policy.stall
            )
        }
    }

    fn blocked(&self) -> Vec<Blocker> {
        self.left
            .values()
            .filter_map(|e| e.blocker(ROUNDS))
            .collect()
    }

    /// Every pod left, with the best reason known.
    fn leftover(&self) -> Vec<Blocker> {
        let entries = self.left.values();
        entries
            .map(|entry| entry.blocker(ROUNDS).unwrap_or_else(|| entry.unfinished()))
            .collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Drained,
    Failed,
    /// Expired, but pods are still within their own grace.
    Grace,
}

fn earliest(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

/// Pods that would stop a drain whatever the API server answers: known before the cordon, they close a
/// gate instead.
pub fn seen_before_cordon(pods: &[Pod], policy: &Policy) -> Vec<Blocker> {
    let mut seen = BTreeSet::new();
    pods.iter()
        .filter(|pod| seen.insert(&pod.uid))
        .filter_map(|pod| match judge(pod, policy) {
            Judgement::Block(why) => Some(Blocker {
                pod: PodRef::of(pod),
                why: why.words().to_owned(),
                budget: None,
            }),
            _ => None,
        })
        .collect()
}
