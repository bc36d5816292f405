//! Pods of this node that a drain would not get past.

use super::{State, shut, unknown};
use crate::drain::Blocker;

/// Pods that would stop the drain whatever the API server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Blocking {
    /// The pods are not listed yet.
    Unknown,
    /// [`crate::drain::seen_before_cordon`].
    Seen(Vec<Blocker>),
    /// After the cordon they are the drain's own matter.
    Cordoned,
    /// Nothing is evicted: the cluster has no other Node, or `drain.mode` says so.
    Undrained,
}

pub(super) fn blocking(blocking: &Blocking) -> State {
    match blocking {
        Blocking::Cordoned | Blocking::Undrained => State::Open,
        Blocking::Unknown => {
            unknown("not known which pods would block the drain: pods not listed yet")
        }
        Blocking::Seen(pods) => match pods.first() {
            None => State::Open,
            Some(first) => {
                let (pod, number) = (first.pod.path(), pods.len());
                shut(format!(
                    "{number} would block the drain: pod {pod} {}",
                    first.why
                ))
            }
        },
    }
}
