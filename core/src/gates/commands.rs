//! `[[gates.command]]` and the hooks of `gate.d`: what an admin's own commands say.

use super::{State, Words, shut, unknown};

/// What they say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Commands {
    /// None has anything against it.
    Yes,
    /// This one says not now, and why.
    NotNow(String, String),
    /// This one says nothing, and why that is.
    Unknown(String, String),
    /// This one has not answered yet, or not since its answer must be new.
    Awaited(String),
    /// Which there are is not known.
    Unlisted(String),
}

pub(super) fn commands(commands: &Commands) -> State {
    match commands {
        Commands::Yes => State::Open,
        Commands::NotNow(who, why) => shut(Words::said(format!("{who} says not now"), why)),
        Commands::Unknown(who, why) => {
            unknown(Words::said(format!("{who} says neither yes nor no"), why))
        }
        Commands::Awaited(who) => unknown(format!("{who} has not answered yet")),
        Commands::Unlisted(why) => unknown(Words::not_known("which hooks there are", why)),
    }
}
