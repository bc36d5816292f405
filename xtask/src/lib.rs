//! Every file below packaging/ that is made from the code: the manual pages, the commented configuration, the completions,
//! the licences of the crates. tests/packages compares them.

use anyhow::Result;
use clap::CommandFactory as _;
use clap_complete::Shell;
use kube_rebootd::cli::Cli;

mod licenses;
mod page;
mod settings;

/// The directory of the whole project.
pub const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Name below packaging/, and content.
pub fn written() -> Result<Vec<(&'static str, String)>> {
    let crates = licenses::crates()?;
    Ok(vec![
        ("man/kube-rebootd.8", page::page(Cli::command())?),
        ("man/kube-rebootd.toml.5", settings::page()?),
        ("config.toml", settings::file()),
        ("completions/kube-rebootd.bash", completion(Shell::Bash)?),
        ("completions/_kube-rebootd", completion(Shell::Zsh)?),
        ("completions/kube-rebootd.fish", completion(Shell::Fish)?),
        ("LICENSE.dependencies", licenses::list(&crates)?),
    ])
}

fn completion(shell: Shell) -> Result<String> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "kube-rebootd", &mut text);
    // zsh's ends its lines with blanks here and there, which `git diff --check` minds.
    let text = String::from_utf8(text)?;
    Ok(text
        .lines()
        .flat_map(|line| [line.trim_end(), "\n"])
        .collect())
}
