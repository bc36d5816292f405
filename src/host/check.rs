//! Check commands, and credential plugins: run outside the daemon's sandbox as transient units, and judged (I8).
//!
//! PID 1 runs them: in our mount namespace lsof, rpm and others answer wrongly without an error.
//! Each property below answers a trap of systemd 252 and 257 (`host_check`, `e2e::checks`); docs/design.md 4.

use std::{
    collections::{BTreeSet, hash_map::RandomState},
    hash::{BuildHasher, Hasher},
    io,
    path::Path,
    time::Duration,
};

use kube_rebootd_core::text;
use kube_rebootd_core::trigger::Verdict;
use zbus::{Connection, Variant};

use super::{
    bus::{Bus, BusError, bounded},
    systemd::{self, Property},
};

use crate::root::Root;
use crate::trusted::{self, Untrusted};

mod builtin;
mod output;
mod plugin;
mod unit;

pub use builtin::{ask, program};
pub use output::remove_leftovers;
use output::{MOST_PRINTED, Output, Place};
pub use plugin::run as plugin;
use unit::{Progress, Unit};

/// Begins the name of every unit made here.
pub(super) const PREFIX: &str = "kube-rebootd-check-";
/// Begins the name of every unit of a credential plugin: a reload stops checks, and no plugins.
const PLUGIN_PREFIX: &str = "kube-rebootd-plugin-";
/// From SIGTERM to SIGKILL, for a command past its time.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// What our own deadline adds to `timeout`: PID 1 must be the one that ends the command, and needs
/// [`STOP_TIMEOUT`] and some slack for it.
const GRACE: Duration = Duration::from_secs(20);
/// How often the unit is read: soon for quick commands, then seldom, because PID 1 answers with
/// some 300 properties each time.
const POLL_MIN: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_secs(2);
/// How much of the output is kept for display: bytes that are kept, and characters that are shown.
const SHOWN_BYTES: usize = 4096;
/// How much is kept of an output in which something is looked for: some ten thousand names of packages.
const WHOLE_BYTES: usize = 256 * 1024;
/// `LOG_NOTICE`: PID 1's own start and stop lines of an hourly check would fill the journal.
const LOG_NOTICE: i32 = 5;
/// Of the unit's name; unit names end at 255 bytes.
const NAME_BYTES: usize = 64;
/// Exit codes that systemd itself uses when it cannot start a command; 203 is "not found". See
/// "Process exit codes" in systemd.exec(5).
const SYSTEMD_CODES: std::ops::RangeInclusive<u8> = 200..=245;

/// A check command as configured.
#[derive(Debug, Clone, Copy)]
pub struct Check<'a> {
    /// Names it in reasons and in the unit's name.
    pub name: &'a str,
    /// Program and arguments; never a shell's line.
    pub command: &'a [String],
    /// When PID 1 ends it.
    pub timeout: Duration,
    /// Exit codes that mean "reboot".
    pub reboot_codes: &'a [u8],
    /// Exit codes that mean "no reboot".
    pub ok_codes: &'a [u8],
    /// What standard output must contain, in the C locale, for a reboot code to count.
    pub words: Option<&'a str>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(u8),
    /// In any way that says nothing: signal, timeout, not started, its unit lost.
    Lost(String),
}

/// A verdict with what the command printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What counts.
    pub verdict: Verdict,
    /// First 4,096 characters of standard output, printable, for display only.
    pub output: String,
}

/// Judges an exit (I8): a code listed once is an answer, everything else is unknown.
pub fn judge(exit: &Exit, reboot_codes: &[u8], ok_codes: &[u8]) -> Verdict {
    let unknown = |why| Verdict::Unknown { why };
    let code = match exit {
        Exit::Code(code) => *code,
        Exit::Lost(why) => return unknown(why.clone()),
    };
    if SYSTEMD_CODES.contains(&code) {
        return unknown(format!(
            "systemd could not start the command (exit code {code}, see systemd.exec(5))"
        ));
    }
    match (reboot_codes.contains(&code), ok_codes.contains(&code)) {
        // In words, and never the command's output, which changes from run to run (I10).
        (true, false) => Verdict::Reboot {
            pkgs: BTreeSet::new(),
            words: format!("exit code {code}"),
        },
        (false, true) => Verdict::No,
        (true, true) => unknown(format!(
            "exit code {code} is in both reboot_exit_codes and ok_exit_codes"
        )),
        (false, false) => unknown(format!(
            "exit code {code} is in neither reboot_exit_codes nor ok_exit_codes"
        )),
    }
}

