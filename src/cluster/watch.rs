//! A watch as whole views that are always the newest, with what is known of the connection (I7).
//!
//! Own, not `kube_runtime::watcher`: that one shows neither bookmarks nor its re-openings, and both
//! are the only sign of life of a server with nothing to tell ("API server silent").

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use futures_util::{StreamExt, pin_mut};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use kube_rebootd_core::backoff::doubled;
use kube_rebootd_core::scatter::scatter;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::clock::Clock;
use crate::cluster::answer::{ApiError, CALL, Failure, call, classify};

/// After about so long the server ends a watch and it is opened again; every idle node pays for that. It
/// is the least that the server itself would choose (`--min-request-timeout`, 30 min), and no detection
/// hangs on it: silence is noticed by [`Signs`], and whoever cuts streams sooner (a proxy, a load
/// balancer) only has the watch opened again from where it was.
const REOPEN: u32 = 1800;
/// The server sends a bookmark about every minute (watch cache `bookmarkFrequency`); nothing at all
/// for longer is a dead connection that TCP has not noticed.
const BOOKMARK: Duration = Duration::from_secs(90);
/// The kubelet writes its Node's status at least every 5 min and half as much again
/// (`nodeStatusReportFrequency`, with its jitter); for a second one that fails to come it is not blamed.
const NODE_STATUS: Duration = Duration::from_secs(11 * 60);
/// First pause after an error.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause: also how late missing rights, once granted, are noticed.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Spread of a pause, in percent, so that nodes do not return as one after an outage.
const SPREAD: u64 = 30;

/// What to watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Select {
    pub labels: Option<String>,
    pub fields: Option<String>,
    /// Objects that one answer to a list holds; none: all.
    pub page: Option<u32>,
}

/// What tells that a connection on which nothing happens is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signs {
    /// The server is asked for bookmarks: a dead connection is noticed in minutes, for a wake-up a minute.
    Bookmarks,
    /// What the kubelet writes to its own Node.
    NodeStatus,
}

impl Signs {
    /// Longest silence of a connection that is alive.
    fn silence(self) -> Duration {
        match self {
            Self::Bookmarks => BOOKMARK,
            Self::NodeStatus => NODE_STATUS,
        }
    }
}

/// All that is there now.
#[derive(Debug, Clone)]
pub struct View<T> {
    /// By UID; none before the first list.
    pub items: Option<BTreeMap<String, T>>,
    /// Boot time of the last successful answer, event or bookmark.
    pub heard: Option<Duration>,
    /// The error since then; a new one each time it changes in kind.
    pub trouble: Option<ApiError>,
}

/// A running watch; dropping it ends it.
#[derive(Debug)]
pub struct Watch<T> {
    view: watch::Receiver<View<T>>,
    task: AbortHandle,
}

impl<T> Drop for Watch<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T: Clone + Debug + PartialEq + Send + Sync + 'static> Watch<T> {
    /// Starts the watch; `read` turns an object into what is looked at. Must run inside a runtime.
    pub fn start<K>(
        what: &'static str,
        api: Api<K>,
        select: Select,
        signs: Signs,
        clock: Clock,
        read: fn(&K) -> T,
    ) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let (send, view) = watch::channel(View {
            items: None,
            heard: None,
            trouble: None,
        });
        let follow = Follow {
            what,
            api,
            select,
            signs,
            clock,
            read,
            send,
        };
        let task = tokio::spawn(follow.run()).abort_handle();
        Self { view, task }
    }

    /// Waits until something differs from the last [`Watch::view`], or a bookmark came. Cancel-safe.
    pub async fn changed(&mut self) {
        if self.view.changed().await.is_err() {
            // Only when the task panicked; the process ends then (panic = abort).
            std::future::pending::<()>().await;
        }
    }

    /// The newest view.
    pub fn view(&mut self) -> View<T> {
        self.view.borrow_and_update().clone()
    }

    /// When the server was last heard, on the boot clock.
    pub fn heard(&self) -> Option<Duration> {
        self.view.borrow().heard
    }
}

/// The task behind a [`Watch`].
struct Follow<K, T> {
    what: &'static str,
    api: Api<K>,
    select: Select,
    signs: Signs,
    clock: Clock,
    read: fn(&K) -> T,
    send: watch::Sender<View<T>>,
}

