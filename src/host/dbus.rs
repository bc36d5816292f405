//! What this node does, on the system bus: `org.kuberebootd1`, and how much is logged (org.freedesktop.LogControl1(5)).
//!
//! A thread and a connection of its own: any local user may send calls here, as many as the bus lets through, and neither
//! the loop nor its own calls to logind and systemd wait behind them (I7, I14). The loop leaves what is to be shown in a
//! `watch` channel and never waits. Messages are taken one at a time, each is answered before the next is read, and nothing
//! is queued here: of calls that come faster than that, and of answers that nobody reads, the bus keeps what its limits
//! allow. An answer that the bus does not take in time ends the connection, and another is made, which has the name when
//! the bus has seen the first one end. Therefore this is not zbus' object server, which begins a task for each call, however
//! many there are.
//!
//! A bus that is not there, or refuses the name, is said once, and tried again.

use std::collections::VecDeque;
use std::num::{NonZeroU32, NonZeroUsize};
use std::thread;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube_rebootd_core::backoff::doubled;
use kube_rebootd_core::text::{self, MESSAGE};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;
use zbus::message::{Flags, Type};
use zbus::{Connection, Message, MessageStream};

use super::bus::{Bus, BusError, CALL_TIMEOUT, bounded};
use super::journal::Control;
use super::view::View;

mod objects;
mod orders;

use orders::{Desk, Pending};
pub use orders::{Given, Orders};

pub use objects::{INTERFACE, NOT_NOW, PATH};

/// The name on the bus; `BusName=` of the unit.
pub const NAME: &str = "org.kuberebootd1";

/// First wait before another connection; a restart of the bus takes about a second.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// Whoever mends the bus or its policy, or drives an attacker away, sees the name within that time.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// A connection that has lasted so long is worth a word when it ends.
const LASTING: Duration = Duration::from_secs(300);
/// Bytes of a call: the longest that anybody here has a use for is a few hundred.
const LONGEST: usize = 16 * 1024;
/// Changes that wait for the bus to say who asks: root asks for one at a time.
const CHANGES: usize = 16;

/// The bus itself, which nobody else can be.
const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";
/// Answers to `RequestName`: owner at once, or when whoever has the name lets it go (D-Bus specification).
const OWNER: u32 = 1;
const IN_QUEUE: u32 = 2;

/// What is shown: what `kube-rebootd status` shows of the running daemon.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown {
    pub view: View,
    /// STATUS, as systemd was told.
    pub status: String,
}

/// The loop's end.
#[derive(Debug, Default)]
pub struct Publisher(Option<watch::Sender<Shown>>);

impl Publisher {
    /// Shows this from now on, if it is not what is shown already. Never waits.
    pub fn publish(&self, view: &View, status: &str) {
        let Some(sender) = &self.0 else { return };
        sender.send_if_modified(|shown| {
            let new = shown.view != *view || shown.status != status;
            if new {
                shown.view.clone_from(view);
                status.clone_into(&mut shown.status);
            }
            new
        });
    }
}

/// Serves on this bus from the first thing that is published until the publisher is dropped.
pub fn serve(bus: Bus, log: Control) -> (Publisher, Orders) {
    let (sender, shown) = watch::channel(Shown::default());
    let (desk, orders) = orders::desk();
    let thread = thread::Builder::new().name("dbus".to_owned());
    // Without it nothing is shown here, which is no reason to leave a node unattended.
    let started = thread.spawn(move || match runtime() {
        Ok(runtime) => runtime.block_on(serve_on(&bus, &log, &desk, shown)),
        Err(err) => tracing::warn!("nothing is shown on D-Bus: {err}"),
    });
    if let Err(err) = started {
        tracing::warn!("nothing is shown on D-Bus: {err}");
        return (Publisher::default(), Orders::default());
    }
    (Publisher(Some(sender)), orders)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Why a connection is of no more use.
#[derive(Debug, Error)]
enum Ended {
    /// Nothing will be published any more.
    #[error("the daemon ends")]
    Stopped,
    #[error("the bus closed the connection")]
    Closed,
    #[error(
        "the bus refuses the name {NAME}: {0}; is org.kuberebootd1.conf in /usr/share/dbus-1/system.d?"
    )]
    Refused(String),
    #[error("the bus did not answer within {} s", CALL_TIMEOUT.as_secs())]
    Silent,
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error("a message could not be made: {0}")]
    Message(#[from] zbus::Error),
}

