//! Pods that a reboot waits for: those that the configuration names, and those whose authors ask autoscalers not to disturb
//! them (docs/design.md 10). A reboot ends them as surely as an eviction does.

use jiff::{SignedDuration, Timestamp};

use crate::drain::PodRef;
use crate::names;
use crate::pod::{Pod, Shield};
use crate::selector::{PodSelector, Selector};
use crate::text::span;

/// `gates.blocking_pods` and `gates.honour_annotations`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    pub blocking: Vec<PodSelector>,
    /// Of autoscalers, on pods.
    pub annotations: bool,
}

/// A pod that is here and is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protected {
    pub pod: PodRef,
    /// After the pod's name.
    pub why: String,
    /// Until when, by the clock of this host, whose kubelet wrote the pod's start; none: as long as it is here.
    pub until: Option<Timestamp>,
}

impl Protection {
    /// No pod is ever waited for.
    pub(crate) fn none(&self) -> bool {
        self.blocking.is_empty() && !self.annotations
    }

    /// Those of `pods` that are waited for at `now`. What the kubelet starts again is not, nor what has finished. Whom the
    /// drain is to leave alone (`skip`) its author's word does not protect: the administrator's is the last.
    pub fn of(&self, pods: &[Pod], skip: &[Selector], now: Timestamp) -> Vec<Protected> {
        let all = pods.iter().filter_map(|pod| self.one(pod, skip));
        all.filter(|one| one.counts(now)).collect()
    }

    fn one(&self, pod: &Pod, skip: &[Selector]) -> Option<Protected> {
        if pod.mirror || pod.daemon_set().is_some() || pod.finished() {
            return None;
        }
        let protected = |why, until| Protected {
            pod: PodRef::of(pod),
            why,
            until,
        };
        if let Some(selector) = self.blocking.iter().find(|one| one.matches(pod)) {
            let why = format!("matches \"{selector}\" of gates.blocking_pods");
            return Some(protected(why, None));
        }
        // One that is terminating is disturbed already.
        let shield = pod
            .shield
            .as_ref()
            .filter(|_| self.annotations && !pod.terminating)?;
        if skip.iter().any(|skip| skip.matches(&pod.labels)) {
            return None;
        }
        let has = |key: &str, value: &str| format!("has the annotation {key}: \"{value}\"");
        Some(match shield {
            Shield::SafeToEvict => protected(has(names::SAFE_TO_EVICT, "false"), None),
            Shield::DoNotDisrupt => protected(has(names::DO_NOT_DISRUPT, "true"), None),
            Shield::Unreadable(value) => {
                let why = format!(
                    "has the annotation {} with a value that is neither true, false nor a duration: {value}",
                    names::DO_NOT_DISRUPT
                );
                protected(why, None)
            }
            Shield::DoNotDisruptFor(time) => {
                // One that has not started is at its beginning (I8).
                let ends = |started: Timestamp| {
                    let time = SignedDuration::try_from(*time).ok()?;
                    started.checked_add(time).ok()
                };
                let why = format!(
                    "is not to be disturbed for {} after its start ({})",
                    span(*time),
                    names::DO_NOT_DISRUPT
                );
                protected(why, pod.started.and_then(ends))
            }
        })
    }
}

impl Protected {
    /// It is still waited for.
    pub(crate) fn counts(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pod::{Controller, PodPhase};

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn shielded(shield: Shield) -> Pod {
        Pod {
            labels: [("app".to_owned(), "db".to_owned())].into(),
            shield: Some(shield),
            started: Some(at(1_000)),
            ..Pod::ready("db")
        }
    }

    fn owned(pod: &mut Pod, kind: &str) {
        pod.controller = Some(Controller {
            api: "apps/v1".to_owned(),
            kind: kind.to_owned(),
            name: "set".to_owned(),
            uid: "set".to_owned(),
        });
    }

    fn protection(blocking: &[&str], annotations: bool) -> Protection {
        let blocking = blocking.iter().map(|one| one.parse().unwrap());
        Protection {
            blocking: blocking.collect(),
            annotations,
        }
    }

    /// What is changed, in words; whether it is waited for by its annotation, and by a selector.
    type Row = (&'static str, fn(&mut Pod), bool, bool);

    #[test]
    fn which_pods_are_waited_for() {
        let rows: [Row; 8] = [
            ("it runs", |_| {}, true, true),
            ("pending", |pod| pod.phase = PodPhase::Pending, true, true),
            ("finished", |pod| pod.phase = PodPhase::Failed, false, false),
            ("a static pod", |pod| pod.mirror = true, false, false),
            ("a DaemonSet's", |pod| owned(pod, "DaemonSet"), false, false),
            ("a Job's", |pod| owned(pod, "Job"), true, true),
            ("terminating", |pod| pod.terminating = true, false, true),
            (
                "without the annotation",
                |pod| pod.shield = None,
                false,
                true,
            ),
        ];
        for (what, change, annotation, selector) in rows {
            let mut pod = shielded(Shield::SafeToEvict);
            change(&mut pod);
            let waits = |protection: &Protection| {
                let found = protection.of(std::slice::from_ref(&pod), &[], at(2_000));
                !found.is_empty()
            };
            assert_eq!(waits(&protection(&[], true)), annotation, "{what}");
            assert_eq!(
                waits(&protection(&["shop: app=db"], false)),
                selector,
                "{what}"
            );
            assert!(!waits(&protection(&["bank: app=db"], false)), "{what}");
            assert!(!waits(&protection(&[], false)), "{what}");
        }
    }

    #[test]
    fn whom_the_drain_leaves_alone_is_waited_for_only_where_the_configuration_says_so() {
        let skip = ["app=db".parse().unwrap()];
        let pods = [shielded(Shield::DoNotDisrupt)];
        assert_eq!(protection(&[], true).of(&pods, &skip, at(0)), []);
        assert_eq!(
            protection(&["app=db"], true).of(&pods, &skip, at(0)).len(),
            1
        );
    }

    #[test]
    fn i8_a_pod_is_waited_for_so_long_after_its_start_and_one_without_a_start_is() {
        for (started, now, counts) in [
            (Some(1_000), 1_000, true),
            (Some(1_000), 4_599, true),
            (Some(1_000), 4_600, false),
            (Some(1_000), 0, true),
            (None, 1_000_000, true),
        ] {
            let mut pod = shielded(Shield::DoNotDisruptFor(HOUR));
            pod.started = started.map(at);
            let found = protection(&[], true).of(&[pod], &[], at(now));
            assert_eq!(!found.is_empty(), counts, "{started:?} {now}");
            let ends = found.first().and_then(|one| one.until);
            let wanted = started.filter(|_| counts).map(|started| at(started + 3600));
            assert_eq!(ends, wanted);
        }
        // Later than any time there is.
        let mut pod = shielded(Shield::DoNotDisruptFor(HOUR));
        pod.started = Some(Timestamp::MAX);
        assert_eq!(protection(&[], true).of(&[pod], &[], at(0))[0].until, None);
    }
}
