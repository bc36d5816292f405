//! The system bus: one connection, built when first needed and anew after it broke.
//!
//! Every call has a timeout. zbus does not reconnect: after the bus went away each call on the old
//! connection fails, so callers ask [`Bus::connection`] before each use.

use std::{future::Future, io, sync::Arc, time::Duration};

use thiserror::Error;
use tokio::{sync::Mutex, time::timeout};
use zbus::{Address, Connection, connection::Builder};

use kube_rebootd_core::text::{self, MESSAGE};

mod descriptors;
mod socket;

pub use descriptors::{DescriptorError, Descriptors};
use descriptors::{Kept, Stream};

/// For one method call. D-Bus' own default is 25 s; the calls here answer in milliseconds, and the
/// main loop must reach its watchdog (3 min) with several of them stuck.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// For connecting and authenticating; longer than a call, because it is several round trips.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Why the bus, or the service behind it, gave no usable answer.
#[derive(Debug, Clone, Error)]
pub enum BusError {
    /// No connection: no bus, or it refused us.
    #[error("cannot connect to the system bus: {}; is dbus.service running?", said(.0))]
    Connect(zbus::Error),
    /// Nothing came back in time; what was asked may have happened all the same.
    #[error("{what}: no answer over D-Bus within {} s", .limit.as_secs())]
    Timeout {
        /// The call, in words.
        what: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// An error answer, or the connection broke.
    #[error("{what}: {}", said(source))]
    Call {
        /// The call, in words.
        what: &'static str,
        /// What zbus or the service said.
        source: zbus::Error,
    },
}

/// The words of whoever answered, or of zbus, for people (I14).
fn said(error: &zbus::Error) -> String {
    text::clean(&error.to_string(), MESSAGE)
}

/// A handle to the system bus. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Bus {
    origin: Origin,
    current: Arc<Mutex<Option<Connection>>>,
}

/// Where a connection comes from.
#[derive(Debug, Clone)]
enum Origin {
    System,
    Address(String),
    /// One that was made elsewhere; once closed there is no other.
    Given,
}

impl Bus {
    /// The system bus (`DBUS_SYSTEM_BUS_ADDRESS`, else the standard socket). Connects later.
    pub fn system() -> Self {
        Self {
            origin: Origin::System,
            current: Arc::default(),
        }
    }

    /// The bus at a D-Bus address.
    pub fn at(address: impl Into<String>) -> Self {
        Self {
            origin: Origin::Address(address.into()),
            current: Arc::default(),
        }
    }

    /// A connection that is there already: to a peer in the same process.
    pub fn given(connection: Connection) -> Self {
        Self {
            origin: Origin::Given,
            current: Arc::new(Mutex::new(Some(connection))),
        }
    }

    /// A handle to the same bus with a connection of its own; where one was given, that one is all there is.
    #[must_use]
    pub fn apart(&self) -> Self {
        let origin = self.origin.clone();
        let current = match origin {
            Origin::System | Origin::Address(_) => Arc::default(),
            Origin::Given => Arc::clone(&self.current),
        };
        Self { origin, current }
    }

    /// A live connection: the one at hand, or a new one.
    pub async fn connection(&self) -> Result<Connection, BusError> {
        let mut current = self.current.lock().await;
        if let Some(connection) = current.as_ref()
            && !connection.is_closed()
        {
            return Ok(connection.clone());
        }
        *current = None;
        let built = self.connect().await?;
        *current = Some(built.clone());
        Ok(built)
    }

    /// A new connection that nobody shares.
    pub async fn connect(&self) -> Result<Connection, BusError> {
        self.connect_for(CALL_TIMEOUT).await
    }

    /// A new connection on which answers bring file descriptors, and anybody on the bus may send some: what comes is kept.
    async fn connect_for_descriptors(&self, kept: &Kept) -> Result<Connection, BusError> {
        let connection = async {
            let stream = socket::stream(&self.address()?).await?;
            let kept = kept.clone();
            let builder = Builder::socket(Stream { stream, kept });
            builder.method_timeout(CALL_TIMEOUT).build().await
        };
        within_limit(connection).await
    }

    /// A new connection on which each call may take so long.
    pub async fn connect_for(&self, limit: Duration) -> Result<Connection, BusError> {
        let connection = async {
            let builder = socket::builder(self.address()?).await?;
            builder.method_timeout(limit).build().await
        };
        within_limit(connection).await
    }

    fn address(&self) -> zbus::Result<Address> {
        match &self.origin {
            Origin::System => Address::system(),
            Origin::Address(address) => Address::try_from(address.as_str()),
            Origin::Given => Err(io::Error::from(io::ErrorKind::NotConnected).into()),
        }
    }

    /// Runs `call` on a live connection, bounded by [`CALL_TIMEOUT`]; `what` names it in errors.
    pub async fn call<T, F>(
        &self,
        what: &'static str,
        call: impl FnOnce(Connection) -> F,
    ) -> Result<T, BusError>
    where
        F: Future<Output = zbus::Result<T>>,
    {
        let connection = self.connection().await?;
        bounded(what, call(connection)).await
    }
}

/// Waits for a connection at most [`CONNECT_TIMEOUT`].
async fn within_limit(
    connection: impl Future<Output = zbus::Result<Connection>>,
) -> Result<Connection, BusError> {
    timeout(CONNECT_TIMEOUT, connection)
        .await
        .map_err(|_| BusError::Timeout {
            what: "connecting to the system bus",
            limit: CONNECT_TIMEOUT,
        })?
        .map_err(BusError::Connect)
}

/// Waits for `call` at most [`CALL_TIMEOUT`].
pub async fn bounded<T>(
    what: &'static str,
    call: impl Future<Output = zbus::Result<T>>,
) -> Result<T, BusError> {
    within(CALL_TIMEOUT, what, call).await
}

/// Waits for `call` at most so long.
pub async fn within<T>(
    limit: Duration,
    what: &'static str,
    call: impl Future<Output = zbus::Result<T>>,
) -> Result<T, BusError> {
    let late = BusError::Timeout { what, limit };
    match timeout(limit, call).await {
        Err(_) => Err(late),
        Ok(Err(zbus::Error::InputOutput(error))) if error.kind() == io::ErrorKind::TimedOut => {
            Err(late)
        }
        Ok(answer) => answer.map_err(|source| BusError::Call { what, source }),
    }
}
