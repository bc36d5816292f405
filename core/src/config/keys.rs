//! What is known of a key of the configuration: its name, type, range, default and documentation, each in one place (I12).
//!
//! The files below write them down, a file per table. [`super::reader`] takes values by them; whatever it takes is known,
//! shown by `config show` and explained in packaging/config.toml and kube-rebootd.toml(5). A key that nobody takes is dead
//! code, which the compiler refuses.
//!
//! Documentation is plain text: words between backticks are literal, `systemctl(1)` without them names a manual page, an
//! empty line begins a paragraph, and a paragraph `PRESETS` is the table of presets.

use std::path::PathBuf;
use std::time::Duration;

use super::duration::{LONGEST, show};
use super::listen::{Listen, is_prom_file};
use crate::budget::MaxUnavailable;
use crate::label::{
    is_absolute, is_dns_label, is_label_key, is_label_value, is_subdomain, is_url, is_zone_name,
};
use crate::text::{hostile, quote};
use crate::windows::Clock;

/// The keys of one table, each a constant: its documentation, then `CONSTANT "name": type = range and default;`, with the word
/// `secret` before the colon where somebody may write one there. `each` and a [`Named`] makes it an array of tables.
macro_rules! keys {
    (@array) => { None };
    (@array $named:ident) => { Some(super::Named::$named) };
    (@secret) => { false };
    (@secret secret) => { true };
    (
        $(#[doc = $about:literal])* section $section:literal $(each $named:ident)?;
        $($(#[doc = $text:literal])+ $constant:ident $name:literal $($secret:ident)?: $kind:ty = $value:expr;)+
    ) => {
        pub(crate) const SECTION: super::Section = super::Section {
            name: $section,
            array: keys!(@array $($named)?),
            text: concat!($($about, "\n"),*),
        };
        $(pub(crate) const $constant: super::Key<$kind> = super::Key {
            name: $name,
            kind: $value,
            secret: keys!(@secret $($secret)?),
            text: concat!($($text, "\n"),+),
        };)+
    };
}

pub(super) mod check;
pub(super) mod coordination;
pub(super) mod drain;
pub(super) mod escalate;
pub(super) mod fleet_lock;
pub(super) mod gate_command;
pub(super) mod gates;
pub(super) mod health;
pub(super) mod hooks;
pub(super) mod metrics;
pub(super) mod node;
pub(super) mod notify;
pub(super) mod order;
pub(super) mod prometheus;
pub(super) mod reboot;
pub(super) mod root;
pub(super) mod triggers;
pub(super) mod windows;

/// A table of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Dotted; empty for the keys outside any table.
    pub name: &'static str,
    /// It is an array of tables.
    pub array: Option<Named>,
    /// What it is about, or empty; lines as of a doc comment, with a blank before each.
    pub text: &'static str,
}

/// Whether each table of an array has a `name`. A later file replaces a table by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    Always,
    /// Who has none is called by its place.
    AtWill,
}

/// A table as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub section: &'static Section,
    pub entries: Vec<Entry>,
}

/// A key as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: &'static str,
    /// Type and range in words.
    pub kind: String,
    /// As TOML.
    pub value: String,
    /// The file that it stands in; `None`: the value is the default.
    pub from: Option<PathBuf>,
    /// What it does; lines as of a doc comment.
    pub text: &'static str,
    /// The value may be a secret: no message repeats it.
    pub secret: bool,
}

impl Section {
    /// Whether it is an array of tables.
    pub fn many(&self) -> bool {
        self.array.is_some()
    }

    /// As in a file; empty for the keys outside any table.
    pub fn header(&self) -> String {
        match self.name {
            "" => String::new(),
            name if self.many() => format!("[[{name}]]"),
            name => format!("[{name}]"),
        }
    }
}

/// One key. `K` is its type with range and default; of a flag it is the default alone, and so of a budget.
pub(super) struct Key<K> {
    pub(super) name: &'static str,
    pub(super) kind: K,
    pub(super) text: &'static str,
    /// As [`Entry::secret`].
    pub(super) secret: bool,
}

/// An integer of `least` to `most`.
pub(super) struct Number {
    pub(super) default: u32,
    pub(super) least: u32,
    pub(super) most: u32,
}

/// A duration of `least` to `most`.
pub(super) struct Span {
    pub(super) default: Duration,
    pub(super) least: Duration,
    pub(super) most: Duration,
    /// What else bounds it: another key. Empty for nothing.
    bound: &'static str,
}

/// One of the words, each with what it means.
pub(super) struct Choice<T: 'static> {
    pub(super) default: T,
    pub(super) words: &'static [(&'static str, T)],
}

/// A string that the rule allows.
pub(super) struct Word {
    pub(super) default: &'static str,
    /// Whether it may be empty, which means none.
    pub(super) optional: bool,
    pub(super) rule: Rule,
}

/// What a string must be.
pub(super) struct Rule {
    /// Its type in the manual.
    kind: &'static str,
    /// What an error says to write.
    advice: &'static str,
    pub(super) allows: fn(&str) -> bool,
}

