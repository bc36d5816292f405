//! Evictions that are only tried, before a cordon: of a budget that would refuse people hear before the first pod moves (I9).
//!
//! Nothing is decided on it. A budget that refuses now may allow in a minute, when what another node evicted runs again: a
//! gate would be closed on every node of a rolling reboot, and only the drain itself can wait for one pod after another.

use std::collections::BTreeSet;

use super::entry::{Blocker, PodRef};
use super::judge::{Judgement, judge};
use super::{Fate, Policy};
use crate::pod::{EvictAnswer, Pod};

/// So many are tried at most: each is a request, and a look at the budgets of its namespace.
const MOST: usize = 50;

/// One eviction to be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Try {
    pub pod: PodRef,
    /// Budgets have another rule for pods that are not Ready.
    ready: bool,
}

/// What to try of the evictions that a drain would ask for. Pods of one controller have the same budgets, so one of them is
/// asked about, and one that is not Ready.
pub fn to_try(pods: &[Pod], policy: &Policy) -> Vec<Try> {
    let mut seen = BTreeSet::new();
    let leaves = pods
        .iter()
        .filter(|pod| judge(pod, policy) == Judgement::Evict);
    let first = leaves.filter(|pod| {
        let of = pod.controller.as_ref().map_or(&pod.uid, |of| &of.uid);
        seen.insert((&pod.namespace, of, pod.ready))
    });
    let tries = first.map(|pod| Try {
        pod: PodRef::of(pod),
        ready: pod.ready,
    });
    tries.take(MOST).collect()
}

/// Who would be refused now. What nobody knows is not said (I8): it keeps no pod.
pub fn refused(tried: Vec<(Try, EvictAnswer)>) -> Vec<Blocker> {
    let refused = tried.into_iter().filter_map(|(one, answer)| {
        let Fate::Refused { mut why, budget } = Fate::tried(&one.pod.namespace, answer) else {
            return None;
        };
        if budget.is_some() && !one.ready {
            why.push_str(UNHEALTHY);
        }
        let pod = one.pod;
        Some(Blocker { pod, why, budget })
    });
    refused.collect()
}

/// What a budget has against a pod that is not Ready, and does not protect anything by it.
const UNHEALTHY: &str = "; the pod is not Ready, and unhealthyPodEvictionPolicy: AlwaysAllow in the budget would let it go";

/// The same for a status line; none: nobody.
pub fn held_up(refused: &[Blocker]) -> Option<String> {
    let all = super::words::all(refused);
    (!refused.is_empty()).then(|| format!("a drain would be held up now, {all}"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{owned, pod, policy};
    use super::*;

    fn names(tries: &[Try]) -> Vec<&str> {
        tries.iter().map(|one| one.pod.name.as_str()).collect()
    }

    #[test]
    fn i9_one_pod_of_each_controller_is_tried_and_one_that_is_not_ready() {
        let of = |name: &str, owner: &str| {
            let mut one = pod(name);
            owned(&mut one, "ReplicaSet", owner);
            one
        };
        let mut sick = of("c", "web");
        sick.ready = false;
        let mut elsewhere = of("d", "web");
        elsewhere.namespace = "other".to_owned();
        let mut daemon = pod("daemon");
        owned(&mut daemon, "DaemonSet", "set");
        let mut bare = [pod("e"), pod("f")];
        for one in &mut bare {
            one.controller = None;
        }
        let evicts = Policy {
            unmanaged: super::super::Unmanaged::Evict,
            ..policy()
        };
        let [e, f] = bare;
        let pods = [
            of("a", "web"),
            of("b", "web"),
            sick,
            elsewhere,
            daemon,
            e,
            f,
        ];
        assert_eq!(names(&to_try(&pods, &evicts)), ["a", "c", "d", "e", "f"]);
        let many: Vec<Pod> = (0..80).map(|one| pod(&one.to_string())).collect();
        assert_eq!(to_try(&many, &policy()).len(), MOST);
    }

    #[test]
    fn i8_only_what_the_server_refuses_is_told() {
        let one = |ready| Try {
            pod: PodRef::of(&pod("a")),
            ready,
        };
        let says = "The disruption budget web needs 2 healthy pods and has 2 currently";
        let budget = || EvictAnswer::Budget(says.to_owned());
        let told = refused(vec![(one(true), budget())]);
        assert_eq!(told[0].why, says);
        assert_eq!(told[0].budget.as_deref(), Some("shop/web"));
        let words = "a drain would be held up now, 1 blocked by budget shop/web: pod shop/a";
        assert_eq!(held_up(&told).as_deref(), Some(words));
        let told = refused(vec![(one(false), budget())]);
        assert!(
            told[0]
                .why
                .ends_with("AlwaysAllow in the budget would let it go")
        );
        let two = EvictAnswer::TwoBudgets("more than one".to_owned());
        let told = refused(vec![(one(false), two)]);
        assert_eq!(
            (told[0].why.as_str(), &told[0].budget),
            ("more than one", &None)
        );
        let nothing = [
            EvictAnswer::Accepted,
            EvictAnswer::LookAgain,
            EvictAnswer::NamespaceTerminating,
            EvictAnswer::Unauthorized("who".to_owned()),
            EvictAnswer::Refused("webhook a does not support dry run".to_owned()),
        ];
        let told = refused(nothing.map(|answer| (one(true), answer)).into());
        assert_eq!((told.len(), held_up(&told)), (0, None));
    }
}
