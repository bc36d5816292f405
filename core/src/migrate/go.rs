//! Values as kured reads them: those of Go's strconv and time packages, of its own time windows, and words of a shell as
//! github.com/google/shlex parts them. Pure; what kured refuses is none.

use std::time::Duration;

/// `strconv.ParseBool`.
pub(super) fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// `time.ParseDuration`, rounded up to whole seconds: no time of ours is finer. A negative one is none, too: no flag of kured means
/// something by it.
pub(super) fn span(text: &str) -> Option<Duration> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut nanos) = (text, 0_u128);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, tail) = tail.split_at(end.unwrap_or(tail.len()));
        nanos = nanos.checked_add(part(number, unit)?)?;
        rest = tail;
    }
    // Go counts in 64 bits with a sign.
    let nanos = i64::try_from(nanos).ok().filter(|_| !text.is_empty())?;
    let nanos = u64::try_from(nanos).ok()?;
    Some(Duration::from_secs(nanos.div_ceil(1_000_000_000)))
}

fn part(number: &str, unit: &str) -> Option<u128> {
    let unit: u128 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // More digits than these make no nanosecond.
    if !digits(whole) || !digits(fraction) || whole.len() > 18 || number == "." || number.is_empty()
    {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(18)];
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let of = |text: &str| {
        if text.is_empty() {
            Some(0)
        } else {
            text.parse::<u128>().ok()
        }
    };
    Some(of(whole)? * unit + of(fraction)? * unit / scale)
}

/// A time of day in seconds, in one of the forms of kured's `timewindow`: 15:04, 15:04:05, 03:04pm, 15, 03pm, 3pm.
pub(super) fn clock(text: &str) -> Option<u32> {
    if let Some((time, half)) = text
        .len()
        .checked_sub(2)
        .and_then(|at| text.split_at_checked(at))
        && let "am" | "pm" = half
    {
        let (hour, minute) = match time.split_once(':') {
            Some((hour, minute)) if hour.len() == 2 => (hour, two(minute)?),
            Some(_) => return None,
            None => (time, 0),
        };
        let hour = number(hour).filter(|hour| *hour <= 12)?;
        let hour = hour % 12 + if half == "pm" { 12 } else { 0 };
        return Some(hour * 3600 + minute * 60);
    }
    let mut parts = text.split(':');
    let hour = parts.next().and_then(number).filter(|hour| *hour < 24)?;
    let minute = parts.next().map_or(Some(0), two)?;
    let second = parts.next().map_or(Some(0), two)?;
    let end = parts.next().is_none();
    end.then_some(hour * 3600 + minute * 60 + second)
}

/// One or two digits.
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    (digits && (1..=2).contains(&text.len())).then(|| text.parse().ok())?
}

/// Two digits below 60.
fn two(text: &str) -> Option<u32> {
    number(text).filter(|value| text.len() == 2 && *value < 60)
}

/// 0 is Sunday.
pub(super) fn weekday(text: &str) -> Option<usize> {
    const DAYS: [&str; 7] = [
        "sunday",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
    ];
    if let Ok(number) = text.parse::<usize>() {
        return (number < DAYS.len()).then_some(number);
    }
    let text = text.to_ascii_lowercase();
    let names = |day: &str| {
        // Two letters, three, or all of them.
        day == text || matches!(text.len(), 2 | 3) && day.starts_with(&text)
    };
    DAYS.iter().position(|day| names(day))
}

/// The words of a command; none: a quotation or an escape has no end.
pub(super) fn words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '#' if word.is_none() => {
                rest.find(|c| *c == '\n');
            }
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '\\' => word.push(rest.next()?),
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(rest.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, seconds) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("90s", Some(90)),
            ("1h30m", Some(5400)),
            ("1h0m0s", Some(3600)),
            ("1.5h", Some(5400)),
            (".5m", Some(30)),
            ("1.m", Some(60)),
            ("+5m", Some(300)),
            ("1ms", Some(1)),
            ("1500ms", Some(2)),
            ("1us1µs1μs1ns", Some(1)),
            ("30", None),
            ("", None),
            ("+", None),
            ("-5m", None),
            ("5 m", None),
            ("1d", None),
            ("h", None),
            (".h", None),
            ("1.2.3s", None),
            ("300000h", Some(300_000 * 3600)),
            ("3000000h", None),
            ("99999999999999999999h", None),
        ] {
            assert_eq!(span(text), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn times_of_day_are_those_of_kured() {
        let at = |hour: u32, minute: u32, second: u32| Some(hour * 3600 + minute * 60 + second);
        for (text, wanted) in [
            ("0:00", at(0, 0, 0)),
            ("23:59:59", at(23, 59, 59)),
            ("23:59", at(23, 59, 0)),
            ("9:05", at(9, 5, 0)),
            ("15", at(15, 0, 0)),
            ("7", at(7, 0, 0)),
            ("03:04pm", at(15, 4, 0)),
            ("03pm", at(15, 0, 0)),
            ("3pm", at(15, 0, 0)),
            ("3am", at(3, 0, 0)),
            ("12am", at(0, 0, 0)),
            ("12pm", at(12, 0, 0)),
            ("12:30am", at(0, 30, 0)),
            ("3:04pm", None),
            ("13pm", None),
            ("24:00", None),
            ("9:5", None),
            ("9:60", None),
            ("", None),
            ("pm", None),
            ("3PM", None),
            ("1:00:00:00", None),
            ("22:00 ", None),
            ("ä", None),
        ] {
            assert_eq!(clock(text), wanted, "{text}");
        }
    }

    #[test]
    fn days_are_those_of_kured() {
        for (text, day) in [
            ("su", Some(0)),
            ("Mon", Some(1)),
            ("TUESDAY", Some(2)),
            ("3", Some(3)),
            ("sat", Some(6)),
            ("7", None),
            ("-1", None),
            ("wedn", None),
            ("s", None),
            ("", None),
            ("mittwoch", None),
        ] {
            assert_eq!(weekday(text), day, "{text}");
        }
    }

    #[test]
    fn words_are_those_of_shlex() {
        let of = |text: &str| words(text).map(|words| words.join("|"));
        for (text, wanted) in [
            ("/bin/systemctl reboot", Some("/bin/systemctl|reboot")),
            (
                r#"sh -c "! needs-restarting --reboothint""#,
                Some("sh|-c|! needs-restarting --reboothint"),
            ),
            (r"sh -c 'test -f \a'", Some(r"sh|-c|test -f \a")),
            (r#"a "b\"c" d\ e f''g"#, Some(r#"a|b"c|d e|fg"#)),
            ("a '' b", Some("a||b")),
            ("a # b\nc", Some("a|c")),
            ("a#b", Some("a#b")),
            ("", Some("")),
            ("a 'b", None),
            ("a \"b", None),
            ("a\\", None),
        ] {
            assert_eq!(of(text).as_deref(), wanted, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in any::<String>()) {
            let _ = (span(&text), clock(&text), weekday(&text), words(&text), switch(&text));
        }
    }
}
