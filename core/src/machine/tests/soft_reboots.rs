//! Whether the host does the soft-reboot that is asked for: known before anything is taken or drained (I8).

use super::*;
use crate::config;
use crate::gates::{Closed, Gate};
use crate::kind::Kind;
use crate::order::{Order, OrderError};
use crate::trigger::{Finding, Verdict};

const FILE: &str = "sentinel /run/reboot-needed";
const SOFT: &str = "[reboot]\nkind = \"soft-reboot\"\n";

fn asks(kind: Option<Kind>) -> Finding {
    let verdict = Verdict::Reboot {
        pkgs: std::collections::BTreeSet::new(),
        words: String::new(),
    };
    Finding {
        kind,
        ..Finding::new(FILE, verdict, Duration::ZERO)
    }
}

/// On a host of this systemd, with this configuration.
fn machine(systemd: Option<&str>, text: &str) -> Machine {
    let mut machine = wanted();
    machine.facts.record.request = None;
    machine.facts.observed.request = None;
    let parsed = config::parse(std::path::Path::new("c"), text).unwrap();
    machine.config.reboot = parsed.config.reboot;
    let host = machine.memory.host.as_mut().unwrap();
    host.systemd = systemd.map(str::to_owned);
    machine
}

/// The gate of soft-reboots, where it is closed.
fn closed(machine: &mut Machine, findings: &[Finding]) -> Option<Closed> {
    machine.observe(findings, now());
    machine.judge(findings, now());
    let mut closed = machine.facts.closed.iter();
    closed.find(|one| one.gate == Gate::SoftReboot).cloned()
}

/// Neither is a full one done in its place, nor is the node drained first.
#[test]
fn i8_a_soft_reboot_waits_where_the_host_does_none_or_that_is_not_known() {
    let soft = [asks(Some(Kind::SoftReboot))];
    for (systemd, says) in [
        (
            Some("252.39-1~deb12u1"),
            "systemd 252 of this host has none",
        ),
        (Some("253"), "systemd 253 of this host has none"),
        (Some("next"), "it is not known whether"),
        (None, "systemd does not say"),
    ] {
        let why = closed(&mut machine(systemd, SOFT), &soft).expect(says).why;
        assert!(why.contains(says), "{why}");
    }
    for systemd in ["254", "257.13-1~deb13u1", "v262-rc1"] {
        assert_eq!(closed(&mut machine(Some(systemd), SOFT), &soft), None);
    }
    // Nobody is to look at that for a full one, and a full one serves both.
    let full = asks(Some(Kind::Reboot));
    assert_eq!(
        closed(&mut machine(None, SOFT), std::slice::from_ref(&full)),
        None
    );
    let mut second = full;
    second.trigger = "check dnf".to_owned();
    let [soft] = soft;
    assert_eq!(
        closed(&mut machine(Some("252"), SOFT), &[soft, second]),
        None
    );
}

/// PID 1 may be newer than the logind that runs.
#[test]
fn i8_what_logind_does_not_know_is_not_asked_for_again() {
    let soft = [asks(Some(Kind::SoftReboot))];
    let mut machine = machine(Some("257"), SOFT);
    assert_eq!(closed(&mut machine, &soft), None);
    machine.no_soft_reboots("logind knows no soft-reboot: Invalid flags parameter".to_owned());
    let why = closed(&mut machine, &soft).expect("closed").why;
    assert!(why.contains("restart systemd-logind"), "{why}");
}

#[test]
fn the_configuration_says_what_is_done_for_who_names_no_kind() {
    let kind = |text: &str, named| {
        let mut machine = machine(Some("257"), text);
        machine.observe(&[asks(named)], now());
        machine.facts.kind()
    };
    assert_eq!(kind("", None), Kind::Reboot);
    assert_eq!(kind(SOFT, None), Kind::SoftReboot);
    assert_eq!(kind(SOFT, Some(Kind::Reboot)), Kind::Reboot);
    assert_eq!(kind(SOFT, Some(Kind::SoftReboot)), Kind::SoftReboot);
    assert_eq!(kind("", Some(Kind::SoftReboot)), Kind::Reboot);
    // What a command does nobody knows: that it is no less than a full one is for the admin to see to.
    let command = "[reboot]\nmethod = \"command\"\ncommand = [\"/sbin/reboot\"]\n";
    assert_eq!(kind(command, Some(Kind::SoftReboot)), Kind::Reboot);
}

