//! The hooks around a hold: those of `post-boot.d` are part of health (I4, I7, I8).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use super::host::Order;
use super::world::{HOUR, MINUTE, World};
use crate::fake_units::{Run, Unit};

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
