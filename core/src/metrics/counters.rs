//! What one process counts. Every label value is there from the start, at 0, so that the first one is seen as an increase.

use std::collections::BTreeMap;

use crate::drain::How;
use crate::pod::EvictAnswer;
use crate::record::{Record, Stage, Why};

/// How a request to the API server failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// There are no clients: no kubeconfig, or no node's name.
    NotConnected,
    NotFound,
    /// Somebody else changed the object, or replaced it.
    Conflict,
    /// 401 or 403.
    Denied,
    /// A validation, a policy or a webhook refused it.
    Refused,
    /// 429 or 5xx.
    Busy,
    /// No answer, or none that can be read.
    Unanswered,
    /// A watch or a list has to begin anew.
    Expired,
    Other,
}

impl Fault {
    pub const ALL: [Self; 9] = [
        Self::NotConnected,
        Self::NotFound,
        Self::Conflict,
        Self::Denied,
        Self::Refused,
        Self::Busy,
        Self::Unanswered,
        Self::Expired,
        Self::Other,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::NotConnected => "not_connected",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Denied => "denied",
            Self::Refused => "refused",
            Self::Busy => "busy",
            Self::Unanswered => "unanswered",
            Self::Expired => "expired",
            Self::Other => "other",
        }
    }
}

/// How a hold ended.
const PROVED: &str = "proved";
/// The host is healthy, and what the reboot was for did not come.
const ROLLED_BACK: &str = "rolled_back";
const UNDONE: &str = "undone";

/// All ends of a hold that [`end`] tells.
const ENDS: [[&str; 2]; 21] = [
    [PROVED, "automatic"],
    [PROVED, "person"],
    [ROLLED_BACK, "automatic"],
    [ROLLED_BACK, "person"],
    [UNDONE, "drain"],
    [UNDONE, "uncordoned"],
    [UNDONE, "lost"],
    [UNDONE, "collision"],
    [UNDONE, "quorum"],
    [UNDONE, "gate"],
    [UNDONE, "budget"],
    [UNDONE, "withdrawn"],
    [UNDONE, "paused"],
    [UNDONE, "node_replaced"],
    [UNDONE, "reboot"],
    [UNDONE, "unwritable"],
    [UNDONE, "refused"],
    [UNDONE, "no_hold"],
    [UNDONE, "ordered"],
    [UNDONE, "maintained"],
    [UNDONE, "hook"],
];

/// All answers of an eviction that [`answer`] tells.
const ANSWERS: [&str; 9] = [
    "accepted",
    "look_again",
    "budget",
    "busy",
    "unauthorized",
    "unanswered",
    "two_budgets",
    "namespace_terminating",
    "refused",
];

/// All names of [`How`].
const ESCALATIONS: [&str; 2] = ["grace", "delete"];

/// What this process has counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    evictions: BTreeMap<&'static str, u64>,
    escalations: BTreeMap<&'static str, u64>,
    ends: BTreeMap<[&'static str; 2], u64>,
    faults: BTreeMap<Fault, u64>,
    reloads: [u64; 2],
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            evictions: ANSWERS.map(|answer| (answer, 0)).into(),
            escalations: ESCALATIONS.map(|action| (action, 0)).into(),
            ends: ENDS.map(|end| (end, 0)).into(),
            faults: Fault::ALL.map(|fault| (fault, 0)).into(),
            reloads: [0, 0],
        }
    }
}

impl Counters {
    /// An eviction was answered.
    pub fn evicted(&mut self, said: &EvictAnswer) {
        add(self.evictions.entry(answer(said)).or_default());
    }

    /// A pod got a shorter grace period, or was deleted past its budget.
    pub fn escalated(&mut self, how: How) {
        add(self.escalations.entry(how.name()).or_default());
    }

    /// A request failed.
    pub fn failed(&mut self, fault: Fault) {
        add(self.faults.entry(fault).or_default());
    }

