//! Label selectors in Kubernetes' text form (apimachinery `labels.Parse`), for `drain.skip` (I9).

use std::collections::BTreeMap;
use std::fmt;

use super::is_label_value;

/// Requirements that must all hold; made by [`Selector::parse`], never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    text: String,
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    Exists(String),
    Absent(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
}

impl Selector {
    /// Reads `key=value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`, `key`, `!key`, joined
    /// by commas. The error is the reason in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let requirements = split(text)?
            .into_iter()
            .map(|part| requirement(part.trim()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            text: text.to_owned(),
            requirements,
        })
    }

    /// Whether an object with these labels is selected. As in Kubernetes, `key!=value` and
    /// `notin` also select what lacks the key.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|r| match r {
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::Absent(key) => !labels.contains_key(key),
            Requirement::In(key, values) => labels.get(key).is_some_and(|v| values.contains(v)),
            Requirement::NotIn(key, values) => labels.get(key).is_none_or(|v| !values.contains(v)),
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Splits at the commas outside parentheses.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let (mut start, mut inside) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            '(' if inside => return Err("has a parenthesis within parentheses".into()),
            '(' => inside = true,
            ')' if !inside => return Err("has a `)` without `(`".into()),
            ')' => inside = false,
            ',' if !inside => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err("has a `(` without `)`".into());
    }
    parts.push(&text[start..]);
    Ok(parts)
}

fn requirement(part: &str) -> Result<Requirement, String> {
    if part.is_empty() {
        return Err("has an empty requirement".into());
    }
    if let Some(key) = part.strip_prefix('!') {
        return Ok(Requirement::Absent(label_key(key)?));
    }
    if let Some((left, list)) = part.split_once('(') {
        return set(left.trim(), list.trim_end());
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(
            label_key(key)?,
            vec![label_value(value)?],
        ));
    }
    if let Some((key, value)) = part.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        return Ok(Requirement::In(label_key(key)?, vec![label_value(value)?]));
    }
    Ok(Requirement::Exists(label_key(part)?))
}

/// `key in (a,b)`, already split at the parenthesis.
fn set(left: &str, list: &str) -> Result<Requirement, String> {
    let Some(list) = list.strip_suffix(')') else {
        return Err("has text after `)`".into());
    };
    let values = list
        .split(',')
        .map(label_value)
        .collect::<Result<Vec<_>, _>>()?;
    match left.rsplit_once(char::is_whitespace) {
        Some((key, "in")) => Ok(Requirement::In(label_key(key)?, values)),
        Some((key, "notin")) => Ok(Requirement::NotIn(label_key(key)?, values)),
        _ => Err("needs `in` or `notin` before `(`".into()),
    }
}

fn label_key(text: &str) -> Result<String, String> {
    let text = text.trim();
    if is_label_key(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is no label key"))
    }
}

fn label_value(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || is_label_value(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is no label value"))
    }
}

/// `[prefix/]name`: a name like a label value, a prefix like a DNS subdomain
/// (apimachinery `IsQualifiedName`).
pub(crate) fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_label_value(name),
        None => is_label_value(text),
    }
}

fn is_subdomain(text: &str) -> bool {
    // Unlike a DNS label, each part of a subdomain has no length limit of its own in Kubernetes.
    text.len() <= 253 && text.split('.').all(is_dns_part)
}

/// Lower-case letters, digits and `-`, alphanumeric at both ends.
pub(crate) fn is_dns_part(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(word)
        && bytes.last().copied().is_some_and(word)
        && bytes.iter().all(|b| word(*b) || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        Selector::parse(selector).unwrap().matches(&labels)
    }

    #[test]
    fn i9_selectors_select_as_kubernetes_does() {
        for (selector, labels, expected) in [
            ("a=b", &[("a", "b")][..], true),
            ("a==b", &[("a", "b")], true),
            ("a=b", &[("a", "c")], false),
            ("a=b", &[], false),
            ("a=", &[("a", "")], true),
            ("a!=b", &[], true),
            ("a!=b", &[("a", "b")], false),
            ("a in (b, c)", &[("a", "c")], true),
            ("a in (b,c)", &[("a", "d")], false),
            ("a notin (b)", &[("a", "d")], true),
            ("example.com/a", &[("example.com/a", "x")], true),
            ("!a", &[("a", "x")], false),
            ("!a", &[], true),
            ("a=b,c", &[("a", "b")], false),
            ("a in (b,x),c", &[("a", "b"), ("c", "")], true),
        ] {
            assert_eq!(selects(selector, labels), expected, "{selector} {labels:?}");
        }
    }

    #[test]
    fn malformed_selectors_are_refused() {
        for text in [
            "",
            ",",
            "a,",
            "=b",
            "a in",
            "a in (",
            "a in b)",
            "a (b)",
            "a b",
            "a=b c",
            "!",
            "a=(b)",
            "-a",
            "/a",
            "A.com/a",
            "a in ((b))",
            "a in (b)c",
            "a/b/c",
            "a=ü",
        ] {
            assert!(Selector::parse(text).is_err(), "{text}");
        }
    }
}
