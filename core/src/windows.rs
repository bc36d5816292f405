//! Windows of time in which a reboot may begin (docs/design.md 10): whether one is open, how long, and when the next one opens.
//! Pure: the rules of a time zone come with the configuration, and the time is an argument. Keeps I2 for the gate that asks.
//!
//! A window belongs to the day on which it opens. It opens when the clock of its zone comes to `start` (for the last time,
//! where an hour is shown twice), and closes when that clock first shows `end` or a later time. So it is never open while
//! the clock shows another time than `start` to `end`: what daylight saving skips is skipped.

mod day;

use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};

pub use day::{BadDates, BadDays, Dates, Days};

/// Looked ahead for the next opening: rules repeat within a year or two, and what is excluded for longer is rather off.
const AHEAD: i64 = 800;
/// The days that are looked at, in turn, as most windows come each week. They overlap, as what is open may run over the end.
const LOOKS: [(i64, i64); 4] = [(-2, 10), (8, 45), (43, 400), (398, AHEAD)];
/// After so many days weekdays and leap days come again together, and all rules with them: 28 years.
const CYCLE: i64 = 28 * 365 + 7;
/// Any day will do to look for what never comes; the rules of time zones are those of today from about here on.
const ANY_DAY: i64 = 1_767_225_600;
/// What takes longer than this does not fit in any plan: the first look would not see the end of what is open.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// Minutes of a day.
const DAY: u16 = 24 * 60;

/// When a reboot may begin; without a window always.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Windows {
    pub each: Vec<Window>,
    /// Whole days of each window's zone.
    pub excluded: Vec<Dates>,
}

/// One `[[windows]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    pub name: String,
    /// Empty for every day.
    pub days: Vec<Days>,
    pub start: Clock,
    /// At or before `start`: of the next day.
    pub end: Clock,
    pub zone: TimeZone,
}

/// What becomes of a drain when its window closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Close {
    /// It is finished, up to a limit.
    #[default]
    Finish,
    /// Slot and cordon are given back.
    Undo,
}

impl Close {
    /// As configured.
    pub(crate) const WORDS: &'static [(&'static str, Self)] =
        &[("finish", Self::Finish), ("undo", Self::Undo)];
}

/// A time of day, in minutes: 0 to 1440, which is the midnight at the end of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Clock(u16);

/// Time without a break in which a window is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run<'a> {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
    /// Who opens it, and who closes it.
    pub(crate) first: &'a Window,
    pub(crate) last: &'a Window,
}

impl Clock {
    /// None: it is no time like "22:00", "24:00" among them.
    pub fn new(text: &str) -> Option<Self> {
        let (hour, minute) = text.split_once(':')?;
        let digits = |part: &str| {
            let two = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            two.then(|| part.parse::<u16>().ok())?
        };
        let (hour, minute) = (digits(hour)?, digits(minute)?);
        let time = Self(hour * 60 + minute);
        (minute < 60 && time.0 <= DAY).then_some(time)
    }

    /// Midnight at the end of the day.
    pub fn ends_day(self) -> bool {
        self.0 == DAY
    }

    fn on(self, date: Date) -> Option<DateTime> {
        let (date, minutes) = match self.0 {
            DAY => (day::beside(date, 1)?, 0),
            minutes => (date, minutes),
        };
        let hour = i8::try_from(minutes / 60).ok()?;
        let minute = i8::try_from(minutes % 60).ok()?;
        Some(date.at(hour, minute, 0, 0))
    }
}

impl std::fmt::Display for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

impl Windows {
    /// `windows`, without the dates that are `excluded`. Where there are such dates and no window, all other days are one
    /// window, of UTC.
    pub fn new(mut each: Vec<Window>, excluded: Vec<Dates>) -> Self {
        if each.is_empty() && !excluded.is_empty() {
            each.push(Window {
                name: "always".to_owned(),
                days: Vec::new(),
                start: Clock(0),
                end: Clock(DAY),
                zone: TimeZone::UTC,
            });
        }
        Self { each, excluded }
    }

    /// Nothing is said about the time.
    pub fn none(&self) -> bool {
        self.each.is_empty()
    }

