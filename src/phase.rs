//! The phases of DESIGN.md 6, as users see them in STATUS, the journal and `status`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    Idle,
    Pending,
    Queued,
    Claiming,
    Draining,
    Rebooting,
    Verifying,
    Releasing,
    Undoing,
}

impl Phase {
    /// As DESIGN.md writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "Idle",
            Self::Pending => "Pending",
            Self::Queued => "Queued",
            Self::Claiming => "Claiming",
            Self::Draining => "Draining",
            Self::Rebooting => "Rebooting",
            Self::Verifying => "Verifying",
            Self::Releasing => "Releasing",
            Self::Undoing => "Undoing",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}
