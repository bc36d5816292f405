//! Volumes that are still in use when the pods have gone (docs/design.md 7).
//!
//! The kubelet lists in its Node's `status.volumesInUse` what is or will be mounted, until it is safely unmounted
//! (`volume_manager.go`; `real::volumes`). A volume that is on this list when the host goes down is not detached until the
//! host is back, or until 6 minutes have passed (`maxWaitForUnmountDuration`) and its Node is not Ready
//! (`attachdetach/reconciler`): that long its next pod waits elsewhere. The names there are those of drivers, which a node
//! cannot tell from those of claims; so they are counted: what is above the volumes of pods that stay is waited for.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::pod::{Pod, PodPhase};

#[derive(Debug, Clone, Default)]
pub(super) struct Volumes {
    /// A pod that had to leave used one, or nobody knows.
    matter: bool,
    /// Of the pods that are here, at most.
    stay: usize,
    /// None: the Node is not known.
    in_use: Option<Vec<String>>,
    /// The drain's time when the wait began.
    since: Option<Duration>,
}

impl Volumes {
    pub(super) fn unknown(&mut self) {
        self.matter = true;
    }

    /// All pods of the node: a finished one uses nothing any more. One that has not started may never use what it names,
    /// and must not stand for what others use (I14).
    pub(super) fn view(&mut self, pods: &[Pod]) {
        let running = pods.iter().filter(|pod| pod.phase == PodPhase::Running);
        // Two pods may share a claim.
        let used: BTreeSet<_> = running.flat_map(|pod| &pod.volumes).collect();
        self.stay = used.len();
    }

    pub(super) fn must_leave(&mut self, pod: &Pod) {
        self.matter |= !pod.volumes.is_empty();
    }

    pub(super) fn in_use(&mut self, volumes: Option<&[String]>) {
        self.in_use = volumes.map(<[String]>::to_vec);
    }

    /// What is in use, when more is than the pods here account for, and how much they do.
    pub(super) fn busy(&self) -> (Vec<String>, usize) {
        let volumes = self.in_use.as_deref().unwrap_or_default();
        if !self.matter || volumes.len() <= self.stay {
            return (Vec::new(), self.stay);
        }
        (volumes.to_vec(), self.stay)
    }

