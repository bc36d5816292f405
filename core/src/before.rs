//! What is kept of a host from before its reboot, to be compared with what comes up (docs/design.md 9).
//!
//! Keeps I8 (what is not known is no yes) and I14: the record is an annotation too, so all of it is bounded.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::booted::Booted;
use crate::text::{self, NAME};

/// Units on record at most, and bytes of their names: more than a host has that anybody looks after.
const UNITS_MAX: usize = 64;
const BYTES_MAX: usize = 4 * 1024;
/// As many units are named to people.
const NAMED: usize = 3;

/// The host, as it was when it was last looked at before its reboot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Before {
    /// Units that had failed; none: systemd did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<BTreeSet<String>>,
    /// What had come up with that boot; none: it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booted: Option<Booted>,
    /// The deployment that the next boot was to bring; none: none that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<String>,
}

impl Before {
    /// Which units have failed, as many of them as are kept.
    pub(crate) fn of(failed: Option<&BTreeSet<String>>) -> Self {
        Self {
            failed: failed.map(bounded),
            ..Self::default()
        }
    }

    /// There is nothing to be kept.
    pub(crate) fn knows_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// This look, or where it saw less, what an earlier one of the same hold saw.
    #[must_use]
    pub(crate) fn or(self, earlier: Option<&Self>) -> Self {
        let earlier = earlier.cloned().unwrap_or_default();
        Self {
            failed: self.failed.or(earlier.failed),
            booted: self.booted.or(earlier.booted),
            // Each look knows: what was staged may be so no more.
            staged: self.staged,
        }
    }

    /// With every name cleaned: it may come from the Node, where others write, too.
    #[must_use]
    pub(crate) fn cleaned(self) -> Self {
        let clean = |units: BTreeSet<String>| {
            let units = units.iter().map(|unit| text::name(unit, NAME)).collect();
            bounded(&units)
        };
        Self {
            failed: self.failed.map(clean),
            booted: self.booted.map(Booted::cleaned),
            staged: self.staged.map(|staged| text::name(&staged, NAME)),
        }
    }
}

fn bounded(units: &BTreeSet<String>) -> BTreeSet<String> {
    let mut room = BYTES_MAX;
    let mut fits = |unit: &&String| {
        let left = room.checked_sub(unit.len() + 3);
        room = left.unwrap_or(room);
        left.is_some()
    };
    let kept = units.iter().filter(&mut fits).take(UNITS_MAX);
    kept.cloned().collect()
}

/// A unit that logind makes for a user who logs in, or who lingers: the user alone can make it fail, by killing the own
/// service manager for one, and nobody's node is to be kept by that (I14).
fn of_user(unit: &str) -> bool {
    let named = |start: &str, end: &str| unit.starts_with(start) && unit.ends_with(end);
    named("user@", ".service")
        || named("user-runtime-dir@", ".service")
        || named("session-", ".scope")
}

/// Nothing but units of users has failed, and something has.
pub(crate) fn users_alone(failed: Option<&BTreeSet<String>>) -> bool {
    failed.is_some_and(|failed| !failed.is_empty() && failed.iter().all(|unit| of_user(unit)))
}

