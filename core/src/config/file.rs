//! One TOML text as values that know their line, and what is wrong with it (I12).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::keys::{Named, Section, Table};
use super::unknown::unknown;
use crate::text::hostile;

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) file: PathBuf,
    /// From 1.
    pub(super) line: usize,
}

/// A value as written; what no key takes is kept by its name only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Raw {
    Text(String),
    Number(i64),
    Flag(bool),
    List(Vec<Raw>),
    Other(&'static str),
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) raw: Raw,
    pub(super) origin: Origin,
}

/// The keys of one table.
pub(super) type Keys = BTreeMap<String, Value>;

/// The section of keys outside any table: no table has this name.
pub(super) const ROOT: &str = "";

/// One table of an array, as a `[[triggers.check]]` is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// The array, as its [`super::keys::Section`] is called.
    pub(super) array: &'static str,
    /// Empty when it needs none and has none, and when its problem is on record; the other keys are looked at all the
    /// same.
    pub(super) name: String,
    pub(super) keys: Keys,
    pub(super) origin: Origin,
}

/// One file, or several merged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Tables {
    pub(super) sections: BTreeMap<String, Keys>,
    /// Of all arrays, in the order of the files.
    pub(super) items: Vec<Item>,
}

/// One thing wrong, shown as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// As it was opened.
    pub file: PathBuf,
    /// From 1; `None` when no line is to blame (the file cannot be read).
    pub line: Option<usize>,
    /// Dotted; empty for TOML syntax.
    pub key: String,
    /// What is wrong and what to do.
    pub reason: String,
}

/// Everything wrong with a configuration, one line each; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    pub problems: Vec<Problem>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), one_line(&self.reason))
    }
}

impl ConfigError {
    /// File, line and key of the first problem, and how many there are besides: for a sentence that says other things, too.
    pub fn place(&self) -> String {
        let first = self.problems.first();
        let place = first.map(Problem::place).unwrap_or_default();
        match self.problems.len() {
            0 | 1 => place,
            all => format!("{place} (and {} more)", all - 1),
        }
    }

    /// File, line and key of each problem: for those who may not read what is written there.
    pub fn places(&self) -> Vec<String> {
        self.problems.iter().map(Problem::place).collect()
    }

    /// One line for each problem.
    pub fn lines(&self) -> Vec<String> {
        self.problems.iter().map(ToString::to_string).collect()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, problem) in self.problems.iter().enumerate() {
            if nth > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

/// A quoted key, a file name and a parser's message may hold line breaks and terminal escapes; the
/// contract is one line per problem, and the journal is read on terminals.
pub(super) fn one_line(text: &str) -> String {
    text.replace('\n', " ").replace(hostile, "?")
}

impl Problem {
    fn place(&self) -> String {
        let file = one_line(&self.file.display().to_string());
        let line = self
            .line
            .map_or_else(String::new, |line| format!(":{line}"));
        match self.key.as_str() {
            "" => format!("{file}{line}"),
            key => format!("{file}{line}: {}", one_line(key)),
        }
    }

    pub(super) fn at(origin: &Origin, key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            file: origin.file.clone(),
            line: Some(origin.line),
            key: key.into(),
            reason: reason.into(),
        }
    }
}

impl Tables {
    /// Lays `upper` over this: key by key, tables of an array by name and as a whole.
    pub(super) fn lay(&mut self, upper: Self) {
        for (section, keys) in upper.sections {
            self.sections.entry(section).or_default().extend(keys);
        }
        let lower = self.items.iter().enumerate();
        let places: BTreeMap<(&str, String), usize> = lower
            .map(|(place, item)| ((item.array, item.name.clone()), place))
            .collect();
        // The names of one file differ, but for the empty ones.
        for item in upper.items {
            let key = (item.array, item.name.clone());
            match places.get(&key).filter(|_| !item.name.is_empty()) {
                Some(place) => self.items[*place] = item,
                None => self.items.push(item),
            }
        }
    }

    /// The tables of one array.
    pub(super) fn of(&self, array: &'static Section) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.array == array.name)
    }
}

/// Reads one text with the keys of `known`. Problems are pushed; what is sound is returned.
pub(super) fn read(
    file: &Path,
    text: &str,
    known: &[Table],
    problems: &mut Vec<Problem>,
) -> Tables {
    let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    let mut reading = Reading {
        file,
        known,
        breaks: breaks.map(|(at, _)| at).collect(),
        names: BTreeSet::new(),
        problems,
        tables: Tables::default(),
    };
    match DeTable::parse(text) {
        Ok(table) => reading.root(table.get_ref()),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            let origin = reading.origin(at);
            let reason = format!("{}; this is no valid TOML", error.message());
            reading.problems.push(Problem::at(&origin, "", reason));
        }
    }
    reading.tables
}

struct Reading<'a> {
    file: &'a Path,
    known: &'a [Table],
    /// Where the lines end: every key asks for its line.
    breaks: Vec<usize>,
    /// Arrays and names of their tables so far.
    names: BTreeSet<(&'static str, String)>,
    problems: &'a mut Vec<Problem>,
    tables: Tables,
}

