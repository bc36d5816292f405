//! Each gate in each state (I8).

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::*;
use crate::drain::{Blocker, PodRef};
use crate::protected::Protected;
use crate::rivals::Sign;
use crate::trigger::{Keeper, Latched, Reason, Verdict};

mod force;
mod words;

fn open() -> GateFacts<'static> {
    GateFacts {
        node_pause: Pause::None,
        group_pause: Pause::None,
        soft_reboots: SoftReboots::NotWanted,
        rivals: Rivals::Ignored,
        capacity: Capacity::Ignored,
        api_servers: ApiServers::Ignored,
        windows: WindowFacts::any_time(),
        clock: Clock::Synchronized,
        inhibitors: Some(Vec::new()),
        packages: Packages::Quiet,
        alerts: Vec::new(),
        request: None,
        findings: &[],
        live_patches: LivePatches::Ignored,
        autoscaler: Signs::Seen(Vec::new()),
        candidate_until: None,
        conditions: Signs::Seen(Vec::new()),
        blocking: Blocking::Seen(Vec::new()),
        protecting: Protecting::Seen(Vec::new()),
        commands: Commands::Yes,
        users: UserFacts::ignored(),
    }
}

fn at(seconds: u64) -> Now {
    Now {
        wall: Timestamp::UNIX_EPOCH,
        boot: Duration::from_secs(seconds),
    }
}

fn shut_at(facts: &GateFacts, policy: &GatePolicy, now: Now) -> Vec<Closed> {
    closed(&all(facts, policy, now))
}

fn gates(facts: &GateFacts) -> Vec<Gate> {
    let closed = shut_at(facts, &GatePolicy::default(), at(100));
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
    facts.rivals = Rivals::Seen {
        signs: Vec::new(),
        unknown: Some("nobody has looked"),
    };
    facts.capacity = Capacity::Asked(None);
    facts.api_servers = ApiServers::Asked;
    facts.clock = Clock::Unknown;
    facts.packages = Packages::Unknown("no permission".to_owned());
    facts.live_patches = LivePatches::Unknown {
        until: Duration::from_secs(200),
    };
    facts.soft_reboots = SoftReboots::Unknown;
    facts.autoscaler = Signs::Unknown;
    facts.conditions = Signs::Unknown;
    facts.alerts = vec![Server {
        name: "main",
        on_error: crate::alerts::OnError::Open,
        query: false,
        said: Said::Asked,
    }];
    facts.blocking = Blocking::Unknown;
    facts.protecting = Protecting::Unknown;
    facts.commands = Commands::Awaited("command ceph".to_owned());
    facts.users.sessions = None;
    let policy = GatePolicy {
        users: UserPolicy {
            users: Users::Block,
            ..UserPolicy::default()
        },
        ..GatePolicy::default()
    };
    let said = all(&facts, &policy, at(100));
    for (gate, state) in &said {
        // These rest on the configuration, the request and the own clocks alone, which are always known.
        let known = [Gate::Windows, Gate::MinUptime, Gate::Settle].contains(gate);
        let unknown = matches!(state, State::Unknown { .. });
        assert_eq!(unknown, !known, "{gate:?}: {state:?}");
        assert!(unknown || *state == State::Open, "{gate:?}: {state:?}");
    }
    let shut: Vec<Gate> = closed(&said).iter().map(|one| one.gate).collect();
    let mut unknown = said.iter();
    assert!(unknown.all(|(gate, state)| shut.contains(gate) || *state == State::Open));
    assert_eq!(said.len(), Gate::ALL.len());
}

/// Nothing is rebooted then: what speaks against a reboot alone keeps nothing waiting, and says so.
#[test]
fn a_node_that_somebody_keeps_drained_waits_for_what_speaks_against_drains() {
    let request = Request {
        since: Timestamp::UNIX_EPOCH,
        reasons: Vec::new(),
        latched: vec![Latched {
            by: Keeper::Person.begins().to_owned(),
            reason: "the rack is moved".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            boot: None,
            ended: false,
            kind: crate::kind::Kind::Reboot,
        }],
    };
    let mut facts = open();
    facts.request = Some(&request);
    facts.inhibitors = None;
    facts.node_pause = Pause::Unknown;
    assert_eq!(gates(&facts), [Gate::NodePaused]);
    let all = all(&facts, &GatePolicy::default(), at(100));
    let aside = all.iter().filter(|(_, state)| *state == State::Aside);
    let aside: Vec<Gate> = aside.map(|(gate, _)| *gate).collect();
    let reboots = [
        Gate::SoftReboot,
        Gate::Windows,
        Gate::Clock,
        Gate::Inhibitors,
        Gate::PackageManager,
        Gate::Alerts,
        Gate::MinUptime,
        Gate::Settle,
        Gate::LivePatches,
        Gate::Autoscaler,
        Gate::Conditions,
        Gate::ApiServers,
        Gate::Commands,
        Gate::Users,
    ];
    assert_eq!(aside, reboots);
}