#[test]
fn a_person_asks_for_a_kind_or_is_told_at_once_why_not() {
    let soft = SOFT;
    for (systemd, text, named, kind) in [
        ("257", "", None, Some(Kind::Reboot)),
        ("257", "", Some(Kind::SoftReboot), Some(Kind::SoftReboot)),
        ("257", soft, None, Some(Kind::SoftReboot)),
        ("257", soft, Some(Kind::Reboot), Some(Kind::Reboot)),
        ("252", "", Some(Kind::Reboot), Some(Kind::Reboot)),
        ("252", "", Some(Kind::SoftReboot), None),
        // The gate says it: the wish stands, and is served where somebody asks for a full one.
        ("252", soft, None, Some(Kind::SoftReboot)),
    ] {
        let machine = machine(Some(systemd), text);
        let order = Order::reboot("new libraries", false, named);
        let done = machine.order(&order, now());
        let asked = done.as_ref().ok().map(|it| {
            let request = it.record.request.as_ref().unwrap();
            (request.kind(), it.words[0].clone())
        });
        match (kind, asked, done) {
            (Some(kind), Some((asked, words)), _) => {
                assert_eq!(asked, kind);
                assert!(
                    words.contains(&format!("asked to {}", kind.name())),
                    "{words}"
                );
            }
            (None, None, Err(OrderError::NoSoftReboot(why))) => assert!(why.contains("252")),
            (kind, asked, _) => panic!("{systemd} {text} {named:?}: {kind:?} {asked:?}"),
        }
    }
}

/// A second person's wish takes the place of the first one's, and must not make it weaker.
#[test]
fn a_wish_that_is_made_anew_is_as_strong_as_before() {
    let mut machine = machine(Some("257"), "");
    for (named, kind) in [
        (Kind::SoftReboot, Kind::SoftReboot),
        (Kind::Reboot, Kind::Reboot),
        (Kind::SoftReboot, Kind::Reboot),
    ] {
        let order = Order::reboot("firmware", false, Some(named));
        let ordered = machine.order(&order, now()).unwrap();
        assert!(ordered.words[0].contains(&format!("asked to {} when", kind.name())));
        machine.ordered(ordered);
        let request = machine.facts.record.request.clone().unwrap();
        assert_eq!((request.latched.len(), request.kind()), (1, kind));
    }
}

/// A deployment that is staged comes with a full one alone, and who names no kind may wait for it.
#[test]
fn i8_a_wish_beside_a_staged_deployment_gets_a_full_one() {
    let mut machine = machine(Some("257"), SOFT);
    machine.memory.staged = Some("abc".to_owned());
    for (named, kind) in [
        (None, Kind::Reboot),
        (Some(Kind::SoftReboot), Kind::SoftReboot),
    ] {
        let order = Order::reboot("new libraries", false, named);
        let ordered = machine.order(&order, now()).unwrap();
        assert_eq!(ordered.record.request.unwrap().kind(), kind);
    }
}

/// A systemd that does not answer once is the same as before.
#[test]
fn i7_one_silent_answer_of_systemd_closes_nothing() {
    let soft = [asks(Some(Kind::SoftReboot))];
    let mut machine = machine(Some("257"), SOFT);
    let mut silent = machine.memory.host.clone().unwrap();
    silent.systemd = None;
    machine.saw_host(silent);
    assert_eq!(closed(&mut machine, &soft), None);
}

/// A full one that is asked for serves the soft one that waits for ever else.
#[test]
fn a_full_reboot_that_a_person_asks_for_ends_the_wait() {
    let soft = [asks(Some(Kind::SoftReboot))];
    let mut machine = machine(Some("252"), SOFT);
    assert!(closed(&mut machine, &soft).is_some());
    let order = Order::reboot("it waits", false, Some(Kind::Reboot));
    let ordered = machine.order(&order, now()).unwrap();
    machine.ordered(ordered);
    assert_eq!(closed(&mut machine, &soft), None);
}

/// systemd's timestamp alone tells a soft-reboot, and with it ends what is bound to a boot.
#[test]
fn i6_a_new_userspace_is_a_new_boot_for_the_record() {
    let (before, now) = (
        boot("now"),
        Boot {
            userspace: 2,
            ..boot("now")
        },
    );
    let mut record = Record {
        hold: Some(Hold {
            asks: 1,
            kind: Kind::SoftReboot,
            ..hold(Stage::Rebooting)
        }),
        ..Record::default()
    };
    assert_eq!(record.phase(Some(&before)), Phase::Rebooting);
    assert_eq!(record.phase(Some(&now)), Phase::Verifying);
    assert_eq!(record.kind(), Some(Kind::SoftReboot));
    let held = record.hold.as_ref().unwrap();
    assert!(held.settles(&before) && held.settles(&now));
    let given = record
        .give_back(
            &now,
            Now {
                wall: wall(),
                boot: Duration::ZERO,
            },
        )
        .expect("a hold");
    assert_eq!(given.history[0].kind, Kind::SoftReboot);
    record.hold = None;
    assert_eq!(record.kind(), None);
}