impl Reading<'_> {
    fn origin(&self, byte: usize) -> Origin {
        Origin {
            file: self.file.to_owned(),
            line: 1 + self.breaks.partition_point(|at| *at < byte),
        }
    }

    fn problem(&mut self, byte: usize, key: &str, reason: impl Into<String>) {
        let origin = self.origin(byte);
        self.problems.push(Problem::at(&origin, key, reason));
    }

    /// The names of the keys and tables that a table may hold.
    fn within(&self, section: &str) -> Vec<&'static str> {
        let of = |table: &&Table| table.section.name == section;
        let keys = self
            .known
            .iter()
            .filter(of)
            .flat_map(|table| &table.entries);
        let tables = self.known.iter().map(|table| table.section.name);
        let tables = tables.filter_map(|name| match section {
            ROOT => Some(name).filter(|name| !name.is_empty() && !name.contains('.')),
            _ => name.strip_prefix(section)?.strip_prefix('.'),
        });
        keys.map(|entry| entry.name).chain(tables).collect()
    }

    fn root(&mut self, root: &DeTable<'_>) {
        let names = self.within(ROOT);
        let mut keys = Keys::new();
        for (name, value) in root {
            let (at, name): (_, &str) = (name.span().start, name.get_ref());
            let known = self.section_of(name).filter(|_| names.contains(&name));
            match (known, value.get_ref()) {
                (None, value) => self.keep(&mut keys, (ROOT, &names), (at, name), value),
                (
                    Some(Section {
                        array: Some(each),
                        name,
                        ..
                    }),
                    value,
                ) => {
                    self.array(at, (name, *each), value);
                }
                (Some(_), DeValue::Table(table)) => self.section(name, table),
                (Some(_), _) => self.problem(at, name, format!("must be a table; write [{name}]")),
            }
        }
        self.tables.sections.insert(ROOT.to_owned(), keys);
    }

    fn section(&mut self, section: &str, table: &DeTable<'_>) {
        let names = self.within(section);
        let mut keys = Keys::new();
        for (key, value) in table {
            let (at, key): (_, &str) = (key.span().start, key.get_ref());
            match self.section_of(&dotted(section, key)) {
                Some(Section {
                    array: Some(each),
                    name,
                    ..
                }) => {
                    self.array(at, (name, *each), value.get_ref());
                }
                _ => self.keep(&mut keys, (section, &names), (at, key), value.get_ref()),
            }
        }
        self.tables.sections.insert(section.to_owned(), keys);
    }

    /// Keeps the value of a key that is one of the section's `names`.
    fn keep(
        &mut self,
        keys: &mut Keys,
        (section, names): (&str, &[&str]),
        (at, key): (usize, &str),
        value: &DeValue<'_>,
    ) {
        if names.contains(&key) {
            let (raw, origin) = (raw(value), self.origin(at));
            keys.insert(key.to_owned(), Value { raw, origin });
        } else {
            let reason = unknown(key, names);
            self.problem(at, &dotted(section, key), reason);
        }
    }

    fn section_of(&self, name: &str) -> Option<&'static Section> {
        let sections = self.known.iter().map(|table| table.section);
        sections.into_iter().find(|section| section.name == name)
    }

    fn array(&mut self, at: usize, array: (&'static str, Named), value: &DeValue<'_>) {
        let name = array.0;
        let reason = format!("must be an array of tables; write [[{name}]]");
        let DeValue::Array(items) = value else {
            return self.problem(at, name, reason);
        };
        let names = self.within(name);
        for item in items {
            match item.get_ref() {
                DeValue::Table(table) => self.item(item.span().start, array, table, &names),
                _ => self.problem(item.span().start, name, &*reason),
            }
        }
    }

    fn item(
        &mut self,
        at: usize,
        (array, each): (&'static str, Named),
        table: &DeTable<'_>,
        names: &[&str],
    ) {
        let mut keys = Keys::new();
        for (key, value) in table {
            let (at, key): (_, &str) = (key.span().start, key.get_ref());
            self.keep(&mut keys, (array, names), (at, key), value.get_ref());
        }
        let origin = self.origin(at);
        let mut item = |name, keys, origin| {
            self.tables.items.push(Item {
                array,
                name,
                keys,
                origin,
            });
        };
        let (at, name) = match keys.get("name") {
            Some(value) => (value.origin.clone(), Some(&value.raw)),
            None => (origin.clone(), None),
        };
        let reason = match (name, each) {
            (Some(Raw::Text(name)), _) if super::is_label_value(name) => {
                let name = name.clone();
                if self.names.insert((array, name.clone())) {
                    return item(name, keys, origin);
                }
                format!("{name:?} is there twice in this file; give each its own name")
            }
            (Some(_), _) => {
                "must be 1 to 63 letters, digits, `-`, `_` or `.`, a letter or digit at both ends; \
                 write it like \"kernel\""
                    .to_owned()
            }
            (None, Named::Always) => "is missing; give each a name".to_owned(),
            (None, Named::AtWill) => return item(String::new(), keys, origin),
        };
        keys.remove("name");
        item(String::new(), keys, origin);
        let key = dotted(array, "name");
        self.problems.push(Problem::at(&at, key, reason));
    }
}

/// A key's full name.
pub(super) fn dotted(section: &str, key: &str) -> String {
    match section {
        ROOT => key.to_owned(),
        section => format!("{section}.{key}"),
    }
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(digits) => i64::from_str_radix(digits.as_str(), digits.radix())
            .map_or(Raw::Other("a number too large"), Raw::Number),
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Array(items) => Raw::List(items.iter().map(|i| raw(i.get_ref())).collect()),
        DeValue::Float(_) => Raw::Other("a fraction"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}