/// A tool whose own errors end with the code of a reboot must say so in words too (I8).
fn confirmed(verdict: Verdict, words: Option<&str>, output: &str) -> Verdict {
    match (&verdict, words) {
        (Verdict::Reboot { .. }, Some(words)) if !output.contains(words) => Verdict::Unknown {
            why: format!(
                "it ended as for a reboot and did not say {words:?}: its own errors end so too; run it by hand"
            ),
        },
        _ => verdict,
    }
}

/// Runs a check and judges it. Ends by itself at most 30 s after `timeout`.
pub async fn run(root: &Root, bus: &Bus, check: &Check<'_>) -> Outcome {
    let unknown = |why| Outcome {
        verdict: Verdict::Unknown { why },
        output: String::new(),
    };
    if let Err(why) = ours(root, check.command) {
        return unknown(why.to_string());
    }
    // A list of packages may come before what is looked for.
    let most = check.words.map_or(SHOWN_BYTES, |_| WHOLE_BYTES);
    match attempt(root, bus, check, most).await {
        Ok((exit, output)) => Outcome {
            verdict: confirmed(
                judge(&exit, check.reboot_codes, check.ok_codes),
                check.words,
                &output,
            ),
            output: text::block(&output, SHOWN_BYTES),
        },
        Err(error) => unknown(error.to_string()),
    }
}

/// Where PID 1 looks for a program without a path, in this order (`systemd.exec(5)`).
const PATH: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// The program is one that only root can change (I14); its arguments are not looked at.
fn ours(root: &Root, command: &[String]) -> Result<(), Untrusted> {
    let Some(program) = command.first().map(Path::new) else {
        return Ok(());
    };
    if program.is_absolute() {
        return trusted::only_root_can_change(root, program);
    }
    let mut places = PATH.iter().map(|dir| Path::new(dir).join(program));
    let first = places.find(|place| root.path(place).exists());
    first.map_or(Ok(()), |place| trusted::only_root_can_change(root, &place))
}

/// Stops the checks that an earlier daemon left running; answers with their number.
pub async fn stop_leftovers(bus: &Bus) -> Result<usize, BusError> {
    let pattern = format!("{PREFIX}*");
    bus.call("stopping left-over checks", |connection| async move {
        let manager = systemd::manager(&connection).await?;
        let units = manager.list_units_by_patterns(&[], &[&pattern]).await?;
        for (name, ..) in &units {
            // It may end between the two calls, which is all that is wanted.
            if let Err(error) = manager.stop_unit(name, "replace").await {
                tracing::debug!(%error, unit = name, "A left-over check ended by itself");
            }
        }
        Ok(units.len())
    })
    .await
}

#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error("cannot read the command's output: {0}")]
    Output(#[from] io::Error),
    #[error("cannot make a place for the command's output in /run: {0}")]
    Place(io::Error),
}

/// What PID 1 is to run.
struct Job<'a> {
    /// Name of its unit.
    unit: String,
    description: String,
    /// Program and arguments.
    command: &'a [String],
    timeout: Duration,
    more: Vec<Property<'a>>,
}

/// Where it prints.
struct Streams {
    output: Output,
    /// None where the journal gets them.
    errors: Option<Output>,
}

impl Streams {
    /// Ends only after too much was printed.
    async fn read(&mut self) -> io::Result<()> {
        let Some(errors) = &mut self.errors else {
            return self.output.read().await;
        };
        tokio::select! {
            read = self.output.read() => read,
            read = errors.read() => read,
        }
    }

    /// What is there still. Whether too much was printed.
    fn rest(&mut self) -> io::Result<bool> {
        let errors = self.errors.as_mut().map_or(Ok(false), Output::rest)?;
        Ok(self.output.rest()? || errors)
    }
}

