//! `kube-rebootd run`: the process around the daemon: log, lock, runtime.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tracing::error;

use super::exit;
use crate::clock::Clock;
use crate::cluster::client::Origin;
use crate::daemon::{self, StartError};
use crate::host::Bus;
use crate::host::dbus;
use crate::host::journal::Journal;
use crate::host::lock::Lock;
use crate::root::Root;

/// How long the last records may take to reach journald: within the unit's `TimeoutStopSec=`.
const FLUSH: Duration = Duration::from_secs(3);
/// A thread that hangs in a dead mount must not keep the process from ending.
const LINGER: Duration = Duration::from_secs(1);
/// The thread that reads sentinels outlives the pause until it reads again (`triggers.period`, 5 min): its
/// end would wake the process once more.
const READER_STAYS: Duration = Duration::from_secs(600);

/// Runs until a stop signal.
pub fn run(root: Root, config: Option<PathBuf>) -> ExitCode {
    let journal = match Journal::start(&root) {
        Ok(journal) => journal,
        Err(err) => {
            eprintln!("kube-rebootd: cannot log: {err}");
            return ExitCode::from(exit::FAILED);
        }
    };
    let code = locked(root, config, &journal);
    journal.flush(FLUSH);
    code
}

fn locked(root: Root, config: Option<PathBuf>, journal: &Journal) -> ExitCode {
    let lock = match Lock::take(&root) {
        Ok(lock) => lock,
        Err(err) => return failed(journal, &err.to_string(), exit::FAILED),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_keep_alive(READER_STAYS)
        .build()
    {
        Ok(runtime) => runtime,
        Err(err) => return failed(journal, &format!("cannot start: {err}"), exit::FAILED),
    };
    let code = runtime.block_on(async {
        match daemon::start(root, config, Bus::system(), Clock::Real, Origin::Kubeconfig).await {
            Ok(daemon) => {
                let (shown, orders) = dbus::serve(Bus::system(), journal.control());
                let daemon = daemon.naming(journal.naming()).on_bus(shown, orders);
                match Box::pin(daemon.run()).await {
                    Ok(()) => ExitCode::SUCCESS,
                    Err(err) => {
                        let why = format!("cannot listen for signals: {err}");
                        failed(journal, &why, exit::FAILED)
                    }
                }
            }
            Err(err @ StartError::Config(_)) => {
                failed(journal, &err.to_string(), exit::CONFIGURATION)
            }
            Err(err) => failed(journal, &err.to_string(), exit::FAILED),
        }
    });
    runtime.shutdown_timeout(LINGER);
    drop(lock);
    code
}

/// The last record of the process, and what it ends with.
fn failed(journal: &Journal, why: &str, code: u8) -> ExitCode {
    journal.ending();
    error!("{why}");
    ExitCode::from(code)
}
