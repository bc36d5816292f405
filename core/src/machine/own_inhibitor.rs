//! When the daemon inhibits every shutdown but its own (`reboot.guard`, I2).

use super::Machine;
use crate::config::Mode;
use crate::phase::Phase;
use crate::record::{Hold, Stage};

impl Machine {
    /// Whether the lock is to be held: always, but while the node is kept drained for somebody, who may then do with the host
    /// what they like, and from when logind, a command or the updater of the host is to be asked for the reboot until that is
    /// undone. The record says both, so that a restarted daemon lets go as well.
    pub fn inhibits(&self) -> bool {
        // Who only gives back, or only watches, keeps nobody from anything.
        let may = self.config.mode != Mode::Observe && !self.memory.told.is_quiet();
        let hold = self.facts.record.hold.as_ref();
        let asks = self.phase() == Phase::Rebooting && hold.is_some_and(Hold::asked);
        let kept = hold.is_some_and(|hold| hold.stage == Stage::Drained);
        self.config.reboot.guard && may && !asks && !kept
    }
}
