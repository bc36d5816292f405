//! What a client of FleetLock asks: on record before it is answered (I6), and with yes only when the machine says so (I2).

use std::time::Duration;

use kube_rebootd_core::decide::Step;
use kube_rebootd_core::fleet_lock::{Ask, Kind, No};
use tracing::{info, warn};

use super::Daemon;
use crate::host::fleet_lock::Given;

/// How long a client is kept waiting while the node is on its way: a drain of few pods, and the looks before the yes, take less,
/// and Zincati asks again only after five minutes.
const PATIENCE: Duration = Duration::from_secs(90);
/// Clients that wait for an answer: there is one updater.
const WAITING: usize = 8;

/// A client that waits for its answer, until this boot time.
#[derive(Debug)]
pub(super) struct Waiting {
    given: Given,
    until: Duration,
}

impl Daemon {
    /// Puts it on record, or says why not.
    pub(super) fn client_asked(&mut self, given: Given) {
        if self.waiting.len() >= WAITING {
            let no = No::new(Kind::NotReady, "too much is asked at once; ask again");
            given.answer(Err(no));
            return;
        }
        let now = self.clock.now();
        let made = match self.machine.client_asks(given.ask, now) {
            Ok(made) => made,
            Err(no) => {
                given.answer(Err(no));
                return;
            }
        };
        if let Some(record) = made {
            if let Err(why) = self.keep(&record) {
                warn!("what was asked over FleetLock is refused: {why}");
                given.answer(Err(No::new(Kind::NotReady, &why.to_string())));
                return;
            }
            self.machine.wrote(record);
            match given.ask {
                Ask::PreReboot => {
                    info!("the updater of this host asks over FleetLock to reboot it");
                }
                Ask::SteadyState => {
                    info!(
                        "the updater of this host says over FleetLock that it does not reboot it"
                    );
                }
            }
        }
        let until = now.boot + PATIENCE;
        self.waiting.push(Waiting { given, until });
        self.tell_waiting();
    }

    /// Answers those for whom the node is far enough, or who have waited long enough.
    pub(super) fn answer_clients(&mut self, step: &Step) {
        if self.waiting.is_empty() {
            return;
        }
        let now = self.clock.now();
        for Waiting { given, until } in std::mem::take(&mut self.waiting) {
            if given.late() {
                continue;
            }
            let late = now.boot >= until;
            match self.machine.answers_client(given.ask, step, now, late) {
                Some(answer) => {
                    given.answer(answer);
                }
                None => self.waiting.push(Waiting { given, until }),
            }
        }
        self.tell_waiting();
    }

    /// Tells those that wait to reboot the host; whether one has heard it.
    pub(super) fn tell_clients_to_go_on(&mut self) -> bool {
        let mut told = false;
        for one in std::mem::take(&mut self.waiting) {
            match one.given.ask {
                Ask::PreReboot => told |= one.given.answer(Ok(())),
                Ask::SteadyState => self.waiting.push(one),
            }
        }
        self.tell_waiting();
        told
    }

    /// When the next of them has waited long enough, on the boot clock.
    pub(super) fn clients_until(&self) -> Option<Duration> {
        self.waiting.iter().map(|one| one.until).min()
    }

    fn tell_waiting(&mut self) {
        let asks = |one: &Waiting| one.given.ask == Ask::PreReboot;
        let waits = self.waiting.iter().any(asks);
        self.machine.client_waits(waits);
    }
}
