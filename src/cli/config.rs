//! `kube-rebootd config show` and `config check`: the same reading as the daemon's (I12).

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jiff::Timestamp;
use kube_rebootd_core::config::{Config, ConfigError};
use kube_rebootd_core::kind;

use crate::host::{Bus, systemd};
use crate::layers;
use crate::root::Root;

use super::exit::{CONFIGURATION, FAILED};
use super::{block_on, complain, print, ready};

/// Prints the effective values, each with the file it came from; `explicit` is `--config FILE`.
pub fn show(root: &Root, explicit: Option<&Path>) -> ExitCode {
    match layers::load(root, explicit) {
        // A reader that left early (`| head`) is no failure worth a panic.
        Ok(effective) => match std::io::stdout().write_all(effective.text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(FAILED),
        },
        Err(error) => refuse(&[error]),
    }
}

/// Checks each file alone, or what the daemon would read when none is named (`explicit` is `--config FILE`).
/// Says what was read.
pub fn check(root: &Root, explicit: Option<&Path>, files: &[PathBuf]) -> ExitCode {
    if files.is_empty() {
        let read = layers::sources(root, explicit);
        return match layers::load_for_root(root, explicit) {
            Ok(effective) => {
                if let Err(error) = effective.opens(Timestamp::now()) {
                    return refused(&[error], &read);
                }
                print(&format!("valid: {}\n", named(&read)));
                on_this_host(root, &effective.config);
                ExitCode::SUCCESS
            }
            Err(error) => refused(&[error], &read),
        };
    }
    let checked = files.iter().map(|file| {
        let effective = layers::load_alone(root, file)?;
        effective.opens(Timestamp::now())
    });
    let errors: Vec<ConfigError> = checked.filter_map(Result::err).collect();
    if errors.is_empty() {
        print(&format!("valid: {}\n", named(files)));
        return ExitCode::SUCCESS;
    }
    refused(&errors, files)
}

/// The daemon takes such a configuration, and waits, or gives a slot back, until this is cured: that is said, and is no failure.
fn on_this_host(root: &Root, config: &Config) {
    if config.reboot.kind.soft() {
        // Where nobody answers, as in an image, nothing is known.
        block_on(async {
            let version = systemd::version(&Bus::system()).await.ok();
            if let Some(why) = version.and_then(|version| kind::lacking(&version)) {
                complain(&format!(
                    "on this host: reboot.kind: no soft-reboot is done: {why}; cure: reboot.kind = \"reboot\", or update the distribution"
                ));
            }
            ExitCode::SUCCESS
        });
    }
    for row in ready::all(root, config) {
        for trouble in row.troubles {
            complain(&format!(
                "on this host: {}: {}; cure: {}",
                row.name, trouble.what, trouble.cure
            ));
        }
    }
}

fn refused(errors: &[ConfigError], read: &[PathBuf]) -> ExitCode {
    let code = refuse(errors);
    complain(&format!("read {}", named(read)));
    code
}

fn named(files: &[PathBuf]) -> String {
    if files.is_empty() {
        return "no file, which means the defaults".to_owned();
    }
    let files = files.iter().map(|file| file.display().to_string());
    files.collect::<Vec<_>>().join(", ")
}

fn refuse(errors: &[ConfigError]) -> ExitCode {
    let mut out = std::io::stderr().lock();
    for error in errors {
        // Nobody is left to tell when stderr is gone; the exit code stays.
        let _ = writeln!(out, "{error}");
    }
    ExitCode::from(CONFIGURATION)
}
