//! Label selectors, in the words of `kubectl -l` (labels.Parse in k8s.io/apimachinery). Keeps I12: what
//! cannot be understood is an error, never an empty selector.

mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use thiserror::Error;

pub use pods::{BadPodSelector, PodSelector};

/// All of its requirements must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(BTreeSet<String>),
    /// True as well when the key is absent, as Kubernetes does.
    NotIn(BTreeSet<String>),
}

/// What is wrong with a selector, and how to write it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "label selector {text:?}: {why}; write key=value, key!=value, key in (a,b), key notin (a,b), key or !key, joined by commas"
)]
pub struct SelectorError {
    text: String,
    why: String,
}

impl Selector {
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.test {
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::In(values) => value.is_some_and(|value| values.contains(value)),
                Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            }
        })
    }

    /// Selectors of which at least one selects what this one does not, and none what it does.
    pub(crate) fn opposite(&self) -> Vec<String> {
        let one = |requirement: &Requirement| {
            let key = &requirement.key;
            let values = |values: &BTreeSet<String>| {
                let values: Vec<&str> = values.iter().map(String::as_str).collect();
                values.join(",")
            };
            match &requirement.test {
                Test::Exists => format!("!{key}"),
                Test::Absent => key.clone(),
                Test::In(wanted) => format!("{key} notin ({})", values(wanted)),
                Test::NotIn(unwanted) => format!("{key} in ({})", values(unwanted)),
            }
        };
        self.0.iter().map(one).collect()
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let fail = |why: String| SelectorError {
            text: text.to_owned(),
            why,
        };
        parts(text)
            .map_err(fail)?
            .into_iter()
            .map(|part| requirement(part).map_err(fail))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// Splits at the commas outside parentheses.
fn parts(text: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let (mut start, mut inside) = (0, false);
    for (at, char) in text.char_indices() {
        match char {
            '(' if inside => return Err("a ( inside ( )".to_owned()),
            ')' if !inside => return Err("a ) without (".to_owned()),
            '(' => inside = true,
            ')' => inside = false,
            ',' if !inside => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err("a ( without )".to_owned());
    }
    parts.push(text[start..].trim());
    Ok(parts)
}

fn requirement(part: &str) -> Result<Requirement, String> {
    if let Some(open) = part.find('(') {
        return set(&part[..open], &part[open + 1..]);
    }
    let one = |key: &str, value: &str| -> Result<(String, BTreeSet<String>), String> {
        Ok((key_of(key)?, BTreeSet::from([value_of(value)?])))
    };
    let (key, test) = if let Some((key, value)) = part.split_once("!=") {
        let (key, values) = one(key, value)?;
        (key, Test::NotIn(values))
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        let (key, values) = one(key, value)?;
        (key, Test::In(values))
    } else if let Some(key) = part.strip_prefix('!') {
        (key_of(key)?, Test::Absent)
    } else {
        (key_of(part)?, Test::Exists)
    };
    Ok(Requirement { key, test })
}

/// `key in (` and `a,b)`.
fn set(head: &str, tail: &str) -> Result<Requirement, String> {
    let Some(values) = tail.strip_suffix(')') else {
        return Err(format!("text after ) in {tail:?}"));
    };
    let values = values
        .split(',')
        .map(value_of)
        .collect::<Result<BTreeSet<_>, _>>()?;
    let mut words = head.split_whitespace();
    let (Some(key), Some(operator), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!("{head:?} before ( is not `key in` or `key notin`"));
    };
    let test = match operator {
        "in" => Test::In(values),
        "notin" => Test::NotIn(values),
        other => return Err(format!("{other:?} is neither in nor notin")),
    };
    Ok(Requirement {
        key: key_of(key)?,
        test,
    })
}

/// A qualified name: an optional DNS prefix and a slash, then a name of at most 63 characters.
fn key_of(text: &str) -> Result<String, String> {
    let text = text.trim();
    let (prefix, name) = text
        .split_once('/')
        .map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let dns =
        |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || "-.".contains(char);
    let prefix_good = prefix
        .is_none_or(|prefix| !prefix.is_empty() && prefix.len() <= 253 && prefix.chars().all(dns));
    if name.is_empty() || !name_good(name) || !prefix_good {
        return Err(format!("{text:?} is not a label key"));
    }
    Ok(text.to_owned())
}

/// Empty, or at most 63 characters of a name.
fn value_of(text: &str) -> Result<String, String> {
    let text = text.trim();
    if name_good(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a label value"))
    }
}

fn name_good(text: &str) -> bool {
    let edge = |char: Option<char>| char.is_none_or(|char| char.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.chars().next())
        && edge(text.chars().next_back())
        && text
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || "-_.".contains(char))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_kubectl_does() {
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let labels = BTreeMap::from([label("app", "web"), label("k8s-1.example.com/part", "ui")]);
        for (text, yes) in [
            ("app=web", true),
            ("app == web", true),
            ("app=db", false),
            ("app!=db", true),
            ("tier!=db", true),
            ("app in (db, web)", true),
            ("app in(db,web)", true),
            ("tier in (db)", false),
            ("app notin (web)", false),
            ("tier notin (web)", true),
            ("app", true),
            ("!app", false),
            ("!tier", true),
            ("app in (web,db),!tier", true),
            ("app,tier", false),
            ("tier=", false),
            ("k8s-1.example.com/part=ui", true),
            ("k8s-1.example.com/part", true),
            ("example.com/part", false),
        ] {
            let selector: Selector = text.parse().unwrap();
            assert_eq!(selector.matches(&labels), yes, "{text}");
        }
    }

    #[test]
    fn the_opposite_selects_what_it_does_not() {
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let all = [
            BTreeMap::new(),
            BTreeMap::from([label("app", "web")]),
            BTreeMap::from([label("app", "db"), label("tier", "a")]),
            BTreeMap::from([label("app", ""), label("tier", "b")]),
        ];
        for text in [
            "app=web",
            "app!=web",
            "app",
            "!app",
            "app in (web,db)",
            "app notin (web,db)",
            "app=",
            "app=db,tier=a",
            "app,tier notin (a),!other",
        ] {
            let selector: Selector = text.parse().unwrap();
            let opposite = selector.opposite();
            let opposite: Vec<Selector> = opposite.iter().map(|one| one.parse().unwrap()).collect();
            for labels in &all {
                let others = opposite.iter().any(|one| one.matches(labels));
                assert_ne!(selector.matches(labels), others, "{text} {labels:?}");
            }
        }
    }

    #[test]
    fn i12_what_is_not_a_selector_is_refused() {
        for text in [
            "",
            "a,",
            "a b",
            "a in",
            "a in (b",
            "a b)",
            "a of (b)",
            "in (b)",
            "=b",
            "!",
            "a=b=c",
            "a in (b) c",
            "a in ((b))",
            "-a",
            "a=-",
            "A.b/c",
            "/a",
        ] {
            assert!(text.parse::<Selector>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn i12_names_and_prefixes_have_a_greatest_length() {
        for (key, sound) in [
            ("a".repeat(63), true),
            ("a".repeat(64), false),
            (format!("{}/b", "a".repeat(253)), true),
            (format!("{}/b", "a".repeat(254)), false),
        ] {
            assert_eq!(key.parse::<Selector>().is_ok(), sound, "{key}");
        }
    }

    #[test]
    fn i12_the_parenthesis_that_is_too_many_is_named() {
        for (text, why) in [
            ("a in ((b))", "a ( inside ( )"),
            ("a in b)", "a ) without ("),
            ("a in (b", "a ( without )"),
        ] {
            let said = text.parse::<Selector>().unwrap_err().to_string();
            assert!(said.contains(&format!(": {why};")), "{said}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in ".{0,40}") {
            let _ = text.parse::<Selector>();
        }
    }
}
