//! Where the updater of this host asks over FleetLock whether it may reboot: HTTP at an address of this host, or a Unix socket.
//!
//! What it asks is left for the loop, which decides; nothing is decided here. Keeps I7 (who is slow or silent keeps nobody waiting)
//! and I14 (whoever connects has one of a few connections for some seconds, and only the updater's user is heard).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kube_rebootd_core::config::FleetLock;
use kube_rebootd_core::fleet_lock::{self, Answer, Ask, Kind, No};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::timeout;

use super::desk::{self, LoopEnd, Trouble, Unanswered};
use super::door::{Callers, Door, Served, Stream};
use super::http;
use crate::root::Root;

mod client;
pub mod zincati;

pub use client::{listener, own_id, uid};

const SERVED: Served = Served {
    key: "fleet_lock.listen",
    what: "FleetLock is",
};
/// From the connection to the last byte of the request, and for the answer once it is known.
const LIMIT: Duration = Duration::from_secs(5);
/// Zincati waits 30 minutes for an answer. The loop has one in about 90 seconds; if not, nobody knows what it will be.
const ANSWER: Duration = Duration::from_secs(180);

/// A question that waits for the loop.
pub type Given = desk::Given<Ask, Answer>;

/// The loop's end.
#[derive(Debug)]
pub struct Questions {
    root: Root,
    asked: LoopEnd<Option<FleetLock>, Given>,
}

impl Questions {
    pub fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            asked: LoopEnd::default(),
        }
    }

    /// It is served there from now on, or nowhere.
    pub fn follow(&mut self, place: Option<&FleetLock>) {
        let root = self.root.clone();
        self.asked.follow(place.cloned(), |shown, desk| {
            tokio::spawn(serve(root, shown, desk));
        });
    }

    /// The next question; never where nothing is served. Cancel-safe.
    pub async fn next(&mut self) -> Given {
        self.asked.next().await
    }
}

/// Until the daemon ends.
async fn serve(
    root: Root,
    mut shown: watch::Receiver<Option<FleetLock>>,
    desk: mpsc::Sender<Given>,
) {
    let mut door = Door::new(SERVED);
    // Who may not ask takes no place from those who may.
    let (mut callers, mut strangers) = (Callers::default(), Callers::default());
    let trouble = Arc::new(Trouble::default());
    loop {
        let place = shown.borrow_and_update().clone().map(Arc::new);
        door.follow(&root, place.as_ref().map(|place| &place.listen));
        loop {
            tokio::select! {
                biased;
                changed = shown.changed() => {
                    if changed.is_ok() {
                        break;
                    }
                    door.close();
                    return;
                }
                Some(()) = callers.ended() => {}
                Some(()) = strangers.ended() => {}
                stream = door.next(&root) => {
                    // The door is open only where a place is named.
                    let Some(place) = &place else { continue };
                    // One after another, in the order in which they came: a crowd costs one look at a time.
                    let Some((stream, client)) = looked_at(&root, place, stream).await else {
                        continue;
                    };
                    let pool = if client.is_ok() { &mut callers } else { &mut strangers };
                    pool.admit(SERVED.key, hear(stream, client, desk.clone(), Arc::clone(&trouble)));
                    // Before the next comes in this one is heard.
                    yield_now().await;
                }
            }
        }
    }
}

/// Who came in, and whether he may ask. A table of the kernel may be long.
async fn looked_at(
    root: &Root,
    place: &Arc<FleetLock>,
    stream: Stream,
) -> Option<(Stream, Result<fleet_lock::Client, No>)> {
    let (root, place) = (root.clone(), Arc::clone(place));
    let looked = spawn_blocking(move || {
        let client = client::permitted(&root, &place, &stream);
        (stream, client)
    });
    looked.await.ok()
}

/// One request and its answer.
async fn hear(
    stream: Stream,
    client: Result<fleet_lock::Client, No>,
    desk: mpsc::Sender<Given>,
    trouble: Arc<Trouble>,
) {
    let done = match stream {
        Stream::Tcp(stream) => exchange(stream, client, desk, &trouble).await,
        Stream::Unix(stream) => exchange(stream, client, desk, &trouble).await,
    };
    if let Err(err) = done {
        tracing::debug!("a client of FleetLock was not answered: {err}");
    }
}

async fn exchange<S>(
    mut stream: S,
    client: Result<fleet_lock::Client, No>,
    desk: mpsc::Sender<Given>,
    trouble: &Trouble,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let answer = match timeout(LIMIT, request(&mut stream, client)).await {
        Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        Ok(asked) => match asked? {
            Ok(ask) => ask_loop(ask, &desk).await,
            Err(no) => {
                trouble.tell(SERVED.key, &no);
                Err(no)
            }
        },
    };
    let said = async {
        match answer {
            Ok(()) => http::send(&mut stream, "200 OK", "", "", true).await,
            Err(no) => {
                tracing::debug!("a client of FleetLock is answered: {no}");
                let fields = serde_json::json!({"kind": no.kind.name(), "value": no.value});
                let body = format!("{fields}\n");
                let kind = "Content-Type: application/json\r\n";
                http::send(&mut stream, no.kind.status(), kind, &body, true).await
            }
        }
    };
    timeout(LIMIT, said).await?
}

/// What is asked, or why it is not heard. An error: the connection is lost.
async fn request<S>(
    stream: &mut S,
    client: Result<fleet_lock::Client, No>,
) -> io::Result<Result<Ask, No>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some((head, begun)) = http::head(stream).await? else {
        return Ok(Err(No::new(Kind::TooLarge, "the headers are too long")));
    };
    let head = match client
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|_| fleet_lock::head(&head))
    {
        Ok(head) => head,
        Err(no) => return Ok(Err(no)),
    };
    let body = http::body(stream, begun, head.length).await?;
    let read = client.and_then(|client| fleet_lock::body(&body, &client));
    Ok(read.map(|()| head.ask))
}

/// What the loop says to it.
async fn ask_loop(ask: Ask, desk: &mpsc::Sender<Given>) -> Answer {
    let why = match desk::ask(desk, ask, ANSWER).await {
        Ok(answer) => return answer,
        Err(Unanswered::Full) => "too much is asked at once; ask again",
        Err(Unanswered::Ends) => "kube-rebootd ends",
        Err(Unanswered::Late) => "kube-rebootd did not come to it in time; ask again",
    };
    Err(No::new(Kind::NotReady, why))
}

#[cfg(test)]
mod tests;
