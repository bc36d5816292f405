//! systemd's manager (PID 1) over D-Bus: the state of the host and of units.
//!
//! Interface: `org.freedesktop.systemd1(5)`. Properties are never cached: PID 1 announces changes
//! only to clients that subscribed, and a stale state must not open a gate (I8).

use std::collections::BTreeSet;

use kube_rebootd_core::kubelet::{MainProcess, SERVICES};
use kube_rebootd_core::text::{self, NAME};
use zbus::{Connection, OwnedObjectPath, Proxy, Variant, proxy, proxy::CacheProperties};

use super::bus::{Bus, BusError};

/// What `health.boot_complete` waits for: systemd.special(7).
pub const BOOT_COMPLETE: &str = "boot-complete.target";

/// One property of a transient unit: name and value.
pub type Property<'a> = (&'a str, Variant<'a>);
/// An auxiliary unit of `StartTransientUnit`; none is ever passed.
pub type Auxiliary<'a> = (&'a str, Vec<Property<'a>>);
/// One row of `ListUnitsByPatterns`: name, description, load, active and sub state, followed unit,
/// object path, job id, type and path.
pub type UnitRow = (
    String,
    String,
    String,
    String,
    String,
    String,
    OwnedObjectPath,
    u32,
    String,
    OwnedObjectPath,
);

#[proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1"
)]
/// What is used of `org.freedesktop.systemd1.Manager`.
pub trait Systemd {
    /// `running`, `degraded`, `starting`, `maintenance`, `stopping`...
    #[zbus(property(emits_changed_signal = "false"))]
    fn system_state(&self) -> zbus::Result<String>;
    /// For example `257.13-1~deb13u1`.
    #[zbus(property(emits_changed_signal = "false"))]
    fn version(&self) -> zbus::Result<String>;
    /// Microseconds of `CLOCK_MONOTONIC` at which this userspace began.
    #[zbus(property(emits_changed_signal = "false"))]
    fn userspace_timestamp_monotonic(&self) -> zbus::Result<u64>;
    /// The object of a unit, loaded when needed.
    fn load_unit(&self, name: &str) -> zbus::Result<OwnedObjectPath>;
    /// Makes and starts a unit; answers with its job.
    fn start_transient_unit(
        &self,
        name: &str,
        mode: &str,
        properties: &[Property<'_>],
        auxiliary: &[Auxiliary<'_>],
    ) -> zbus::Result<OwnedObjectPath>;
    /// Stops a unit; answers with its job.
    fn stop_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    /// Gives up the reference of `AddRef`; the connection's end does it too.
    fn unref_unit(&self, name: &str) -> zbus::Result<()>;
    /// The loaded units whose state is in `states` (empty: any) and whose name matches a pattern.
    fn list_units_by_patterns(
        &self,
        states: &[&str],
        patterns: &[&str],
    ) -> zbus::Result<Vec<UnitRow>>;
}

/// A proxy without property cache on `connection`.
pub async fn manager(connection: &Connection) -> zbus::Result<SystemdProxy<'static>> {
    SystemdProxy::builder(connection)
        .cache_properties(CacheProperties::No)
        .build()
        .await
}

/// systemd's own verdict on the host: `running`, `degraded`, `starting`...
pub async fn system_state(bus: &Bus) -> Result<String, BusError> {
    bus.call("reading systemd's SystemState", |connection| async move {
        manager(&connection).await?.system_state().await
    })
    .await
    .map(|state| text::clean(&state, NAME))
}

/// The units that have failed; with none of them `system_state` is not `degraded`.
pub async fn failed_units(bus: &Bus) -> Result<BTreeSet<String>, BusError> {
    bus.call("listing failed units", |connection| async move {
        let manager = manager(&connection).await?;
        manager.list_units_by_patterns(&["failed"], &[]).await
    })
    .await
    .map(|rows| rows.iter().map(|row| text::name(&row.0, NAME)).collect())
}

/// Which of these units are active, or about to be.
pub async fn active_of(bus: &Bus, units: &[&str]) -> Result<Vec<String>, BusError> {
    bus.call("listing units", |connection| async move {
        let states = ["active", "activating", "reloading"];
        let manager = manager(&connection).await?;
        manager.list_units_by_patterns(&states, units).await
    })
    .await
    .map(|rows| rows.iter().map(|row| text::name(&row.0, NAME)).collect())
}

/// systemd's version string.
pub async fn version(bus: &Bus) -> Result<String, BusError> {
    bus.call("reading systemd's Version", |connection| async move {
        manager(&connection).await?.version().await
    })
    .await
    .map(|version| text::clean(&version, NAME))
}

/// When this userspace began, in microseconds since the kernel did; a soft-reboot changes it.
pub async fn userspace_usec(bus: &Bus) -> Result<u64, BusError> {
    bus.call(
        "reading systemd's UserspaceTimestampMonotonic",
        |connection| async move {
            manager(&connection)
                .await?
                .userspace_timestamp_monotonic()
                .await
        },
    )
    .await
}

/// `ActiveState` of a unit: `active`, `inactive`, `failed`, `activating`...
pub async fn active_state(bus: &Bus, unit: &str) -> Result<String, BusError> {
    bus.call("reading a unit's ActiveState", |connection| async move {
        let unit = load(&connection, unit).await?;
        unit.get_property("ActiveState").await
    })
    .await
    .map(|state: String| text::clean(&state, NAME))
}

/// The loaded units that begin `unit` with themselves.
pub async fn begun_by(bus: &Bus, unit: &str) -> Result<Vec<String>, BusError> {
    bus.call("reading who wants a unit", |connection| async move {
        let unit = load(&connection, unit).await?;
        let mut units: Vec<String> = unit.get_property("WantedBy").await?;
        let required: Vec<String> = unit.get_property("RequiredBy").await?;
        units.extend(required);
        Ok(units)
    })
    .await
}

async fn load(connection: &Connection, unit: &str) -> zbus::Result<Proxy<'static>> {
    let path = manager(connection).await?.load_unit(unit).await?;
    proxy::Builder::new(connection)
        .destination("org.freedesktop.systemd1")
        .path(path)
        .interface("org.freedesktop.systemd1.Unit")
        .cache_properties(CacheProperties::No)
        .build()
        .await
}

