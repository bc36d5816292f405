//! Slots as data: what a Lease says, whose turn it is, what counts against a take (I1, I5, I13).
//!
//! The protocol is docs/design.md 5; what the API server answers to it is proved in tests against a real
//! one. Nothing here reads a clock or the network.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::names::PROTOCOL_VERSION;
use crate::scatter::share;

/// Longest Lease name that is also a valid label value.
pub const NAME_MAX: usize = 63;

/// One Lease of the group, as last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub group: String,
    /// `spec.holderIdentity`, empty read as none.
    pub holder: Option<String>,
    pub acquire_time: Option<Timestamp>,
    /// `kube-rebootd/paused`.
    pub paused: Option<String>,
    /// `kube-rebootd/protocol`; an unreadable number is read as the highest.
    pub protocol: u64,
    /// `kube-rebootd/role` says control-plane.
    pub control_plane: bool,
    /// `kube-rebootd/next`, in order.
    pub next: Vec<String>,
    /// When this daemon saw the slot become free and open (its holder or its pause went), on its boot clock;
    /// none when it was so at first sight, or is not so now.
    pub freed: Option<Duration>,
    /// `kube-rebootd/last-hold`: differs after every give-up.
    pub last_hold: Option<String>,
    /// `kube-rebootd/going-down`: what the holder said right before it asked logind.
    pub going_down: Option<String>,
    /// When this daemon saw `last_hold` change, or saw it first, on its boot clock.
    pub last_seen: Option<Duration>,
    /// When this daemon first saw this hold, on its boot clock; none when it is free.
    pub held: Option<Duration>,
    /// The view is a consistent read (a GET or the answer to a write) asked for at this boot time,
    /// not what a watch delivered.
    pub read: Option<Duration>,
}

/// A take, exactly as it is sent and, if need be, repeated: what makes it safe to send twice is that
/// nothing in it changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Take {
    /// Where the Lease is: the configured namespace may change while it is held.
    pub namespace: String,
    pub lease: String,
    pub uid: String,
    pub resource_version: String,
    pub acquire_time: Timestamp,
    pub control_plane: bool,
}

/// What became of the take on record; kept in memory only, a restart knows nothing and repeats.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakeAnswer {
    /// A send had no answer (timeout, 5xx), so it may still land; when it was sent.
    pub unanswered: Option<Duration>,
    /// The last definite answer.
    pub said: Option<TakeSaid>,
}

/// A definite answer to a take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeSaid {
    /// 200.
    Taken,
    /// 409 at this boot time: read the Lease and believe it.
    Conflict(Duration),
    /// Another 4xx: the reason in words.
    Refused(String),
}

/// A node that waits for a slot, from its kube-node-lease Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    pub node: String,
    pub since: Timestamp,
    /// It would take a slot now; else it only keeps its place.
    pub ready: bool,
}

/// This node's place in the queue of a group. It is kept as long as the request lasts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub group: String,
    pub since: Timestamp,
}

/// The last request before logind is asked: a write on the own Lease that is refused when anything about the Lease has
/// changed, and that tells everybody that this node goes down now (I2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    pub lease: String,
    pub resource_version: String,
    /// Value of `kube-rebootd/going-down`.
    pub words: String,
}

/// What this node's own kube-node-lease Lease shows to those who give a slot up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub place: Waiting,
    /// No gate is closed and no back-off runs: a slot that is handed to this node is taken.
    pub ready: bool,
}

/// What this process knows of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// Not read yet, or the last write failed.
    Unknown,
    None,
    Shown(Shown),
}

impl From<Option<Shown>> for Mark {
    fn from(shown: Option<Shown>) -> Self {
        shown.map_or(Self::None, Self::Shown)
    }
}

/// Who else waits, as this node saw it once after its own place was shown.
///
/// It is looked at once and never again, and yet no more than [`MANY`] nodes can believe that few wait: of
/// those who wait now, the one that looked last saw all the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Crowd {
    /// All others, ready or not; [`MANY`] at most.
    pub others: Vec<Waiter>,
    /// There are more than that, or they could not be listed.
    pub many: bool,
}

/// The one request that gives a slot up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GiveUp {
    pub lease: String,
    pub resource_version: String,
    /// Who may take it first.
    pub next: Vec<String>,
    /// Value of `kube-rebootd/last-hold`.
    pub last_hold: String,
}

/// Labels and annotations, as everything on an object is looked at.
pub type Keys = BTreeMap<String, String>;

/// Named waiters act one after another, this far apart.
const TURN: Duration = Duration::from_secs(1);
/// All others act this long after they saw the slot become free: time for three named waiters and
/// their answers.
const LATECOMERS: Duration = Duration::from_secs(15);
/// What one waiter more adds to the time over which the looks of all of them are spread: one look a second,
/// which is two lists or three, so that chance does not bring more than twenty lists into one second.
const SHARE: Duration = Duration::from_secs(1);
/// From so many other waiters on they are not counted any more: the list of them stays small.
pub const MANY: u32 = 100;
/// Over so long the looks are spread when many wait: the share of 5,000 nodes. The first of a hundred looks
/// within a minute all the same, and whoever is served names the next.
const CROWDED: Duration = Duration::from_secs(5_000);
/// How many waiters a give-up names.
pub const HINTS: usize = 3;

