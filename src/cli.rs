//! The command line (docs/design.md 11): its verbs and their exit codes.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use kube_rebootd_core::order::Order;
use kube_rebootd_core::text::printable;
use kube_rebootd_core::trigger::Keeper;

use crate::cluster::manifests::Grant;
use crate::root::Root;
use wish::Wish;

pub mod access;
mod args;
pub mod boot_ok;
pub mod check;
pub mod config;
pub mod doctor;
pub mod explain;
mod identity;
pub mod maintenance;
pub mod manifests;
pub mod migrate;
pub mod nodes;
pub mod order;
mod ready;
pub mod run;
pub mod status;
pub mod undrain;
pub mod unlock;
pub mod wish;

use args::program;
pub use args::{Cli, Cluster, ConfigVerb, Host, MigrateVerb, Verb, Whom, parse};

/// Exit codes: 0 done, 1 failed, 2 usage, 3 not running, 4 denied, 75 not now, 78 configuration.
pub mod exit {
    /// Something went wrong.
    pub const FAILED: u8 = 1;
    /// What is asked for is not said.
    pub const USAGE: u8 = 2;
    /// The daemon does not run.
    pub const NOT_RUNNING: u8 = 3;
    /// This identity may not.
    pub const DENIED: u8 = 4;
    /// A gate or a slot says later; `EX_TEMPFAIL` of sysexits(3).
    pub const NOT_NOW: u8 = 75;
    /// `EX_CONFIG` of sysexits(3).
    pub const CONFIGURATION: u8 = 78;
}

/// Does what the command line says.
pub fn main(cli: Cli) -> ExitCode {
    let (root, file) = (cli.host.root(), cli.host.config);
    let config = file.as_deref();
    match cli.verb {
        Verb::Run => run::run(root, file),
        Verb::Status { json } => status::main(&root, json),
        Verb::Explain {
            node: Some(node),
            json,
            cluster,
        } => access::explain(&root, config, &cluster, &node, json),
        Verb::Explain { json, .. } => explain::main(&root, config, json),
        Verb::Check { builtin, json } => check::main(&root, file.as_ref(), &builtin, json),
        Verb::BootOk { healthz, wait } => boot_ok::main(&root, healthz, wait),
        Verb::Doctor { json } => doctor::main(root, file, json),
        Verb::Undrain {
            release: true,
            timeout,
            ..
        } => undrain::main(root, file, Duration::from_secs(timeout)),
        Verb::Undrain { wait, .. } => maintenance::main(&Order::Undrain(Keeper::Person), wait),
        Verb::Release { wait } => maintenance::main(&Order::Undrain(Keeper::Script), wait),
        Verb::Drain { reason, wait } => drained(Keeper::Person, reason, wait),
        Verb::Hold { reason, wait } => drained(Keeper::Script, reason, wait),
        Verb::Nodes {
            cluster,
            group,
            unhealthy,
            slo,
            json,
            watch,
        } => {
            let show = access::nodes::Show {
                unhealthy,
                slo,
                json,
                watch,
            };
            access::nodes::main(&root, config, &cluster, group, show)
        }
        Verb::Pause {
            whom,
            reason,
            cluster,
        } => {
            let wish = |by| Wish::Pause(reason.unwrap_or(by));
            access::wish(&root, config, &cluster, &whom, wish)
        }
        Verb::Resume {
            whom,
            reason,
            cluster,
        } => access::wish(&root, config, &cluster, &whom, |_| Wish::Resume(reason)),
        Verb::Reboot {
            nodes,
            now,
            kind,
            reason,
            ..
        } if nodes.is_empty() => {
            let reason = reason.unwrap_or_else(order::by);
            order::main(&root, config, &Order::reboot(&reason, now, kind))
        }
        Verb::Cancel { nodes, .. } if nodes.is_empty() => {
            order::main(&root, config, &Order::Cancel)
        }
        Verb::Retry => order::main(&root, config, &Order::Retry),
        Verb::Reboot {
            nodes,
            reason,
            cluster,
            now: _,
            kind: _,
        } => {
            let wish = |by| Wish::Reboot(reason.unwrap_or(by));
            access::wish(&root, config, &cluster, &Whom::of(nodes), wish)
        }
        Verb::Cancel { nodes, cluster } => {
            access::wish(&root, config, &cluster, &Whom::of(nodes), |_| Wish::Cancel)
        }
        Verb::Unlock {
            node,
            force,
            cluster,
        } => access::unlock(&root, config, &cluster, &node, force),
        Verb::Manifests {
            namespace,
            group,
            slots,
            strict,
            constrained,
            capacity,
        } => {
            let grant = grant(strict, constrained);
            let found = namespace.map_or_else(|| access::configured_namespace(&root, config), Ok);
            manifests::main(found, group.as_deref(), slots, &grant, capacity)
        }
        Verb::Migrate(verb) => carried_over(&root, config, &verb),
        Verb::Config(verb) => configuration(&root, config, &verb),
    }
}

fn drained(keeper: Keeper, reason: Option<String>, wait: Option<Duration>) -> ExitCode {
    let reason = reason.unwrap_or_else(order::by);
    maintenance::main(&Order::drain(keeper, &reason), wait)
}

fn configuration(root: &Root, config: Option<&Path>, verb: &ConfigVerb) -> ExitCode {
    match verb {
        ConfigVerb::Show => config::show(root, config),
        ConfigVerb::Check { files } => config::check(root, config, files),
    }
}

fn carried_over(root: &Root, config: Option<&Path>, verb: &MigrateVerb) -> ExitCode {
    match verb {
        MigrateVerb::Kured { manifest, cluster } => {
            migrate::kured(root, config, manifest.as_deref(), cluster)
        }
    }
}

fn grant(strict: Option<Vec<String>>, constrained: bool) -> Grant {
    match strict {
        Some(nodes) => Grant::Strict(nodes),
        None if constrained => Grant::Constrained,
        None => Grant::Plain,
    }
}

/// Prints to stdout. A reader that left early (`| head`) is no failure worth a word.
fn print(text: &str) {
    print_coloured(&printable(text));
}

/// As [`print`], for text whose colours are ours; what came from outside went through [`printable`] before.
fn print_coloured(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Says on stderr what went wrong.
fn complain(error: &dyn std::fmt::Display) {
    // Nobody is left to tell when stderr is gone; the exit code stays.
    let text = format!("kube-rebootd: {error}\n");
    let _ = std::io::stderr().write_all(printable(&text).as_bytes());
}

/// A thread that hangs in a dead mount or a plugin must not keep the process from ending.
const LINGER: Duration = Duration::from_millis(200);

/// Runs one verb's requests.
fn block_on(work: impl Future<Output = ExitCode>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(work);
            runtime.shutdown_timeout(LINGER);
            code
        }
        Err(err) => {
            complain(&format!("cannot start: {err}"));
            ExitCode::from(exit::FAILED)
        }
    }
}