    /// How long to wait still, at this time of the drain; none: go on.
    pub(super) fn wait(&mut self, reading: Duration, timeout: Duration) -> Option<Duration> {
        let clear = self.in_use.is_some() && self.busy().0.is_empty();
        if !self.matter || clear {
            self.since = None;
            return None;
        }
        let waited = reading.saturating_sub(*self.since.get_or_insert(reading));
        Some(timeout.saturating_sub(waited)).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{owned, pod, policy};
    use super::super::{Drain, OnTimeout, Policy, State, describe};
    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn with(uid: &str, kind: &str, volumes: &[&str]) -> Pod {
        let mut pod = pod(uid);
        owned(&mut pod, kind, &format!("owner-of-{uid}"));
        pod.volumes = volumes.iter().map(|volume| (*volume).to_owned()).collect();
        pod
    }

    fn csi(volumes: &[&str]) -> Vec<String> {
        let name = |volume: &&str| format!("kubernetes.io/csi/ebs.csi.aws.com^{volume}");
        volumes.iter().map(name).collect()
    }

    /// Drained of `leaves`, with `stays` beside.
    fn drained(leaves: &[Pod], stays: &[Pod]) -> Drain {
        let mut drain = Drain::new(policy(), Duration::ZERO);
        drain.pods(&[leaves, stays].concat(), secs(0));
        drain.next(secs(0));
        drain.heard(secs(10));
        drain.pods(stays, secs(10));
        drain
    }

    fn waits(drain: &mut Drain, in_use: &[&str], now: u64) -> bool {
        drain.volumes(Some(&csi(in_use)));
        matches!(drain.next(secs(now)).state, State::Unmounting { .. })
    }

    /// Name, who leaves, who stays, what is in use, whether it is waited for.
    type Row<'a> = (&'a str, &'a Pod, &'a [&'a Pod], &'a [&'a str], bool);

    #[test]
    fn one_row_per_reason_to_wait() {
        let agent = with("agent", "DaemonSet", &["shop/agent"]);
        let mut done = with("done", "Job", &["shop/report"]);
        done.phase = PodPhase::Succeeded;
        let mut twin = with("twin", "DaemonSet", &["shop/agent"]);
        twin.ready = false;
        let mut never = with("never", "DaemonSet", &["x/1", "x/2", "x/3"]);
        never.phase = PodPhase::Pending;
        let db = with("db", "StatefulSet", &["shop/db"]);
        let web = with("web", "ReplicaSet", &[]);
        let rows: [Row; 10] = [
            // Found by an attacker: a pod that never starts stood for the volumes of others.
            ("one that has not started", &db, &[&never], &["db"], true),
            ("none in use", &db, &[], &[], false),
            ("its own", &db, &[], &["db"], true),
            ("it used none", &web, &[], &["db"], false),
            ("of one that stays", &db, &[&agent], &["agent"], false),
            ("one more", &db, &[&agent], &["agent", "db"], true),
            (
                "shared by two that stay",
                &db,
                &[&agent, &twin],
                &["agent", "db"],
                true,
            ),
            ("a finished one uses none", &db, &[&done], &["db"], true),
            ("more than it used", &db, &[], &["db", "other"], true),
            (
                "it used none, and others stay",
                &web,
                &[&agent],
                &["agent", "db"],
                false,
            ),
        ];
        for (name, leaves, stays, in_use, expected) in rows {
            let stays: Vec<Pod> = stays.iter().copied().cloned().collect();
            let mut drain = drained(std::slice::from_ref(leaves), &stays);
            assert_eq!(waits(&mut drain, in_use, 10), expected, "{name}");
        }
    }

    #[test]
    fn the_wait_is_bounded_and_what_is_left_is_named() {
        let mut drain = drained(&[with("db", "StatefulSet", &["shop/db"])], &[]);
        assert!(waits(&mut drain, &["db"], 10));
        let next = drain.next(secs(129));
        assert_eq!(
            describe(&next),
            "all pods are gone, 1 volume still in use: kubernetes.io/csi/ebs.csi.aws.com^db"
        );
        assert_eq!(next.wake, Some(secs(130)));
        let State::Drained { volumes, .. } = drain.next(secs(130)).state else {
            panic!("still waiting")
        };
        assert_eq!(volumes, csi(&["db"]));
    }

    #[test]
    fn i7_the_wait_does_not_run_in_silence() {
        let mut drain = drained(&[with("db", "StatefulSet", &["shop/db"])], &[]);
        assert!(waits(&mut drain, &["db"], 10));
        drain.heard(secs(20));
        drain.blind(true, secs(30));
        assert!(matches!(drain.next(secs(7200)).state, State::Going { .. }));
        drain.heard(secs(7200));
        drain.blind(false, secs(7200));
        assert!(waits(&mut drain, &["db"], 7309));
        assert!(!waits(&mut drain, &["db"], 7310));
    }

    #[test]
    fn i8_a_node_that_is_not_known_is_waited_for() {
        let mut drain = drained(&[with("db", "StatefulSet", &["shop/db"])], &[]);
        assert!(matches!(
            drain.next(secs(10)).state,
            State::Unmounting { .. }
        ));
        drain.volumes(Some(&[]));
        assert!(matches!(drain.next(secs(11)).state, State::Drained { .. }));
    }

    #[test]
    fn i6_after_a_restart_the_wait_goes_on() {
        let mut drain = Drain::resumed(policy(), Duration::ZERO);
        drain.pods(&[], secs(0));
        assert!(waits(&mut drain, &["db"], 0));
        assert!(!waits(&mut drain, &[], 1));
    }

    #[test]
    fn pods_left_behind_keep_their_volumes() {
        let on_timeout = OnTimeout::Reboot;
        let mut drain = Drain::new(
            Policy {
                on_timeout,
                ..policy()
            },
            secs(1800),
        );
        drain.pods(&[with("db", "StatefulSet", &["shop/db"])], secs(0));
        assert!(!waits(&mut drain, &["db"], 0));
    }

    #[test]
    fn zero_waits_for_none() {
        let volumes_timeout = Duration::ZERO;
        let mut drain = Drain::new(
            Policy {
                volumes_timeout,
                ..policy()
            },
            Duration::ZERO,
        );
        drain.pods(&[with("db", "StatefulSet", &["shop/db"])], secs(0));
        drain.pods(&[], secs(0));
        assert!(!waits(&mut drain, &["db"], 0));
    }

    proptest! {
        /// Against a kubelet that unmounts some time after a pod has gone, or never.
        #[test]
        fn a_drain_ends_when_what_left_is_unmounted_or_with_the_bound(
            pods in prop::collection::vec((any::<bool>(), prop::collection::vec(0..12_u8, 0..3),
                prop::option::weighted(0.8, 0..100_u64)), 0..8),
        ) {
            let name = |volume: &u8| format!("v{volume}");
            let pods: Vec<(Pod, Option<u64>)> = pods.iter().enumerate().map(|(number, (stays, volumes, after))| {
                let kind = if *stays { "DaemonSet" } else { "StatefulSet" };
                let names: Vec<String> = volumes.iter().map(name).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                (with(&format!("p{number}"), kind, &names), *after)
            }).collect();
            let stays = |pod: &Pod| pod.daemon_set().is_some();
            let view: Vec<Pod> = pods.iter().map(|(pod, _)| pod.clone()).collect();
            let rest: Vec<Pod> = view.iter().filter(|pod| stays(pod)).cloned().collect();
            let mut drain = Drain::new(policy(), Duration::ZERO);
            drain.pods(&view, secs(0));
            drain.next(secs(0));
            for second in 1_u64.. {
                let mounted = |(pod, after): &&(Pod, Option<u64>)| stays(pod) || after.is_none_or(|after| second <= after);
                let in_use: BTreeSet<&String> = pods.iter().filter(mounted).flat_map(|(pod, _)| &pod.volumes).collect();
                let kept: BTreeSet<&String> = rest.iter().flat_map(|pod| &pod.volumes).collect();
                let in_use_names: Vec<String> = in_use.iter().map(|volume| (*volume).clone()).collect();
                drain.heard(secs(second));
                drain.pods(&rest, secs(second));
                drain.volumes(Some(&in_use_names));
                let ended = matches!(drain.next(secs(second)).state, State::Drained { .. });
                prop_assert_eq!(ended, in_use == kept || second > 120, "second {}", second);
                if ended {
                    break;
                }
            }
        }
    }
}