/// Why these failed units speak against the boot; none: each had failed before it, or is a user's.
pub(crate) fn failed_anew(now: Option<&BTreeSet<String>>, before: &Before) -> Option<String> {
    let Some(now) = now else {
        return Some("systemd does not say which units have failed".to_owned());
    };
    let before = before.failed.as_ref();
    let known = |unit: &String| before.is_some_and(|before| before.contains(unit));
    let new = (now.iter()).filter(|unit| !known(unit) && !of_user(unit));
    let new: Vec<&str> = new.map(String::as_str).collect();
    if new.is_empty() {
        return None;
    }
    let known = match before {
        Some(_) => "that had not failed before",
        None => "and it is not known whether they had failed before",
    };
    let named = new.iter().take(NAMED).copied().collect::<Vec<_>>();
    let more = match new.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "units have failed {known}: {}{more}",
        named.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has failed, what had, and what is said of it.
    type Row<'a> = (&'a [&'a str], Option<&'a [&'a str]>, Option<&'a str>);

    fn units(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Found by review: whoever may log in could keep the slot after each reboot, by killing their own service manager.
    #[test]
    fn i14_no_user_keeps_a_node_by_a_unit_that_users_make_fail() {
        let users = units(&[
            "session-4.scope",
            "user-runtime-dir@1000.service",
            "user@1000.service",
        ]);
        for before in [None, Some(BTreeSet::new())] {
            let before = Before {
                failed: before,
                ..Before::default()
            };
            assert_eq!(failed_anew(Some(&users), &before), None);
        }
        assert!(users_alone(Some(&users)));
        // Of one that root has written the name alone begins so.
        for of_root in [
            "users.service",
            "systemd-user-sessions.service",
            "a.service",
        ] {
            let mut all = users.clone();
            all.insert(of_root.to_owned());
            let said = failed_anew(Some(&all), &Before::of(Some(&BTreeSet::new())));
            let words = format!("units have failed that had not failed before: {of_root}");
            assert_eq!(said, Some(words));
            assert!(!users_alone(Some(&all)));
        }
        assert!(!users_alone(Some(&BTreeSet::new())), "what failed is gone");
        assert!(!users_alone(None), "nobody knows");
    }

    #[test]
    fn i8_only_a_unit_that_is_known_to_have_failed_before_is_passed_over() {
        let rows: [Row<'_>; 7] = [
            (&[], None, None),
            (&[], Some(&["a.service"]), None),
            (&["a.service"], Some(&["a.service", "b.mount"]), None),
            (
                &["a.service"],
                Some(&[]),
                Some("units have failed that had not failed before: a.service"),
            ),
            (
                &["a.service", "b.mount"],
                Some(&["a.service"]),
                Some("units have failed that had not failed before: b.mount"),
            ),
            (
                &["a.service"],
                None,
                Some(
                    "units have failed and it is not known whether they had failed before: a.service",
                ),
            ),
            (
                &["a.service", "b.mount", "c.timer", "d.socket", "e.path"],
                Some(&["c.timer"]),
                Some(
                    "units have failed that had not failed before: a.service, b.mount, d.socket and 1 more",
                ),
            ),
        ];
        for (now, before, wanted) in rows {
            let before = Before {
                failed: before.map(units),
                ..Before::default()
            };
            let found = failed_anew(Some(&units(now)), &before);
            assert_eq!(found.as_deref(), wanted, "{now:?} after {before:?}");
        }
        let said = failed_anew(None, &Before::default());
        assert!(said.unwrap().contains("does not say"));
    }

    #[test]
    fn i14_the_record_has_bounded_room_for_units() {
        let many: BTreeSet<String> = (0..5000).map(|n| format!("unit-{n:05}.service")).collect();
        let kept = Before::of(Some(&many)).failed.unwrap();
        assert_eq!(kept.len(), UNITS_MAX);
        let long: BTreeSet<String> = (0..64)
            .map(|n| format!("{n:02}{}.service", "x".repeat(240)))
            .collect();
        let kept = Before::of(Some(&long)).failed.unwrap();
        let bytes: usize = kept.iter().map(String::len).sum();
        assert!(
            (1..=BYTES_MAX).contains(&bytes) && kept.len() < 64,
            "{bytes}"
        );
        let odd = Before {
            failed: Some(units(&["a\u{1b}[2J.service"])),
            ..Before::default()
        };
        let odd = odd.cleaned().failed.unwrap();
        assert!(!odd.iter().any(|unit| unit.contains('\u{1b}')), "{odd:?}");
    }

    #[test]
    fn what_one_look_does_not_see_an_earlier_one_of_the_hold_has_seen() {
        let seen = Before::of(Some(&units(&["a.service"])));
        let later = Before::of(Some(&units(&[])));
        assert_eq!(Before::default().or(Some(&seen)), seen);
        assert_eq!(later.clone().or(Some(&seen)), later);
        assert_eq!(Before::default().or(None), Before::default());
    }
}
