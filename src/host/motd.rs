//! `/run/motd.d/kube-rebootd`, which `pam_motd(8)` shows at each login: there as long as there is something to say.
//!
//! It is in memory, so the loop writes it itself, and only where it changes. A failure harms nothing: it is said once, and
//! the next step tries again. A daemon that is stopped takes it away; what one left that was killed, the next takes away when
//! it starts.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;

use tracing::warn;

use super::replace::{remove, replace};
use crate::root::Root;

const DIRECTORY: &str = "/run/motd.d";
const PATH: &str = "/run/motd.d/kube-rebootd";
/// Whoever logs in reads it.
const MODE: u32 = 0o644;
/// Of the directory, where no package of the distribution made it.
const DIRECTORY_MODE: u32 = 0o755;

/// What is shown there.
#[derive(Debug)]
pub struct Motd {
    root: Root,
    shown: Option<String>,
    /// That it cannot be written was said.
    trouble: bool,
}

impl Motd {
    /// Nothing is shown.
    pub fn new(root: &Root) -> Self {
        let mut motd = Self {
            root: root.clone(),
            // Whatever there may be.
            shown: Some(String::new()),
            trouble: false,
        };
        motd.show(None);
        motd
    }

    /// Shows this from now on; none: nothing.
    pub fn show(&mut self, said: Option<String>) {
        if said == self.shown {
            return;
        }
        match self.put(said.as_deref()) {
            Ok(()) => (self.shown, self.trouble) = (said, false),
            Err(err) if !self.trouble => {
                warn!("cannot change {PATH}, which changes nothing else: {err}; tried again");
                self.trouble = true;
            }
            Err(_) => {}
        }
    }

    fn put(&self, said: Option<&str>) -> io::Result<()> {
        let path = self.root.path(PATH);
        let Some(said) = said else {
            return remove(&path);
        };
        let directory = self.root.path(DIRECTORY);
        match fs::create_dir(&directory) {
            // Whatever the umask is.
            Ok(()) => fs::set_permissions(&directory, Permissions::from_mode(DIRECTORY_MODE))?,
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
            Err(err) => return Err(err),
        }
        replace(&path, said, MODE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_as_long_as_there_is_something_to_say() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        let path = root.path(PATH);
        let mut motd = Motd::new(&root);
        // There is no /run.
        motd.show(Some("one\n".to_owned()));
        assert!(motd.trouble && motd.shown.is_none());
        fs::create_dir(dir.path().join("run")).expect("made");
        motd.show(Some("one\n".to_owned()));
        assert!(!motd.trouble);
        assert_eq!(fs::read_to_string(&path).expect("there"), "one\n");
        let mode = |path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&path), MODE);
        assert_eq!(mode(&root.path(DIRECTORY)), DIRECTORY_MODE);
        motd.show(None);
        assert!(!path.exists());
        // The daemon is killed, and another comes.
        motd.show(Some("two\n".to_owned()));
        drop(motd);
        assert!(path.exists());
        let _next = Motd::new(&root);
        assert!(!path.exists());
    }
}
