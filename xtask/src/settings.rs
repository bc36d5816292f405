//! What the documentation of each key becomes: packaging/config.toml, and kube-rebootd.toml(5), the rest of which is
//! settings.roff.

use anyhow::{Context as _, Result};
use kube_rebootd_core::config::{Entry, Preset, Section, Table, reference};

/// The page without the keys, and their place.
const PAGE: &str = include_str!("settings.roff");
/// When the page last changed its meaning.
const DATE: &str = "2026-11-23";
/// Characters of a line of the file.
const WIDTH: usize = 100;
/// The file before its first key.
const HEAD: &str = include_str!("settings.head");
/// In the file each array of tables is an example, with these values for what has no default or says little.
const EXAMPLE: [(&str, &str, &str); 17] = [
    ("triggers.check", "name", "\"firmware\""),
    (
        "triggers.check",
        "command",
        "[\"/usr/local/bin/firmware-pending\"]",
    ),
    ("triggers.check", "reboot_exit_codes", "[10]"),
    ("drain.order", "name", "\"databases\""),
    ("drain.order", "pods", "[\"shop: tier=db\"]"),
    ("drain.escalate", "name", "\"cache\""),
    ("drain.escalate", "pods", "[\"shop: app=cache\"]"),
    ("drain.escalate", "grace", "\"30s\""),
    ("gates.command", "name", "\"ceph\""),
    (
        "gates.command",
        "command",
        "[\"/usr/local/libexec/ceph-clean\"]",
    ),
    ("gates.prometheus", "name", "\"main\""),
    ("gates.prometheus", "url", "\"http://127.0.0.1:9090\""),
    ("windows", "name", "\"nights\""),
    ("windows", "days", "[\"mon-thu\", \"last sunday\"]"),
    ("windows", "start", "\"22:00\""),
    ("windows", "end", "\"05:00\""),
    ("windows", "time_zone", "\"Europe/Berlin\""),
];

/// packaging/config.toml: every key with its default, commented out.
pub(crate) fn file() -> String {
    let mut file = HEAD.to_owned();
    for Table { section, entries } in reference() {
        file.push('\n');
        file.extend(wrapped(section.text, "# "));
        if section.many() {
            file.extend(["#\n# ", &section.header(), "\n"]);
        } else if !section.name.is_empty() {
            file.extend([&section.header(), "\n"]);
        }
        let keys = entries.iter().map(|entry| in_file(section, entry));
        // An empty line would end the example.
        file.push_str(
            &keys
                .collect::<Vec<_>>()
                .join(if section.many() { "" } else { "\n" }),
        );
    }
    file
}

fn in_file(section: &Section, entry: &Entry) -> String {
    let example = EXAMPLE
        .iter()
        .find(|(array, name, _)| (*array, *name) == (section.name, entry.name));
    let (words, key, value) = match example {
        Some((_, _, value)) => ("# # ", "# ", *value),
        None if section.many() => ("# # ", "# ", entry.value.as_str()),
        None => ("# ", "#", entry.value.as_str()),
    };
    let mut text: String = wrapped(entry.text, words).collect();
    text.extend(wrapped(&format!("Type: {}.", entry.kind), words));
    text.extend([key, entry.name, " = ", value, "\n"]);
    text
}