    /// A configuration was read, and is in force or was refused.
    pub fn reloaded(&mut self, worked: bool) {
        add(&mut self.reloads[usize::from(!worked)]);
    }

    /// The record `after` follows `before`.
    pub fn wrote(&mut self, before: &Record, after: &Record) {
        if let Some(end) = end(before, after) {
            add(self.ends.entry(end).or_default());
        }
    }

    pub(super) fn evictions(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.evictions
            .iter()
            .map(|(&answer, &count)| (answer, count))
    }

    pub(super) fn escalations(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.escalations
            .iter()
            .map(|(&action, &count)| (action, count))
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = ([&'static str; 2], u64)> {
        self.ends.iter().map(|(&end, &count)| (end, count))
    }

    pub(super) fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.faults
            .iter()
            .map(|(fault, &count)| (fault.name(), count))
    }

    pub(super) fn reloads(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ["success", "failure"].into_iter().zip(self.reloads)
    }
}

fn add(count: &mut u64) {
    *count = count.saturating_add(1);
}

/// That a hold has ended by this write: outcome and reason.
fn end(before: &Record, after: &Record) -> Option<[&'static str; 2]> {
    let was = before.hold.as_ref().map(|hold| &hold.stage);
    match &after.hold.as_ref()?.stage {
        Stage::Undoing(why) => {
            let goes_on = matches!(was, Some(Stage::Undoing(_)));
            (!goes_on).then(|| [UNDONE, reason(why)])
        }
        Stage::Releasing => {
            let automatic = after.history.first().is_none_or(|past| past.automatic);
            let wish = if automatic { "automatic" } else { "person" };
            let settled = after.settled.as_ref();
            let missed = settled.is_some_and(|settled| settled.missed.is_some());
            let outcome = if missed { ROLLED_BACK } else { PROVED };
            (was != Some(&Stage::Releasing)).then_some([outcome, wish])
        }
        Stage::Taking
        | Stage::Claiming
        | Stage::Draining
        | Stage::Drained
        | Stage::Rebooting
        | Stage::Uncordoned => None,
    }
}

fn reason(why: &Why) -> &'static str {
    match why {
        Why::Drain(_) => "drain",
        Why::Uncordoned => "uncordoned",
        Why::Lost => "lost",
        Why::Collision(_) => "collision",
        Why::Quorum(_) => "quorum",
        Why::Gate(_) => "gate",
        Why::Budget(_) => "budget",
        Why::Withdrawn => "withdrawn",
        Why::Paused(_) => "paused",
        Why::NodeReplaced => "node_replaced",
        Why::Reboot(_) => "reboot",
        Why::Unwritable => "unwritable",
        Why::Refused(_) => "refused",
        Why::NoHold => "no_hold",
        Why::Ordered => "ordered",
        Why::Maintained => "maintained",
        Why::Hook(_) => "hook",
    }
}

