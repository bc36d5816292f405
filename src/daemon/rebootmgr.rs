//! What rebootmgr's clients ask: durable before it is answered (I6).

use kube_rebootd_core::rebootmgr::{Ask, No, TURN};
use tracing::{info, warn};

use super::Daemon;
use crate::host::rebootmgr::Given;

impl Daemon {
    /// Does it, or says why not.
    pub(super) fn rebootmgr_asked(&mut self, given: Given) {
        // Whoever asked was told that it may not be done.
        if given.late() {
            return;
        }
        let done = self.done_for_rebootmgr(given.ask);
        match &done {
            Ok(words) => info!("{}: {}", given.ask.name(), words.join("; ")),
            // Nothing is wrong.
            Err(no @ (No::Asked | No::NotAsked)) => info!("{}: {no}", given.ask.name()),
            Err(no) => warn!("{} is refused: {no}", given.ask.name()),
        }
        // Whoever hears the answer may look at once.
        let shown = self.machine.rebootmgr_shows(self.machine.phase(), TURN);
        self.rebootmgr.show(shown);
        given.answer(done.map(drop));
    }

    fn done_for_rebootmgr(&mut self, ask: Ask) -> Result<Vec<String>, No> {
        let ordered = self.machine.rebootmgr_asks(ask, self.clock.now())?;
        self.keep(&ordered.record)?;
        let words = ordered.words.clone();
        self.machine.ordered(ordered);
        Ok(words)
    }
}