impl<K, T> Follow<K, T>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    T: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    async fn run(self) {
        let mut failures = 0;
        loop {
            let error = match self.list().await {
                Ok(version) => self.follow(version, &mut failures).await,
                Err(error) => error,
            };
            self.rest(error, &mut failures).await;
        }
    }

    /// Lists all, replaces the view (what is absent is gone) and returns the resourceVersion.
    async fn list(&self) -> Result<String, ApiError> {
        let mut params = ListParams {
            label_selector: self.select.labels.clone(),
            field_selector: self.select.fields.clone(),
            limit: self.select.page,
            ..ListParams::default()
        };
        let mut items: BTreeMap<String, T> = BTreeMap::new();
        // All pages are of the version of the first one.
        let version = loop {
            let list = call(self.what, CALL, self.api.list(&params)).await?;
            for object in &list.items {
                items.insert(self.uid(object)?, (self.read)(object));
            }
            match list.metadata.continue_ {
                Some(next) if !next.is_empty() => params = params.continue_token(&next),
                _ => break list.metadata.resource_version.unwrap_or_default(),
            }
        };
        if version.is_empty() {
            return Err(self.nonsense("a list without a resourceVersion"));
        }
        self.heard(|now| {
            let differs = now.as_ref() != Some(&items);
            *now = Some(items);
            differs
        });
        Ok(version)
    }

    /// Watches from `version` on until only a new list helps.
    async fn follow(&self, mut version: String, failures: &mut u32) -> ApiError {
        loop {
            let opened = self.clock.now().boot;
            match self.watch(&mut version, failures).await {
                Ok(()) if self.clock.now().since(opened) > PAUSE => {}
                // A server, or a proxy, that ends every watch at once is not asked in a tight loop.
                Ok(()) => sleep(PAUSE).await,
                // Listed anew after every error: a server that came back from a backup counts from a
                // lower resourceVersion, and would be silent about all up to ours.
                Err(error) => return error,
            }
        }
    }

    /// One watch request, until it ends.
    async fn watch(&self, version: &mut String, failures: &mut u32) -> Result<(), ApiError> {
        let params = WatchParams {
            label_selector: self.select.labels.clone(),
            field_selector: self.select.fields.clone(),
            timeout: Some(reopen(self.clock.now().boot)),
            bookmarks: self.signs == Signs::Bookmarks,
            ..WatchParams::default()
        };
        let stream = call(self.what, CALL, self.api.watch(&params, version)).await?;
        self.heard(|_| false);
        pin_mut!(stream);
        loop {
            let silence = self.signs.silence();
            let Ok(event) = timeout(silence, stream.next()).await else {
                return Err(ApiError::Unreachable {
                    what: self.what.to_owned(),
                    message: format!("the watch was silent for {} s", silence.as_secs()),
                });
            };
            let event = match event {
                None => return Ok(()),
                Some(Ok(event)) => event,
                Some(Err(error)) => return Err(classify(self.what, Failure::of(error))),
            };
            *failures = 0;
            self.see(event, version)?;
        }
    }

    fn see(&self, event: WatchEvent<K>, version: &mut String) -> Result<(), ApiError> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let (uid, item) = (self.uid(&object)?, (self.read)(&object));
                self.advance(version, object.resource_version())?;
                self.heard(|items| {
                    let items = items.get_or_insert_default();
                    items.insert(uid, item.clone()) != Some(item)
                });
            }
            WatchEvent::Deleted(object) => {
                let uid = self.uid(&object)?;
                self.advance(version, object.resource_version())?;
                self.heard(|items| items.get_or_insert_default().remove(&uid).is_some());
            }
            WatchEvent::Bookmark(bookmark) => {
                self.advance(version, Some(bookmark.metadata.resource_version))?;
                // The process is awake: a loop that turns now needs no timer of its own for its watchdog.
                self.heard(|_| true);
            }
            WatchEvent::Error(status) => return Err(classify(self.what, Failure::said(*status))),
        }
        Ok(())
    }

    /// An object without one could take another's place in the view.
    fn uid(&self, object: &K) -> Result<String, ApiError> {
        let uid = object.uid().filter(|uid| !uid.is_empty());
        uid.ok_or_else(|| self.nonsense("an object without a uid"))
    }

    /// Goes on from `newer`. From nowhere the server would begin anew, silent about all that was deleted.
    fn advance(&self, version: &mut String, newer: Option<String>) -> Result<(), ApiError> {
        let newer = newer.filter(|newer| !newer.is_empty());
        *version = newer.ok_or_else(|| self.nonsense("an event without a resourceVersion"))?;
        Ok(())
    }

    /// Not what the API server says: only a new list helps.
    fn nonsense(&self, what: &str) -> ApiError {
        ApiError::Unreachable {
            what: self.what.to_owned(),
            message: format!("{what}: does something change answers on their way?"),
        }
    }

    /// The server answered; `change` says whether the loop is to turn.
    fn heard(&self, change: impl FnOnce(&mut Option<BTreeMap<String, T>>) -> bool) {
        self.send.send_if_modified(|view| {
            view.heard = Some(self.clock.now().boot);
            let recovered = view.trouble.take().is_some();
            change(&mut view.items) || recovered
        });
    }

    /// Reports `error` when it is news and pauses, longer each time.
    async fn rest(&self, error: ApiError, failures: &mut u32) {
        if !matches!(error, ApiError::Expired { .. }) {
            self.send.send_if_modified(|view| {
                let news = view.trouble.as_ref() != Some(&error);
                view.trouble = Some(error);
                news
            });
        }
        let pause = pause(*failures, self.clock.now().boot);
        *failures = failures.saturating_add(1);
        sleep(pause).await;
    }
}

/// [`REOPEN`], spread like a pause: what was opened as one after an outage is not opened as one again.
fn reopen(now: Duration) -> u32 {
    let word = format!("{now:?} {}", std::process::id());
    REOPEN + REOPEN * u32::try_from(scatter(&[&word]) % SPREAD).unwrap_or(0) / 100
}

/// Doubling from [`PAUSE`] to [`PAUSE_MAX`], spread by where and when.
fn pause(failures: u32, now: Duration) -> Duration {
    let base = doubled(PAUSE, failures, PAUSE_MAX);
    let word = format!("{now:?} {}", std::process::id());
    base + base * u32::try_from(scatter(&[&word]) % SPREAD).unwrap_or(0) / 100
}

#[cfg(test)]
mod tests;