/// A list of absolute paths.
pub(super) struct Paths(pub(super) &'static [&'static str]);
/// Some of the words, none twice, and the default.
pub(super) struct Choices<T: 'static> {
    pub(super) words: &'static [(&'static str, T)],
    /// What they are.
    pub(super) what: &'static str,
    pub(super) default: &'static [T],
}
/// A list of label selectors, empty unless somebody writes one.
pub(super) struct Selectors;
/// The days of a window, every day unless somebody writes one.
pub(super) struct DaysList;
/// Dates that are excluded, none unless somebody writes one.
pub(super) struct DatesList;
/// A list of selectors of pods, empty unless somebody writes one.
pub(super) struct PodSelectors;
/// A list of API servers, empty unless somebody writes one.
pub(super) struct ServersList;
/// A list of conditions of the Node, empty unless somebody writes one.
pub(super) struct ConditionsList;
/// A regular expression, or empty for none; its default.
pub(super) struct Regular(pub(super) &'static str);
/// A list of matchers for alerts, none unless somebody writes one.
pub(super) struct Conditional;
/// A list of matchers for silences.
pub(super) struct Silences(pub(super) &'static [&'static str]);
/// An argument vector; its default is what the other keys make of it.
pub(super) struct Command;
/// Exit codes; the default is what the other keys make of it.
pub(super) struct Codes;

impl Number {
    pub(super) fn words(&self) -> String {
        format!("integer, {} to {}", self.least, self.most)
    }
}

impl Span {
    pub(super) fn words(&self) -> String {
        let range = format!("duration, {} to {}", show(self.least), show(self.most));
        match self.bound {
            "" => range,
            bound => format!("{range}, {bound}"),
        }
    }
}

impl<T: Copy> Choice<T> {
    pub(super) fn words(&self) -> String {
        let words = self.words.iter().map(|(word, _)| *word);
        let all: Vec<String> = words.filter(|word| !word.is_empty()).map(quote).collect();
        match &all[..] {
            all if all.len() < self.words.len() => format!("{}, or empty", all.join(", ")),
            [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            all => all.concat(),
        }
    }
}

/// The first is the default.
const fn choice<T: Copy>(words: &'static [(&'static str, T)]) -> Choice<T> {
    let (_, default) = words[0];
    Choice { default, words }
}

impl Word {
    pub(super) fn words(&self) -> String {
        let or = if self.optional { ", or empty" } else { "" };
        format!("{}{or}", self.rule.kind)
    }

    /// What an error says to write.
    pub(super) fn advice(&self) -> String {
        let or = if self.optional { " or \"\"" } else { "" };
        format!("{}{or}", self.rule.advice)
    }
}

const fn rule(kind: &'static str, advice: &'static str, allows: fn(&str) -> bool) -> Rule {
    Rule {
        kind,
        advice,
        allows,
    }
}

const PATH: Rule = rule("path", "an absolute path", is_absolute);
const URL: Rule = rule("URL", "a URL like \"https://example.com/hook\"", is_url);
const USER: Rule = rule("user name", "a user name without `:`", |text| {
    is_visible(text) && !text.contains(':')
});
const QUERY: Rule = rule(
    "PromQL",
    "an expression without line breaks and other control characters",
    is_visible,
);
const LISTEN: Rule = rule(
    "unix:PATH or ADDRESS:PORT",
    "`unix:` and an absolute path, or an IP address and a port, as in \"127.0.0.1:9797\"",
    |text| Listen::new(text).is_some(),
);
const LOOPBACK: Rule = rule(
    "unix:PATH or ADDRESS:PORT of this host",
    "`unix:` and an absolute path, or an address that only this host reaches and a port, as in \"127.0.0.1:3333\"",
    |text| Listen::new(text).is_some_and(|listen| listen.is_local()),
);
const FLEET_ID: Rule = rule("string", "the id that the client sends", is_visible);
// As servers of FleetLock check it.
const FLEET_GROUP: Rule = rule(
    "group of FleetLock",
    "a group of letters, digits, `-` and `.`",
    |text| {
        let good = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
        !text.is_empty() && text.chars().all(good)
    },
);
const PROM_FILE: Rule = rule(
    "path that ends with .prom",
    "an absolute path that ends with .prom",
    is_prom_file,
);
const NODE_NAME: Rule = rule("name of a Node", "the name of a Node", is_subdomain);
const CONTEXT: Rule = rule("string", "a context of the kubeconfig", |_| true);
const TEXT: Rule = rule("string", "a text without NUL", |text| !text.contains('\0'));
const LABEL_KEY: Rule = rule("label key", "a label key", is_label_key);
const DNS_LABEL: Rule = rule(
    "DNS label",
    "1 to 63 lower-case letters, digits or `-`",
    is_dns_label,
);
const SERVICE_ACCOUNT: Rule = rule(
    "name of a ServiceAccount",
    "the name of a ServiceAccount",
    is_subdomain,
);
const LABEL_ADVICE: &str = "a label value of 1 to 63 letters, digits, `-`, `_` or `.`";
const LABEL_VALUE: Rule = rule("label value, not empty", LABEL_ADVICE, is_label_value);
const UNIQUE: Rule = rule(
    "label value, not empty, unique",
    LABEL_ADVICE,
    is_label_value,
);

const CLOCK: Rule = rule("time of day", "a time like \"22:00\"", |text| {
    Clock::new(text).is_some()
});
const TIME_ZONE: Rule = rule(
    "time zone",
    "a time zone like \"UTC\" or \"Europe/Berlin\"",
    is_zone_name,
);

fn is_visible(text: &str) -> bool {
    !text.is_empty() && !text.contains(hostile)
}

const ZERO: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = hours(24);

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * 60)
}

const fn hours(hours: u64) -> Duration {
    minutes(hours * 60)
}