/// Whether the boot was found good: `boot-complete.target` is active (`health.boot_complete`).
pub async fn boot_complete(bus: &Bus) -> Result<bool, BusError> {
    Ok(active_state(bus, BOOT_COMPLETE).await? == "active")
}

/// The main processes of the services that may be the kubelet (I14).
pub async fn kubelets(bus: &Bus) -> Result<Vec<MainProcess>, BusError> {
    main_processes(bus, &SERVICES).await
}

/// The main processes of the services whose name matches a pattern. A service without a process, or one that ends between two
/// questions, is left out.
pub async fn main_processes(bus: &Bus, patterns: &[&str]) -> Result<Vec<MainProcess>, BusError> {
    bus.call(
        "asking systemd for the kubelet's service",
        |connection| async move {
            let manager = manager(&connection).await?;
            let units = manager.list_units_by_patterns(&[], patterns).await?;
            let mut found = Vec::new();
            for (unit, _, _, _, _, _, path, ..) in units {
                let service: Proxy<'_> = proxy::Builder::new(&connection)
                    .destination("org.freedesktop.systemd1")
                    .path(path)
                    .interface("org.freedesktop.systemd1.Service")
                    .cache_properties(CacheProperties::No)
                    .build()
                    .await?;
                let pid: zbus::Result<u32> = service.get_property("MainPID").await;
                let cgroup: zbus::Result<String> = service.get_property("ControlGroup").await;
                if let (Ok(pid @ 1..), Ok(cgroup)) = (pid, cgroup) {
                    found.push(MainProcess { unit, pid, cgroup });
                }
            }
            Ok(found)
        },
    )
    .await
}
