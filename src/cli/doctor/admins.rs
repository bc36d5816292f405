//! What the admin has given: hooks, commands of the gate, and the Prometheus that is asked. What is wrong with one of them would
//! else be noticed when it is needed, with the slot held (I7, I8).

use futures_util::future::join_all;
use kube_rebootd_core::alerts::{OnError, Source};
use kube_rebootd_core::config::Config;

use super::{Check, aside, slow};
use crate::alerts::Asker;
use crate::cli::ready::{self, PROMETHEUS, Row};
use crate::root::Root;

const HOOKS: &str = "hooks";

/// Reads files, and asks each Prometheus once.
pub(super) async fn checks(root: &Root, config: Option<Config>) -> Vec<Check> {
    let Some(config) = config else {
        return vec![Check::skipped(HOOKS, "a valid configuration")];
    };
    let sources = config.gates.prometheus.clone();
    let here = root.clone();
    let (rows, answers) = tokio::join!(
        aside(move || ready::all(&here, &config)),
        asked(root, &sources)
    );
    let Some(rows) = rows else {
        return vec![slow(HOOKS)];
    };
    // What it names is wrong, and so nothing it says is: one row of each.
    let (of_servers, others): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| row.name == PROMETHEUS);
    let servers = of_servers.into_iter().zip(answers);
    let servers = servers.map(|(row, answer)| {
        if row.troubles.is_empty() {
            answer
        } else {
            told(row)
        }
    });
    others.into_iter().map(told).chain(servers).collect()
}

fn told(row: Row) -> Check {
    if row.troubles.is_empty() {
        return Check::ok(row.name, row.there);
    }
    let grave = row.troubles.iter().any(|one| one.grave);
    let (what, cure): (Vec<String>, Vec<String>) = row
        .troubles
        .into_iter()
        .map(|one| (one.what, one.cure))
        .unzip();
    let mut cures: Vec<String> = Vec::new();
    for one in cure {
        if !cures.contains(&one) {
            cures.push(one);
        }
    }
    let (what, cure) = (what.join("; "), cures.join("; "));
    if grave {
        Check::fail(row.name, what, cure)
    } else {
        Check::warn(row.name, what, cure)
    }
}

/// One question to each, all at once; each ends within its time limit.
async fn asked(root: &Root, sources: &[Source]) -> Vec<Check> {
    let asks = sources.iter().map(|source| async move {
        let answer = Asker::new(root, source).look().await;
        says(source, answer)
    });
    join_all(asks).await
}

/// What the gate makes of the answer.
fn says(source: &Source, answer: Result<Option<String>, String>) -> Check {
    let name = &source.name;
    match (answer, source.on_error) {
        (Ok(None), _) => Check::ok(
            PROMETHEUS,
            format!("{name}: nothing speaks against a reboot"),
        ),
        (Ok(Some(why)), _) => Check::warn(
            PROMETHEUS,
            format!("{name}: {why}"),
            "a reboot waits until that has ended, or is silenced",
        )
        .until(format!("prometheus {name} says nothing against it")),
        (Err(why), OnError::Closed) => Check::fail(
            PROMETHEUS,
            format!("{name} cannot be asked, which counts as an alert: {why}"),
            "see that this host can reach it, and what [[gates.prometheus]] says of it; on_error = \"open\" lets reboots pass meanwhile",
        ),
        (Err(why), OnError::Open) => Check::warn(
            PROMETHEUS,
            format!("{name} cannot be asked, and counts for nothing (on_error = \"open\"): {why}"),
            "see that this host can reach it, and what [[gates.prometheus]] says of it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Diagnosis;
    use super::*;

    fn source(more: &str) -> Source {
        let text =
            format!("[[gates.prometheus]]\nname = \"p\"\nurl = \"http://127.0.0.1:1\"\n{more}\n");
        let read = kube_rebootd_core::config::parse(Path::new("config.toml"), &text);
        read.expect("valid").config.gates.prometheus.remove(0)
    }

    #[test]
    fn i8_a_server_that_cannot_be_asked_keeps_the_host_from_rebooting_unless_that_is_wanted() {
        let closed = source("");
        let fails = says(&closed, Err("no answer".to_owned()));
        assert!(fails.failed(), "{fails:?}");
        let open = says(&source("on_error = \"open\""), Err("no answer".to_owned()));
        assert!(open.warns(), "{open:?}");
        let alert = says(&closed, Ok(Some("alert Down".to_owned())));
        let Diagnosis::Warn { what, until, .. } = &alert.verdict else {
            panic!("{alert:?}");
        };
        assert_eq!(what, "p: alert Down");
        assert!(until.is_some());
        let well = says(&closed, Ok(None));
        assert!(!well.failed() && !well.warns());
    }

    #[tokio::test]
    async fn i7_each_server_is_asked_and_each_has_its_row() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let sources = [source(""), source("on_error = \"open\"")];
        let checks = asked(&root, &sources).await;
        assert!(checks[0].failed() && checks[1].warns(), "{checks:?}");
    }
}