/// Runs it to its end; with at most `most` bytes of what it printed.
async fn attempt(
    root: &Root,
    bus: &Bus,
    check: &Check<'_>,
    most: usize,
) -> Result<(Exit, String), RunError> {
    let place = Place::new(root).map_err(RunError::Place)?;
    let output = place.output("output", most).map_err(RunError::Place)?;
    let mut more: Vec<Property<'_>> = vec![("StandardError", "journal".into())];
    if check.words.is_some() {
        more.push(("Environment", vec!["LC_ALL=C"].into()));
    }
    let job = Job {
        unit: unit_name(PREFIX, check.name),
        description: format!("kube-rebootd check {}", check.name),
        command: check.command,
        timeout: check.timeout,
        more,
    };
    let errors = None;
    let mut streams = Streams { output, errors };
    let exit = end_of(bus, &job, &mut streams).await?;
    Ok((exit, shown(&streams.output.into_head())))
}

/// Runs it to its end.
async fn end_of(bus: &Bus, job: &Job<'_>, streams: &mut Streams) -> Result<Exit, RunError> {
    // One connection throughout: AddRef keeps the unit only as long as it lives.
    let connection = bus.connection().await?;
    let started = bounded("starting a command", start(&connection, job, streams)).await;
    let limit = job.timeout + GRACE;
    let too_much = || Exit::Lost(format!("it printed more than {MOST_PRINTED} bytes"));
    let ended = match started {
        Ok(()) => tokio::select! {
            ended = tokio::time::timeout(limit, ended(&connection, &job.unit)) => ended,
            read = streams.read() => {
                stop(&connection, &job.unit).await;
                read?;
                return Ok(too_much());
            }
        },
        Err(error) => Ok(Err(error)),
    };
    match ended {
        // It may have ended before all was read.
        Ok(Ok(exit)) => Ok(if streams.rest()? { too_much() } else { exit }),
        Ok(Err(error)) => {
            // Without an answer it may be running all the same.
            stop(&connection, &job.unit).await;
            Err(error.into())
        }
        Err(_) => {
            stop(&connection, &job.unit).await;
            let (unit, seconds) = (&job.unit, limit.as_secs());
            let why = format!("its unit {unit} did not end within {seconds} s");
            Ok(Exit::Lost(why))
        }
    }
}

async fn start(connection: &Connection, job: &Job<'_>, streams: &Streams) -> zbus::Result<()> {
    let program = job.command.first().map_or("", String::as_str);
    let exec = vec![(program, job.command, vec!["no-env-expand"])];
    let any_code: Vec<i32> = (1..=255).collect();
    let mut properties: Vec<Property<'_>> = vec![
        ("Description", job.description.as_str().into()),
        // RuntimeMaxSec is ignored for oneshot, and simple hides a command that is not there.
        ("Type", "exec".into()),
        // Plain ExecStart expands `$NAME` and turns `$$` into `$` in the admin's arguments.
        ("ExecStartEx", Variant::new(exec)),
        // A collected unit reads as success.
        ("AddRef", true.into()),
        ("CollectMode", "inactive-or-failed".into()),
        ("RuntimeMaxUSec", micros(job.timeout).into()),
        // Who opens the FIFO of a process that was killed waits for a reader.
        ("TimeoutStartUSec", micros(job.timeout).into()),
        ("TimeoutStopUSec", micros(STOP_TIMEOUT).into()),
        // Any other code would leave the unit failed and the host `degraded`.
        (
            "SuccessExitStatus",
            Variant::new((any_code, Vec::<i32>::new())),
        ),
        ("LogLevelMax", LOG_NOTICE.into()),
        ("StandardOutputFile", streams.output.path().into()),
    ];
    if let Some(errors) = &streams.errors {
        properties.push(("StandardErrorFile", errors.path().into()));
    }
    for (name, value) in &job.more {
        properties.push((name, value.try_clone()?));
    }
    let manager = systemd::manager(connection).await?;
    manager
        .start_transient_unit(&job.unit, "fail", &properties, &[])
        .await?;
    Ok(())
}

