//! Takes typed values out of one table, keeps what is wrong with them and what `config show`
//! prints for them (I12).

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use super::duration;
use super::file::{self, Keys, Origin, Problem, Raw, Value, one_line};
use crate::text::hostile;

/// One table being read. Every `take` of a key with a fault answers the default: the value is
/// never used, since a problem is on record.
pub(super) struct Reader<'a> {
    section: &'a str,
    keys: &'a Keys,
    problems: &'a mut Vec<Problem>,
    shown: &'a mut String,
    /// Keys with a problem: values are not compared with them.
    faulty: Vec<String>,
}

impl<'a> Reader<'a> {
    /// Writes `header` and reads `keys`, the table that problems call `section`.
    pub(super) fn new(
        section: &'a str,
        header: &str,
        keys: &'a Keys,
        problems: &'a mut Vec<Problem>,
        shown: &'a mut String,
    ) -> Self {
        if !shown.is_empty() {
            shown.push('\n');
        }
        shown.push_str(header);
        shown.push('\n');
        Self {
            section,
            keys,
            problems,
            shown,
            faulty: Vec::new(),
        }
    }

    /// Reads the keys outside any table, which come first.
    pub(super) fn root(
        keys: &'a Keys,
        problems: &'a mut Vec<Problem>,
        shown: &'a mut String,
    ) -> Self {
        Self {
            section: file::ROOT,
            keys,
            problems,
            shown,
            faulty: Vec::new(),
        }
    }

    /// The key's value as `read` understands it, else `default`; `show` is its TOML.
    pub(super) fn take<T>(
        &mut self,
        key: &str,
        default: T,
        read: impl FnOnce(&Raw) -> Result<T, String>,
        show: impl FnOnce(&T) -> String,
    ) -> T {
        let keys = self.keys;
        let Some(value) = keys.get(key) else {
            self.show(key, &show(&default), None);
            return default;
        };
        match read(&value.raw) {
            Ok(read) => {
                self.show(key, &show(&read), Some(&value.origin));
                read
            }
            Err(reason) => {
                self.refuse(key, value, reason);
                default
            }
        }
    }

    pub(super) fn flag(&mut self, key: &str, default: bool) -> bool {
        let read = |raw: &Raw| match raw {
            Raw::Flag(flag) => Ok(*flag),
            other => Err(expected(other, "true or false")),
        };
        self.take(key, default, read, bool::to_string)
    }

    /// An integer of `least` to `most`.
    pub(super) fn number(&mut self, key: &str, default: u32, (least, most): (u32, u32)) -> u32 {
        let read = |raw: &Raw| match raw {
            Raw::Number(n) => u32::try_from(*n)
                .ok()
                .filter(|n| (least..=most).contains(n))
                .ok_or_else(|| format!("{n} is out of range; write {least} to {most}")),
            other => Err(expected(other, &format!("a number of {least} to {most}"))),
        };
        self.take(key, default, read, u32::to_string)
    }

    /// A duration of `least` to `most`.
    pub(super) fn duration(
        &mut self,
        key: &str,
        default: Duration,
        (least, most): (Duration, Duration),
    ) -> Duration {
        let read = |raw: &Raw| {
            let d = duration::parse(text(raw, "a duration like \"30m\"")?)?;
            if (least..=most).contains(&d) {
                return Ok(d);
            }
            let (d, least, most) = (
                duration::show(d),
                duration::show(least),
                duration::show(most),
            );
            Err(format!("{d} is out of range; write {least} to {most}"))
        };
        self.take(key, default, read, |d| quote(&duration::show(*d)))
    }

    /// One of `words`.
    pub(super) fn choice<T: Copy + PartialEq>(
        &mut self,
        key: &str,
        default: T,
        words: &[(&str, T)],
    ) -> T {
        self.take(
            key,
            default,
            |raw| one_of(raw, words),
            |choice| named(choice, words),
        )
    }

    /// Some of `words`, none twice.
    pub(super) fn choices<T: Copy + PartialEq>(
        &mut self,
        key: &str,
        default: Vec<T>,
        words: &[(&str, T)],
    ) -> Vec<T> {
        let read = |raw: &Raw| one_of(raw, words);
        let chosen = self.list(key, default, read, |choice| named(choice, words));
        let twice = (1..chosen.len()).any(|at| chosen[..at].contains(&chosen[at]));
        if twice {
            self.fault(key, "names one twice; write it once");
        }
        chosen
    }

