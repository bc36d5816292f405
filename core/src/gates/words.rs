//! What a gate says, for people: the words, and which part of them stays the same with each answer.

use std::fmt;
use std::ops::Deref;

/// Why a gate is not open, with the subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    all: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// They stay as long as their cause.
    Steady,
    /// Somebody is asked, and what he says may change with each answer: this is what stays.
    Said(String),
    /// It was asked, and cannot be told what it rests on: a right is missing, or there is too much of it. It stays until a
    /// person mends it.
    NotKnown,
}

impl Words {
    /// `who` was asked and `says` that, which may change with each answer.
    pub(super) fn said(who: impl Into<String>, says: &str) -> Self {
        let who = who.into();
        Self {
            all: format!("{who}: {says}"),
            kind: Kind::Said(who),
        }
    }

    /// It is not known `what`, and why, before a person mends it.
    pub(super) fn not_known(what: &str, why: &str) -> Self {
        Self {
            all: format!("not known {what}: {why}"),
            kind: Kind::NotKnown,
        }
    }

    /// All of `several`, one after the other.
    pub(super) fn joined(several: &[Self]) -> Self {
        let join = |of: fn(&Self) -> &str| {
            let each: Vec<&str> = several.iter().map(of).collect();
            each.join("; ")
        };
        let (all, steady) = (join(|one| &one.all), join(Self::steady));
        let kind = if all == steady {
            Kind::Steady
        } else {
            Kind::Said(steady)
        };
        Self { all, kind }
    }

    /// Without what may change with each answer: for the Node and the journal.
    pub fn steady(&self) -> &str {
        match &self.kind {
            Kind::Said(who) => who,
            Kind::Steady | Kind::NotKnown => &self.all,
        }
    }

    /// Nothing changes before a person mends what stands behind them.
    pub(crate) fn lasts(&self) -> bool {
        self.kind == Kind::NotKnown
    }
}

impl From<String> for Words {
    fn from(all: String) -> Self {
        let kind = Kind::Steady;
        Self { all, kind }
    }
}

impl From<&str> for Words {
    fn from(all: &str) -> Self {
        all.to_owned().into()
    }
}

impl Deref for Words {
    type Target = str;

    fn deref(&self) -> &str {
        &self.all
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.all)
    }
}
