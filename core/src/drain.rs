//! One drain as data: which pods are left, which to evict next, whether it is over (docs/design.md 7).
//!
//! Keeps I9 (eviction only, by UID, one per accepted answer), I8 (nothing is over before a first whole
//! view, nor while the API server is silent) and I6 (time spent goes on over a restart).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::pod::Pod;

mod clock;
mod entry;
mod escalate;
mod fate;
pub mod judge;
mod order;
mod over;
mod pace;
mod policy;
mod rest;
mod sent;
#[cfg(test)]
mod tests;
mod tiers;
mod tries;
mod volumes;
mod words;

pub use entry::{Blocker, PodRef};
pub use escalate::{Action, Escalated, Escalation, How};
pub use fate::{Fate, undrained};
pub use judge::{Judgement, judge};
pub use order::Group;
pub use policy::{EmptyDir, Jobs, Mode, OnTimeout, Policy, Unmanaged};
pub(crate) use rest::Rest;
pub(crate) use sent::Went;
pub use tries::{Try, held_up, refused, to_try};
pub use words::{describe, ending};

use clock::Clock;
use entry::Entry;
use over::Over;
use pace::Pace;
use sent::Sent;
use tiers::TIER_WAIT;
use volumes::Volumes;

/// A replacement that ignores the cordon is evicted this often per controller: fewer would mistake a
/// race of scheduler and cordon for a toleration, more would only churn.
const ROUNDS: u32 = 5;

/// An answer that took longer says that the API server, or the way to it, was gone meanwhile: even a
/// busy one answers in a second or two (kubernetes SLOs: 1 s).
const SLOW: Duration = Duration::from_secs(5);

