//! What can happen to a request beside an answer.

use std::time::Duration;

use super::State;
use super::answer::Answer;
use super::request::{Request, Verb};

#[derive(Debug, Clone)]
pub(crate) enum Fate {
    Done,
    /// Never arrives, and the client knows.
    Lost,
    /// Never arrives, and nobody says so.
    Silent,
    /// Answered like this, without being done.
    Says(Answer),
    /// Done, but the connection broke.
    AnswerLost,
    /// Done, but the answer never comes.
    AnswerSilent,
    /// Done and answered, after a while.
    Slow(Duration),
    /// Done after a while, when nobody waits for it any more.
    Late(Duration),
    Watch(Broken),
}

/// What is wrong with a watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Broken {
    /// The server ends it early.
    pub(crate) ends: Option<Duration>,
    /// It says nothing from then on, not even bookmarks.
    pub(crate) stalls: Option<Duration>,
    /// The version is too old.
    pub(crate) expired: bool,
    /// Everything that ever happened to the watched objects is told again first.
    pub(crate) repeats: bool,
}

/// A rule for requests; the first that fits decides.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// Whose connection; empty: everybody's.
    pub(crate) from: String,
    pub(crate) verb: Option<Verb>,
    /// Empty: any.
    pub(crate) resource: &'static str,
    pub(crate) namespace: &'static str,
    /// Only evictions that are tried; else none of them, as a test counts those that are asked for.
    pub(crate) tries: bool,
    /// So many that fit are let through first.
    pub(crate) skip: u32,
    /// So many meet it.
    pub(crate) times: u32,
    pub(crate) fate: Fate,
}

impl Fault {
    /// Everything, for ever.
    pub(crate) fn new(fate: Fate) -> Self {
        Self {
            from: String::new(),
            verb: None,
            resource: "",
            namespace: "",
            tries: false,
            skip: 0,
            times: u32::MAX,
            fate,
        }
    }

    pub(crate) fn of(fate: Fate, verb: Verb, resource: &'static str) -> Self {
        Self {
            verb: Some(verb),
            resource,
            ..Self::new(fate)
        }
    }

    fn fits(&self, from: &str, request: &Request) -> bool {
        let watches = matches!(self.fate, Fate::Watch(_));
        (self.from.is_empty() || self.from == from)
            && self.verb.is_none_or(|verb| verb == request.verb)
            && (self.resource.is_empty() || self.resource == request.resource)
            && (self.namespace.is_empty() || self.namespace == request.namespace)
            && (!watches || request.verb == Verb::Watch)
            && (self.tries == request.tries() || self.resource.is_empty() && !self.tries)
            && self.times > 0
    }
}

impl State {
    pub(super) fn fate(&mut self, from: &str, request: &Request) -> Fate {
        if self.down {
            return Fate::Lost;
        }
        let Some(fault) = self
            .faults
            .iter_mut()
            .find(|fault| fault.fits(from, request))
        else {
            return Fate::Done;
        };
        if fault.skip > 0 {
            fault.skip -= 1;
            return Fate::Done;
        }
        fault.times -= 1;
        fault.fate.clone()
    }
}
