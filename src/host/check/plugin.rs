//! A credential plugin as a transient unit: those of the clouds want sockets, devices and caches that the
//! daemon's sandbox denies (I7).
//!
//! Its environment may hold secrets, and everybody may read the properties of a unit. So PID 1 gets it as the
//! path of a file that root alone can read, and that is gone when the plugin has ended.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use kube_rebootd_core::plugin::{OUTPUT_MAX, Plugin, PluginError, RUN, failed};
use zbus::Variant;

use super::{
    Exit, Job, Output, PLUGIN_PREFIX, Place, RunError, SYSTEMD_CODES, Streams, end_of, unit_name,
};
use crate::host::bus::Bus;
use crate::root::Root;

/// Bytes of what a failed plugin said that are kept.
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
pub async fn run(root: &Root, bus: &Bus, plugin: &Plugin) -> Result<Vec<u8>, PluginError> {
    if plugin.missing() {
        return Err(plugin.not_started(&"No such file in any directory of PATH"));
    }
    // systemd says only that it could not.
    fs::metadata(&plugin.program).map_err(|error| plugin.not_started(&error))?;
    let ended = attempt(root, bus, plugin).await;
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

async fn attempt(
    root: &Root,
    bus: &Bus,
    plugin: &Plugin,
) -> Result<(Exit, Vec<u8>, Vec<u8>), RunError> {
    let all = env::vars().filter(|(name, _)| !OURS.contains(&name.as_str()));
    let all = all.chain(plugin.environment.iter().cloned());
    let place = Place::new(root).map_err(RunError::Place)?;
    let (variables, mut streams) = prepare(&place, &file(all)).map_err(RunError::Place)?;
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
        // Not "if it is there": without it the plugin would say something else.
        more: vec![("EnvironmentFiles", Variant::new(vec![(variables, false)]))],
    };
    let exit = end_of(bus, &job, &mut streams).await?;
    let said = streams.errors.map_or_else(Vec::new, Output::into_kept);
    Ok((exit, streams.output.into_kept(), said))
}

/// The file with its environment, and where it prints.
fn prepare(place: &Place, environment: &str) -> io::Result<(String, Streams)> {
    let most = usize::try_from(OUTPUT_MAX).unwrap_or(usize::MAX);
    let variables = place.file("environment", environment)?;
    let streams = Streams {
        output: place.output("output", most.saturating_add(1))?,
        errors: Some(place.output("errors", SAID_MAX)?),
    };
    Ok((variables, streams))
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
