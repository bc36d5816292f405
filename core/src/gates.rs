//! Gates: what says not now (docs/design.md 10). Keeps I8: a gate that cannot be evaluated is closed.

use std::time::Duration;

use crate::drain::Blocker;
use crate::inhibitor::Inhibitor;
use crate::now::Now;
use crate::trigger::{Finding, Request};

/// Every gate there is; a new one is a variant and a line in [`closed`], and in [`Gate::passing`] if it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    NodePaused,
    GroupPaused,
    Inhibitors,
    PackageManager,
    MinUptime,
    Settle,
    BlockingPods,
}

impl Gate {
    /// It speaks against a drain; the others speak against a reboot alone, which is not done while somebody wants the node
    /// drained.
    fn about_drains(self) -> bool {
        match self {
            Self::NodePaused | Self::GroupPaused | Self::BlockingPods => true,
            Self::Inhibitors | Self::PackageManager | Self::MinUptime | Self::Settle => false,
        }
    }

    /// What closes it goes by itself, most often within minutes: a drain under way is not given up for it, and looks
    /// again when it has ended.
    pub(crate) fn passing(self) -> bool {
        match self {
            Self::Inhibitors | Self::PackageManager => true,
            Self::NodePaused
            | Self::GroupPaused
            | Self::MinUptime
            | Self::Settle
            | Self::BlockingPods => false,
        }
    }
}

/// A gate that is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    pub gate: Gate,
    /// For people, with the subject.
    pub why: String,
    /// Boot time at which it opens by itself, when that is known.
    pub opens: Option<Duration>,
}

/// What the gates look at.
#[derive(Debug, Clone)]
pub(crate) struct GateFacts<'a> {
    pub node_pause: Pause,
    /// Paused when every slot of the group is.
    pub group_pause: Pause,
    /// Foreign block inhibitors whose `what` contains shutdown; none when logind did not say.
    pub inhibitors: Option<Vec<Inhibitor>>,
    pub packages: Packages,
    pub request: Option<&'a Request>,
    pub findings: &'a [Finding],
    pub blocking: Blocking,
}

/// An annotation `kube-rebootd/paused`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Not read yet.
    Unknown,
    None,
    Paused(String),
}

/// What package managers do. Not all of them inhibit a shutdown, and a reboot in the middle of their hooks leaves a
/// host that does not boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packages {
    Quiet,
    /// In words.
    Work(String),
    /// Who worked until now; it counts as quiet from this boot time on: scripts call it several times.
    Rest(&'static str, Duration),
    /// Why it is not known.
    Unknown(String),
}

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

/// What the configuration says about gates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct GatePolicy {
    /// Time since boot before which nothing is begun; zero for none.
    pub min_uptime: Duration,
}

/// All gates that are closed now; none = go.
pub(crate) fn closed(facts: &GateFacts, policy: &GatePolicy, now: Now) -> Vec<Closed> {
    let kept = facts.request.is_some_and(Request::keeps);
    let all = [
        pause(Gate::NodePaused, "node", &facts.node_pause),
        pause(Gate::GroupPaused, "group", &facts.group_pause),
        inhibitors(facts.inhibitors.as_deref()),
        packages(&facts.packages),
        min_uptime(facts.request, policy.min_uptime, now),
        settle(facts.request, facts.findings, now),
        blocking(&facts.blocking),
    ];
    let all = all.into_iter().flatten();
    all.filter(|closed| !kept || closed.gate.about_drains())
        .collect()
}

fn shut(gate: Gate, why: String, opens: Option<Duration>) -> Closed {
    Closed { gate, why, opens }
}

fn pause(gate: Gate, subject: &str, pause: &Pause) -> Option<Closed> {
    let why = match pause {
        Pause::None => return None,
        Pause::Unknown => format!("not known whether the {subject} is paused"),
        Pause::Paused(why) if why.is_empty() => format!("{subject} paused"),
        Pause::Paused(why) => format!("{subject} paused: {why}"),
    };
    Some(shut(gate, why, None))
}

fn inhibitors(inhibitors: Option<&[Inhibitor]>) -> Option<Closed> {
    let Some(inhibitors) = inhibitors else {
        let why = "not known whether something inhibits a shutdown: logind did not say";
        return Some(shut(Gate::Inhibitors, why.to_owned(), None));
    };
    if inhibitors.is_empty() {
        return None;
    }
    let each = |one: &Inhibitor| format!("{} ({})", one.who, one.why);
    let all = inhibitors.iter().map(each).collect::<Vec<_>>().join(", ");
    Some(shut(
        Gate::Inhibitors,
        format!("shutdown inhibited by {all}"),
        None,
    ))
}

fn packages(packages: &Packages) -> Option<Closed> {
    let (why, opens) = match packages {
        Packages::Quiet => return None,
        Packages::Work(words) => (words.clone(), None),
        Packages::Rest(who, opens) => (format!("{who} worked a moment ago"), Some(*opens)),
        Packages::Unknown(why) => {
            let why = format!("not known whether a package manager works: {why}");
            (why, None)
        }
    };
    Some(shut(Gate::PackageManager, why, opens))
}

fn min_uptime(request: Option<&Request>, least: Duration, now: Now) -> Option<Closed> {
    if now.boot >= least || request.is_some_and(Request::urgent) {
        return None;
    }
    let why = format!("up for less than gates.min_uptime of {least:?}");
    Some(shut(Gate::MinUptime, why, Some(least)))
}