impl Take {
    /// Of a Lease as it was read: its uid and resourceVersion are the lock.
    pub fn of(
        lease: &Lease,
        namespace: &str,
        acquire_time: Timestamp,
        control_plane: bool,
    ) -> Self {
        Self {
            namespace: namespace.to_owned(),
            lease: lease.name.clone(),
            uid: lease.uid.clone(),
            resource_version: lease.resource_version.clone(),
            acquire_time,
            control_plane,
        }
    }
}

impl Lease {
    /// A slot of `group` that is open and nobody's, as nobody has read it yet.
    pub fn free(name: &str, group: &str) -> Self {
        Self {
            name: name.to_owned(),
            uid: format!("{name}-uid"),
            resource_version: "1".to_owned(),
            group: group.to_owned(),
            holder: None,
            acquire_time: None,
            paused: None,
            protocol: PROTOCOL_VERSION,
            control_plane: false,
            next: Vec::new(),
            freed: None,
            last_hold: None,
            going_down: None,
            last_seen: None,
            held: None,
            read: None,
        }
    }

    /// Why this Lease is no slot for anybody, whatever its holder.
    pub fn unusable(&self) -> Option<String> {
        if self.name.len() > NAME_MAX {
            return Some(format!("its name has more than {NAME_MAX} characters"));
        }
        if self.protocol > PROTOCOL_VERSION {
            return Some(format!(
                "it speaks protocol {}, this kube-rebootd only {PROTOCOL_VERSION}",
                self.protocol
            ));
        }
        None
    }

    /// The boot time from which `me`, which has been ready since `ready`, may look at this free slot and take
    /// it; nobody may before `opens`. The named waiters come first, in their order and without any delay; then
    /// the rest, `scattered` in time. A wrong or lost hint costs time, never safety.
    pub(crate) fn turn(
        &self,
        me: &str,
        opens: Duration,
        ready: Duration,
        scattered: Duration,
    ) -> Duration {
        let named = self.next.iter().position(|node| node == me);
        match (self.freed.map(|freed| freed.max(opens)), named) {
            (Some(freed), Some(place)) => freed + TURN * u32::try_from(place).unwrap_or(u32::MAX),
            (Some(freed), None) if self.next.is_empty() => freed.max(ready) + scattered,
            (Some(freed), None) => (freed + LATECOMERS).max(ready) + scattered,
            (None, Some(_)) => opens,
            (None, None) => opens.max(ready) + scattered,
        }
    }

    /// Nobody's, not paused, and a slot at all.
    pub(crate) fn open(&self) -> bool {
        self.holder.is_none() && self.paused.is_none() && self.unusable().is_none()
    }
}

impl Crowd {
    /// How long after the opening of a slot this node looks at it: those who have waited longer come first, as
    /// far as they are known. It is the same for all slots: the earliest of several would be too early.
    pub(crate) fn scattered(&self, me: &str, since: Timestamp) -> Duration {
        if self.many {
            return share(CROWDED, &[me, "look"]);
        }
        let before = |other: &&Waiter| (other.since, other.node.as_str()) < (since, me);
        let before = u32::try_from(self.others.iter().filter(before).count()).unwrap_or(MANY);
        // What is known of the others grows old: nodes that believe in the same place must not act as one.
        SHARE * before / 2 + share(SHARE * before, &[me, "look"])
    }

    /// The pause between two looks of one node at which all the looks together stay few.
    pub(crate) fn pause(&self) -> Duration {
        if self.many {
            CROWDED
        } else {
            SHARE * u32::try_from(self.others.len()).unwrap_or(MANY)
        }
    }
}

/// The waiters to name, longest-waiting first. Who is not ready is passed over and keeps its place.
pub fn hints(waiters: &[Waiter], me: &str) -> Vec<String> {
    let mut order: Vec<&Waiter> = (waiters.iter())
        .filter(|waiter| waiter.node != me && waiter.ready)
        .collect();
    order.sort_by(|a, b| a.since.cmp(&b.since).then_with(|| a.node.cmp(&b.node)));
    order
        .into_iter()
        .take(HINTS)
        .map(|waiter| waiter.node.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_that_is_a_label_value_is_a_slot() {
        for (length, usable) in [(NAME_MAX, true), (NAME_MAX + 1, false)] {
            let lease = Lease::free(&"x".repeat(length), "default");
            assert_eq!(lease.unusable().is_none(), usable, "{length}");
        }
    }

    /// Half a second for each that has waited longer, and as much again by chance; equals by their names.
    #[test]
    fn who_has_waited_longer_looks_first() {
        let at = Timestamp::from_second;
        let wait = |node: &str, second: i64| Waiter {
            node: node.to_owned(),
            since: at(second).unwrap(),
            ready: true,
        };
        let seconds = Duration::from_secs;
        for (others, before) in [
            (vec![], 0),
            (vec![wait("n2", 9)], 1),
            (vec![wait("n2", 10)], 0),
            (vec![wait("n0", 10)], 1),
            (vec![wait("n2", 11)], 0),
            (vec![wait("n2", 1), wait("n3", 2), wait("n4", 99)], 2),
        ] {
            let pause = seconds(others.len() as u64);
            let crowd = Crowd {
                others,
                many: false,
            };
            let look = crowd.scattered("n1", at(10).unwrap());
            let (least, most) = (seconds(before) / 2, seconds(before) * 3 / 2);
            assert!(least <= look && look <= most, "{crowd:?}: {look:?}");
            assert_eq!(crowd.pause(), pause);
        }
        let many = Crowd {
            others: Vec::new(),
            many: true,
        };
        assert_eq!(many.pause(), CROWDED);
    }
}
