//! Logging: structured records to journald, or lines to standard error.
//!
//! A stuck journald blocks whoever writes to it (its tests have one), and a daemon that blocks there misses its
//! watchdog in the middle of a drain. So the caller only formats and queues; a thread writes. A full
//! queue drops records, counts them, and says so once it drains.

use std::{
    collections::BTreeMap,
    fmt, io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    },
    thread,
    time::Duration,
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    Layer,
    filter::Targets,
    layer::{Context, SubscriberExt},
    reload,
    util::{SubscriberInitExt, TryInitError},
};

mod control;
mod message;
mod sink;

pub use control::Control;
pub use message::{ENDED, Fields, LATE, ended, id, record, transition};
pub use sink::{IDENTIFIER, Sink};

use kube_rebootd_core::text;

use crate::root::Root;

/// The target of all our own records.
pub const TARGET: &str = "kube_rebootd";
/// Records that may wait: minutes of an eventful drain, about 1 MiB at worst.
const QUEUE: usize = 1024;
/// Per value; a longer one is cut, so that a record always fits one datagram.
const MAX_VALUE_BYTES: usize = 8 * 1024;
/// journald ignores fields with longer names.
const MAX_KEY_BYTES: usize = 64;

/// One log record, formatted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// syslog priority, 3 (error) to 7 (debug).
    pub priority: u8,
    /// The sentence.
    pub message: String,
    /// Journal fields: upper-case names.
    pub fields: BTreeMap<String, String>,
}

enum Item {
    Record(Record),
    /// Answered when everything before it is written.
    Flush(SyncSender<()>),
}

#[derive(Debug, Default)]
struct Shared {
    dropped: AtomicU64,
    /// [`Journal::ending`] was called.
    ending: AtomicBool,
    /// `KUBE_NODE` of every record, once known.
    node: Mutex<Option<String>>,
}

/// The caller's side: a tracing layer that queues.
#[derive(Clone)]
struct Queue {
    sender: SyncSender<Item>,
    shared: Arc<Shared>,
}

/// Names the node of the records, once it is known.
#[derive(Debug, Clone, Default)]
pub struct Naming(Arc<Shared>);

impl Naming {
    /// From now on every record carries `KUBE_NODE`.
    pub fn set(&self, name: &str) {
        if let Ok(mut node) = self.0.node.lock()
            && node.as_deref() != Some(name)
        {
            *node = Some(name.to_owned());
        }
    }

    #[cfg(test)]
    pub(crate) fn name(&self) -> Option<String> {
        self.0.node.lock().ok().and_then(|node| node.clone())
    }
}

/// The running log. Dropping it changes nothing; [`Journal::flush`] before the process ends.
pub struct Journal {
    queue: Queue,
    control: Control,
}

impl Journal {
    /// Starts logging for the whole process: to journald when systemd connected standard error to
    /// it, else to standard error.
    pub fn start(root: &Root) -> Result<Self, TryInitError> {
        let sink = if stderr_is_journal() {
            Sink::journald(root)
        } else {
            Sink::Stderr
        };
        let target = sink.target();
        let mut journal = Self::writing_to(sink);
        let (filter, handle) = reload::Layer::new(targets(LevelFilter::INFO));
        tracing_subscriber::registry()
            .with(journal.queue.clone().with_filter(filter))
            .try_init()?;
        journal.control = Control::new(Some(handle), target);
        Ok(journal)
    }

    fn writing_to(sink: Sink) -> Self {
        let (sender, receiver) = sync_channel(QUEUE);
        let shared = Arc::new(Shared::default());
        let queue = Queue {
            sender,
            shared: Arc::clone(&shared),
        };
        // Without the thread nothing is logged, which is no reason to leave a node unattended.
        let _ = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write_all(&receiver, &sink, &shared));
        Self {
            queue,
            control: Control::unused(),
        }
    }

    /// By which every later record comes to carry `KUBE_NODE`.
    pub fn naming(&self) -> Naming {
        Naming(Arc::clone(&self.queue.shared))
    }

    /// By which somebody changes how much is logged.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// What is logged from here on is said right before the process ends. journald finds the unit of a record by the
    /// process that sent it, and one that has ended when a busy journald looks has none: `systemctl status` showed exit
    /// code 78 and no reason. Of what comes through standard error it knows the unit.
    pub fn ending(&self) {
        self.queue.shared.ending.store(true, Ordering::Relaxed);
    }

    /// Waits until what was logged is written, at most `limit`. False if it is not.
    pub fn flush(&self, limit: Duration) -> bool {
        let (done, written) = sync_channel(1);
        self.queue.sender.try_send(Item::Flush(done)).is_ok() && written.recv_timeout(limit).is_ok()
    }
}