/// Reads the unit until it has ended, one way or the other.
async fn ended(connection: &Connection, name: &str) -> Result<Exit, BusError> {
    let unit = bounded("finding a check's unit", Unit::find(connection, name)).await?;
    let mut progress = Progress::default();
    let mut wait = POLL_MIN;
    loop {
        let state = bounded("reading a check's unit", unit.state()).await?;
        if let Some(exit) = progress.see(&state) {
            unit.unref().await;
            return Ok(exit);
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(POLL_MAX);
    }
}

async fn stop(connection: &Connection, name: &str) {
    let stopped = bounded("stopping a check", async {
        let manager = systemd::manager(connection).await?;
        manager.stop_unit(name, "replace").await
    });
    if let Err(error) = stopped.await {
        // Most often it never began. If not, its RuntimeMaxSec ends it.
        tracing::debug!(%error, unit = name, "A check could not be stopped");
    }
}

/// `PREFIXNAME-RANDOM.service`: a name used again would meet the unit of the last run.
fn unit_name(prefix: &str, name: &str) -> String {
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .take(NAME_BYTES)
        .collect();
    // The standard library's only source of randomness; it need not be secret.
    let random = RandomState::new().build_hasher().finish();
    format!("{prefix}{name}-{random:016x}.service")
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// What was printed, for people.
fn shown(bytes: &[u8]) -> String {
    text::block(&String::from_utf8_lossy(bytes), bytes.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn i8_a_verdict_needs_a_code_in_one_list_alone(
            exit in prop_oneof![any::<u8>().prop_map(Exit::Code), any::<String>().prop_map(Exit::Lost)],
            reboot in prop::collection::vec(any::<u8>(), 0..200), ok in prop::collection::vec(any::<u8>(), 0..200)) {
            let lists = match exit {
                Exit::Code(code) if !SYSTEMD_CODES.contains(&code) => (reboot.contains(&code), ok.contains(&code)),
                Exit::Code(_) | Exit::Lost(_) => (false, false),
            };
            let verdict = judge(&exit, &reboot, &ok);
            prop_assert_eq!(matches!(verdict, Verdict::Reboot { .. }), lists == (true, false));
            prop_assert_eq!(verdict == Verdict::No, lists == (false, true));
        }

        #[test]
        fn i14_any_output_is_shown_short_and_printable(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
            let output = shown(&bytes[..bytes.len().min(SHOWN_BYTES)]);
            prop_assert!(output.chars().all(|c| c == '\n' || !text::hostile(c)));
            prop_assert!(output.chars().count() <= SHOWN_BYTES);
        }
    }

    #[test]
    fn i8_only_listed_codes_are_answers() {
        let reboot = [1, 102, 203];
        let ok = [0, 102];
        for code in 0..=255 {
            let verdict = judge(&Exit::Code(code), &reboot, &ok);
            match code {
                0 => assert_eq!(verdict, Verdict::No),
                1 => assert!(matches!(verdict, Verdict::Reboot { .. })),
                // 102 is in both lists, 203 is systemd's own.
                _ => assert!(matches!(verdict, Verdict::Unknown { .. }), "{code}"),
            }
        }
        let lost = Exit::Lost("killed".to_owned());
        assert_eq!(
            judge(&lost, &reboot, &ok),
            Verdict::Unknown {
                why: "killed".to_owned()
            }
        );
    }

    /// dnf ends with 1 where a reboot is required, and where its plugin is not installed.
    #[test]
    fn i8_a_tool_whose_errors_end_like_a_reboot_must_say_it() {
        let wants = || judge(&Exit::Code(1), &[1], &[0]);
        let words = Some("Reboot is required");
        let said = "\nReboot is required to fully utilize these updates.\n";
        assert_eq!(confirmed(wants(), words, said), wants());
        assert_eq!(confirmed(wants(), None, ""), wants());
        for output in ["", "No such command: needs-restarting."] {
            let verdict = confirmed(wants(), words, output);
            assert!(matches!(verdict, Verdict::Unknown { .. }), "{output:?}");
        }
        assert_eq!(confirmed(Verdict::No, words, ""), Verdict::No);
    }

    #[test]
    fn unit_names_are_valid_and_never_the_same() {
        let first = unit_name(PREFIX, "näh/../x y");
        assert!(
            first.starts_with("kube-rebootd-check-n_h____x_y-"),
            "{first}"
        );
        assert_ne!(first, unit_name(PREFIX, "näh/../x y"));
        assert!(unit_name(PREFIX, &"x".repeat(1000)).len() < 255);
    }

    #[test]
    fn output_is_made_printable() {
        assert_eq!(shown(b"a\x1b[31mb\xff\r\nc\n\n"), "a[31mb\u{fffd}\nc");
    }
}
