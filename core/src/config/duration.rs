//! Durations as people write them: `"30m"`, `"1h 30m"` (jiff's friendly format). A bare number
//! has no unit and is refused (I12).

use std::time::Duration;

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::SpanParser;

use crate::text::span;

/// Longer is a slip of the keyboard: no key of ours waits over a year.
pub(super) const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Reads a duration of 0 to 366 days. The error is the reason in words.
/// From text as the configuration has it: `30m`, `1h 30m`; at most a year.
///
/// # Errors
/// What is wrong with it, in words.
pub fn parse(text: &str) -> Result<Duration, String> {
    let advice = "write it like \"30m\" or \"1h 30m\"";
    // A day has 24 hours here, as in systemd.time(7); months have no length.
    let signed = SpanParser::new()
        .parse_span(text)
        .and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()))
        .map_err(|_| format!("{text:?} is not a duration; {advice}"))?;
    let duration = Duration::try_from(signed)
        .map_err(|_| format!("{text:?} is negative; write a duration of 0s or more"))?;
    if duration > LONGEST {
        return Err(format!(
            "{text:?} is longer than a year; write at most 366d"
        ));
    }
    Ok(duration)
}

/// The text [`parse`] reads back as the same duration.
pub(super) fn show(duration: Duration) -> String {
    span(duration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_need_a_unit_a_sign_and_a_bound() {
        assert_eq!(parse("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
        assert_eq!(parse("14d"), Ok(Duration::from_secs(14 * 24 * 3600)));
        assert_eq!(
            parse("1w 2d 3h"),
            Ok(Duration::from_secs((9 * 24 + 3) * 3600))
        );
        assert_eq!(parse("8784h"), Ok(LONGEST));
        for text in [
            "",
            "10",
            "-5m",
            "5m ago",
            "30 parsecs",
            "1 month",
            "2y",
            "d",
            "-1d",
            "1.5d",
            "9999999999999999999d",
            "8785h",
            "367d",
            "PT5M",
            "m",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn i12_a_shown_duration_is_read_back(millis in 0..=366u64 * 24 * 3600 * 1000) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&show(duration)), Ok(duration));
        }

        #[test]
        fn any_text_is_answered(text in any::<String>()) {
            if let Ok(duration) = parse(&text) {
                prop_assert_eq!(parse(&show(duration)), Ok(duration));
            }
        }
    }
}
