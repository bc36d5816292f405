//! Pods of this node that a drain would not get past, and pods that a reboot waits for.

use std::time::Duration;

use super::{State, shut, shut_until, unknown};
use crate::drain::Blocker;
use crate::now::Now;
use crate::protected::Protected;

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

/// Pods that a reboot waits for, before the cordon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Protecting {
    /// The pods are not listed yet.
    Unknown,
    /// [`crate::protected::Protection::of`]; none where nobody looks.
    Seen(Vec<Protected>),
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
                let words = if number == 1 { "pod" } else { "pods" };
                shut(format!(
                    "{number} {words} would block the drain: {pod} {}",
                    first.why
                ))
            }
        },
    }
}

pub(super) fn protected(protecting: &Protecting, now: Now) -> State {
    let pods = match protecting {
        Protecting::Unknown => {
            return unknown("not known which pods are protected: pods not listed yet");
        }
        Protecting::Seen(pods) => pods,
    };
    let Some(first) = pods.first() else {
        return State::Open;
    };
    let (pod, number) = (first.pod.path(), pods.len());
    let words = if number == 1 { "pod is" } else { "pods are" };
    let why = format!("{number} {words} protected: pod {pod} {}", first.why);
    let ends: Option<Vec<_>> = pods.iter().map(|pod| pod.until).collect();
    let Some(last) = ends.and_then(|ends| ends.into_iter().max()) else {
        return shut(why);
    };
    let left = Duration::try_from(last.duration_since(now.wall)).unwrap_or_default();
    shut_until(why, now.boot.saturating_add(left))
}