/// Progress of one drain, in memory; every `now` is on the boot clock.
#[derive(Debug, Clone)]
pub(crate) struct Drain {
    policy: Policy,
    /// Pods that must leave, by UID.
    left: BTreeMap<String, Entry>,
    /// Finished pods that are not waited for any longer, by UID: only a finalizer keeps them.
    held: BTreeMap<String, Blocker>,
    /// By controller: when its next pod may be tried, if a budget limits them.
    paces: BTreeMap<String, Pace>,
    /// Evictions without an answer yet, by the pod's UID; it may have gone meanwhile.
    sent: BTreeMap<String, Sent>,
    /// Controllers that a budget limits, and the pod that asks for all of them.
    speakers: BTreeMap<String, String>,
    /// Controller -> the round its next pod belongs to.
    rounds: BTreeMap<String, u32>,
    synced: bool,
    /// The pods cannot be watched: what was seen of them may be old.
    blind: bool,
    clock: Clock,
    volumes: Volumes,
    stuck_since: Option<Duration>,
    /// Which groups are asked.
    turn: order::Turn,
    /// What is waited for before the first eviction.
    rest: Option<Rest>,
    /// By the last look it was waited for.
    resting: bool,
    /// For the journal.
    said: Vec<String>,
    /// Boot time of the last decision.
    looked: Duration,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// To be evicted now, each to be answered by [`Drain::answer`].
    pub evict: Vec<PodRef>,
    /// To be escalated now, each to be answered by [`Drain::answer`] as well.
    pub escalate: Vec<Escalated>,
    pub state: State,
    /// Finished and to be deleted, but a finalizer keeps the object; `why` names it.
    pub held_by_finalizer: Vec<Blocker>,
    /// A clock has run out if the API server was there until now: any answer of it says so.
    pub confirm: bool,
    /// Boot time to ask again at, if no view or answer comes first.
    pub wake: Option<Duration>,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Nobody is asked to leave yet; what is waited for.
    Resting {
        left: usize,
        waits: String,
    },
    Going {
        left: usize,
        blocked: Vec<Blocker>,
        /// Pods of Jobs that may finish.
        jobs: Vec<Blocker>,
        /// Pods whose group of `drain.order` has not begun, and the name of the next group.
        later: Option<(usize, String)>,
        /// Pods that were deleted past their budget, and still end.
        deleted: Vec<Blocker>,
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
    pub(crate) fn new(policy: Policy, spent: Duration) -> Self {
        Self {
            policy,
            left: BTreeMap::new(),
            held: BTreeMap::new(),
            paces: BTreeMap::new(),
            sent: BTreeMap::new(),
            speakers: BTreeMap::new(),
            rounds: BTreeMap::new(),
            synced: false,
            blind: false,
            clock: Clock::new(spent),
            volumes: Volumes::default(),
            stuck_since: None,
            turn: order::Turn::default(),
            rest: None,
            resting: false,
            said: Vec::new(),
            looked: Duration::ZERO,
        }
    }

    /// One that an earlier process began: what its pods used is not known.
    pub(crate) fn resumed(policy: Policy, spent: Duration) -> Self {
        let mut drain = Self::new(policy, spent);
        drain.volumes.unknown();
        drain
    }

    /// Time taken so far without the time the API server was silent, up to its last answer.
    pub(crate) fn spent(&self) -> Duration {
        self.clock.spent()
    }

    /// It ended with pods left behind, as `on_timeout = "reboot"` wants.
    pub(crate) fn gave_up(&self) -> bool {
        self.policy.on_timeout == OnTimeout::Reboot
            && self.expired(self.looked)
            && !self.left.is_empty()
    }

    /// The API server answered something, whatever it was, at `at`.
    pub(crate) fn heard(&mut self, at: Duration) {
        // While it waits only for pods that have time of their own, nothing stalls.
        let stalls = self.stalls() && !self.only_patient(at);
        self.clock.heard(at, stalls);
        if self.blind {
            self.clock.lost(at);
        }
    }

    /// An answer to what was asked for at `sent`, to learn whether it was there all the time.
    pub(crate) fn confirmed(&mut self, sent: Duration, at: Duration) {
        if at.saturating_sub(sent) > SLOW {
            self.clock.lost(Duration::ZERO);
        }
        self.heard(at);
    }

    /// The watch of the pods has failed, or works again.
    pub(crate) fn blind(&mut self, blind: bool, now: Duration) {
        self.clock.begin(now);
        if blind {
            // A watch that fails says so late: whatever came after the last answer is in doubt.
            self.clock.lost(Duration::ZERO);
        } else if self.blind {
            self.clock.resume();
        }
        self.blind = blind;
    }

    /// The whole view of this node's pods, from a watch that has synced.
    pub(crate) fn pods(&mut self, pods: &[Pod], now: Duration) {
        self.clock.begin(now);
        self.synced = true;
        self.volumes.view(pods);
        let vouched = self.clock.spent();
        let known: BTreeSet<&String> = pods.iter().map(|pod| &pod.uid).collect();
        self.held.retain(|uid, _| known.contains(uid));
        let mut before = std::mem::take(&mut self.left);
        let mut arrived = Vec::new();
        for pod in pods {
            let judgement = judge(pod, &self.policy);
            if self.stays(pod, judgement) {
                continue;
            }
            if let Some(mut entry) = before.remove(&pod.uid) {
                entry.seen(pod, judgement, now);
                entry.ladder.select(pod, &self.policy.escalate);
                if pod.terminating {
                    entry.ladder.ends(vouched);
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
            let mut entry = Entry::new(pod, judgement, round.unwrap_or(0), now);
            entry.ladder.select(pod, &self.policy.escalate);
            entry.tier = order::tier(pod, &self.policy.order);
            let most = self.policy.pod_timeout_max;
            if let Some(patience) = &pod.patience {
                entry.patience = patience.allowed(most);
                let complaint = patience.complaint(most);
                let path = pod.path();
                self.said
                    .extend(complaint.map(|words| format!("pod {path} {words}")));
            }
            if pod.terminating {
                entry.ladder.ends(vouched);
            }
            self.left.insert(pod.uid.clone(), entry);
        }
        let (left, sent) = (&self.left, &self.sent);
        // One that is seen to go before its own answer came still speaks: what it asked for is not spent.
        self.speakers.retain(|_, uid| {
            left.get(uid).is_some_and(Entry::may_be_asked) || sent.contains_key(uid)
        });
    }

    /// What the own Node's `status.volumesInUse` lists; none: the Node is not known.
    pub(crate) fn volumes(&mut self, in_use: Option<&[String]>) {
        self.volumes.in_use(in_use);
    }

    /// Decides. The pods in `evict` count as asked from here on.
    pub(crate) fn next(&mut self, now: Duration) -> Next {
        self.clock.begin(now);
        self.looked = now;
        self.let_go(now);
        if let Some(rests) = self.rests(now) {
            return rests;
        }
        let critical = self.critical_open(now);
        let turn = self.turn(now);
        let over = self.over(now);
        // Past the timeout who has time of its own left is asked on.
        let patient = over == Some(Over::Grace) && self.patient(now);
        let going = (over.is_none() || patient) && self.synced && !self.blind;
        // Also while only grace periods are waited for: these are what is shortened.
        let seen = self.synced && !self.blind && matches!(over, None | Some(Over::Grace));
        let (mut escalate, mut push) = (Vec::new(), (None, false));
        if seen {
            escalate = self.escalate(now);
            push = self.escalates(now);
        }
        let (evict, mut wake) = if going {
            self.choose(critical, now)
        } else {
            (Vec::new(), None)
        };
        if going && !self.left.is_empty() {
            wake = earliest(earliest(wake, turn), self.deadline(now));
            if !critical {
                wake = earliest(wake, self.stuck_since.map(|since| since + TIER_WAIT));
            }
        }
        if over == Some(Over::Grace) {
            wake = earliest(wake, self.grace_ends(now));
        }
        wake = earliest(wake, push.0);
        if !self.blind {
            let held = self.left.values().filter_map(Entry::held_until).min();
            wake = earliest(wake, held);
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
                blocked: self.blocked(now, over),
                jobs: self.left.values().filter_map(Entry::unhurried).collect(),
                later: self.later(),
                deleted: self.left.values().filter_map(Entry::deleted).collect(),
            },
        };
        Next {
            evict,
            escalate,
            state,
            held_by_finalizer: self.held_by_finalizer(),
            confirm: push.1
                || (going && over.is_none() && !self.left.is_empty() && self.due(now).is_zero()),
            wake,
        }
    }

    /// Whether nothing is left that must go by this list, which may be newer than the last view.
    pub(crate) fn clean(&self, pods: &[Pod]) -> bool {
        let stays = |pod: &Pod| self.stays(pod, judge(pod, &self.policy));
        pods.iter().all(stays)
    }

    /// The drain does nothing about it, or no longer.
    fn stays(&self, pod: &Pod, judgement: Judgement) -> bool {
        matches!(judgement, Judgement::Leave(_)) || self.held.contains_key(&pod.uid)
    }

    fn held_by_finalizer(&self) -> Vec<Blocker> {
        let waited_for = self.left.values().filter_map(Entry::held);
        waited_for.chain(self.held.values().cloned()).collect()
    }

    /// Finished pods that a finalizer has held for long enough do not hold the drain up.
    fn let_go(&mut self, now: Duration) {
        if self.blind {
            return;
        }
        let (clock, held) = (&mut self.clock, &mut self.held);
        self.left.retain(|uid, entry| {
            let due = entry.held_until().is_some_and(|until| until <= now);
            if let Some(blocker) = entry.held().filter(|_| due) {
                clock.left();
                held.insert(uid.clone(), blocker);
            }
            !due
        });
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

    fn blocked(&self, now: Duration, over: Option<Over>) -> Vec<Blocker> {
        let entries = self.left.values();
        let grace = over == Some(Over::Grace);
        let why = |entry: &Entry| {
            let refused = entry.blocker(ROUNDS).or_else(|| self.behind(entry));
            let late = refused.or_else(|| entry.overdue(now));
            late.or_else(|| entry.in_grace(now).filter(|_| grace))
                .or_else(|| entry.in_own_time(now).filter(|_| grace))
        };
        entries.filter_map(why).collect()
    }

    /// What keeps the sibling that asks for it keeps a pod as well.
    fn behind(&self, entry: &Entry) -> Option<Blocker> {
        let speaker = self.speaker(entry).filter(|it| it.budget_blocked())?;
        Some(Blocker {
            pod: entry.pod.clone(),
            ..speaker.blocker(ROUNDS)?
        })
    }

    /// Every pod left, with the best reason known.
    fn leftover(&self) -> Vec<Blocker> {
        let entries = self.left.values();
        entries
            .map(|entry| entry.blocker(ROUNDS).unwrap_or_else(|| entry.unfinished()))
            .collect()
    }
}

fn earliest(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

/// Pods that stay although nobody makes them again when they end: without a controller, with `unmanaged = "leave"`.
/// The kubelet starts them again after the boot, but not when it ended them itself (`GracefulNodeShutdown`);
/// `real::cycle` and `real::graceful` show both.
pub fn not_made_again(pods: &[Pod], policy: &Policy) -> Vec<PodRef> {
    pods.iter()
        .filter(|pod| judge(pod, policy) == Judgement::Leave(judge::Leave::Unmanaged))
        .map(PodRef::of)
        .collect()
}

/// Pods that would stop a drain whatever the API server answers: known before the cordon, they close a
/// gate instead.
pub fn seen_before_cordon(pods: &[Pod], policy: &Policy) -> Vec<Blocker> {
    let mut seen = BTreeSet::new();
    pods.iter()
        .filter(|pod| seen.insert(&pod.uid))
        .filter_map(|pod| {
            let why = match judge(pod, policy) {
                Judgement::Block(why) => why.words().to_owned(),
                Judgement::Leave(_) => return None,
                _ => over::too_long(pod, policy)?,
            };
            Some(Blocker {
                pod: PodRef::of(pod),
                why,
                budget: None,
            })
        })
        .collect()
}
