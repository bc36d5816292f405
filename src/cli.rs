//! The command line (DESIGN.md 12): verbs, their arguments, their exit codes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

pub mod config;
pub mod nodes;
pub mod run;
pub mod unlock;

/// Exit codes: 0 done, 1 failed, 2 usage, 3 not running, 4 denied, 75 not now, 78 configuration.
pub mod exit {
    /// Something went wrong.
    pub const FAILED: u8 = 1;
    /// The daemon does not run.
    pub const NOT_RUNNING: u8 = 3;
    /// This identity may not.
    pub const DENIED: u8 = 4;
    /// A gate or a slot says later; `EX_TEMPFAIL` of sysexits(3).
    pub const NOT_NOW: u8 = 75;
    /// `EX_CONFIG` of sysexits(3).
    pub const CONFIGURATION: u8 = 78;
}

/// Reboots this Kubernetes node when the host needs it and the cluster allows it.
#[derive(Debug, Parser)]
#[command(name = "kube-rebootd", version, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub host: Host,
    #[command(subcommand)]
    pub verb: Verb,
}

/// Where the host's files are.
#[derive(Debug, Clone, Args)]
pub struct Host {
    /// Use this file instead of config.toml (drop-ins still apply).
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Look for every host path below this directory, for tests and images.
    #[arg(long, value_name = "DIR", global = true)]
    pub root: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run the daemon; systemd starts it.
    Run,
    /// Look at or check the configuration.
    #[command(subcommand)]
    Config(ConfigVerb),
}

#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Print the effective values, each with the file it came from.
    Show,
    /// Check files alone, or this host's own configuration.
    Check {
        /// Files to check.
        files: Vec<PathBuf>,
    },
}

impl Host {
    /// The root of host paths.
    pub fn root(&self) -> crate::root::Root {
        self.root
            .as_ref()
            .map_or_else(crate::root::Root::host, crate::root::Root::at)
    }
}

/// Does what the command line says.
pub fn main(cli: Cli) -> ExitCode {
    let root = cli.host.root();
    match cli.verb {
        Verb::Run => run::run(root, cli.host.config),
        Verb::Config(ConfigVerb::Show) => config::show(&root, cli.host.config.as_deref()),
        Verb::Config(ConfigVerb::Check { files }) => config::check(&root, &files),
    }
}
