//! `kube-rebootd doctor`: everything that would keep this node from rebooting well, with the cure.
//!
//! Changes nothing but that the state directory is there afterwards: permissions are tried with `dryRun=All` (I11). Every check ends within a timeout, and
//! all of them run; what rests on a failed one says so instead of guessing (I8).

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use kube_rebootd_core::config::Config;
use kube_rebootd_core::text::printable;
use serde::Serialize;
use tokio::sync::oneshot;

use super::{block_on, exit, print, print_coloured};
use crate::host::Bus;
use crate::layers;
use crate::root::Root;

mod admins;
mod certificate;
mod cluster;
mod grant;
mod host;
mod marks;
mod pods;
mod refused;
mod repair;
mod rights;
mod rivals;
mod settings;
mod triggers;
mod updaters;

/// A local file system that takes longer hangs: files are read on a thread of their own.
const FILES: Duration = Duration::from_secs(10);

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
enum Diagnosis {
    Ok {
        what: String,
    },
    /// Works, but somebody should know.
    Warn {
        what: String,
        cure: String,
        /// This host does not reboot until then; null: it does all the same.
        until: Option<String>,
    },
    /// Nothing reboots, or not well, until it is cured.
    Fail {
        what: String,
        cure: String,
    },
    /// Could not be looked at: another check failed.
    Skipped {
        needs: &'static str,
    },
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    name: &'static str,
    #[serde(flatten)]
    verdict: Diagnosis,
}

/// `doctor --json`, stable: keys are added, never renamed or removed.
#[derive(Debug, Serialize)]
struct Report<'a> {
    failures: usize,
    warnings: usize,
    checks: &'a [Check],
}

impl Check {
    fn ok(name: &'static str, what: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Diagnosis::Ok { what: what.into() },
        }
    }

    fn warn(name: &'static str, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Diagnosis::Warn {
                what: what.into(),
                cure: cure.into(),
                until: None,
            },
        }
    }

    /// A warning because of which this host does not reboot until `end`.
    fn until(mut self, end: impl Into<String>) -> Self {
        if let Diagnosis::Warn { until, .. } = &mut self.verdict {
            *until = Some(end.into());
        }
        self
    }

    fn fail(name: &'static str, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Diagnosis::Fail {
                what: what.into(),
                cure: cure.into(),
            },
        }
    }

    fn skipped(name: &'static str, needs: &'static str) -> Self {
        Self {
            name,
            verdict: Diagnosis::Skipped { needs },
        }
    }

    fn failed(&self) -> bool {
        matches!(self.verdict, Diagnosis::Fail { .. })
    }

    fn warns(&self) -> bool {
        matches!(self.verdict, Diagnosis::Warn { .. })
    }
}

/// Prints the table, or `json`; 1 when a check failed.
pub fn main(root: Root, file: Option<PathBuf>, json: bool) -> ExitCode {
    block_on(async {
        let checks = Box::pin(all(root, file)).await;
        if json {
            // Strings and numbers only: nothing in it can fail to encode.
            let text = serde_json::to_string_pretty(&report(&checks)).unwrap_or_default();
            print(&format!("{text}\n"));
        } else {
            print_coloured(&table(&checks, std::io::stdout().is_terminal()));
        }
        if checks.iter().any(Check::failed) {
            ExitCode::from(exit::FAILED)
        } else {
            ExitCode::SUCCESS
        }
    })
}

async fn all(root: Root, file: Option<PathBuf>) -> Vec<Check> {
    let bus = Bus::system();
    let (configuration, config) = configured(root.clone(), file).await;
    let valid = config.as_ref();
    let (host, cluster, rivals, asks, admins) = tokio::join!(
        host::checks(&root, &bus, valid),
        cluster::checks(&root, &bus, valid),
        rivals::checks(&root, &bus, valid),
        asks(&root, config.clone()),
        admins::checks(&root, config.clone()),
    );
    [vec![configuration], host, cluster, asks, admins, rivals].concat()
}

/// What the configuration makes of this host.
async fn asks(root: &Root, config: Option<Config>) -> Vec<Check> {
    let Some(config) = config else {
        return vec![Check::skipped("triggers", "a valid configuration")];
    };
    let root = root.clone();
    let looked = aside(move || triggers::checks(&root, &config)).await;
    looked.unwrap_or_else(|| vec![slow("triggers")])
}

fn report(checks: &[Check]) -> Report<'_> {
    Report {
        failures: checks.iter().filter(|check| check.failed()).count(),
        warnings: checks.iter().filter(|check| check.warns()).count(),
        checks,
    }
}

