//! An API server in memory, for whole daemons in virtual time: exactly what the daemon asks of a real
//! one, with its traps, and with faults on request. `conformance` holds it against the real server.

#![allow(
    clippy::too_many_lines,        // tables of requests
    clippy::struct_excessive_bools, // knobs of a fake
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kube::Client;
use kube::client::Body;
use kube_rebootd::clock::Clock;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

mod answer;
mod conformance;
mod evict;
mod fault;
mod fields;
mod hand;
mod judge;
mod request;
mod rules;
mod select;
mod store;
mod stream;
mod tree;
mod write;

pub(crate) use answer::Answer;
pub(crate) use fault::{Broken, Fate, Fault};
pub(crate) use judge::{annotation, condition, cordoned, holder, label};
pub(crate) use request::{Request, Verb};
pub(crate) use rules::{ANNOTATIONS, User, annotated};
pub(crate) use write::merge;

use store::Store;
use stream::{Stream, follow};

/// The server; clones are the same one.
#[derive(Clone)]
pub(crate) struct Server {
    clock: Clock,
    state: Arc<Mutex<State>>,
    /// Something was written, or a knob was turned.
    changed: watch::Sender<()>,
}

/// What the server knows, and its knobs.
#[derive(Default)]
pub(crate) struct State {
    store: Store,
    pub(crate) faults: Vec<Fault>,
    /// Nobody gets an answer, and watches break.
    pub(crate) down: bool,
    /// Watches stay open and say nothing.
    pub(crate) stalled: bool,
    /// One line for each request, newest last.
    pub(crate) trace: Vec<String>,
    /// Invariants that were broken.
    pub(crate) broken: Vec<String>,
    /// A 403 is no breach of I11 here.
    pub(crate) refusals_wanted: bool,
    /// An admin has no right to evict pods.
    pub(crate) may_not_evict: bool,
    /// `drain.on_timeout = "reboot"`.
    pub(crate) pods_may_stay: bool,
    /// `[[drain.escalate]]` with `action = "delete"`.
    pub(crate) pods_deleted: bool,
    /// When each node's last fence was written.
    pub(crate) fences: BTreeMap<String, Instant>,
    /// Nodes whose kubelet renews its heartbeat.
    pub(crate) beating: BTreeSet<String>,
}

/// A request takes some time: with none at all, what was asked before a write and what after it could
/// not be told apart.
const WAY: Duration = Duration::from_millis(1);
/// Lines of the trace that are kept.
const TRACE: usize = 4_000;

impl Server {
    pub(crate) fn start(clock: Clock) -> Self {
        Self {
            clock,
            state: Arc::default(),
            changed: watch::channel(()).0,
        }
    }

    /// A client of `from`'s connection that counts as `user`.
    pub(crate) fn client(&self, from: &str, user: User) -> Client {
        let (server, from) = (self.clone(), from.to_owned());
        let service = tower::service_fn(move |request| {
            let (server, from, user) = (server.clone(), from.clone(), user.clone());
            server.serve(from, user, request)
        });
        Client::new(service, "default")
    }

