//! `make matrix`: the tests that speak with a cluster and one whole cycle of a host, on every release of Kubernetes, with
//! older kubelets, and on other versions of systemd; a table of Markdown at the end.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use testbed::Bed;
use testbed::releases::{self, OLDEST_KUBELET, RELEASES, Release, USUAL};

/// Its own, so that it stands beside a test bed.
const BED: &str = "matrix";

/// Leases, nodes, pods, evictions, the queue and the policies on a control plane, and a cycle with the real kubelet.
const ALL: [&str; 10] = [
    "cluster_",
    "run_queue",
    "rotation",
    "reapply",
    "marks",
    "memory::conformance",
    "e2e::three_hosts",
    "real::cycle",
    // The last two: older servers do not know what `manifests --constrained` grants, nor MutatingAdmissionPolicies.
    "hostile",
    "run_dropped",
];
const OLDER: usize = ALL.len() - 2;
const ALL_FROM: &str = "1.36";
/// A cycle with the real kubelet.
const CYCLE: [&str; 3] = ["real::cycle", "real::graceful", "real::volumes"];
/// The package, a cycle and the guarded door on other releases of Debian.
const SYSTEMD: [&str; 2] = ["packagers::versions", "e2e::guard"];
/// Debian's name for each: systemd 252, 257 and the newest that there is.
const SUITES: [&str; 3] = ["bookworm", "trixie", "sid"];
/// A kubelet may be so many minor versions older than the API server (Kubernetes' version skew policy).
const SKEW: usize = 3;

/// Try the daemon on what others run.
#[derive(Parser)]
struct Cli {
    /// Only rows whose name contains this; may be repeated.
    #[arg(long)]
    row: Vec<String>,
    /// Only the oldest release whose kubelet may be a node's of the newest, as `make test` does: all its other tests run on the
    /// newest, and it has that kubelet already.
    #[arg(long, conflicts_with = "row")]
    oldest: bool,
    /// Name the rows and end.
    #[arg(long)]
    list: bool,
}

/// One line of the table.
#[derive(Clone)]
struct Row {
    plane: Release,
    kubelet: Release,
    /// Debian's release, where systemd is what differs.
    suite: Option<&'static str>,
    tests: &'static [&'static str],
}

impl Row {
    fn name(&self) -> String {
        let Self { plane, kubelet, .. } = self;
        match self.suite {
            Some(suite) => format!("systemd of Debian {suite}"),
            None if plane == kubelet => format!("Kubernetes {}", plane.version),
            None => format!("Kubernetes {}, kubelet {}", plane.version, kubelet.version),
        }
    }
}

fn rows() -> Vec<Row> {
    let same = RELEASES.map(|release| Row {
        plane: release,
        kubelet: release,
        suite: None,
        tests: if release.minor < ALL_FROM {
            &ALL[..OLDER]
        } else {
            &ALL
        },
    });
    let newest = RELEASES.len() - 1;
    let older = RELEASES[newest.saturating_sub(SKEW)..newest].iter();
    let skewed = older.map(|kubelet| Row {
        plane: RELEASES[newest],
        kubelet: *kubelet,
        suite: None,
        tests: &CYCLE,
    });
    let systemd = SUITES.map(|suite| Row {
        plane: USUAL,
        kubelet: USUAL,
        suite: Some(suite),
        tests: &SYSTEMD,
    });
    same.into_iter().chain(skewed).chain(systemd).collect()
}

