//! Why a reboot is wanted: the reasons of triggers, and the wishes of people, scripts and updaters. It is on record, and
//! in the Node's annotation, where its lists are shortened.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::boot::Boot;
use crate::fleet_lock;
use crate::kind::Kind;
use crate::rebootmgr;
use crate::scatter::scatter;
use crate::text::{self, MESSAGE, NAME, WORDS};

/// `by` of a request that the Node annotation `kube-rebootd/reboot` made.
pub const BY_ANNOTATION: &str = "node annotation";
/// `by` of a request that a person made on the host itself with `kube-rebootd reboot`: with the next, and with `rebootmgrctl reboot
/// now`, the only ones that are not automatic. With the name of a node that command sets the annotation.
pub const BY_PERSON: &str = "kube-rebootd reboot";
/// The same, and a node that has just started or failed does not wait for that.
pub const BY_NOW: &str = "kube-rebootd reboot --now";
/// `by` of a request that was a scheduled shutdown (`triggers.scheduled_shutdown = "adopt"`).
pub(crate) const BY_SCHEDULE: &str = "scheduled shutdown";

/// Why a reboot is wanted; never without a reason or a latched wish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub since: Timestamp,
    pub reasons: Vec<Reason>,
    pub latched: Vec<Latched>,
}

impl Request {
    /// With everything in words cleaned (I14).
    #[must_use]
    pub(crate) fn cleaned(mut self) -> Self {
        for reason in &mut self.reasons {
            reason.trigger = text::clean(&reason.trigger, WORDS);
            reason.words = text::clean(&reason.words, MESSAGE);
            reason.pkgs = reason
                .pkgs
                .iter()
                .map(|one| text::clean(one, NAME))
                .collect();
            reason.mark = reason.mark.take().map(|mark| text::clean(&mark, NAME));
            reason.later = std::mem::take(&mut reason.later)
                .into_iter()
                .map(|(one, at)| (text::clean(&one, NAME), at))
                .collect();
        }
        for wish in &mut self.latched {
            wish.by = text::clean(&wish.by, WORDS);
            wish.reason = text::clean(&wish.reason, WORDS);
        }
        self
    }

    /// The same in few bytes, for the Node's annotation: long lists of packages as their hash, which still
    /// compares ([`same_pkgs`]), and words cut.
    pub(crate) fn shorten(&mut self) {
        let mut room = REASONS_MAX;
        self.reasons.retain(|reason| {
            let left = room.checked_sub(1 + reason.trigger.len() / TRIGGER_MAX);
            room = left.unwrap_or(room);
            left.is_some()
        });
        for reason in &mut self.reasons {
            reason.words = reason.words.chars().take(WORDS_MAX).collect();
            reason.later.clear();
            let bytes: usize = reason.pkgs.iter().map(|pkg| pkg.len() + 3).sum();
            if bytes > PKGS_MAX {
                reason.pkgs = BTreeSet::from([digest(&reason.pkgs)]);
            }
        }
        self.latched.truncate(REASONS_MAX);
    }

    /// Packages that ask for it: the first [`PACKAGES_KEPT`], and how many more there are.
    pub(crate) fn packages(&self) -> Vec<String> {
        let all: BTreeSet<&String> = self.reasons.iter().flat_map(|one| &one.pkgs).collect();
        let kept = all.iter().take(PACKAGES_KEPT);
        let mut kept: Vec<String> = kept.map(|one| (*one).clone()).collect();
        if all.len() > kept.len() {
            kept.push(format!("{} more", all.len() - kept.len()));
        }
        kept
    }

    /// Of these packages, those that were first seen after the first reason, and when.
    pub(crate) fn later(&self) -> BTreeMap<String, Timestamp> {
        let first = self.reasons.iter().map(|one| one.since).min();
        let kept = self.packages();
        let seen = kept.into_iter().filter_map(|package| {
            let of = self
                .reasons
                .iter()
                .filter(|one| one.pkgs.contains(&package));
            let at = of.map(|one| one.seen(&package)).min()?;
            (Some(at) > first).then_some((package, at))
        });
        seen.collect()
    }

    /// No person asked for it, and no script of a person's.
    pub fn automatic(&self) -> bool {
        let asked = |wish: &Latched| wish.reboots_for_person() || wish.keeper().is_some();
        !self.urgent() && !self.latched.iter().any(asked)
    }

    /// The client of FleetLock asks for it, and reboots the host by itself.
    pub fn of_client(&self) -> bool {
        self.latched.iter().any(Latched::of_client)
    }

    /// A person asked for it now.
    pub(crate) fn urgent(&self) -> bool {
        let now = [BY_NOW, rebootmgr::BY_NOW, rebootmgr::BY_SOFT_NOW];
        self.latched
            .iter()
            .any(|wish| now.contains(&wish.by.as_str()))
    }
}

