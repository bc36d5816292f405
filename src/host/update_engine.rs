//! `update_engine` of Flatcar Linux, over D-Bus: what it says of its update, and when it may say something else.
//!
//! Keeps I7 (each call has a limit) and I14: a signal carries nothing that is believed, as any user may send one of any name to this
//! daemon; after each the service itself is asked, by its name, and not more often than it could matter. Source: `update_engine.xml`
//! and `dbus_constants.h` of `flatcar/update_engine`.

use std::time::Duration;

use futures_util::StreamExt as _;
use kube_rebootd_core::trigger::{Verdict, update_engine};
use tokio::time::{sleep, timeout};
use zbus::message::Type;
use zbus::{MatchRule, MessageStream};

use super::bus::{Bus, BusError, bounded};

const NAME: &str = "com.coreos.update1";
const PATH: &str = "/com/coreos/update1";
const INTERFACE: &str = "com.coreos.update1.Manager";
/// Between a signal and the question. While it downloads it sends a signal each second.
const REST: Duration = Duration::from_secs(5);

/// `last_checked_time`, `progress`, `current_operation`, `new_version` and `new_size`.
type Status = (i64, f64, String, String, i64);

/// What it says now.
pub async fn ask(bus: &Bus) -> Verdict {
    let status = bus.call(
        "asking update_engine for its status",
        |connection| async move {
            let asked = connection.call_method(Some(NAME), PATH, Some(INTERFACE), "GetStatus", &());
            asked.await?.body().deserialize::<Status>()
        },
    );
    match status.await {
        Ok((_, _, operation, version, _)) => update_engine::verdict(&operation, &version),
        Err(err) => Verdict::Unknown {
            why: err.to_string(),
        },
    }
}

/// What tells that it may say something else.
#[derive(Debug, Default)]
pub struct Signals(Option<MessageStream>);

impl Signals {
    /// Listens from now on; to be called before the service is asked.
    pub async fn listen(&mut self, bus: &Bus) {
        if self.0.is_some() {
            return;
        }
        match stream(bus).await {
            Ok(stream) => self.0 = Some(stream),
            Err(err) => {
                tracing::debug!("update_engine's signals are not seen; polling goes on: {err}");
            }
        }
    }

    /// It has sent one, a moment ago; never where they are not seen. Cancel-safe.
    pub async fn next(&mut self) {
        let Some(stream) = &mut self.0 else {
            return std::future::pending().await;
        };
        let mut there = stream.next().await.is_some_and(|heard| heard.is_ok());
        let more = async {
            while there {
                there = stream.next().await.is_some_and(|heard| heard.is_ok());
            }
        };
        // All that come meanwhile are one.
        if timeout(REST, more).await.is_ok() {
            // The connection is gone: with the next look there is another.
            self.0 = None;
            sleep(REST).await;
        }
    }
}

/// On a connection of its own: whoever fills it with signals keeps no call from its answer (I14).
async fn stream(bus: &Bus) -> Result<MessageStream, BusError> {
    let connection = bus.connect().await?;
    let subscribed = async {
        let rule = MatchRule::builder()
            .msg_type(Type::Signal)
            .sender(NAME)
            .path(PATH)
            .interface(INTERFACE)
            .member("StatusUpdate")
            .build()?;
        MessageStream::for_match_rule(rule, &connection, None).await
    };
    bounded("subscribing to update_engine's signals", subscribed).await
}