/// Open as soon as one reason has settled, and for every latched wish: a trigger that needs no time
/// does not wait for one that does.
fn settle(request: Option<&Request>, findings: &[Finding], now: Now) -> Option<Closed> {
    let request = request?;
    if !request.latched.is_empty() {
        return None;
    }
    let settles = |trigger: &str| {
        let finding = findings.iter().find(|finding| finding.trigger == trigger);
        finding.map(|finding| finding.settle)
    };
    let opens = (request.reasons.iter())
        .filter_map(|reason| Some((settles(&reason.trigger)? + reason.since_boot, reason)))
        .min_by_key(|(opens, _)| *opens);
    let Some((opens, reason)) = opens else {
        let why = "no trigger of the request is configured any more";
        return Some(shut(Gate::Settle, why.to_owned(), None));
    };
    if opens <= now.boot {
        return None;
    }
    let why = format!("{} has not settled yet", reason.trigger);
    Some(shut(Gate::Settle, why, Some(opens)))
}

fn blocking(blocking: &Blocking) -> Option<Closed> {
    match blocking {
        Blocking::Cordoned | Blocking::Undrained => None,
        Blocking::Unknown => {
            let why = "not known which pods would block the drain: pods not listed yet";
            Some(shut(Gate::BlockingPods, why.to_owned(), None))
        }
        Blocking::Seen(pods) => {
            let first = pods.first()?;
            let (pod, number) = (first.pod.path(), pods.len());
            let why = format!("{number} would block the drain: pod {pod} {}", first.why);
            Some(shut(Gate::BlockingPods, why, None))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::Timestamp;

    use super::*;
    use crate::drain::PodRef;
    use crate::trigger::{Reason, Verdict};

    fn open() -> GateFacts<'static> {
        GateFacts {
            node_pause: Pause::None,
            group_pause: Pause::None,
            inhibitors: Some(Vec::new()),
            packages: Packages::Quiet,
            request: None,
            findings: &[],
            blocking: Blocking::Seen(Vec::new()),
        }
    }

    fn at(seconds: u64) -> Now {
        Now {
            wall: Timestamp::UNIX_EPOCH,
            boot: Duration::from_secs(seconds),
        }
    }

    fn gates(facts: &GateFacts) -> Vec<Gate> {
        let closed = closed(facts, &GatePolicy::default(), at(100));
        closed.iter().map(|closed| closed.gate).collect()
    }

    #[test]
    fn all_open() {
        assert_eq!(gates(&open()), []);
    }

    #[test]
    fn i8_what_is_unknown_is_closed() {
        let mut facts = open();
        facts.node_pause = Pause::Unknown;
        facts.group_pause = Pause::Unknown;
        facts.inhibitors = None;
        facts.packages = Packages::Unknown("no permission".to_owned());
        facts.blocking = Blocking::Unknown;
        let all = [
            Gate::NodePaused,
            Gate::GroupPaused,
            Gate::Inhibitors,
            Gate::PackageManager,
            Gate::BlockingPods,
        ];
        assert_eq!(gates(&facts), all);
    }

    #[test]
    fn a_pause_is_told_with_its_reason() {
        for (why, words) in [("disk", "node paused: disk"), ("", "node paused")] {
            let mut facts = open();
            facts.node_pause = Pause::Paused(why.to_owned());
            let closed = closed(&facts, &GatePolicy::default(), at(100));
            assert_eq!(closed[0].why, words);
        }
    }

    #[test]
    fn each_closes_by_itself() {
        let mut facts = open();
        facts.node_pause = Pause::Paused("disk".to_owned());
        assert_eq!(gates(&facts), [Gate::NodePaused]);
        let mut facts = open();
        let row = ["shutdown", "backup", "runs", "block"].map(str::to_owned);
        let [what, who, why, mode] = row;
        facts.inhibitors = Some(vec![Inhibitor::of((what, who, why, mode, 0, 1))]);
        assert_eq!(gates(&facts), [Gate::Inhibitors]);
        let mut facts = open();
        facts.blocking = Blocking::Seen(vec![Blocker {
            pod: PodRef {
                namespace: "shop".to_owned(),
                name: "a".to_owned(),
                uid: "u".to_owned(),
            },
            why: "has no controller".to_owned(),
            budget: None,
        }]);
        assert_eq!(gates(&facts), [Gate::BlockingPods]);
        facts.blocking = Blocking::Cordoned;
        assert_eq!(gates(&facts), []);
    }

    #[test]
    fn min_uptime_says_when_it_opens() {
        let policy = GatePolicy {
            min_uptime: Duration::from_secs(100),
        };
        assert_eq!(
            closed(&open(), &policy, at(99))[0].opens,
            Some(Duration::from_secs(100))
        );
        assert_eq!(closed(&open(), &policy, at(100)), []);
    }

    #[test]
    fn settle_waits_for_the_first_reason_to_last() {
        let reason = |trigger: &str, since| Reason {
            trigger: trigger.to_owned(),
            pkgs: BTreeSet::new(),
            words: String::new(),
            since: Timestamp::UNIX_EPOCH,
            since_boot: Duration::from_secs(since),
        };
        let finding = |trigger: &str, settle| Finding {
            trigger: trigger.to_owned(),
            verdict: Verdict::No,
            settle: Duration::from_secs(settle),
        };
        let request = Request {
            since: Timestamp::UNIX_EPOCH,
            reasons: vec![reason("a", 50), reason("b", 90)],
            latched: Vec::new(),
        };
        let findings = [finding("a", 600), finding("b", 20)];
        let mut facts = open();
        facts.request = Some(&request);
        facts.findings = &findings;
        let closed = |seconds| closed(&facts, &GatePolicy::default(), at(seconds));
        assert_eq!(closed(109)[0].opens, Some(Duration::from_secs(110)));
        assert_eq!(closed(110), []);
    }
}
