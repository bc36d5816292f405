//! Which reboots wait for nothing but a newer kernel (I2, I8).

use super::*;
use crate::gates::Gate;
use crate::trigger::{Builtin, Finding, Verdict};

const DAY: u64 = 24 * 3600;

fn asks(trigger: &str, pkgs: &[&str]) -> Finding {
    Finding {
        trigger: trigger.to_owned(),
        verdict: Verdict::Reboot {
            pkgs: pkgs.iter().map(|one| (*one).to_owned()).collect(),
            words: "a newer kernel".to_owned(),
        },
        settle: Duration::ZERO,
        kind: None,
        mark: None,
    }
}

/// One that a newer kernel asks for a reboot, with this patch applied.
fn machine(text: &str) -> Machine {
    let mut machine = machine_of_nothing();
    let parsed = crate::config::parse(std::path::Path::new("c"), text).unwrap();
    machine.config.gates = parsed.config.gates;
    machine.memory.booted = Some(Booted {
        kernel: "6.8.0-45".to_owned(),
        ..Booted::default()
    });
    let patches = vec!["kpatch_1".to_owned()];
    machine.memory.host.as_mut().unwrap().live_patches = Some(patches);
    machine
}

fn machine_of_nothing() -> Machine {
    let mut machine = wanted();
    machine.facts.record.request = None;
    machine.facts.observed.request = None;
    machine
}

fn later(seconds: u64) -> Now {
    let now = now();
    Now {
        wall: now.wall + jiff::SignedDuration::from_secs(seconds.cast_signed()),
        boot: now.boot + Duration::from_secs(seconds),
    }
}

fn shut(machine: &mut Machine, findings: &[Finding], now: Now) -> bool {
    let host = machine.memory.host.clone().unwrap();
    machine.saw_host(HostNow {
        read: now.boot,
        ..host
    });
    machine.observe(findings, now);
    machine.judge(findings, now);
    // What was found is on record by the next step.
    machine
        .facts
        .record
        .request
        .clone_from(&machine.facts.observed.request);
    let mut closed = machine.facts.closed.iter();
    closed.any(|one| one.gate == Gate::LivePatches)
}

const WAIT: &str = "[gates]\nlive_patch_wait = \"14d\"\n";

#[test]
fn i2_a_newer_kernel_waits_as_long_as_live_patches_are_applied() {
    let kernel = [asks(&Builtin::Kernel.trigger(), &["6.8.0-47"])];
    assert!(!shut(&mut machine(""), &kernel, now()), "by default");
    let mut machine = machine(WAIT);
    assert!(shut(&mut machine, &kernel, now()));
    assert!(shut(&mut machine, &kernel, later(14 * DAY - 1)));
    assert!(!shut(&mut machine, &kernel, later(14 * DAY)));
}

#[test]
fn i2_what_else_asks_waits_for_no_patch() {
    let kernel = asks(&Builtin::Kernel.trigger(), &["6.8.0-47"]);
    let mut machine = machine(WAIT);
    assert!(shut(&mut machine, std::slice::from_ref(&kernel), now()));
    // A check has no list of packages: it may mean anything.
    let both = [kernel.clone(), asks("check dnf", &[])];
    assert!(!shut(&mut machine, &both, later(60)));
    // Its modules have gone: what is needed next cannot be loaded any more.
    let mut machine = self::machine(WAIT);
    let gone = [asks(&Builtin::Kernel.trigger(), &["6.8.0-45"])];
    assert!(!shut(&mut machine, &gone, now()));
}

#[test]
fn i8_patches_that_cannot_be_read_may_be_applied() {
    let kernel = [asks(&Builtin::Kernel.trigger(), &["6.8.0-47"])];
    let mut machine = machine(WAIT);
    for patches in [None, Some(Vec::new())] {
        machine.memory.host.as_mut().unwrap().live_patches = patches.clone();
        assert!(shut(&mut machine, &kernel, now()), "{patches:?}");
    }
    // The look before it said that there were none.
    assert!(!shut(&mut machine, &kernel, later(180)));
    machine.memory.host.as_mut().unwrap().live_patches = None;
    assert!(shut(&mut machine, &kernel, later(181)));
}

