//! The hooks of an admin: which files there are, and in which order (I8, I14).
//!
//! They are laid over each other as the configuration's drop-ins are: of the same name that of /etc counts before that of
//! /run and of /usr/lib, and a link to /dev/null or an empty file masks it. Only executable regular files are hooks, and only
//! root may be able to change them: what root runs is decided by nobody else. A directory that cannot be read, or with more
//! than a few, is an error: a hook that is not known of may be the one that says no.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube_rebootd_core::hook::Hook;
use kube_rebootd_core::text::{self, NAME};

use super::beside::Beside;
use crate::bounded::{self, ReadError};
use crate::root::Root;
use crate::trusted::{self, Untrusted};

/// Lowest first: the distributor's, this boot's, the admin's.
const DIRECTORIES: [&str; 3] = [
    "/usr/lib/kube-rebootd/hooks",
    "/run/kube-rebootd/hooks",
    "/etc/kube-rebootd/hooks",
];
/// More are no hooks, but a directory that something else was copied into.
const MOST: usize = 32;
/// Entries that are looked at in one directory, whatever they are.
const ENTRIES: usize = 1024;
/// What packages and editors leave beside a file.
const LEFT: [&str; 9] = [
    "~", ".bak", ".orig", ".rpmsave", ".rpmnew", ".rpmorig", ".pacnew", ".pacsave", ".swp",
];
/// Reading a few local files; only a dead network mount takes longer.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A hook that may be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its file's name, for messages.
    pub name: String,
    /// Where PID 1 finds it.
    pub path: PathBuf,
}

/// Why it is not known which there are.
#[derive(Debug, thiserror::Error)]
pub enum Unlisted {
    #[error("cannot read {}: {source}", path.display())]
    Unread { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    #[error("there are more than {MOST} in {0}")]
    TooMany(&'static str),
    #[error("their directories could not be read within {} s", READ_TIMEOUT.as_secs())]
    Slow,
    /// Said only where it matters before anything is begun: else it is no hook.
    #[error(
        "nobody may execute {path}, so it would not be run; to use it: chmod +x {path}; else remove it, or put a link to /dev/null in its place",
        path = .0.display()
    )]
    Idle(PathBuf),
}

/// What stands in the directories of one kind.
#[derive(Debug, Default)]
pub struct Survey {
    /// Those that may be run, by name.
    pub hooks: Vec<Found>,
    /// Programs that nobody may execute: they are passed over.
    pub idle: Vec<PathBuf>,
    /// Why it is not known which there are: then none of them is run.
    pub bad: Vec<Unlisted>,
}

impl Survey {
    fn slow() -> Self {
        Self {
            bad: vec![Unlisted::Slow],
            ..Self::default()
        }
    }

    /// Those that are run, or the first reason why none is.
    ///
    /// # Errors
    /// What cannot be read, or could be changed by somebody else than root.
    pub fn listed(self) -> Result<Vec<Found>, Unlisted> {
        match self.bad.into_iter().next() {
            None => Ok(self.hooks),
            Some(why) => Err(why),
        }
    }

    /// The same of those on which something is to rest that is not begun yet: no program is passed over.
    ///
    /// # Errors
    /// As [`Self::listed`]; and a program that nobody may execute.
    pub fn complete(self) -> Result<Vec<Found>, Unlisted> {
        let idle = self.idle.first().cloned();
        match (self.listed(), idle) {
            (Ok(_), Some(path)) => Err(Unlisted::Idle(path)),
            (listed, _) => listed,
        }
    }
}

/// Looks beside the loop.
#[derive(Debug, Default)]
pub struct Hooks {
    beside: Beside<Survey>,
}

impl Hooks {
    /// Those of one kind, by name. Cancel safe.
    pub async fn look(&mut self, root: &Root, hook: Hook) -> Result<Vec<Found>, Unlisted> {
        self.survey(root, hook).await.listed()
    }

    /// What stands in the directories of one kind. Cancel safe.
    pub async fn survey(&mut self, root: &Root, hook: Hook) -> Survey {
        let root = root.clone();
        let look = move || survey(&root, hook);
        let found = self.beside.look(READ_TIMEOUT, look).await;
        found.unwrap_or_else(Survey::slow)
    }
}

/// What stands in the directories of one kind.
pub fn survey(root: &Root, hook: Hook) -> Survey {
    let mut survey = Survey::default();
    let mut by_name = BTreeMap::new();
    for directory in DIRECTORIES {
        let directory = Path::new(directory).join(hook.directory());
        match names(root, &directory) {
            Ok(names) => by_name.extend(names.into_iter().map(|name| {
                let path = directory.join(&name);
                (name, path)
            })),
            Err(why) => survey.bad.push(why),
        }
    }
    for (name, path) in by_name {
        match kind(root, &path) {
            Ok(Kind::None) => {}
            Ok(Kind::Idle) => survey.idle.push(path),
            Ok(Kind::Hook) => match trusted::only_root_can_change(root, &path) {
                Ok(()) => survey.hooks.push(found(root, &name, &path)),
                Err(why) => survey.bad.push(why.into()),
            },
            Err(why) => survey.bad.push(why),
        }
        if survey.hooks.len() > MOST {
            survey.bad.push(Unlisted::TooMany(hook.directory()));
            break;
        }
    }
    survey
}

