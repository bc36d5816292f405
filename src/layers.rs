//! The files that make up the configuration, and the only place that reads them (UAPI.6, I12).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kube_rebootd_core::config::{self, ConfigError, Effective, Problem};

use crate::bounded::{self, ReadError};
use crate::host::zone;
use crate::root::Root;
use crate::trusted;

/// Highest first: the admin's, this boot's, the distributor's.
const DIRECTORIES: [&str; 3] = [
    "/etc/kube-rebootd",
    "/run/kube-rebootd",
    "/usr/lib/kube-rebootd",
];
/// A configuration is a few KiB; more is not one, and is not read into memory.
const LARGEST: u64 = 1024 * 1024;

/// Reads the main file (the first found, or `explicit`), then every `config.d/*.toml` by file
/// name, whichever directory it is in. Of the same name the highest directory's counts; empty or
/// a link to /dev/null it masks the lower ones. `explicit` (`--config FILE`) replaces the main
/// file only: drop-ins still apply. Without any file the defaults hold.
///
/// # Errors
/// Every problem of every file.
pub fn load(root: &Root, explicit: Option<&Path>) -> Result<Effective, ConfigError> {
    let mut problems = Vec::new();
    let mut texts = Vec::new();
    for path in files(root, explicit, &mut problems) {
        match contents(&path) {
            Ok(text) => texts.push((path, text)),
            Err(error) => problems.push(unreadable(&path, &error)),
        }
    }
    config::merged(&texts, problems, |name| zone::rules(root, name))
}

/// As [`load`], for the daemon, which runs what it finds there: only root may be able to change a file or the way to it
/// (I14). `explicit` is taken at its word.
///
/// # Errors
/// Every problem of every file, with what somebody else could change.
pub fn load_for_root(root: &Root, explicit: Option<&Path>) -> Result<Effective, ConfigError> {
    // First: what only root can change does not change between this look and the reading.
    let mut bad = changeable(root, explicit.is_some());
    let loaded = load(root, explicit);
    if bad.is_empty() {
        return loaded;
    }
    bad.extend(loaded.err().into_iter().flat_map(|error| error.problems));
    Err(ConfigError { problems: bad })
}

/// What of the configuration somebody else than root can change. Whoever may write to a directory can take a file
/// away or mask it, and so the directories count, whatever is in them.
fn changeable(root: &Root, explicit: bool) -> Vec<Problem> {
    let mut bad = Vec::new();
    for dir in DIRECTORIES.map(Path::new) {
        let drop_ins = dir.join("config.d");
        let found: Vec<Problem> = [dir, &drop_ins]
            .into_iter()
            .filter_map(|dir| untrusted(root, dir))
            .collect();
        if !found.is_empty() {
            bad.extend(found);
            continue;
        }
        // What cannot be listed is told by who reads it.
        let files = names(&root.path(&drop_ins)).unwrap_or_default();
        let files = files.iter().filter_map(|file| file.file_name());
        let mut files: Vec<PathBuf> = files.map(|name| drop_ins.join(name)).collect();
        files.sort();
        files.extend((!explicit).then(|| dir.join("config.toml")));
        // A mask is a link to /dev/null, to which everybody may write.
        let masked = |file: &PathBuf| is_null(&root.path(file));
        let files = files.iter().filter(|file| !masked(file));
        bad.extend(files.filter_map(|file| untrusted(root, file)));
    }
    bad
}

fn untrusted(root: &Root, path: &Path) -> Option<Problem> {
    let why = trusted::only_root_can_change(root, path).err()?;
    Some(Problem {
        file: root.path(path),
        line: None,
        key: String::new(),
        reason: why.to_string(),
    })
}

/// The files that [`load`] reads, in the order in which they are laid over each other.
pub fn sources(root: &Root, explicit: Option<&Path>) -> Vec<PathBuf> {
    files(root, explicit, &mut Vec::new())
}

fn files(root: &Root, explicit: Option<&Path>, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let main = main_file(root, explicit).into_iter();
    main.chain(drop_ins(root, problems)).collect()
}

/// One file alone, over the defaults, for `config check FILE`.
///
/// # Errors
/// Every problem of the file.
pub fn load_alone(root: &Root, path: &Path) -> Result<Effective, ConfigError> {
    match contents(path) {
        Ok(text) => config::merged(&[(path.to_owned(), text)], Vec::new(), |name| {
            zone::rules(root, name)
        }),
        Err(error) => Err(ConfigError {
            problems: vec![unreadable(path, &error)],
        }),
    }
}

fn main_file(root: &Root, explicit: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = explicit {
        return Some(path.to_owned());
    }
    let mut found = DIRECTORIES
        .iter()
        .map(|dir| root.path(dir).join("config.toml"))
        // A file that is there and unreadable is found: passing it over would change a
        // setting silently.
        .filter(|path| !matches!(fs::symlink_metadata(path), Err(e) if is_absent(&e)));
    found.next()
}

/// By file name over all directories; masked ones are left out.
fn drop_ins(root: &Root, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let mut by_name = BTreeMap::new();
    // Lowest first: a higher one of the same name replaces it.
    for dir in DIRECTORIES.iter().rev() {
        let dir = root.path(dir).join("config.d");
        match names(&dir) {
            Ok(paths) => by_name.extend(
                paths
                    .into_iter()
                    .map(|p| (p.file_name().map(ToOwned::to_owned), p)),
            ),
            Err(error) if is_absent(&error) => {}
            Err(error) => problems.push(unreadable(&dir, &error.into())),
        }
    }
    by_name
        .into_values()
        .filter(|path| !is_masked(path))
        .collect()
}

fn names(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let hidden = path
            .file_name()
            .is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension().is_some_and(|e| e == "toml") {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Empty, or a link to /dev/null. The link is read, not followed: below another root its target
/// may not exist.
fn is_masked(path: &Path) -> bool {
    is_null(path) || fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() == 0)
}

fn is_null(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|target| target == Path::new("/dev/null"))
}

fn contents(path: &Path) -> Result<String, ReadError> {
    if is_null(path) {
        return Ok(String::new());
    }
    bounded::text(path, LARGEST)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn unreadable(path: &Path, error: &ReadError) -> Problem {
    Problem {
        file: path.to_owned(),
        line: None,
        key: String::new(),
        reason: format!("cannot be read: {error}; make it a readable UTF-8 file or remove it"),
    }
}

#[cfg(test)]
mod tests;