/// What a row came to.
struct Came {
    passed: u32,
    failed: u32,
    took: Duration,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(err) => {
            eprintln!("matrix: {err:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every row passed.
fn run(cli: &Cli) -> Result<bool> {
    let mut rows = rows();
    if cli.oldest {
        rows.retain(|row| row.plane == OLDEST_KUBELET && row.suite.is_none());
    }
    let wanted = |row: &Row| cli.row.iter().any(|part| row.name().contains(part));
    rows.retain(|row| cli.row.is_empty() || wanted(row));
    if rows.is_empty() {
        bail!("no row has such a name; --list names them");
    }
    if cli.list {
        for row in &rows {
            println!("{}", row.name());
        }
        return Ok(true);
    }
    let logs = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/matrix"));
    fs::create_dir_all(&logs)?;
    let mut table = String::from("| What | Passed | Failed | Took |\n|---|---|---|---|\n");
    let mut good = true;
    for row in rows {
        let log = logs.join(format!("{}.log", row.name().replace([' ', ','], "-")));
        eprintln!("matrix: {}; its output is in {}", row.name(), log.display());
        let came = on_bed(&row, &log).with_context(|| row.name())?;
        good &= came.failed == 0 && came.passed > 0;
        if came.failed > 0 {
            eprintln!("{}", failures(&fs::read_to_string(&log)?));
        }
        let (passed, failed, took) = (came.passed, came.failed, came.took.as_secs());
        let line = format!("| {} | {passed} | {failed} | {took} s |\n", row.name());
        eprint!("matrix: {line}");
        table.push_str(&line);
    }
    print!("{table}");
    Ok(good)
}

/// The tests of a row in a bed of their own, which goes down whatever happens.
fn on_bed(row: &Row, log: &PathBuf) -> Result<Came> {
    Bed::down(BED).context("cannot take down what an earlier run left")?;
    let variables = |command: &mut Command| {
        command
            .env(releases::PLANE, row.plane.minor)
            .env(releases::KUBELET, row.kubelet.minor)
            .env("KUBE_REBOOTD_BED", BED)
            .envs(row.suite.map(|suite| ("KUBE_REBOOTD_SUITES", suite)));
    };
    let bed = |args: &[&str]| {
        let mut bed = Command::new(std::env::current_exe()?.with_file_name("bed"));
        variables(&mut bed);
        let ended = bed.args(args).status()?;
        anyhow::ensure!(ended.success(), "bed {}: {ended}", args.join(" "));
        Ok(())
    };
    // Tests that begin beside one another would build the same thing at once.
    bed(&["prepare", "--demo"])?;
    let came = bed(&["up", "--name", BED]).and_then(|()| try_row(row, log, variables));
    Bed::down(BED)?;
    came
}

fn try_row(row: &Row, log: &PathBuf, variables: impl FnOnce(&mut Command)) -> Result<Came> {
    let begun = Instant::now();
    let file = fs::File::create(log)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    variables(&mut command);
    command.args(["test", "--locked", "--no-fail-fast", "--test", "it", "--"]);
    command.args(["--test-threads=4"]).args(row.tests);
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    let status = command.status().context("cannot run cargo")?;
    let text = fs::read_to_string(log)?;
    let (passed, failed) =
        counts(&text).with_context(|| format!("the tests did not run: {status}"))?;
    if let Some(none) = unmet(&text, row.tests) {
        bail!("no test has {none:?} in its name: was it renamed?");
    }
    Ok(Came {
        passed,
        failed,
        took: begun.elapsed(),
    })
}

/// A filter that met no test.
fn unmet<'a>(text: &str, filters: &[&'a str]) -> Option<&'a str> {
    let names = || text.lines().filter_map(|line| line.strip_prefix("test "));
    let met = |filter: &&str| names().any(|name| name.contains(filter));
    filters.iter().copied().find(|filter| !met(filter))
}

/// What failed tests said: with journals it is long, and nobody may be there to open the file.
fn failures(text: &str) -> &str {
    let begin = text.find("\nfailures:\n").unwrap_or_default();
    &text[begin..]
}

/// Passed and failed tests, by the line with which libtest ends.
fn counts(text: &str) -> Option<(u32, u32)> {
    let line = text
        .lines()
        .rfind(|line| line.starts_with("test result:"))?;
    let number = |what: &str| {
        let parts = line.split(['.', ';']).map(str::trim);
        let mut parts = parts.filter_map(|part| part.strip_suffix(what));
        parts.next()?.trim().parse().ok()
    };
    Some((number(" passed")?, number(" failed")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_the_tests_is_read() {
        let text = "running 3 tests\n\
                    test result: FAILED. 57 passed; 2 failed; 0 ignored; 0 measured; 9 filtered out; finished in 1.00s\n";
        assert_eq!(counts(text), Some((57, 2)));
        assert_eq!(counts("error: could not compile"), None);
    }

    #[test]
    fn what_failed_tests_said_is_the_end_of_the_output() {
        let text = "test one ... ok\ntest two ... FAILED\n\nfailures:\n\n---- two stdout ----\n";
        assert!(failures(text).starts_with("\nfailures:\n"));
        assert_eq!(failures("nothing"), "nothing");
    }

    #[test]
    fn a_filter_that_meets_no_test_is_found() {
        let text = "running 1 test\ntest real::cycle::one ... ok\n";
        assert_eq!(unmet(text, &["real::cycle"]), None);
        assert_eq!(unmet(text, &["real::cycle", "marks"]), Some("marks"));
    }

    #[test]
    fn each_release_and_each_older_kubelet_has_a_row() {
        let names: Vec<String> = rows().iter().map(Row::name).collect();
        assert_eq!(names.len(), 5 + 3 + 3);
        assert!(
            names.contains(&"Kubernetes v1.37.2, kubelet v1.34.4".to_owned()),
            "{names:?}"
        );
    }
}
