//! logind: who blocks a shutdown, whether one is under way, and asking for the reboot (I2).
//!
//! Interface: `org.freedesktop.login1(5)`. Facts seen on systemd 252, 257 and 262: `CanReboot` says yes to root whatever
//! locks are held, so inhibitors are listed; up to 256 root's `Reboot` cuts through block locks, so the caller must
//! respect them; from 257 logind refuses, in one of the spellings of [`RebootError::BlockedByInhibitor`] (`host_logind`
//! has them all).

use std::{collections::HashMap, os::fd, time::Duration};

use futures_util::StreamExt;
use kube_rebootd_core::backoff::doubled;
use kube_rebootd_core::inhibitor::{self, Inhibitor};
use kube_rebootd_core::kind::Kind;
use kube_rebootd_core::shutdown::Scheduled;
use kube_rebootd_core::text::{self, MESSAGE, WORDS};
use thiserror::Error;
use tokio::time::Instant;
use zbus::{
    Connection, MatchRule, Message, MessageStream, OwnedFd, OwnedVariant, fdo, message::Type,
    names::OwnedUniqueName, proxy, proxy::CacheProperties,
};

use super::bus::{Bus, BusError, CALL_TIMEOUT, DescriptorError, Descriptors, bounded};

const NAME: &str = "org.freedesktop.login1";
const PATH: &str = "/org/freedesktop/login1";
const INTERFACE: &str = "org.freedesktop.login1.Manager";
/// `SD_LOGIND_SOFT_REBOOT` (`org.freedesktop.login1(5)`), since systemd 254.
const SOFT_REBOOT: u64 = 1 << 2;
/// First wait before the signals are subscribed to again; a bus restart takes about a second.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// The caller's slow poll is the truth meanwhile, so a minute is often enough.
const RETRY_MAX: Duration = Duration::from_secs(60);

#[proxy(
    interface = "org.freedesktop.login1.Manager",
    default_service = "org.freedesktop.login1",
    default_path = "/org/freedesktop/login1"
)]
/// What is used of `org.freedesktop.login1.Manager`.
pub trait Login {
    /// Flags 0: an ordinary reboot, never kexec or soft-reboot.
    fn reboot(&self, interactive: bool) -> zbus::Result<()>;
    /// Of the flags [`SOFT_REBOOT`] alone: a `/run/nextroot` that is prepared must not turn a full reboot into a soft one.
    fn reboot_with_flags(&self, flags: u64) -> zbus::Result<()>;
    /// The line written to every terminal when the shutdown begins; sticky.
    fn set_wall_message(&self, message: &str, enable: bool) -> zbus::Result<()>;
    /// Rows of what, who, why, mode, uid, pid.
    fn list_inhibitors(&self) -> zbus::Result<Vec<inhibitor::Row>>;
    /// Not cached: logind sends no `PropertiesChanged` for it.
    #[zbus(property(emits_changed_signal = "false"))]
    fn preparing_for_shutdown(&self) -> zbus::Result<bool>;
    /// Kind and microseconds since 1970; not cached, as 252 sends no `PropertiesChanged` for it.
    #[zbus(property(emits_changed_signal = "false"))]
    fn scheduled_shutdown(&self) -> zbus::Result<(String, u64)>;
    /// False: there was none.
    fn cancel_scheduled_shutdown(&self) -> zbus::Result<bool>;
    /// Union of what all block locks inhibit, such as `shutdown:sleep`.
    #[zbus(property(emits_changed_signal = "false"))]
    fn block_inhibited(&self) -> zbus::Result<String>;
    /// The same of `block-weak`, which came with 257 together with the rule that a lock holds for root.
    #[zbus(property(emits_changed_signal = "false"))]
    fn block_weak_inhibited(&self) -> zbus::Result<String>;
    /// The lock is held as long as the descriptor is open in any process.
    fn inhibit(&self, what: &str, who: &str, why: &str, mode: &str) -> zbus::Result<OwnedFd>;
}

/// The locks that matter to a reboot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locks {
    /// Those that block it.
    pub block: Vec<Inhibitor>,
    /// The kubelet delays it, to end the pods first (`GracefulNodeShutdown`; `e2e::three_hosts`).
    pub kubelet: bool,
    /// A lock of this daemon is there ([`inhibit`]).
    pub own: bool,
}

