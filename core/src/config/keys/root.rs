//! The keys outside any table.

use super::{Choice, choice};
use crate::config::Mode;

keys! {
    section "";

    /// With "observe" the daemon does everything but take a slot, so it never cordons, drains or reboots, nor
    /// does it wait in line; status and journal say what it would do.
    /// A hold under way is undone, as by a gate, unless logind was asked already.
    MODE "mode": Choice<Mode> = choice(&[("active", Mode::Active), ("observe", Mode::Observe)]);
}
