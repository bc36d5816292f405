//! From nothing to a daemon: lock, configuration, boot, record (I6, I12).

use std::path::{Path, PathBuf};

use kube_rebootd_core::config::{self, ConfigError, Effective};
use kube_rebootd_core::facts::Facts;
use kube_rebootd_core::machine::Machine;
use kube_rebootd_core::metrics::Counters;
use kube_rebootd_core::record::{CodecError, Record};
use tokio::sync::mpsc;
use tracing::{error, warn};

use super::Daemon;
use super::alerts::Alerts;
use super::api::Api;
use super::api_backoff::ApiBackoff;
use super::api_servers::ApiServers;
use super::capacity::Capacity;
use super::commands::Commands;
use super::credential::held_access;
use super::gather::HostWatch;
use super::hooks::Rounds;
use super::reload::Asked;
use super::report::Report;
use super::tries::Tries;
use super::triggers::Triggers;
use crate::clock::Clock;
use crate::cluster::client::Origin;
use crate::cluster::events::Events;
use crate::host::boot::{self, BootError};
use crate::host::dbus::{Orders, Publisher};
use crate::host::fleet_lock::Questions;
use crate::host::motd::Motd;
use crate::host::notify::Notify;
use crate::host::own_inhibitor::OwnInhibitor;
use crate::host::rebootmgr::Clients;
use crate::host::{Bus, Store, Stored, booted, check, metrics, zone};
use crate::layers;
use crate::notices::{Notices, Silences};
use crate::root::Root;

/// Why the daemon cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Exit code 78: a restart would not mend it.
    #[error("{0}")]
    Config(ConfigError),
    #[error("cannot tell which boot this is: {0}")]
    Boot(#[from] BootError),
}

/// Makes a daemon; `config_file` is `--config FILE`.
pub async fn start(
    root: Root,
    config_file: Option<PathBuf>,
    bus: Bus,
    clock: Clock,
    clients: Origin,
) -> Result<Daemon, StartError> {
    // First of all: what a daemon that was killed said at the login is not true any more.
    let motd = Motd::new(&root);
    let store = Store::state(&root);
    let last_valid = Store::last_valid_config(&root);
    let record = stored(&store, &clock);
    let (loaded, config_error) =
        configured(&root, config_file.as_deref(), &record, &last_valid, &clock)?;
    let Effective { config, tables, .. } = loaded;
    let boot = boot::read(&root, &bus).await?;
    if let Err(err) = check::stop_leftovers(&bus).await {
        warn!("cannot stop what checks left behind: {err}");
    }
    if let Err(err) = check::stop_left_hooks(&bus).await {
        warn!("cannot stop what hooks left behind: {err}");
    }
    let writable = store.probe().inspect_err(|err| {
        error!(
            "cannot write {}: {err}; no slot is taken until it can",
            store.path().display()
        );
    });
    let (evictions, evicted) = mpsc::unbounded_channel();
    let access = held_access(&root, &config, &record);
    let api = Api::new(access, clients, bus.clone(), clock.clone());
    let facts = Facts {
        writable: writable.is_ok(),
        config_error,
        ..Facts::of_a_start(boot, record)
    };
    let notices = Notices::start(&root, &bus);
    let silences = Silences::start(&root);
    let alerts = Alerts::new(&root, &config);
    let mut questions = Questions::new(&root);
    questions.follow(config.fleet_lock.as_ref());
    let mut rebootmgr = Clients::new(&root);
    rebootmgr.follow(config.triggers.rebootmgr);
    Ok(Daemon {
        api,
        triggers: Triggers::new(&root, &bus, &clock, &config),
        commands: Commands::new(&root, &bus, &clock, &config),
        rounds: Rounds::new(&root, &bus, &clock),
        host: HostWatch::new(&root, &bus),
        saved: true,
        report: Report::default(),
        notify: Notify::new(),
        own_inhibitor: OwnInhibitor::new(&bus),
        publisher: Publisher::default(),
        orders: Orders::default(),
        metrics: metrics::Publisher::new(&root),
        counters: Counters::default(),
        motd,
        api_backoff: ApiBackoff::default(),
        heard: None,
        uncounted: 0,
        machine: Machine::new(config, facts).booted(booted::read(&root)),
        root,
        config_file,
        keys: tables,
        asked: Asked::default(),
        clock,
        bus,
        store,
        last_valid,
        evicted,
        evictions,
        tries: Tries::default(),
        events: Events::start(),
        notices,
        silences,
        questions,
        waiting: Vec::new(),
        rebootmgr,
        alerts,
        capacity: Capacity::default(),
        api_servers: ApiServers::default(),
    })
}

