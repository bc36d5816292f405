//! Who is logged in on the host: the sessions of systemd-logind (I8, I14).
//!
//! Interface: `org.freedesktop.login1(5)`. The list of sessions with their class (`ListSessionsEx`) came with 256, so each
//! session's properties are read.

use std::collections::HashMap;
use std::time::Duration;

use kube_rebootd_core::users::{Session, Told};
use nix::time::{ClockId, clock_gettime};
use zbus::proxy::CacheProperties;
use zbus::{Connection, OwnedObjectPath, OwnedVariant, fdo, proxy};

use super::bus::{Bus, BusError};

const SERVICE: &str = "org.freedesktop.login1";
const SESSION: &str = "org.freedesktop.login1.Session";
/// Sessions that are asked about: each is a call, and nobody's host has so many. The next ones count as at work.
const MOST: usize = 32;

/// Name, user id, user, seat and object of a session.
type Row = (String, u32, String, String, OwnedObjectPath);

#[proxy(
    interface = "org.freedesktop.login1.Manager",
    default_service = "org.freedesktop.login1",
    default_path = "/org/freedesktop/login1"
)]
/// What is used of `org.freedesktop.login1.Manager` here.
trait Sessions {
    fn list_sessions(&self) -> zbus::Result<Vec<Row>>;
}

/// Everybody who is logged in.
pub async fn users(bus: &Bus) -> Result<Vec<Session>, BusError> {
    bus.call("listing logind's sessions", |connection| async move {
        let proxy = SessionsProxy::builder(&connection)
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        let mut sessions = Vec::new();
        for (number, (id, _, user, _, path)) in proxy.list_sessions().await?.into_iter().enumerate()
        {
            let told = if number < MOST {
                told(&connection, id, user, path).await?
            } else {
                Some(Told {
                    id,
                    user,
                    ..Told::default()
                })
            };
            sessions.extend(told.and_then(Session::of));
        }
        Ok(sessions)
    })
    .await
}

/// What logind tells of this one; none: it has ended meanwhile.
async fn told(
    connection: &Connection,
    id: String,
    user: String,
    path: OwnedObjectPath,
) -> zbus::Result<Option<Told>> {
    let properties = fdo::PropertiesProxy::builder(connection)
        .destination(SERVICE)
        .path(path)
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    let all = match properties.get_all(SESSION.try_into()?).await {
        Ok(all) => all,
        Err(fdo::Error::UnknownObject(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let words = |name: &str| words(&all, name);
    let since: Option<u64> = taken(&all, "IdleSinceHintMonotonic");
    let since = since.filter(|since| *since > 0);
    Ok(Some(Told {
        id,
        user,
        class: taken(&all, "Class"),
        state: words("State"),
        kind: words("Type"),
        idle_hint: taken(&all, "IdleHint").unwrap_or_default(),
        idle_since: since.map(|since| uptime().saturating_sub(Duration::from_micros(since))),
        terminal: words("TTY"),
        remote: words("RemoteHost"),
    }))
}

fn words(all: &HashMap<String, OwnedVariant>, name: &str) -> String {
    taken(all, name).unwrap_or_default()
}

fn taken<T>(all: &HashMap<String, OwnedVariant>, name: &str) -> Option<T>
where
    T: TryFrom<OwnedVariant, Error = zbus::Error>,
{
    T::try_from(all.get(name)?.try_clone().ok()?).ok()
}

/// `CLOCK_MONOTONIC`, by which logind tells when a session was idle.
fn uptime() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}
