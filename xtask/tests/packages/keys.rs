//! kube-rebootd.toml(5) against the code: every key and no other, its default, its type, its range (I12).
//!
//! The page keeps a form for this: `.BR key " = default"`, then `.I type, range.`

use std::collections::BTreeMap;
use std::path::Path;

use kube_rebootd_core::config;

const PAGE: &str = include_str!("../../../packaging/man/kube-rebootd.toml.5");
/// A check with all that has no default.
const CHECK: [(&str, &str); 3] = [
    ("name", "\"x\""),
    ("command", "[\"/x\"]"),
    ("reboot_exit_codes", "[1]"),
];

/// What the page says of one key.
struct Entry {
    default: String,
    kind: String,
}

/// Section and key; the section of keys outside any table is empty.
type Key = (String, String);

fn plain(roff: &str) -> String {
    roff.replace("\\(dq", "\"").replace("\\-", "-")
}

fn documented() -> BTreeMap<Key, Entry> {
    let mut found = BTreeMap::new();
    let mut section = String::new();
    let mut lines = PAGE.lines();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix(".SH ") {
            let name = heading.trim_start_matches('[').split(']').next();
            let is_table = heading.starts_with('[');
            name.filter(|_| is_table)
                .unwrap_or_default()
                .clone_into(&mut section);
        }
        if line != ".TP" {
            continue;
        }
        let name = lines.next().unwrap();
        let rest = name
            .strip_prefix(".BR ")
            .unwrap_or_else(|| panic!("{name}"));
        let (key, default) = rest.split_once(' ').unwrap();
        let default = plain(default.trim_matches('"'));
        let default = default.strip_prefix(" = ").unwrap_or(&default).to_owned();
        let kind = lines.next().unwrap();
        let kind = kind.strip_prefix(".I ").and_then(|k| k.strip_suffix('.'));
        let kind = plain(kind.unwrap_or_else(|| panic!("{key}: no type")));
        let twice = found.insert((section.clone(), key.to_owned()), Entry { default, kind });
        assert!(twice.is_none(), "[{section}] {key} stands there twice");
    }
    found
}

/// Every key with its default; `None` where there is none.
fn in_the_code() -> BTreeMap<Key, Option<String>> {
    let mut text = String::from("[[triggers.check]]\n");
    for (key, value) in CHECK {
        text.extend([key, " = ", value, "\n"]);
    }
    let shown = config::parse(Path::new("x"), &text).unwrap().text;
    let mut found = BTreeMap::new();
    let mut section = String::new();
    for line in shown.lines().filter(|line| !line.is_empty()) {
        if line.starts_with('[') {
            line.trim_matches(['[', ']']).clone_into(&mut section);
            continue;
        }
        let (key, value) = line.split_once(" = ").unwrap();
        let default = value.strip_suffix(" # default").map(str::to_owned);
        found.insert((section.clone(), key.to_owned()), default);
    }
    found
}

#[test]
fn the_page_has_every_key_with_its_default_and_no_other() {
    let (page, code) = (documented(), in_the_code());
    let keys: Vec<&Key> = page.keys().collect();
    assert_eq!(keys, code.keys().collect::<Vec<_>>());
    for (key, default) in code {
        if let Some(default) = default {
            assert_eq!(page[&key].default, default, "{key:?}");
        }
    }
}

#[test]
fn i12_the_page_has_the_types_and_ranges_that_are_checked() {
    for ((section, key), entry) in documented() {
        let (value, wants) = wrong(&entry.kind);
        let text = alone(&section, &key, &value);
        let error = config::parse(Path::new("x"), &text).unwrap_err();
        let dotted = match section.as_str() {
            "" => key.clone(),
            section => format!("{section}.{key}"),
        };
        let found = error.problems.iter().find(|p| p.key == dotted);
        let found = found.unwrap_or_else(|| panic!("{text}: {error}"));
        assert!(
            found.reason.contains(&wants),
            "the page says of {dotted} {:?}; {value} is refused by {:?}, without {wants:?}",
            entry.kind,
            found.reason
        );
        // What is enumerated is all there is.
        if entry.kind.starts_with('"') && !entry.kind.contains('%') {
            let (_, all) = found.reason.split_once("write ").unwrap();
            let said = quoted(&entry.kind) + usize::from(entry.kind.ends_with("or empty"));
            assert_eq!(said, quoted(all), "{dotted}: {} but {all}", entry.kind);
        }
    }
}

fn quoted(text: &str) -> usize {
    text.matches('"').count() / 2
}

/// A text that gives `key` alone the value, in a table that is sound but for it.
fn alone(section: &str, key: &str, value: &str) -> String {
    let mut text = match section {
        "" => String::new(),
        "triggers.check" => "[[triggers.check]]\n".into(),
        section => format!("[{section}]\n"),
    };
    if section == "triggers.check" {
        for (other, value) in CHECK.into_iter().filter(|(other, _)| *other != key) {
            text.extend([other, " = ", value, "\n"]);
        }
    }
    text + &format!("{key} = {value}\n")
}

/// A value that a key of this type must refuse, and what the reason must say.
fn wrong(kind: &str) -> (String, String) {
    let (kind, range) = kind.split_once(", ").unwrap_or((kind, ""));
    let (least, most) = range.split_once(" to ").unwrap_or_default();
    let most = most.split(',').next().unwrap_or_default();
    let longest = most == "8784h";
    let (value, wants) = match kind {
        "duration" if least != "0s" => ("\"0s\"", format!("write {least} to {most}")),
        "duration" if longest => ("\"8785h\"", format!("write at most {most}")),
        "duration" => ("\"8784h\"", format!("write {least} to {most}")),
        "integer" => ("0", format!("write {least} to {most}")),
        "boolean" => ("1", "write true or false".into()),
        "path" => ("\"x\"", "write an absolute path".into()),
        "list of built-in checks" => ("[\"x\"]", "\"kernel\" or \"libraries\"".into()),
        "list of paths" => ("[\"x\"]", "not an absolute path".into()),
        "list of integers" => ("[256]", format!("write {least} to {most}")),
        "list of label selectors" => ("[1]", "label selectors".into()),
        "command" => ("[1]", "write words like".into()),
        "string"
        | "DNS label"
        | "label value"
        | "label key"
        | "name of a Node"
        | "name of a ServiceAccount" => ("1", "write ".into()),
        "\"1%\" to \"100%\"" => (
            "true",
            "write \"1%\" to \"100%\", or an integer of 1 or more".into(),
        ),
        words if words.starts_with('"') => ("\"?\"", words.split('"').nth(1).unwrap().to_owned()),
        other => panic!("no wrong value is known for {other:?}"),
    };
    (value.to_owned(), wants)
}
