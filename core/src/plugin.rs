//! A credential plugin of a kubeconfig (`exec`, as EKS and GKE have them), as data: what is to be run, and why it
//! gave no credential. `cluster/plugin` makes the one and understands the answer; who runs it is the caller's choice.

use std::time::Duration;

use crate::text;

/// Longest run; cloud plugins take some 10 s when their service throttles.
pub const RUN: Duration = Duration::from_secs(20);
/// More bytes than any credential has.
pub const OUTPUT_MAX: u64 = 1 << 20;
/// So many characters of what a failed plugin said are kept.
const SAID_MAX: usize = 300;

/// What is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// An absolute path; without a slash it was not found.
    pub program: String,
    pub args: Vec<String>,
    /// Beside the environment of who runs it.
    pub environment: Vec<(String, String)>,
    /// What the kubeconfig says where to get it.
    pub hint: Option<String>,
}

impl Plugin {
    /// It cannot be started.
    pub fn not_started(&self, why: &dyn std::fmt::Display) -> PluginError {
        let hint = self
            .hint
            .as_deref()
            .map(|hint| format!("; {}", hint.trim()));
        PluginError::Start {
            why: why.to_string(),
            hint: hint.unwrap_or_default(),
        }
    }

    /// The kubeconfig names it without a path, and no directory of `PATH` holds it.
    pub fn missing(&self) -> bool {
        !self.program.contains('/')
    }
}

/// Why a plugin gave no credential, in words that follow its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    #[error("names no command")]
    NoCommand,
    /// client-go refuses this, too, where there is no terminal.
    #[error("wants a terminal (interactiveMode: Always); a daemon has none")]
    Interactive,
    #[error("cannot be started: {why}{hint}")]
    Start { why: String, hint: String },
    #[error("did not end within {} s and was killed", .0.as_secs())]
    Slow(Duration),
    #[error("failed ({status}): {said}")]
    Failed { status: String, said: String },
    #[error("gave no credential: {0}")]
    Answer(String),
}

/// It ended with `status`, and this was its standard error.
pub fn failed(status: String, said: &[u8]) -> PluginError {
    let said = String::from_utf8_lossy(said);
    let said = text::clean(&said, usize::MAX);
    let skipped = said.chars().count().saturating_sub(SAID_MAX);
    PluginError::Failed {
        status,
        said: said.chars().skip(skipped).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_a_slash_was_not_found() {
        for (program, missing) in [("aws", true), ("/usr/bin/aws", false)] {
            let plugin = Plugin {
                program: program.to_owned(),
                args: Vec::new(),
                environment: Vec::new(),
                hint: None,
            };
            assert_eq!(plugin.missing(), missing, "{program}");
        }
    }
}
