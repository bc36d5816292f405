//! `bed`: brings test beds up and down, and is the firmware of their hosts.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use testbed::{Bed, HostSpec, Need};

#[derive(Parser)]
#[command(about = "A real Kubernetes control plane and real systemd hosts on one machine")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Install and build what a bed needs, or all that the tests need.
    Prepare {
        /// Only what `make demo` brings up.
        #[arg(long)]
        demo: bool,
        /// Only what `make kernel` brings up, and what builds its package.
        #[arg(long, conflicts_with = "demo")]
        machine: bool,
    },
    /// Bring a bed up.
    Up {
        #[arg(long, default_value = "test")]
        name: String,
        /// Boot this many hosts in it: n1, n2, ...
        #[arg(long, default_value_t = 0)]
        hosts: usize,
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
    /// Run a command on a host of a bed.
    Host {
        #[arg(long, default_value = "test")]
        name: String,
        host: String,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// What boots a host; not for people.
    #[command(hide = true)]
    Firmware {
        dir: PathBuf,
        layers: String,
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
        Verb::Prepare { demo, machine } => testbed::prepare(match (demo, machine) {
            (true, _) => Need::Demo,
            (_, true) => Need::Machine,
            _ => Need::Tests,
        }),
        Verb::Up { name, hosts } => up(&name, hosts),
        Verb::Down { name } => Bed::down(&name),
        Verb::Exec { name, command } => exec(&name, &command),
        Verb::Host {
            name,
            host,
            command,
        } => on_host(&name, &host, &command),
        Verb::Firmware { dir, layers, name } => testbed::firmware(&dir, &layers, &name),
    }
}

/// A bed with hosts n1 to n`hosts`; those that are there already stay.
fn up(name: &str, hosts: usize) -> Result<()> {
    let bed = Bed::up(name, &testbed::Sources::binary())?;
    for number in 1..=hosts {
        let host = format!("n{number}");
        if bed.host(&host).is_ok() {
            continue;
        }
        let start = Instant::now();
        bed.boot(&HostSpec::named(host.as_str()))?.keep();
        bed.wait_ready(&host)?;
        let took = start.elapsed().as_secs_f32();
        eprintln!("bed: host {host} is up and its Node Ready: {took:.1} s");
    }
    Ok(())
}

fn on_host(name: &str, host: &str, command: &[String]) -> Result<()> {
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let out = Bed::named(name)?.host(host)?.run(&command)?;
    print!("{}", out.stdout);
    eprint!("{}", out.stderr);
    if out.code != 0 {
        bail!("{host}: {} ended with {}", command.join(" "), out.code);
    }
    Ok(())
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
