//! What a configuration or an option changes about a decision: `mode = "observe"`, a drain that asks for a
//! sign of life.

use super::table::{about_to_reboot, about_to_take, own, peer, shut, slot};
use super::*;

/// Name, what differs from the facts that lead to a take, what the observer would do.
type Row = (&'static str, fn(&mut Facts), &'static str);

#[test]
fn an_observer_says_what_it_would_do() {
    let observer = Policy {
        observe: true,
        ..policy()
    };
    let rows: [Row; 6] = [
        ("a free slot", |_| {}, "take slot default"),
        (
            "a holder",
            |f| slot(f).holder = Some("n2".to_owned()),
            "wait: default is held by n2",
        ),
        (
            "a Node that claims it",
            |f| peer(f, "default", false),
            "wait: ",
        ),
        (
            "others first: it is in no queue",
            |f| {
                slot(f).freed = Some(NOW);
                slot(f).next = vec!["n3".to_owned()];
            },
            "take slot default",
        ),
        (
            "a look of minutes ago",
            |f| {
                f.peers.as_mut().unwrap().asked =
                    NOW.checked_sub(Duration::from_secs(200)).unwrap();
            },
            "take slot default",
        ),
        (
            "no Lease",
            |f| f.leases.clear(),
            "wait: no Lease in namespace kube-rebootd",
        ),
    ];
    for (name, change, expected) in rows {
        let mut facts = about_to_take();
        (facts.record.waiting, facts.mark) = (None, Mark::None);
        change(&mut facts);
        let step = decide(&facts, &observer, now());
        assert_eq!(step.effect, Effect::Wait, "{name}");
        let would = step.would.unwrap_or_default();
        assert!(would.starts_with(expected), "{name}: {would}");
        assert_eq!(step.status, format!("observing: would {would}"), "{name}");
    }
    // A closed gate is said as ever; a waiting record of earlier is taken away.
    let mut facts = about_to_take();
    facts.closed.push(shut());
    assert!(
        decide(&facts, &observer, now())
            .status
            .starts_with("reboot pending: ")
    );
    let facts = about_to_take();
    let step = decide(&facts, &observer, now());
    assert_eq!((step.effect, step.record.waiting), (Effect::Unmark, None));
}

#[test]
fn an_observer_that_holds_undoes_unless_logind_was_asked() {
    let observer = Policy {
        observe: true,
        ..policy()
    };
    for stage in [Stage::Claiming, Stage::Draining, Stage::Rebooting] {
        let mut facts = about_to_reboot();
        facts.record.hold.as_mut().unwrap().stage = stage;
        let step = decide(&facts, &observer, now());
        let stage = step.record.hold.unwrap().stage;
        assert!(matches!(stage, Stage::Undoing(Why::Gate(_))), "{stage:?}");
    }
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.asks, hold.asked) = (1, Some(NOW));
    (facts.ask_accepted, facts.fenced) = (Some(NOW), None);
    assert_eq!(decide(&facts, &observer, now()).phase, Phase::Rebooting);
}

/// Whether `timeout` or `stall` is over hangs on an answer.
#[test]
fn i7_a_clock_that_may_have_run_out_asks_the_api_server() {
    let mut facts = about_to_reboot();
    facts.record.hold.as_mut().unwrap().stage = Stage::Draining;
    let annotation = facts.record.annotation().unwrap();
    own(&mut facts)
        .annotations
        .insert(names::STATE.to_owned(), annotation);
    for (confirm, effect) in [(false, Effect::Wait), (true, Effect::ReadNode)] {
        facts.drain = Drained::Going {
            escalate: Vec::new(),
            deleted: false,
            evict: Vec::new(),
            words: "1 pod left".to_owned(),
            spent: Duration::from_secs(1),
            confirm,
            unseen: false,
            wake: None,
            blocked: Vec::new(),
        };
        assert_eq!(decide(&facts, &policy(), now()).effect, effect);
    }
}

#[test]
fn a_changed_list_of_packages_undoes_no_drain() {
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.stage, hold.asks, hold.asked) = (Stage::Draining, 0, None);
    let annotation = facts.record.annotation().unwrap();
    own(&mut facts)
        .annotations
        .insert(names::STATE.to_owned(), annotation);
    facts.drain = Drained::Starting;
    let request = facts.observed.request.as_mut().unwrap();
    let changed = BTreeSet::from(["another".to_owned()]);
    request.reasons[0].pkgs.clone_from(&changed);
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.phase, Phase::Draining, "{step:?}");
    assert_eq!(step.record.request.unwrap().reasons[0].pkgs, changed);
}

#[test]
fn i10_what_a_reboot_did_not_clear_is_said_with_when_that_ends() {
    let said = |boot: &str| {
        let mut facts = about_to_take();
        let settled = Settled {
            boot: Boot {
                id: boot.to_owned(),
                ..facts.boot.clone()
            },
            proved_boot: NOW,
            reasons: BTreeMap::new(),
            annotation: None,
            missed: None,
        };
        facts.record.request = None;
        facts.record.settled = Some(settled.clone());
        facts.observed = Observed {
            request: None,
            settled: Some(settled),
            uncleared: vec![Reason {
                trigger: "sentinel /run/reboot-required".to_owned(),
                pkgs: BTreeSet::new(),
                words: String::new(),
                since: now().wall,
                since_boot: NOW,
                later: BTreeMap::new(),
                kind: Kind::Reboot,
                mark: None,
            }],
            served: Vec::new(),
            unknown: Vec::new(),
        };
        decide(&facts, &policy(), now()).status
    };
    let here = about_to_take().boot.id;
    let until = now().wall + Duration::from_secs(15 * 60);
    let until = until.strftime("until %H:%M UTC").to_string();
    assert!(said(&here).contains(&until), "{}", said(&here));
    assert!(
        said("another").contains("gone once or its reasons"),
        "{}",
        said("another")
    );
}

/// Found by an operator: a check whose program was gone showed as "no reboot needed".
#[test]
fn i8_a_trigger_that_gives_no_answer_is_named_while_nothing_else_asks() {
    let mut facts = about_to_take();
    facts.record = Record::default();
    let unknown = ("check dnf".to_owned(), "its program is missing".to_owned());
    facts.observed = Observed {
        unknown: vec![unknown],
        ..Observed::default()
    };
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.phase, Phase::Idle);
    assert_eq!(
        step.status,
        "idle: no reboot needed, but check dnf gives no answer: its program is missing"
    );
}
