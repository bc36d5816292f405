//! What the author of a pod asks of autoscalers: not to end it. A reboot ends it as well.

use std::time::Duration;

use crate::text;

/// So much of a value that cannot be read is told (I14).
const VALUE: usize = 40;

/// That a pod is not to be disturbed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shield {
    /// cluster-autoscaler's annotation, `"false"`.
    SafeToEvict,
    /// Karpenter's, `"true"`.
    DoNotDisrupt,
    /// Karpenter's with a duration: for so long after the pod's start.
    DoNotDisruptFor(Duration),
    /// Karpenter's with a value that is none of these: for how long is not known, so that it is not over (I8).
    Unreadable(String),
}

impl Shield {
    /// By the values of [`SAFE_TO_EVICT`](crate::names::SAFE_TO_EVICT) and
    /// [`DO_NOT_DISRUPT`](crate::names::DO_NOT_DISRUPT).
    pub fn of(safe_to_evict: Option<&str>, do_not_disrupt: Option<&str>) -> Option<Self> {
        match (safe_to_evict, do_not_disrupt) {
            (Some("false"), _) => Some(Self::SafeToEvict),
            (_, Some("true")) => Some(Self::DoNotDisrupt),
            (_, None | Some("false" | "")) => None,
            (_, Some(text)) => match go_duration(text) {
                Some(time) if time.is_zero() => None,
                Some(time) => Some(Self::DoNotDisruptFor(time)),
                None => Some(Self::Unreadable(text::name(text, VALUE))),
            },
        }
    }
}

/// A duration as Go's `time.ParseDuration` takes it, which is not less than nothing and fits there.
pub(super) fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let number = rest.find(|one: char| !one.is_ascii_digit() && one != '.')?;
        let (number, tail) = rest.split_at(number);
        let unit = tail.find(|one: char| one.is_ascii_digit() || one == '.');
        let (unit, tail) = tail.split_at(unit.unwrap_or(tail.len()));
        total = total.checked_add(nanoseconds(number, unit)?)?;
        rest = tail;
    }
    let total = i64::try_from(total).ok()?;
    Some(Duration::from_nanos(total.unsigned_abs()))
}

/// `1.5` and `h`.
fn nanoseconds(number: &str, unit: &str) -> Option<u128> {
    let unit: u128 = match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let digits = |text: &str| match text {
        "" => Some(0),
        text => text.parse::<u64>().ok().map(u128::from),
    };
    // More digits than these say nothing of a nanosecond of an hour.
    let part = part.get(..15).unwrap_or(part);
    let places = u32::try_from(part.len()).ok()?;
    let part = digits(part)?.checked_mul(unit)? / 10_u128.pow(places);
    digits(whole)?.checked_mul(unit)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_go_s() {
        for (text, seconds) in [
            ("4h", Some(14_400.0)),
            ("1h30m", Some(5_400.0)),
            ("1.5h", Some(5_400.0)),
            (".5m", Some(30.0)),
            ("1.m", Some(60.0)),
            ("+90s", Some(90.0)),
            ("1500ms", Some(1.5)),
            ("1\u{b5}s1us", Some(0.000_002)),
            ("0.0000000000000000001h1s", Some(1.0)),
            ("2562047h", Some(2_562_047.0 * 3600.0)),
            ("2562048h", None),
            ("-4h", None),
            ("0s", Some(0.0)),
            ("0", Some(0.0)),
            ("+", None),
            ("4", None),
            ("4 h", None),
            ("4d", None),
            ("h", None),
            (".s", None),
            ("1.2.3s", None),
            ("", None),
            ("99999999999999999999h", None),
        ] {
            let wanted = seconds.map(Duration::from_secs_f64);
            assert_eq!(go_duration(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_pod_is_shielded_by_what_its_autoscaler_reads() {
        let hours = |hours: u64| Some(Shield::DoNotDisruptFor(Duration::from_secs(hours * 3600)));
        for (evict, disrupt, shield) in [
            (None, None, None),
            (Some("true"), None, None),
            (Some("False"), Some("false"), None),
            (Some("false"), None, Some(Shield::SafeToEvict)),
            (Some("false"), Some("4h"), Some(Shield::SafeToEvict)),
            (Some("true"), Some("true"), Some(Shield::DoNotDisrupt)),
            (None, Some("4h"), hours(4)),
            (None, Some("0s"), None),
            (None, Some(""), None),
            (
                None,
                Some("soon"),
                Some(Shield::Unreadable("soon".to_owned())),
            ),
            (
                None,
                Some("-4h"),
                Some(Shield::Unreadable("-4h".to_owned())),
            ),
            (Some("false"), Some("soon"), Some(Shield::SafeToEvict)),
        ] {
            assert_eq!(Shield::of(evict, disrupt), shield, "{evict:?} {disrupt:?}");
        }
    }

    proptest! {
        #[test]
        fn i14_whatever_is_written_is_read_or_not(text in garble::hostile(), number in "[0-9.]{0,30}(ns|h|m|s|)") {
            go_duration(&number);
            if let Some(Shield::Unreadable(said)) = Shield::of(None, Some(&text)) {
                prop_assert!(said.chars().count() <= VALUE + 3, "{said}");
                prop_assert!(!said.contains(char::is_control), "{said:?}");
            }
        }
    }
}
