//! `bed`: brings test beds up and down, and is the firmware of their hosts.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use testbed::Bed;

#[derive(Parser)]
#[command(about = "A real Kubernetes control plane and real systemd hosts on one machine")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Install and build what a bed needs.
    Prepare,
    /// Bring a bed up.
    Up {
        #[arg(long, default_value = "test")]
        name: String,
    },
    /// Take everything of a bed down.
    Down {
        #[arg(long, default_value = "test")]
        name: String,
    },
    /// Run a command in a bed's network, as its admin.
    Exec {
        #[arg(long, default_value = "test")]
        name: String,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// What boots a host; not for people.
    #[command(hide = true)]
    Firmware {
        dir: PathBuf,
        base: PathBuf,
        install: PathBuf,
        name: String,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("bed: {err:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<()> {
    match verb {
        Verb::Prepare => testbed::prepare(),
        Verb::Up { name } => Bed::up(&name).map(|_| ()),
        Verb::Down { name } => Bed::down(&name),
        Verb::Exec { name, command } => exec(&name, &command),
        Verb::Firmware {
            dir,
            base,
            install,
            name,
        } => testbed::firmware(&dir, &base, &install, &name),
    }
}

fn exec(name: &str, command: &[String]) -> Result<()> {
    let bed = Bed::named(name)?;
    bed.enter()?;
    let mut path = bed.binaries()?.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let [program, args @ ..] = command else {
        bail!("no command")
    };
    let failed = Command::new(program)
        .args(args)
        .env("PATH", path)
        .env("KUBECONFIG", bed.admin_kubeconfig())
        .exec();
    bail!("cannot run {program}: {failed}")
}
