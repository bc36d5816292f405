//! Takes typed values out of one table by what `keys` knows of them, and keeps what is wrong with them and what they are
//! (I12).

use std::path::PathBuf;
use std::time::Duration;

use super::duration;
use super::file::{Keys, Origin, Problem, Raw, Value, dotted};
use super::keys::{
    Choice, Choices, Codes, Command, Conditional, ConditionsList, DatesList, DaysList, Entry, Key,
    Number, Paths, PodSelectors, Regular, Section, Selectors, ServersList, Silences, Span, Table,
    Word,
};
use crate::alerts::Conditions;
use crate::budget::MaxUnavailable;
use crate::condition::Unwanted;
use crate::label::{is_absolute, is_server};
use crate::matcher::Matchers;
use crate::pattern::Pattern;
use crate::selector::{PodSelector, Selector};
use crate::text::quote;
use crate::windows::{Dates, Days};

/// One table being read. A key with a fault answers the default: the value is never used, since a problem is on record.
pub(super) struct Reader<'a> {
    section: &'static Section,
    keys: &'a Keys,
    problems: &'a mut Vec<Problem>,
    /// What was taken.
    entries: Vec<Entry>,
    /// Keys with a problem: values are not compared with them.
    faulty: Vec<&'static str>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        section: &'static Section,
        keys: &'a Keys,
        problems: &'a mut Vec<Problem>,
    ) -> Self {
        Self {
            section,
            keys,
            problems,
            entries: Vec::new(),
            faulty: Vec::new(),
        }
    }

    /// All that was taken, in this order.
    pub(super) fn table(self) -> Table {
        Table {
            section: self.section,
            entries: self.entries,
        }
    }

    /// The key's value as `read` understands it, else `default`; `show` is its TOML, `kind` its type and range.
    pub(super) fn take<K, T>(
        &mut self,
        key: &Key<K>,
        kind: String,
        default: T,
        read: impl FnOnce(&Raw) -> Result<T, String>,
        show: impl FnOnce(&T) -> String,
    ) -> T {
        let written = self.keys.get(key.name);
        let (taken, from) = match written.map(|value| (read(&value.raw), &value.origin)) {
            None => (default, None),
            Some((Ok(taken), origin)) => (taken, Some(origin.file.clone())),
            Some((Err(reason), _)) => {
                self.fault(key, reason);
                (default, None)
            }
        };
        self.entries.push(Entry {
            name: key.name,
            kind,
            value: show(&taken),
            from,
            text: key.text,
            secret: key.secret,
        });
        taken
    }

    pub(super) fn flag(&mut self, key: &Key<bool>) -> bool {
        let read = |raw: &Raw| match raw {
            Raw::Flag(flag) => Ok(*flag),
            other => Err(expected(other, "true or false")),
        };
        self.take(key, "boolean".to_owned(), key.kind, read, bool::to_string)
    }

    pub(super) fn number(&mut self, key: &Key<Number>) -> u32 {
        let Number {
            default,
            least,
            most,
        } = key.kind;
        let read = |raw: &Raw| match raw {
            Raw::Number(n) => u32::try_from(*n)
                .ok()
                .filter(|n| (least..=most).contains(n))
                .ok_or_else(|| format!("{n} is out of range; write {least} to {most}")),
            other => Err(expected(other, &format!("a number of {least} to {most}"))),
        };
        self.take(key, key.kind.words(), default, read, u32::to_string)
    }

    pub(super) fn duration(&mut self, key: &Key<Span>) -> Duration {
        self.duration_up_to(key, key.kind.default)
    }

    /// As [`Self::duration`], where the default is at most `most`: another key that is written keeps it valid.
    pub(super) fn duration_up_to(&mut self, key: &Key<Span>, most: Duration) -> Duration {
        let range = key.kind.least..=key.kind.most;
        let read = |raw: &Raw| {
            let d = duration::parse(text(raw, "a duration like \"30m\"")?)?;
            if range.contains(&d) {
                return Ok(d);
            }
            let (d, least, most) = (
                duration::show(d),
                duration::show(*range.start()),
                duration::show(*range.end()),
            );
            Err(format!("{d} is out of range; write {least} to {most}"))
        };
        let default = key.kind.default.min(most);
        self.take(key, key.kind.words(), default, read, |d| {
            quote(&duration::show(*d))
        })
    }

    pub(super) fn choice<T: Copy + PartialEq>(&mut self, key: &Key<Choice<T>>) -> T {
        self.choice_but(key, |_| None)
    }

    /// As [`Self::choice`]; `why` says of a word what is wrong with it, where more is known than that it is none of the
    /// key's.
    pub(super) fn choice_but<T: Copy + PartialEq>(
        &mut self,
        key: &Key<Choice<T>>,
        why: impl Fn(&str) -> Option<String>,
    ) -> T {
        let words = key.kind.words;
        let read = |raw: &Raw| match raw {
            Raw::Text(given) => why(given).map_or_else(|| one_of(raw, words), Err),
            other => one_of(other, words),
        };
        self.take(key, key.kind.words(), key.kind.default, read, |choice| {
            named(choice, words)
        })
    }

    pub(super) fn choices<T: Copy + PartialEq>(&mut self, key: &Key<Choices<T>>) -> Vec<T> {
        let words = key.kind.words;
        let read = |raw: &Raw| one_of(raw, words);
        let kind = format!("list of {}", key.kind.what);
        let chosen = self.list(key, &kind, key.kind.default.to_vec(), read, |choice| {
            named(choice, words)
        });
        let twice = (1..chosen.len()).any(|at| chosen[..at].contains(&chosen[at]));
        if twice {
            self.fault(key, "names one twice; write it once");
        }
        chosen
    }

    pub(super) fn word(&mut self, key: &Key<Word>) -> String {
        self.word_or(key, key.kind.default)
    }

    /// As [`Self::word`], with another default than the key's.
    pub(super) fn word_or(&mut self, key: &Key<Word>, default: &str) -> String {
        let word = &key.kind;
        let read = |raw: &Raw| {
            let given = text(raw, &word.advice())?;
            if (word.rule.allows)(given) || (word.optional && given.is_empty()) {
                Ok(given.to_owned())
            } else if key.secret {
                // Somebody may have written the secret itself where the file with it belongs.
                Err(format!("is not allowed; write {}", word.advice()))
            } else {
                Err(format!("{given:?} is not allowed; write {}", word.advice()))
            }
        };
        self.take(key, word.words(), default.to_owned(), read, |w| quote(w))
    }

    /// As [`Self::word`]; the empty string is `None`.
    pub(super) fn maybe(&mut self, key: &Key<Word>) -> Option<String> {
        Some(self.word(key)).filter(|given| !given.is_empty())
    }

    /// A share of the cluster's Nodes, or a number of them; none at all would close every slot for ever.
    pub(super) fn budget(&mut self, key: &Key<MaxUnavailable>) -> MaxUnavailable {
        let show = |max: &MaxUnavailable| match max {
            MaxUnavailable::Percent(percent) => quote(&format!("{percent}%")),
            MaxUnavailable::Number(number) => number.to_string(),
        };
        self.take(key, SHARE.to_owned(), key.kind, max_unavailable, show)
    }

    pub(super) fn paths(&mut self, key: &Key<Paths>) -> Vec<PathBuf> {
        let read = |raw: &Raw| match text(raw, "absolute paths")? {
            given if is_absolute(given) => Ok(PathBuf::from(given)),
            given => Err(format!(
                "{given:?} is not an absolute path; begin it with /"
            )),
        };
        let default = key.kind.0.iter().map(PathBuf::from).collect();
        self.list(key, "list of paths", default, read, |path| {
            quote(&path.to_string_lossy())
        })
    }

    pub(super) fn selectors(&mut self, key: &Key<Selectors>) -> Vec<Selector> {
        let read = |raw: &Raw| {
            let given = text(raw, "label selectors like \"app=db\"")?;
            let selector = given.parse().map_err(|error| format!("{error}"))?;
            // The text is kept to be shown: a selector does not remember how it was written.
            Ok((given.to_owned(), selector))
        };
        let kind = "list of label selectors";
        let list = self.list(key, kind, Vec::new(), read, |(given, _)| quote(given));
        list.into_iter().map(|(_, selector)| selector).collect()
    }

    pub(super) fn pods(&mut self, key: &Key<PodSelectors>) -> Vec<PodSelector> {
        let read = |raw: &Raw| {
            let given = text(raw, "selectors of pods like \"shop: app=db\"")?;
            given.parse::<PodSelector>().map_err(|why| why.to_string())
        };
        let kind = "list of selectors of pods";
        self.list(key, kind, Vec::new(), read, |one| quote(&one.to_string()))
    }

    pub(super) fn days(&mut self, key: &Key<DaysList>) -> Vec<Days> {
        let read = |raw: &Raw| {
            let given = text(raw, "days like \"mon\" or \"second tuesday\"")?;
            given.parse::<Days>().map_err(|why| why.to_string())
        };
        let kind = "list of days";
        self.list(key, kind, Vec::new(), read, |days| quote(days.given()))
    }

    pub(super) fn dates(&mut self, key: &Key<DatesList>) -> Vec<Dates> {
        let read = |raw: &Raw| {
            let given = text(raw, "dates like \"2026-12-24\"")?;
            given.parse::<Dates>().map_err(|why| why.to_string())
        };
        let kind = "list of dates";
        self.list(key, kind, Vec::new(), read, |dates| quote(dates.given()))
    }

    pub(super) fn servers(&mut self, key: &Key<ServersList>) -> Vec<String> {
        let advice = "servers like \"https://10.0.0.1:6443\"";
        let read = |raw: &Raw| match text(raw, advice)? {
            given if is_server(given) => Ok(given.to_owned()),
            given => Err(format!("{given:?} is not allowed; write {advice}")),
        };
        let kind = "list of servers by https";
        self.list(key, kind, Vec::new(), read, |one| quote(one))
    }

    pub(super) fn conditions(&mut self, key: &Key<ConditionsList>) -> Vec<Unwanted> {
        let read = |raw: &Raw| {
            let given = text(raw, "conditions like \"KernelDeadlock\"")?;
            given.parse::<Unwanted>().map_err(|why| why.to_string())
        };
        let kind = "list of conditions";
        self.list(key, kind, Vec::new(), read, |one| quote(&one.to_string()))
    }

    /// Found anywhere in a text; the empty string is `None`.
    pub(super) fn pattern(&mut self, key: &Key<Regular>) -> Option<Pattern> {
        let read = |raw: &Raw| {
            let given = text(raw, "a regular expression")?;
            let compiled = Pattern::anywhere(given)?;
            Ok((
                given.to_owned(),
                Some(compiled).filter(|_| !given.is_empty()),
            ))
        };
        let default = key.kind.0;
        let compiled = Pattern::anywhere(default).ok();
        let default = (default.to_owned(), compiled.filter(|_| !default.is_empty()));
        let kind = "regular expression, or empty".to_owned();
        let (_, pattern) = self.take(key, kind, default, read, |(given, _)| quote(given));
        pattern
    }

    pub(super) fn alert_conditions(&mut self, key: &Key<Conditional>) -> Vec<Conditions> {
        let read = |raw: &Raw| {
            let given = text(raw, "matchers like \"severity=critical\"")?;
            given.parse::<Conditions>().map_err(|why| why.to_string())
        };
        let kind = "list of matchers";
        self.list(key, kind, Vec::new(), read, |one| quote(one.given()))
    }

    pub(super) fn silences(&mut self, key: &Key<Silences>) -> Vec<Matchers> {
        let read = |raw: &Raw| {
            let given = text(raw, "matchers like \"node={node}\"")?;
            given.parse::<Matchers>().map_err(|why| why.to_string())
        };
        let default = key.kind.0.iter().filter_map(|given| given.parse().ok());
        let default = default.collect();
        self.list(key, "list of matchers", default, read, |one| {
            quote(one.given())
        })
    }

    /// An argument vector; may be empty, its first word may not.
    pub(super) fn command(&mut self, key: &Key<Command>, default: &[&str]) -> Vec<String> {
        let rule = "words like [\"/usr/bin/true\", \"-x\"]";
        let item = |raw: &Raw| match text(raw, rule)? {
            // execve(2) ends an argument at NUL: the command would silently be another.
            word if word.contains('\0') && key.secret => {
                Err("has a word with NUL; remove it".to_owned())
            }
            word if word.contains('\0') => Err(format!("{word:?} contains NUL; remove it")),
            word => Ok(word.to_owned()),
        };
        let default = default.iter().map(|word| (*word).to_owned()).collect();
        let command = self.list(key, "command", default, item, |word| quote(word));
        if command.first().is_some_and(String::is_empty) {
            self.fault(key, "begins with an empty word; name the program first");
        }
        command
    }

    /// Exit codes, 0 to 255 (wait(2) keeps 8 bits).
    pub(super) fn codes(&mut self, key: &Key<Codes>, default: Vec<u8>) -> Vec<u8> {
        let code = |raw: &Raw| match raw {
            Raw::Number(n) => {
                u8::try_from(*n).map_err(|_| format!("{n} is no exit code; write 0 to 255"))
            }
            other => Err(expected(other, "exit codes of 0 to 255")),
        };
        let kind = "list of integers, 0 to 255";
        self.list(key, kind, default, code, u8::to_string)
    }

    /// A list whose items `read` understands.
    fn list<K, T>(
        &mut self,
        key: &Key<K>,
        kind: &str,
        default: Vec<T>,
        read: impl Fn(&Raw) -> Result<T, String>,
        show: impl Fn(&T) -> String,
    ) -> Vec<T> {
        let all = |raw: &Raw| match raw {
            Raw::List(items) => items.iter().map(read).collect(),
            other => Err(expected(other, "a list in brackets")),
        };
        let shown = |items: &Vec<T>| {
            let items: Vec<String> = items.iter().map(show).collect();
            format!("[{}]", items.join(", "))
        };
        self.take(key, kind.to_owned(), default, all, shown)
    }

    /// Whether somebody wrote the key.
    pub(super) fn given<K>(&self, key: &Key<K>) -> bool {
        self.keys.contains_key(key.name)
    }

    /// Whether all of `keys` were taken without a problem.
    pub(super) fn sound(&self, keys: &[&str]) -> bool {
        !self.faulty.iter().any(|key| keys.contains(key))
    }

    /// Records a problem with a key that somebody wrote.
    pub(super) fn fault<K>(&mut self, key: &Key<K>, reason: impl Into<String>) {
        if let Some(Value { origin, .. }) = self.keys.get(key.name) {
            self.faulty.push(key.name);
            self.missing(key, origin, reason);
        }
    }

    /// Records that `key` is missing from the table that begins at `origin`.
    pub(super) fn missing<K>(&mut self, key: &Key<K>, origin: &Origin, reason: impl Into<String>) {
        let dotted = dotted(self.section.name, key.name);
        self.problems.push(Problem::at(origin, dotted, reason));
    }
}

