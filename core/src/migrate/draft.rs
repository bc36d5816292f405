//! The configuration while it is written: keys with the flags they come from, and what else there is to say (I12). Every comment is
//! one line of cleaned words, broken at blanks: nothing that stands in a manifest ends a comment (I14).

use std::time::Duration;

use crate::text::{clean, quote, span};

/// Columns of a comment.
const WIDTH: usize = 100;
/// Characters of one remark: more than a manifest's longest flag and our words around it.
pub(super) const REMARK: usize = 2_000;

/// A table of the configuration, in the order of kube-rebootd.toml(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    Top,
    Coordination,
    Triggers,
    Check,
    Drain,
    Reboot,
    Health,
    Gates,
    Prometheus,
    /// The first, or the second.
    Window(usize),
    Notify,
    Metrics,
}

impl Table {
    fn header(self) -> &'static str {
        match self {
            Self::Top => "",
            Self::Coordination => "[coordination]",
            Self::Triggers => "[triggers]",
            Self::Check => "[[triggers.check]]",
            Self::Drain => "[drain]",
            Self::Reboot => "[reboot]",
            Self::Health => "[health]",
            Self::Gates => "[gates]",
            Self::Prometheus => "[[gates.prometheus]]",
            Self::Window(_) => "[[windows]]",
            Self::Notify => "[notify]",
            Self::Metrics => "[metrics]",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    table: Table,
    comments: Vec<String>,
    key: &'static str,
    /// As TOML.
    value: String,
}

/// What was written so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Draft {
    entries: Vec<Entry>,
    /// Flags without an equivalent: the flag as it is given, and what to do.
    pub(super) absent: Vec<(String, String)>,
    /// What is to be done by hand before it works.
    pub(super) todo: Vec<String>,
    /// What could not be understood.
    pub(super) odd: Vec<String>,
}

impl Draft {
    /// A key with its comments: first the flags.
    pub(super) fn key(
        &mut self,
        table: Table,
        key: &'static str,
        value: String,
        comments: &[&str],
    ) {
        let comments = comments.iter().filter(|words| !words.is_empty());
        self.entries.push(Entry {
            table,
            comments: comments.map(|words| comment(words)).collect(),
            key,
            value,
        });
    }

    /// Whether a key of this name is in one of the tables.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// The tables with their keys.
    pub(super) fn toml(&self) -> String {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by_key(|entry| entry.table);
        let (mut text, mut table) = (String::new(), Table::Top);
        for entry in entries {
            if entry.table != table {
                table = entry.table;
                text.extend(["\n", table.header(), "\n"]);
            }
            text.extend(entry.comments.iter().map(String::as_str));
            text.extend([entry.key, " = ", &entry.value, "\n"]);
        }
        text
    }
}

/// Lines that begin with `# `.
pub(super) fn comment(words: &str) -> String {
    folded(&clean(words, REMARK), "# ", "# ")
}

/// An item of a list in a comment.
pub(super) fn item(words: &str) -> String {
    folded(&clean(words, REMARK), "# - ", "#   ")
}

fn folded(words: &str, first: &str, next: &str) -> String {
    let (mut text, mut line) = (String::new(), first.to_owned());
    let mut begun = false;
    for word in words.split(' ').filter(|word| !word.is_empty()) {
        if begun && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.extend([line.trim_end(), "\n"]);
            next.clone_into(&mut line);
            begun = false;
        }
        if begun {
            line.push(' ');
        }
        line.push_str(word);
        begun = true;
    }
    text.extend([line.trim_end(), "\n"]);
    text
}

pub(super) fn text(value: &str) -> String {
    quote(value)
}

pub(super) fn list<T: AsRef<str>>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(|value| quote(value.as_ref())).collect();
    format!("[{}]", values.join(", "))
}

/// A duration within the limits of its key.
pub(super) fn within(value: Duration, least: Duration, most: Duration) -> String {
    quote(&span(value.clamp(least, most)))
}
