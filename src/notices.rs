//! Tells people of a reboot, by a webhook and by a command, as `[notify]` says (docs/design.md 11).
//!
//! Nothing rests on a notice and nobody waits for one: each way has a task and a short queue of its own, and the loop only puts
//! notices there (I7). What they say is `kube_rebootd_core::notice`'s.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kube_rebootd_core::backoff::doubled;
use kube_rebootd_core::config::{Notify, Webhook};
use kube_rebootd_core::notice::Notice;
use tokio::sync::mpsc;
use tracing::{Instrument, info, warn};

use crate::host::{Bus, check};
use crate::root::Root;
use crate::web::{AskError, Building};

mod silences;
mod webhook;

pub use silences::Silences;

/// So many wait while one is delivered; the next are dropped. A whole cycle has about six.
const QUEUE: usize = 16;
/// Tries of one notice, with pauses of 5, 10, 20 and 40 s between them: a service that restarts is back by then.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// wall(1) of util-linux, which every distribution has; it knows the terminals from logind, or from utmp before.
const WALL: &str = "/usr/bin/wall";
/// wall(1) waits at most so long for a terminal that takes nothing (its `-t` is 5 minutes), as the next word may matter more.
const WALL_TIME: Duration = Duration::from_secs(30);

/// The ways to the tasks that deliver; the tasks end with it.
#[derive(Debug)]
pub struct Notices {
    webhook: Queue,
    command: Queue,
    wall: Queue,
}

/// A notice and who gets it.
#[derive(Debug)]
struct Letter {
    way: Way,
    /// For one try.
    limit: Duration,
}

#[derive(Debug)]
enum Way {
    Webhook(Webhook, Notice),
    Command(Vec<String>, Notice),
    /// The terminals of all who are logged in.
    Wall(String),
}

#[derive(Debug)]
struct Queue {
    letters: mpsc::Sender<Letter>,
    /// Notices that nobody got since one was delivered.
    lost: Arc<AtomicU32>,
}

/// Why a notice was not delivered.
#[derive(Debug, thiserror::Error)]
enum NotDelivered {
    #[error("notify.webhook: {0}")]
    Webhook(#[from] AskError),
    #[error("notify.command: {0}")]
    Command(check::NoticeError),
    #[error("{WALL}: {0}")]
    Wall(check::NoticeError),
}

impl Notices {
    /// Begins the tasks.
    pub fn start(root: &Root, bus: &Bus) -> Self {
        let begin = || {
            let (send, letters) = mpsc::channel(QUEUE);
            let lost = Arc::<AtomicU32>::default();
            let delivery = Delivery {
                root: root.clone(),
                bus: bus.clone(),
                building: Building::default(),
                lost: Arc::clone(&lost),
            };
            tokio::spawn(delivery.run(letters).in_current_span());
            Queue {
                letters: send,
                lost,
            }
        };
        Self {
            webhook: begin(),
            command: begin(),
            wall: begin(),
        }
    }

    /// Has it delivered, if the configuration wants that. Never waits.
    pub fn tell(&self, config: &Notify, notice: &Notice) {
        if !config.wants(notice.topic) {
            return;
        }
        let limit = config.timeout;
        let letter = |way| Letter { way, limit };
        if let Some(webhook) = &config.webhook {
            let way = Way::Webhook(webhook.clone(), notice.clone());
            self.webhook.put(letter(way));
        }
        if !config.command.is_empty() {
            let way = Way::Command(config.command.clone(), notice.clone());
            self.command.put(letter(way));
        }
    }

    /// Has all who are logged in told on their terminals. Never waits.
    pub fn tell_users(&self, words: String) {
        let (way, limit) = (Way::Wall(words), WALL_TIME);
        self.wall.put(Letter { way, limit });
    }
}

impl Queue {
    fn put(&self, letter: Letter) {
        if self.letters.try_send(letter).is_err() && self.lost.fetch_add(1, Ordering::Relaxed) == 0
        {
            warn!("a notice is dropped: {QUEUE} wait already");
        }
    }
}

/// One way's task.
struct Delivery {
    root: Root,
    bus: Bus,
    building: Building,
    lost: Arc<AtomicU32>,
}

impl Delivery {
    /// One notice after the other.
    async fn run(mut self, mut letters: mpsc::Receiver<Letter>) {
        while let Some(letter) = letters.recv().await {
            match self.deliver(&letter).await {
                Ok(()) => {
                    let lost = self.lost.swap(0, Ordering::Relaxed);
                    if lost > 0 {
                        info!("notices are delivered again; {lost} were lost");
                    }
                }
                // Said once, until one is delivered.
                Err(why) if self.lost.fetch_add(1, Ordering::Relaxed) == 0 => {
                    warn!(
                        "a notice is lost after {TRIES} tries, which changes nothing else: {why}"
                    );
                }
                Err(_) => {}
            }
        }
    }

    async fn deliver(&mut self, letter: &Letter) -> Result<(), NotDelivered> {
        let mut tries = 1;
        loop {
            match self.attempt(letter).await {
                Err(_) if tries < TRIES => {
                    tokio::time::sleep(doubled(PAUSE, tries - 1, PAUSE_MAX)).await;
                    tries += 1;
                }
                done => return done,
            }
        }
    }

    async fn attempt(&mut self, letter: &Letter) -> Result<(), NotDelivered> {
        match &letter.way {
            Way::Webhook(webhook, notice) => {
                let body = notice.body(webhook.template);
                let client = &mut self.building;
                webhook::post(&self.root, client, webhook, &body, letter.limit).await?;
            }
            Way::Command(command, notice) => {
                let facts = notice.environment();
                let told = check::notice(
                    &self.root,
                    &self.bus,
                    "command",
                    command,
                    facts,
                    letter.limit,
                );
                told.await.map_err(NotDelivered::Command)?;
            }
            Way::Wall(words) => {
                let command = [WALL.to_owned(), words.clone()];
                let told = check::notice(
                    &self.root,
                    &self.bus,
                    "wall",
                    &command,
                    Vec::new(),
                    letter.limit,
                );
                told.await.map_err(NotDelivered::Wall)?;
            }
        }
        Ok(())
    }
}
