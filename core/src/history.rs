//! The reboots that were done: for what, when, and how the time went; and whether there were too many (I10, I14).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::kind::Kind;
use crate::text::{self, WORDS};
use crate::times::Times;
use crate::trigger::Request;

/// What `reboot.max_per_day` counts in, on the host's wall clock.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Reasons and packages of one reboot: a Node's annotation has 16 triggers and 16 wishes at most, and fewer packages.
const MOST: usize = 32;

/// One reboot that was done. What a newer daemon adds is passed over: no record is lost for what is only shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    pub at: Timestamp,
    /// Counts for `reboot.max_per_day`.
    pub automatic: bool,
    /// Triggers, and who asked.
    pub reasons: Vec<String>,
    /// Packages that asked for it: see [`Request::packages`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// When each of `reasons` was first seen, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub since: Vec<Timestamp>,
    /// Of `packages`, those that were first seen after the first reason, and when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub later: BTreeMap<String, Timestamp>,
    /// How the time went; none: it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<Times>,
    /// The update that it was for did not take, in words; none: it did, nothing was expected, or nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<String>,
    #[serde(default, skip_serializing_if = "Kind::full")]
    pub kind: Kind,
}

impl Past {
    /// With everything in words cleaned, and with no more of them than a person reads (I14).
    #[must_use]
    pub fn cleaned(mut self) -> Self {
        self.reasons.truncate(MOST);
        self.packages.truncate(MOST);
        self.since.truncate(MOST);
        for words in self.reasons.iter_mut().chain(&mut self.packages) {
            *words = text::clean(words, WORDS);
        }
        self.later = std::mem::take(&mut self.later)
            .into_iter()
            .take(MOST)
            .map(|(one, at)| (text::clean(&one, WORDS), at))
            .collect();
        self.times = self.times.and_then(Times::cleaned);
        self.rolled_back = self.rolled_back.map(|words| text::clean(&words, WORDS));
        self
    }

    /// From the first reason to the proof, in seconds; none: not known, or the clock was set back.
    pub fn to_proof(&self) -> Option<u64> {
        let since = self.since.iter().min()?;
        u64::try_from(self.at.duration_since(*since).as_secs()).ok()
    }

    /// From the take of the slot until logind was asked, in seconds; none: not known.
    pub(crate) fn drained_in(&self) -> Option<u64> {
        let times = self.times.as_ref()?;
        times.boot?;
        Some(times.claim + times.drain + times.last_look)
    }

    /// From the request to logind until the node was proved healthy, in seconds; none: not known.
    pub(crate) fn back_in(&self) -> Option<u64> {
        let times = self.times.as_ref()?;
        Some(times.boot? + times.verify)
    }

    /// A reboot whose request is lost counts as automatic: else a loop could hide (I10).
    pub(crate) fn of(request: Option<&Request>, at: Timestamp) -> Self {
        let triggers = request.map_or(&[][..], |request| &request.reasons);
        let latched = request.map_or(&[][..], |request| &request.latched);
        Self {
            at,
            automatic: request.is_none_or(Request::automatic),
            reasons: (triggers.iter().map(|reason| reason.trigger.clone()))
                .chain(latched.iter().map(|wish| wish.by.clone()))
                .collect(),
            packages: request.map(Request::packages).unwrap_or_default(),
            since: (triggers.iter().map(|reason| reason.since))
                .chain(latched.iter().map(|wish| wish.at))
                .collect(),
            later: request.map(Request::later).unwrap_or_default(),
            times: None,
            rolled_back: None,
            kind: Kind::Reboot,
        }
    }

    /// The same with how the time of its cycle went, whose slot was taken at `taken`.
    #[must_use]
    pub(crate) fn took(self, times: Times, taken: Timestamp) -> Self {
        let since = self.since.iter().min().copied();
        Self {
            times: Some(times.over(since, taken)),
            ..self
        }
    }
}

/// When automatic reboots are allowed again, if `max` (at least 1) in 24 hours is reached.
///
/// A reboot stamped in the future counts: a clock that was set back must not open the gate (I8).
pub(crate) fn over_daily_limit(history: &[Past], max: usize, now: Timestamp) -> Option<Timestamp> {
    // Unrepresentably far is for ever: closed.
    let end = |past: &Past| past.at.checked_add(DAY).unwrap_or(Timestamp::MAX);
    let mut ends: Vec<_> = (history.iter())
        .filter(|past| past.automatic)
        .map(end)
        .filter(|end| *end > now)
        .collect();
    ends.sort_unstable_by(|one, other| other.cmp(one));
    ends.get(max.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("a time")
    }

    /// Found by an attacker: an annotation of 250 KiB filled the terminal of whoever asked about the node.
    #[test]
    fn i14_a_history_has_no_more_words_than_a_person_reads() {
        let many = |word: &str| vec![word.to_owned(); 5000];
        let past = Past {
            reasons: many("a\u{1b}"),
            packages: many("libc6\u{1b}"),
            since: vec![at(700); 5000],
            later: (0..5000).map(|n| (format!("libc{n}"), at(800))).collect(),
            rolled_back: Some("kernel\u{1b} ".repeat(5000)),
            ..Past::of(None, at(1000))
        };
        let past = past.cleaned();
        assert_eq!(past.later.len(), MOST);
        let rolled_back = past.rolled_back.expect("words");
        assert!(rolled_back.chars().count() <= WORDS && !rolled_back.contains('\u{1b}'));
        assert_eq!(past.reasons, vec!["a"; MOST]);
        assert_eq!(past.packages, vec!["libc6"; MOST]);
        assert_eq!(past.since, vec![at(700); MOST]);
    }

    #[test]
    fn the_time_to_the_proof_begins_with_the_first_reason() {
        for (since, wanted) in [
            (vec![at(700), at(400)], Some(600)),
            (vec![at(1001)], None),
            (Vec::new(), None),
        ] {
            let past = Past {
                since,
                ..Past::of(None, at(1000))
            };
            assert_eq!(past.to_proof(), wanted);
        }
    }

    #[test]
    fn i10_daily_limit_ends_when_the_oldest_that_counts_is_a_day_old() {
        let past = |hours: i64, automatic| Past {
            since: Vec::new(),
            times: None,
            rolled_back: None,
            kind: Kind::Reboot,
            later: BTreeMap::new(),
            packages: Vec::new(),
            at: at(hours * 3600),
            automatic,
            reasons: Vec::new(),
        };
        let history = [
            past(30, true),
            past(29, false),
            past(20, true),
            past(1, true),
        ];
        let limit = |max, hours: i64| over_daily_limit(&history, max, at(hours * 3600));
        assert_eq!(limit(2, 31), Some(at(44 * 3600)));
        assert_eq!(limit(3, 31), None);
        assert_eq!(limit(1, 43), Some(at(54 * 3600)));
        assert_eq!(limit(2, 44), None);
        assert!(limit(3, 0).is_some(), "a clock set back opens nothing");
    }
}