/// Found by reading: one look in the seconds in which `systemctl restart kpatch` has them off let the reboot begin.
#[test]
fn i2_patches_that_are_off_for_a_moment_are_still_there() {
    let kernel = [asks(&Builtin::Kernel.trigger(), &["6.8.0-47"])];
    let mut machine = machine(WAIT);
    let applied = machine.memory.host.as_ref().unwrap().live_patches.clone();
    let none = Some(Vec::new());
    let mut look = |patches: &Option<Vec<String>>, seconds| {
        machine
            .memory
            .host
            .as_mut()
            .unwrap()
            .live_patches
            .clone_from(patches);
        shut(&mut machine, &kernel, later(seconds))
    };
    assert!(look(&applied, 0));
    assert!(look(&none, 15) && look(&none, 30));
    assert!(look(&applied, 45));
    // From the first look that finds none to that one which finds the same long enough after it.
    for seconds in (60..240).step_by(15) {
        assert!(look(&none, seconds), "{seconds}");
    }
    assert!(!look(&none, 240));
    assert!(!look(&none, 420));
    // Nobody has looked for long: there may have been some.
    assert!(look(&none, 601) && look(&none, 780) && !look(&none, 781));
    // What cannot be read is not known to be none (I8).
    assert!(look(&None, 790) && look(&none, 800) && look(&none, 979) && !look(&none, 980));
}

/// The wait for them to stay away ends with that for the patches (I7).
#[test]
fn i7_patches_that_are_off_keep_no_reboot_waiting_longer_than_those_that_are_on() {
    let kernel = [asks(&Builtin::Kernel.trigger(), &["6.8.0-47"])];
    let mut machine = machine("[gates]\nlive_patch_wait = \"60s\"\n");
    assert!(shut(&mut machine, &kernel, now()));
    machine.memory.host.as_mut().unwrap().live_patches = Some(Vec::new());
    assert!(shut(&mut machine, &kernel, later(59)));
    assert!(!shut(&mut machine, &kernel, later(60)));
}

/// Found by review: the gate was closed for ever, although the docs say that this wait has an end.
#[test]
fn i7_patches_that_cannot_be_read_keep_no_reboot_waiting_for_ever() {
    let kernel = [asks(&Builtin::Kernel.trigger(), &["6.8.0-47"])];
    let mut machine = machine(WAIT);
    machine.memory.host.as_mut().unwrap().live_patches = None;
    assert!(shut(&mut machine, &kernel, now()));
    assert!(shut(&mut machine, &kernel, later(14 * DAY - 1)));
    assert!(!shut(&mut machine, &kernel, later(14 * DAY)));
}

/// A patch that comes in mid-drain undoes nothing.
#[test]
fn i2_a_drain_goes_on_whatever_is_patched() {
    let kernel = [asks(&Builtin::Kernel.trigger(), &["6.8.0-47"])];
    let mut machine = machine(WAIT);
    assert!(shut(&mut machine, &kernel, now()));
    machine.facts.record.hold = Some(hold(Stage::Draining));
    assert!(!shut(&mut machine, &kernel, now()));
}

/// Nobody reads them where nothing waits for them, and of many some are named.
#[test]
fn patches_are_read_where_they_matter_and_named() {
    assert!(!machine("").live_patches_matter());
    assert!(machine(WAIT).live_patches_matter());
    let kernel = [asks(&Builtin::Kernel.trigger(), &["6.8.0-47"])];
    for (patches, named) in [
        ("a b c", "(a, b, c): "),
        ("a b c d", "(a, b, c and 1 more): "),
    ] {
        let mut machine = machine(WAIT);
        let all = patches.split(' ').map(str::to_owned).collect();
        machine.memory.host.as_mut().unwrap().live_patches = Some(all);
        assert!(shut(&mut machine, &kernel, now()));
        let why = &machine.facts.closed[0].why;
        assert!(why.contains(named), "{why}");
    }
}