    /// What is open at `now`.
    pub(crate) fn open(&self, now: Timestamp) -> Option<Run<'_>> {
        let runs = self.runs(now, LOOKS[0]);
        runs.into_iter()
            .find(|run| run.from <= now && now < run.until)
    }

    /// The first that is open at `now` or later, and in which `need` fits from `now` on.
    pub(crate) fn next(&self, now: Timestamp, need: Duration) -> Option<Run<'_>> {
        let need = SignedDuration::try_from(need.min(LONGEST)).unwrap_or_default();
        let fits = |run: &Run| {
            let from = run.from.max(now);
            from < run.until && run.until.duration_since(from) >= need
        };
        LOOKS
            .into_iter()
            .find_map(|days| self.runs(now, days).into_iter().find(fits))
    }

    /// The windows of which no opening is long enough for `need`, alone or with those beside it; excluded dates aside.
    pub(crate) fn too_short(&self, need: Duration) -> Vec<&Window> {
        let need = SignedDuration::try_from(need.min(LONGEST)).unwrap_or_default();
        let always = Windows {
            each: self.each.clone(),
            excluded: Vec::new(),
        };
        // Any day will do: all rules come again in the days that are looked at, those of the 29th of February but for a
        // whole window of its own.
        let runs = always.runs(Timestamp::UNIX_EPOCH, (0, AHEAD));
        let long: Vec<&Run> = (runs.iter())
            .filter(|run| run.until.duration_since(run.from) >= need)
            .collect();
        let within = |window: &&Window| {
            let openings = openings(window, &[], Timestamp::UNIX_EPOCH, (0, AHEAD));
            openings.iter().any(|(from, _)| {
                long.iter()
                    .any(|run| run.from <= *from && *from < run.until)
            })
        };
        self.each.iter().filter(|window| !within(window)).collect()
    }

    /// The windows that the dates which are excluded each year leave no opening that is long enough for `need`, alone or with those
    /// beside it. What is excluded in one year only passes.
    pub(crate) fn left_out(&self, need: Duration) -> Vec<&Window> {
        let yearly = self.excluded.iter().filter(|dates| dates.yearly());
        let yearly = Windows {
            each: self.each.clone(),
            excluded: yearly.cloned().collect(),
        };
        let need = SignedDuration::try_from(need.min(LONGEST)).unwrap_or_default();
        let any_day = Timestamp::from_second(ANY_DAY).unwrap_or_default();
        let mut left: Vec<&Window> = self.each.iter().collect();
        let mut from = 0;
        // They overlap, as what is open may run over the end.
        while from < CYCLE && !left.is_empty() && !yearly.excluded.is_empty() {
            let days = (from, from + AHEAD);
            let mut runs = yearly.runs(any_day, days);
            runs.retain(|run| run.until.duration_since(run.from) >= need);
            left.retain(|window| {
                let openings = openings(window, &yearly.excluded, any_day, days);
                let within = |run: &Run, from: Timestamp| run.from <= from && from < run.until;
                !(openings.iter()).any(|(from, _)| runs.iter().any(|run| within(run, *from)))
            });
            from += AHEAD - 10;
        }
        if yearly.excluded.is_empty() {
            left.clear();
        }
        left
    }

    /// There are windows, and none is open at `now`, or opens within the time that is looked ahead.
    pub(crate) fn shut_for_long(&self, now: Timestamp) -> bool {
        !self.none() && self.next(now, Duration::from_secs(1)).is_none()
    }

    /// All that is open on the days `from..to` after the day of `now`, in order, each without a break.
    fn runs(&self, now: Timestamp, days: (i64, i64)) -> Vec<Run<'_>> {
        let mut all: Vec<(Timestamp, Timestamp, &Window)> = Vec::new();
        for window in &self.each {
            let openings = openings(window, &self.excluded, now, days);
            all.extend(
                openings
                    .into_iter()
                    .map(|(from, until)| (from, until, window)),
            );
        }
        all.sort_by_key(|(from, until, _)| (*from, *until));
        let mut runs: Vec<Run> = Vec::new();
        for (from, until, window) in all {
            match runs.last_mut().filter(|run| from <= run.until) {
                Some(run) if until > run.until => (run.until, run.last) = (until, window),
                Some(_) => {}
                None => runs.push(Run {
                    from,
                    until,
                    first: window,
                    last: window,
                }),
            }
        }
        runs
    }
}

