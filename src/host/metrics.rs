//! Where Prometheus finds the metrics of `kube_rebootd_core::metrics`: an address or a Unix socket that speaks HTTP, and a
//! textfile for `node_exporter`.
//!
//! A thread of its own, which begins when the configuration first names one of them: neither a scraper nor a disk keeps the
//! loop waiting (I7), and whoever connects can use no more of it than a few connections for some seconds (I14). The loop
//! leaves what is to be shown in a `watch` channel.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use kube_rebootd_core::config::Metrics;
use kube_rebootd_core::metrics::Page;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::root::Root;

mod door;
mod http;
mod text;
mod textfile;

pub use text::text;

use door::Door;
use textfile::Textfile;

/// The end of the daemon waits no longer for a disk that does not answer.
const LINGER: Duration = Duration::from_secs(1);
/// Connections at once: each Prometheus has one, for some milliseconds.
const CONNECTIONS: usize = 8;

/// What is shown, and where.
#[derive(Debug, Clone, PartialEq, Default)]
struct Shown {
    place: Metrics,
    page: Page,
}

/// The loop's end.
#[derive(Debug)]
pub struct Publisher {
    root: Root,
    thread: Thread,
}

#[derive(Debug)]
enum Thread {
    /// Nobody wanted it yet.
    Unused,
    Running(Running),
    /// It could not begin, or has ended.
    Gone,
}

#[derive(Debug)]
struct Running {
    shown: watch::Sender<Shown>,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

impl Publisher {
    pub fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            thread: Thread::Unused,
        }
    }

    /// Shows this there from now on. Never waits; makes no page that nobody wants.
    pub fn publish(&mut self, place: &Metrics, page: impl FnOnce() -> Page) {
        if let Thread::Unused = self.thread
            && !place.off()
        {
            self.thread = start(&self.root);
        }
        let Thread::Running(running) = &self.thread else {
            return;
        };
        let page = if place.off() { Page::default() } else { page() };
        let new = Shown {
            place: place.clone(),
            page,
        };
        running.shown.send_if_modified(|shown| {
            let changed = *shown != new;
            *shown = new;
            changed
        });
    }

    /// The daemon ends: what is left behind says so.
    pub fn end(&mut self) {
        let thread = mem::replace(&mut self.thread, Thread::Gone);
        let Thread::Running(Running { shown, ended }) = thread else {
            return;
        };
        drop(shown);
        // An error: the thread has ended, or hangs.
        let _ = ended.recv_timeout(LINGER);
    }
}

fn start(root: &Root) -> Thread {
    let (sender, shown) = watch::channel(Shown::default());
    let (end, ended) = channel();
    let root = root.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let started = runtime.and_then(|runtime| {
        let thread = thread::Builder::new().name("metrics".to_owned());
        thread.spawn(move || {
            runtime.block_on(serve(&root, shown));
            drop(end);
        })
    });
    match started {
        Ok(_) => Thread::Running(Running {
            shown: sender,
            ended,
        }),
        Err(err) => {
            tracing::warn!("no metrics are shown: {err}");
            Thread::Gone
        }
    }
}

/// Until nothing will be published any more.
async fn serve(root: &Root, mut shown: watch::Receiver<Shown>) {
    let mut door = Door::default();
    let mut file = Textfile::default();
    let mut connections = JoinSet::new();
    loop {
        let (place, page) = {
            let now = shown.borrow_and_update();
            (now.place.clone(), now.page.clone())
        };
        door.follow(root, place.listen.as_ref());
        file.follow(root, place.textfile.as_deref(), &page);
        loop {
            tokio::select! {
                biased;
                changed = shown.changed() => {
                    if changed.is_ok() {
                        break;
                    }
                    door.close();
                    file.stopped();
                    return;
                }
                () = file.due() => file.write(&page),
                Some(_) = connections.join_next() => {}
                stream = door.next(root), if connections.len() < CONNECTIONS => {
                    connections.spawn(http::serve(stream, page.clone()));
                }
            }
        }
    }
}

/// The name of a file beside `path` that nobody reads.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}
