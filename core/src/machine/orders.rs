//! What becomes of an order: the record that is to be durable before anybody is told that it was done (I6).

use super::Machine;
use crate::config::Mode;
use crate::facts::Rehearsed;
use crate::gates::Gate;
use crate::kind::Kind;
use crate::now::Now;
use crate::order::{Order, OrderError};
use crate::phase::Phase;
use crate::record::{Hold, Record, Stage};
use crate::times::Times;
use crate::trigger::{BY_NOW, BY_PERSON, BY_SCHEDULE, Keeper, Latched, Request};

/// A reboot that somebody on this host asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish<'a> {
    pub(super) by: &'a str,
    pub(super) reason: &'a str,
    /// None: what the configuration says.
    pub(super) kind: Option<Kind>,
    /// It does not wait for what a person may judge.
    pub(super) at_once: bool,
    /// Those in whose place it comes.
    pub(super) replaces: fn(&Latched) -> bool,
}

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
        Ok(self.with_times(self.carried_out(order, now)?))
    }

    pub(super) fn with_times(&self, mut ordered: Ordered) -> Ordered {
        // With all that has passed in this cycle; without what one that is called off has taken.
        let lasts = ordered.record.hold.is_some() || ordered.record.request.is_some();
        let times = Some(self.facts.times.clone());
        ordered.record.times = times.filter(|times| lasts && *times != Times::default());
        ordered
    }

    fn carried_out(&self, order: &Order, now: Now) -> Result<Ordered, OrderError> {
        match order {
            Order::Reboot {
                reason,
                kind,
                now: at_once,
            } => {
                let wish = Wish {
                    by: if *at_once { BY_NOW } else { BY_PERSON },
                    reason,
                    kind: *kind,
                    at_once: *at_once,
                    replaces: Latched::reboots_for_person,
                };
                self.wished(&wish, now)
            }
            Order::Cancel => self.taken_back(|wish| {
                wish.reboots_for_person() || wish.of_rebootmgr() || wish.by == BY_SCHEDULE
            }),
            Order::Retry => self.tried_again(now),
            Order::Drain { keeper, reason } => self.kept(*keeper, reason, now),
            Order::Undrain(keeper) => Ok(self.freed(*keeper)),
        }
    }

    /// Its record is durable.
    pub fn ordered(&mut self, ordered: Ordered) {
        if ordered.tries {
            self.facts.rehearsed.take_if(|last| last.said.is_err());
            self.undo_again();
        }
        self.wrote(ordered.record);
    }

    /// Until logind is asked the request on record follows what asks; then it is what the reboot is for, and anything else
    /// would pass for served.
    pub(super) fn follows(&self) -> Result<(), OrderError> {
        let (facts, hold) = (&self.facts, self.facts.record.hold.as_ref());
        match hold.filter(|hold| hold.settles(&facts.boot)) {
            None if facts.shutting_down => Err(OrderError::GoingDown),
            None => Ok(()),
            Some(_) if self.phase() == Phase::Drained => Err(OrderError::Kept),
            Some(hold) if hold.boot == facts.boot => Err(OrderError::GoingDown),
            Some(_) => Err(OrderError::Proving),
        }
    }

    pub(super) fn wished(&self, wish: &Wish<'_>, now: Now) -> Result<Ordered, OrderError> {
        let (reason, at_once) = (wish.reason, wish.at_once);
        if self.config.mode == Mode::Observe {
            return Err(OrderError::Observing);
        }
        self.follows()?;
        let kind = self.kinds().of_wish(wish.kind);
        let lacks = || self.lacks_soft_reboots();
        if wish.kind.is_some_and(Kind::soft)
            && let Some(why) = lacks()
        {
            return Err(OrderError::NoSoftReboot(why));
        }
        let mut record = self.facts.record.clone();
        // Whoever asked before, and for a full one, has taken nothing back.
        let before = record.request.iter().flat_map(|request| &request.latched);
        let before = before.filter(|other| (wish.replaces)(other));
        let kind = before.map(|other| other.kind).fold(kind, Kind::max);
        let mut words = vec![format!(
            "asked to {} when it is this node's turn: {reason}",
            kind.name()
        )];
        if at_once {
            words.extend(self.ends_wait(&mut record, now)?);
        }
        let latched = Latched {
            by: wish.by.to_owned(),
            reason: reason.to_owned(),
            at: now.wall,
            // Whoever reboots the host meanwhile does what was asked for.
            boot: Some(self.facts.boot.clone()),
            ended: false,
            kind,
        };
        latch(&mut record, latched, wish.replaces);
        let request = record.request.iter();
        let kept = request.flat_map(Request::kept).map(|(keeper, _)| keeper);
        words.extend(kept.map(|it| format!("it waits until {}", it.ends())));
        let pause = |gate| matches!(gate, Gate::NodePaused | Gate::GroupPaused);
        words.extend(self.waits_for(pause));
        Ok(Ordered {
            record,
            words,
            tries: at_once,
        })
    }

    /// What a person's wish waits for besides its turn.
    fn waits_for(&self, counts: impl Fn(Gate) -> bool) -> impl Iterator<Item = String> {
        let closed = self.facts.closed.iter();
        let closed = closed.filter(move |closed| counts(closed.gate));
        closed.map(|closed| format!("it waits as long as this lasts: {}", closed.why))
    }

    /// A slot is held for it as for a reboot, and the node stays drained.
    fn kept(&self, keeper: Keeper, reason: &str, now: Now) -> Result<Ordered, OrderError> {
        if self.config.mode == Mode::Observe {
            return Err(OrderError::Observing);
        }
        let drained = self.phase() == Phase::Drained;
        let mut record = self.facts.record.clone();
        let words = if drained {
            vec![format!(
                "the node is drained, and stays so until {}: {reason}",
                keeper.ends()
            )]
        } else {
            self.follows()?;
            let mut words = vec![format!(
                "asked to be drained when it is this node's turn, until {}: {reason}",
                keeper.ends()
            )];
            words.extend(self.ends_wait(&mut record, now)?);
            words.extend(self.waits_for(Gate::about_drains));
            words
        };
        let wish = Latched {
            by: keeper.begins().to_owned(),
            reason: reason.to_owned(),
            at: now.wall,
            boot: None,
            ended: false,
            kind: Kind::Reboot,
        };
        latch(&mut record, wish, |other| other.keeper() == Some(keeper));
        Ok(Ordered {
            record,
            words,
            tries: !drained,
        })
    }

    /// The wish is taken back; where it was served, what comes of that is a matter of the proof.
    fn freed(&self, keeper: Keeper) -> Ordered {
        let mut record = self.facts.record.clone();
        let drained = self.phase() == Phase::Drained;
        let own = |wish: &Latched| wish.keeps() && wish.keeper() == Some(keeper);
        let mut words = Vec::new();
        if let Some(request) = &mut record.request {
            let taken = request.latched.iter_mut().filter(|wish| own(wish));
            for wish in taken {
                words.push(format!("taken back: {} ({})", wish.by, wish.reason));
                wish.ended = true;
            }
        }
        if words.is_empty() {
            words.push(format!("nobody asked by {}", keeper.begins()));
        }
        for (other, wish) in record.request.iter().flat_map(Request::kept) {
            words.push(format!(
                "it stays drained until {}: {}",
                other.ends(),
                wish.reason
            ));
        }
        if drained && !record.keeps() {
            words.push(
                "the host is proved healthy, then the node is uncordoned and its slot given up"
                    .to_owned(),
            );
        }
        // What the slot was held for is history's, once it was.
        let serves = |hold: &Hold| {
            let settles = hold.settles(&self.facts.boot) && hold.stage != Stage::Releasing;
            hold.stage == Stage::Drained || settles
        };
        if !record.hold.as_ref().is_some_and(serves) {
            let request = record.request.take();
            record.request = request.and_then(|request| request.without(|wish| wish.ended));
        }
        Ordered {
            record,
            words,
            tries: false,
        }
    }

    /// Wishes of which `own` says so, and what a reboot has missed.
    pub(super) fn taken_back(&self, own: impl Fn(&Latched) -> bool) -> Result<Ordered, OrderError> {
        self.follows()?;
        let mut record = self.facts.record.clone();
        let mut words = Vec::new();
        if let Some(request) = &mut record.request {
            let taken = request.latched.extract_if(.., |wish| own(wish));
            words.extend(taken.map(|wish| format!("taken back: {} ({})", wish.by, wish.reason)));
        }
        let missed = record.settled.as_mut().and_then(|it| it.missed.take());
        words.extend(missed.map(|missed| format!("not told of any longer: {missed}")));
        if words.is_empty() {
            words.push("nobody asked on this host itself for a reboot".to_owned());
        }
        if let Some(request) = &record.request {
            let left = request.reasons.iter().map(|reason| &reason.trigger);
            let left = left.chain(request.latched.iter().map(|wish| &wish.by));
            words.extend(left.map(|by| format!("this goes on to ask for it: {by}")));
        }
        record.request = record
            .request
            .and_then(|request| request.without(|_| false));
        Ok(Ordered {
            record,
            words,
            tries: false,
        })
    }

    fn tried_again(&self, now: Now) -> Result<Ordered, OrderError> {
        let mut record = self.facts.record.clone();
        if let Some(why) = self.undo_waits() {
            return Ok(Ordered {
                record,
                words: vec![format!(
                    "the hooks of undo.d are run again now, after this: {why}"
                )],
                tries: true,
            });
        }
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

/// This wish, in place of those that it replaces.
pub(super) fn latch(record: &mut Record, wish: Latched, replaces: impl Fn(&Latched) -> bool) {
    let request = record.request.get_or_insert_with(|| Request {
        since: wish.at,
        reasons: Vec::new(),
        latched: Vec::new(),
    });
    request.latched.retain(|other| !replaces(other));
    request.latched.push(wish);
}
