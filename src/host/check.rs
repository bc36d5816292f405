//! Check commands, and credential plugins: run outside the daemon's sandbox as transient units, and judged (I8).
//!
//! PID 1 runs them: in our mount namespace lsof, rpm and others answer wrongly without an error.

use std::{collections::BTreeSet, time::Duration};

use kube_rebootd_core::text;
use kube_rebootd_core::trigger::Verdict;

use super::{
    bus::{Bus, BusError},
    systemd::{self, Property},
};

use crate::root::Root;

mod builtin;
mod hook;
mod job;
mod notice;
mod output;
mod plugin;
mod ready;
mod unit;

pub use builtin::{ask, program};
pub use hook::{Hook, run as hook};
use job::{Job, RunError, Streams, end_of, unit_name};
pub use notice::{NoticeError, tell as notice};
use output::{Output, Place};
pub use plugin::run as plugin;
use ready::ours;
#[cfg(test)]
pub(crate) use ready::tests::put;
pub use ready::{Unready, ready};

/// Begins the name of every unit made here.
pub(super) const PREFIX: &str = "kube-rebootd-check-";
/// Begins the name of every unit of a credential plugin: a reload stops checks, and no plugins.
const PLUGIN_PREFIX: &str = "kube-rebootd-plugin-";
/// How much of the output is kept for display: bytes that are kept, and characters that are shown.
const SHOWN_BYTES: usize = 4096;
/// How much is kept of an output in which something is looked for: some ten thousand names of packages.
const WHOLE_BYTES: usize = 256 * 1024;
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

/// Stops the checks that an earlier daemon left running; answers with their number.
pub async fn stop_leftovers(bus: &Bus) -> Result<usize, BusError> {
    stop_all(bus, PREFIX).await
}

/// The same with hooks and commands of the gate.
pub async fn stop_left_hooks(bus: &Bus) -> Result<usize, BusError> {
    Ok(stop_all(bus, hook::PREFIX).await? + stop_all(bus, hook::ROUND_PREFIX).await?)
}

/// Ends the hooks of rounds that an earlier daemon has begun: what one of them still did would be done after this round.
pub async fn end_left_rounds(bus: &Bus) -> Result<(), String> {
    for _ in 0..LEFT_LOOKS {
        match stop_all(bus, hook::ROUND_PREFIX).await {
            Ok(0) => return Ok(()),
            Ok(_) => tokio::time::sleep(LEFT_AGAIN).await,
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("a hook that an earlier daemon began does not end".to_owned())
}

/// How often, and after which time, it is looked whether they have ended: PID 1 ends them within 10 s.
const LEFT_LOOKS: u32 = 20;
const LEFT_AGAIN: Duration = Duration::from_secs(1);

/// How many of them run still.
async fn stop_all(bus: &Bus, prefix: &str) -> Result<usize, BusError> {
    let pattern = format!("{prefix}*");
    bus.call("stopping left-over checks", |connection| async move {
        let manager = systemd::manager(&connection).await?;
        let units = manager.list_units_by_patterns(&[], &[&pattern]).await?;
        let ended = ["inactive", "failed"];
        let units = units
            .iter()
            .filter(|unit| !ended.contains(&unit.3.as_str()));
        let mut left = 0;
        for (name, ..) in units {
            left += 1;
            // It may end between the two calls, which is all that is wanted.
            if let Err(error) = manager.stop_unit(name, "replace").await {
                tracing::debug!(%error, unit = name, "A left-over check ended by itself");
            }
        }
        Ok(left)
    })
    .await
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
    Ok((exit, shown(&streams.output.into_kept())))
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
