//! The hooks around a hold: those of `post-boot.d` are part of health, and whatever those before the cordon and the reboot have
//! done is taken back before the slot is given up (I3, I4, I6, I7, I8).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use super::host::Order;
use super::world::{HOUR, MINUTE, SOON, World};
use crate::fake_units::{Run, Unit};

mod undo;

/// A hook of the first host.
pub(super) fn hook(world: &World, place: &str, mode: u32) {
    let path = format!("/etc/kube-rebootd/hooks/{place}");
    world.hosts[0].write(&path, "#!/bin/sh\n");
    let mode = fs::Permissions::from_mode(mode);
    fs::set_permissions(world.hosts[0].path(&path), mode).unwrap();
}

/// Units of the first host whose name contains `part` end so from now on.
pub(super) fn says(world: &World, part: &'static str, end: Unit) {
    let mut logind = world.hosts[0].logind();
    logind.run_of.retain(|(one, _)| *one != part);
    logind
        .run_of
        .push((part, Run::Says(vec![Unit::RUNNING, end])));
}

/// How often units whose name contains `part` were started there.
pub(super) fn runs(world: &World, part: &str) -> usize {
    let knobs = world.hosts[0].logind();
    let units = knobs.started.iter();
    units.filter(|(one, _)| one.contains(part)).count()
}

const POST: &str = "kube-rebootd-hooks-post_boot_d_10_ceph-";

/// One host with a hook for after the boot, which ends so; it has rebooted.
async fn rebooted(end: Unit) -> World {
    let world = World::new(1, 1).await;
    hook(&world, "post-boot.d/10-ceph", 0o755);
    says(&world, POST, end);
    world.want(0);
    world.until_phase(0, "Rebooting", HOUR).await;
    world.require(runs(&world, POST) == 0, "not before the boot");
    world.until_phase(0, "Verifying", HOUR).await;
    world
}

/// It waits for the hook: neither uncordoned nor given back.
fn waits(world: &World) {
    let held = world.holder("default").is_some() && world.cordoned(0);
    world.require(world.phase(0) == "Verifying" && held, "it waits");
}

#[tokio::test(start_paused = true)]
async fn i4_the_node_is_uncordoned_when_the_hooks_say_that_it_is_healthy() {
    let world = rebooted(Unit::exited(0)).await;
    world.until_rebooted(&[0], 1, 2 * MINUTE).await;
    let ran = runs(&world, POST);
    world.require(ran == 1, &format!("it ran {ran} times"));
}

#[tokio::test(start_paused = true)]
async fn i4_i8_a_hook_that_does_not_say_yes_keeps_the_slot_and_is_asked_again() {
    for (end, words) in [
        (Unit::exited(75), "says not now: exit code 75"),
        (Unit::exited(1), "failed: exit code 1"),
        (Unit::RUNNING, "failed: its unit"),
        (Unit::COLLECTED, "failed: "),
    ] {
        let world = rebooted(end.clone()).await;
        world.pass(14 * MINUTE).await;
        waits(&world);
        let why = format!("verifying: hook post-boot.d/10-ceph {words}");
        world.require(world.said(0, &why), &why);
        let ran = runs(&world, POST);
        let hangs = end == Unit::RUNNING;
        let often = if hangs { 6..=9 } else { 20..=28 };
        world.require(
            often.contains(&ran),
            &format!("{end:?}: it ran {ran} times"),
        );
        world.pass(6 * MINUTE).await;
        waits(&world);
        let late = "not healthy within health.timeout after the reboot: hook post-boot.d/10-ceph";
        world.require(world.said(0, late), late);
        says(&world, POST, Unit::exited(0));
        world.until_rebooted(&[0], 1, 4 * MINUTE).await;
    }
}

/// The daemon heeds all else meanwhile.
#[tokio::test(start_paused = true)]
async fn i7_a_hook_that_hangs_delays_nothing_else() {
    let world = rebooted(Unit::RUNNING).await;
    world
        .until("it runs", MINUTE, |world| runs(world, POST) == 1)
        .await;
    world.hosts[0].write("/etc/kube-rebootd/config.toml", "nonsense = 1\n");
    world.hosts[0].reload();
    world.pass(Duration::from_secs(2)).await;
    world.require(
        world.said(0, "configuration not reloaded"),
        "it is reloaded",
    );
    world.require(runs(&world, POST) == 1, "it runs still");
}

#[tokio::test(start_paused = true)]
async fn i6_a_daemon_that_is_killed_asks_anew() {
    let world = rebooted(Unit::RUNNING).await;
    world
        .until("it runs", MINUTE, |world| runs(world, POST) == 1)
        .await;
    world.hosts[0].order(Order::Kill(Duration::from_secs(1)));
    says(&world, POST, Unit::exited(0));
    world.until_rebooted(&[0], 1, 2 * MINUTE).await;
    world.require(runs(&world, POST) == 2, "once more");
}

