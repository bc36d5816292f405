//! Why a hold ended without a reboot: in words for people, and whether the next attempt waits for it.

use serde::{Deserialize, Serialize};

use crate::text::{self, MESSAGE};

/// Why a hold ended without a reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The drain failed.
    Drain(String),
    /// Somebody uncordoned the Node: that cancels.
    Uncordoned,
    /// The Lease is not ours any more.
    Lost,
    /// Another Node claims the slot.
    Collision(String),
    /// Another control-plane Node is down (I13).
    Quorum(String),
    /// A gate closed.
    Gate(String),
    /// Too many other Nodes are down; the place in the queue is kept.
    Budget(String),
    /// All triggers are gone, or a wish that it was begun for.
    Withdrawn,
    /// A person paused this node; its cordon stays.
    Paused(String),
    /// The Node was deleted or replaced.
    NodeReplaced,
    /// logind did not reboot.
    Reboot(String),
    /// The state cannot be written.
    Unwritable,
    /// The API server refused the take, or what the hold sets on the own Node.
    Refused(String),
    /// The Lease named this node though there was no hold.
    NoHold,
    /// A person ordered it: `undrain --release`.
    Ordered,
    /// It was drained for a person or a script, who has ended that.
    Maintained,
    /// A hook before the cordon or before the reboot did not say yes.
    Hook(String),
}

impl Why {
    /// The same in bounded words: they are written to disk, and more than can be read back would be lost with all else.
    #[must_use]
    pub(crate) fn bounded(mut self) -> Self {
        if let Self::Drain(words)
        | Self::Collision(words)
        | Self::Quorum(words)
        | Self::Gate(words)
        | Self::Budget(words)
        | Self::Paused(words)
        | Self::Reboot(words)
        | Self::Refused(words)
        | Self::Hook(words) = &mut self
        {
            *words = text::clean(words, MESSAGE);
        }
        self
    }

    /// A failed attempt, after which the next one waits; the others are somebody's wish, or end by
    /// themselves.
    pub(crate) fn backs_off(&self) -> bool {
        match self {
            Self::Drain(_)
            | Self::Uncordoned
            | Self::Lost
            | Self::Collision(_)
            | Self::Reboot(_)
            | Self::Refused(_)
            | Self::Hook(_) => true,
            Self::Quorum(_)
            | Self::Gate(_)
            | Self::Budget(_)
            | Self::Withdrawn
            | Self::Paused(_)
            | Self::NodeReplaced
            | Self::Unwritable
            | Self::NoHold
            | Self::Ordered
            | Self::Maintained => false,
        }
    }

    /// As a sentence for people.
    pub fn words(&self) -> String {
        match self {
            Self::Drain(why) => format!("the drain failed: {why}"),
            Self::Uncordoned => "somebody uncordoned the node, which cancels".to_owned(),
            Self::Lost => "the slot was taken away".to_owned(),
            Self::Collision(why) => format!("another node claims the slot: {why}"),
            Self::Quorum(why) => format!("control-plane nodes go one at a time: {why}"),
            Self::Gate(why) => format!("a gate closed: {why}"),
            Self::Budget(why) => format!("too few other nodes are available: {why}"),
            Self::Withdrawn => "what it was begun for is not asked for any more".to_owned(),
            Self::Paused(why) => format!("the node is paused: {why}"),
            Self::NodeReplaced => "the Node was deleted or replaced".to_owned(),
            Self::Reboot(why) => format!("no reboot: {why}"),
            Self::Unwritable => "the state cannot be written".to_owned(),
            Self::Refused(why) => format!("the API server refused: {why}"),
            Self::NoHold => "the slot was ours without a hold".to_owned(),
            Self::Ordered => "ordered by undrain --release".to_owned(),
            Self::Maintained => "nobody keeps the node drained any more".to_owned(),
            Self::Hook(why) => why.clone(),
        }
    }
}