/// Why logind did not take the request.
#[derive(Debug, Error)]
pub enum RebootError {
    /// A block lock is held: wait until it is gone.
    #[error("logind refused the reboot: {0}; `systemd-inhibit --list` shows who blocks it")]
    BlockedByInhibitor(String),
    /// We may not: polkit, or reboot.target is masked.
    #[error(
        "logind denied the reboot: {0}; see logind's journal, and `systemctl status reboot.target` for a masked unit"
    )]
    Denied(String),
    /// Another shutdown or sleep operation is running.
    #[error("logind is already busy with a shutdown or sleep operation: {0}")]
    InProgress(String),
    /// It does not know what a soft-reboot is: systemd 253 and older.
    #[error("logind knows no soft-reboot: {0}")]
    NoSoftReboot(String),
    /// No answer in time. The request may have been accepted: read `PreparingForShutdown`.
    #[error("logind did not answer the reboot request within {} s", .0.as_secs())]
    NoAnswer(Duration),
    /// The bus, or an error this daemon does not know.
    #[error(transparent)]
    Bus(BusError),
}

async fn login(connection: &Connection) -> zbus::Result<LoginProxy<'static>> {
    LoginProxy::builder(connection)
        .cache_properties(CacheProperties::No)
        .build()
        .await
}

/// Every lock that blocks a reboot. The kubelet's lock is `delay` and not among them.
pub async fn block_inhibitors(bus: &Bus) -> Result<Vec<Inhibitor>, BusError> {
    locks(bus).await.map(|locks| locks.block)
}

/// The locks that block a reboot, and whether the kubelet delays it.
pub async fn locks(bus: &Bus) -> Result<Locks, BusError> {
    let rows = bus
        .call("listing logind's inhibitors", |connection| async move {
            login(&connection).await?.list_inhibitors().await
        })
        .await?;
    let all: Vec<Inhibitor> = rows.into_iter().map(Inhibitor::of).collect();
    let kubelet = all.iter().any(Inhibitor::kubelets_delay);
    let own = all.iter().any(Inhibitor::is_own);
    let block = all.into_iter().filter(Inhibitor::blocks_reboot).collect();
    Ok(Locks {
        block,
        kubelet,
        own,
    })
}

