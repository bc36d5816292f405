//! What people can be told of a node's way, and in which shape: the words of `[notify]`.

/// A moment that can be told, by its name in `notify.on`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// A reboot is required, and has not begun.
    Required,
    /// A slot is held, and pods leave.
    Draining,
    /// The host is about to go down.
    Rebooting,
    /// It has rebooted, and is healthy.
    Rebooted,
    /// An attempt was given up; there will be another.
    Failed,
    /// Somebody has to look at the node.
    Person,
}

impl Topic {
    /// All there are, with their names.
    pub const WORDS: &[(&str, Self)] = &[
        ("required", Self::Required),
        ("draining", Self::Draining),
        ("rebooting", Self::Rebooting),
        ("rebooted", Self::Rebooted),
        ("failed", Self::Failed),
        ("person", Self::Person),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Draining => "draining",
            Self::Rebooting => "rebooting",
            Self::Rebooted => "rebooted",
            Self::Failed => "failed",
            Self::Person => "person",
        }
    }

    /// For people.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Required => "a reboot is required",
            Self::Draining => "draining before a reboot",
            Self::Rebooting => "rebooting",
            Self::Rebooted => "rebooted and healthy",
            Self::Failed => "an attempt to reboot was given up",
            Self::Person => "somebody has to look at this node",
        }
    }
}

/// What a webhook takes, by its name in `notify.template`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// All of it, for programs.
    Json,
    /// Slack's, which Mattermost, Rocket.Chat and Google Chat take as well.
    Slack,
    /// An Adaptive Card, for a workflow of Microsoft Teams.
    Teams,
    Discord,
}
