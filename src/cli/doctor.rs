//! `kube-rebootd doctor`: everything that would keep this node from rebooting well, with the cure.
//!
//! Changes nothing but that the state directory is there afterwards: permissions are tried with `dryRun=All` (I11). Every check ends within a timeout, and
//! all of them run; what rests on a failed one says so instead of guessing (I8).

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{block_on, exit, print_coloured};
use crate::config::{self, Config};
use crate::host::Bus;
use crate::root::Root;
use crate::text::printable;

mod certificate;
mod cluster;
mod grant;
mod host;
mod rights;
mod rivals;

/// A local file system that takes longer hangs: files are read on a thread of their own.
const FILES: Duration = Duration::from_secs(10);

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Ok(String),
    /// Works, but somebody should know.
    Warn {
        what: String,
        cure: String,
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
#[derive(Debug, Clone, PartialEq, Eq)]
struct Check {
    name: &'static str,
    verdict: Verdict,
}

impl Check {
    fn ok(name: &'static str, what: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Ok(what.into()),
        }
    }

    fn warn(name: &'static str, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Warn {
                what: what.into(),
                cure: cure.into(),
            },
        }
    }

    fn fail(name: &'static str, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Fail {
                what: what.into(),
                cure: cure.into(),
            },
        }
    }

    fn skipped(name: &'static str, needs: &'static str) -> Self {
        Self {
            name,
            verdict: Verdict::Skipped { needs },
        }
    }

    fn failed(&self) -> bool {
        matches!(self.verdict, Verdict::Fail { .. })
    }
}

/// Prints the table; 1 when a check failed.
pub fn main(root: Root, file: Option<PathBuf>) -> ExitCode {
    block_on(async {
        let checks = Box::pin(all(root, file)).await;
        print_coloured(&table(&checks, std::io::stdout().is_terminal()));
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
    let (host, cluster, rivals) = tokio::join!(
        host::checks(&root, &bus, valid),
        cluster::checks(&root, &bus, valid),
        rivals::checks(&root, &bus),
    );
    [vec![configuration], host, cluster, rivals].concat()
}

async fn configured(root: Root, file: Option<PathBuf>) -> (Check, Option<Config>) {
    let name = "configuration";
    match aside(move || config::load(&root, file.as_deref())).await {
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

/// For people; colour marks the verdict only. Writing to a String does not fail.
fn table(checks: &[Check], colour: bool) -> String {
    let width = checks.iter().map(|check| check.name.len()).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let (word, code, what, cure) = match &check.verdict {
            Verdict::Ok(what) => ("ok", "32", what.clone(), None),
            Verdict::Warn { what, cure } => ("warn", "33", what.clone(), Some(cure)),
            Verdict::Fail { what, cure } => ("FAIL", "31", what.clone(), Some(cure)),
            Verdict::Skipped { needs } => ("-", "2", format!("skipped: needs {needs}"), None),
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
    let failed = checks.iter().filter(|check| check.failed()).count();
    let _ = match failed {
        0 => writeln!(text, "nothing keeps this node from rebooting"),
        1 => writeln!(text, "1 check failed"),
        _ => writeln!(text, "{failed} checks failed"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verdict_has_its_word_and_colour_is_only_for_terminals() {
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
             1 check failed\n"
        );
        assert!(table(&checks, true).contains("\u{1b}[31mFAIL\u{1b}[0m"));
        let hostile = [Check::warn("slots", "paused: \u{1b}[2J", "\u{202e}")];
        assert!(!table(&hostile, false).contains(['\u{1b}', '\u{202e}']));
    }
}