/// Whether a block lock keeps root from a shutdown, too: from 257. Up to 256 root's calls cut through it.
pub async fn heeds_root(bus: &Bus) -> Result<bool, BusError> {
    let weak = bus.call("asking logind for its version", |connection| async move {
        login(&connection).await?.block_weak_inhibited().await
    });
    match weak.await {
        Ok(_) => Ok(true),
        Err(BusError::Call {
            source: zbus::Error::FDO(known),
            ..
        }) if matches!(*known, fdo::Error::UnknownProperty(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Takes a lock that blocks every shutdown while the returned descriptor is open.
pub async fn inhibit(
    bus: &Bus,
    descriptors: &Descriptors,
    why: &'static str,
) -> Result<fd::OwnedFd, DescriptorError> {
    // The lock is the descriptor's, and not the connection's.
    let take = async move |connection: Connection| {
        let login = login(&connection).await?;
        let taken = login
            .inhibit("shutdown", inhibitor::OWN, why, "block")
            .await?;
        Ok(fd::OwnedFd::from(taken))
    };
    let what = "inhibiting every other shutdown";
    descriptors.call(bus, what, take).await
}

/// Whether a shutdown or reboot has begun and may no longer be undone.
pub async fn preparing_for_shutdown(bus: &Bus) -> Result<bool, BusError> {
    bus.call(
        "reading logind's PreparingForShutdown",
        |connection| async move { login(&connection).await?.preparing_for_shutdown().await },
    )
    .await
}

/// The shutdown that is scheduled, if one is.
pub async fn scheduled_shutdown(bus: &Bus) -> Result<Option<Scheduled>, BusError> {
    let (kind, micros) = bus
        .call(
            "reading logind's ScheduledShutdown",
            |connection| async move { login(&connection).await?.scheduled_shutdown().await },
        )
        .await?;
    Ok(Scheduled::of(&kind, micros))
}

/// Cancels the scheduled shutdown; `message` stands before logind's own words on every terminal. False:
/// nothing was scheduled any more.
pub async fn cancel_shutdown(bus: &Bus, message: &str) -> Result<bool, BusError> {
    let connection = bus.connection().await?;
    let proxy = bounded("reaching logind", login(&connection)).await?;
    announce(&proxy, message).await;
    let cancelled = proxy.cancel_scheduled_shutdown();
    bounded("cancelling the scheduled shutdown", cancelled).await
}

/// What every terminal is shown when the shutdown begins, told to logind before anything that must come right before the
/// reboot. It also makes the connection that [`ask_reboot`] uses.
pub async fn announce_reboot(bus: &Bus, message: &str) {
    let proxy = bus.call("reaching logind", |connection| async move {
        login(&connection).await
    });
    match proxy.await {
        Ok(proxy) => announce(&proxy, message).await,
        Err(error) => tracing::warn!(%error, "Not announced on terminals: {message}"),
    }
}

/// Asks for a reboot of this kind. `Ok` means accepted, not begun: the kubelet's delay lock may hold it back for
/// `InhibitDelayMaxSec`.
pub async fn ask_reboot(bus: &Bus, kind: Kind) -> Result<(), RebootError> {
    let connection = bus.connection().await.map_err(RebootError::Bus)?;
    let proxy = bounded("reaching logind", login(&connection))
        .await
        .map_err(RebootError::Bus)?;
    let asked = match kind {
        Kind::Reboot => bounded("asking logind to reboot", proxy.reboot(false)).await,
        Kind::SoftReboot => {
            let asked = proxy.reboot_with_flags(SOFT_REBOOT);
            bounded("asking logind to soft-reboot", asked).await
        }
    };
    asked.map_err(|error| reboot_error(error, kind))
}

/// The message is a courtesy: what must be done is done without it.
async fn announce(proxy: &LoginProxy<'_>, message: &str) {
    let message = text::clean(message, WORDS);
    let wall = proxy.set_wall_message(&message, true);
    if let Err(error) = bounded("setting logind's wall message", wall).await {
        tracing::warn!(%error, "Not announced on terminals: {message}");
    }
}

/// The names differ by version: tested on 252, 257 and 262.
fn reboot_error(error: BusError, kind: Kind) -> RebootError {
    let BusError::Call { source, .. } = &error else {
        return match error {
            BusError::Timeout { limit, .. } => RebootError::NoAnswer(limit),
            error => RebootError::Bus(error),
        };
    };
    match source {
        zbus::Error::MethodError(name, text, _) => {
            let text = text::clean(text.as_deref().unwrap_or_default(), MESSAGE);
            match name.as_str() {
                "org.freedesktop.login1.BlockedByInhibitorLock" => {
                    RebootError::BlockedByInhibitor(text)
                }
                "org.freedesktop.login1.OperationInProgress" => RebootError::InProgress(text),
                _ => RebootError::Bus(error),
            }
        }
        zbus::Error::FDO(known) => match &**known {
            // 257 has no error name of its own for it, and 252 to 256 add "to root".
            fdo::Error::AccessDenied(text) if text.contains("block inhibitor") => {
                RebootError::BlockedByInhibitor(text::clean(text, MESSAGE))
            }
            fdo::Error::AccessDenied(text)
            | fdo::Error::AuthFailed(text)
            | fdo::Error::InteractiveAuthorizationRequired(text) => {
                RebootError::Denied(text::clean(text, MESSAGE))
            }
            fdo::Error::InvalidArgs(text) | fdo::Error::UnknownMethod(text) if kind.soft() => {
                RebootError::NoSoftReboot(text::clean(text, MESSAGE))
            }
            fdo::Error::NoReply(_) | fdo::Error::TimedOut(_) | fdo::Error::Timeout(_) => {
                RebootError::NoAnswer(CALL_TIMEOUT)
            }
            _ => RebootError::Bus(error),
        },
        _ => RebootError::Bus(error),
    }
}

/// Wakes its reader when inhibitors or a shutdown may have changed: `BlockInhibited` changed,
/// logind came or went, or `PrepareForShutdown` was sent. Survives restarts of logind and the bus.
///
/// It carries no data on purpose: anybody on the bus can send a signal, so the state is read.
#[derive(Debug)]
pub struct Changes {
    bus: Bus,
    live: Option<Live>,
    failures: u32,
    retry_at: Instant,
}

#[derive(Debug)]
struct Live {
    connection: Connection,
    /// Who is logind on the bus.
    owner: MessageStream,
    /// None while logind is not there.
    signals: Option<Signals>,
}

#[derive(Debug)]
struct Signals {
    properties: MessageStream,
    shutdown: MessageStream,
}

/// What a subscription told.
enum Heard {
    Change,
    /// logind went, or came: it has another name on the bus.
    Owner,
    /// The connection is gone.
    Lost,
}

impl Changes {
    /// Subscribes on the first [`Changes::next`].
    ///
    /// On a connection of its own: zbus keeps 64 messages for a reader that is busy, and reads nothing after them, answers
    /// not either.
    pub fn new(bus: &Bus) -> Self {
        Self {
            bus: bus.apart(),
            live: None,
            failures: 0,
            retry_at: Instant::now(),
        }
    }

    /// Returns when something may have changed, and once after each (re)subscription, because what
    /// happened before it went unseen. Cancel safe.
    pub async fn next(&mut self) {
        loop {
            if let Some(live) = &mut self.live {
                match live.next().await {
                    Heard::Change => return,
                    Heard::Owner => self.retry_at = Instant::now(),
                    Heard::Lost => self.retry_at = Instant::now() + RETRY_MIN,
                }
                self.live = None;
            }
            tokio::time::sleep_until(self.retry_at).await;
            match Live::subscribe(&self.bus).await {
                Ok(live) => {
                    self.live = Some(live);
                    self.failures = 0;
                    return;
                }
                Err(error) => {
                    if self.failures == 0 {
                        tracing::warn!(%error, "logind's signals are not seen; polling goes on");
                    }
                    self.retry_at = Instant::now() + doubled(RETRY_MIN, self.failures, RETRY_MAX);
                    self.failures = self.failures.saturating_add(1);
                }
            }
        }
    }
}

impl Live {
    async fn subscribe(bus: &Bus) -> Result<Self, BusError> {
        bus.call("subscribing to logind's signals", |connection| async move {
            let bus = connection.is_bus();
            let rule = |sender: Option<OwnedUniqueName>, path, interface, member| {
                let rule = MatchRule::builder()
                    .msg_type(Type::Signal)
                    .path(path)
                    .interface(interface)
                    .member(member);
                match sender {
                    Some(sender) => rule.sender(sender),
                    None => rule,
                }
            };
            let dbus = || OwnedUniqueName::try_from("org.freedesktop.DBus");
            let owner = rule(
                bus.then(dbus).transpose()?,
                "/org/freedesktop/DBus",
                "org.freedesktop.DBus",
                "NameOwnerChanged",
            )
            .arg(0, NAME)
            .build()?;
            // Before it is asked who it is now.
            let owner = MessageStream::for_match_rule(owner, &connection, None).await?;
            let logind = if bus {
                owner_of_logind(&connection).await?
            } else {
                None
            };
            // Without a bus in between there are no senders, and nobody else.
            if bus && logind.is_none() {
                return Ok(Self {
                    connection,
                    owner,
                    signals: None,
                });
            }
            let properties = rule(
                logind.clone(),
                PATH,
                "org.freedesktop.DBus.Properties",
                "PropertiesChanged",
            )
            .arg(0, INTERFACE)
            .build()?;
            let shutdown = rule(logind, PATH, INTERFACE, "PrepareForShutdown").build()?;
            let signals = Signals {
                properties: MessageStream::for_match_rule(properties, &connection, None).await?,
                shutdown: MessageStream::for_match_rule(shutdown, &connection, None).await?,
            };
            Ok(Self {
                connection,
                owner,
                signals: Some(signals),
            })
        })
        .await
    }

    async fn next(&mut self) -> Heard {
        let signals = async {
            match &mut self.signals {
                Some(signals) => signals.next().await,
                None => std::future::pending().await,
            }
        };
        // A stream that ends is lost, though the connection may be there.
        tokio::select! {
            heard = signals => if heard { Heard::Change } else { Heard::Lost },
            message = self.owner.next() => match message {
                Some(Ok(_)) => Heard::Owner,
                Some(Err(_)) | None => Heard::Lost,
            },
            () = self.connection.closed() => Heard::Lost,
        }
    }
}

impl Signals {
    /// True for one that matters, false when the connection is gone.
    async fn next(&mut self) -> bool {
        loop {
            tokio::select! {
                message = self.properties.next() => match message {
                    Some(Ok(message)) if names_inhibitors(&message) => return true,
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return false,
                },
                message = self.shutdown.next() => return matches!(message, Some(Ok(_))),
            }
        }
    }
}

/// The unique name of logind's connection; none: it is not on the bus.
///
/// Any local user may send us a signal of any name: the bus lets no rule about its sender keep one away that is sent to
/// us alone, and zbus compares unique names only. A flood of what passes would keep answers from this connection (I14).
async fn owner_of_logind(connection: &Connection) -> zbus::Result<Option<OwnedUniqueName>> {
    let bus = fdo::DBusProxy::new(connection).await?;
    match bus.get_name_owner(NAME.try_into()?).await {
        Ok(owner) => Ok(Some(owner)),
        Err(fdo::Error::NameHasNoOwner(_)) => Ok(None),
        Err(err) => Err(err.into()),
    }
}

/// logind announces idle hints and sessions by the same signal, several times a minute.
fn names_inhibitors(message: &Message) -> bool {
    let body = message.body();
    match body.deserialize::<(String, HashMap<String, OwnedVariant>, Vec<String>)>() {
        Ok((_, changed, invalidated)) => {
            changed.contains_key("BlockInhibited")
                || invalidated.iter().any(|name| name == "BlockInhibited")
        }
        // Not understood: one useless reading is cheaper than a missed lock.
        Err(_) => true,
    }
}
