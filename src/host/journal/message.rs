//! Transitions in the journal: one `MESSAGE_ID` for each phase, and the record that carries it.
//!
//! `packaging/kube-rebootd.catalog` explains each id to `journalctl -x`; a test keeps both equal.

use super::TARGET;

/// The phase that a transition leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
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
    /// The host is about to reboot.
    Rebooting,
    /// The host has rebooted and is being checked.
    Verifying,
    /// The slot is being given up.
    Releasing,
    /// The reboot is called off.
    Undoing,
}

impl Message {
    /// All of them, in the order of a cycle.
    pub const ALL: [Self; 9] = [
        Self::Idle,
        Self::Pending,
        Self::Queued,
        Self::Claiming,
        Self::Draining,
        Self::Rebooting,
        Self::Verifying,
        Self::Releasing,
        Self::Undoing,
    ];

    /// The phase's word.
    pub const fn phase(self) -> &'static str {
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

    /// `MESSAGE_ID`: 128 random bits in hex, never changed once released (`sd-id128(3)`).
    pub const fn id(self) -> &'static str {
        match self {
            Self::Idle => "99c22b20536742d58de7f076b994b6ad",
            Self::Pending => "8f0a2f2d87d14f8f95204f05e7221e56",
            Self::Queued => "1ae44739e7bb4e36843577acb78bf865",
            Self::Claiming => "64ef363d51f7452fa7e749256b5fd76b",
            Self::Draining => "c93dc70b62634a7ebe5c565fe85e4d15",
            Self::Rebooting => "6b2867e324304fd49b171e6ee840cb4f",
            Self::Verifying => "6a8c2412ea35464ea911d9d994d014b1",
            Self::Releasing => "fd0e46c1b1284ad380ca0f7f3130625f",
            Self::Undoing => "a304b2ee8bb64841b583a366784b6972",
        }
    }
}

/// The subjects of a transition, each a journal field when present.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fields<'a> {
    /// `LEASE`: the slot.
    pub lease: Option<&'a str>,
    /// `HOLDER`: the node that has it.
    pub holder: Option<&'a str>,
    /// `REASON`: why, in words.
    pub reason: Option<&'a str>,
    /// `POD`: namespace/name.
    pub pod: Option<&'a str>,
}

/// Writes the one record of a transition to `phase`.
pub fn transition(phase: Message, fields: &Fields<'_>, text: &str) {
    tracing::info!(
        target: TARGET,
        message_id = phase.id(),
        phase = phase.phase(),
        lease = fields.lease,
        holder = fields.holder,
        reason = fields.reason,
        pod = fields.pod,
        "{text}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalog_explains_every_id_and_no_other() {
        let catalog = include_str!("../../../packaging/kube-rebootd.catalog");
        let explained: Vec<&str> = catalog
            .lines()
            .filter_map(|line| line.strip_prefix("-- "))
            .collect();
        assert_eq!(explained, Message::ALL.map(Message::id));
        for entry in catalog.split("\n-- ").skip(1) {
            let (head, body) = entry.split_once("\n\n").unwrap();
            assert!(head.contains("\nSubject: "), "{head}");
            assert!(!body.trim().is_empty(), "{head}");
        }
    }

    #[test]
    fn ids_are_128_bits_and_differ() {
        for (index, message) in Message::ALL.iter().enumerate() {
            let id = message.id();
            assert!(
                id.len() == 32 && u128::from_str_radix(id, 16).is_ok(),
                "{id}"
            );
            assert!(Message::ALL[..index].iter().all(|other| other.id() != id));
        }
    }
}
