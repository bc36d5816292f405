//! What a reload changes, key by key, and what of it counts only later (I12).
//!
//! The keys are those of the tables as they were read: there is no second list of them. What is said here reaches the journal:
//! of a key that may hold a secret only that it changed. `config show`, which root asks for, has every value.

use std::fmt;
use std::path::PathBuf;

use super::file::one_line;
use super::keys::{Entry, Table, check, coordination, drain, escalate, order};

/// What stays as it was until it ends, whatever is configured meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bound {
    /// A slot is held: it stays where it was taken (I4).
    pub hold: bool,
    /// A drain is under way: it keeps the policy it began with.
    pub drain: bool,
}

/// One key, or one `[[triggers.check]]` as a whole, whose value is another one; shown as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Dotted; of a check with its name.
    pub key: String,
    pub what: What,
    /// When it counts, in words; none: at once.
    pub later: Option<&'static str>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Another value, both as TOML; `from` is the file of the new one, none: it is the default.
    Value {
        before: String,
        now: String,
        from: Option<PathBuf>,
    },
    /// Another value, which may be a secret; the file as above.
    Secret(Option<PathBuf>),
    /// A check that was not there, and its file.
    New(Option<PathBuf>),
    /// A check that is no more.
    Removed,
}

/// What differs, in the order of `config show`; where a value merely stands in another file, nothing does.
pub fn changes(old: &[Table], new: &[Table], bound: Bound) -> Vec<Change> {
    let there = |tables: &[Table], table: &Table| tables.iter().any(|one| same(one, table));
    let mut changes = Vec::new();
    for table in new {
        match old.iter().find(|one| same(one, table)) {
            Some(before) => changes.extend(entries(before, table, bound)),
            None => changes.push(Change {
                key: title(table),
                what: What::New(named(table).and_then(|entry| entry.from.clone())),
                later: later(table.section.name, "", bound),
            }),
        }
    }
    let gone = old.iter().filter(|table| !there(new, table));
    changes.extend(gone.map(|table| Change {
        key: title(table),
        what: What::Removed,
        later: later(table.section.name, "", bound),
    }));
    changes
}

/// The keys of one table.
fn entries(old: &Table, new: &Table, bound: Bound) -> Vec<Change> {
    let pairs = new.entries.iter().filter_map(|entry| {
        let before = old.entries.iter().find(|one| one.name == entry.name)?;
        (before.value != entry.value).then_some((before, entry))
    });
    let change = |(before, entry): (&Entry, &Entry)| Change {
        key: match title(new).as_str() {
            "" => entry.name.to_owned(),
            title => format!("{title}.{}", entry.name),
        },
        what: if before.secret || entry.secret {
            What::Secret(entry.from.clone())
        } else {
            What::Value {
                before: before.value.clone(),
                now: entry.value.clone(),
                from: entry.from.clone(),
            }
        },
        later: later(new.section.name, entry.name, bound),
    };
    pairs.map(change).collect()
}

fn later(section: &str, key: &str, bound: Bound) -> Option<&'static str> {
    let of_slot = [
        coordination::NAMESPACE.name,
        coordination::GROUP.name,
        coordination::GROUP_LABEL.name,
    ];
    if bound.hold && section == coordination::SECTION.name && of_slot.contains(&key) {
        return Some("once the slot that is held is given back");
    }
    let of_drain = section == drain::SECTION.name && key != drain::MODE.name;
    let with_it = [order::SECTION.name, escalate::SECTION.name].contains(&section);
    if bound.drain && (of_drain || with_it) {
        return Some("from the next drain on");
    }
    None
}

/// The entry that tells one table of an array from the others.
fn named(table: &Table) -> Option<&Entry> {
    let name = |entry: &&Entry| table.section.many() && entry.name == check::NAME.name;
    table.entries.iter().find(name)
}

fn same(one: &Table, other: &Table) -> bool {
    let name = |table| named(table).map(|entry: &Entry| entry.value.clone());
    one.section.name == other.section.name && name(one) == name(other)
}

