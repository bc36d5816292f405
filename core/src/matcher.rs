//! Conditions for the labels of alerts, as the configuration names them and as Alertmanager takes them; and which alerts a
//! silence covers.

use std::str::{Chars, FromStr};

use serde::{Deserialize, Serialize};

use crate::label::is_subdomain;
use crate::text::hostile;

/// What stands for the name of the Node, and for that of the host.
const NODE: &str = "{node}";
const HOSTNAME: &str = "{hostname}";

/// One condition for the labels of an alert, as in Alertmanager's API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Matcher {
    /// Of the label.
    pub name: String,
    pub value: String,
    /// The value is a regular expression, for the whole value of the label.
    pub is_regex: bool,
    /// It has to match; false: it must not.
    #[serde(default = "yes")]
    pub is_equal: bool,
}

/// What the API means where it is not said.
fn yes() -> bool {
    true
}

/// The label that holds an alert's name.
pub(crate) const ALERT: &str = "alertname";
/// What the names of our own alerts, those of packaging/alerts, begin with.
pub(crate) const OWN: &str = "KubeRebootd";

impl Matcher {
    /// Of alerts that are not our own: that a node does not come back, among others, is never silenced.
    fn of_others() -> Self {
        Self {
            name: ALERT.to_owned(),
            value: format!("{OWN}.*"),
            is_regex: true,
            is_equal: false,
        }
    }

    /// Whether both are the same conditions; Alertmanager may sort them.
    pub(crate) fn same(one: &[Self], other: &[Self]) -> bool {
        let sorted = |all: &[Self]| {
            let mut all = all.to_vec();
            all.sort();
            all
        };
        one.len() == other.len() && sorted(one) == sorted(other)
    }

    /// It can match no other node's alerts alone.
    fn names(&self) -> bool {
        self.is_equal && [NODE, HOSTNAME].iter().any(|it| self.value.contains(it))
    }

    /// A name that anything may follow is the beginning of other names; also in groups, as `({node}).*`.
    fn runs_on(&self) -> Option<&'static str> {
        let any = |after: &str| {
            let after = after.trim_start_matches(['(', ')']);
            after.starts_with(".*") || after.starts_with(".+")
        };
        let mut names = [NODE, HOSTNAME].into_iter();
        names.find(|it| self.is_regex && self.is_equal && self.value.split(it).skip(1).any(any))
    }
}

/// Whether the name of a host tells it from others: a DNS name, with letters of either case, and not `localhost`, which any
/// host may have.
pub fn is_own_name(hostname: &str) -> bool {
    let name = hostname.to_ascii_lowercase();
    is_subdomain(&name) && name.split('.').next() != Some("localhost")
}

/// The alerts of one silence: all of the conditions have to be true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matchers {
    given: String,
    all: Vec<Matcher>,
}

/// Why a text is no matchers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoMatchers {
    #[error("has {0:?} where a label, `=`, `!=`, `=~` or `!~`, and a value belong")]
    Syntax(String),
    #[error("lacks the double quote that ends a value")]
    Quote,
    #[error("has a character that cannot be shown; remove it")]
    Hostile,
    #[error(
        "names no node, and would silence alerts about others; write {{node}} or {{hostname}} into the value of a matcher with `=` or `=~`"
    )]
    Everybody,
    #[error(
        "has `.*` or `.+` right after {0}, and would silence alerts about others: n10 begins with n1; write {0}(:[0-9]+)? where a port may follow, and {0}([.:].*)? where a domain may"
    )]
    RunsOn(&'static str),
}

impl Matchers {
    /// As the configuration has it.
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Whether the host's name is needed.
    pub fn names_host(&self) -> bool {
        self.all.iter().any(|one| one.value.contains(HOSTNAME))
    }

    /// For this node, and without our own alerts. The first one names the node.
    pub fn of(&self, node: &str, hostname: &str) -> Vec<Matcher> {
        let filled = |one: &Matcher| {
            let (node, hostname) = if one.is_regex {
                (literal(node), literal(hostname))
            } else {
                (node.to_owned(), hostname.to_owned())
            };
            let value = one.value.replace(NODE, &node);
            Matcher {
                value: value.replace(HOSTNAME, &hostname),
                ..one.clone()
            }
        };
        let (names, others): (Vec<&Matcher>, Vec<&Matcher>) =
            self.all.iter().partition(|one| one.names());
        let all = names.into_iter().chain(others).map(filled);
        all.chain([Matcher::of_others()]).collect()
    }
}

