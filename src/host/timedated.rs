//! systemd-timedated over D-Bus: whether the kernel's clock is synchronized, whoever does that (chrony, ntpd and PTP as well).
//!
//! Interface: `org.freedesktop.timedate1(5)`. The kernel itself could be asked by adjtimex(2), which `ProtectClock=` forbids.

use zbus::proxy;
use zbus::proxy::CacheProperties;

use super::bus::{Bus, BusError};

#[proxy(
    interface = "org.freedesktop.timedate1",
    default_service = "org.freedesktop.timedate1",
    default_path = "/org/freedesktop/timedate1"
)]
/// What is used of `org.freedesktop.timedate1`.
trait Timedate {
    #[zbus(property(emits_changed_signal = "false"), name = "NTPSynchronized")]
    fn synchronized(&self) -> zbus::Result<bool>;
}

/// The clock is synchronized. The bus starts systemd-timedated for the question, which ends half a minute later.
pub async fn synchronized(bus: &Bus) -> Result<bool, BusError> {
    bus.call(
        "reading systemd-timedated's NTPSynchronized",
        |connection| async move {
            TimedateProxy::builder(&connection)
                .cache_properties(CacheProperties::No)
                .build()
                .await?
                .synchronized()
                .await
        },
    )
    .await
}
