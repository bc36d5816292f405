//! What becomes of one pod in a drain (docs/design.md 7). Keeps I9: only [`Judgement::Evict`] is evicted.

use crate::names;
use crate::pod::{Pod, RestartPolicy};

use super::{EmptyDir, Jobs, Policy, Unmanaged};

/// What the drain does about a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    Leave(Leave),
    Evict,
    /// Terminating: it is not evicted again, as that would shorten its grace (seen on 1.36.3). It is waited for
    /// until its object is gone, also when it has finished: the kubelet may still be unmounting its volumes
    /// (`real::volumes`).
    Wait,
    /// Waited for until it has finished, and not evicted.
    Finish(Finish),
    Block(Block),
}

/// Why a pod may finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It is a Job's, and `drain.jobs` is "wait".
    Job,
    /// Its label says so.
    Label,
}

impl Finish {
    /// For people, after the pod's name.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Job => "is a Job's, which may finish (drain.jobs)",
            Self::Label => "may finish (label cluster.x-k8s.io/drain)",
        }
    }

    /// As Cluster API reads its label (`internal/controllers/machine/drain`): in any case, with and without the dash.
    fn by_label(pod: &Pod) -> Option<Self> {
        let value = pod.labels.get(names::CLUSTER_API_DRAIN)?;
        let value = value.replacen('-', "", 1);
        value
            .eq_ignore_ascii_case("waitcompleted")
            .then_some(Self::Label)
    }
}

/// Its label says that nothing is to be done about it.
fn left_by_label(pod: &Pod) -> bool {
    let value = pod.labels.get(names::CLUSTER_API_DRAIN);
    value.is_some_and(|value| value.eq_ignore_ascii_case("skip"))
}

/// Why a pod stays where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    Mirror,
    DaemonSet,
    /// And nobody deletes it.
    Finished,
    Skipped,
    /// Cluster API's label says so.
    Labelled,
    /// No controller, but the kubelet starts it again after the boot, unless it shuts down gracefully (`e2e::sorts`).
    Unmanaged,
}

impl Leave {
    /// For people, after the pod's name.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Mirror => "is a static pod, which the kubelet starts again",
            Self::DaemonSet => "is a DaemonSet's: it runs again after the reboot",
            Self::Finished => "has finished",
            Self::Skipped => "matches drain.skip",
            Self::Labelled => "has the label cluster.x-k8s.io/drain: skip",
            Self::Unmanaged => "has no controller, and the kubelet starts it again",
        }
    }
}

/// Why a pod stops the drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    EmptyDir,
    Unmanaged,
}

impl Block {
    /// For status, Event and log, after the pod's name.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::EmptyDir => "has an emptyDir volume and drain.empty_dir is \"block\"",
            Self::Unmanaged => "has no controller that would make it again",
        }
    }
}

/// Judges one pod.
pub fn judge(pod: &Pod, policy: &Policy) -> Judgement {
    if pod.mirror {
        return Judgement::Leave(Leave::Mirror);
    }
    if pod.daemon_set().is_some() {
        return Judgement::Leave(Leave::DaemonSet);
    }
    if pod.finished() && !pod.terminating {
        return Judgement::Leave(Leave::Finished);
    }
    if policy.skip.iter().any(|skip| skip.matches(&pod.labels)) {
        return Judgement::Leave(Leave::Skipped);
    }
    if left_by_label(pod) {
        return Judgement::Leave(Leave::Labelled);
    }
    if pod.terminating {
        return Judgement::Wait;
    }
    if policy.jobs == Jobs::Wait && pod.job().is_some() {
        return Judgement::Finish(Finish::Job);
    }
    if let Some(finish) = Finish::by_label(pod) {
        return Judgement::Finish(finish);
    }
    if pod.controller.is_none() {
        match (policy.unmanaged, pod.restart_policy) {
            (Unmanaged::Leave, RestartPolicy::Always) => {
                return Judgement::Leave(Leave::Unmanaged);
            }
            (Unmanaged::Leave | Unmanaged::Block, _) => return Judgement::Block(Block::Unmanaged),
            (Unmanaged::Evict, _) => {}
        }
    }
    if pod.empty_dir && policy.empty_dir == EmptyDir::Block {
        return Judgement::Block(Block::EmptyDir);
    }
    Judgement::Evict
}

#[cfg(test)]
mod tests {
    use super::super::tests::{owned, pod, policy};
    use super::*;
    use crate::pod::PodPhase;

    type Change = fn(&mut Pod);

