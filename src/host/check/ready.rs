//! Whether a command can be run at all: its program is there, may be executed, and only root can change it (I14).

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::root::Root;
use crate::trusted::{self, Untrusted};

/// Where PID 1 looks for a program without a path, in this order (`systemd.exec(5)`).
const PATH: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// Why a command cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Unready {
    #[error("there is no {}", .0.display())]
    Absent(PathBuf),
    #[error("there is no {program} in {path}", program = .0.display(), path = PATH.join(", "))]
    Nowhere(PathBuf),
    #[error("{} is no regular file", .0.display())]
    NoFile(PathBuf),
    #[error("nobody may execute {}", .0.display())]
    Mode(PathBuf),
    #[error("cannot look at {path}: {source}", path = .path.display())]
    Unseen { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
}

/// Whether PID 1 can run it now.
///
/// # Errors
/// Why not.
pub fn ready(root: &Root, command: &[String]) -> Result<(), Unready> {
    let Some(program) = command.first().map(Path::new) else {
        return Ok(());
    };
    let path = place(root, program).ok_or_else(|| Unready::Nowhere(program.to_owned()))?;
    trusted::only_root_can_change(root, &path)?;
    let seen = root.resolve(&path).and_then(fs::metadata);
    match seen {
        Ok(file) if !file.is_file() => Err(Unready::NoFile(path)),
        Ok(file) if file.permissions().mode() & 0o111 == 0 => Err(Unready::Mode(path)),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Unready::Absent(path)),
        Err(source) => Err(Unready::Unseen { path, source }),
    }
}

/// The program is one that only root can change (I14); its arguments are not looked at.
pub(super) fn ours(root: &Root, command: &[String]) -> Result<(), Untrusted> {
    let program = command.first().map(Path::new);
    let place = program.and_then(|program| place(root, program));
    place.map_or(Ok(()), |place| trusted::only_root_can_change(root, &place))
}

/// Where PID 1 finds it. None: it has no path, and stands nowhere.
fn place(root: &Root, program: &Path) -> Option<PathBuf> {
    if program.is_absolute() {
        return Some(program.to_owned());
    }
    let mut places = PATH.iter().map(|dir| Path::new(dir).join(program));
    places.find(|place| root.path(place).exists())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A program of this mode.
    pub(crate) fn put(root: &Root, path: &str, mode: u32) {
        let real = root.path(path);
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        fs::write(&real, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn i14_why_a_command_cannot_be_run_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let said = |program: &str| match ready(&root, &[program.to_owned(), "-x".to_owned()]) {
            Ok(()) => "ready".to_owned(),
            Err(why) => why.to_string(),
        };
        put(&root, "/usr/local/bin/good", 0o755);
        put(&root, "/usr/bin/good", 0o777);
        put(&root, "/opt/text", 0o644);
        put(&root, "/opt/loose", 0o775);
        symlink("/opt/none", root.path("/opt/dangling")).unwrap();
        symlink("/usr/local/bin/good", root.path("/opt/link")).unwrap();
        for (program, words) in [
            ("good", "ready"),
            ("/usr/local/bin/good", "ready"),
            ("/opt/link", "ready"),
            ("/opt/text", "nobody may execute /opt/text"),
            ("/opt", "/opt is no regular file"),
            ("/opt/none", "there is no /opt/none"),
            ("/opt/dangling", "there is no /opt/dangling"),
            ("none", "there is no none in /usr/local/sbin, "),
            ("/opt/loose", "/opt/loose belongs to uid "),
        ] {
            assert!(said(program).starts_with(words), "{}", said(program));
        }
        // The first that PID 1 finds counts, and no other.
        fs::remove_file(root.path("/usr/local/bin/good")).unwrap();
        assert!(said("good").starts_with("/usr/bin/good belongs to"));
    }
}