async fn serve_on(bus: &Bus, log: &Control, desk: &Desk, mut shown: watch::Receiver<Shown>) {
    // Never what is not known yet.
    if shown.changed().await.is_err() {
        return;
    }
    let mut failures = 0;
    loop {
        let began = Instant::now();
        let ended = match Session::begin(bus, log, desk, &mut shown, failures > 0).await {
            Ok(mut session) => session.serve(&mut shown).await,
            Err(ended) => ended,
        };
        if matches!(ended, Ended::Stopped) {
            return;
        }
        // Who makes us lose connection after connection does not fill the journal by it.
        if began.elapsed() > LASTING {
            failures = 0;
        }
        if failures == 0 {
            tracing::warn!("not on D-Bus as {NAME}: {ended}; tried again");
        }
        tokio::time::sleep(doubled(RETRY_MIN, failures, RETRY_MAX)).await;
        failures = failures.saturating_add(1);
    }
}

/// One connection.
struct Session<'a> {
    connection: Connection,
    messages: MessageStream,
    log: &'a Control,
    desk: &'a Desk,
    /// What readers get: what was announced last.
    shown: Shown,
    /// What the loop was asked to do.
    pending: Pending,
    /// What the bus was asked, oldest first.
    asked: VecDeque<Asked>,
    /// There was no name before, which was said.
    again: bool,
}

struct Asked {
    serial: NonZeroU32,
    what: Question,
    until: Instant,
}

enum Question {
    /// May we have the name?
    Name,
    /// Which user sent this call?
    Caller(Message),
}

impl<'a> Session<'a> {
    async fn begin(
        bus: &Bus,
        log: &'a Control,
        desk: &'a Desk,
        shown: &mut watch::Receiver<Shown>,
        again: bool,
    ) -> Result<Self, Ended> {
        let mut connection = bus.connect().await?;
        connection.set_max_queued(NonZeroUsize::MIN);
        let messages = MessageStream::from(&connection);
        let mut session = Self {
            connection,
            messages,
            log,
            desk,
            shown: shown.borrow_and_update().clone(),
            pending: Pending::default(),
            asked: VecDeque::new(),
            again,
        };
        // Flags 0: in the queue behind whoever has it, and nobody takes it away.
        let body = (NAME, 0_u32);
        session.ask("RequestName", &body, Question::Name).await?;
        Ok(session)
    }

