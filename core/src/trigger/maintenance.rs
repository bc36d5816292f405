//! Wishes to keep the node drained: a person's for maintenance, or a script's (I4).
//!
//! They hold a slot as a reboot does, and stay until they are taken back, over reboots as well.

use super::{Latched, Request};

/// Who wants the node drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// `drain` and `undrain`.
    Person,
    /// `hold` and `release`.
    Script,
}

impl Keeper {
    pub const ALL: [Self; 2] = [Self::Person, Self::Script];

    /// [`Latched::by`] of the wish: the command that makes it.
    pub fn begins(self) -> &'static str {
        match self {
            Self::Person => "kube-rebootd drain",
            Self::Script => "kube-rebootd hold",
        }
    }

    /// The command that takes it back.
    pub fn ends(self) -> &'static str {
        match self {
            Self::Person => "kube-rebootd undrain",
            Self::Script => "kube-rebootd release",
        }
    }
}

impl Latched {
    /// Whose wish this is, if it is one to keep the node drained, ended or not.
    pub(crate) fn keeper(&self) -> Option<Keeper> {
        Keeper::ALL.into_iter().find(|it| it.begins() == self.by)
    }

    /// It keeps the node drained.
    pub(crate) fn keeps(&self) -> bool {
        !self.ended && self.keeper().is_some()
    }
}

impl Request {
    /// The wishes that keep the node drained: as long as there is one, the daemon does not reboot the host.
    pub fn kept(&self) -> impl Iterator<Item = (Keeper, &Latched)> {
        let kept = self.latched.iter().filter(|wish| wish.keeps());
        kept.filter_map(|wish| Some((wish.keeper()?, wish)))
    }

    /// Something keeps the node drained.
    pub(crate) fn keeps(&self) -> bool {
        self.kept().next().is_some()
    }

    /// Something asks for a reboot as well.
    pub(crate) fn reboots(&self) -> bool {
        !self.reasons.is_empty() || self.latched.iter().any(|wish| wish.keeper().is_none())
    }

    /// Nothing keeps the node drained any more.
    pub(crate) fn end(&mut self) {
        for wish in &mut self.latched {
            wish.ended |= wish.keeper().is_some();
        }
    }

    /// What is left of it when a reboot has served all else: the wishes that keep the node drained; none: nothing.
    pub(crate) fn after_reboot(mut self) -> Option<Self> {
        self.reasons.clear();
        self.without(|wish| !wish.keeps())
    }

    /// This request without what `gone` says of; none: nothing asks any more.
    pub(crate) fn without(mut self, gone: impl Fn(&Latched) -> bool) -> Option<Self> {
        self.latched.retain(|wish| !gone(wish));
        let asks = !self.reasons.is_empty() || !self.latched.is_empty();
        asks.then_some(self)
    }
}
