//! A credential plugin as a transient unit: those of the clouds want sockets, devices and caches that the
//! daemon's sandbox denies (I7).
//!
//! Its environment may hold secrets, and everybody may read the properties of a unit. So PID 1 gets it as the
//! path of a file in this process's memory, which root alone can open.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use kube_rebootd_core::plugin::{OUTPUT_MAX, Plugin, PluginError, RUN, failed};
use zbus::{Fd, Variant};

use super::{Exit, Job, PLUGIN_PREFIX, RunError, SYSTEMD_CODES, end_of, memory, unit_name};
use crate::host::bus::Bus;

/// Bytes of what a failed plugin said that are looked at.
const SAID_MAX: usize = 64 * 1024;
/// Of this process's environment what systemd says to it alone (`systemd.exec(5)`).
const OURS: [&str; 12] = [
    "CREDENTIALS_DIRECTORY",
    "FDSTORE",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "MAINPID",
    "NOTIFY_SOCKET",
    "SYSTEMD_EXEC_PID",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// Runs it to its end: what it printed. Ends by itself at most 30 s after its limit.
pub async fn run(bus: &Bus, plugin: &Plugin) -> Result<Vec<u8>, PluginError> {
    if plugin.missing() {
        return Err(plugin.not_started(&"No such file in any directory of PATH"));
    }
    // systemd says only that it could not.
    fs::metadata(&plugin.program).map_err(|error| plugin.not_started(&error))?;
    let ended = attempt(bus, plugin).await;
    let (exit, printed, said) = ended.map_err(|error| plugin.not_started(&error))?;
    match exit {
        Exit::Code(0) if printed.len() as u64 > OUTPUT_MAX => {
            Err(PluginError::Answer("it printed more than 1 MiB".to_owned()))
        }
        Exit::Code(0) => Ok(printed),
        Exit::Code(code) if SYSTEMD_CODES.contains(&code) && said.is_empty() => {
            let why = format!("systemd says exit code {code}, see systemd.exec(5)");
            Err(plugin.not_started(&why))
        }
        Exit::Code(code) => Err(failed(format!("exit status: {code}"), &said)),
        Exit::Lost(why) => Err(failed(why, &said)),
    }
}

async fn attempt(bus: &Bus, plugin: &Plugin) -> Result<(Exit, Vec<u8>, Vec<u8>), RunError> {
    let (output, errors, variables) = (memory()?, memory()?, memory()?);
    let all = env::vars().filter(|(name, _)| !OURS.contains(&name.as_str()));
    let all = all.chain(plugin.environment.iter().cloned());
    variables.write_all_at(file(all).as_bytes(), 0)?;
    let number = variables.as_fd().as_raw_fd();
    let path = format!("/proc/{}/fd/{number}", std::process::id());
    let mut command = vec![plugin.program.clone()];
    command.extend(plugin.args.iter().cloned());
    let name = Path::new(&plugin.program).file_name();
    let name = name.map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let job = Job {
        unit: unit_name(PLUGIN_PREFIX, &name),
        description: format!("kube-rebootd credential plugin {name}"),
        command: &command,
        timeout: RUN,
        output: &output,
        more: vec![
            (
                "StandardErrorFileDescriptor",
                Fd::from(errors.as_fd()).into(),
            ),
            // Not "if it is there": without it the plugin would say something else.
            ("EnvironmentFiles", Variant::new(vec![(path, false)])),
        ],
    };
    let exit = end_of(bus, &job).await?;
    let most = usize::try_from(OUTPUT_MAX).unwrap_or(usize::MAX);
    Ok((exit, head(&output, most + 1)?, head(&errors, SAID_MAX)?))
}

/// An environment as `EnvironmentFile=` reads it: in double quotes four characters are escaped, and nothing is
/// expanded (`systemd.exec(5)`). Of two with one name the last counts.
fn file(variables: impl Iterator<Item = (String, String)>) -> String {
    let mut text = String::new();
    for (name, value) in variables {
        let mut quoted = String::new();
        for c in value.chars() {
            if matches!(c, '"' | '\\' | '`' | '$') {
                quoted.push('\\');
            }
            quoted.push(c);
        }
        // Writing to a String does not fail.
        let _ = writeln!(text, "{name}=\"{quoted}\"");
    }
    text
}

/// The first bytes of a file whose offset is shared with the command.
fn head(file: &fs::File, most: usize) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length.min(most)];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_quoted_as_systemd_reads_it() {
        let variables = [("A", r#"{"b": "c\d"}"#), ("B", "$x `y`\nz"), ("C", "")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(
            file(variables.into_iter()),
            "A=\"{\\\"b\\\": \\\"c\\\\d\\\"}\"\nB=\"\\$x \\`y\\`\nz\"\nC=\"\"\n"
        );
    }
}
