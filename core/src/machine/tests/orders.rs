//! Orders: what they change, and when they are refused.

use super::*;
use crate::config::Mode;
use crate::facts::Rehearsed;
use crate::gates::Gate;
use crate::order::Order;
use crate::order::OrderError::{GivingBack, GoingDown, Kept, Observing, Proving, Starting};
use crate::record::Record;
use crate::record::{Backoff, Why};
use crate::times::Times;
use crate::trigger::{BY_ANNOTATION, BY_NOW, BY_SCHEDULE, Keeper, Reason, Request};

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
    let words = ask(&mut machine, &Order::reboot("new firmware", false, None));
    assert_eq!(
        words,
        ["asked to reboot when it is this node's turn: new firmware"]
    );
    assert_eq!(asked(&machine), [BY_PERSON]);
    let request = machine.facts.observed.request.clone().unwrap();
    assert!(!request.automatic() && !request.urgent());
    assert_eq!(request.latched[0].boot, Some(boot("now")));
    // Asked again, it is the same wish.
    ask(&mut machine, &Order::reboot("  ", true, None));
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
    ask(&mut machine, &Order::reboot("", false, None));
    machine.facts.boot = boot("next");
    machine.observe(&[], now());
    assert_eq!(machine.facts.observed.request, None);
}

#[test]
fn a_cancellation_leaves_what_was_not_asked_here() {
    let mut machine = idle();
    ask(&mut machine, &Order::reboot("", false, None));
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
        later: std::collections::BTreeMap::new(),
        kind: crate::kind::Kind::Reboot,
        mark: None,
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
    assert_eq!(gates(&Order::reboot("", false, None)), [Gate::MinUptime]);
    assert_eq!(gates(&Order::reboot("", true, None)), []);
}

