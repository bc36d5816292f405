//! What each gate says: to people, and to who compares what it says (I14).

use super::*;

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
