//! From merged tables to [`Config`], or to all that is wrong with them (I12).

mod array;
mod escalate;
mod gate_command;
mod order;
mod prometheus;
mod sections;
#[cfg(test)]
mod tests;
mod trigger;
mod windows;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::file::{self, ConfigError, Item, Keys, Origin, Problem, Tables, one_line};
use super::keys::{
    self, Section, Table, check, coordination, drain, fleet_lock, gates, health, hooks, metrics,
    node, notify, reboot, root, triggers,
};
use super::reader::Reader;
use super::{Config, Drain, Gates, Hooks, Triggers};
use crate::windows::Windows;
use windows::Zones;

/// A valid configuration and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    pub config: Config,
    /// TOML with every key and `# from FILE` or `# default` behind it; [`parse_effective`] reads
    /// it back to the same `config`.
    pub text: String,
    /// Every key as it was read, in the order of `text`.
    pub tables: Vec<Table>,
    /// Where `gates.exclude_dates` was written.
    dates: Option<Origin>,
}

impl Effective {
    /// Every window is shut for all of the time that is looked ahead from `now`, by dates of these years. Whoever checks a
    /// configuration is told; the daemon takes it, as the dates pass, and its clock may be wrong (I5).
    ///
    /// # Errors
    /// It is so, where it was written, and what to do.
    pub fn opens(&self, now: Timestamp) -> Result<(), ConfigError> {
        let (Some(origin), Some(reason)) = (&self.dates, self.config.shut_for_long(now)) else {
            return Ok(());
        };
        let key = file::dotted(gates::SECTION.name, gates::EXCLUDE_DATES.name);
        let problems = vec![Problem::at(origin, key, reason)];
        Err(ConfigError { problems })
    }
}

/// Reads one text alone, which knows no time zone but UTC; `file` is what problems call it.
pub fn parse(file: &Path, text: &str) -> Result<Effective, ConfigError> {
    merged(&[(file.to_owned(), text.to_owned())], Vec::new(), |_| None)
}

/// Reads what `config show` printed: the last valid configuration, kept beside the state (I12). `zone` as in [`merged`].
pub fn parse_effective(
    text: &str,
    zone: impl Fn(&str) -> Option<TimeZone>,
) -> Result<Effective, ConfigError> {
    let file = PathBuf::from("the last valid configuration");
    merged(&[(file, text.to_owned())], Vec::new(), zone)
}

/// Where a hold is on record and no valid configuration is: it is undone, or its reboot is proved by no less than anybody
/// asks for (I12). What the defaults would evict, or take for healthy, may be what the configuration protects from.
pub fn to_end_a_hold() -> Effective {
    const TEXT: &str = "mode = \"observe\"\n[health]\nallow_degraded = false\n";
    let file = Path::new("no valid configuration");
    let tables = file::read(file, TEXT, &reference(), &mut Vec::new());
    Parser::of(&tables, &Zones::new(), Vec::new()).effective()
}

/// Reads texts that are laid over each other, the lowest first, each with the file it came from; `problems` are those of
/// files that could not be read, and `zone` looks up the rules of a time zone by its name.
pub fn merged(
    texts: &[(PathBuf, String)],
    mut problems: Vec<Problem>,
    zone: impl Fn(&str) -> Option<TimeZone>,
) -> Result<Effective, ConfigError> {
    let known = reference();
    let mut tables = Tables::default();
    for (path, text) in texts {
        tables.lay(file::read(path, text, &known, &mut problems));
    }
    let zones = windows::zones(&tables, zone);
    let parsed = Parser::of(&tables, &zones, problems);
    if parsed.problems.is_empty() {
        return Ok(parsed.effective());
    }
    let mut problems = parsed.problems;
    problems.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    Err(ConfigError { problems })
}

/// Every array of tables.
const ARRAYS: [&Section; 6] = [
    &check::SECTION,
    &keys::order::SECTION,
    &keys::escalate::SECTION,
    &keys::gate_command::SECTION,
    &keys::prometheus::SECTION,
    &keys::windows::SECTION,
];

/// Every table and every key that this release takes, each with its default: what a host without any file runs on, and
/// one table of each array.
pub fn reference() -> Vec<Table> {
    let one = |section: &'static Section| Item {
        array: section.name,
        name: String::new(),
        keys: Keys::new(),
        origin: Origin {
            file: PathBuf::new(),
            line: 1,
        },
    };
    let tables = Tables {
        items: ARRAYS.into_iter().map(one).collect(),
        ..Tables::default()
    };
    Parser::of(&tables, &Zones::new(), Vec::new()).read
}

impl Default for Config {
    fn default() -> Self {
        Parser::of(&Tables::default(), &Zones::new(), Vec::new()).config
    }
}

/// What [`Effective`] calls its text.
fn text(tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        let header = table.section.header();
        if !header.is_empty() {
            text.extend(["\n", &header, "\n"]);
        }
        for entry in &table.entries {
            // A file name may hold a line break, which would end the comment.
            let from = entry.from.as_ref().map_or_else(
                || "default".to_owned(),
                |file| one_line(&format!("from {}", file.display())),
            );
            text.extend([entry.name, " = ", &entry.value, " # ", &from, "\n"]);
        }
    }
    text
}

