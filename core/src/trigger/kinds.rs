//! What a reboot of one kind serves of what was asked for (I8, I10).

use super::{Latched, Reason, Request};
use crate::boot::Boot;
use crate::kind::Kind;

impl Latched {
    /// The host's updater reboots it by itself, and does what it needs.
    fn wants(&self) -> Kind {
        if self.of_client() {
            Kind::Reboot
        } else {
            self.kind
        }
    }

    /// A reboot of this kind serves it. A client of FleetLock knows best what it has done.
    fn served_by(&self, done: Kind) -> bool {
        self.of_client() || self.kind <= done
    }

    /// It still asks in this boot: no reboot has come that serves it.
    pub(super) fn lasts(&self, boot: &Boot) -> bool {
        let served = |of: &Boot| of != boot && self.served_by(Kind::between(of, boot));
        !self.boot.as_ref().is_some_and(served)
    }
}

impl Request {
    /// The strongest kind among all that ask: a full reboot serves all, a soft one only who wants no more.
    pub fn kind(&self) -> Kind {
        let reasons = self.reasons.iter().map(|reason| reason.kind);
        let wishes = self
            .latched
            .iter()
            .filter(|wish| wish.keeper().is_none())
            .map(Latched::wants);
        reasons.chain(wishes).max().unwrap_or_default()
    }

    /// What a reboot of this kind serves of it, and what it leaves; none: nothing.
    pub(crate) fn served_by(self, done: Kind) -> (Option<Self>, Option<Self>) {
        let serves = |reason: &Reason| reason.kind <= done;
        let (reasons, others) = self.reasons.into_iter().partition(serves);
        let serves = |wish: &Latched| wish.served_by(done) || wish.keeper().is_some();
        let (latched, wishes) = self.latched.into_iter().partition(serves);
        let since = self.since;
        let some = |reasons: Vec<Reason>, latched: Vec<Latched>| {
            (!reasons.is_empty() || !latched.is_empty()).then_some(Self {
                since,
                reasons,
                latched,
            })
        };
        (some(reasons, latched), some(others, wishes))
    }

    /// Whose reasons and wishes those of `other` are as well; none: nothing asks.
    pub(crate) fn with(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (Some(mut one), Some(other)) = (one.clone(), other.clone()) else {
            return one.or(other);
        };
        one.since = one.since.min(other.since);
        one.reasons.extend(other.reasons);
        one.latched.extend(other.latched);
        Some(one)
    }
}
