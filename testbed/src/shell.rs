//! Running commands, with errors that say which and why.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a command to its end; its output when it succeeds, else an error with what it printed.
pub(crate) fn run(program: impl AsRef<Path>, args: &[&str]) -> Result<String> {
    output(Command::new(program.as_ref()).args(args))
}

/// The same for a prepared command.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let out = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !out.status.success() {
        let words = String::from_utf8_lossy(&out.stderr);
        let said = String::from_utf8_lossy(&out.stdout);
        bail!(
            "{command:?} failed ({}): {}{}",
            out.status,
            words.trim(),
            said.trim()
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Runs a command with its output on our own standard error, for the long steps of `prepare`.
pub(crate) fn shown(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}