/// Types and ranges of all values, then the values against each other.
struct Parser<'a> {
    tables: &'a Tables,
    zones: &'a Zones,
    none: Keys,
    /// First those of the texts.
    problems: Vec<Problem>,
    /// What was taken so far.
    read: Vec<Table>,
}

/// What comes of it.
struct Parsed {
    /// To be used only without a problem.
    config: Config,
    problems: Vec<Problem>,
    read: Vec<Table>,
    dates: Option<Origin>,
}

impl Parsed {
    fn effective(self) -> Effective {
        Effective {
            text: text(&self.read),
            config: self.config,
            tables: self.read,
            dates: self.dates,
        }
    }
}

impl Parser<'_> {
    fn of(tables: &Tables, zones: &Zones, problems: Vec<Problem>) -> Parsed {
        let mut parser = Parser {
            tables,
            zones,
            none: Keys::new(),
            problems,
            read: Vec::new(),
        };
        let mut config = Config {
            mode: parser.section(&root::SECTION, |r| r.choice(&root::MODE)),
            node: parser.section(&node::SECTION, sections::node),
            coordination: parser.section(&coordination::SECTION, sections::coordination),
            triggers: parser.triggers(),
            drain: parser.drain(),
            reboot: parser.section(&reboot::SECTION, sections::reboot),
            health: parser.section(&health::SECTION, sections::health),
            gates: parser.gates(),
            hooks: parser.section(&hooks::SECTION, |r| Hooks {
                timeout: r.duration(&hooks::TIMEOUT),
            }),
            notify: parser.section(&notify::SECTION, sections::notify),
            metrics: parser.section(&metrics::SECTION, sections::metrics),
            fleet_lock: parser.section(&fleet_lock::SECTION, sections::fleet_lock),
        };
        config.gates.windows = parser.windows(&config);
        let dates = tables.sections.get(gates::SECTION.name);
        let dates = dates.and_then(|keys| keys.get(gates::EXCLUDE_DATES.name));
        Parsed {
            dates: dates.map(|value| value.origin.clone()),
            config,
            problems: parser.problems,
            read: parser.read,
        }
    }

    fn section<T>(
        &mut self,
        section: &'static Section,
        take: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> T {
        let keys = self.tables.sections.get(section.name).unwrap_or(&self.none);
        let mut reader = Reader::new(section, keys, &mut self.problems);
        let taken = take(&mut reader);
        self.read.push(reader.table());
        taken
    }

    /// After all that bounds them.
    fn windows(&mut self, config: &Config) -> Windows {
        let before = self.problems.len();
        let (each, read) = windows::read(self.tables, self.zones, &mut self.problems);
        self.read.extend(read);
        let windows = Windows::new(each, config.gates.windows.excluded.clone());
        // A duration or a time that is refused is not compared.
        if before == 0 && self.problems.is_empty() {
            let expected = config.longest_reboot();
            windows::check(self.tables, &windows, expected, &mut self.problems);
        }
        if before == 0 && self.problems.is_empty() {
            let expected = config.longest_reboot();
            windows::check_dates(self.tables, &windows, expected, &mut self.problems);
        }
        windows
    }

    fn drain(&mut self) -> Drain {
        let mut drain = self.section(&drain::SECTION, sections::drain);
        let stall = drain.policy.stall;
        for table in self.tables.of(&keys::order::SECTION) {
            let (group, read) = order::read(table, stall, &mut self.problems);
            drain.policy.order.push(group);
            self.read.push(read);
        }
        for table in self.tables.of(&keys::escalate::SECTION) {
            let (escalation, read) = escalate::read(table, stall, &mut self.problems);
            drain.policy.escalate.push(escalation);
            self.read.push(read);
        }
        drain
    }

    fn gates(&mut self) -> Gates {
        let mut gates = self.section(&gates::SECTION, sections::gates);
        for table in self.tables.of(&keys::gate_command::SECTION) {
            let (command, read) = gate_command::read(table, &mut self.problems);
            gates.commands.push(command);
            self.read.push(read);
        }
        let (prometheus, read) = prometheus::read(self.tables, &mut self.problems);
        gates.prometheus = prometheus;
        self.read.extend(read);
        gates
    }

    fn triggers(&mut self) -> Triggers {
        let mut triggers = self.section(&triggers::SECTION, |r| Triggers {
            sentinels: r.paths(&triggers::SENTINELS),
            node_annotation: r.flag(&triggers::NODE_ANNOTATION),
            scheduled_shutdown: r.choice(&triggers::SCHEDULED_SHUTDOWN),
            update_engine: r.flag(&triggers::UPDATE_ENGINE),
            rebootmgr: r.flag(&triggers::REBOOTMGR),
            period: r.duration(&triggers::PERIOD),
            settle: r.duration(&triggers::SETTLE),
            builtin: r.choices(&triggers::BUILTIN),
            builtin_settle: r.duration(&triggers::BUILTIN_SETTLE),
            checks: Vec::new(),
        });
        for table in self.tables.of(&check::SECTION) {
            let (check, read) = trigger::read(table, &mut self.problems);
            triggers.checks.push(check);
            self.read.push(read);
        }
        triggers
    }
}
