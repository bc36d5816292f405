//! From merged tables to [`Config`], or to all that is wrong with them (I12).

mod trigger;

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::duration::{LONGEST, show as words};
use super::file::{self, ConfigError, Keys, Problem, Raw, Tables};
use super::label::{is_dns_label, is_label_key, is_subdomain};
use super::reader::{Reader, expected, is_absolute, quote, text};
use super::{
    Adoption, Builtin, Config, Coordination, Drain, DrainMode, Gates, Group, Health, Method, Mode,
    Node, Reboot, Triggers,
};
use crate::budget::MaxUnavailable;
use crate::drain::{EmptyDir, Jobs, OnTimeout, Policy, Unmanaged};
use crate::selector::Selector;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The back-off doubles up to this (docs/design.md 6).
const LONGEST_RETRY: Duration = Duration::from_secs(6 * 3600);
const ANY: (Duration, Duration) = (Duration::ZERO, LONGEST);

/// A valid configuration and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    pub config: Config,
    /// TOML with every key and `# from FILE` or `# default` behind it; [`parse_effective`] reads
    /// it back to the same `config`.
    pub text: String,
}

/// Reads one text alone; `file` is what problems call it.
pub fn parse(file: &Path, text: &str) -> Result<Effective, ConfigError> {
    let mut problems = Vec::new();
    let tables = file::read(file, text, &mut problems);
    check(&tables, problems)
}

/// Reads what `config show` printed: the last valid configuration, kept beside the state (I12).
pub fn parse_effective(text: &str) -> Result<Config, ConfigError> {
    parse(Path::new("the last valid configuration"), text).map(|effective| effective.config)
}

/// Reads texts that are laid over each other, the lowest first, each with the file it came from; `problems` are those of
/// files that could not be read.
pub fn merged(
    texts: &[(PathBuf, String)],
    mut problems: Vec<Problem>,
) -> Result<Effective, ConfigError> {
    let mut tables = Tables::default();
    for (path, text) in texts {
        tables.lay(file::read(path, text, &mut problems));
    }
    check(&tables, problems)
}

/// Types and ranges of all values, then the values against each other. `problems` are those of
/// the texts.
fn check(tables: &Tables, problems: Vec<Problem>) -> Result<Effective, ConfigError> {
    let mut checking = Checking {
        tables,
        none: Keys::new(),
        problems,
        shown: String::new(),
    };
    let config = Config {
        mode: checking.mode(),
        node: checking.node(),
        coordination: checking.coordination(),
        triggers: checking.triggers(),
        drain: checking.drain(),
        reboot: checking.reboot(),
        health: checking.health(),
        gates: checking.gates(),
    };
    if checking.problems.is_empty() {
        let text = checking.shown;
        return Ok(Effective { config, text });
    }
    let mut problems = checking.problems;
    problems.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    Err(ConfigError { problems })
}

struct Checking<'a> {
    tables: &'a Tables,
    none: Keys,
    problems: Vec<Problem>,
    shown: String,
}