#[test]
fn a_wait_after_a_failure_ends_and_stays_counted() {
    for (order, ends) in [
        (Order::Retry, true),
        (Order::reboot("", true, None), true),
        (Order::reboot("", false, None), false),
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
    ask(&mut machine, &Order::reboot("", true, None));
    failed(&mut machine);
    machine.observe(&[], now());
    machine.judge(&[], now());
    let policy = machine.policy(Some("n1"));
    let step = machine.next(&policy, now());
    assert_eq!(step.phase, Phase::Pending);
    assert_eq!(step.reason, crate::reason::Reason::Failing);
}

#[test]
fn a_pause_is_told_to_whoever_asks() {
    let mut machine = wanted();
    let mut node = Node::ready();
    let pause = (crate::names::PAUSED.to_owned(), "training".to_owned());
    node.annotations.extend([pause]);
    machine.facts.node = Seen::Present(Box::new(node));
    machine.judge(&[], now());
    let words = ask(&mut machine, &Order::reboot("", true, None));
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
    let [plain, urgent] = [false, true].map(|now| Order::reboot("", now, None));
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

fn keepers(record: &Record) -> Vec<&'static str> {
    let kept = record.request.iter().flat_map(Request::kept);
    kept.map(|(keeper, _)| keeper.begins()).collect()
}

#[test]
fn a_node_is_drained_for_a_person_and_a_script_until_neither_wants_it() {
    let mut machine = idle();
    let drain = Order::drain(Keeper::Person, "a new disk");
    let words = ask(&mut machine, &drain);
    let asked =
        "asked to be drained when it is this node's turn, until kube-rebootd undrain: a new disk";
    assert_eq!(words, [asked]);
    // Asked again, it is the same wish; nothing of it is a reboot.
    ask(&mut machine, &drain);
    ask(&mut machine, &Order::drain(Keeper::Script, ""));
    let both = ["kube-rebootd drain", "kube-rebootd hold"];
    assert_eq!(keepers(&machine.facts.record), both);
    let request = machine.facts.record.request.clone().unwrap();
    assert!(!request.reboots() && !request.automatic());
    let words = ask(&mut machine, &Order::Undrain(Keeper::Person));
    assert_eq!(
        words,
        [
            "taken back: kube-rebootd drain (a new disk)",
            "it stays drained until kube-rebootd release: no reason given"
        ]
    );
    ask(&mut machine, &Order::Undrain(Keeper::Script));
    assert_eq!(machine.facts.record.request, None);
    let words = ask(&mut machine, &Order::Undrain(Keeper::Script));
    assert_eq!(words, ["nobody asked by kube-rebootd hold"]);
}

/// Kept drained: what the slot was held for stays on record for the history, in whatever boot it ends.
#[test]
fn a_wish_that_was_served_ends_and_stays_on_record() {
    let drain = Order::drain(Keeper::Person, "a new disk");
    let mut machine = booted(Stage::Drained);
    machine.facts.record.request = None;
    // With nobody who keeps it, it is being proved.
    assert_eq!(machine.order(&drain, now()), Err(Proving));
    let mut machine = held(Stage::Drained);
    machine.facts.record.request = None;
    ask(&mut machine, &drain);
    assert_eq!(machine.phase(), Phase::Drained);
    machine.facts.boot = boot("next");
    let words = ask(&mut machine, &Order::drain(Keeper::Script, ""));
    assert!(words[0].starts_with("the node is drained, and stays so until"));
    ask(&mut machine, &Order::Undrain(Keeper::Script));
    let words = ask(&mut machine, &Order::Undrain(Keeper::Person));
    let proof = "the host is proved healthy, then the node is uncordoned and its slot given up";
    assert_eq!(words[1], proof);
    assert_eq!(machine.phase(), Phase::Verifying);
    let request = machine.facts.record.request.clone().unwrap();
    assert_eq!(request.latched.len(), 2);
    assert!(!request.keeps() && !request.automatic());
    // Said twice, it is still there.
    ask(&mut machine, &Order::Undrain(Keeper::Person));
    assert_eq!(machine.facts.record.request, Some(request));
}

/// Gates that speak against a reboot alone keep nobody from his maintenance; no reboot comes of it.
#[test]
fn what_speaks_against_a_reboot_does_not_speak_against_a_drain() {
    let gates = |order: &Order| {
        let mut machine = wanted();
        machine.config.gates.min_uptime = NOW * 2;
        machine.facts.record.request = None;
        machine.saw_packages(Err("dpkg works".to_owned()), now());
        let mut busy = host(NOW);
        busy.inhibitors = None;
        machine.saw_host(busy);
        let mut node = Node::ready();
        let pause = (crate::names::PAUSED.to_owned(), "training".to_owned());
        node.annotations.extend([pause]);
        machine.facts.node = Seen::Present(Box::new(node));
        ask(&mut machine, order);
        let closed = machine.facts.closed.iter().map(|closed| closed.gate);
        closed.collect::<Vec<_>>()
    };
    let drain = Order::drain(Keeper::Person, "");
    assert_eq!(gates(&drain), [Gate::NodePaused]);
    let reboot = [
        Gate::NodePaused,
        Gate::Inhibitors,
        Gate::PackageManager,
        Gate::MinUptime,
    ];
    assert_eq!(gates(&Order::reboot("", false, None)), reboot);
}

#[test]
fn i6_a_drain_is_refused_where_it_could_not_be_heard() {
    let mut observing = wanted();
    observing.config.mode = Mode::Observe;
    let mut asked = held(Stage::Rebooting);
    asked.facts.record.hold.as_mut().unwrap().asks = 1;
    let undoing = held(Stage::Undoing(Why::Withdrawn));
    for (machine, why) in [
        (&observing, Observing),
        (&asked, GoingDown),
        (&booted(Stage::Draining), Proving),
        (&undoing, GivingBack),
    ] {
        let drain = Order::drain(Keeper::Script, "");
        assert_eq!(machine.order(&drain, now()), Err(why));
        assert!(
            machine
                .order(&Order::Undrain(Keeper::Script), now())
                .is_ok()
        );
    }
}

/// A shutdown that somebody schedules while he works on the host is his.
#[test]
fn a_shutdown_is_not_taken_over_while_the_node_is_kept_drained() {
    let mut machine = held(Stage::Drained);
    machine.config.triggers.scheduled_shutdown = crate::config::Adoption::Adopt;
    let in_an_hour = wall()
        .checked_add(jiff::SignedDuration::from_hours(1))
        .unwrap();
    let mut seen = host(NOW);
    seen.scheduled = Some(crate::shutdown::Scheduled {
        kind: "reboot".to_owned(),
        at: in_an_hour,
    });
    machine.saw_host(seen);
    machine.observe(&[], now());
    assert!(machine.facts.adopts.is_some(), "nobody keeps it");
    ask(&mut machine, &Order::drain(Keeper::Person, ""));
    assert_eq!(machine.facts.adopts, None);
}

/// Found by review: taken back while another boot is proved, it left nothing to say what the reboot was for, which then counted
/// as one that no person asked for (I10).
#[test]
fn i10_what_a_reboot_was_for_stays_on_record_until_it_is_proved() {
    let mut machine = booted(Stage::Draining);
    machine.facts.record.request = None;
    let drain = Latched {
        by: Keeper::Person.begins().to_owned(),
        ..request().latched[0].clone()
    };
    machine.facts.record.request = Some(Request {
        latched: vec![drain],
        ..request()
    });
    ask(&mut machine, &Order::Undrain(Keeper::Person));
    let left = machine.facts.record.request.clone().unwrap();
    assert!(!left.keeps() && !left.automatic());
}

/// Found by review: each order set the times of the cycle back to when the record was written last, and a cancelled request
/// left its times to the next one.
#[test]
fn orders_keep_the_times_of_a_cycle_and_end_them_with_it() {
    let mut machine = wanted();
    let times = Times {
        undone: 600,
        ..Times::default()
    };
    machine.facts.times = times.clone();
    ask(&mut machine, &Order::Retry);
    assert_eq!(machine.facts.record.times, Some(times));
    ask(&mut machine, &Order::Cancel);
    assert_eq!(
        (&machine.facts.record.request, &machine.facts.record.times),
        (&None, &None)
    );
}

#[test]
fn who_keeps_a_rebooted_node_drained_is_told_how_that_ends() {
    let mut machine = booted(Stage::Drained);
    machine.facts.record.request = Some(Request {
        latched: vec![Latched {
            by: Keeper::Script.begins().to_owned(),
            ..request().latched[0].clone()
        }],
        ..request()
    });
    for order in [Order::reboot("", false, None), Order::Cancel] {
        assert_eq!(machine.order(&order, now()), Err(Kept));
    }
}
