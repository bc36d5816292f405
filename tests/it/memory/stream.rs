//! Bodies of responses: one JSON document, or the lines of a watch.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::fault::Broken;
use super::request::Request;
use super::select::Selector;
use super::store::{Event, kind, shown};
use super::{Answer, BOOKMARK, Server, State};

/// A body.
pub(super) enum Stream {
    Whole(Option<Bytes>),
    Lines(mpsc::UnboundedReceiver<Bytes>),
}

impl Stream {
    pub(super) fn whole(body: &Value) -> Self {
        Self::Whole(Some(body.to_string().into()))
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match &mut *self {
            Self::Whole(bytes) => bytes.take(),
            Self::Lines(lines) => ready!(lines.poll_recv(context)),
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// One watch: a task that tells what happens until the client has gone.
struct Watch {
    server: Server,
    request: Request,
    selector: Selector,
    told: u64,
    lines: mpsc::UnboundedSender<Bytes>,
}

pub(super) fn follow(server: &Server, request: &Request, broken: Broken) -> Stream {
    let selector = match Selector::of(request) {
        Ok(selector) => selector,
        Err(refused) => return Stream::whole(&refused.body),
    };
    let (lines, stream) = mpsc::unbounded_channel();
    let mut watch = Watch {
        server: server.clone(),
        request: request.clone(),
        selector,
        told: request.number("resourceVersion").unwrap_or(0),
        lines,
    };
    if watch.begin(&broken) {
        tokio::spawn(watch.run(broken));
    }
    Stream::Lines(stream)
}

impl Watch {
    /// What comes first; false: that was all.
    fn begin(&mut self, broken: &Broken) -> bool {
        let state = self.server.state();
        let store = &state.store;
        if broken.expired || (self.told > 0 && self.told < store.compacted) {
            self.tell("ERROR", &Answer::expired().body);
            return false;
        }
        if broken.repeats {
            for event in &store.events {
                self.show(event);
            }
        }
        if self.told == 0 {
            for (_, body) in store.selected(&self.request, &self.selector) {
                self.tell("ADDED", &shown(&self.request, body));
            }
            let now = store.version;
            drop(state);
            self.told = now;
        }
        true
    }

    async fn run(mut self, broken: Broken) {
        let opened = Instant::now();
        let limit = self.request.number("timeoutSeconds").unwrap_or(1800);
        let limit = broken.ends.unwrap_or(std::time::Duration::from_secs(limit));
        let stalls = broken.stalls.map(|after| opened + after);
        let mut bookmark = opened + BOOKMARK;
        let mut changed = self.server.changed.subscribe();
        loop {
            let now = Instant::now();
            let stalled = stalls.is_some_and(|stalls| stalls <= now);
            let quiet = {
                let server = self.server.clone();
                let state = server.state();
                if state.down {
                    return;
                }
                let quiet = stalled || state.stalled;
                if !quiet {
                    self.news(&state);
                    if now >= bookmark {
                        let (kind, api) = kind(&self.request.resource);
                        self.tell(
                            "BOOKMARK",
                            &json!({"kind": kind, "apiVersion": api,
                            "metadata": {"resourceVersion": self.told.to_string()}}),
                        );
                    }
                }
                quiet
            };
            if now >= bookmark {
                bookmark = now + BOOKMARK;
            }
            let end = opened + limit;
            if !quiet && now >= end {
                return;
            }
            let wake = if quiet { bookmark } else { bookmark.min(end) };
            let wake = stalls
                .filter(|_| !stalled)
                .map_or(wake, |stalls| wake.min(stalls));
            tokio::select! {
                _ = changed.changed() => {}
                () = sleep_until(wake) => {}
                () = self.lines.closed() => return,
            }
        }
    }

    /// Whatever happened since.
    fn news(&mut self, state: &State) {
        let events = &state.store.events;
        let from = events.partition_point(|event| event.version <= self.told);
        for event in &events[from..] {
            self.show(event);
        }
        self.told = state.store.version;
    }

    fn show(&self, event: &Event) {
        let (resource, namespace, _) = &event.key;
        let here = self.request.namespace.is_empty() || *namespace == self.request.namespace;
        if *resource != self.request.resource || !here {
            return;
        }
        let fits =
            |body: &Option<Arc<Value>>| body.as_ref().is_some_and(|body| self.selector.fits(body));
        match (
            fits(&event.before),
            fits(&event.after),
            &event.before,
            &event.after,
        ) {
            (false, true, _, Some(after)) => self.tell("ADDED", &shown(&self.request, after)),
            (true, true, _, Some(after)) => self.tell("MODIFIED", &shown(&self.request, after)),
            (true, false, Some(before), _) => {
                let mut last = shown(&self.request, before);
                last["metadata"]["resourceVersion"] = json!(event.version.to_string());
                self.tell("DELETED", &last);
            }
            _ => {}
        }
    }

    fn tell(&self, kind: &str, object: &Value) {
        let line = format!("{}\n", json!({"type": kind, "object": object}));
        // A client that has gone is noticed by the task.
        let _ = self.lines.send(line.into());
    }
}
