//! A built-in check: this very program, run as check commands are, because the daemon's sandbox hides
//! processes and may hide modules (I8: only a whole answer with its exit code is one).

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube_rebootd_core::trigger::Builtin;
use kube_rebootd_outdated::{Answer, heard};

use super::{Check, Exit, WHOLE_BYTES, attempt};
use crate::host::bus::Bus;
use crate::root::Root;

/// Some hundred processes take some ten milliseconds; this is for hosts that hang.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How the kernel ends the path of a program that was removed or replaced (`proc_pid_exe(5)`).
const DELETED: &str = " (deleted)";

/// The path of this program. After an upgrade it is that of the new one, which answers as well; the old
/// one could be started by /proc/PID/exe only, with libraries that may be gone.
pub fn program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let path = path.to_string_lossy();
    Ok(PathBuf::from(
        path.strip_suffix(DELETED).unwrap_or(&path).to_owned(),
    ))
}

/// What `builtin` says, asked of `program`. Ends by itself within two minutes.
pub async fn ask(bus: &Bus, program: &Path, root: &Root, builtin: Builtin) -> Answer {
    // PID 1 has another working directory.
    let tree = root.path("/");
    let tree = std::path::absolute(&tree).unwrap_or(tree);
    let words = [
        program.to_string_lossy().into_owned(),
        "--root".to_owned(),
        tree.to_string_lossy().into_owned(),
        "check".to_owned(),
        "--json".to_owned(),
        "--builtin".to_owned(),
        builtin.name().to_owned(),
    ];
    let check = Check {
        name: &builtin.trigger(),
        command: &words,
        timeout: TIMEOUT,
        reboot_codes: &[],
        ok_codes: &[],
        words: None,
    };
    let (exit, said) = match attempt(root, bus, &check, WHOLE_BYTES).await {
        Ok(ended) => ended,
        Err(err) => return Answer::unknown(err.to_string()),
    };
    let code = match exit {
        Exit::Code(code) => code,
        Exit::Lost(why) => return Answer::unknown(why),
    };
    let answer = heard(&said, builtin);
    match (code, &answer) {
        (0, _) | (_, Answer::Unknown { .. }) if !said.is_empty() => answer,
        _ => Answer::unknown(format!(
            "{} ended with exit code {code} and without an answer",
            program.display()
        )),
    }
}