/// One trigger's part of the request. It is the same reason as long as its trigger wants a reboot: a list of
/// packages or processes that changes meanwhile begins no new time to settle. `words` are for people only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    pub trigger: String,
    pub pkgs: BTreeSet<String>,
    pub words: String,
    pub since: Timestamp,
    /// On the boot clock of this boot, never ahead of it.
    pub since_boot: Duration,
    /// Packages that came after `since`, and when: some of them ([`PACKAGES_KEPT`]).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub later: BTreeMap<String, Timestamp>,
    /// What serves it.
    #[serde(default, skip_serializing_if = "Kind::full")]
    pub kind: Kind,
    /// [`Finding::mark`], where a soft-reboot serves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

impl Reason {
    /// What came later once these are its packages, those that are new since `at`.
    pub(super) fn later_with(
        &self,
        pkgs: &BTreeSet<String>,
        at: Timestamp,
    ) -> BTreeMap<String, Timestamp> {
        let mut later = self.later.clone();
        later.retain(|one, _| pkgs.contains(one));
        // Of a list that is known by its hash nobody can tell what is new.
        let hashed = self.pkgs.iter().any(|one| one.starts_with('#'));
        let new = pkgs.difference(&self.pkgs).filter(|_| !hashed);
        let room = PACKAGES_KEPT.saturating_sub(later.len());
        later.extend(new.take(room).map(|one| (one.clone(), at)));
        later
    }

    /// When one of its packages was first seen.
    fn seen(&self, package: &str) -> Timestamp {
        self.later.get(package).copied().unwrap_or(self.since)
    }
}

/// A wish that only a reboot or `cancel` ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latched {
    pub by: String,
    pub reason: String,
    pub at: Timestamp,
    /// It is for this boot only: any reboot is the one that was meant, whoever did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<Boot>,
    /// It kept the node drained and does no more; what the slot was held for goes into the history.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// What serves it.
    #[serde(default, skip_serializing_if = "Kind::full")]
    pub kind: Kind,
}

impl Latched {
    /// The client of FleetLock wants to reboot the host.
    pub(crate) fn of_client(&self) -> bool {
        self.by == fleet_lock::BY
    }

    /// Who asks, whatever way: a person who asks again, and for now, has taken nothing back.
    pub(crate) fn asker(&self) -> &str {
        match self.by.as_str() {
            _ if self.reboots_for_person() => BY_PERSON,
            // A full one in place of a soft one takes nothing back.
            rebootmgr::BY_SOFT => rebootmgr::BY,
            rebootmgr::BY_SOFT_NOW => rebootmgr::BY_NOW,
            by => by,
        }
    }

    /// Whoever asked is told what came of it, and may ask again.
    pub(crate) fn may_ask_again(&self) -> bool {
        self.reboots_for_person() || self.of_rebootmgr_now() || self.of_client()
    }

    /// A client of rebootmgr asked for a reboot at once.
    pub(crate) fn of_rebootmgr_now(&self) -> bool {
        [rebootmgr::BY_NOW, rebootmgr::BY_SOFT_NOW].contains(&self.by.as_str())
    }

    /// A client of rebootmgr asked for a reboot.
    pub(crate) fn of_rebootmgr(&self) -> bool {
        let all = [
            rebootmgr::BY,
            rebootmgr::BY_NOW,
            rebootmgr::BY_SOFT,
            rebootmgr::BY_SOFT_NOW,
        ];
        all.contains(&self.by.as_str())
    }

    /// A person asked on the host itself for a reboot.
    pub(crate) fn reboots_for_person(&self) -> bool {
        [BY_PERSON, BY_NOW].contains(&self.by.as_str())
    }
}

/// Somebody's reason as it is kept: clean, and short enough for the record.
pub(crate) fn wish(text: &str) -> String {
    text::clean(text, WORDS)
}

/// Packages kept of each reboot: a distribution upgrade replaces thousands.
const PACKAGES_KEPT: usize = 20;

/// Bounds of a request in the Node's annotation: reasons, bytes that one name counts as, characters of words, and
/// bytes of one list of packages.
const REASONS_MAX: usize = 16;
const TRIGGER_MAX: usize = 256;
const WORDS_MAX: usize = 100;
const PKGS_MAX: usize = 200;

/// A list of packages by its hash: none has a name like this.
pub(super) fn digest(pkgs: &BTreeSet<String>) -> String {
    let words: Vec<&str> = pkgs.iter().map(String::as_str).collect();
    format!("#{}:{:016x}", pkgs.len(), scatter(&words))
}

/// The same packages, one of the lists may be known by its hash only.
pub(super) fn same_pkgs(one: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    let known = |short: &BTreeSet<String>, long: &BTreeSet<String>| {
        short.len() == 1
            && short
                .first()
                .is_some_and(|short| short.starts_with('#') && *short == digest(long))
    };
    one == other || known(one, other) || known(other, one)
}
