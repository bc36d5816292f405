//! What a drain would do about each pod now, for people: by the same judgement as the drain, and by what the API server
//! says to an eviction that is only tried (I9). Nothing is decided on it.

use super::entry::budget;
use super::judge::{Judgement, judge};
use super::{Mode, Policy};
use crate::pod::{EvictAnswer, Pod};

/// What would become of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It would be evicted: a dry run of it was accepted.
    Evicted,
    /// Its eviction would be refused now.
    Refused {
        why: String,
        /// namespace/name
        budget: Option<String>,
    },
    /// It would stop the drain, whatever the API server says.
    Blocks { why: &'static str },
    /// It would be waited for: why.
    Awaited { why: &'static str },
    /// It would be left where it is: why.
    Stays { why: &'static str },
    /// Nobody knows: why.
    Unknown { why: String },
}

/// Why no pod is evicted on this node; none: its drain evicts.
pub fn undrained(mode: Mode, alone: bool) -> Option<&'static str> {
    match mode {
        _ if mode.evicts(alone) => None,
        Mode::Never => Some("drain.mode is \"never\""),
        Mode::Auto | Mode::Always => {
            Some("drain.mode is \"auto\", and the cluster has no other Node")
        }
    }
}

impl Fate {
    /// What is known without the API server; none: an eviction would be asked for.
    pub fn judged(pod: &Pod, policy: &Policy) -> Option<Self> {
        match judge(pod, policy) {
            Judgement::Evict => None,
            Judgement::Leave(leave) => Some(Self::Stays { why: leave.words() }),
            Judgement::Block(block) => Some(Self::Blocks { why: block.words() }),
            Judgement::Wait => Some(Self::Awaited {
                why: "is terminating already",
            }),
            Judgement::Finish(finish) => Some(Self::Awaited {
                why: finish.words(),
            }),
        }
    }

    /// What the dry run of an eviction of a pod of `namespace` says.
    pub fn tried(namespace: &str, answer: EvictAnswer) -> Self {
        match answer {
            EvictAnswer::Accepted => Self::Evicted,
            EvictAnswer::Budget(why) => Self::Refused {
                budget: budget(namespace, &why),
                why,
            },
            // A webhook with side effects is not asked in a dry run (apiserver, `NewDryRunUnsupportedErr`).
            EvictAnswer::Refused(why) if why.contains("does not support dry run") => {
                Self::Unknown { why }
            }
            EvictAnswer::TwoBudgets(why) | EvictAnswer::Refused(why) => {
                Self::Refused { why, budget: None }
            }
            EvictAnswer::NamespaceTerminating => Self::Awaited {
                why: "is deleted with its namespace",
            },
            EvictAnswer::LookAgain => Self::Unknown {
                why: "changed or went away meanwhile".to_owned(),
            },
            EvictAnswer::Busy { why, .. }
            | EvictAnswer::Unanswered { why, .. }
            | EvictAnswer::Unauthorized(why) => Self::Unknown { why },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{owned, pod, policy};
    use super::*;

    #[test]
    fn only_what_the_drain_would_evict_is_tried() {
        let mut daemon = pod("a");
        owned(&mut daemon, "DaemonSet", "d");
        let stays = Fate::Stays {
            why: "is a DaemonSet's: it runs again after the reboot",
        };
        assert_eq!(Fate::judged(&daemon, &policy()), Some(stays));
        let mut going = pod("a");
        going.terminating = true;
        let awaited = Fate::Awaited {
            why: "is terminating already",
        };
        assert_eq!(Fate::judged(&going, &policy()), Some(awaited));
        assert_eq!(Fate::judged(&pod("a"), &policy()), None);
    }

    #[test]
    fn i8_an_answer_that_says_nothing_is_unknown_and_no_yes() {
        let pod = pod("a");
        let budget =
            "The disruption budget web needs 2 healthy pods and has 2 currently".to_owned();
        let named = Fate::Refused {
            why: budget.clone(),
            budget: Some(format!("{}/web", pod.namespace)),
        };
        let why = || "late".to_owned();
        let unknown = || Fate::Unknown { why: why() };
        let refused = || Fate::Refused {
            why: why(),
            budget: None,
        };
        let silent = EvictAnswer::Unanswered {
            retry_after: None,
            why: why(),
        };
        let busy = EvictAnswer::Busy {
            retry_after: Some(1),
            why: why(),
        };
        for (answer, fate) in [
            (EvictAnswer::Accepted, Fate::Evicted),
            (EvictAnswer::Budget(budget), named),
            (EvictAnswer::TwoBudgets(why()), refused()),
            (EvictAnswer::Refused(why()), refused()),
            (EvictAnswer::Unauthorized(why()), unknown()),
            (silent, unknown()),
            (busy, unknown()),
        ] {
            assert_eq!(
                Fate::tried(&pod.namespace, answer.clone()),
                fate,
                "{answer:?}"
            );
        }
        let webhook = "admission webhook \"a.b\" does not support dry run".to_owned();
        let said = Fate::tried(&pod.namespace, EvictAnswer::Refused(webhook));
        assert!(matches!(said, Fate::Unknown { .. }), "{said:?}");
        let gone = Fate::tried(&pod.namespace, EvictAnswer::LookAgain);
        assert!(matches!(gone, Fate::Unknown { .. }), "{gone:?}");
    }

    #[test]
    fn a_node_without_a_drain_says_why() {
        for (mode, alone, evicts) in [
            (Mode::Always, true, true),
            (Mode::Auto, false, true),
            (Mode::Auto, true, false),
            (Mode::Never, false, false),
        ] {
            assert_eq!(undrained(mode, alone).is_none(), evicts, "{mode:?} {alone}");
        }
    }
}
