//! Orders: what they change, and when they are refused.

use super::*;
use crate::config::Mode;
use crate::facts::Rehearsed;
use crate::gates::Gate;
use crate::order::{Order, OrderError};
use crate::record::{Backoff, Why};
use crate::trigger::{BY_ANNOTATION, BY_NOW, BY_SCHEDULE, Reason};

fn ask(machine: &mut Machine, order: &Order) -> Vec<String> {
    let ordered = machine.order(order, now()).expect("it is done");
    let words = ordered.words.clone();
    machine.ordered(ordered);
    machine.observe(&[], now());
    machine.judge(&[], now());
    words
}

fn asked(machine: &Machine) -> Vec<&str> {
    let request = machine.facts.observed.request.as_ref();
    let latched = request.map_or(&[][..], |request| &request.latched);
    latched.iter().map(|wish| wish.by.as_str()).collect()
}

fn failed(machine: &mut Machine) {
    machine.facts.record.backoff = Some(Backoff {
        failures: 3,
        boot: boot("now"),
        until: NOW + Duration::from_secs(3600),
        why: "the drain failed".to_owned(),
    });
}

#[test]
fn a_reboot_is_a_wish_of_this_boot_until_it_is_taken_back() {
    let mut machine = idle();
    let words = ask(&mut machine, &Order::reboot("new firmware", false));
    assert_eq!(
        words,
        ["asked to reboot when it is this node's turn: new firmware"]
    );
    assert_eq!(asked(&machine), [BY_PERSON]);
    let request = machine.facts.observed.request.clone().unwrap();
    assert!(!request.automatic() && !request.urgent());
    assert_eq!(request.latched[0].boot, Some(boot("now")));
    // Asked again, it is the same wish.
    ask(&mut machine, &Order::reboot("  ", true));
    assert_eq!(asked(&machine), [BY_NOW]);
    let request = machine.facts.observed.request.clone().unwrap();
    assert!(!request.automatic() && request.urgent());
    assert_eq!(request.latched[0].reason, "no reason given");
    let words = ask(&mut machine, &Order::Cancel);
    assert_eq!(
        words,
        ["taken back: kube-rebootd reboot --now (no reason given)"]
    );
    assert_eq!(machine.facts.record.request, None);
    let words = ask(&mut machine, &Order::Cancel);
    assert_eq!(words, ["nobody asked on this host itself for a reboot"]);
}

/// Whoever rebooted the host has done what was asked for.
#[test]
fn a_reboot_that_was_asked_for_is_not_done_twice() {
    let mut machine = idle();
    ask(&mut machine, &Order::reboot("", false));
    machine.facts.boot = boot("next");
    machine.observe(&[], now());
    assert_eq!(machine.facts.observed.request, None);
}

#[test]
fn a_cancellation_leaves_what_was_not_asked_here() {
    let mut machine = idle();
    ask(&mut machine, &Order::reboot("", false));
    let request = machine.facts.record.request.as_mut().unwrap();
    for by in [BY_SCHEDULE, BY_ANNOTATION] {
        let wish = request.latched[0].clone();
        request.latched.push(Latched {
            by: by.to_owned(),
            ..wish
        });
    }
    request.reasons.push(Reason {
        trigger: "sentinel /run/reboot-required".to_owned(),
        pkgs: std::collections::BTreeSet::new(),
        words: String::new(),
        since: wall(),
        since_boot: NOW,
    });
    let ordered = machine.order(&Order::Cancel, now()).unwrap();
    let left = ordered.record.request.unwrap();
    assert_eq!(left.latched.len(), 1);
    assert_eq!(
        ordered.words,
        [
            "taken back: kube-rebootd reboot (no reason given)",
            "taken back: scheduled shutdown (no reason given)",
            "this goes on to ask for it: sentinel /run/reboot-required",
            "this goes on to ask for it: node annotation",
        ]
    );
}

/// `--now` opens what a person may judge, and nothing else.
#[test]
fn only_now_skips_the_time_after_a_boot() {
    let gates = |order: &Order| {
        let mut machine = wanted();
        machine.config.gates.min_uptime = NOW * 2;
        machine.facts.record.request = None;
        ask(&mut machine, order);
        let closed = machine.facts.closed.iter().map(|closed| closed.gate);
        closed.collect::<Vec<_>>()
    };
    assert_eq!(gates(&Order::reboot("", false)), [Gate::MinUptime]);
    assert_eq!(gates(&Order::reboot("", true)), []);
}