fn title(table: &Table) -> String {
    match named(table) {
        Some(name) => format!("{}[{}]", table.section.name, name.value),
        None => table.section.name.to_owned(),
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = |from: &Option<PathBuf>| {
            let file = from.as_ref();
            file.map_or_else(
                || "default".to_owned(),
                |file| one_line(&file.display().to_string()),
            )
        };
        match &self.what {
            What::Value { before, now, from } => {
                write!(f, "{}: {before} -> {now} ({})", self.key, file(from))?;
            }
            What::Secret(from) => write!(f, "{}: changed ({})", self.key, file(from))?,
            What::New(from) => write!(f, "{}: new ({})", self.key, file(from))?,
            What::Removed => write!(f, "{}: removed", self.key)?,
        }
        match self.later {
            Some(later) => write!(f, ", {later}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::config::{Effective, parse};

    const FILE: &str = "/etc/kube-rebootd/config.d/10.toml";

    fn read(text: &str) -> Effective {
        parse(Path::new(FILE), text).expect("it is valid")
    }

    fn said(old: &str, new: &str, bound: Bound) -> Vec<String> {
        let changes = changes(&read(old).tables, &read(new).tables, bound);
        changes.iter().map(ToString::to_string).collect()
    }

    const CHECK: &str =
        "[[triggers.check]]\nname = \"a\"\ncommand = [\"/bin/a\"]\nreboot_exit_codes = [1]\n";

    #[test]
    fn what_changed_is_said_key_by_key() {
        let slow = CHECK.to_owned() + "period = \"2h\"\n";
        let table: [(&str, &str, &[&str]); 9] = [
            ("", "", &[]),
            // The default, written out.
            ("", "mode = \"active\"", &[]),
            (
                "",
                "mode = \"observe\"",
                &[&format!("mode: \"active\" -> \"observe\" ({FILE})")],
            ),
            (
                "mode = \"observe\"",
                "",
                &["mode: \"observe\" -> \"active\" (default)"],
            ),
            (
                "[drain]\ntimeout = \"40m\"",
                "[drain]\ntimeout = \"20m\"\n[reboot]\nmax_per_day = 3",
                &[
                    &format!("drain.timeout: \"40m\" -> \"20m\" ({FILE})"),
                    &format!("reboot.max_per_day: 2 -> 3 ({FILE})"),
                ],
            ),
            (
                "",
                CHECK,
                &[&format!("triggers.check[\"a\"]: new ({FILE})")],
            ),
            (CHECK, "", &["triggers.check[\"a\"]: removed"]),
            (
                CHECK,
                &slow,
                &[&format!(
                    "triggers.check[\"a\"].period: \"1h\" -> \"2h\" ({FILE})"
                )],
            ),
            // No value forges a line of the journal.
            (
                "[reboot]\nmessage = \"a\"",
                "[reboot]\nmessage = \"b\\nc\"",
                &[&format!(
                    "reboot.message: \"a\" -> \"b\\U0000000Ac\" ({FILE})"
                )],
            ),
        ];
        for (old, new, expected) in table {
            assert_eq!(said(old, new, Bound::default()), expected, "{old} to {new}");
        }
    }

    #[test]
    fn i12_of_a_key_that_may_hold_a_secret_only_that_it_changed_is_said() {
        let webhook =
            |secret: &str| format!("[notify]\nwebhook = \"https://h.example/{secret}\"\n");
        let files = |secret: &str| {
            format!(
                "[notify]\nwebhook_file = \"/{secret}\"\ntoken_file = \"/{secret}\"\ntemplate = \"slack\"\n"
            )
        };
        let changed = |key: &str| format!("notify.{key}: changed ({FILE})");
        let said = |old: &str, new: &str| said(old, new, Bound::default());
        assert_eq!(
            said(&webhook("hush1"), &webhook("hush2")),
            [changed("webhook")]
        );
        assert_eq!(said("", &webhook("hush1")), [changed("webhook")]);
        let command = |secret: &str| format!("[notify]\ncommand = [\"/t\", \"{secret}\"]\n");
        assert_eq!(
            said(&command("hush1"), &command("hush2")),
            [changed("command")]
        );
        assert_eq!(
            said(&webhook("hush1"), ""),
            ["notify.webhook: changed (default)"]
        );
        assert_eq!(
            said(&webhook("hush1"), &files("hush2")),
            [
                "notify.webhook: changed (default)",
                &changed("webhook_file"),
                &changed("token_file"),
                &format!("notify.template: \"json\" -> \"slack\" ({FILE})"),
            ]
        );
        // Root, who asks `config show`, may know.
        assert!(read(&webhook("hush1")).text.contains("hush1"));
    }

    #[test]
    fn what_counts_later_is_said() {
        let new = "[coordination]\nnamespace = \"x\"\nmin_interval = \"1m\"\n[drain]\nmode = \"never\"\njobs = \"wait\"\n";
        let later = |bound| {
            let changes = changes(&read("").tables, &read(new).tables, bound);
            let later = changes.into_iter().filter(|change| change.later.is_some());
            later.map(|change| change.key).collect::<Vec<_>>()
        };
        assert!(later(Bound::default()).is_empty());
        let hold = Bound {
            hold: true,
            drain: false,
        };
        assert_eq!(later(hold), ["coordination.namespace"]);
        let drain = Bound {
            hold: true,
            drain: true,
        };
        assert_eq!(later(drain), ["coordination.namespace", "drain.jobs"]);
        let words = said("", "[drain]\njobs = \"wait\"", drain);
        assert_eq!(
            words,
            [format!(
                "drain.jobs: \"evict\" -> \"wait\" ({FILE}), from the next drain on"
            )]
        );
    }

    proptest! {
        #[test]
        fn i12_there_is_a_change_exactly_where_the_values_differ(
            old in (1..1440_u32, any::<bool>()), new in (1..1440_u32, any::<bool>()),
        ) {
            let text = |(minutes, pods): (u32, bool)| {
                format!("[reboot]\ndelay = \"{minutes}m\"\n[health]\npods = {pods}\n")
            };
            let (old, new) = (read(&text(old)), read(&text(new)));
            let changes = changes(&old.tables, &new.tables, Bound::default());
            prop_assert_eq!(changes.is_empty(), old.config == new.config);
            prop_assert!(changes.len() <= 2);
        }
    }
}