/// What the API's filter takes to find silences that have the first of these, which names the node: label, operator and value
/// have to be the same. Of alerts it finds those that the first of these matches.
pub fn filter(matchers: &[Matcher]) -> String {
    let Some(first) = matchers.first() else {
        return String::new();
    };
    let mut quoted = String::new();
    for c in first.value.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    let operator = if first.is_regex { "=~" } else { "=" };
    let filter = format!("{}{operator}\"{quoted}\"", first.name);
    let bytes = filter.bytes().map(|byte| format!("%{byte:02X}"));
    bytes.collect()
}

/// A regular expression (RE2) that matches this text alone.
pub(crate) fn literal(text: &str) -> String {
    let mut literal = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() && c != '-' && c != '_' {
            literal.push('\\');
        }
        literal.push(c);
    }
    literal
}

impl FromStr for Matchers {
    type Err = NoMatchers;

    fn from_str(given: &str) -> Result<Self, NoMatchers> {
        let all = conditions(given)?;
        if !all.iter().any(Matcher::names) {
            return Err(NoMatchers::Everybody);
        }
        if let Some(name) = all.iter().find_map(Matcher::runs_on) {
            return Err(NoMatchers::RunsOn(name));
        }
        Ok(Self {
            given: given.to_owned(),
            all,
        })
    }
}

/// All matchers of a text, which has commas between them; of no node in particular.
pub(crate) fn conditions(given: &str) -> Result<Vec<Matcher>, NoMatchers> {
    if given.contains(hostile) {
        return Err(NoMatchers::Hostile);
    }
    let mut all = Vec::new();
    let mut rest = given.trim();
    loop {
        let (matcher, after) = one(rest)?;
        all.push(matcher);
        match after.trim_start().strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None if after.trim().is_empty() => return Ok(all),
            None => return Err(NoMatchers::Syntax(after.trim().to_owned())),
        }
    }
}

/// The matcher that `text` begins with, and what comes after it.
fn one(text: &str) -> Result<(Matcher, &str), NoMatchers> {
    let syntax = || NoMatchers::Syntax(text.to_owned());
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !of_name(c)).ok_or_else(syntax)?;
    let (name, rest) = text.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(syntax());
    }
    let rest = rest.trim_start();
    let operators = [
        ("=~", true, true),
        ("!~", true, false),
        ("!=", false, false),
        ("=", false, true),
    ];
    let found = operators
        .into_iter()
        .find_map(|(operator, is_regex, is_equal)| {
            let rest = rest.strip_prefix(operator)?;
            Some((rest.trim_start(), is_regex, is_equal))
        });
    let (rest, is_regex, is_equal) = found.ok_or_else(syntax)?;
    let (value, rest) = if let Some(quoted) = rest.strip_prefix('"') {
        unquoted(quoted)?
    } else {
        let (value, rest) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
        let value = value.trim_end();
        if value.is_empty() || value.contains('"') {
            return Err(syntax());
        }
        (value.to_owned(), rest)
    };
    let matcher = Matcher {
        name: name.to_owned(),
        value,
        is_regex,
        is_equal,
    };
    Ok((matcher, rest))
}

/// What stands before the closing quote, in which a backslash keeps quotes and backslashes, and what comes after it.
fn unquoted(text: &str) -> Result<(String, &str), NoMatchers> {
    let mut value = String::new();
    let mut chars: Chars<'_> = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return Ok((value, chars.as_str())),
            '\\' => match chars.clone().next() {
                Some(kept @ ('"' | '\\')) => {
                    chars.next();
                    value.push(kept);
                }
                // Of a regular expression.
                _ => value.push(c),
            },
            c => value.push(c),
        }
    }
    Err(NoMatchers::Quote)
}

#[cfg(test)]
mod tests;
