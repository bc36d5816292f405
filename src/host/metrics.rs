//! Where Prometheus finds the metrics of `kube_rebootd_core::metrics`: an address or a Unix socket that speaks HTTP, and a
//! textfile for `node_exporter`.
//!
//! A thread of its own, which begins when the configuration first names one of them: neither a scraper nor a disk keeps the
//! loop waiting (I7), and whoever connects can use no more of it than a few connections for some seconds (I14). The loop
//! leaves what is to be shown in a `watch` channel.

use std::mem;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use kube_rebootd_core::config::Metrics;
use kube_rebootd_core::metrics::Page;
use tokio::sync::watch;
use tokio::task::yield_now;

use crate::root::Root;

mod http;
mod text;
mod textfile;

pub use text::text;

use super::door::{Callers, Door, Served};
use textfile::Textfile;

/// The end of the daemon waits no longer for a disk that does not answer.
const LINGER: Duration = Duration::from_secs(1);
/// Each Prometheus has one connection, for some milliseconds.
const SERVED: Served = Served {
    key: "metrics.listen",
    what: "metrics are",
};

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
    let mut door = Door::new(SERVED);
    let mut file = Textfile::default();
    let mut callers = Callers::default();
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
                Some(()) = callers.ended() => {}
                stream = door.next(root) => {
                    callers.admit(SERVED.key, http::serve(stream, page.clone()));
                    // Before the next comes in this one is heard: in a crowd it would be ended else with its request unread.
                    yield_now().await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream as Blocking;
    use std::path::PathBuf;

    use kube_rebootd_core::config::Listen;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixStream;
    use tokio::time::Instant;

    use super::super::door::CONNECTIONS;
    use super::*;

    const ASK: &[u8] = b"GET /metrics HTTP/1.1\r\n\r\n";

    /// Served by a task at a socket; all of it in this thread, in virtual time.
    struct Served {
        _dir: tempfile::TempDir,
        path: PathBuf,
        _shown: watch::Sender<Shown>,
    }

    impl Served {
        async fn start() -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            let root = Root::at(dir.path());
            let path = root.path("/metrics.sock");
            let place = Metrics {
                listen: Listen::new("unix:/metrics.sock"),
                textfile: None,
            };
            let page = Page::stopped();
            let (sender, shown) = watch::channel(Shown { place, page });
            tokio::spawn(async move { serve(&root, shown).await });
            // It opens its door.
            yield_now().await;
            Self {
                _dir: dir,
                path,
                _shown: sender,
            }
        }
    }

    async fn said(mut stream: UnixStream) -> String {
        let mut said = String::new();
        stream.read_to_string(&mut said).await.expect("read");
        said
    }

    #[tokio::test(start_paused = true)]
    async fn i14_idle_connections_keep_no_scraper_waiting() {
        let served = Served::start().await;
        let began = Instant::now();
        let mut idle = VecDeque::new();
        for _ in 0..3 * CONNECTIONS {
            idle.push_back(UnixStream::connect(&served.path).await.expect("connected"));
        }
        let mut scraper = UnixStream::connect(&served.path).await.expect("connected");
        scraper.write_all(ASK).await.expect("written");
        let answer = said(scraper).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        // The oldest made room; the newest has its time.
        assert_eq!(said(idle.pop_front().expect("the oldest")).await, "");
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(said(idle.pop_back().expect("the newest")).await, "");
        assert!(began.elapsed() > Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn i14_who_asks_at_once_is_answered_in_a_crowd() {
        let served = Served::start().await;
        let began = Instant::now();
        // All of them stand before the door when it is looked at.
        let connect = || Blocking::connect(&served.path).expect("connected");
        let mut scraper = connect();
        scraper.write_all(ASK).expect("written");
        let _idle: Vec<Blocking> = (0..3 * CONNECTIONS).map(|_| connect()).collect();
        scraper.set_nonblocking(true).expect("set");
        let answer = said(UnixStream::from_std(scraper).expect("a stream")).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
