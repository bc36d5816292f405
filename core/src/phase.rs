//! The phases of docs/design.md 6, as users see them in STATUS, the journal and `status`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// No reboot is required.
    Idle,
    /// A reboot is required, but not allowed now.
    Pending,
    /// Waiting for a slot.
    Queued,
    /// Taking a slot.
    Claiming,
    /// The node is being drained.
    Draining,
    /// Drained, and kept so for a person or a script.
    Drained,
    /// The host is about to reboot.
    Rebooting,
    /// The host has rebooted and is being checked.
    Verifying,
    /// The slot is being given up.
    Releasing,
    /// The reboot is called off.
    Undoing,
}

impl Phase {
    /// All of them, in the order of a cycle.
    pub const ALL: [Self; 10] = [
        Self::Idle,
        Self::Pending,
        Self::Queued,
        Self::Claiming,
        Self::Draining,
        Self::Drained,
        Self::Rebooting,
        Self::Verifying,
        Self::Releasing,
        Self::Undoing,
    ];

    /// As docs/design.md 6 writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "Idle",
            Self::Pending => "Pending",
            Self::Queued => "Queued",
            Self::Claiming => "Claiming",
            Self::Draining => "Draining",
            Self::Drained => "Drained",
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

#[cfg(test)]
mod tests {
    use super::*;

    /// People look for these names in the journal and in `status`.
    #[test]
    fn each_phase_is_called_what_it_is() {
        for phase in Phase::ALL {
            assert_eq!(phase.name(), format!("{phase:?}"));
            assert_eq!(phase.to_string(), phase.name());
        }
    }
}