/// The configuration; a bad one is refused, unless a hold is on record: then the last valid one serves until the files are
/// right, and what is wrong with them is told (I12).
fn configured(
    root: &Root,
    file: Option<&Path>,
    record: &Record,
    last_valid: &Store,
    clock: &Clock,
) -> Result<(Effective, Option<ConfigError>), StartError> {
    let bad = match layers::load_for_root(root, file) {
        Ok(effective) => {
            if let Err(err) = last_valid.keep(&effective.text) {
                warn!("cannot keep the configuration beside the state: {err}");
            }
            return Ok((effective, None));
        }
        Err(bad) => bad,
    };
    if record.hold.is_none() {
        return Err(StartError::Config(bad));
    }
    let kept = match last_valid.read(clock.now().wall) {
        Ok(Stored::Text(text)) => {
            config::parse_effective(&text, |name| zone::rules(root, name)).ok()
        }
        Ok(Stored::Absent | Stored::Damaged { .. }) | Err(_) => None,
    };
    let serves = if kept.is_some() {
        "the last valid configuration"
    } else {
        "the defaults, as no valid configuration is kept, and only to undo the hold or to prove its reboot"
    };
    error!("a slot is held: going on with {serves}, as:\n{bad}");
    Ok((kept.unwrap_or_else(config::to_end_a_hold), Some(bad)))
}

/// The record on disk; one that cannot be used is kept aside and reported.
fn stored(store: &Store, clock: &Clock) -> Record {
    let wall = clock.now().wall;
    let text = match store.read(wall) {
        Ok(Stored::Absent) => return Record::default(),
        Ok(Stored::Text(text)) => text,
        Ok(Stored::Damaged { kept_aside, why }) => {
            error!(
                "the state file was damaged ({why}); kept as {}",
                kept_aside.display()
            );
            return Record::default();
        }
        Err(err) => {
            error!("cannot read {}: {err}", store.path().display());
            return Record::default();
        }
    };
    match Record::decode(&text) {
        Ok(record) => record,
        Err(why @ (CodecError::Damaged(_) | CodecError::Newer(_))) => {
            let kept = store.keep_aside(wall);
            let kept = kept.map_or_else(|err| err.to_string(), |path| path.display().to_string());
            error!("the state file cannot be used: {why}; kept as {kept}");
            Record::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_rebootd_core::boot::Boot;
    use kube_rebootd_core::config::{Config, Mode};
    use kube_rebootd_core::record::Hold;
    use kube_rebootd_core::slot::{Lease, Take};

    use super::*;

    fn held() -> Record {
        let lease = Lease::free("default", "default");
        let take = Take::of(&lease, "kube-rebootd", jiff::Timestamp::UNIX_EPOCH, false);
        let hold = Some(Hold::begin(take, Boot::unknown()));
        Record {
            hold,
            ..Record::default()
        }
    }

    /// Found by reading: a drain went on with the defaults, which evict what the configuration had protected.
    #[test]
    fn i12_without_a_valid_configuration_a_hold_is_only_undone_or_proved() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        let path = root.path("/etc/kube-rebootd/config.toml");
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(&path, "nonsense = 1\n").expect("written");
        let last_valid = Store::last_valid_config(&root);
        let start = |record: &Record| configured(&root, None, record, &last_valid, &Clock::Real);
        assert!(matches!(
            start(&Record::default()),
            Err(StartError::Config(_))
        ));
        let (loaded, bad) = start(&held()).expect("it goes on");
        assert_eq!(bad.map(|bad| bad.problems.len()), Some(1));
        assert_eq!(loaded.config.mode, Mode::Observe);
        assert!(
            !loaded.config.health.allow_degraded,
            "nor proved by less than was asked for"
        );
        // What is kept counts, with all that it protects.
        last_valid
            .keep("[drain]\nempty_dir = \"block\"\n")
            .expect("kept");
        let (loaded, bad) = start(&held()).expect("it goes on");
        assert!(bad.is_some(), "it is told all the same");
        assert_eq!(loaded.config.mode, Mode::Active);
        assert_ne!(loaded.config.drain, Config::default().drain);
    }
}
