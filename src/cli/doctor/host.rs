//! Checks of the host alone: systemd, logind, the unit, the state directory.

use jiff::Timestamp;
use kube_rebootd_core::config::{Config, Method};
use kube_rebootd_core::kind;
use kube_rebootd_core::text::{NAME, clean};

use super::{Check, Diagnosis, aside, slow};
use crate::cli::status::UNIT;
use crate::host::{Bus, BusError, Store, logind, outdated, own_inhibitor, systemd, timedated};
use crate::root::Root;

/// The oldest systemd that was tried; older ones lack what the unit and the checks rest on.
const SYSTEMD_MIN: u32 = 252;
const SYSTEMD: &str = "systemd";
const UNIT_CHECK: &str = "unit";
const LOGIND: &str = "logind";
const INHIBITORS: &str = "inhibitors";
const GUARD: &str = "guard";
const SOFT_REBOOTS: &str = "soft-reboots";
const PACKAGES: &str = "packages";
const STATE: &str = "state";
const CLOCK: &str = "clock sync";
const WINDOWS: &str = "windows";
const BOOT: &str = "boot-complete";
const BLESS: &str = "systemd-bless-boot.service";

pub(super) async fn checks(root: &Root, bus: &Bus, config: Option<&Config>) -> Vec<Check> {
    let systemd = systemd_version(bus).await;
    let unit = if systemd.failed() && bus.connection().await.is_err() {
        Check::skipped(UNIT_CHECK, SYSTEMD)
    } else {
        unit(bus).await
    };
    let logind = login(bus, config).await;
    let inhibitors = if matches!(logind.verdict, Diagnosis::Ok { .. }) {
        inhibitors(bus).await
    } else {
        Check::skipped(INHIBITORS, LOGIND)
    };
    let packages = packages(root).await;
    let mut checks = vec![
        systemd,
        unit,
        logind,
        inhibitors,
        packages,
        state(root).await,
    ];
    if config.is_some_and(|config| config.reboot.guard) {
        checks.push(guard(bus).await);
    }
    if config.is_some_and(|config| config.reboot.kind.soft()) {
        checks.push(soft_reboots(bus).await);
    }
    if config.is_some_and(|config| config.health.boot_complete) {
        checks.push(boot_complete(bus).await);
    }
    if config.is_some_and(|config| config.gates.rest_on_clock()) {
        checks.push(clock(bus).await);
    }
    checks.extend(config.and_then(|config| windows(config, Timestamp::now())));
    checks
}

/// What each year leaves out is refused with the configuration; what these years do passes.
fn windows(config: &Config, now: Timestamp) -> Option<Check> {
    if config.gates.windows.none() {
        return None;
    }
    Some(match config.shut_for_long(now) {
        None => Check::ok(WINDOWS, "one is open, or opens within two years"),
        Some(why) => Check::fail(
            WINDOWS,
            format!("gates.exclude_dates {why}"),
            "take dates of gates.exclude_dates away",
        ),
    })
}

/// A host whose clock nobody synchronizes would wait for its window for ever.
async fn clock(bus: &Bus) -> Check {
    let said = match timedated::synchronized(bus).await {
        Ok(true) => return Check::ok(CLOCK, "synchronized"),
        Ok(false) => {
            "it is not synchronized, and windows, excluded dates or gates.force_after rest on it"
                .to_owned()
        }
        Err(err) => err.to_string(),
    };
    Check::warn(
        CLOCK,
        said,
        "timedatectl set-ntp true; where the hypervisor keeps the clock: gates.unsynchronized_clock = \"ignore\"",
    )
    .until("the clock is synchronized")
}

/// systemd-bless-boot.service begins the target only in a boot that systemd-boot counts (`make kernel`): a node whose reboot
/// is none would keep its slot.
async fn boot_complete(bus: &Bus) -> Check {
    let target = systemd::BOOT_COMPLETE;
    let cure = format!("systemctl add-wants multi-user.target {target}");
    match systemd::begun_by(bus, target).await {
        Ok(units) => match units.iter().find(|unit| *unit != BLESS) {
            Some(unit) => Check::ok(BOOT, format!("{target} is begun by {}", clean(unit, NAME))),
            None => Check::warn(
                BOOT,
                format!(
                    "nothing begins {target} in a boot that systemd-boot does not count, and \
                     health.boot_complete keeps the slot until it is reached"
                ),
                cure,
            ),
        },
        Err(err) => Check::warn(
            BOOT,
            format!("cannot tell what begins {target}: {err}"),
            cure,
        ),
    }
}

async fn systemd_version(bus: &Bus) -> Check {
    let version = match systemd::version(bus).await {
        Ok(version) => version,
        Err(err) => return Check::fail(SYSTEMD, err.to_string(), bus_cure(&err, SYSTEMD)),
    };
    match kind::systemd_number(&version) {
        Some(number) if number >= SYSTEMD_MIN => Check::ok(SYSTEMD, version),
        Some(number) => Check::fail(
            SYSTEMD,
            format!("version {number} is older than {SYSTEMD_MIN}"),
            format!("update the distribution to one with systemd {SYSTEMD_MIN} or newer"),
        ),
        None => Check::warn(
            SYSTEMD,
            format!("cannot tell what version {version:?} is"),
            format!("see that it is {SYSTEMD_MIN} or newer: systemctl --version"),
        ),
    }
}