/// What [`max_unavailable`] takes.
const SHARE: &str = "\"1%\" to \"100%\", or an integer of 1 or more";

fn max_unavailable(raw: &Raw) -> Result<MaxUnavailable, String> {
    match raw {
        Raw::Number(number) => u32::try_from(*number)
            .ok()
            .filter(|number| *number > 0)
            .map(MaxUnavailable::Number)
            .ok_or_else(|| format!("{number} is out of range; write {SHARE}")),
        Raw::Text(given) => given
            .strip_suffix('%')
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok())
            .filter(|percent| (1..=100).contains(percent))
            .map(MaxUnavailable::Percent)
            .ok_or_else(|| format!("{given:?} is not allowed; write {SHARE}")),
        other => Err(expected(other, SHARE)),
    }
}

/// The string in `raw`; `rule` says what it must be.
fn text<'r>(raw: &'r Raw, rule: &str) -> Result<&'r str, String> {
    match raw {
        Raw::Text(text) => Ok(text),
        other => Err(expected(other, rule)),
    }
}

fn expected(raw: &Raw, rule: &str) -> String {
    let kind = match raw {
        Raw::Text(_) => "a string",
        Raw::Number(_) => "a number",
        Raw::Flag(_) => "a boolean",
        Raw::List(_) => "a list",
        Raw::Other(kind) => kind,
    };
    format!("is {kind}; write {rule}")
}

fn one_of<T: Copy>(raw: &Raw, words: &[(&str, T)]) -> Result<T, String> {
    let all: Vec<String> = words.iter().map(|(word, _)| quote(word)).collect();
    let all = all.join(" or ");
    let given = text(raw, &all)?;
    let found = words.iter().find(|(word, _)| *word == given);
    found
        .map(|(_, choice)| *choice)
        .ok_or_else(|| format!("{given:?} is not one of its values; write {all}"))
}

fn named<T: PartialEq>(choice: &T, words: &[(&str, T)]) -> String {
    let word = words.iter().find(|(_, c)| c == choice);
    quote(word.map_or("", |(word, _)| word))
}