    /// Until the connection is of no more use.
    async fn serve(&mut self, shown: &mut watch::Receiver<Shown>) -> Ended {
        loop {
            let due = self.asked.front().map(|asked| asked.until);
            let silent = async {
                match due {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            // No flood of calls keeps a change from being told.
            let done = tokio::select! {
                biased;
                changed = shown.changed() => match changed {
                    Ok(()) => {
                        let new = shown.borrow_and_update().clone();
                        self.announce(new).await
                    }
                    Err(_) => Err(Ended::Stopped),
                },
                () = silent => Err(Ended::Silent),
                (call, done) = self.pending.next() => self.done(&call, done).await,
                message = self.messages.next() => match message {
                    Some(Ok(message)) => {
                        // Its answer may stand behind a flood of calls.
                        if let Some(asked) = self.asked.front_mut() {
                            asked.until = Instant::now() + CALL_TIMEOUT;
                        }
                        self.message(message).await
                    }
                    Some(Err(_)) | None => Err(Ended::Closed),
                },
            };
            if let Err(ended) = done {
                return ended;
            }
        }
    }

    /// One signal with what is not as before.
    async fn announce(&mut self, new: Shown) -> Result<(), Ended> {
        let changed = objects::changed(&self.shown, &new);
        self.shown = new;
        if changed.is_empty() {
            return Ok(());
        }
        let none: [&str; 0] = [];
        let body = (INTERFACE, changed, &none[..]);
        let signal = Message::signal(PATH, objects::PROPERTIES, "PropertiesChanged");
        self.send(&signal.build(&body)?).await
    }

    async fn message(&mut self, message: Message) -> Result<(), Ended> {
        let header = message.header();
        let from_bus = header.sender().is_some_and(|sender| *sender == BUS);
        match message.message_type() {
            Type::MethodCall => self.call(message).await,
            Type::MethodReturn | Type::Error if from_bus => self.answered(&message).await,
            Type::Signal if from_bus => {
                let acquired = header.member().is_some_and(|it| *it == "NameAcquired");
                let ours = message
                    .body()
                    .deserialize::<&str>()
                    .is_ok_and(|it| it == NAME);
                if acquired && ours {
                    self.named();
                }
                Ok(())
            }
            Type::MethodReturn | Type::Error | Type::Signal => Ok(()),
        }
    }

    /// Answers a call, or asks first whose it is.
    async fn call(&mut self, call: Message) -> Result<(), Ended> {
        let unread = (call.primary_header().flags()).contains(Flags::NO_REPLY_EXPECTED);
        if unread && !objects::changes(&call) {
            return Ok(());
        }
        if call.data().len() > LONGEST {
            let long = objects::refuse(&call, &objects::Refused::Long)?;
            return self.reply(&call, &long).await;
        }
        match objects::call(&call, &self.shown, self.log)? {
            objects::Call::Answered(answer) => self.reply(&call, &answer).await,
            objects::Call::Changes if self.asked.len() >= CHANGES => {
                let busy = objects::refuse(&call, &objects::Refused::Busy)?;
                self.reply(&call, &busy).await
            }
            objects::Call::Changes => {
                let header = call.header();
                let Some(sender) = header.sender().map(|sender| sender.as_str().to_owned()) else {
                    return Ok(());
                };
                let question = Question::Caller(call.clone());
                self.ask("GetConnectionUnixUser", &sender, question).await
            }
        }
    }

    /// What the bus says to what it was asked.
    async fn answered(&mut self, answer: &Message) -> Result<(), Ended> {
        let serial = answer.header().reply_serial();
        let asked = (self.asked.iter()).position(|asked| Some(asked.serial) == serial);
        let Some(asked) = asked.and_then(|place| self.asked.remove(place)) else {
            return Ok(());
        };
        let body = answer.body();
        let number = match answer.message_type() {
            Type::MethodReturn => body.deserialize::<u32>().map_err(|err| err.to_string()),
            _ => Err(body.deserialize::<&str>().unwrap_or_default().to_owned()),
        };
        match (asked.what, number) {
            // `NameAcquired` tells the rest.
            (Question::Name, Ok(OWNER)) => Ok(()),
            (Question::Name, Ok(IN_QUEUE)) => {
                if !self.again {
                    tracing::warn!(
                        "the name {NAME} is taken on D-Bus, by another process or by a connection of ours that the bus has not given up yet: not shown there before that ends"
                    );
                }
                self.again = true;
                Ok(())
            }
            (Question::Name, Ok(other)) => Err(Ended::Refused(format!("answer {other}"))),
            (Question::Name, Err(why)) => Err(Ended::Refused(text::clean(&why, MESSAGE))),
            (Question::Caller(call), Ok(user)) => match objects::change(&call, user, self.log)? {
                objects::Change::Answered(answer) => self.reply(&call, &answer).await,
                objects::Change::Ordered(order) => {
                    match self.pending.give(self.desk, call.clone(), order) {
                        Ok(()) => Ok(()),
                        Err(why) => self.done(&call, Err(why)).await,
                    }
                }
            },
            // It is gone already.
            (Question::Caller(call), Err(_)) => {
                let denied = objects::refuse(&call, &objects::Refused::Denied)?;
                self.reply(&call, &denied).await
            }
        }
    }

    /// What became of an order.
    async fn done(
        &mut self,
        call: &Message,
        done: Result<Vec<String>, objects::Refused>,
    ) -> Result<(), Ended> {
        let answer = match done {
            Ok(lines) => objects::answer(call, &lines)?,
            Err(why) => objects::refuse(call, &why)?,
        };
        self.reply(call, &answer).await
    }

    fn named(&mut self) {
        if self.again {
            tracing::info!("on D-Bus as {NAME} again");
        }
        self.again = false;
    }

    /// Asks the bus; its answer comes as a message like any other, so that nothing waits for it.
    async fn ask<B>(&mut self, method: &str, body: &B, what: Question) -> Result<(), Ended>
    where
        B: serde::Serialize + zbus::DynamicType,
    {
        let message = Message::method_call(BUS_PATH, method)
            .destination(BUS)
            .interface(BUS)
            .build(body)?;
        self.asked.push_back(Asked {
            serial: message.primary_header().serial_num(),
            what,
            until: Instant::now() + CALL_TIMEOUT,
        });
        self.send(&message).await
    }

    async fn reply(&self, call: &Message, answer: &Message) -> Result<(), Ended> {
        let flags = call.primary_header().flags();
        if flags.contains(Flags::NO_REPLY_EXPECTED) {
            return Ok(());
        }
        self.send(answer).await
    }

    async fn send(&self, message: &Message) -> Result<(), Ended> {
        Ok(bounded("sending a message", self.connection.send(message)).await?)
    }
}
