//! Tables: what a Node shows in each phase, and whose conditions stay whose.

use std::time::Duration;

use super::*;
use crate::boot::Boot;
use crate::condition::{Difference, Event, difference, ours, topic};
use crate::config::{Config, ConfigError, Problem};
use crate::drain::{Blocker, PodRef};
use crate::effect::Effect;
use crate::facts::Drained;
use crate::gates::{Closed, Gate};
use crate::record::{Record, Why};
use crate::slot::{Lease, Take};
use crate::topic::Topic;
use crate::trigger::{BY_PERSON, Latched, Request};

fn wall(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

fn policy() -> Policy {
    Policy::of(&Config::default(), Some("n1"), "kube-rebootd", "default")
}

fn boot() -> Boot {
    Boot {
        id: "now".to_owned(),
        userspace: 1,
    }
}

fn facts() -> Facts {
    Facts::of_a_start(boot(), Record::default())
}

/// A step of `phase`, with a request and, from Claiming on, a hold at `stage`.
fn step(phase: Phase, stage: Option<Stage>) -> Step {
    let request = Request {
        since: wall(0),
        reasons: Vec::new(),
        latched: vec![Latched {
            by: BY_PERSON.to_owned(),
            reason: "kernel".to_owned(),
            at: wall(0),
            boot: None,
            ended: false,
            kind: kind::Kind::Reboot,
        }],
    };
    let take = Take::of(
        &Lease::free("default", "default"),
        "kube-rebootd",
        wall(0),
        false,
    );
    let record = Record {
        request: (phase != Phase::Idle).then_some(request),
        hold: stage.map(|stage| Hold {
            stage,
            ..Hold::begin(take, boot())
        }),
        ..Record::default()
    };
    Step {
        phase,
        reason: Reason::of(phase),
        record,
        effect: Effect::Wait,
        wake: None,
        status: "the status".to_owned(),
        waits: None,
        would: None,
    }
}

fn shown(kind: Kind, status: Status, reason: &str) -> Condition {
    Condition {
        kind,
        status,
        reason: reason.to_owned(),
        message: String::new(),
        since: Some(wall(-100)),
    }
}

/// What is wanted, as `type=status` in one line.
fn line(wanted: &[Condition]) -> String {
    let words = wanted.iter();
    let words = words.map(|one| format!("{}={}", one.kind.name(), one.status));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn each_phase_has_its_conditions() {
    let undoing = Stage::Undoing(Why::Withdrawn);
    for (phase, stage, expected) in [
        (Phase::Idle, None, ""),
        (Phase::Pending, None, ""),
        (Phase::Queued, None, "MaintenancePlanned"),
        (Phase::Claiming, Some(Stage::Claiming), "MaintenancePlanned"),
        (
            Phase::Draining,
            Some(Stage::Draining),
            "MaintenancePlanned DrainInProgress",
        ),
        (
            Phase::Rebooting,
            Some(Stage::Rebooting),
            "Drained MaintenanceInProgress",
        ),
        (
            Phase::Verifying,
            Some(Stage::Rebooting),
            "Drained MaintenanceInProgress",
        ),
        // Power was lost in mid-drain.
        (
            Phase::Verifying,
            Some(Stage::Draining),
            "MaintenanceInProgress",
        ),
        (
            Phase::Verifying,
            Some(Stage::Uncordoned),
            "MaintenanceInProgress",
        ),
        (Phase::Releasing, Some(Stage::Releasing), ""),
        (Phase::Undoing, Some(undoing), ""),
    ] {
        let wanted = wanted(&step(phase, stage), &facts(), &policy(), &[], wall(0));
        let yes = wanted[1..].iter().map(|one| one.kind.name());
        assert_eq!(yes.collect::<Vec<_>>().join(" "), expected, "{phase}");
        assert!(
            wanted[1..]
                .iter()
                .all(|one| one.status == Status::True && one.reason == OURS)
        );
        let required = &wanted[0];
        let is = match phase {
            Phase::Idle => Status::False,
            _ => Status::True,
        };
        assert_eq!((required.kind, required.status), (Kind::RebootRequired, is));
        assert_eq!(required.reason, phase.name());
    }
}

/// Found by reading: for up to 50 minutes a drained node was "about to reboot", and did not say who is to reboot it.
#[test]
fn a_drained_node_says_that_it_waits_for_the_updater() {
    for (reason, waits, message) in [
        (Reason::Rebooting, None, "about to reboot"),
        (
            Reason::Rebooting,
            Some("waiting for the next heartbeat of control-plane nodes: n2"),
            "about to reboot",
        ),
        (
            Reason::AwaitsUpdater,
            Some("the updater of this host must ask once more"),
            "drained: the updater of this host must ask once more",
        ),
    ] {
        let mut step = step(Phase::Rebooting, Some(Stage::Rebooting));
        (step.reason, step.waits) = (reason, waits.map(str::to_owned));
        let wanted = wanted(&step, &facts(), &policy(), &[], wall(0));
        let all = format!("{message}; asked for by {BY_PERSON} (kernel)");
        assert_eq!(wanted[0].message, all);
    }
}

/// Where nothing is evicted nothing is drained, whatever the phase is called.
#[test]
fn a_node_that_evicts_nothing_is_not_drained() {
    let mut step = step(Phase::Rebooting, Some(Stage::Rebooting));
    step.record.hold.as_mut().unwrap().alone = true;
    let wanted = wanted(&step, &facts(), &policy(), &[], wall(0));
    assert_eq!(
        line(&wanted),
        "RebootRequired=True MaintenanceInProgress=True"
    );
}

/// Nor where the drain may have ended with pods that are left.
#[test]
fn i8_a_drain_that_may_leave_pods_behind_is_not_called_done() {
    let step = step(Phase::Verifying, Some(Stage::Rebooting));
    for (leaves_pods, drained) in [(false, true), (true, false)] {
        let policy = Policy {
            leaves_pods,
            ..policy()
        };
        let wanted = wanted(&step, &facts(), &policy, &[], wall(0));
        let said = wanted.iter().any(|one| one.kind == Kind::Drained);
        assert_eq!(said, drained, "leaves pods: {leaves_pods}");
    }
}

/// Who moves data away before a maintenance is not to begin and stop each time a gate opens and closes.
#[test]
fn a_node_that_keeps_its_place_in_the_queue_stays_planned() {
    let mut pending = step(Phase::Pending, None);
    pending.record.waiting = Some(crate::slot::Waiting {
        group: "default".to_owned(),
        since: wall(0),
    });
    let wanted = wanted(&pending, &facts(), &policy(), &[], wall(0));
    assert_eq!(line(&wanted), "RebootRequired=True MaintenancePlanned=True");
}

/// I8: a trigger that gives no answer is no no.
#[test]
fn i8_what_cannot_be_asked_is_unknown() {
    for (reason, status) in [
        (Reason::Idle, Status::False),
        (Reason::TriggerUnknown, Status::Unknown),
        (Reason::NotCleared, Status::True),
        (Reason::RolledBack, Status::True),
    ] {
        let step = Step {
            reason,
            ..step(Phase::Idle, None)
        };
        let wanted = wanted(&step, &facts(), &policy(), &[], wall(0));
        assert_eq!(wanted[0].status, status, "{reason}");
        assert_eq!(wanted[0].message, "the status");
    }
}

#[test]
fn conditions_of_others_stay_theirs() {
    let theirs = |status| shown(Kind::MaintenancePlanned, status, "AdminRequested");
    let own = |status| shown(Kind::MaintenancePlanned, status, OURS);
    let (idle, queued) = (step(Phase::Idle, None), step(Phase::Queued, None));
    for (what, step, there, expected) in [
        ("theirs, and we are idle", &idle, theirs(Status::True), ""),
        ("theirs, ended", &idle, theirs(Status::False), ""),
        ("ours", &idle, own(Status::True), "MaintenancePlanned=False"),
        ("both", &queued, theirs(Status::True), ""),
        (
            "theirs, ended, now ours",
            &queued,
            theirs(Status::False),
            "MaintenancePlanned=True",
        ),
        (
            "ours still",
            &queued,
            own(Status::True),
            "MaintenancePlanned=True",
        ),
    ] {
        let wanted = wanted(step, &facts(), &policy(), &[there], wall(0));
        assert_eq!(line(&wanted[1..]), expected, "{what}");
    }
    let all = [
        theirs(Status::True),
        shown(Kind::Drained, Status::True, OURS),
    ];
    assert_eq!(line(&ours(&all)), "Drained=True");
}

#[test]
fn a_status_that_stays_keeps_its_time() {
    let queued = step(Phase::Queued, None);
    let there = shown(Kind::RebootRequired, Status::True, "Paused");
    let first = wanted(&queued, &facts(), &policy(), &[there], wall(0));
    assert_eq!(first[0].since, Some(wall(-100)), "still required");
    assert_eq!(first[1].since, Some(wall(0)), "planned since now");
    let idle = step(Phase::Idle, None);
    let last = wanted(&idle, &facts(), &policy(), &first, wall(50));
    assert_eq!(last[0].since, Some(wall(50)));
}

#[test]
fn what_differs_is_told_apart() {
    let one = shown(Kind::RebootRequired, Status::True, "Queued");
    let words = Condition {
        message: "other".to_owned(),
        ..one.clone()
    };
    let later = Condition {
        since: None,
        ..one.clone()
    };
    let no = Condition {
        status: Status::False,
        ..one.clone()
    };
    for (what, wanted, expected) in [
        ("the same, later", &later, Difference::None),
        ("words", &words, Difference::Words),
        ("status", &no, Difference::State),
    ] {
        let wanted = std::slice::from_ref(wanted);
        let there = std::slice::from_ref(&one);
        assert_eq!(difference(wanted, there), expected, "{what}");
    }
    assert_eq!(difference(&[one], &[]), Difference::State);
}

fn message_of(step: &Step, facts: &Facts) -> String {
    let wanted = wanted(step, facts, &policy(), &[], wall(0));
    wanted[0].message.clone()
}

/// A thousand nodes that wait do not all write their Nodes when a slot changes hands.
#[test]
fn who_waits_names_no_holder() {
    let mut facts = facts();
    let mut queued = step(Phase::Queued, None);
    let free = message_of(&queued, &facts);
    let lease = Lease {
        holder: Some("n7".to_owned()),
        ..Lease::free("default", "default")
    };
    facts.leases.insert("default".to_owned(), lease);
    assert_eq!(message_of(&queued, &facts), free);
    assert!(free.contains("waiting for a slot of the group default"));
    let asked = format!("; asked for by {BY_PERSON} (kernel)");
    assert!(free.ends_with(&asked), "{free}");
    queued.reason = Reason::TooFewAvailable;
    queued.waits = Some("2 of 10 nodes are not Ready: n3, n4".to_owned());
    let few = message_of(&queued, &facts);
    let names_none = few.contains("too few nodes") && !few.contains("n3");
    assert!(names_none, "{few}");
    // What only a person can mend is said whole.
    queued.reason = Reason::NoSlot;
    queued.waits = Some("no Lease is labelled so".to_owned());
    let none = message_of(&queued, &facts);
    assert!(none.contains("default: no Lease is labelled so;"), "{none}");
}

/// Scripts call it again and again, each time as another process.
#[test]
fn a_package_manager_has_no_number() {
    let pending = step(Phase::Pending, None);
    let said = ["apt works (process 7)", "apt works (process 8)"].map(|why| {
        let mut facts = facts();
        facts.closed = vec![Closed {
            gate: Gate::PackageManager,
            why: why.into(),
            opens: None,
        }];
        message_of(&pending, &facts)
    });
    assert_eq!(said[0], said[1]);
    assert!(said[0].starts_with("reboot pending: a package manager works"));
}

/// Nor does an observer name who holds the slot that it would wait for.
#[test]
fn an_observer_says_the_same_whoever_holds_the_slot() {
    let said = ["wait: default is held by n7", "wait: default is held by n8"].map(|would| {
        let observing = Step {
            reason: Reason::Observing,
            status: format!("observing: would {would}"),
            would: Some(would.to_owned()),
            ..step(Phase::Pending, None)
        };
        message_of(&observing, &facts())
    });
    assert_eq!(said[0], said[1]);
    assert!(said[0].starts_with("observing: "));
}

/// What keeps the slot although the node is proved, or undone, is the cure.
#[test]
fn a_slot_that_cannot_be_given_up_says_why() {
    let mut facts = facts();
    facts.denied = Some("denied; kube-rebootd manifests".to_owned());
    for phase in [Phase::Releasing, Phase::Undoing] {
        let said = message_of(&step(phase, Some(Stage::Releasing)), &facts);
        assert!(said.contains(": denied; kube-rebootd manifests"), "{said}");
    }
}

#[test]
fn a_message_says_what_is_waited_for() {
    let mut facts = facts();
    facts.closed = vec![Closed {
        gate: Gate::Settle,
        why: "sentinel settles".into(),
        opens: Some(Duration::from_secs(7)),
    }];
    let pending = step(Phase::Pending, None);
    assert!(message_of(&pending, &facts).starts_with("reboot pending: sentinel settles; asked"));
    facts.closed.clear();
    facts.drain = Drained::Going {
        escalate: Vec::new(),
        deleted: false,
        evict: Vec::new(),
        words: "7 pods left, grace ends in 5 s".to_owned(),
        spent: Duration::ZERO,
        confirm: false,
        unseen: false,
        wake: None,
        blocked: ["a", "b", "c", "d"].map(blocker).to_vec(),
    };
    let draining = step(Phase::Draining, Some(Stage::Draining));
    let said = message_of(&draining, &facts);
    let expected = "draining: pod shop/a is blocked by budget shop/web; pod shop/b is blocked by budget shop/web; pod shop/c is blocked by budget shop/web; asked";
    assert!(said.starts_with(expected), "{said}");
    let undoing = step(
        Phase::Undoing,
        Some(Stage::Undoing(Why::Drain("too long".to_owned()))),
    );
    assert!(message_of(&undoing, &facts).starts_with("undoing: "));
}

fn blocker(name: &str) -> Blocker {
    Blocker {
        pod: PodRef {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
        },
        why: "would violate it".to_owned(),
        budget: Some("shop/web".to_owned()),
    }
}

/// Alert rules and other programs name them.
#[test]
fn names_are_read_as_they_are_written() {
    for kind in Kind::ALL {
        assert_eq!(Kind::of(kind.name()), Some(kind));
    }
    assert_eq!(Kind::of("Ready"), None);
    for status in [Status::True, Status::False, Status::Unknown] {
        assert_eq!(Status::of(status.name()), status);
    }
    assert_eq!(Status::of(""), Status::Unknown);
}

/// An operator looks up what kubectl prints.
#[test]
fn every_reason_is_explained() {
    let page = include_str!("../../../../docs/operating.md");
    let (_, page) = page.split_once("## Seen from the cluster").unwrap();
    let (page, _) = page.split_once("\n## ").unwrap();
    for reason in Reason::ALL {
        assert!(page.contains(&format!("`{reason}`")), "{reason}");
    }
    let mut names: Vec<&str> = Reason::ALL.map(Reason::name).into();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Reason::ALL.len());
}

#[test]
fn operating_md_names_every_reason_that_needs_a_person() {
    let page = include_str!("../../../../docs/operating.md");
    let (_, rest) = page
        .split_once("A person has to look at")
        .expect("the sentence");
    let (list, _) = rest.split_once(';').expect("its end");
    for reason in Reason::ALL {
        let named = list.contains(&format!("`{}`", reason.name()));
        assert_eq!(named, reason.needs_person(), "{reason}");
        assert_eq!(Reason::of_name(reason.name()), Some(reason));
    }
}

/// What came between two reasons may not have been told: an Event says of the past what is certain alone.
#[test]
fn an_event_says_what_is_certain() {
    let shows = |reason: Reason| {
        vec![Condition {
            kind: Kind::RebootRequired,
            status: Status::True,
            reason: reason.name().to_owned(),
            message: "pod shop/a".to_owned(),
            since: None,
        }]
    };
    let rows = [
        (
            Reason::Verifying,
            Reason::Idle,
            "the host has rebooted; no reboot is required",
        ),
        (
            Reason::Unhealthy,
            Reason::Releasing,
            "healthy after the reboot, giving the slot back",
        ),
        (
            Reason::Undoing,
            Reason::Paused,
            "the attempt was given up; a reboot is required, and the node or its group is paused",
        ),
        // It may have rebooted, and been proved meanwhile; or given up.
        (Reason::Rebooting, Reason::Idle, "no reboot is required"),
        (Reason::NotReleased, Reason::Idle, "no reboot is required"),
        (Reason::Draining, Reason::Queued, "waiting for a slot"),
    ];
    for (before, now, words) in rows {
        let event = Event::of(&shows(now), &shows(before)).expect("another reason");
        assert_eq!(event.message(), words, "{before} {now}");
        assert_eq!(Event::of(&shows(now), &shows(now)), None);
    }
    assert_eq!(Event::of(&shows(Reason::Idle), &[]), None);
    for reason in Reason::ALL {
        // What kubectl prints is one line, and names nobody.
        let event = Event::of(&shows(reason), &[]);
        let words = event.map_or_else(String::new, |event| event.message());
        assert!(!words.contains("shop") && words.len() < 100, "{words}");
        let told = [Reason::BackingOff, Reason::PodDeleted].contains(&reason);
        let warns = reason.needs_person() || told;
        assert!(event.is_none_or(|event| event.warning() == warns));
    }
}

/// Whoever looks at the Node sees why a change does not count, and still what the node does.
#[test]
fn i12_a_refused_configuration_is_behind_the_message_and_never_cut_off() {
    let mut facts = facts();
    facts.config_error = Some(ConfigError {
        problems: vec![Problem {
            file: "/etc/kube-rebootd/config.d/10.toml".into(),
            line: Some(3),
            key: "drain.timeout".to_owned(),
            reason: "is a number".to_owned(),
        }],
    });
    let end = "; configuration refused and not in use: /etc/kube-rebootd/config.d/10.toml:3: drain.timeout";
    let mut idle = step(Phase::Idle, None);
    for status in ["the status".to_owned(), "x".repeat(2 * MESSAGE)] {
        idle.status = status;
        let required = required(&idle, &facts, &policy());
        assert_eq!(required.reason, "Idle");
        assert!(required.message.ends_with(end), "{}", required.message);
        assert!(required.message.chars().count() <= MESSAGE);
        assert!(required.message.starts_with(&idle.status[..10]));
    }
}

/// What people are told besides; of a node that somebody only keeps drained, what a person has to look at.
#[test]
fn a_node_that_is_kept_drained_is_told_to_nobody_but_where_it_needs_somebody() {
    for (before, now, of_reboot, of_maintenance) in [
        ("Idle", "Draining", Some(Topic::Draining), None),
        ("Draining", "Maintenance", None, None),
        ("Verifying", "Releasing", Some(Topic::Rebooted), None),
        ("Verifying", "Idle", Some(Topic::Rebooted), None),
        ("Undoing", "BackingOff", Some(Topic::Failed), None),
        (
            "Verifying",
            "Unhealthy",
            Some(Topic::Person),
            Some(Topic::Person),
        ),
    ] {
        for (status, expected) in [(Status::True, of_reboot), (Status::False, of_maintenance)] {
            let wanted = [shown(Kind::RebootRequired, status, now)];
            let there = [shown(Kind::RebootRequired, status, before)];
            assert_eq!(
                topic(&wanted, &there),
                expected,
                "{before} to {now}, {status}"
            );
        }
    }
    // The end of a reboot is told although none is required any more.
    let (wanted, there) = (Status::False, Status::True);
    let wanted = [shown(Kind::RebootRequired, wanted, "Idle")];
    let there = [shown(Kind::RebootRequired, there, "Verifying")];
    assert_eq!(topic(&wanted, &there), Some(Topic::Rebooted));
}
