//! What a request that is old enough passes over (`gates.force_after`).

use super::*;

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