/// In the order of their names, until one does not say yes.
#[tokio::test(start_paused = true)]
async fn hooks_run_one_after_another_by_name() {
    const NEXT: &str = "kube-rebootd-hooks-post_boot_d_20_lb-";
    let world = rebooted(Unit::exited(75)).await;
    hook(&world, "post-boot.d/20-lb", 0o755);
    hook(&world, "post-boot.d/30-off", 0o644);
    says(&world, NEXT, Unit::exited(1));
    world.pass(5 * MINUTE).await;
    waits(&world);
    world.require(runs(&world, NEXT) == 0, "the first has not said yes");
    says(&world, POST, Unit::exited(0));
    world.pass(2 * MINUTE).await;
    waits(&world);
    let why = "hook post-boot.d/20-lb failed: exit code 1";
    world.require(world.said(0, why), why);
    says(&world, NEXT, Unit::exited(0));
    world.until_rebooted(&[0], 1, 2 * MINUTE).await;
    world.require(runs(&world, "post_boot_d_30_off") == 0, "it is no program");
}

#[tokio::test(start_paused = true)]
async fn i8_i14_a_hook_that_others_can_change_is_not_run_and_nothing_is_healthy_without_it() {
    let world = World::new(1, 1).await;
    hook(&world, "post-boot.d/10-ceph", 0o757);
    says(&world, POST, Unit::exited(0));
    world.want(0);
    world.until_phase(0, "Verifying", HOUR).await;
    world.pass(5 * MINUTE).await;
    waits(&world);
    world.require(runs(&world, POST) == 0, "it is not run");
    world.require(world.said(0, "chmod go-w"), "the cure is said");
    hook(&world, "post-boot.d/10-ceph", 0o755);
    world.until_rebooted(&[0], 1, 2 * MINUTE).await;
}

const DRAIN: &str = "kube-rebootd-hooks-pre_drain_d_10_noout-";
const REBOOT: &str = "kube-rebootd-hooks-pre_reboot_d_10_lb-";
const UNDO: &str = "kube-rebootd-hooks-undo_d_10_noout-";

/// Hosts, the first of which has hooks before the drain and the reboot, and one that takes it back. All end well.
async fn hooked(hosts: usize) -> World {
    let world = World::new(hosts, 1).await;
    for (place, part) in [
        ("pre-drain.d/10-noout", DRAIN),
        ("pre-reboot.d/10-lb", REBOOT),
        ("undo.d/10-noout", UNDO),
    ] {
        hook(&world, place, 0o755);
        says(&world, part, Unit::exited(0));
    }
    world
}

/// The very moment at which something comes true: a hook here takes a twentieth of a second.
async fn moment(world: &World, what: &str, seen: impl Fn(&World) -> bool) {
    let begin = tokio::time::Instant::now();
    while !seen(world) {
        world.require(begin.elapsed() < HOUR, what);
        tokio::time::sleep(SOON).await;
    }
}

/// How often each kind was started.
fn rounds(world: &World) -> [usize; 3] {
    [DRAIN, REBOOT, UNDO].map(|part| runs(world, part))
}

/// The order in which they were started first.
fn in_order(world: &World) -> bool {
    let knobs = world.hosts[0].logind();
    let first = |part: &str| knobs.started.iter().position(|(one, _)| one.contains(part));
    let all = [DRAIN, REBOOT, UNDO].map(first);
    all.iter().all(Option::is_some) && all.is_sorted()
}

/// Nothing is held, cordoned or left on record, and what hooks had set is taken back.
fn given_back(world: &World) -> bool {
    world.holder("default").is_none() && !world.cordoned(0) && world.phase(0) != "Undoing"
}

#[tokio::test(start_paused = true)]
async fn i3_hooks_run_before_the_cordon_before_the_reboot_and_before_the_slot_is_given_up() {
    let world = hooked(1).await;
    world.want(0);
    moment(&world, "the first runs", |world| runs(world, DRAIN) == 1).await;
    world.require(!world.cordoned(0), "before the cordon");
    world.require(world.holder("default").is_some(), "with the slot");
    moment(&world, "the next runs", |world| runs(world, REBOOT) == 1).await;
    world.require(world.cordoned(0), "after the cordon");
    world.require(world.hosts[0].logind().reboots == 0, "before logind");
    moment(&world, "it is taken back", |world| runs(world, UNDO) == 1).await;
    world.require(
        world.boots(0) == 1 && !world.cordoned(0),
        "after the uncordon",
    );
    world.require(world.holder("default").is_some(), "before the Lease");
    world.until_rebooted(&[0], 1, MINUTE).await;
    world.require(rounds(&world) == [1, 1, 1], "once each");
}

