//! One drain as data: which pods are left, which to evict next, whether it is over (DESIGN.md 7).
//!
//! Keeps I9 (eviction only, by UID, one per accepted answer), I8 (nothing is over before a first whole
//! view, nor while the API server is silent) and I6 (time spent goes on over a restart).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::pod::{EvictAnswer, Pod};

mod clock;
mod entry;
pub mod judge;
mod policy;
#[cfg(test)]
mod tests;
mod tiers;
mod volumes;
mod words;

pub use entry::{Blocker, PodRef};
pub use judge::{Judgement, judge};
pub use policy::{EmptyDir, Jobs, Mode, OnTimeout, Policy, Unmanaged};
pub use words::describe;

use clock::Clock;
use entry::{Ask, Entry};
use tiers::TIER_WAIT;
use volumes::Volumes;

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
    /// Controllers a budget answered for, and the pod that asks for all of them.
    speakers: BTreeMap<String, Option<String>>,
    /// Controller -> the round its next pod belongs to.
    rounds: BTreeMap<String, u32>,
    synced: bool,
    /// The pods cannot be watched: what was seen of them may be old.
    blind: bool,
    clock: Clock,
    volumes: Volumes,
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
    /// A clock has run out if the API server was there until now: any answer of it says so.
    pub confirm: bool,
    /// Boot time to ask again at, if no view or answer comes first.
    pub wake: Option<Duration>,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Going {
        left: usize,
        blocked: Vec<Blocker>,
        /// Pods of Jobs that may finish.
        jobs: Vec<Blocker>,
    },
    /// No pod is left, but volumes that pods used are not unmounted yet.
    Unmounting {
        volumes: Vec<String>,
        /// So many of them belong to pods that stay.
        stay: usize,
    },
    /// Over; `leftover` only with `on_timeout = "reboot"`, `volumes` only past `volumes_timeout`.
    Drained {
        leftover: Vec<Blocker>,
        volumes: Vec<String>,
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
            speakers: BTreeMap::new(),
            rounds: BTreeMap::new(),
            synced: false,
            blind: false,
            clock: Clock::new(spent),
            volumes: Volumes::default(),
            stuck_since: None,
        }
    }

    /// One that an earlier process began: what its pods used is not known.
    pub fn resumed(policy: Policy, spent: Duration) -> Self {
        let mut drain = Self::new(policy, spent);
        drain.volumes.unknown();
        drain
    }

    /// Time taken so far without the time the API server was silent, up to its last answer.
    pub fn spent(&self) -> Duration {
        self.clock.spent()
    }

    /// It ended with pods left behind, as `on_timeout = "reboot"` wants.
    pub fn gave_up(&self) -> bool {
        self.policy.on_timeout == OnTimeout::Reboot && self.expired() && !self.left.is_empty()
    }

    /// The API server answered something, whatever it was, at `at`.
    pub fn heard(&mut self, at: Duration) {
        self.clock.heard(at, self.stalls());
        if self.blind {
            self.clock.lost(at);
        }
    }

    /// The watch of the pods has failed, or works again.
    pub fn blind(&mut self, blind: bool, now: Duration) {
        self.clock.begin(now);
        if blind {
            // It tells late: all since the last answer is in doubt.
            self.clock.lost(Duration::ZERO);
        } else if self.blind {
            self.clock.resume();
        }
        self.blind = blind;
    }

    /// The whole view of this node's pods, from a watch that has synced.
    pub fn pods(&mut self, pods: &[Pod], now: Duration) {
        self.clock.begin(now);
        self.synced = true;
        self.volumes.view(pods);
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
            self.clock.left();
            self.round_over(entry.controller.as_deref(), entry.round);
        }
        for (pod, judgement) in arrived {
            let controller = pod.controller.as_ref().map(|owner| &owner.uid);
            let round = controller.and_then(|uid| self.rounds.get(uid)).copied();
            self.volumes.must_leave(pod);
            let entry = Entry::new(pod, judgement, round.unwrap_or(0), now);
            self.left.insert(pod.uid.clone(), entry);
        }
        let left = &self.left;
        for speaker in self.speakers.values_mut() {
            let asks = |uid: &String| left.get(uid).is_some_and(Entry::may_be_asked);
            *speaker = speaker.take().filter(asks);
        }
    }

    /// What the own Node's `status.volumesInUse` lists; none: the Node is not known.
    pub fn volumes(&mut self, in_use: Option<&[String]>) {
        self.volumes.in_use(in_use);
    }

    /// What came of an eviction; of a pod that has gone meanwhile it is ignored.
    pub fn answer(&mut self, uid: &str, answer: EvictAnswer, now: Duration) {
        if !matches!(answer, EvictAnswer::Unanswered { .. }) {
            self.heard(now);
        }
        let Some(entry) = self.left.get_mut(uid) else {
            return;
        };
        if matches!(answer, EvictAnswer::Unanswered { .. })
            && let Ask::Asked(sent) = entry.ask
        {
            self.clock.lost(sent);
        }
        let budget = matches!(answer, EvictAnswer::Budget(_));
        entry.answered(answer, now);
        let Some(controller) = entry.controller.clone() else {
            return;
        };
        if budget {
            let speaker = self.speakers.entry(controller).or_default();
            speaker.get_or_insert_with(|| uid.to_owned());
        } else if let Some(speaker) = self.speakers.get_mut(&controller)
            && speaker.as_deref() == Some(uid)
        {
            *speaker = None;
        }
    }

    /// Decides. The pods in `evict` count as asked from here on.
    pub fn next(&mut self, now: Duration) -> Next {
        self.clock.begin(now);
        let critical = self.critical_open(now);
        let over = self.over(now);
        let going = over.is_none() && self.synced && !self.blind;
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
            Some(Over::Drained) => {
                let reading = self.clock.spent() + self.clock.unvouched(now);
                let timeout = self.policy.volumes_timeout;
                let left = self.volumes.wait(reading, timeout);
                wake = left.map(|left| now + left);
                self.drained(left.is_some())
            }
            Some(Over::Failed) => State::Failed {
                why: self.why(),
                blocked: self.leftover(),
            },
            Some(Over::Grace) | None => State::Going {
                left: self.left.len(),
                blocked: self.blocked(),
                jobs: self.left.values().filter_map(Entry::unhurried).collect(),
            },
        };
        Next {
            evict,
            state,
            held_by_finalizer: self.held.clone(),
            confirm: going && !self.left.is_empty() && self.due(now).is_zero(),
            wake,
        }
    }

    fn drained(&self, waits: bool) -> State {
        let (volumes, stay) = self.volumes.busy();
        if waits {
            return State::Unmounting { volumes, stay };
        }
        State::Drained {
            leftover: self.leftover(),
            volumes,
        }
    }

    fn round_over(&mut self, controller: Option<&str>, round: u32) {
        if let Some(controller) = controller {
            let next = self.rounds.entry(controller.to_owned()).or_default();
            *next = (*next).max(round.saturating_add(1));
        }
    }

    /// When something ends, if nothing changes.
    fn deadline(&self, now: Duration) -> Option<Duration> {
        let grace = self.left.values().filter_map(|e| e.grace_end(now)).min();
        // Zero: only an answer helps, and that wakes by itself.
        let due = Some(self.due(now)).filter(|due| !due.is_zero());
        earliest(due.map(|due| now + due), grace)
    }

    /// How long until `timeout` or `stall`, unless the API server turns out to have been silent.
    fn due(&self, now: Duration) -> Duration {
        let unvouched = self.clock.unvouched(now);
        let (spent, still) = (self.clock.spent(), self.clock.still());
        let timeout = self.policy.timeout.saturating_sub(spent + unvouched);
        if !self.stalls() {
            return timeout;
        }
        timeout.min(self.policy.stall.saturating_sub(still + unvouched))
    }

    /// Somebody is left who should leave: a Job takes the time it takes.
    fn stalls(&self) -> bool {
        // The system-critical ones are not asked before the ordinary ones have left.
        let ordinary = self.left.values().any(|entry| !entry.critical);
        let mut tier = self
            .left
            .values()
            .filter(|entry| entry.critical != ordinary);
        tier.any(|entry| entry.waits_for().is_none())
    }

    fn expired(&self) -> bool {
        self.clock.spent() >= self.policy.timeout || self.clock.still() >= self.policy.stall
    }

    fn over(&self, now: Duration) -> Option<Over> {
        if !self.synced || self.blind {
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
        if self.clock.spent() >= self.policy.timeout {
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