#[test]
fn a_wait_after_a_failure_ends_and_stays_counted() {
    for (order, ends) in [
        (Order::Retry, true),
        (Order::reboot("", true), true),
        (Order::reboot("", false), false),
    ] {
        let mut machine = wanted();
        failed(&mut machine);
        machine.facts.rehearsed = Some(Rehearsed {
            at: NOW,
            said: Err("a policy".to_owned()),
        });
        let words = ask(&mut machine, &order);
        let backoff = machine.facts.record.backoff.clone().unwrap();
        assert_eq!((backoff.until <= NOW, backoff.failures), (ends, 3));
        assert_eq!(machine.facts.rehearsed.is_none(), ends);
        let told = |why: &str| words.iter().any(|line| line.ends_with(why));
        assert_eq!(
            (told("the drain failed"), told("a policy")),
            (ends, ends),
            "{words:?}"
        );
    }
    let words = ask(&mut wanted(), &Order::Retry);
    assert_eq!(words, ["it does not wait after a failure"]);
}

/// I10: an attempt that fails after `--now` backs off as any other.
#[test]
fn i10_what_is_asked_for_now_is_not_tried_at_full_speed() {
    let mut machine = wanted();
    ask(&mut machine, &Order::reboot("", true));
    failed(&mut machine);
    machine.observe(&[], now());
    machine.judge(&[], now());
    let policy = machine.policy(Some("n1"));
    let step = machine.next(&policy, now());
    assert_eq!(step.phase, Phase::Pending);
    assert_eq!(step.reason, crate::condition::Reason::Failing);
}

#[test]
fn a_pause_is_told_to_whoever_asks() {
    let mut machine = wanted();
    let mut node = Node::ready();
    let pause = (crate::names::PAUSED.to_owned(), "training".to_owned());
    node.annotations.extend([pause]);
    machine.facts.node = Seen::Present(Box::new(node));
    machine.judge(&[], now());
    let words = ask(&mut machine, &Order::reboot("", true));
    assert_eq!(
        words[1],
        "it waits as long as this lasts: node paused: training"
    );
    assert!(
        machine
            .facts
            .closed
            .iter()
            .any(|closed| closed.gate == Gate::NodePaused)
    );
}

/// I6: what the reboot is for must not change once logind may have been asked.
#[test]
fn i6_an_order_is_refused_where_it_would_pass_for_served() {
    let asks = |mut machine: Machine| {
        machine.facts.record.hold.as_mut().unwrap().asks = 1;
        machine
    };
    let mut unread = wanted();
    unread.facts.started = false;
    let mut down = wanted();
    down.facts.shutting_down = true;
    let mut observing = wanted();
    observing.config.mode = Mode::Observe;
    let undoing = held(Stage::Undoing(Why::Withdrawn));
    let [plain, urgent] = [false, true].map(|now| Order::reboot("", now));
    use OrderError::{GivingBack, GoingDown, Observing, Proving, Starting};
    let rows = [
        (&unread, [const { Some(Starting) }; 4]),
        (
            &down,
            [Some(GoingDown), Some(GoingDown), Some(GoingDown), None],
        ),
        (&observing, [Some(Observing), Some(Observing), None, None]),
        (&held(Stage::Draining), [const { None }; 4]),
        (&held(Stage::Rebooting), [const { None }; 4]),
        (&undoing, [None, Some(GivingBack), None, Some(GivingBack)]),
        (
            &asks(held(Stage::Rebooting)),
            [Some(GoingDown), Some(GoingDown), Some(GoingDown), None],
        ),
        (
            &booted(Stage::Rebooting),
            [Some(Proving), Some(Proving), Some(Proving), None],
        ),
        (
            &booted(Stage::Releasing),
            [Some(Proving), Some(Proving), Some(Proving), None],
        ),
    ];
    for (machine, said) in rows {
        for (order, why) in [&plain, &urgent, &Order::Cancel, &Order::Retry]
            .into_iter()
            .zip(said)
        {
            let refused = machine.order(order, now()).err();
            assert_eq!(refused, why, "{order:?} {:?}", machine.phase());
        }
    }
}
