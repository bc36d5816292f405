//! What becomes of an order: the record that is to be durable before anybody is told that it was done (I6).

use super::Machine;
use crate::config::Mode;
use crate::facts::Rehearsed;
use crate::gates::Gate;
use crate::now::Now;
use crate::order::{Order, OrderError};
use crate::phase::Phase;
use crate::record::Record;
use crate::trigger::{BY_NOW, BY_PERSON, BY_SCHEDULE, Latched, Request};

/// What an order comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered {
    pub record: Record,
    /// What was done, for whoever asked: a line each.
    pub words: Vec<String>,
    /// What failed is tried again now.
    tries: bool,
}

impl Machine {
    /// What this order makes of the record.
    pub fn order(&self, order: &Order, now: Now) -> Result<Ordered, OrderError> {
        if !self.facts.started {
            return Err(OrderError::Starting);
        }
        match order {
            Order::Reboot {
                reason,
                now: at_once,
            } => self.wished(reason, *at_once, now),
            Order::Cancel => self.taken_back(),
            Order::Retry => self.tried_again(now),
        }
    }

    /// Its record is durable.
    pub fn ordered(&mut self, ordered: Ordered) {
        if ordered.tries {
            self.facts.rehearsed.take_if(|last| last.said.is_err());
        }
        self.wrote(ordered.record);
    }

    /// Until logind is asked the request on record follows what asks; then it is what the reboot is for, and anything else
    /// would pass for served.
    fn follows(&self) -> Result<(), OrderError> {
        let (facts, hold) = (&self.facts, self.facts.record.hold.as_ref());
        match hold.filter(|hold| hold.settles(&facts.boot)) {
            None if facts.shutting_down => Err(OrderError::GoingDown),
            None => Ok(()),
            Some(hold) if hold.boot == facts.boot => Err(OrderError::GoingDown),
            Some(_) => Err(OrderError::Proving),
        }
    }

    fn wished(&self, reason: &str, at_once: bool, now: Now) -> Result<Ordered, OrderError> {
        if self.config.mode == Mode::Observe {
            return Err(OrderError::Observing);
        }
        self.follows()?;
        let mut record = self.facts.record.clone();
        let mut words = vec![format!(
            "asked to reboot when it is this node's turn: {reason}"
        )];
        if at_once {
            words.extend(self.ends_wait(&mut record, now)?);
        }
        let request = record.request.get_or_insert_with(|| Request {
            since: now.wall,
            reasons: Vec::new(),
            latched: Vec::new(),
        });
        request.latched.retain(|wish| !wish.by_person());
        request.latched.push(Latched {
            by: if at_once { BY_NOW } else { BY_PERSON }.to_owned(),
            reason: reason.to_owned(),
            at: now.wall,
            // Whoever reboots the host meanwhile does what was asked for.
            boot: Some(self.facts.boot.clone()),
        });
        let pause = |gate| matches!(gate, Gate::NodePaused | Gate::GroupPaused);
        let pauses = self.facts.closed.iter().filter(|closed| pause(closed.gate));
        words
            .extend(pauses.map(|closed| format!("it waits as long as this lasts: {}", closed.why)));
        Ok(Ordered {
            record,
            words,
            tries: at_once,
        })
    }

    fn taken_back(&self) -> Result<Ordered, OrderError> {
        self.follows()?;
        let mut record = self.facts.record.clone();
        let mut words = Vec::new();
        if let Some(request) = &mut record.request {
            let own = |wish: &mut Latched| wish.by_person() || wish.by == BY_SCHEDULE;
            let taken = request.latched.extract_if(.., own);
            words.extend(taken.map(|wish| format!("taken back: {} ({})", wish.by, wish.reason)));
        }
        if words.is_empty() {
            words.push("nobody asked on this host itself for a reboot".to_owned());
        }
        if let Some(request) = &record.request {
            let left = request.reasons.iter().map(|reason| &reason.trigger);
            let left = left.chain(request.latched.iter().map(|wish| &wish.by));
            words.extend(left.map(|by| format!("this goes on to ask for it: {by}")));
        }
        let nothing =
            |request: &mut Request| request.reasons.is_empty() && request.latched.is_empty();
        record.request.take_if(nothing);
        Ok(Ordered {
            record,
            words,
            tries: false,
        })
    }

    fn tried_again(&self, now: Now) -> Result<Ordered, OrderError> {
        let mut record = self.facts.record.clone();
        let mut words = self.ends_wait(&mut record, now)?;
        if words.is_empty() {
            words.push("it does not wait after a failure".to_owned());
        }
        Ok(Ordered {
            record,
            words,
            tries: true,
        })
    }

    /// Ends the wait after a failure, and tells why it waited. The failures stay counted: if the next attempt fails as well,
    /// the wait after it is longer.
    fn ends_wait(&self, record: &mut Record, now: Now) -> Result<Vec<String>, OrderError> {
        if self.phase() == Phase::Undoing {
            return Err(OrderError::GivingBack);
        }
        let mut why = Vec::new();
        let waits = record.backoff.as_mut();
        if let Some(backoff) = waits.filter(|it| it.boot == self.facts.boot && it.until > now.boot)
        {
            backoff.until = now.boot;
            why.push(&*backoff.why);
        }
        if let Some(Rehearsed {
            said: Err(said), ..
        }) = &self.facts.rehearsed
        {
            why.push(said);
        }
        let words = why.into_iter();
        Ok(words
            .map(|why| format!("it does not wait any more after this failure: {why}"))
            .collect())
    }
}
