//! Each gate in each state (I8).

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::*;
use crate::drain::{Blocker, PodRef};
use crate::protected::Protected;
use crate::rivals::Sign;
use crate::trigger::{Keeper, Latched, Reason, Verdict};

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

/// What is open is told as well, once each and always in the same order.
#[test]
fn every_gate_says_something() {
    let names = |facts: &GateFacts| -> Vec<&str> {
        let all = all(facts, &GatePolicy::default(), at(100));
        all.iter().map(|(gate, _)| gate.name()).collect()
    };
    let open = names(&open());
    assert_eq!(
        open,
        [
            "node-paused",
            "group-paused",
            "soft-reboot",
            "windows",
            "clock",
            "inhibitors",
            "package-manager",
            "alerts",
            "min-uptime",
            "settle",
            "live-patches",
            "autoscaler",
            "conditions",
            "blocking-pods",
            "protected-pods",
            "rivals",
            "capacity",
            "api-servers",
            "commands",
            "users"
        ]
    );
    let mut facts = self::open();
    facts.node_pause = Pause::Unknown;
    facts.packages = Packages::Rest("apt", Duration::from_secs(130));
    assert_eq!(names(&facts), open);
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
fn i14_few_of_many_signs_are_named() {
    let signs: Vec<String> = (0..7).map(|sign| format!("sign-{sign}")).collect();
    let State::Closed { why, .. } = autoscaler(&Signs::Seen(signs), None) else {
        panic!("open");
    };
    assert!(why.ends_with("sign-1, sign-2 and 4 more"), "{why}");
}

/// Found by review: a user at the host may take thousands, and their words made all that is shown too long to be read.
#[test]
fn i14_few_of_many_inhibitors_are_named() {
    let one = Inhibitor {
        what: "shutdown".to_owned(),
        who: "w".repeat(300),
        why: "y".repeat(300),
        mode: "block".to_owned(),
        uid: 1000,
        pid: 1,
    };
    for (count, more) in [(5, ""), (6, " and 1 more"), (8192, " and 8187 more")] {
        let State::Closed { why, .. } = inhibitors(Some(&vec![one.clone(); count])) else {
            panic!("open");
        };
        assert_eq!(why.matches("(y").count(), 5);
        assert!(why.ends_with(&format!("y){more}")) && why.len() < 4000);
    }
}

fn old_request(since: i64) -> Request {
    let since = Timestamp::from_second(since).unwrap();
    Request {
        since,
        reasons: vec![Reason {
            trigger: "check dnf".to_owned(),
            pkgs: BTreeSet::new(),
            words: String::new(),
            since,
            since_boot: Duration::ZERO,
            later: std::collections::BTreeMap::new(),
            kind: crate::kind::Kind::Reboot,
            mark: None,
        }],
        latched: Vec::new(),
    }
}

/// Found by review: a node that was kept drained for weeks would reboot at noon, as soon as something asks for it.
#[test]
fn a_request_is_as_old_as_what_asks_for_a_reboot_now() {
    let force = Force {
        after: Duration::from_secs(60),
        gates: vec![Gate::Windows],
    };
    let now = Now {
        wall: Timestamp::from_second(1_000).unwrap(),
        boot: Duration::from_secs(100),
    };
    let passes = |request: &Request| force.passes(Gate::Windows, Some(request), now);
    let wish = |by: &str, at| Latched {
        by: by.to_owned(),
        reason: "the rack is moved".to_owned(),
        at: Timestamp::from_second(at).unwrap(),
        boot: None,
        ended: true,
        kind: crate::kind::Kind::Reboot,
    };
    let mut request = old_request(999);
    request.since = Timestamp::UNIX_EPOCH;
    assert!(!passes(&request), "what began it has gone");
    request.latched = vec![wish(Keeper::Person.begins(), 0)];
    assert!(!passes(&request), "that was no wish for a reboot");
    request.latched.push(wish(crate::trigger::BY_PERSON, 940));
    assert!(passes(&request), "that was one");
    assert!(passes(&old_request(940)));
}

/// What is written to the Node and to the journal does not change with each answer; and nobody tells by the words what stays, or
/// what only a person mends.
#[test]
fn what_is_answered_is_not_steady() {
    let server = |query, said| Server {
        name: "main",
        on_error: crate::alerts::OnError::Closed,
        query,
        said,
    };
    let returns = Said::Against("the query returns {} 0.05");
    let fires = Said::Against("active alerts: A");
    let command = || "command ceph".to_owned();
    let listed = |longest: Option<&str>, more| Capacity::Listed {
        count: 2,
        longest: longest.map(str::to_owned),
        wait: Duration::from_secs(900),
        more,
    };
    for (state, steady, lasts) in [
        (
            alerts(&[server(true, returns)]),
            "Prometheus \"main\"",
            false,
        ),
        (
            alerts(&[server(false, fires), server(true, returns)]),
            "Prometheus \"main\": active alerts: A; Prometheus \"main\"",
            false,
        ),
        (
            commands(&Commands::NotNow(command(), "2 of 3".to_owned())),
            "command ceph says not now",
            false,
        ),
        (
            commands(&Commands::Unknown(command(), "not known what".to_owned())),
            "command ceph says neither yes nor no",
            false,
        ),
        (
            commands(&Commands::Unlisted("EACCES".to_owned())),
            "not known which hooks there are: EACCES",
            true,
        ),
        (
            api_servers(ApiServers::NotReady("https://a")),
            "another API server is not ready",
            false,
        ),
        (
            capacity(&Capacity::Asked(Some("nothing within 10 s".to_owned()))),
            "asking which pods wait for room on a node",
            false,
        ),
        (
            capacity(&Capacity::Refused("denied (403)".to_owned())),
            "not known whether pods wait for room on a node: denied (403)",
            true,
        ),
        (
            capacity(&listed(None, true)),
            "not known whether pods wait for room on a node: so many pods have none that not all of them were looked at",
            true,
        ),
        (
            capacity(&listed(Some("shop/a"), true)),
            "pods have waited for room on a node for longer than gates.capacity_wait (15m)",
            false,
        ),
        // It is known as soon as logind answers, whatever the words begin with.
        (
            inhibitors(None),
            "not known whether something inhibits a shutdown: logind did not say",
            false,
        ),
    ] {
        let (State::Closed { why, .. } | State::Unknown { why }) = state else {
            panic!("{steady}: {state:?}");
        };
        assert_eq!((why.steady(), why.lasts()), (steady, lasts), "{why}");
    }
}

/// A day old; of everything that is closed or unknown only what is listed is passed over.
#[test]
fn i8_an_old_request_passes_over_what_is_listed_and_nothing_else() {
    let day = Duration::from_secs(24 * 3600);
    let force = |after, gates: &[Gate]| GatePolicy {
        force: Force {
            after,
            gates: gates.to_vec(),
        },
        ..GatePolicy::default()
    };
    let all_listed: Vec<Gate> = Force::WORDS.iter().map(|(_, gate)| *gate).collect();
    let mut facts = open();
    facts.node_pause = Pause::Unknown;
    facts.inhibitors = None;
    facts.autoscaler = Signs::Seen(vec!["karpenter.sh/disrupted".to_owned()]);
    facts.conditions = Signs::Unknown;
    facts.commands = Commands::Awaited("ceph".to_owned());
    facts.blocking = Blocking::Unknown;
    let now = |seconds| Now {
        wall: Timestamp::from_second(seconds).unwrap(),
        boot: Duration::from_secs(100),
    };
    let stay = [Gate::NodePaused, Gate::Inhibitors, Gate::BlockingPods];
    let rest = [Gate::Autoscaler, Gate::Conditions, Gate::Commands];
    let every: Vec<Gate> = [Gate::NodePaused, Gate::Inhibitors]
        .into_iter()
        .chain([
            Gate::Autoscaler,
            Gate::Conditions,
            Gate::BlockingPods,
            Gate::Commands,
        ])
        .collect();
    let request = old_request(1_000);
    let (before, then) = (1_000 + 24 * 3600 - 1, 1_000 + 24 * 3600);
    for (what, request, policy, wall, closed) in [
        (
            "off",
            Some(&request),
            force(Duration::ZERO, &rest),
            then,
            &every[..],
        ),
        (
            "no gate is listed",
            Some(&request),
            force(day, &[]),
            then,
            &every[..],
        ),
        ("no request", None, force(day, &rest), then, &every[..]),
        (
            "a second too young",
            Some(&request),
            force(day, &rest),
            before,
            &every[..],
        ),
        (
            "a clock from before it",
            Some(&request),
            force(day, &rest),
            0,
            &every[..],
        ),
        (
            "old enough",
            Some(&request),
            force(day, &rest),
            then,
            &stay[..],
        ),
        (
            "whatever may be listed",
            Some(&request),
            force(day, &all_listed),
            then,
            &stay[..],
        ),
    ] {
        facts.request = request;
        let shut = shut_at(&facts, &policy, now(wall));
        // This request has no trigger.
        let shut = shut.iter().map(|one| one.gate);
        let shut: Vec<Gate> = shut.filter(|gate| *gate != Gate::Settle).collect();
        assert_eq!(shut, closed, "{what}");
    }
}

#[test]
fn a_gate_that_is_to_be_passed_over_says_when_and_what_it_would_say() {
    let request = old_request(0);
    let mut facts = open();
    facts.request = Some(&request);
    facts.autoscaler = Signs::Seen(vec!["karpenter.sh/disrupted".to_owned()]);
    let policy = GatePolicy {
        force: Force {
            after: Duration::from_secs(60),
            gates: vec![Gate::Autoscaler],
        },
        ..GatePolicy::default()
    };
    let said = |wall| {
        let now = Now {
            wall: Timestamp::from_second(wall).unwrap(),
            boot: Duration::from_secs(100),
        };
        let all = all(&facts, &policy, now);
        let one = all.into_iter().find(|(gate, _)| *gate == Gate::Autoscaler);
        one.unwrap().1
    };
    let State::Closed { why, opens } = said(20) else {
        panic!("it is closed before");
    };
    assert_eq!(opens, Some(Duration::from_secs(140)));
    assert_eq!(said(60), State::Forced { why });
}

/// Found by review: whoever was to be warned was told nothing before the drain.
#[test]
fn an_old_request_passes_over_users_who_block_and_warns_all_others() {
    use crate::users::Session;
    let request = old_request(0);
    let sessions = [Session {
        id: "1".to_owned(),
        user: "alice".to_owned(),
        terminal: "pts/0".to_owned(),
        remote: String::new(),
        idle: Some(Duration::ZERO),
    }];
    let mut facts = open();
    facts.request = Some(&request);
    facts.users.sessions = Some(&sessions);
    for (users, passed) in [(Users::Warn, false), (Users::Block, true)] {
        let policy = GatePolicy {
            users: UserPolicy {
                users,
                ..UserPolicy::default()
            },
            force: Force {
                after: Duration::from_secs(60),
                gates: vec![Gate::Users],
            },
            ..GatePolicy::default()
        };
        let now = Now {
            wall: Timestamp::from_second(60).unwrap(),
            boot: Duration::from_secs(100),
        };
        let all = all(&facts, &policy, now);
        let (_, state) = all.last().unwrap();
        assert_eq!(
            matches!(state, State::Forced { .. }),
            passed,
            "{users:?}: {state:?}"
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

#[test]
fn an_old_request_waits_for_no_live_patches_where_they_are_listed() {
    let request = old_request(0);
    let mut facts = open();
    facts.request = Some(&request);
    let until = Duration::from_secs(500);
    let listed = Force::WORDS
        .iter()
        .find(|(word, _)| *word == Gate::LivePatches.name());
    let (_, listed) = listed.expect("it may be listed");
    let names = "kpatch_1".to_owned();
    for patches in [
        LivePatches::Settling { until },
        LivePatches::Applied { names, until },
        LivePatches::Unknown { until },
    ] {
        facts.live_patches = patches;
        for (gates, passed) in [(vec![*listed], true), (vec![Gate::Windows], false)] {
            let force = Force {
                after: Duration::from_secs(60),
                gates,
            };
            let policy = GatePolicy {
                force,
                ..GatePolicy::default()
            };
            let now = Now {
                wall: Timestamp::from_second(60).unwrap(),
                boot: Duration::from_secs(100),
            };
            let all = all(&facts, &policy, now);
            let (_, state) = all.iter().find(|(gate, _)| gate == listed).unwrap();
            let forced = matches!(state, State::Forced { .. });
            assert_eq!(forced, passed, "{state:?}");
        }
    }
}