    /// The state, with the server's clock set. Do not hold it across an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap();
        state.store.now = self.clock.now().wall;
        state
    }

    /// Turns knobs, or edits objects, and wakes whoever watches.
    pub(crate) fn set<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let done = change(&mut self.state());
        self.changed.send_replace(());
        done
    }

    async fn serve(
        self,
        from: String,
        user: User,
        request: http::Request<Body>,
    ) -> Result<http::Response<Stream>, std::io::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.map_err(std::io::Error::other)?;
        let Some(request) = Request::read(&parts, &body) else {
            return respond(Answer::status(404, "NotFound", "no such path"));
        };
        tokio::time::sleep(WAY).await;
        let fate = self.state().fate(&from, &request);
        let gone = |kind| Err(std::io::Error::from(kind));
        match fate {
            Fate::Done => self.handle(&from, &user, &request),
            Fate::Lost => {
                self.note(&from, &user, &request, "lost");
                gone(std::io::ErrorKind::ConnectionRefused)
            }
            Fate::Silent => {
                self.note(&from, &user, &request, "silent");
                std::future::pending().await
            }
            Fate::Says(answer) => {
                self.note(
                    &from,
                    &user,
                    &request,
                    &format!("{} (made up)", answer.code),
                );
                respond(answer)
            }
            Fate::AnswerLost => {
                self.handle(&from, &user, &request)?;
                gone(std::io::ErrorKind::ConnectionReset)
            }
            Fate::AnswerSilent => {
                self.handle(&from, &user, &request)?;
                std::future::pending().await
            }
            Fate::Slow(time) => {
                tokio::time::sleep(time).await;
                self.handle(&from, &user, &request)
            }
            Fate::Late(time) => {
                tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    // Nobody waits for this answer any more.
                    let _ = self.handle(&from, &user, &request);
                });
                std::future::pending().await
            }
            Fate::Watch(broken) => Ok(self.watch(&user, &request, broken)),
        }
    }

    fn handle(
        &self,
        from: &str,
        user: &User,
        request: &Request,
    ) -> Result<http::Response<Stream>, std::io::Error> {
        if request.verb == Verb::Watch {
            return Ok(self.watch(user, request, Broken::default()));
        }
        let (answer, wrote) = {
            let mut state = self.state();
            state.beat(request);
            let version = state.store.version;
            let answer = if request.resource == "selfsubjectaccessreviews" {
                Answer::created(json!({"metadata": {}, "spec": request.body["spec"],
                    "status": {"allowed": *user == User::Admin && !state.may_not_evict}}))
            } else {
                state.store.answer(user, request)
            };
            let wrote = state.store.version != version;
            drop(state);
            self.note(from, user, request, &answer.code.to_string());
            self.state().judge(from, user, request, &answer, version);
            (answer, wrote)
        };
        if wrote {
            self.changed.send_replace(());
        }
        respond(answer)
    }

    fn watch(&self, user: &User, request: &Request, broken: Broken) -> http::Response<Stream> {
        let refused = rules::authorize(user, request);
        if let Some(answer) = refused {
            return response(answer.code, Stream::whole(&answer.body));
        }
        response(200, follow(self, request, broken))
    }

    fn note(&self, from: &str, user: &User, request: &Request, what: &str) {
        let at = self.clock.now().boot.as_secs_f64();
        let face = match user {
            User::Coordinator => " as coordinator",
            _ => "",
        };
        let line = format!("{at:>10.3} {from}{face}: {} -> {what}", request.line());
        let mut state = self.state();
        state.trace.push(line);
        if state.trace.len() > 2 * TRACE {
            state.trace.drain(..TRACE);
        }
    }

    /// The server's wall clock.
    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.clock.now().wall
    }

    /// For those who follow the cluster.
    pub(crate) fn changed(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The newest lines of the trace, for a test that failed.
    pub(crate) fn told(&self, lines: usize) -> String {
        let state = self.state();
        let from = state.trace.len().saturating_sub(lines);
        state.trace[from..].join("\n")
    }
}

impl State {
    /// Applies what `manifests --capacity` adds, or takes it back.
    pub(crate) fn grants_pods(&mut self, granted: bool) {
        self.store.lists_pods = granted;
    }

    /// A kubelet renews its heartbeat every 10 s; here, when somebody looks.
    fn beat(&mut self, request: &Request) {
        let name = match request.verb {
            Verb::Get => Some(request.name.as_str()),
            Verb::List => request.field("metadata.name"),
            _ => None,
        };
        let looks = request.resource == "leases" && request.namespace == rules::BEATS;
        if let Some(name) = name
            && looks
            && self.beating.contains(name)
        {
            let seconds = self.store.now.as_second() / 10 * 10;
            let time = jiff::Timestamp::from_second(seconds).unwrap_or(self.store.now);
            let time = format!("{}.000000Z", time.to_string().trim_end_matches('Z'));
            self.edit(("leases", rules::BEATS, name), "kubelet", |lease| {
                lease["spec"]["renewTime"] = serde_json::json!(time);
            });
        }
    }
}

fn respond(answer: Answer) -> Result<http::Response<Stream>, std::io::Error> {
    Ok(response(answer.code, Stream::whole(&answer.body)))
}

fn response(code: u16, body: Stream) -> http::Response<Stream> {
    let mut response = http::Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    response
}

/// The watch cache's `bookmarkFrequency`.
const BOOKMARK: Duration = Duration::from_secs(60);
