//! Which days a window opens on, and which dates are left out.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan};

/// Days after the day that is named: further away than a month it is another rule.
const SHIFT_MOST: u8 = 31;

/// One entry of a window's `days`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Days {
    rule: Rule,
    /// So many days after what the rule names: 0 to [`SHIFT_MOST`].
    shift: u8,
    given: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    /// Both ends are in it; it may run over Sunday.
    Week(Weekday, Weekday),
    /// 1 to 31; a month that is shorter has none.
    OfMonth(i8),
    LastOfMonth,
    /// The first to the fifth such day of a month.
    Nth(i8, Weekday),
    LastWeekday(Weekday),
}

/// Why the text names no days.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no days; write \"mon\", \"mon-fri\", \"weekend\", \"second tuesday\", \"last sunday\", \"15\", \"last day\" or \
     \"patch tuesday + 3d\""
)]
pub struct BadDays(String);

const ORDINALS: [[&str; 2]; 5] = [
    ["first", "1st"],
    ["second", "2nd"],
    ["third", "3rd"],
    ["fourth", "4th"],
    ["fifth", "5th"],
];

impl Days {
    /// As it was written.
    pub fn given(&self) -> &str {
        &self.given
    }

    pub(super) fn contains(&self, date: Date) -> bool {
        let Ok(date) = date.checked_sub(i64::from(self.shift).days()) else {
            return false;
        };
        let (day, weekday) = (date.day(), date.weekday());
        match self.rule {
            Rule::Week(from, to) => from.until(weekday) <= from.until(to),
            Rule::OfMonth(wanted) => day == wanted,
            Rule::LastOfMonth => day == date.days_in_month(),
            Rule::Nth(nth, wanted) => weekday == wanted && (day - 1) / 7 + 1 == nth,
            Rule::LastWeekday(wanted) => weekday == wanted && day + 7 > date.days_in_month(),
        }
    }
}

impl FromStr for Days {
    type Err = BadDays;

    fn from_str(given: &str) -> Result<Self, BadDays> {
        let bad = || BadDays(given.to_owned());
        let words = given.to_lowercase();
        let (rule, shift) = match words.split_once('+') {
            Some((rule, shift)) => (rule, Some(shift)),
            None => (&*words, None),
        };
        let words: Vec<&str> = rule.split_whitespace().collect();
        // "after" says nothing of how long after.
        let words = match &*words {
            ["after", words @ ..] if shift.is_some() => words,
            words => words,
        };
        let rule = rule_of(words).ok_or_else(bad)?;
        let shift = match shift {
            None => 0,
            Some(days) => shift_of(days.trim()).ok_or_else(bad)?,
        };
        let given = given.to_owned();
        Ok(Self { rule, shift, given })
    }
}

fn rule_of(words: &[&str]) -> Option<Rule> {
    Some(match words {
        ["daily" | "every"] | ["every", "day"] => Rule::Week(Weekday::Monday, Weekday::Sunday),
        ["weekend" | "weekends"] => Rule::Week(Weekday::Saturday, Weekday::Sunday),
        ["weekday" | "weekdays"] => Rule::Week(Weekday::Monday, Weekday::Friday),
        ["patch", day] if weekday(day) == Some(Weekday::Tuesday) => Rule::Nth(2, Weekday::Tuesday),
        ["last", "day"] => Rule::LastOfMonth,
        ["last", day] => Rule::LastWeekday(weekday(day)?),
        [nth, day] => Rule::Nth(ordinal(nth)?, weekday(day)?),
        [one] => match (one.split_once('-'), weekday(one)) {
            (Some((from, to)), _) => Rule::Week(weekday(from)?, weekday(to)?),
            (None, Some(day)) => Rule::Week(day, day),
            (None, None) => Rule::OfMonth(number(one).filter(|day| (1..=31).contains(day))?),
        },
        _ => return None,
    })
}

fn ordinal(word: &str) -> Option<i8> {
    let place = ORDINALS.iter().position(|words| words.contains(&word))?;
    i8::try_from(place + 1).ok()
}

/// By its name, or the first letters of it: "tue", "tues".
fn weekday(word: &str) -> Option<Weekday> {
    const NAMES: [&str; 7] = [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ];
    let place = NAMES
        .iter()
        .position(|name| word.len() >= 3 && name.starts_with(word))?;
    Weekday::from_monday_zero_offset(i8::try_from(place).ok()?).ok()
}

/// Digits alone: no sign.
fn number(word: &str) -> Option<i8> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    if digits { word.parse().ok() } else { None }
}

fn shift_of(words: &str) -> Option<u8> {
    let digits = words
        .strip_suffix("days")
        .or_else(|| words.strip_suffix("day"))
        .or_else(|| words.strip_suffix('d'))?;
    let days = u8::try_from(number(digits.trim_end())?).ok()?;
    (days <= SHIFT_MOST).then_some(days)
}

/// A date, or several in a row, of one year or of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dates {
    from: Written,
    to: Written,
    given: String,
}

/// A date as it was written; without a year it comes each year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Written {
    year: Option<i16>,
    /// In order: month and day.
    day: (i8, i8),
}

/// Why the text names no dates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no dates; write \"2026-12-24\", \"2026-12-20..2027-01-06\", or \"12-24\" and \"12-20..01-06\" for each year"
)]
pub struct BadDates(String);

impl Dates {
    /// As it was written.
    pub fn given(&self) -> &str {
        &self.given
    }

    /// They come again each year.
    pub(super) fn yearly(&self) -> bool {
        self.from.year.is_none()
    }

    pub(super) fn contains(&self, date: Date) -> bool {
        let day = (date.month(), date.day());
        match (self.from.year, self.to.year) {
            (Some(from), Some(to)) => {
                let date = (date.year(), day);
                (from, self.from.day) <= date && date <= (to, self.to.day)
            }
            _ if self.from.day <= self.to.day => self.from.day <= day && day <= self.to.day,
            // Over the new year.
            _ => self.from.day <= day || day <= self.to.day,
        }
    }
}

impl FromStr for Dates {
    type Err = BadDates;

    fn from_str(given: &str) -> Result<Self, BadDates> {
        let bad = || BadDates(given.to_owned());
        let (from, to) = given.split_once("..").unwrap_or((given, given));
        let from = Written::new(from.trim()).ok_or_else(bad)?;
        let to = Written::new(to.trim()).ok_or_else(bad)?;
        let ordered = match (from.year, to.year) {
            (Some(first), Some(last)) => (first, from.day) <= (last, to.day),
            (None, None) => true,
            _ => false,
        };
        let given = given.to_owned();
        ordered.then_some(Self { from, to, given }).ok_or_else(bad)
    }
}

/// A leap year: "02-29" is a day of some years.
const LEAP: i16 = 2024;

impl Written {
    fn new(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('-').collect();
        let (year, month, day) = match parts.as_slice() {
            [year, month, day] if year.len() == 4 => (Some(year), month, day),
            [month, day] => (None, month, day),
            _ => return None,
        };
        let day = (number(month)?, number(day)?);
        let year = match year {
            Some(year) if year.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(year.parse().ok()?)
            }
            Some(_) => return None,
            None => None,
        };
        Date::new(year.unwrap_or(LEAP), day.0, day.1).ok()?;
        Some(Self { year, day })
    }
}

impl fmt::Display for Days {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

/// The day after `date`, or before it.
pub(super) fn beside(date: Date, days: i64) -> Option<Date> {
    date.checked_add(Span::new().try_days(days).ok()?).ok()
}
