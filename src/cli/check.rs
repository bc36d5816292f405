//! `kube-rebootd check`: what the triggers say now, without a daemon (I8: unknown has a word and an exit
//! code of its own). The daemon runs it too, for one built-in check at a time.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use kube_rebootd_core::config::{self, Builtin, Config};
use kube_rebootd_core::trigger::Verdict;
use kube_rebootd_outdated::{Answer, Report, Said};

use super::{block_on, complain, exit, print};
use crate::daemon;
use crate::host::sentinel::Reader;
use crate::host::{Bus, outdated, update_engine};
use crate::layers;
use crate::root::Root;

/// The names of the built-in checks, as an argument.
pub(super) fn builtins() -> impl TypedValueParser<Value = Builtin> {
    let names = Builtin::WORDS.iter().map(|(name, _)| *name);
    PossibleValuesParser::new(names).try_map(|name| {
        let mut words = Builtin::WORDS.iter();
        let known = words.find(|(word, _)| *word == name);
        known
            .map(|(_, builtin)| *builtin)
            .ok_or("it is no built-in check")
    })
}

/// Prints what each trigger of the configuration says, or the named built-in checks alone.
pub fn main(root: &Root, file: Option<&PathBuf>, builtins: &[Builtin], json: bool) -> ExitCode {
    let config = match configured(root, file.map(PathBuf::as_path), builtins) {
        Ok(config) => config,
        Err(err) => {
            complain(&err);
            return ExitCode::from(exit::CONFIGURATION);
        }
    };
    block_on(async {
        let report = Box::pin(report(root, &config)).await;
        if json {
            match serde_json::to_string(&report) {
                Ok(text) => print(&format!("{text}\n")),
                Err(err) => {
                    complain(&err);
                    return ExitCode::from(exit::FAILED);
                }
            }
        } else {
            print(&table(&report));
        }
        code(&report)
    })
}

/// The host's; with named built-in checks one that holds nothing else, so that a configuration with an
/// error does not keep them from being asked.
fn configured(
    root: &Root,
    file: Option<&Path>,
    builtins: &[Builtin],
) -> Result<Config, config::ConfigError> {
    if builtins.is_empty() {
        return layers::load_for_root(root, file).map(|effective| effective.config);
    }
    let mut config = Config::default();
    config.triggers.sentinels = Vec::new();
    config.triggers.builtin = builtins.to_vec();
    Ok(config)
}

async fn report(root: &Root, config: &Config) -> Report {
    let bus = Bus::system();
    let mut triggers = Vec::new();
    let mut say = |trigger: String, answer| triggers.push(Said { trigger, answer });
    let paths: Vec<String> = (config.triggers.sentinels.iter())
        .map(|path| path.display().to_string())
        .collect();
    let found = Reader::default().look(root, &paths).await;
    for (index, path) in paths.iter().enumerate() {
        let answer = match &found {
            Ok(found) => (found.get(index)).map_or_else(unread, |one| plain(daemon::sentinel(one))),
            Err(err) => Answer::unknown(err.to_string()),
        };
        say(format!("sentinel {path}"), answer);
    }
    for builtin in &config.triggers.builtin {
        let answer = outdated::look(root, &bus, *builtin).await;
        say(builtin.trigger(), answer);
    }
    if config.triggers.update_engine {
        let answer = plain(update_engine::ask(&bus).await);
        say(
            kube_rebootd_core::trigger::update_engine::TRIGGER.to_owned(),
            answer,
        );
    }
    for check in &config.triggers.checks {
        let answer = plain(daemon::command(root, &bus, check).await);
        say(format!("check {}", check.name), answer);
    }
    Report { triggers }
}

fn unread() -> Answer {
    Answer::unknown("it was not read")
}

fn plain(verdict: Verdict) -> Answer {
    match verdict {
        Verdict::Reboot { pkgs, words } => Answer::Reboot { pkgs, words },
        Verdict::No => Answer::No {
            words: String::new(),
        },
        Verdict::Unknown { why } => Answer::unknown(why),
    }
}

/// 0 when every trigger gave an answer, whichever; 75 when only a package manager is in the way.
fn code(report: &Report) -> ExitCode {
    let unknown = (report.triggers.iter()).filter_map(|said| match said.answer {
        Answer::Unknown { busy, .. } => Some(busy),
        Answer::Reboot { .. } | Answer::No { .. } => None,
    });
    match unknown.reduce(|one, other| one && other) {
        None => ExitCode::SUCCESS,
        Some(true) => ExitCode::from(exit::NOT_NOW),
        Some(false) => ExitCode::from(exit::FAILED),
    }
}

/// For people. Writing to a String does not fail.
fn table(report: &Report) -> String {
    let width = (report.triggers.iter())
        .map(|said| said.trigger.len())
        .max();
    let Some(width) = width else {
        return "no trigger is configured that could be asked here\n".to_owned();
    };
    let mut text = String::new();
    for said in &report.triggers {
        let (word, words) = match &said.answer {
            Answer::Reboot { words, .. } => ("reboot", words),
            Answer::No { words } => ("no", words),
            Answer::Unknown { words, .. } => ("unknown", words),
        };
        let line = format!("{:<width$}  {word:<7}  {words}", said.trigger);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn said(trigger: &str, answer: Answer) -> Said {
        Said {
            trigger: trigger.to_owned(),
            answer,
        }
    }

    #[test]
    fn i8_unknown_has_an_exit_code_of_its_own() {
        let no = || said("a", plain(Verdict::No));
        let busy = || {
            let words = String::new();
            said("b", Answer::Unknown { words, busy: true })
        };
        let unknown = || said("c", Answer::unknown(""));
        let same = |triggers: Vec<Said>, wanted: u8| {
            // ExitCode has no comparison, only this.
            let found = format!("{:?}", code(&Report { triggers }));
            assert_eq!(found, format!("{:?}", ExitCode::from(wanted)));
        };
        same(vec![], 0);
        same(vec![no(), no()], 0);
        same(vec![no(), busy()], 75);
        same(vec![unknown(), busy()], 1);
        same(vec![busy(), unknown(), no()], 1);
    }

    #[test]
    fn each_trigger_is_a_line() {
        let reboot = Answer::Reboot {
            pkgs: BTreeSet::new(),
            words: "a newer one".to_owned(),
        };
        let report = Report {
            triggers: vec![
                said("sentinel /run/x", plain(Verdict::No)),
                said("builtin kernel", reboot),
            ],
        };
        assert_eq!(
            table(&report),
            "sentinel /run/x  no\nbuiltin kernel   reboot   a newer one\n"
        );
        let triggers = Vec::new();
        assert!(table(&Report { triggers }).starts_with("no trigger"));
    }
}
