//! The inotify watch of sentinels: which directories, and what an event means.
//!
//! It only makes the daemon fast; a lost event costs one period of the poll, never an answer (I8).

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsString,
    fmt, io,
    path::Path,
    time::Duration,
};

use futures_util::StreamExt;
use inotify::{Event, EventMask, EventStream, Inotify, WatchDescriptor, WatchMask};
use tokio::time::Instant;

use crate::root::Root;

/// How long to wait when inotify has no instance or watch left for us.
const RETRY: Duration = Duration::from_secs(60);
/// Room for 15 events with the longest name; more are read in turns.
const BUFFER_BYTES: usize = 4096;

/// Watches the directories of some sentinels, or, while one is missing, where it will appear.
#[derive(Debug)]
pub struct Watch {
    root: Root,
    paths: Vec<String>,
    armed: Option<Armed>,
    retry_at: Instant,
}

/// The names that matter in one watched directory.
#[derive(Debug, Default)]
struct Names {
    /// Sentinels and their `.pkgs`: an event means that the caller reads again.
    files: BTreeSet<OsString>,
    /// Missing directories: an event means that the watch is made anew.
    directories: BTreeSet<OsString>,
}

struct Armed {
    events: EventStream<Vec<u8>>,
    names: HashMap<WatchDescriptor, Names>,
}

/// What an event asks for.
enum Meaning {
    Nothing,
    Changed,
    Rearm,
}

impl Watch {
    /// Watches at once, so that nothing is missed between this and the first [`super::Reader::look`].
    pub fn new(root: &Root, paths: &[String]) -> Self {
        let mut watch = Self {
            root: root.clone(),
            paths: paths.to_vec(),
            armed: None,
            retry_at: Instant::now(),
        };
        watch.arm();
        watch
    }

    /// Returns when a sentinel may have changed: [`super::Reader::look`] then. Cancel safe.
    pub async fn changed(&mut self) {
        loop {
            let Some(armed) = &mut self.armed else {
                tokio::time::sleep_until(self.retry_at).await;
                if self.arm() {
                    // What happened without a watch went unseen.
                    return;
                }
                continue;
            };
            let meaning = match armed.events.next().await {
                Some(Ok(event)) => armed.meaning(&event),
                Some(Err(_)) | None => Meaning::Rearm,
            };
            match meaning {
                Meaning::Nothing => {}
                Meaning::Changed => return,
                Meaning::Rearm => {
                    self.arm();
                    return;
                }
            }
        }
    }

    fn arm(&mut self) -> bool {
        self.armed = match Armed::new(&self.root, &self.paths) {
            Ok(armed) => Some(armed),
            Err(error) => {
                tracing::warn!(%error, "Sentinels are only polled: inotify failed; see fs.inotify.max_user_instances");
                self.retry_at = Instant::now() + RETRY;
                None
            }
        };
        self.armed.is_some()
    }
}

impl fmt::Debug for Armed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Armed")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl Armed {
    fn new(root: &Root, paths: &[String]) -> io::Result<Self> {
        let events = Inotify::init()?.into_event_stream(vec![0; BUFFER_BYTES])?;
        let mut armed = Self {
            events,
            names: HashMap::new(),
        };
        for path in paths {
            armed.add(root, Path::new(path))?;
        }
        Ok(armed)
    }

    fn add(&mut self, root: &Root, path: &Path) -> io::Result<()> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(());
        };
        if let Some(wd) = self.watch(root, directory)? {
            let names = self.names.entry(wd).or_default();
            let mut list = name.to_owned();
            list.push(".pkgs");
            names.files.extend([name.to_owned(), list]);
            return Ok(());
        }
        // The nearest directory that exists shows the next one appear.
        for missing in directory.ancestors() {
            let (Some(parent), Some(name)) = (missing.parent(), missing.file_name()) else {
                break;
            };
            if let Some(wd) = self.watch(root, parent)? {
                self.names
                    .entry(wd)
                    .or_default()
                    .directories
                    .insert(name.to_owned());
                if root.resolve(missing).is_ok_and(|real| real.is_dir()) {
                    // It was made before the watch was there: begin again, one level deeper.
                    return self.add(root, path);
                }
                break;
            }
        }
        Ok(())
    }

    /// Watches a directory; `None` when it does not exist.
    fn watch(&mut self, root: &Root, directory: &Path) -> io::Result<Option<WatchDescriptor>> {
        let mask = WatchMask::CREATE
            | WatchMask::MOVED_TO
            | WatchMask::MOVED_FROM
            | WatchMask::DELETE
            | WatchMask::CLOSE_WRITE
            | WatchMask::ATTRIB
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR;
        let added = root
            .resolve(directory)
            .and_then(|real| self.events.watches().add(real, mask));
        match added {
            Ok(wd) => Ok(Some(wd)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn meaning(&self, event: &Event<OsString>) -> Meaning {
        let lost = EventMask::IGNORED
            | EventMask::DELETE_SELF
            | EventMask::MOVE_SELF
            | EventMask::UNMOUNT
            | EventMask::Q_OVERFLOW;
        if event.mask.intersects(lost) {
            return Meaning::Rearm;
        }
        let (Some(names), Some(name)) = (self.names.get(&event.wd), &event.name) else {
            return Meaning::Nothing;
        };
        if names.directories.contains(name) {
            Meaning::Rearm
        } else if names.files.contains(name) {
            Meaning::Changed
        } else {
            Meaning::Nothing
        }
    }
}
