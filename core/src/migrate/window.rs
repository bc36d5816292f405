//! kured's one window of time as `[[windows]]`. kured asks which weekday it is now; a window here belongs to the day on which it
//! opens. So one that runs over midnight on some days of the week becomes two: what is left of each such day, and its beginning.

use std::time::Duration;

use super::draft::{Draft, Table, list, text};
use super::given::Values;
use super::go;
use crate::label::is_zone_name;

/// Minutes.
const DAY: usize = 24 * 60;
const WEEK: usize = 7 * DAY;
/// From here on to midnight: kured's default is 23:59:59, and its chart says 23:59.
const LAST_MINUTE: u32 = (24 * 60 - 1) * 60;
/// As kured counts them.
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Minutes of a day: from one up to the other, which is of the next day where it is not later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    days: [bool; 7],
    start: usize,
    end: usize,
}

impl Window {
    fn length(self) -> usize {
        if self.end > self.start {
            self.end - self.start
        } else {
            self.end + DAY - self.start
        }
    }

    /// The minutes of a week, from Sunday on, at which it opens.
    fn openings(self) -> impl Iterator<Item = usize> {
        let open = self.days.into_iter().enumerate().filter(|(_, open)| *open);
        open.map(move |(day, _)| day * DAY + self.start)
    }
}

/// What comes of the flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Times {
    /// Any day, any time.
    Always,
    /// At least one.
    Windows(Vec<Window>),
    /// kured would not start, or never reboot; why.
    Bad(String),
}

const FLAGS: [&str; 4] = ["reboot-days", "start-time", "end-time", "time-zone"];

/// The windows that kured's flags mean.
pub(super) fn times(values: &Values) -> Times {
    let mut days = [false; 7];
    for item in values.items("reboot-days") {
        let Some(day) = go::weekday(item).and_then(|day| days.get_mut(day)) else {
            return bad(
                values,
                "reboot-days",
                "names a day that kured does not know",
            );
        };
        *day = true;
    }
    let at = |flag| go::clock(values.text(flag));
    let Some(start) = at("start-time") else {
        return bad(values, "start-time", "is no time of day");
    };
    let Some(end) = at("end-time") else {
        return bad(values, "end-time", "is no time of day");
    };
    if days == [false; 7] {
        return bad(
            values,
            "reboot-days",
            "names no day, so that kured never reboots",
        );
    }
    let windows = windows(days, start, end);
    match windows[..] {
        [] => Times::Bad("--start-time and --end-time leave no minute between them, so that kured as good as never reboots".to_owned()),
        [only] if only.days == [true; 7] && only.length() == DAY => Times::Always,
        _ => Times::Windows(windows),
    }
}

fn bad(values: &Values, flag: &str, why: &str) -> Times {
    Times::Bad(format!("{} {why}", values.said(flag)))
}

/// kured's end is the last second that is in it; ours the first minute that is not.
fn windows(days: [bool; 7], start: u32, end: u32) -> Vec<Window> {
    let minute = |seconds: u32| usize::try_from(seconds / 60).unwrap_or_default();
    let last = if end >= LAST_MINUTE { DAY } else { minute(end) };
    let first = minute(start.next_multiple_of(60));
    let window = |start, end| Window { days, start, end };
    let all = match (start <= end, days == [true; 7]) {
        (true, _) => vec![window(first, last)],
        // Over midnight without a break.
        (false, true) if first < DAY && last > 0 => return vec![window(first, last)],
        (false, _) => vec![window(first, DAY), window(0, last)],
    };
    all.into_iter().filter(|one| one.start < one.end).collect()
}

/// The longest time without a break that each of them is part of, at its best opening.
fn runs(windows: &[Window]) -> Vec<Duration> {
    let mut open = vec![false; WEEK];
    for window in windows {
        for opening in window.openings() {
            for minute in opening..opening + window.length() {
                open[minute % WEEK] = true;
            }
        }
    }
    let run = |from: usize| {
        let after = (0..WEEK)
            .take_while(|step| open[(from + step) % WEEK])
            .count();
        let before = (1..WEEK)
            .take_while(|step| open[(from + WEEK - step) % WEEK])
            .count();
        (after + before).min(WEEK)
    };
    let best = |window: &Window| window.openings().map(run).max().unwrap_or_default();
    let minutes = windows.iter().map(best);
    minutes
        .map(|minutes| Duration::from_secs(minutes as u64 * 60))
        .collect()
}

/// Those in which `need` fits, and how long the shortest of them is; where it fits in none, all that are as long as the longest.
pub(super) fn fitting(windows: &[Window], need: Duration) -> (Vec<Window>, Duration) {
    let runs = runs(windows);
    let longest = runs.iter().max().copied().unwrap_or_default();
    let least = need.min(longest);
    let kept = windows.iter().zip(&runs).filter(|(_, run)| **run >= least);
    (kept.map(|(window, _)| *window).collect(), longest)
}

/// The zone's name; an error says why there is none.
pub(super) fn zone(values: &Values, container: Option<&str>) -> Result<String, String> {
    let given = values.text("time-zone");
    let named = match (given, container) {
        // That of the container, which is UTC unless somebody wrote another.
        ("" | "Local", None) | ("", Some(_)) => "UTC",
        ("Local", Some(zone)) => zone.trim_start_matches(':'),
        (named, _) => named,
    };
    if is_zone_name(named) && named != "Local" {
        return Ok(named.to_owned());
    }
    Err(format!(
        "{} is no name of a time zone as /usr/share/zoneinfo has them",
        values.said("time-zone")
    ))
}