/// When `window` is open on the days `from..to` after the day of `now`, in no order: an excluded date may cut one opening in
/// two.
fn openings(
    window: &Window,
    excluded: &[Dates],
    now: Timestamp,
    (from, to): (i64, i64),
) -> Vec<(Timestamp, Timestamp)> {
    let today = TimeZone::UTC.to_datetime(now).date();
    let dates = (from..to).filter_map(|days| day::beside(today, days));
    let dates = dates.filter(|date| window.opens_on(*date) && !window.lost(excluded, *date));
    let openings = dates.filter_map(|date| window.opening(date));
    openings
        .flat_map(|opening| window.without(excluded, opening))
        .collect()
}

impl Window {
    fn opens_on(&self, date: Date) -> bool {
        self.days.is_empty() || self.days.iter().any(|days| days.contains(date))
    }

    /// All of what opens on that date is excluded. Time zones cost more than all the rest, and a search for the next opening
    /// looks at years of such dates.
    fn lost(&self, excluded: &[Dates], date: Date) -> bool {
        let lost = |date: Date| excluded.iter().any(|dates| dates.contains(date));
        lost(date) && (self.end > self.start || day::beside(date, 1).is_some_and(lost))
    }

    /// None: daylight saving skips it, or it is no time that there is.
    fn opening(&self, date: Date) -> Option<(Timestamp, Timestamp)> {
        let last = if self.end <= self.start {
            day::beside(date, 1)?
        } else {
            date
        };
        let from = last_reaches(&self.zone, self.start.on(date)?)?;
        // Samoa had no 30th of December in 2011.
        if self.zone.to_datetime(from).date() != date
            && self.day_begins(date) == self.day_begins(day::beside(date, 1)?)
        {
            return None;
        }
        let until = first_shows(&self.zone, self.end.on(last)?, from)?;
        (from < until).then_some((from, until))
    }

    /// What is left of an opening.
    fn without(
        &self,
        excluded: &[Dates],
        (from, until): (Timestamp, Timestamp),
    ) -> Vec<(Timestamp, Timestamp)> {
        let mut left = vec![(from, until)];
        let mut date = self.zone.to_datetime(from).date();
        let last = self.zone.to_datetime(until).date();
        while date <= last {
            let next = day::beside(date, 1);
            let Some(next) = next else { break };
            if excluded.iter().any(|dates| dates.contains(date)) {
                let ends = self.day_begins(date).zip(self.day_begins(next));
                let Some((begins, ends)) = ends else { break };
                left = left
                    .into_iter()
                    .flat_map(|it| cut(it, begins, ends))
                    .collect();
            }
            date = next;
        }
        left
    }

    /// When the clock of its zone first shows `date`.
    fn day_begins(&self, date: Date) -> Option<Timestamp> {
        first_shows(&self.zone, date.at(0, 0, 0, 0), Timestamp::MIN)
    }
}

/// `from..until` without `begins..ends`.
fn cut(
    (from, until): (Timestamp, Timestamp),
    begins: Timestamp,
    ends: Timestamp,
) -> impl Iterator<Item = (Timestamp, Timestamp)> {
    let before = (from, until.min(begins));
    let after = (from.max(ends), until);
    [before, after]
        .into_iter()
        .filter(|(from, until)| from < until)
}

/// The last instant at which the clock of `zone` comes to `time`, or past it where that time is skipped.
fn last_reaches(zone: &TimeZone, time: DateTime) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(time).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(time).ok(),
        AmbiguousOffset::Gap { before, .. } => skipped(zone, before.to_timestamp(time).ok()?),
        AmbiguousOffset::Fold { after, .. } => after.to_timestamp(time).ok(),
    }
}

/// The first instant from `from` on at which the clock of `zone` shows `time` or a later one.
fn first_shows(zone: &TimeZone, time: DateTime, from: Timestamp) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(time).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(time).ok(),
        AmbiguousOffset::Gap { before, .. } => skipped(zone, before.to_timestamp(time).ok()?),
        AmbiguousOffset::Fold { before, after } => {
            let first = before.to_timestamp(time).ok()?;
            let again = after.to_timestamp(time).ok()?;
            Some(if first > from { first } else { again })
        }
    }
}

/// When the clock is put forward over a time that would be shown at `at` if it were not.
fn skipped(zone: &TimeZone, at: Timestamp) -> Option<Timestamp> {
    let after = at.checked_add(1.second()).ok()?;
    Some(zone.preceding(after).next()?.timestamp())
}

#[cfg(test)]
mod tests;