/// Ours at `level`, others from warnings on. `kube_client` logs every 5xx as an error by itself,
/// retries included; ours say it once per change.
fn targets(level: LevelFilter) -> Targets {
    Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target(TARGET, level)
        .with_target("kube_client", LevelFilter::OFF)
}

/// Whether `JOURNAL_STREAM` names the file that standard error is (systemd.exec(5)): the variable
/// alone is inherited by shells and pipes.
fn stderr_is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    let metadata = io::stderr()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|fd| std::fs::File::from(fd).metadata());
    metadata.is_ok_and(|stderr| stream == format!("{}:{}", stderr.dev(), stderr.ino()))
}

fn write_all(receiver: &Receiver<Item>, sink: &Sink, shared: &Shared) {
    loop {
        let item = match receiver.try_recv() {
            Ok(item) => item,
            Err(TryRecvError::Empty) => {
                report_dropped(sink, shared);
                match receiver.recv() {
                    Ok(item) => item,
                    Err(_) => return,
                }
            }
            Err(TryRecvError::Disconnected) => return,
        };
        match item {
            Item::Record(mut record) => {
                if let Ok(node) = shared.node.lock()
                    && let Some(name) = node.as_ref()
                {
                    record
                        .fields
                        .entry("KUBE_NODE".to_owned())
                        .or_insert_with(|| name.clone());
                }
                if shared.ending.load(Ordering::Relaxed) {
                    sink.write_last(&record);
                } else {
                    sink.write(&record);
                }
            }
            Item::Flush(done) => {
                report_dropped(sink, shared);
                let _ = done.try_send(());
            }
        }
    }
}

fn report_dropped(sink: &Sink, shared: &Shared) {
    let dropped = shared.dropped.swap(0, Ordering::Relaxed);
    if dropped > 0 {
        sink.write(&Record {
            priority: 4,
            message: format!("{dropped} log records were dropped: the journal was stuck"),
            fields: BTreeMap::new(),
        });
    }
}

impl<S: Subscriber> Layer<S> for Queue {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut record = Record {
            priority: priority(*event.metadata().level()),
            message: String::new(),
            fields: BTreeMap::new(),
        };
        event.record(&mut record);
        if self.sender.try_send(Item::Record(record)).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// syslog(3): info is "notice" nowhere, so that `journalctl -p` sorts as tracing does.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

impl Record {
    fn add(&mut self, field: &Field, value: &str) {
        let mut value = text::printable(value).into_owned();
        if value.len() > MAX_VALUE_BYTES {
            let mut cut = MAX_VALUE_BYTES;
            while !value.is_char_boundary(cut) {
                cut -= 1;
            }
            value.truncate(cut);
        }
        if field.name() == "message" {
            self.message = value;
        } else if let Some(key) = key(field.name()) {
            self.fields.insert(key, value);
        }
    }
}

/// journald's rule for names: A-Z, 0-9 and `_`, not first a digit or `_`. Names that journald or
/// this file sets are not for others.
fn key(name: &str) -> Option<String> {
    let upper: String = name
        .chars()
        .map(|c| match c.to_ascii_uppercase() {
            c if c.is_ascii_uppercase() || c.is_ascii_digit() => c,
            _ => '_',
        })
        .take(MAX_KEY_BYTES)
        .collect();
    let key = upper.trim_start_matches(|c: char| c == '_' || c.is_ascii_digit());
    match key {
        "" | "MESSAGE" | "PRIORITY" | "SYSLOG_IDENTIFIER" => None,
        key => Some(key.to_owned()),
    }
}

impl Visit for Record {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests;
