//! What root asks of the running daemon on its own host: a reboot, to take that back, to try again now, to drain the node
//! and keep it so.
//!
//! Unlike the annotation that anybody with the right to change the Node may set, these are a person's wishes: they are bound
//! by no `reboot.max_per_day`, and wait neither for `settle` nor until what asks for a reboot has stopped to come and go.

use thiserror::Error;

use crate::kind::Kind;
use crate::text::{WORDS, clean};
use crate::trigger::Keeper;

/// One wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    Reboot {
        /// For whoever looks.
        reason: String,
        /// None: what the configuration says.
        kind: Option<Kind>,
        /// A window, users, `gates.min_uptime` and a back-off are no reason to wait. A slot, budgets, inhibitors, package
        /// managers and a pause are.
        now: bool,
    },
    /// Takes back the reboot that was asked for on this host.
    Cancel,
    /// Ends a back-off.
    Retry,
    /// Holds a slot and keeps the node drained, over reboots as well.
    Drain { keeper: Keeper, reason: String },
    /// Ends that, once the host is proved healthy.
    Undrain(Keeper),
}

impl Order {
    /// With a reason that can be kept: clean, short, and never empty.
    pub fn reboot(reason: &str, now: bool, kind: Option<Kind>) -> Self {
        let reason = given(reason);
        Self::Reboot { reason, kind, now }
    }

    /// The same.
    pub fn drain(keeper: Keeper, reason: &str) -> Self {
        let reason = given(reason);
        Self::Drain { keeper, reason }
    }

    /// The verb of the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reboot { .. } => "reboot",
            Self::Cancel => "cancel",
            Self::Retry => "retry",
            Self::Drain { keeper, .. } => match keeper {
                Keeper::Person => "drain",
                Keeper::Script => "hold",
            },
            Self::Undrain(Keeper::Person) => "undrain",
            Self::Undrain(Keeper::Script) => "release",
        }
    }
}

fn given(reason: &str) -> String {
    match clean(reason, WORDS) {
        empty if empty.is_empty() => "no reason given".to_owned(),
        reason => reason,
    }
}

/// Why it is not done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OrderError {
    /// What is on record elsewhere is not merged yet.
    #[error("the daemon has just started, and the API server has not answered yet; ask again then")]
    Starting,
    #[error(
        "mode = \"observe\": this daemon never reboots the host; set mode = \"active\" to let it"
    )]
    Observing,
    #[error("this host does no soft-reboot: {0}; a full one serves as well: --kind reboot")]
    NoSoftReboot(String),
    #[error(
        "the host goes down, or logind was asked to reboot it; if it stays up, ask again when kube-rebootd has given up"
    )]
    GoingDown,
    #[error("the host has just rebooted, and is not proved healthy yet; ask again when it is idle")]
    Proving,
    #[error(
        "the host has rebooted while the node is kept drained; end that first: kube-rebootd undrain, kube-rebootd release"
    )]
    Kept,
    #[error("an attempt has failed, and what it held is given back now; ask again in a moment")]
    GivingBack,
    /// What has been asked is lost with the next power cut.
    #[error("{path} cannot be written: {why}")]
    Unwritable { path: String, why: String },
}

impl OrderError {
    /// It ends by itself: exit code 75.
    pub fn passes(&self) -> bool {
        match self {
            Self::Starting | Self::GoingDown | Self::Proving | Self::Kept | Self::GivingBack => {
                true
            }
            Self::Observing | Self::NoSoftReboot(_) | Self::Unwritable { .. } => false,
        }
    }
}