fn answer(said: &EvictAnswer) -> &'static str {
    match said {
        EvictAnswer::Accepted => "accepted",
        EvictAnswer::LookAgain => "look_again",
        EvictAnswer::Budget(_) => "budget",
        EvictAnswer::Busy { .. } => "busy",
        EvictAnswer::Unauthorized(_) => "unauthorized",
        EvictAnswer::Unanswered { .. } => "unanswered",
        EvictAnswer::TwoBudgets(_) => "two_budgets",
        EvictAnswer::NamespaceTerminating => "namespace_terminating",
        EvictAnswer::Refused(_) => "refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Boot;
    use crate::record::Hold;
    use crate::slot::{Lease, Take};
    use crate::trigger::Settled;
    use jiff::Timestamp;
    use std::time::Duration;

    fn at(stage: Stage) -> Record {
        let lease = Lease::free("default", "default");
        let take = Take::of(&lease, "kube-rebootd", Timestamp::UNIX_EPOCH, false);
        let hold = Hold {
            stage,
            ..Hold::begin(take, Boot::unknown())
        };
        Record {
            hold: Some(hold),
            ..Record::default()
        }
    }

    fn all_why() -> Vec<Why> {
        let words = String::new;
        vec![
            Why::Drain(words()),
            Why::Uncordoned,
            Why::Lost,
            Why::Collision(words()),
            Why::Quorum(words()),
            Why::Gate(words()),
            Why::Budget(words()),
            Why::Withdrawn,
            Why::Paused(words()),
            Why::NodeReplaced,
            Why::Reboot(words()),
            Why::Unwritable,
            Why::Refused(words()),
            Why::NoHold,
            Why::Ordered,
            Why::Maintained,
            Why::Hook(words()),
        ]
    }

    fn ended(counters: &Counters) -> Vec<([&'static str; 2], u64)> {
        counters.ends().filter(|(_, count)| *count > 0).collect()
    }

    /// A series that appears with 1 is no increase for Prometheus: all are there before.
    #[test]
    fn every_end_is_there_from_the_start_and_counted_once() {
        for why in all_why() {
            let mut counters = Counters::default();
            let known = counters.ends().count();
            let undoing = at(Stage::Undoing(why.clone()));
            counters.wrote(&at(Stage::Draining), &undoing);
            assert_eq!(ended(&counters), [(["undone", reason(&why)], 1)]);
            // A later write of the same hold, and its end.
            counters.wrote(&undoing, &undoing);
            counters.wrote(&undoing, &Record::default());
            assert_eq!(ended(&counters), [(["undone", reason(&why)], 1)]);
            assert_eq!(counters.ends().count(), known);
        }
        let mut counters = Counters::default();
        counters.wrote(&at(Stage::Uncordoned), &at(Stage::Releasing));
        counters.wrote(&at(Stage::Releasing), &at(Stage::Releasing));
        assert_eq!(ended(&counters), [(["proved", "automatic"], 1)]);
        let mut counters = Counters::default();
        let mut settled = Settled::of(None, &Boot::unknown(), Duration::ZERO);
        settled.missed = Some("the same came again".to_owned());
        let releasing = Record {
            settled: Some(settled),
            ..at(Stage::Releasing)
        };
        counters.wrote(&at(Stage::Uncordoned), &releasing);
        assert_eq!(ended(&counters), [(["rolled_back", "automatic"], 1)]);
    }

    #[test]
    fn every_answer_is_there_from_the_start() {
        let words = String::new;
        let all = [
            EvictAnswer::Accepted,
            EvictAnswer::LookAgain,
            EvictAnswer::Budget(words()),
            EvictAnswer::Busy {
                retry_after: None,
                why: words(),
            },
            EvictAnswer::Unauthorized(words()),
            EvictAnswer::Unanswered {
                retry_after: None,
                why: words(),
            },
            EvictAnswer::TwoBudgets(words()),
            EvictAnswer::NamespaceTerminating,
            EvictAnswer::Refused(words()),
        ];
        let mut counters = Counters::default();
        for answer in &all {
            counters.evicted(answer);
        }
        assert!(counters.evictions().all(|(_, count)| count == 1));
        assert_eq!(counters.evictions().count(), all.len());
    }

    #[test]
    fn every_escalation_is_there_from_the_start() {
        let mut counters = Counters::default();
        for how in [How::Grace(Duration::from_secs(1)), How::Delete(None)] {
            counters.escalated(how);
        }
        let counted: Vec<_> = counters.escalations().collect();
        assert_eq!(counted, [("delete", 1), ("grace", 1)]);
    }

    #[test]
    fn reloads_and_failed_requests_are_counted_by_what_came_of_them() {
        let mut counters = Counters::default();
        counters.reloaded(false);
        counters.reloaded(true);
        let reloads: Vec<_> = counters.reloads().collect();
        assert_eq!(reloads, [("success", 1), ("failure", 1)]);
        counters.failed(Fault::Busy);
        let busy = counters.faults().find(|(kind, _)| *kind == "busy");
        assert_eq!(busy, Some(("busy", 1)));
    }
}