async fn unit(bus: &Bus) -> Check {
    match systemd::active_state(bus, UNIT).await {
        Ok(state) if state == "active" || state == "reloading" => {
            Check::ok(UNIT_CHECK, format!("{UNIT} is {state}"))
        }
        Ok(state) => Check::warn(
            UNIT_CHECK,
            format!("{UNIT} is {state}"),
            "systemctl enable --now kube-rebootd",
        )
        .until("kube-rebootd.service runs"),
        Err(err) => Check::warn(UNIT_CHECK, err.to_string(), "systemctl status kube-rebootd"),
    }
}

async fn login(bus: &Bus, config: Option<&Config>) -> Check {
    match logind::preparing_for_shutdown(bus).await {
        Ok(false) => Check::ok(LOGIND, "answers"),
        Ok(true) => Check::warn(
            LOGIND,
            "the host is going down now",
            "wait until it is back",
        ),
        Err(err) => {
            let cure = bus_cure(&err, "systemd-logind");
            let command =
                config.is_some_and(|config| matches!(config.reboot.method, Method::Command(_)));
            if command {
                Check::warn(LOGIND, err.to_string(), cure)
            } else {
                Check::fail(LOGIND, err.to_string(), cure)
            }
        }
    }
}

async fn inhibitors(bus: &Bus) -> Check {
    match logind::block_inhibitors(bus).await {
        Ok(all) if all.is_empty() => Check::ok(INHIBITORS, "nobody blocks a reboot"),
        Ok(all) => {
            let who: Vec<String> = all
                .iter()
                .map(|one| format!("{} (pid {}): {}", one.who, one.pid, one.why))
                .collect();
            Check::warn(
                INHIBITORS,
                format!("a reboot is blocked now by {}", who.join("; ")),
                "it waits until they are gone: systemd-inhibit --list",
            )
            .until("nobody inhibits a shutdown")
        }
        Err(err) => Check::fail(
            INHIBITORS,
            err.to_string(),
            bus_cure(&err, "systemd-logind"),
        ),
    }
}

/// Whether everybody else is kept from a shutdown, as `reboot.guard` says.
async fn guard(bus: &Bus) -> Check {
    let off = "or: reboot.guard = false";
    let both = async {
        let heeds = logind::heeds_root(bus).await?;
        Ok::<_, BusError>((heeds, logind::locks(bus).await?.own))
    };
    match both.await {
        Ok((true, true)) => Check::ok(GUARD, "every other shutdown is refused"),
        Ok((true, false)) => Check::warn(
            GUARD,
            "the daemon does not inhibit other shutdowns now; it does so while it runs, but in mode = \"observe\", while it reboots the host, and while the node is kept drained",
            format!("journalctl -u kube-rebootd -g reboot.guard; {off}"),
        ),
        Ok((false, _)) => Check::warn(
            GUARD,
            own_inhibitor::OLD,
            format!("update the distribution; {off}"),
        ),
        Err(err) => Check::warn(GUARD, err.to_string(), bus_cure(&err, "systemd-logind")),
    }
}

/// Whether the host does what `reboot.kind` asks for.
async fn soft_reboots(bus: &Bus) -> Check {
    let why = match systemd::version(bus).await {
        Ok(version) => match kind::lacking(&version) {
            None => return Check::ok(SOFT_REBOOTS, "systemd does them"),
            Some(why) => why,
        },
        Err(err) => err.to_string(),
    };
    Check::fail(
        SOFT_REBOOTS,
        format!("reboot.kind is \"soft-reboot\", and no reboot begins that is to be one: {why}"),
        "reboot.kind = \"reboot\", or update the distribution",
    )
}

async fn packages(root: &Root) -> Check {
    let here = root.clone();
    match aside(move || outdated::package_manager(&here)).await {
        Some(Ok(None)) => Check::ok(PACKAGES, "no package manager works"),
        Some(Ok(Some(working))) => Check::warn(
            PACKAGES,
            working.to_string(),
            "a reboot waits until that has finished",
        )
        .until("that package manager has finished"),
        Some(Err(err)) => Check::fail(
            PACKAGES,
            format!("not known whether a package manager works: {err}"),
            "run doctor as root; if it is, that file is not what its package manager made",
        ),
        None => slow(PACKAGES),
    }
}

fn bus_cure(err: &BusError, service: &str) -> String {
    match (err, service) {
        (BusError::Connect(_), _) => "systemctl start dbus.socket dbus.service".to_owned(),
        (_, SYSTEMD) => "is systemd PID 1 here? ps -p 1".to_owned(),
        (_, service) => {
            format!("install and start it: systemctl unmask {service}; systemctl restart {service}")
        }
    }
}

async fn state(root: &Root) -> Check {
    let store = Store::state(root);
    let path = store.path().display().to_string();
    match aside(move || store.probe()).await {
        Some(Ok(())) => Check::ok(STATE, format!("{path} can be written")),
        Some(Err(err)) if err.kind() == std::io::ErrorKind::PermissionDenied => {
            Check::fail(STATE, err.to_string(), "run doctor as root")
        }
        Some(Err(err)) => Check::fail(
            STATE,
            err.to_string(),
            "make /var/lib writable and free space on it: findmnt -T /var/lib; df /var/lib",
        ),
        None => slow(STATE),
    }
}