/// Nothing is different where there is no hook, but for what takes back: nothing was done.
#[tokio::test(start_paused = true)]
async fn where_nothing_ran_nothing_is_taken_back() {
    let world = World::new(1, 1).await;
    hook(&world, "undo.d/10-noout", 0o755);
    says(&world, UNDO, Unit::exited(0));
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    let state = fs::read_to_string(world.hosts[0].path("/var/lib/kube-rebootd/state.json"));
    let state = state.expect("the state file");
    world.require(!state.contains("hooked"), "no mark");
    world.until_rebooted(&[0], 1, HOUR).await;
    world.require(runs(&world, UNDO) == 0, "nothing was done");
}

#[tokio::test(start_paused = true)]
async fn i8_a_hook_before_the_cordon_that_does_not_say_yes_ends_the_hold() {
    for (end, words) in [
        (Unit::exited(75), "says not now: exit code 75"),
        (Unit::exited(1), "failed: exit code 1"),
        (Unit::RUNNING, "failed: "),
    ] {
        let world = hooked(1).await;
        says(&world, DRAIN, end.clone());
        world.want(0);
        world.until_phase(0, "Undoing", HOUR).await;
        world
            .until("it is given back", 2 * MINUTE, given_back)
            .await;
        world.require(
            rounds(&world) == [1, 0, 1],
            &format!("{end:?}: {:?}", rounds(&world)),
        );
        let why = format!("hook pre-drain.d/10-noout {words}");
        world.require(world.said(0, &why), &why);
        let drained = world.phases(0).iter().any(|phase| phase == "Draining");
        world.require(!drained, "it was never cordoned");
        // The next attempt comes after a pause, and again after a longer one.
        world.pass(2 * MINUTE).await;
        world.require(runs(&world, DRAIN) == 1, "not at once");
        world.pass(2 * HOUR).await;
        let tries = runs(&world, DRAIN);
        world.require((4..=8).contains(&tries), &format!("{tries} attempts"));
        world.require(runs(&world, UNDO) == tries, "each is taken back");
        says(&world, DRAIN, Unit::exited(0));
        world.until_rebooted(&[0], 1, 6 * HOUR).await;
    }
}

#[tokio::test(start_paused = true)]
async fn i2_a_drained_node_waits_five_minutes_for_a_hook_that_says_not_now() {
    let world = hooked(1).await;
    says(&world, REBOOT, Unit::exited(75));
    world.want(0);
    world
        .until("it is asked", HOUR, |world| runs(world, REBOOT) == 1)
        .await;
    world.pass(4 * MINUTE).await;
    world.require(
        world.cordoned(0) && world.phase(0) == "Draining",
        "it waits, drained",
    );
    let ran = runs(&world, REBOOT);
    world.require((7..=9).contains(&ran), &format!("asked {ran} times"));
    let why = "drained: hook pre-reboot.d/10-lb says not now: exit code 75";
    world.require(world.said(0, why), why);
    says(&world, REBOOT, Unit::exited(0));
    world.until_rebooted(&[0], 1, 5 * MINUTE).await;

    let world = hooked(1).await;
    says(&world, REBOOT, Unit::exited(75));
    world.want(0);
    world
        .until("it is asked", HOUR, |world| runs(world, REBOOT) == 1)
        .await;
    world.pass(5 * MINUTE).await;
    world
        .until("it is given back", 2 * MINUTE, given_back)
        .await;
    world.require(
        world.boots(0) == 0 && runs(&world, UNDO) == 1,
        "and taken back",
    );
}

#[tokio::test(start_paused = true)]
async fn i8_a_hook_before_the_reboot_that_fails_ends_the_hold() {
    let world = hooked(1).await;
    says(&world, REBOOT, Unit::exited(1));
    world.want(0);
    world.until_phase(0, "Undoing", HOUR).await;
    world
        .until("it is given back", 2 * MINUTE, given_back)
        .await;
    world.require(
        world.boots(0) == 0 && rounds(&world) == [1, 1, 1],
        "at once",
    );
}

#[tokio::test(start_paused = true)]
async fn i8_i14_a_directory_that_others_can_change_keeps_a_node_from_its_drain() {
    let world = hooked(1).await;
    hook(&world, "pre-drain.d/20-x", 0o777);
    world.want(0);
    world.pass(HOUR).await;
    world.require(runs(&world, DRAIN) == 0, "none is run");
    world.require(
        !world.cordoned(0) && world.boots(0) == 0,
        "nothing is drained",
    );
    world.require(world.said(0, "chmod go-w"), "the cure is said");
}
