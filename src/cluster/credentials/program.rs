//! Which program a kubeconfig's credential plugin is (I14).
//!
//! It is looked up here and not when it is run, so that what was looked at is what runs.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{Whose, believed};
use crate::root::Root;

/// The absolute path of `command`: below `directory`, that of the kubeconfig, when it is a path, as client-go
/// takes it; else what `PATH` names. One that is not there stays as it is written, for whoever runs it to say.
///
/// # Errors
/// Somebody else than root could change the host's program.
pub(super) fn find(
    root: &Root,
    directory: &Path,
    command: &str,
    whose: Whose,
) -> Result<String, String> {
    if command.contains('/') {
        let path = directory.join(command);
        believed(root, &path, whose)?;
        let place = root.resolve(&path);
        let place = place.map_err(|error| format!("{}: {error}", path.display()))?;
        return Ok(place.display().to_string());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let place = among(root, command, whose, &path)?;
    Ok(place.map_or_else(|| command.to_owned(), |place| place.display().to_string()))
}

/// The first program of that name in the directories of `path`, as `execvp(3)` finds it, but never in the
/// working directory.
pub(super) fn among(
    root: &Root,
    command: &str,
    whose: Whose,
    path: &OsStr,
) -> Result<Option<PathBuf>, String> {
    let mut places = env::split_paths(path)
        .filter(|directory| directory.is_absolute() && !command.is_empty())
        .map(|directory| directory.join(command));
    let Some(place) = places.find(|place| executable(place)) else {
        return Ok(None);
    };
    // `PATH` is this process's, so that it may lead out of another root than `/`.
    match place.strip_prefix(root.path("/")) {
        Ok(below) => believed(root, &Path::new("/").join(below), whose)?,
        Err(_) => believed(&Root::host(), &place, whose)?,
    }
    Ok(Some(place))
}

fn executable(place: &Path) -> bool {
    let metadata = fs::metadata(place);
    metadata.is_ok_and(|seen| seen.is_file() && seen.permissions().mode() & 0o111 != 0)
}