/// Its words may change: it has been closed since the first of them.
#[test]
fn a_gate_stands_since_it_was_opened_closed_or_lost_sight_of() {
    let secs = Duration::from_secs;
    let mut stands = Vec::new();
    let paused = |why: &str| Pause::Paused(why.to_owned());
    for (now, pause, since) in [
        (10, Pause::None, 10),
        (20, Pause::None, 10),
        (30, paused("disk"), 30),
        (40, paused("rack"), 30),
        (50, Pause::Unknown, 50),
        (60, paused("rack"), 60),
        (70, Pause::None, 70),
    ] {
        let mut facts = open();
        facts.node_pause = pause.clone();
        let said = all(&facts, &GatePolicy::default(), at(now));
        stands = standing(&stands, said, secs(now));
        assert_eq!(stands[0].since, secs(since), "{now} {pause:?}");
        assert_eq!(stands[1].since, secs(10), "another gate, at {now}");
    }
}

#[test]
fn a_pause_is_told_with_its_reason() {
    for (why, words) in [("disk", "node paused: disk"), ("", "node paused")] {
        let mut facts = open();
        facts.node_pause = Pause::Paused(why.to_owned());
        let closed = shut_at(&facts, &GatePolicy::default(), at(100));
        assert_eq!(&*closed[0].why, words);
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
    for (gate, sign) in [
        (Gate::Autoscaler, "karpenter.sh/disrupted"),
        (Gate::Conditions, "KernelDeadlock is True"),
    ] {
        let mut facts = open();
        let signs = Signs::Seen(vec![sign.to_owned()]);
        match gate {
            Gate::Autoscaler => facts.autoscaler = signs,
            _ => facts.conditions = signs,
        }
        let closed = shut_at(&facts, &GatePolicy::default(), at(100));
        assert_eq!(closed.len(), 1);
        assert_eq!(closed[0].gate, gate);
        assert!(closed[0].why.ends_with(sign), "{closed:?}");
    }
    let mut facts = open();
    let blocker = |name: &str| Blocker {
        pod: PodRef {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: "u".to_owned(),
        },
        why: "has no controller".to_owned(),
        budget: None,
    };
    for (pods, words) in [
        (
            vec![blocker("a")],
            "1 pod would block the drain: shop/a has no controller",
        ),
        (
            vec![blocker("a"), blocker("b")],
            "2 pods would block the drain: shop/a has no controller",
        ),
    ] {
        facts.blocking = Blocking::Seen(pods);
        let closed = shut_at(&facts, &GatePolicy::default(), at(100));
        assert_eq!(
            (closed[0].gate, &*closed[0].why),
            (Gate::BlockingPods, words)
        );
        assert_eq!(closed.len(), 1);
    }
    facts.blocking = Blocking::Cordoned;
    assert_eq!(gates(&facts), []);
}

#[test]
fn i8_only_a_yes_of_all_commands_opens_their_gate() {
    let word = str::to_owned;
    for (commands, words) in [
        (Commands::Yes, None),
        (
            Commands::NotNow(word("command ceph"), word("3 pgs degraded")),
            Some("command ceph says not now: 3 pgs degraded"),
        ),
        (
            Commands::Unknown(word("command ceph"), word("exit code 1")),
            Some("command ceph says neither yes nor no: exit code 1"),
        ),
        (
            Commands::Awaited(word("hook gate.d/10-ceph")),
            Some("hook gate.d/10-ceph has not answered yet"),
        ),
        (
            Commands::Unlisted(word("too many")),
            Some("not known which hooks there are: too many"),
        ),
    ] {
        let mut facts = open();
        facts.commands = commands;
        let closed = shut_at(&facts, &GatePolicy::default(), at(100));
        let closed = closed.iter().map(|closed| (closed.gate, &*closed.why));
        let wanted = words.map(|words| (Gate::Commands, words));
        assert!(closed.eq(wanted), "{facts:?}");
    }
}

#[test]
fn min_uptime_says_when_it_opens() {
    let policy = GatePolicy {
        min_uptime: Duration::from_secs(3600),
        ..GatePolicy::default()
    };
    let closed = shut_at(&open(), &policy, at(3599));
    assert_eq!(closed[0].opens, Some(Duration::from_secs(3600)));
    assert_eq!(
        &*closed[0].why,
        "the host has been up for less than gates.min_uptime (1h)"
    );
    assert_eq!(shut_at(&open(), &policy, at(3600)), []);
}

#[test]
fn settle_waits_for_the_first_reason_to_last() {
    let reason = |trigger: &str, since| Reason {
        trigger: trigger.to_owned(),
        pkgs: BTreeSet::new(),
        words: String::new(),
        since: Timestamp::UNIX_EPOCH,
        since_boot: Duration::from_secs(since),
        later: std::collections::BTreeMap::new(),
        kind: crate::kind::Kind::Reboot,
        mark: None,
    };
    let finding = |trigger: &str, settle| Finding {
        trigger: trigger.to_owned(),
        verdict: Verdict::No,
        settle: Duration::from_secs(settle),
        kind: None,
        mark: None,
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
    let closed = |seconds| shut_at(&facts, &GatePolicy::default(), at(seconds));
    assert_eq!(closed(109)[0].opens, Some(Duration::from_secs(110)));
    assert_eq!(closed(110), []);
    // Found by review: a daemon that was upgraded, or reloaded with a longer time, undid the drain that it found.
    facts.windows.begun = Some(Timestamp::UNIX_EPOCH);
    assert_eq!(shut_at(&facts, &GatePolicy::default(), at(51)), []);
    // But what came after the take, in the place of what has gone, has to settle.
    facts.windows.begun = Some(Timestamp::from_second(-1).unwrap());
    assert_eq!(shut_at(&facts, &GatePolicy::default(), at(51)).len(), 1);
}

/// As long as one of them has no end, nobody knows when the gate opens.
#[test]
fn protected_pods_say_until_when() {
    let until = |second: Option<i64>| Protected {
        pod: PodRef {
            namespace: "shop".to_owned(),
            name: "a".to_owned(),
            uid: "u".to_owned(),
        },
        why: "has the annotation".to_owned(),
        until: second.map(|second| Timestamp::from_second(second).unwrap()),
    };
    for (pods, opens) in [
        (vec![Some(40)], Some(140)),
        (vec![Some(40), Some(50), Some(30)], Some(150)),
        (vec![Some(40), None], None),
    ] {
        let mut facts = open();
        let number = pods.len();
        facts.protecting = Protecting::Seen(pods.into_iter().map(until).collect());
        let closed = shut_at(&facts, &GatePolicy::default(), at(100));
        assert_eq!(closed[0].gate, Gate::ProtectedPods);
        assert_eq!(closed[0].opens, opens.map(Duration::from_secs));
        assert!(
            closed[0].why.starts_with(&format!("{number} pod")),
            "{closed:?}"
        );
        assert!(
            closed[0].why.ends_with("shop/a has the annotation"),
            "{closed:?}"
        );
    }
}

#[test]
fn another_reboot_daemon_is_named_with_its_cure_and_is_never_forced() {
    let sign = |what: &str| Sign {
        what: what.to_owned(),
        cure: format!("remove {what}"),
    };
    let seen = |signs: &[&str], unknown| Rivals::Seen {
        signs: signs.iter().map(|one| sign(one)).collect(),
        unknown,
    };
    let closed = |why: &str| State::Closed {
        why: why.into(),
        opens: None,
    };
    for (facts, state) in [
        (Rivals::Ignored, State::Open),
        (seen(&[], None), State::Open),
        (
            seen(&["kured"], Some("the pods of this node are not listed yet")),
            closed(
                "kured may reboot this host, too, and does not see the slots: remove kured; \
                 with gates.other_reboot_daemons = \"ignore\" both work",
            ),
        ),
        (
            seen(&["kured", "a", "b"], None),
            closed(
                "kured and 2 more may reboot this host, too, and does not see the slots: remove kured; \
                 with gates.other_reboot_daemons = \"ignore\" both work",
            ),
        ),
        (
            seen(&[], Some("the pods of this node are not listed yet")),
            State::Unknown {
                why: "not known whether another daemon reboots this host: the pods of this node are not listed yet"
                    .into(),
            },
        ),
    ] {
        assert_eq!(rivals(&facts), state);
    }
    let mut words = Force::WORDS.iter();
    assert!(words.all(|(_, gate)| *gate != Gate::Rivals));
}

/// Found by review: live patches that could not be read kept the reboot waiting for ever. And nobody was told until when.
#[test]
fn i7_i8_live_patches_keep_a_newer_kernel_waiting_up_to_a_time_that_is_told() {
    let until = Duration::from_secs(14 * 24 * 3600 + 30);
    let end = "it waits until 1970-01-15 00:01 UTC (gates.live_patch_wait)";
    let applied = "only a newer kernel asks for the reboot, and live patches are applied to the running one (kpatch_1): ";
    let lost = "only a newer kernel asks for the reboot, and it is not known whether live patches are applied: \
                /sys/kernel/livepatch cannot be read; ";
    let gone = "only a newer kernel asks for the reboot, and no live patch is applied to the running one, which may be so for a \
                moment only: ";
    let names = "kpatch_1".to_owned();
    for (patches, opens, words) in [
        (LivePatches::Applied { names, until }, Some(until), applied),
        (LivePatches::Unknown { until }, None, lost),
        (LivePatches::Settling { until }, Some(until), gone),
    ] {
        let mut facts = open();
        facts.live_patches = patches;
        for (before, shut) in [(until.as_secs(), true), (1, true), (0, false)] {
            let boot = until.saturating_sub(Duration::from_secs(before));
            let wall = Timestamp::from_second(boot.as_secs().cast_signed()).unwrap();
            let closed = shut_at(&facts, &GatePolicy::default(), Now { wall, boot });
            assert_eq!(!closed.is_empty(), shut, "{before}: {closed:?}");
            if let [one] = closed.as_slice() {
                assert_eq!((one.gate, one.opens), (Gate::LivePatches, opens));
                let end = match &facts.live_patches {
                    LivePatches::Settling { .. } => "it waits until 1970-01-15 00:01 UTC",
                    _ => end,
                };
                assert_eq!(*one.why, format!("{words}{end}"));
            }
        }
    }
}
