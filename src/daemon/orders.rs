//! What root asks for on this host: durable before it is answered (I6).

use kube_rebootd_core::order::{Order, OrderError};
use kube_rebootd_core::record::Record;
use tracing::{info, warn};

use super::Daemon;
use crate::host::dbus::Given;

impl Daemon {
    /// Does it, or says why not.
    pub(super) fn order(&mut self, given: Given) {
        if given.late() {
            return;
        }
        let done = self.carry_out(&given.order);
        match &done {
            Ok(lines) => info!("ordered over D-Bus: {}", lines.join("; ")),
            Err(why) => warn!("{} over D-Bus is refused: {why}", given.order.name()),
        }
        given.answer(done);
    }

    fn carry_out(&mut self, order: &Order) -> Result<Vec<String>, OrderError> {
        let ordered = self.machine.order(order, self.clock.now())?;
        self.keep(&ordered.record)?;
        let words = ordered.words.clone();
        self.machine.ordered(ordered);
        Ok(words)
    }

    /// Writes down what somebody on this host asked for, before it is answered.
    pub(super) fn keep(&mut self, record: &Record) -> Result<(), OrderError> {
        let written = self.store.write(&record.encode());
        // What is refused must not be on disk: the next turn writes over what may be there.
        self.saved = written.is_ok();
        written.map_err(|why| OrderError::Unwritable {
            path: self.store.path().display().to_string(),
            why: why.to_string(),
        })?;
        self.machine.writable(true);
        #[cfg(debug_assertions)]
        super::stop_point::pass(&self.root, super::stop_point::ORDERED);
        Ok(())
    }
}
