//! Whether the host's clock may be believed, where windows rest on it.

use super::{State, shut, unknown};

/// The clock, as far as something rests on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// No window is configured, or nothing is to be begun that a window could forbid.
    Unused,
    /// systemd-timedated did not say.
    Unknown,
    Synchronized,
    /// It may show any time.
    Free,
}

pub(super) fn clock(clock: Clock) -> State {
    match clock {
        Clock::Unused | Clock::Synchronized => State::Open,
        Clock::Unknown => unknown(
            "not known whether the clock is synchronized, on which windows, excluded dates or gates.force_after rest: systemd-timedated did not say",
        ),
        Clock::Free => shut(
            "the clock is not synchronized, and windows, excluded dates or gates.force_after rest on it",
        ),
    }
}
