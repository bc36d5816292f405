//! A drain in one sentence, for status, Event and log.

use super::{Blocker, Next, PodRef, State};

/// For example "7 pods left, 1 blocked by budget shop/web: pod shop/web-1".
pub fn describe(next: &Next) -> String {
    let mut words = match &next.state {
        State::Going {
            left,
            blocked,
            jobs,
            later,
            deleted,
        } => {
            let mut words = format!("{} left", count(*left));
            if !blocked.is_empty() {
                words.push_str(", ");
                words.push_str(&all(blocked));
            }
            if let Some((pods, next)) = later {
                words = format!("{words}, {pods} in later groups of drain.order (next: {next})");
            }
            if let [first, ..] = jobs.as_slice() {
                let (pod, number) = (first.pod.path(), jobs.len());
                words = format!("{words}, {number} waited for: pod {pod} {}", first.why);
            }
            if let [first, ..] = deleted.as_slice() {
                let (pod, number) = (first.pod.path(), deleted.len());
                words = format!("{words}, {number} waited for: pod {pod} {}", first.why);
            }
            words
        }
        State::Resting { left, waits } => {
            format!("waiting for {waits}, {} left", count(*left))
        }
        State::Unmounting { volumes, stay } => unmounting(volumes, *stay),
        State::Drained { leftover, .. } if leftover.is_empty() => "drained".to_owned(),
        State::Drained { leftover, .. } => format!("drained except {}", all(leftover)),
        State::Failed { why, blocked } if blocked.is_empty() => format!("drain failed: {why}"),
        State::Failed { why, blocked } => format!("drain failed: {why}: {}", all(blocked)),
    };
    if let [first, ..] = next.held_by_finalizer.as_slice() {
        let held = next.held_by_finalizer.len();
        let (held, path, finalizer) = (count(held), first.pod.path(), &first.why);
        words = format!("{words}; {held} held by a finalizer: pod {path} ({finalizer})");
    }
    words
}

/// What becomes of pods without a controller where the kubelet shuts down gracefully; none: nothing to say.
pub fn ending(pods: &[PodRef]) -> Option<String> {
    let (first, more) = pods.split_first()?;
    let more = match more.len() {
        0 => String::new(),
        1 => " and 1 more".to_owned(),
        more => format!(" and {more} more"),
    };
    let path = first.path();
    Some(format!(
        "pod {path}{more} without a controller will not run again after the reboot, as the kubelet ends it at the shutdown (GracefulNodeShutdown)"
    ))
}

/// By name when all of them are waited for.
fn unmounting(volumes: &[String], stay: usize) -> String {
    let number = volumes.len().saturating_sub(stay);
    let noun = if number == 1 { "volume" } else { "volumes" };
    match volumes {
        [first, ..] if stay == 0 => {
            format!("all pods are gone, {number} {noun} still in use: {first}")
        }
        _ => format!("all pods are gone, {number} {noun} still in use"),
    }
}

fn count(pods: usize) -> String {
    if pods == 1 {
        "1 pod".to_owned()
    } else {
        format!("{pods} pods")
    }
}

/// How many, and the first by name: a status line has no room for more.
pub(super) fn all(blocked: &[Blocker]) -> String {
    let Some(first) = blocked.first() else {
        return String::new();
    };
    let (pod, number) = (first.pod.path(), blocked.len());
    match &first.budget {
        Some(budget) => format!("{number} blocked by budget {budget}: pod {pod}"),
        None => format!("{number} blocked: pod {pod} {}", first.why),
    }
}