impl Checking<'_> {
    fn section<'s>(&'s mut self, name: &'s str) -> Reader<'s> {
        let keys = self.tables.sections.get(name).unwrap_or(&self.none);
        let (problems, shown) = (&mut self.problems, &mut self.shown);
        Reader::new(name, &format!("[{name}]"), keys, problems, shown)
    }

    fn mode(&mut self) -> Mode {
        let keys = self.tables.sections.get(file::ROOT).unwrap_or(&self.none);
        let mut r = Reader::root(keys, &mut self.problems, &mut self.shown);
        let words = [("active", Mode::Active), ("observe", Mode::Observe)];
        r.choice("mode", Mode::default(), &words)
    }

    fn node(&mut self) -> Node {
        let mut r = self.section("node");
        Node {
            kubeconfig: r.path("kubeconfig"),
            context: r.maybe("context", None, |_| true, "a context of the kubeconfig"),
            name: r.maybe("name", None, is_subdomain, "the name of a Node"),
        }
    }

    fn coordination(&mut self) -> Coordination {
        let mut r = self.section("coordination");
        let d = Coordination::default();
        let name = "1 to 63 lower-case letters, digits or `-`";
        let label = "a label value of 1 to 63 letters, digits, `-`, `_` or `.`";
        let group = |raw: &Raw| {
            let given = text(raw, label)?;
            Group::new(given).ok_or_else(|| format!("{given:?} is not allowed; write {label}"))
        };
        let coordination = Coordination {
            namespace: r.word("namespace", d.namespace, is_dns_label, name),
            group: r.take("group", d.group, group, |g| quote(g.as_str())),
            group_label: r.maybe("group_label", d.group_label, is_label_key, "a label key"),
            impersonate: r.maybe(
                "impersonate",
                d.impersonate,
                is_subdomain,
                "the name of a ServiceAccount or \"\"",
            ),
            kubeconfig: r.path("kubeconfig"),
            prove_node: r.flag("prove_node", d.prove_node),
            max_unavailable: r.take(
                "max_unavailable",
                d.max_unavailable,
                max_unavailable,
                |max| match max {
                    MaxUnavailable::Percent(percent) => quote(&format!("{percent}%")),
                    MaxUnavailable::Number(number) => number.to_string(),
                },
            ),
            count_cordoned: r.flag("count_cordoned", d.count_cordoned),
            min_interval: r.duration("min_interval", d.min_interval, ANY),
            stale_after: r.duration("stale_after", d.stale_after, (SECOND, LONGEST)),
        };
        let nothing_to_prove =
            coordination.impersonate.is_none() || coordination.kubeconfig.is_some();
        if coordination.prove_node && nothing_to_prove && r.sound(&["impersonate", "kubeconfig"]) {
            let reason = "proves nothing without an impersonation; remove it, or impersonate = \"\" and kubeconfig";
            r.fault("prove_node", reason);
        }
        coordination
    }

    fn triggers(&mut self) -> Triggers {
        let mut r = self.section("triggers");
        let d = Triggers::default();
        let path = |raw: &Raw| {
            let given = text(raw, "absolute paths")?;
            if is_absolute(given) {
                Ok(PathBuf::from(given))
            } else {
                Err(format!(
                    "{given:?} is not an absolute path; begin it with /"
                ))
            }
        };
        let adoption = [
            ("warn", Adoption::Warn),
            ("adopt", Adoption::Adopt),
            ("ignore", Adoption::Ignore),
        ];
        let mut triggers = Triggers {
            sentinels: r.list("sentinels", d.sentinels, path, |p| {
                quote(&p.to_string_lossy())
            }),
            node_annotation: r.flag("node_annotation", d.node_annotation),
            scheduled_shutdown: r.choice("scheduled_shutdown", d.scheduled_shutdown, &adoption),
            period: r.duration("period", d.period, (SECOND, DAY)),
            settle: r.duration("settle", d.settle, ANY),
            builtin: r.choices("builtin", d.builtin, Builtin::WORDS),
            builtin_settle: r.duration("builtin_settle", d.builtin_settle, ANY),
            checks: Vec::new(),
        };
        let tables = self.tables;
        triggers.checks = tables
            .checks
            .iter()
            .map(|t| trigger::read(t, &mut self.problems, &mut self.shown))
            .collect();
        triggers
    }

    fn drain(&mut self) -> Drain {
        let mut r = self.section("drain");
        let d = Policy::default();
        let mode = [
            ("auto", DrainMode::Auto),
            ("always", DrainMode::Always),
            ("never", DrainMode::Never),
        ];
        let on_timeout = [("abort", OnTimeout::Abort), ("reboot", OnTimeout::Reboot)];
        let unmanaged = [
            ("leave", Unmanaged::Leave),
            ("evict", Unmanaged::Evict),
            ("block", Unmanaged::Block),
        ];
        let jobs = [("evict", Jobs::Evict), ("wait", Jobs::Wait)];
        let empty_dir = [("evict", EmptyDir::Evict), ("block", EmptyDir::Block)];
        let selector = |raw: &Raw| {
            let given = text(raw, "label selectors like \"app=db\"")?;
            given
                .parse::<Selector>()
                .map(|selector| (given.to_owned(), selector))
                .map_err(|error| error.to_string())
        };
        // The text is kept for `config show`: a selector does not remember how it was written.
        let skip = r.list("skip", Vec::new(), selector, |(given, _)| quote(given));
        let mode = r.choice("mode", DrainMode::default(), &mode);
        let timeout = r.duration("timeout", d.timeout, (SECOND, LONGEST));
        // Follows a shorter timeout, so that setting only that one stays valid.
        let stall = r.duration("stall", d.stall.min(timeout), (SECOND, LONGEST));
        if stall > timeout && r.sound(&["stall", "timeout"]) {
            let (s, t) = (words(stall), words(timeout));
            r.fault(
                "stall",
                format!("{s} is above drain.timeout ({t}) and never reached; write at most {t}"),
            );
        }
        let parallelism = r.number("parallelism", 25, (1, 500));
        let policy = Policy {
            timeout,
            stall,
            on_timeout: r.choice("on_timeout", d.on_timeout, &on_timeout),
            parallelism: usize::try_from(parallelism).unwrap_or(d.parallelism),
            unmanaged: r.choice("unmanaged", d.unmanaged, &unmanaged),
            jobs: r.choice("jobs", d.jobs, &jobs),
            empty_dir: r.choice("empty_dir", d.empty_dir, &empty_dir),
            volumes_timeout: r.duration(
                "volumes_timeout",
                d.volumes_timeout,
                (Duration::ZERO, DAY),
            ),
            skip: skip.into_iter().map(|(_, selector)| selector).collect(),
        };
        Drain { mode, policy }
    }

    fn reboot(&mut self) -> Reboot {
        let mut r = self.section("reboot");
        let d = Reboot::default();
        r.take("kind", (), kind, |()| quote("reboot"));
        let by_command = r.choice("method", false, &[("logind", false), ("command", true)]);
        let command = r.command("command", Vec::new());
        if r.sound(&["method", "command"]) {
            if by_command && command.is_empty() {
                r.fault(
                    "method",
                    "is \"command\" but reboot.command is empty; write one",
                );
            } else if !by_command && !command.is_empty() {
                r.fault(
                    "command",
                    "is unused; write method = \"command\" or remove it",
                );
            }
        }
        Reboot {
            method: if by_command {
                Method::Command(command)
            } else {
                Method::Logind
            },
            delay: r.duration("delay", d.delay, (Duration::ZERO, DAY)),
            timeout: r.duration("timeout", d.timeout, (SECOND, DAY)),
            max_per_day: r.number("max_per_day", d.max_per_day, (1, 100)),
            retry: r.duration("retry", d.retry, (SECOND, LONGEST_RETRY)),
            message: r.word(
                "message",
                d.message,
                |m| !m.contains('\0'),
                "a text without NUL",
            ),
        }
    }

    fn health(&mut self) -> Health {
        let mut r = self.section("health");
        let d = Health::default();
        let timeout = r.duration("timeout", d.timeout, (SECOND, LONGEST));
        let health = Health {
            timeout,
            allow_degraded: r.flag("allow_degraded", d.allow_degraded),
            boot_complete: r.flag("boot_complete", d.boot_complete),
            ready_for: r.duration("ready_for", d.ready_for, ANY),
            pods: r.flag("pods", d.pods),
        };
        if health.ready_for >= timeout && r.sound(&["timeout", "ready_for"]) {
            let (f, t) = (words(health.ready_for), words(timeout));
            let reason = format!(
                "{f} is not below health.timeout ({t}), every boot would be late; write less"
            );
            r.fault("ready_for", reason);
        }
        health
    }

    fn gates(&mut self) -> Gates {
        let mut r = self.section("gates");
        Gates {
            min_uptime: r.duration("min_uptime", Duration::ZERO, ANY),
        }
    }
}

/// A share of the cluster's Nodes, or a number of them; none at all would close every slot for ever.
fn max_unavailable(raw: &Raw) -> Result<MaxUnavailable, String> {
    let rule = "a percentage of \"1%\" to \"100%\" or a number of 1 or more";
    match raw {
        Raw::Number(number) => u32::try_from(*number)
            .ok()
            .filter(|number| *number > 0)
            .map(MaxUnavailable::Number)
            .ok_or_else(|| format!("{number} is out of range; write {rule}")),
        Raw::Text(given) => given
            .strip_suffix('%')
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok())
            .filter(|percent| (1..=100).contains(percent))
            .map(MaxUnavailable::Percent)
            .ok_or_else(|| format!("{given:?} is not allowed; write {rule}")),
        other => Err(expected(other, rule)),
    }
}

fn kind(raw: &Raw) -> Result<(), String> {
    match text(raw, "\"reboot\"")? {
        "reboot" => Ok(()),
        kind @ ("kexec" | "soft-reboot") => Err(format!(
            "{kind:?} is not supported yet: it would skip firmware or kernel; write \"reboot\""
        )),
        other => Err(format!(
            "{other:?} is not one of its values; write \"reboot\""
        )),
    }
}

#[cfg(test)]
mod tests;
