//! What becomes of one pod in a drain (docs/design.md 7). Keeps I9: only [`Judgement::Evict`] is evicted.

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
    /// A Job's: waited for until it has finished.
    Finish,
    Block(Block),
}

/// Why a pod stays where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    Mirror,
    DaemonSet,
    /// And nobody deletes it.
    Finished,
    Skipped,
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
    if pod.terminating {
        return Judgement::Wait;
    }
    if policy.jobs == Jobs::Wait && pod.job().is_some() {
        return Judgement::Finish;
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
        assert_eq!(judge(&job, &policy), Judgement::Finish);
        assert_eq!(judge(&pod("b"), &policy), Judgement::Evict);
        job.terminating = true;
        assert_eq!(judge(&job, &policy), Judgement::Wait);
        job.phase = PodPhase::Succeeded;
        assert_eq!(judge(&job, &policy), Judgement::Wait);
        job.terminating = false;
        assert_eq!(judge(&job, &policy), Judgement::Leave(Leave::Finished));
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