/// Writes them.
pub(super) fn write(draft: &mut Draft, values: &Values, windows: &[Window], zone: &str) {
    let given = FLAGS.into_iter().filter(|flag| values.given(flag));
    let flags: Vec<String> = given.map(|flag| values.said(flag)).collect();
    let mut comments = vec![flags.join(" ")];
    if windows.len() > 1 {
        comments.push(
            "kured looks at the weekday of the moment, after midnight as well: these two windows are the same. A night that begins on one of the days and ends \
             on the next morning is one window whose end is before its start."
                .to_owned(),
        );
    }
    if values.text("time-zone") == "Local" {
        comments.push(
            "For kured \"Local\" is the zone of its container, and not that of the host."
                .to_owned(),
        );
    }
    for (number, window) in windows.iter().enumerate() {
        let table = Table::Window(number);
        let words: Vec<&str> = comments
            .iter()
            .map(String::as_str)
            .filter(|_| number == 0)
            .collect();
        let name = ["kured", "kured-2"]
            .get(number)
            .copied()
            .unwrap_or("kured-3");
        draft.key(table, "name", text(name), &words);
        if window.days != [true; 7] {
            // The week begins on Monday.
            let days = (1..=7).map(|day| day % 7).filter(|day| window.days[*day]);
            let days: Vec<&str> = days.map(|day| DAYS[day]).collect();
            draft.key(table, "days", list(&days), &[]);
        }
        let clock = |minute: usize| text(&format!("{:02}:{:02}", minute / 60, minute % 60));
        draft.key(table, "start", clock(window.start), &[]);
        draft.key(table, "end", clock(window.end), &[]);
        draft.key(table, "time_zone", text(zone), &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In kured's own words: pkg/timewindow, `Contains`.
    fn kured_is_open(days: [bool; 7], start: u32, end: u32, minute: usize) -> bool {
        let (day, second) = (minute / DAY % 7, u32::try_from(minute % DAY * 60).unwrap());
        days[day]
            && if start > end {
                second >= start || second <= end
            } else {
                (start..=end).contains(&second)
            }
    }

    fn is_open(windows: &[Window], minute: usize) -> bool {
        let covers = |window: &Window| {
            let mut openings = window.openings();
            openings.any(|from| (minute + WEEK - from) % WEEK < window.length())
        };
        windows.iter().any(covers)
    }

    #[test]
    fn the_windows_are_open_when_kured_s_is() {
        const HOUR: u32 = 3600;
        let every = [true; 7];
        let monday = [false, true, false, false, false, false, false];
        let week = [false, true, true, true, true, true, false];
        for (days, start, end, number) in [
            (every, 0, 24 * HOUR - 1, 1),
            (week, 0, 24 * HOUR - 1, 1),
            (monday, 9 * HOUR, 17 * HOUR, 1),
            (every, 22 * HOUR, 5 * HOUR, 1),
            (week, 22 * HOUR, 5 * HOUR, 2),
            (monday, 22 * HOUR, 5 * HOUR, 2),
            (monday, 22 * HOUR, 0, 1),
            (every, 22 * HOUR, 0, 1),
            (every, 24 * HOUR - 30, HOUR, 1),
            (monday, 9 * HOUR + 1, 17 * HOUR + 59, 1),
            (every, 5 * HOUR + 20, 5 * HOUR + 10, 1),
            (every, HOUR, HOUR, 0),
        ] {
            let made = windows(days, start, end);
            assert_eq!(made.len(), number, "{start} {end}: {made:?}");
            for minute in 0..WEEK {
                // The last minute of kured's window is open for its first second alone.
                let ends = u32::try_from(minute % DAY * 60).unwrap() == end / 60 * 60;
                let wanted = kured_is_open(days, start, end, minute);
                let is = is_open(&made, minute);
                assert!(
                    is == wanted || ends && !is,
                    "{days:?} {start} {end} at {minute}: {is}"
                );
            }
        }
    }

    #[test]
    fn a_part_that_is_too_short_is_left_out_beside_a_longer_one() {
        let monday = [false, true, false, false, false, false, false];
        let need = Duration::from_secs(45 * 60);
        let both = windows(monday, 23 * 3600 + 1800, 5 * 3600);
        let (kept, longest) = fitting(&both, need);
        assert_eq!((kept.len(), longest), (1, Duration::from_secs(5 * 3600)));
        assert_eq!(kept[0].start, 0);
        // With the days in a row the evenings go on in the mornings.
        let week = [false, true, true, true, true, true, false];
        let (kept, _) = fitting(&windows(week, 23 * 3600 + 1800, 5 * 3600), need);
        assert_eq!(kept.len(), 2);
        // Alone it stays, however short it is.
        let (kept, longest) = fitting(&windows(monday, 3600, 3600 + 600), need);
        assert_eq!((kept.len(), longest), (1, Duration::from_secs(600)));
        assert_eq!(fitting(&[], need).0, []);
    }
}