/// What it comes to, in one line.
fn summary(checks: &[Check]) -> String {
    let Report {
        failures, warnings, ..
    } = report(checks);
    let count = |number: usize, what: &str| match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    };
    let counted = format!(
        "{}, {}",
        count(failures, "failure"),
        count(warnings, "warning")
    );
    let untils: Vec<&str> = checks
        .iter()
        .filter_map(|check| match &check.verdict {
            Diagnosis::Warn { until, .. } => until.as_deref(),
            Diagnosis::Ok { .. } | Diagnosis::Fail { .. } | Diagnosis::Skipped { .. } => None,
        })
        .collect();
    match (failures, warnings) {
        (0, 0) => format!(
            "{counted}: host and rights are in order; what it waits for now: kube-rebootd status"
        ),
        (0, _) if untils.is_empty() => {
            format!("{counted}: it reboots when it has to; see the warnings above")
        }
        (0, _) => format!(
            "{counted}: will not reboot until {}",
            printable(&untils.join(", and "))
        ),
        _ => format!("{counted}: will not reboot, or not well, until the failures above are cured"),
    }
}

async fn configured(root: Root, file: Option<PathBuf>) -> (Check, Option<Config>) {
    let name = "configuration";
    match aside(move || layers::load_for_root(&root, file.as_deref())).await {
        Some(Ok(effective)) => (Check::ok(name, "valid"), Some(effective.config)),
        Some(Err(err)) => {
            let cure = "mend it, then: kube-rebootd config check";
            (Check::fail(name, err.to_string().trim_end(), cure), None)
        }
        None => (slow(name), None),
    }
}

/// Runs `work`, which may block, on a thread of its own; none when it takes longer than [`FILES`].
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (send, receive) = oneshot::channel();
    // Not tokio's blocking pool: the runtime would wait for it when the process ends.
    std::thread::spawn(move || {
        let _ = send.send(work());
    });
    tokio::time::timeout(FILES, receive).await.ok()?.ok()
}

fn slow(name: &'static str) -> Check {
    Check::fail(
        name,
        format!("reading files took more than {} s", FILES.as_secs()),
        "look for a mount that hangs: findmnt",
    )
}

/// For people; colour marks the first word only. Writing to a String does not fail.
fn table(checks: &[Check], colour: bool) -> String {
    let width = checks.iter().map(|check| check.name.len()).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let (word, code, what, cure) = match &check.verdict {
            Diagnosis::Ok { what } => ("ok", "32", what.clone(), None),
            Diagnosis::Warn { what, cure, .. } => ("warn", "33", what.clone(), Some(cure)),
            Diagnosis::Fail { what, cure } => ("FAIL", "31", what.clone(), Some(cure)),
            Diagnosis::Skipped { needs } => ("-", "2", format!("skipped: needs {needs}"), None),
        };
        let mark = if colour {
            format!("\u{1b}[{code}m{word:<4}\u{1b}[0m")
        } else {
            format!("{word:<4}")
        };
        let what = printable(&what).replace('\n', "\n        ");
        let _ = writeln!(text, "{mark}  {:<width$}  {what}", check.name);
        if let Some(cure) = cure {
            let _ = writeln!(text, "        {:width$}  cure: {}", "", printable(cure));
        }
    }
    let _ = writeln!(text, "{}", summary(checks));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_says_that_nothing_is_in_the_way_beside_warnings() {
        let paused = || Check::warn("slots", "paused", "open it").until("a slot is open");
        let clock = || Check::warn("clock", "behind", "timedatectl");
        let rows = [
            (
                vec![Check::ok("a", "b")],
                "0 failures, 0 warnings: host and rights are in order; what it waits for now: kube-rebootd status",
            ),
            (
                vec![paused(), clock()],
                "0 failures, 2 warnings: will not reboot until a slot is open",
            ),
            (
                vec![clock()],
                "0 failures, 1 warning: it reboots when it has to; see the warnings above",
            ),
        ];
        for (checks, wanted) in rows {
            assert_eq!(summary(&checks), wanted);
        }
        let value =
            serde_json::to_value(report(&[paused(), Check::skipped("b", "a")])).expect("JSON");
        assert_eq!(value["warnings"], 1);
        assert_eq!(value["checks"][0]["name"], "slots");
        assert_eq!(value["checks"][0]["verdict"], "warn");
        assert_eq!(value["checks"][0]["until"], "a slot is open");
        assert_eq!(value["checks"][1]["needs"], "a");
    }

    #[test]
    fn each_diagnosis_has_its_word_and_colour_is_only_for_terminals() {
        let checks = [
            Check::ok("logind", "answers"),
            Check::warn("clock", "90 s behind", "timedatectl"),
            Check::fail("state", "read-only", "remount it"),
            Check::skipped("slots", "kubeconfig"),
        ];
        let plain = table(&checks, false);
        assert_eq!(
            plain,
            "ok    logind  answers\n\
             warn  clock   90 s behind\n                cure: timedatectl\n\
             FAIL  state   read-only\n                cure: remount it\n\
             -     slots   skipped: needs kubeconfig\n\
             1 failure, 1 warning: will not reboot, or not well, until the failures above are cured\n"
        );
        assert!(table(&checks, true).contains("\u{1b}[31mFAIL\u{1b}[0m"));
        let hostile = [Check::warn("slots", "paused: \u{1b}[2J", "\u{202e}")];
        assert!(!table(&hostile, false).contains(['\u{1b}', '\u{202e}']));
    }
}