/// Lines of comment, each with `mark` before it.
fn wrapped(text: &str, mark: &str) -> impl Iterator<Item = String> {
    let mut lines = Vec::new();
    for part in text.split("\n\n") {
        if part.trim() == "PRESETS" {
            lines.extend(presets().map(|[name, command, reboot, ok]| {
                format!("  {name:<23} {command:<27} {reboot:<8} {ok}")
            }));
            continue;
        }
        let mut line = String::new();
        for word in part.split_whitespace() {
            if !line.is_empty() && mark.len() + line.chars().count() + word.chars().count() >= WIDTH
            {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    let mark = mark.to_owned();
    let lines = lines.into_iter().filter(|line| !line.is_empty());
    lines.map(move |line| format!("{mark}{line}\n"))
}

/// The table of presets with its heads: name, command, codes.
fn presets() -> impl Iterator<Item = [String; 4]> {
    let known = Preset::WORDS
        .iter()
        .filter_map(|(name, preset)| Some((*name, (*preset)?)));
    let codes = |codes: &[u8]| {
        let codes: Vec<String> = codes.iter().map(u8::to_string).collect();
        codes.join(", ")
    };
    let rows = known.map(move |(name, preset)| {
        let command = preset.command();
        [
            name.to_owned(),
            command.map_or_else(|| "your own".to_owned(), |words| words.join(" ")),
            codes(preset.reboot_exit_codes()),
            codes(preset.ok_exit_codes()),
        ]
    });
    [["preset", "command", "reboot", "ok"].map(str::to_owned)]
        .into_iter()
        .chain(rows)
}

/// kube-rebootd.toml(5) in roff: of each key name and default, then type and range, then what it does.
pub(crate) fn page() -> Result<String> {
    let place = PAGE.split_once(".\\\" HERE\n");
    let (before, after) = place.context("settings.roff does not name the place of the keys")?;
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(
        "'\\\" t\n.\\\" Made by `make packaging` from core/src/config/keys/ and xtask/src/settings.roff.\n\
         .TH kube\\-rebootd.toml 5 {DATE} \"kube-rebootd {version}\" \"File Formats\"\n{before}"
    );
    for Table { section, entries } in reference() {
        let heading = match (section.name.is_empty(), section.many()) {
            (true, _) => "OPTIONS OUTSIDE ANY TABLE".to_owned(),
            (false, true) => format!("{} SECTIONS", section.header()),
            (false, false) => format!("{} SECTION", section.header()),
        };
        page.extend([".SH ", &heading, "\n"]);
        page.push_str(&paragraphs(section.text, ".PP\n"));
        for entry in &entries {
            let none = section.many() && entry.name == "name";
            let default = if none {
                String::new()
            } else {
                format!(" = {}", escaped(&entry.value))
            };
            page.extend([".TP\n.BR ", entry.name, " \"", &default, "\"\n"]);
            page.extend([".I ", &escaped(&entry.kind), ".\n"]);
            page.push_str(&paragraphs(entry.text, ".IP\n"));
        }
    }
    page.push_str(after);
    Ok(page)
}

/// `next` begins a paragraph after the first.
fn paragraphs(text: &str, next: &str) -> String {
    let mut page = String::new();
    for part in text.split("\n\n") {
        if part.trim() == "PRESETS" {
            page.push_str(".TS\nl l l l.\n");
            for (nth, row) in presets().enumerate() {
                let row = row.map(|cell| match nth {
                    0 => format!("\\fB{cell}\\fR"),
                    _ => escaped(&cell),
                });
                page.extend([&row.join("\t"), "\n"]);
            }
            page.push_str(".TE\n");
            continue;
        }
        if !page.is_empty() {
            page.push_str(next);
        }
        let lines = part.lines().map(str::trim).filter(|line| !line.is_empty());
        page.extend(lines.flat_map(|line| [roff(line), "\n".to_owned()]));
    }
    page
}

/// One line of documentation: what is literal in bold, and the names of manual pages.
fn roff(line: &str) -> String {
    let mut out = String::new();
    for (nth, part) in line.split('`').enumerate() {
        if nth % 2 == 1 {
            out.extend(["\\fB", &escaped(part), "\\fR"]);
            continue;
        }
        for word in part.split_inclusive(' ') {
            match word.split_once('(') {
                Some((page, rest)) if !page.is_empty() && rest.starts_with(char::is_numeric) => {
                    out.extend(["\\fB", &escaped(page), "\\fR(", rest]);
                }
                _ => out.push_str(&escaped(word)),
            }
        }
    }
    // A line that begins so would be a request.
    if out.starts_with(['.', '\'']) {
        out.insert_str(0, "\\&");
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('"', "\\(dq")
}
