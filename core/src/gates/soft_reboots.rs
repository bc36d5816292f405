//! A soft-reboot that this host does not do: nothing is drained for it, and no full reboot passes for it.

use super::{State, shut, unknown};

/// What is known of the host's soft-reboots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SoftReboots {
    /// A full reboot is asked for, or none.
    NotWanted,
    /// systemd has not said what it is.
    Unknown,
    /// It does them.
    Done,
    /// It does none, and why.
    Lacking(String),
}

pub(super) fn soft_reboots(reboots: &SoftReboots) -> State {
    match reboots {
        SoftReboots::NotWanted | SoftReboots::Done => State::Open,
        SoftReboots::Unknown => unknown(
            "a soft-reboot is asked for, and systemd does not say whether this host does them",
        ),
        SoftReboots::Lacking(why) => shut(format!(
            "a soft-reboot is asked for, which this host does not do: {why}"
        )),
    }
}