fn found(root: &Root, name: &OsStr, path: &Path) -> Found {
    let path = root.path(path);
    Found {
        name: text::clean(&name.to_string_lossy(), NAME),
        // PID 1 has another working directory.
        path: std::path::absolute(&path).unwrap_or(path),
    }
}

/// What stands in a directory, but for what begins with a dot or was left there; nothing where there is none.
fn names(root: &Root, directory: &Path) -> Result<Vec<OsString>, Unlisted> {
    let unread = |source| Unlisted::Unread {
        path: directory.to_owned(),
        source,
    };
    let real = root.resolve(directory).map_err(unread)?;
    let entries = match fs::read_dir(&real) {
        Ok(entries) => entries,
        Err(error) if absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(unread(error)),
    };
    // Whoever may write there can take a hook away, or mask it.
    trusted::only_root_can_change(root, directory)?;
    let mut names = Vec::new();
    for entry in entries.take(ENTRIES) {
        let name = entry.map_err(unread)?.file_name();
        let bytes = name.as_encoded_bytes();
        let left = LEFT.iter().any(|end| bytes.ends_with(end.as_bytes()));
        let dpkg = bytes.windows(6).any(|part| part == b".dpkg-");
        if !bytes.starts_with(b".") && !left && !dpkg {
            names.push(name);
        }
    }
    Ok(names)
}

/// What a file there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An executable regular file.
    Hook,
    /// A program that nobody may execute.
    Idle,
    /// A mask, or something else.
    None,
}

fn kind(root: &Root, path: &Path) -> Result<Kind, Unlisted> {
    let unread = |source| Unlisted::Unread {
        path: path.to_owned(),
        source,
    };
    if fs::read_link(root.path(path)).is_ok_and(|target| target == Path::new("/dev/null")) {
        return Ok(Kind::None);
    }
    let real = root.resolve(path).map_err(unread)?;
    match fs::metadata(&real) {
        Ok(file) if !file.is_file() || file.len() == 0 => Ok(Kind::None),
        Ok(file) if file.permissions().mode() & 0o111 != 0 => Ok(Kind::Hook),
        // A README is none; what cannot be read is not known to be one.
        Ok(_) if program(&real).unwrap_or(true) => Ok(Kind::Idle),
        Ok(_) => Ok(Kind::None),
        // It was removed since, or is a link to nothing.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Kind::None),
        Err(error) => Err(unread(error)),
    }
}

/// It begins as a script does, or as what a compiler makes.
fn program(path: &Path) -> Result<bool, ReadError> {
    let mut begins = Vec::new();
    let file = bounded::open(path)?;
    file.take(4).read_to_end(&mut begins)?;
    Ok(begins.starts_with(b"#!") || begins == b"\x7fELF")
}

fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    fn tree() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        (dir, root)
    }

    fn hook(root: &Root, path: &str, mode: u32) {
        let real = root.path(path);
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        fs::write(&real, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn found(root: &Root) -> Vec<String> {
        let found = survey(root, Hook::Gate).listed().unwrap();
        let from = |one: &Found| {
            let path = one.path.strip_prefix(root.path("/")).unwrap();
            path.components().next().unwrap().as_os_str().to_owned()
        };
        let words = |one: &Found| format!("{} {}", one.name, from(one).display());
        found.iter().map(words).collect()
    }

    fn refused(root: &Root) -> String {
        survey(root, Hook::Gate).listed().unwrap_err().to_string()
    }

    const ETC: &str = "/etc/kube-rebootd/hooks/gate.d";
    const RUN: &str = "/run/kube-rebootd/hooks/gate.d";
    const USR: &str = "/usr/lib/kube-rebootd/hooks/gate.d";

    #[test]
    fn hooks_are_laid_over_each_other_and_come_by_name() {
        let (_dir, root) = tree();
        assert_eq!(found(&root), [""; 0]);
        for path in [
            format!("{USR}/10-a"),
            format!("{USR}/20-b"),
            format!("{USR}/30-c"),
            format!("{USR}/40-d"),
            format!("{RUN}/05-e"),
            format!("{RUN}/20-b"),
            format!("{ETC}/20-b"),
        ] {
            hook(&root, &path, 0o755);
        }
        // The admin masks one, empties one and makes one no program.
        symlink("/dev/null", root.path(format!("{ETC}/10-a"))).unwrap();
        fs::write(root.path(format!("{ETC}/30-c")), "").unwrap();
        assert_eq!(found(&root), ["05-e run", "20-b etc", "40-d usr"]);
        hook(&root, &format!("{ETC}/40-d"), 0o644);
        assert_eq!(found(&root), ["05-e run", "20-b etc"]);
    }

    #[test]
    fn what_is_left_beside_a_hook_is_none() {
        let (_dir, root) = tree();
        for name in [
            ".hidden",
            "a~",
            "a.bak",
            "a.rpmsave",
            "a.rpmnew",
            "a.pacnew",
            "a.dpkg-old",
            "a.swp",
        ] {
            hook(&root, &format!("{ETC}/{name}"), 0o755);
        }
        fs::create_dir(root.path(format!("{ETC}/directory"))).unwrap();
        symlink("/nowhere", root.path(format!("{ETC}/dangling"))).unwrap();
        assert_eq!(found(&root), [""; 0]);
        hook(&root, &format!("{ETC}/a.sh"), 0o700);
        // A link that leads to one is one, below another root as well.
        hook(&root, "/usr/share/doc/hook", 0o755);
        symlink("/usr/share/doc/hook", root.path(format!("{ETC}/b"))).unwrap();
        assert_eq!(found(&root), ["a.sh etc", "b etc"]);
    }

    #[test]
    fn i14_what_others_can_change_is_not_run_and_says_its_cure() {
        let (_dir, root) = tree();
        hook(&root, &format!("{ETC}/10-a"), 0o775);
        assert!(refused(&root).ends_with(&format!("chmod go-w {ETC}/10-a")));
        hook(&root, &format!("{ETC}/10-a"), 0o755);
        fs::set_permissions(root.path(ETC), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(refused(&root).ends_with(&format!("chmod go-w {ETC}")));
        fs::set_permissions(root.path(ETC), fs::Permissions::from_mode(0o755)).unwrap();
        chown(root.path(format!("{ETC}/10-a")), Some(65534), None).unwrap();
        assert!(refused(&root).contains("chown root:root"));
    }

    /// A disabled hook and one whose mode was forgotten look alike: on the one nothing must rest.
    #[test]
    fn i8_a_program_that_nobody_may_execute_is_known() {
        let (_dir, root) = tree();
        hook(&root, &format!("{ETC}/10-a"), 0o755);
        hook(&root, &format!("{ETC}/20-b"), 0o644);
        hook(&root, &format!("{USR}/30-c"), 0o644);
        hook(&root, &format!("{ETC}/30-c"), 0o755);
        hook(&root, &format!("{USR}/40-d"), 0o644);
        symlink("/dev/null", root.path(format!("{ETC}/40-d"))).unwrap();
        for (name, text) in [("README", "Hooks.\n"), ("empty", ""), ("x~", "#!/bin/sh\n")] {
            fs::write(root.path(format!("{ETC}/{name}")), text).unwrap();
        }
        let seen = survey(&root, Hook::Gate);
        assert_eq!(seen.idle, [Path::new(ETC).join("20-b")]);
        assert!(seen.bad.is_empty());
        assert_eq!(found(&root), ["10-a etc", "30-c etc"]);
        let why = seen.complete().unwrap_err().to_string();
        assert!(why.contains(&format!("chmod +x {ETC}/20-b")), "{why}");
        fs::write(root.path(format!("{ETC}/20-b")), b"\x7fELF\x02").unwrap();
        assert!(survey(&root, Hook::Gate).complete().is_err());
        fs::remove_file(root.path(format!("{ETC}/20-b"))).unwrap();
        assert_eq!(survey(&root, Hook::Gate).complete().unwrap().len(), 2);
        // Each that is wrong is named.
        hook(&root, &format!("{ETC}/10-a"), 0o775);
        hook(&root, &format!("{ETC}/30-c"), 0o757);
        assert_eq!(survey(&root, Hook::Gate).bad.len(), 2);
        assert!(survey(&root, Hook::Gate).complete().is_err());
    }

    #[test]
    fn i8_what_cannot_be_read_is_not_no_hook() {
        let (_dir, root) = tree();
        for number in 0..MOST {
            hook(&root, &format!("{ETC}/{number:02}"), 0o755);
        }
        assert_eq!(found(&root).len(), MOST);
        hook(&root, &format!("{RUN}/99"), 0o755);
        assert_eq!(refused(&root), "there are more than 32 in gate.d");
        let (_dir, root) = tree();
        fs::create_dir_all(root.path("/etc/kube-rebootd/hooks")).unwrap();
        symlink("gate.d", root.path(ETC)).unwrap();
        assert!(refused(&root).starts_with(&format!("cannot read {ETC}")));
    }
}