    /// A string that `valid` accepts; `rule` says what it must be.
    pub(super) fn word(
        &mut self,
        key: &str,
        default: String,
        valid: impl Fn(&str) -> bool,
        rule: &str,
    ) -> String {
        let read = |raw: &Raw| {
            let given = text(raw, rule)?;
            if valid(given) {
                Ok(given.to_owned())
            } else {
                Err(format!("{given:?} is not allowed; write {rule}"))
            }
        };
        self.take(key, default, read, |word| quote(word))
    }

    /// Like `word`; the empty string is `None`.
    pub(super) fn maybe(
        &mut self,
        key: &str,
        default: Option<String>,
        valid: impl Fn(&str) -> bool,
        rule: &str,
    ) -> Option<String> {
        let valid = |given: &str| given.is_empty() || valid(given);
        let given = self.word(key, default.unwrap_or_default(), valid, rule);
        (!given.is_empty()).then_some(given)
    }

    /// An absolute path; the empty string is `None`.
    pub(super) fn path(&mut self, key: &str) -> Option<PathBuf> {
        self.maybe(key, None, is_absolute, "an absolute path")
            .map(PathBuf::from)
    }

    /// A list whose items `read` understands; `rule` names one item.
    pub(super) fn list<T>(
        &mut self,
        key: &str,
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
        self.take(key, default, all, shown)
    }

    /// An argument vector; may be empty, its first word may not.
    pub(super) fn command(&mut self, key: &str, default: Vec<String>) -> Vec<String> {
        let rule = "words like [\"/usr/bin/true\", \"-x\"]";
        let item = |raw: &Raw| match text(raw, rule)? {
            // execve(2) ends an argument at NUL: the command would silently be another.
            word if word.contains('\0') => Err(format!("{word:?} contains NUL; remove it")),
            word => Ok(word.to_owned()),
        };
        let command = self.list(key, default, item, |word| quote(word));
        if command.first().is_some_and(String::is_empty) {
            self.fault(key, "begins with an empty word; name the program first");
        }
        command
    }

    /// Whether somebody wrote the key.
    pub(super) fn given(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    /// Whether all of `keys` were taken without a problem.
    pub(super) fn sound(&self, keys: &[&str]) -> bool {
        !self.faulty.iter().any(|f| keys.contains(&f.as_str()))
    }

    /// Records a problem with a key that somebody wrote.
    pub(super) fn fault(&mut self, key: &str, reason: impl Into<String>) {
        let keys = self.keys;
        if let Some(value) = keys.get(key) {
            self.refuse(key, value, reason.into());
        }
    }

    /// Records that `key` is missing from the table that begins at `origin`.
    pub(super) fn missing(&mut self, key: &str, origin: &Origin, reason: &str) {
        let dotted = self.dotted(key);
        self.problems.push(Problem::at(origin, dotted, reason));
    }

    fn dotted(&self, key: &str) -> String {
        match self.section {
            file::ROOT => key.to_owned(),
            section => format!("{section}.{key}"),
        }
    }

    fn refuse(&mut self, key: &str, value: &Value, reason: String) {
        let dotted = self.dotted(key);
        self.problems
            .push(Problem::at(&value.origin, dotted, reason));
        self.faulty.push(key.to_owned());
    }

    fn show(&mut self, key: &str, toml: &str, origin: Option<&Origin>) {
        // A file name may hold a line break, which would end the comment.
        let from = origin.map_or_else(
            || "default".into(),
            |o| one_line(&format!("from {}", o.file.display())),
        );
        // Writing into a String cannot fail.
        let _ = writeln!(self.shown, "{key} = {toml} # {from}");
    }
}

pub(super) fn is_absolute(path: &str) -> bool {
    path.starts_with('/') && !path.contains('\0')
}

/// The string in `raw`; `rule` says what it must be.
pub(super) fn text<'r>(raw: &'r Raw, rule: &str) -> Result<&'r str, String> {
    match raw {
        Raw::Text(text) => Ok(text),
        other => Err(expected(other, rule)),
    }
}

pub(super) fn expected(raw: &Raw, rule: &str) -> String {
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

/// A TOML basic string.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if hostile(c) => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
