//! A shutdown that somebody else scheduled with logind, such as dnf-automatic's `shutdown -r +5`: what it is,
//! and whether it becomes a request of ours (docs/design.md 4; I2, I8).
//!
//! Only what can be taken back is adopted: a reboot, not a poweroff; not one that has begun or is about to.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::text::{self, NAME};

/// Nearer than this it may begin before it is cancelled.
const LEAST: SignedDuration = SignedDuration::from_secs(10);

/// `triggers.scheduled_shutdown`: what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adoption {
    /// Reported: it goes around slot and drain.
    Warn,
    /// A scheduled reboot is cancelled, and becomes a request.
    Adopt,
    Ignore,
}

/// logind's `ScheduledShutdown` (`org.freedesktop.login1(5)`), when there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduled {
    /// `reboot`, `poweroff`, `halt`, `kexec`, `soft-reboot`; with `dry-` before it nothing happens.
    pub kind: String,
    /// On this host's own wall clock, which logind uses too.
    pub at: Timestamp,
}

impl Scheduled {
    /// From the property's type and microseconds since 1970; none: nothing is scheduled.
    pub fn of(kind: &str, micros: u64) -> Option<Self> {
        if kind.is_empty() || kind.starts_with("dry-") {
            return None;
        }
        // What no timestamp can say is as far away as can be.
        let at = i64::try_from(micros).ok();
        let at = at.and_then(|micros| Timestamp::from_microsecond(micros).ok());
        Some(Self {
            kind: text::clean(kind, NAME),
            at: at.unwrap_or(Timestamp::MAX),
        })
    }

    /// It is a reboot that can still be taken back at `now`.
    fn may_be_adopted(&self, now: Timestamp) -> bool {
        self.kind == "reboot" && self.at.duration_since(now) > LEAST
    }

    /// It comes within `limit` of `now`, or should have begun as lately.
    pub(crate) fn near(&self, now: Timestamp, limit: Duration) -> bool {
        self.at.duration_since(now).unsigned_abs() <= limit
    }

    /// For people.
    pub fn words(&self) -> String {
        let at = self.at.strftime("%Y-%m-%d %H:%M:%S UTC");
        format!("a {} scheduled for {at}", self.kind)
    }
}

/// The scheduled shutdown that is to become a request; none where it stays what it is, as where the daemon
/// cannot act on one: its `hindrance`, in words. A host that already
/// goes down, or may do, has nothing to adopt (I8).
pub(crate) fn adopted<'a>(
    scheduled: Option<&'a Scheduled>,
    preparing: Option<bool>,
    adoption: Adoption,
    hindrance: Option<&str>,
    now: Timestamp,
) -> Option<&'a Scheduled> {
    let wanted = adoption == Adoption::Adopt && hindrance.is_none() && preparing == Some(false);
    scheduled.filter(|scheduled| wanted && scheduled.may_be_adopted(now))
}

/// Why one that is there is not taken over, for the journal; none: nothing to say.
pub(crate) fn warning(
    scheduled: &Scheduled,
    adoption: Adoption,
    hindrance: Option<&str>,
    now: Timestamp,
) -> Option<String> {
    let words = scheduled.words();
    let why = match adoption {
        Adoption::Ignore => return None,
        Adoption::Adopt if scheduled.kind != "reboot" => "only a reboot is taken over",
        Adoption::Adopt if !scheduled.may_be_adopted(now) => "it is too near to be taken over",
        Adoption::Adopt => hindrance?,
        Adoption::Warn => {
            "`shutdown -c` cancels it, triggers.scheduled_shutdown = \"adopt\" takes it over"
        }
    };
    Some(format!("{words} will go around slot and drain: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + seconds).expect("a time")
    }

    fn scheduled(kind: &str, seconds: i64) -> Option<Scheduled> {
        let micros = u64::try_from(at(seconds).as_microsecond()).expect("after 1970");
        Scheduled::of(kind, micros)
    }

    #[test]
    fn i8_only_a_reboot_that_can_surely_be_taken_back_is_adopted() {
        let rows = [
            ("reboot", 300, Some(false), true),
            ("reboot", 11, Some(false), true),
            ("reboot", 10, Some(false), false),
            ("reboot", -5, Some(false), false),
            ("reboot", 300, Some(true), false),
            ("reboot", 300, None, false),
            ("poweroff", 300, Some(false), false),
            ("halt", 300, Some(false), false),
            ("kexec", 300, Some(false), false),
            ("soft-reboot", 300, Some(false), false),
            ("dry-reboot", 300, Some(false), false),
            ("", 0, Some(false), false),
        ];
        for (kind, seconds, preparing, yes) in rows {
            let one = scheduled(kind, seconds);
            let is = |adoption, hindrance| {
                adopted(one.as_ref(), preparing, adoption, hindrance, at(0)).is_some()
            };
            assert_eq!(
                is(Adoption::Adopt, None),
                yes,
                "{kind} {seconds} {preparing:?}"
            );
            for (adoption, hindrance) in [
                (Adoption::Adopt, Some("observing")),
                (Adoption::Warn, None),
                (Adoption::Ignore, None),
            ] {
                assert!(
                    !is(adoption, hindrance),
                    "{kind} {adoption:?} {hindrance:?}"
                );
            }
        }
    }

    #[test]
    fn what_goes_around_the_drain_is_said_and_why() {
        let rows = [
            (
                "reboot",
                300,
                Adoption::Warn,
                Some("`shutdown -c` cancels it"),
            ),
            (
                "poweroff",
                300,
                Adoption::Warn,
                Some("a poweroff scheduled for 2026-"),
            ),
            ("poweroff", 300, Adoption::Adopt, Some("only a reboot")),
            ("reboot", 5, Adoption::Adopt, Some("too near")),
            ("reboot", 300, Adoption::Adopt, None),
            ("reboot", 300, Adoption::Ignore, None),
        ];
        for (kind, seconds, adoption, words) in rows {
            let one = scheduled(kind, seconds).expect("scheduled");
            let said = warning(&one, adoption, None, at(0));
            match (words, said) {
                (None, None) => {}
                (Some(words), Some(said)) => assert!(said.contains(words), "{said}"),
                (words, said) => panic!("{kind} {adoption:?}: {said:?}, not {words:?}"),
            }
        }
        let one = scheduled("reboot", 300).expect("scheduled");
        let said = warning(&one, Adoption::Adopt, Some("why"), at(0)).expect("a warning");
        assert!(said.ends_with(": why"), "{said}");
    }

    #[test]
    fn a_dry_run_is_no_scheduled_shutdown() {
        for kind in ["", "dry-reboot", "dry-poweroff"] {
            assert_eq!(scheduled(kind, 300), None, "{kind}");
        }
    }

    #[test]
    fn a_time_that_no_clock_knows_is_far_away() {
        let one = Scheduled::of("reboot", u64::MAX).expect("scheduled");
        assert_eq!(one.at, Timestamp::MAX);
        assert!(one.may_be_adopted(at(0)));
        assert!(Scheduled::of("poweroff", 0).is_some());
    }
}
