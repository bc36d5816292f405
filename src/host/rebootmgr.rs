//! rebootmgr's varlink interface, where its clients look for it: a Unix socket, to which `rebootmgrctl` and through it
//! transactional-update connect.
//!
//! What changes something is left for the loop, which decides; the rest is answered from what the loop shows. Keeps I7 (who is slow
//! or silent keeps nobody waiting) and I14 (whoever connects has one of a few connections for some seconds, who is not root takes
//! none of root's, and only root changes anything; the kernel says who is connected).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube_rebootd_core::config::Listen;
use kube_rebootd_core::rebootmgr::{self, Ask, No, SOCKET, Shown, Wants};
use kube_rebootd_core::varlink::{self, Answer, END, Fault, LONGEST};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::desk::{self, LoopEnd, Trouble, Unanswered};
use super::door::{Callers, Door, Served, Stream};
use crate::root::Root;
use crate::trusted;

const SERVED: Served = Served {
    key: "triggers.rebootmgr",
    what: "rebootmgr's interface is",
};
/// For a call to come as a whole, and for an answer to be taken.
const LIMIT: Duration = Duration::from_secs(5);
/// systemd's library waits 45 s for an answer. As long as for an order over D-Bus.
const ANSWER: Duration = Duration::from_secs(20);
/// Calls of one connection: `rebootmgrctl` makes one, `varlinkctl introspect` a few.
const CALLS: usize = 16;

/// What a client asks, on its way to the loop.
pub type Given = desk::Given<Ask, Result<(), No>>;
type Desk = mpsc::Sender<Given>;

/// The loop's end.
#[derive(Debug)]
pub struct Clients {
    root: Root,
    shown: watch::Sender<Shown>,
    asked: LoopEnd<bool, Given>,
}

impl Clients {
    pub fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            shown: watch::channel(Shown::default()).0,
            asked: LoopEnd::default(),
        }
    }

    /// It is served from now on, or not.
    pub fn follow(&mut self, serves: bool) {
        let (root, shown) = (self.root.clone(), self.shown.subscribe());
        self.asked.follow(serves, |served, desk| {
            tokio::spawn(serve(root, served, shown, desk));
        });
    }

    /// What is shown from now on.
    pub fn show(&self, new: Shown) {
        self.shown.send_if_modified(|shown| {
            let changed = *shown != new;
            *shown = new;
            changed
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
    mut serves: watch::Receiver<bool>,
    shown: watch::Receiver<Shown>,
    desk: Desk,
) {
    let listen = Listen::Unix(PathBuf::from(SOCKET));
    let mut door = Door::shared(SERVED);
    let trouble = Arc::new(Trouble::default());
    loop {
        let open = *serves.borrow_and_update();
        door.follow(&root, open.then_some(&listen));
        // Who is not root takes no place from root; and with the door they all go.
        let (mut callers, mut strangers) = (Callers::default(), Callers::default());
        loop {
            tokio::select! {
                biased;
                changed = serves.changed() => {
                    if changed.is_ok() {
                        break;
                    }
                    door.close();
                    return;
                }
                Some(()) = callers.ended() => {}
                Some(()) = strangers.ended() => {}
                stream = door.next(&root) => {
                    // It is a Unix socket.
                    let Stream::Unix(stream) = stream else { continue };
                    let is_root = is_root(&root, &stream).unwrap_or(false);
                    let pool = if is_root { &mut callers } else { &mut strangers };
                    let client = Client {
                        stream,
                        heard: Vec::new(),
                        root: is_root,
                        shown: shown.clone(),
                        desk: desk.clone(),
                        trouble: Arc::clone(&trouble),
                    };
                    pool.admit(SERVED.key, client.hear());
                    // Before the next comes in this one is heard.
                    yield_now().await;
                }
            }
        }
    }
}

fn is_root(root: &Root, stream: &UnixStream) -> io::Result<bool> {
    Ok(stream.peer_cred()?.uid() == trusted::owner(root)?)
}

/// Somebody who is connected.
struct Client {
    stream: UnixStream,
    /// What came, and was not looked at yet.
    heard: Vec<u8>,
    root: bool,
    shown: watch::Receiver<Shown>,
    desk: Desk,
    trouble: Arc<Trouble>,
}

/// What came of the wait for a call.
enum Heard {
    /// Without the byte that ends it.
    Call(Vec<u8>),
    /// It is no call; that is told, and nothing more is read.
    Wrong(Fault),
    /// The client has gone, or asks nothing more.
    Nothing,
}

impl Client {
    async fn hear(mut self) {
        if let Err(err) = self.talk().await {
            tracing::debug!("a client of rebootmgr was not answered: {err}");
        }
    }

    /// One call after another, each answered before the next is looked at.
    async fn talk(&mut self) -> io::Result<()> {
        for _ in 0..CALLS {
            let (answer, ends) = match self.call().await? {
                Heard::Nothing => return Ok(()),
                Heard::Wrong(fault) => (Some(Err(self.refused(fault))), true),
                Heard::Call(message) => match varlink::call(&message) {
                    Ok(call) => {
                        let answer = self.answer(&call).await;
                        ((!call.oneway).then_some(answer), false)
                    }
                    Err(fault) => (Some(Err(self.refused(fault))), true),
                },
            };
            let Some(answer) = answer else { continue };
            let message = varlink::reply(answer);
            timeout(LIMIT, self.stream.write_all(&message)).await??;
            if ends {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The next call.
    async fn call(&mut self) -> io::Result<Heard> {
        match timeout(LIMIT, self.whole()).await {
            Ok(heard) => heard,
            Err(_) if self.heard.is_empty() => Ok(Heard::Nothing),
            Err(_) => {
                let why = format!("no whole call came within {} s", LIMIT.as_secs());
                Ok(Heard::Wrong(Fault::invalid("message", &why)))
            }
        }
    }

    /// Up to the byte that ends it. Cancel-safe.
    async fn whole(&mut self) -> io::Result<Heard> {
        let mut chunk = [0; 1024];
        loop {
            if let Some(at) = self.heard.iter().position(|byte| *byte == END) {
                let rest = self.heard.split_off(at + 1);
                let mut message = std::mem::replace(&mut self.heard, rest);
                message.pop();
                return Ok(Heard::Call(message));
            }
            if self.heard.len() > LONGEST {
                return Ok(Heard::Wrong(varlink::long()));
            }
            let read = self.stream.read(&mut chunk).await?;
            if read == 0 {
                return Ok(Heard::Nothing);
            }
            self.heard.extend_from_slice(&chunk[..read]);
        }
    }

    async fn answer(&self, call: &varlink::Call) -> Answer {
        let wants = rebootmgr::wants(call, self.root, &self.shown.borrow());
        match wants.map_err(|fault| self.refused(fault))? {
            Wants::Answered(answer) => Ok(answer),
            Wants::Asks(ask) => {
                let done = match desk::ask(&self.desk, ask, ANSWER).await {
                    Ok(done) => done,
                    Err(Unanswered::Full) => Err(No::Busy),
                    Err(Unanswered::Ends) => Err(No::Ends),
                    Err(Unanswered::Late) => Err(No::Late),
                };
                rebootmgr::answer(ask, &done)
            }
        }
    }

    /// It does not come to the loop, which tells of what does.
    fn refused(&self, fault: Fault) -> Fault {
        self.trouble.tell(SERVED.key, fault.words());
        fault
    }
}

#[cfg(test)]
mod tests;
