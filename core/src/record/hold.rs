//! A hold on a slot: which it is, how far it is, and what of it must survive a crash (I6).

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Why;
use crate::before::Before;
use crate::boot::Boot;
use crate::health::Marks;
use crate::kind::Kind;
use crate::slot::{Lease, Take};

/// From the write-ahead of the take to the end of the give-up.
#[allow(clippy::struct_excessive_bools)] // facts about a hold, not states
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Lease, uid and acquire time are the hold's identity.
    pub take: Take,
    /// Counts the write-aheads; of two copies of one hold the higher is newer.
    pub step: u64,
    /// The boot in which the slot was taken.
    pub boot: Boot,
    /// UID of the Node that was labelled; none before that, or when it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_uid: Option<String>,
    pub stage: Stage,
    /// Somebody else had cordoned the Node before us.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign_cordon: bool,
    /// Autoscalers are kept from the Node: [`names::GUARDS`](crate::names::GUARDS).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guards: bool,
    /// Load balancers are told to take the Node out, from the cordon on: [`names::EXCLUDED`](crate::names::EXCLUDED).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub excluded: bool,
    /// From when on (boot clock of `boot`) the cordon was on the Node, where that is waited with before the first eviction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordoned: Option<Duration>,
    /// The cluster had no other Node when this one was cordoned: with `drain.mode = "auto"` nothing is evicted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// What ran here before: see `health`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<Marks>,
    /// Hooks of `pre-drain.d` or `pre-reboot.d` may have run: those of `undo.d` run before the hold ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hooked: bool,
    /// The host, as it was last looked at before the reboot.
    #[serde(default, skip_serializing_if = "Before::knows_nothing")]
    pub before: Before,
    /// Seconds of the drain's clock used up so far, so that a restart goes on counting.
    #[serde(default)]
    pub drain_spent: u64,
    /// How often logind was asked, and when last (boot clock of `boot`).
    #[serde(default)]
    pub asks: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Duration>,
    /// Not logind was asked last: a client of FleetLock was told to go on, and reboots the host by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub granted: bool,
    /// How long from `asked` on it was told that it may take: no other configuration makes that shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised: Option<Duration>,
    /// What logind was asked for last.
    #[serde(default, skip_serializing_if = "Kind::full")]
    pub kind: Kind,
    /// Who asked before the cordon ([`Latched::asker`](crate::trigger::Latched::asker)): gates that nobody asks again may have
    /// been passed for them alone, so that the hold ends with whoever takes the wish back.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub askers: BTreeSet<String>,
}

/// How far the hold is; the write-ahead points are the changes of this value (plus `asks`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The take may have been sent; repeat it until the answer is known.
    Taking,
    /// The slot is ours; label, peers and gates come next.
    Claiming,
    /// The cordon may have been set.
    Draining,
    /// Drained, and kept so until whoever wants it takes that back, in this boot or a later one.
    Drained,
    /// logind may have been asked.
    Rebooting,
    /// After the new boot: the cordon may have been taken off.
    Uncordoned,
    /// After the new boot: request settled, history written.
    Releasing,
    /// Nothing was rebooted: take everything back.
    Undoing(Why),
}

impl Hold {
    /// It begins with a take that is not sent yet.
    pub fn begin(take: Take, boot: Boot) -> Self {
        Self {
            take,
            step: 1,
            boot,
            node_uid: None,
            stage: Stage::Taking,
            foreign_cordon: false,
            guards: false,
            excluded: false,
            cordoned: None,
            alone: false,
            marks: None,
            hooked: false,
            before: Before::default(),
            drain_spent: 0,
            asks: 0,
            asked: None,
            granted: false,
            promised: None,
            kind: Kind::Reboot,
            askers: BTreeSet::new(),
        }
    }

    /// How long from `asked` on a client may take that was told to go on, where one that is told so now may take `configured`.
    pub(crate) fn granted_within(&self, configured: Duration) -> Duration {
        self.promised
            .map_or(configured, |promised| promised.max(configured))
    }

    /// Both are records of the same hold.
    pub(crate) fn same(&self, other: &Hold) -> bool {
        self.take.uid == other.take.uid && self.take.acquire_time == other.take.acquire_time
    }

    /// The Lease says that this hold is ours. One that somebody wrote our name into has no time: it is the
    /// hold that was found there, which has none either.
    pub(crate) fn matches(&self, lease: &Lease, me: &str) -> bool {
        lease.uid == self.take.uid
            && lease.holder.as_deref() == Some(me)
            && lease.acquire_time.unwrap_or_default() == self.take.acquire_time
    }

    /// The request on record is what the reboot was for, until that is settled: it follows its triggers no more.
    pub(crate) fn settles(&self, boot: &Boot) -> bool {
        self.asked() || self.boot != *boot || self.stage == Stage::Releasing
    }

    /// It was drained for somebody, and `boot` is still the one in which that was done.
    pub(crate) fn maintained(&self, boot: &Boot) -> bool {
        self.stage == Stage::Drained && self.boot == *boot
    }

    /// logind may have been asked in `boot`.
    pub fn asked(&self) -> bool {
        self.asks > 0
    }
}
