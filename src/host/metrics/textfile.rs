//! The file that `node_exporter`'s textfile collector reads.
//!
//! It is replaced as a whole, and only some seconds after it was replaced last; once a minute also where nothing changed, so
//! that its age (`node_textfile_mtime_seconds`) says whether the daemon lives. A daemon that is stopped leaves the word that
//! it does not run, and nothing that is not true any more; one that was killed, a file that grows old.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd_core::metrics::Page;
use tokio::time::{Instant, sleep_until};

use super::text;
use crate::host::replace::{remove, replace};
use crate::root::Root;

/// `node_exporter` reads every 15 seconds or less often.
const PAUSE: Duration = Duration::from_secs(5);
/// A sign of life.
const LIFE: Duration = Duration::from_secs(60);
/// `node_exporter` runs as a user of its own; nothing in it is a secret.
const MODE: u32 = 0o644;

#[derive(Debug, Default)]
pub(super) struct Textfile {
    path: Option<PathBuf>,
    /// When it was written last, or tried to.
    last: Option<Instant>,
    due: Option<Instant>,
    written: Page,
    /// What was said of a file that cannot be written.
    trouble: String,
}

impl Textfile {
    /// The file is to stand there, with this page. One that stood elsewhere goes.
    pub(super) fn follow(&mut self, root: &Root, path: Option<&Path>, page: &Page) {
        let path = path.map(|path| root.path(path));
        if path != self.path {
            if let Some(old) = &self.path
                && let Err(err) = remove(old)
            {
                tracing::warn!("cannot remove {}: {err}", old.display());
            }
            *self = Self {
                path,
                ..Self::default()
            };
        }
        if self.path.is_none() {
            return;
        }
        let after = if *page == self.written { LIFE } else { PAUSE };
        let soon = self.last.map_or_else(Instant::now, |last| last + after);
        self.due = Some(soon);
    }

    /// Resolves when it is to be written. Cancel-safe.
    pub(super) async fn due(&self) {
        match self.due {
            Some(due) => sleep_until(due).await,
            None => pending().await,
        }
    }

    pub(super) fn write(&mut self, page: &Page) {
        self.put(page);
        self.written.clone_from(page);
        let now = Instant::now();
        (self.last, self.due) = (Some(now), Some(now + LIFE));
    }

    /// The daemon ends.
    pub(super) fn stopped(&mut self) {
        if self.path.is_some() {
            self.put(&Page::stopped());
        }
    }

    /// Said once for each trouble.
    fn put(&mut self, page: &Page) {
        let Some(path) = &self.path else { return };
        match replace(path, &text(page, Timestamp::now()), MODE) {
            Ok(()) => self.trouble.clear(),
            Err(err) => {
                let words = format!("cannot write metrics.textfile {}: {err}", path.display());
                if words != self.trouble {
                    tracing::warn!("{words}; tried again");
                    self.trouble = words;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[tokio::test(start_paused = true)]
    async fn it_is_written_after_a_change_and_once_a_minute_and_says_when_it_ends() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        let path = Path::new("/k.prom");
        let real = root.path(path);
        let mut file = Textfile::default();
        let (empty, page) = (Page::default(), Page::stopped());
        let start = Instant::now();
        file.follow(&root, Some(path), &page);
        file.due().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        file.write(&page);
        let mode = fs::metadata(&real).expect("written").permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        // The same page.
        file.follow(&root, Some(path), &page);
        file.due().await;
        assert_eq!(start.elapsed(), LIFE);
        file.write(&page);
        // Another one, at once after it.
        file.follow(&root, Some(path), &empty);
        file.due().await;
        assert_eq!(start.elapsed(), LIFE + PAUSE);
        file.write(&empty);
        assert_eq!(fs::read_to_string(&real).expect("read"), "");
        file.stopped();
        let left = fs::read_to_string(&real).expect("read");
        assert!(left.ends_with("kube_rebootd_running 0.0\n"), "{left}");
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 1);
        // Switched off, it goes.
        file.follow(&root, None, &page);
        assert!(!real.exists());
        assert!(file.due.is_none());
    }
}