    #[test]
    fn one_row_per_rule() {
        let rows: [(&str, Change, Judgement); 10] = [
            ("plain", |_| {}, Judgement::Evict),
            (
                "mirror",
                |p| p.mirror = true,
                Judgement::Leave(Leave::Mirror),
            ),
            (
                "daemon",
                |p| owned(p, "DaemonSet", "d"),
                Judgement::Leave(Leave::DaemonSet),
            ),
            ("job", |p| owned(p, "Job", "j"), Judgement::Evict),
            (
                "done",
                |p| p.phase = PodPhase::Failed,
                Judgement::Leave(Leave::Finished),
            ),
            ("going", |p| p.terminating = true, Judgement::Wait),
            (
                "ended, not cleaned up",
                |p| {
                    p.terminating = true;
                    p.phase = PodPhase::Succeeded;
                },
                Judgement::Wait,
            ),
            (
                "ended, not cleaned up, of a DaemonSet",
                |p| {
                    owned(p, "DaemonSet", "d");
                    p.terminating = true;
                    p.phase = PodPhase::Failed;
                },
                Judgement::Leave(Leave::DaemonSet),
            ),
            (
                "bare",
                |p| p.controller = None,
                Judgement::Leave(Leave::Unmanaged),
            ),
            (
                "bare, once",
                |p| {
                    p.controller = None;
                    p.restart_policy = RestartPolicy::Never;
                },
                Judgement::Block(Block::Unmanaged),
            ),
        ];
        for (name, change, expected) in rows {
            let mut pod = pod("a");
            change(&mut pod);
            assert_eq!(judge(&pod, &policy()), expected, "{name}");
        }
    }

    #[test]
    fn pods_of_jobs_are_waited_for_if_wanted() {
        let mut job = pod("a");
        owned(&mut job, "Job", "backup");
        job.restart_policy = RestartPolicy::Never;
        job.empty_dir = true;
        let mut policy = policy();
        assert_eq!(judge(&job, &policy), Judgement::Evict);
        policy.jobs = Jobs::Wait;
        policy.empty_dir = EmptyDir::Block;
        assert_eq!(judge(&job, &policy), Judgement::Finish(Finish::Job));
        assert_eq!(judge(&pod("b"), &policy), Judgement::Evict);
        job.terminating = true;
        assert_eq!(judge(&job, &policy), Judgement::Wait);
        job.phase = PodPhase::Succeeded;
        assert_eq!(judge(&job, &policy), Judgement::Wait);
        job.terminating = false;
        assert_eq!(judge(&job, &policy), Judgement::Leave(Leave::Finished));
    }

    #[test]
    fn cluster_api_s_label_counts_as_there() {
        let skip = Judgement::Leave(Leave::Labelled);
        let wait = Judgement::Finish(Finish::Label);
        for (value, expected) in [
            ("skip", skip),
            ("Skip", skip),
            ("wait-completed", wait),
            ("WaitCompleted", wait),
            ("wait--completed", Judgement::Evict),
            ("drain", Judgement::Evict),
            ("", Judgement::Evict),
        ] {
            let mut pod = pod("a");
            pod.empty_dir = true;
            let label = (names::CLUSTER_API_DRAIN.to_owned(), value.to_owned());
            pod.labels.extend([label]);
            assert_eq!(judge(&pod, &policy()), expected, "{value}");
            // Whatever else would stop the drain.
            let policy = Policy {
                unmanaged: Unmanaged::Block,
                empty_dir: EmptyDir::Block,
                ..policy()
            };
            pod.controller = None;
            let found = judge(&pod, &policy);
            let blocks = Judgement::Block(Block::Unmanaged);
            assert_eq!(
                found,
                if expected == Judgement::Evict {
                    blocks
                } else {
                    expected
                }
            );
            pod.terminating = true;
            let found = judge(&pod, &policy);
            assert_eq!(
                found,
                if expected == skip {
                    skip
                } else {
                    Judgement::Wait
                }
            );
            pod.terminating = false;
            pod.phase = PodPhase::Succeeded;
            assert_eq!(judge(&pod, &policy), Judgement::Leave(Leave::Finished));
        }
    }

    #[test]
    fn policies_change_it() {
        let mut bare = pod("a");
        bare.controller = None;
        bare.empty_dir = true;
        let mut policy = policy();
        policy.unmanaged = Unmanaged::Block;
        assert_eq!(judge(&bare, &policy), Judgement::Block(Block::Unmanaged));
        policy.unmanaged = Unmanaged::Evict;
        assert_eq!(judge(&bare, &policy), Judgement::Evict);
        policy.empty_dir = EmptyDir::Block;
        assert_eq!(judge(&bare, &policy), Judgement::Block(Block::EmptyDir));
        policy.skip = vec!["app=web".parse().unwrap()];
        bare.labels.insert("app".to_owned(), "web".to_owned());
        assert_eq!(judge(&bare, &policy), Judgement::Leave(Leave::Skipped));
    }
}
