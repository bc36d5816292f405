//! A newer kernel that waits, as the running one is patched live (I2).

use std::time::Duration;

use super::world::{HOUR, MINUTE, World};

const WAIT: &str = "[gates]\nlive_patch_wait = \"6h\"\n";
const WHY: &str = "only a newer kernel asks for the reboot, and live patches are applied to the running one (kpatch_1)";
const PKGS: &str = "/run/reboot-required.pkgs";
const ENABLED: &str = "/sys/kernel/livepatch/kpatch_1/enabled";

/// A kernel was upgraded on a host that is patched live.
async fn patched() -> World {
    let world = World::pair(WAIT).await;
    let host = &world.hosts[0];
    host.write(ENABLED, "1\n");
    host.write("/sys/kernel/livepatch/kpatch_1/transition", "0\n");
    host.write(PKGS, "linux-image-6.8.0-47-generic\nlinux-base\n");
    // The host is looked at every few minutes while nothing is wanted.
    world.pass(HOUR).await;
    world.want(0);
    world.pass(4 * HOUR).await;
    let untouched = world.holder("default").is_none() && world.boots(0) == 0;
    world.require(untouched && !world.cordoned(0), "nothing is begun");
    world.require(world.said(0, WHY), WHY);
    world
}

#[tokio::test(start_paused = true)]
async fn i2_a_newer_kernel_waits_for_so_long_and_no_longer() {
    let world = patched().await;
    world.pass(HOUR + 50 * MINUTE).await;
    world.require(world.boots(0) == 0, "not before its time");
    world.until_rebooted(&[0], 1, 30 * MINUTE).await;
}

#[tokio::test(start_paused = true)]
async fn i2_another_package_does_not_wait() {
    let world = patched().await;
    world.hosts[0].write(PKGS, "linux-image-6.8.0-47-generic\nlibc6\n");
    world.until_rebooted(&[0], 1, 30 * MINUTE).await;
}

#[tokio::test(start_paused = true)]
async fn i2_without_its_patches_it_does_not_wait() {
    let world = patched().await;
    world.hosts[0].write(ENABLED, "0\n");
    world.until_rebooted(&[0], 1, 30 * MINUTE).await;
}

/// Found by reading: whoever reloads the patches takes them off for seconds, and one look in between opened the gate.
#[tokio::test(start_paused = true)]
async fn i2_patches_that_are_reloaded_are_waited_for_as_before() {
    let world = patched().await;
    for _ in 0..3 {
        world.hosts[0].write(ENABLED, "0\n");
        // Longer than from one look at the host to the next.
        world.pass(Duration::from_secs(20)).await;
        world.hosts[0].write(ENABLED, "1\n");
        world.pass(10 * MINUTE).await;
        world.require(world.boots(0) == 0 && !world.cordoned(0), "it waits");
    }
    let words = "no live patch is applied to the running one, which may be so for a moment only: it waits until ";
    world.require(world.said(0, words), "and says that it has seen it");
}
