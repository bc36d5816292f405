//! Commands of the gate that close it before anything is begun, after the take, in mid-drain and between two asks of
//! logind; that hang, and that are killed with their daemon (I2, I7, I8).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use super::cluster::Pod;
use super::host::Order;
use super::world::{HOUR, MINUTE, Plan, World};
use crate::fake_bus::Refusal;
use crate::fake_units::{Run, Unit};

const COMMAND: &str = "[[gates.command]]\nname = \"ceph\"\ncommand = [\"/bin/gate\"]\n";
/// From the first yes to a host that is back: one run before the take, one after it, one after the drain.
const REBOOT: Duration = Duration::from_secs(4 * 60);

async fn world(hosts: usize, config: &'static str) -> World {
    let plan = Plan {
        hosts,
        slots: 1,
        quorum: 0,
        config,
    };
    let world = World::with(plan).await;
    says(&world, Unit::exited(0));
    world
}

/// The commands of the first host end so from now on.
fn says(world: &World, end: Unit) {
    let now = Unit::RUNNING;
    world.hosts[0].logind().run = Run::Says(vec![now, end]);
}

/// How often one of this name was run there.
fn runs(world: &World, name: &str) -> usize {
    let knobs = world.hosts[0].logind();
    let unit = format!("kube-rebootd-hook-{name}-");
    let units = knobs.started.iter();
    units.filter(|(one, _)| one.starts_with(&unit)).count()
}

fn untouched(world: &World) {
    let free = world.holder("default").is_none() && !world.cordoned(0);
    world.require(free && world.boots(0) == 0, "nothing is begun");
}

fn drained_at_all(world: &World) -> bool {
    world.phases(0).iter().any(|phase| phase == "Draining")
}

/// Two hosts, and a pod that takes this long to leave the first.
async fn draining(seconds: u64) -> World {
    let world = world(2, COMMAND).await;
    Pod {
        ends: seconds,
        grace: seconds + 60,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    world
}

#[tokio::test(start_paused = true)]
async fn i2_a_reboot_waits_for_a_command_that_says_not_now_and_says_so() {
    let world = world(1, COMMAND).await;
    world.pass(10 * MINUTE).await;
    world.require(runs(&world, "ceph") == 0, "nobody asks for nothing");
    says(&world, Unit::exited(75));
    world.want(0);
    world.pass(2 * HOUR).await;
    untouched(&world);
    let ran = runs(&world, "ceph");
    world.require((100..=122).contains(&ran), &format!("it ran {ran} times"));
    let why = "command ceph says not now: exit code 75";
    world.require(world.said(0, why), "it says why");
    says(&world, Unit::exited(0));
    world.until_rebooted(&[0], 1, REBOOT).await;
}

#[tokio::test(start_paused = true)]
async fn i8_any_other_end_of_a_command_is_no_yes() {
    for end in [
        Unit::exited(1),
        Unit::exited(76),
        Unit::exited(203),
        Unit::RUNNING,
        Unit::COLLECTED,
    ] {
        let world = world(1, COMMAND).await;
        says(&world, end.clone());
        world.want(0);
        world.pass(HOUR).await;
        untouched(&world);
        world.require(
            runs(&world, "ceph") > 10,
            &format!("it is run again after {end:?}"),
        );
        says(&world, Unit::exited(0));
        world.until_rebooted(&[0], 1, REBOOT + 2 * MINUTE).await;
    }
}

/// PID 1 refuses to run it.
#[tokio::test(start_paused = true)]
async fn i8_a_command_that_cannot_be_run_is_no_yes() {
    let world = world(1, COMMAND).await;
    world.hosts[0].logind().run = Run::Refused;
    world.want(0);
    world.pass(HOUR).await;
    untouched(&world);
}

#[tokio::test(start_paused = true)]
async fn i7_a_command_that_hangs_delays_nothing_else() {
    let world = world(1, COMMAND).await;
    says(&world, Unit::RUNNING);
    world.want(0);
    world.until_phase(0, "Pending", MINUTE).await;
    world.unwant(0);
    world.until_phase(0, "Idle", Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn i2_a_command_that_closes_the_gate_after_the_take_is_heard_before_the_cordon() {
    let world = world(1, COMMAND).await;
    world.want(0);
    world.until_phase(0, "Claiming", HOUR).await;
    says(&world, Unit::exited(75));
    world.until_phase(0, "Undoing", MINUTE).await;
    world.pass(HOUR).await;
    untouched(&world);
    world.require(!drained_at_all(&world), "it was never cordoned");
    says(&world, Unit::exited(0));
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i2_a_drain_outlasts_a_command_that_says_not_now() {
    let world = draining(600).await;
    says(&world, Unit::exited(75));
    world.pass(8 * MINUTE).await;
    world.require(world.phase(0) == "Draining", "the drain goes on");
    // Two more minutes of the pod; five of patience.
    world.pass(5 * MINUTE).await;
    world.require(
        world.cordoned(0) && world.boots(0) == 0,
        "it waits, drained",
    );
    says(&world, Unit::exited(0));
    world.until_rebooted(&[0], 1, REBOOT).await;
    let undone = world.phases(0).iter().any(|phase| phase == "Undoing");
    world.require(!undone, "it was undone");
}

#[tokio::test(start_paused = true)]
async fn i2_a_command_that_goes_on_to_say_not_now_ends_the_hold() {
    for end in [Unit::exited(75), Unit::exited(1), Unit::RUNNING] {
        let world = draining(600).await;
        says(&world, end);
        world
            .until("the slot is free", 20 * MINUTE, |world| {
                world.holder("default").is_none() && !world.cordoned(0)
            })
            .await;
        world.pass(HOUR).await;
        untouched(&world);
    }
}

/// Its period is a day: what it said before the queue would count for all of it.
#[tokio::test(start_paused = true)]
async fn i2_it_is_asked_anew_after_the_take_and_after_the_drain() {
    let config =
        "[[gates.command]]\nname = \"ceph\"\ncommand = [\"/bin/gate\"]\nperiod = \"24h\"\n";
    let world = world(1, config).await;
    world.want(0);
    world.until_phase(0, "Claiming", HOUR).await;
    let before = runs(&world, "ceph");
    world.require(before == 1, "once before the queue");
    world.until_phase(0, "Draining", HOUR).await;
    world.require(runs(&world, "ceph") == 2, "once after the take");
    world.until_phase(0, "Rebooting", HOUR).await;
    world.require(runs(&world, "ceph") == 3, "once after the drain");
    world.until_rebooted(&[0], 1, HOUR).await;
    world.require(runs(&world, "ceph") == 3, "and no more");
}

/// logind refuses the first call; the gate closes before the second.
#[tokio::test(start_paused = true)]
async fn i2_it_is_asked_before_logind_is_asked_again() {
    let config =
        "[[gates.command]]\nname = \"ceph\"\ncommand = [\"/bin/gate\"]\nperiod = \"24h\"\n";
    let world = world(1, config).await;
    world.hosts[0].logind().refusal = Refusal::InProgress;
    world.want(0);
    world
        .until("logind has refused", HOUR, |world| {
            world.hosts[0].logind().reboots == 1
        })
        .await;
    says(&world, Unit::exited(75));
    world.hosts[0].logind().refusal = Refusal::No;
    world.pass(HOUR).await;
    untouched(&world);
    let asked = world.hosts[0].logind().reboots;
    world.require(asked == 1, &format!("logind was asked {asked} times"));
}

/// What the last process had heard is lost with it: the next one asks anew, and gives nothing up for that.
#[tokio::test(start_paused = true)]
async fn i6_a_daemon_that_is_killed_asks_anew_and_goes_on() {
    for phase in ["Pending", "Claiming", "Draining", "Rebooting"] {
        let world = world(1, COMMAND).await;
        world.want(0);
        world.until_phase(0, phase, HOUR).await;
        world.hosts[0].order(Order::Kill(Duration::from_secs(1)));
        world.until_rebooted(&[0], 1, 10 * MINUTE).await;
        let undone = world.phases(0).iter().any(|phase| phase == "Undoing");
        world.require(!undone, &format!("it was undone, killed in {phase}"));
    }
}

fn hook(world: &World, name: &str, mode: u32) {
    let path = format!("/etc/kube-rebootd/hooks/gate.d/{name}");
    world.hosts[0].write(&path, "#!/bin/sh\n");
    let mode = fs::Permissions::from_mode(mode);
    fs::set_permissions(world.hosts[0].path(&path), mode).unwrap();
}

#[tokio::test(start_paused = true)]
async fn i2_hooks_are_asked_as_commands_are() {
    let world = world(1, "").await;
    hook(&world, "10-ceph", 0o755);
    hook(&world, "20-off", 0o644);
    says(&world, Unit::exited(75));
    world.want(0);
    world.pass(HOUR).await;
    untouched(&world);
    let why = "hook gate.d/10-ceph says not now";
    world.require(world.said(0, why), "it says which");
    world.require(runs(&world, "gate_d_10_ceph") > 50, "each minute");
    world.require(runs(&world, "gate_d_20_off") == 0, "it is no program");
    // Nobody tells that it is gone.
    fs::remove_file(world.hosts[0].path("/etc/kube-rebootd/hooks/gate.d/10-ceph")).unwrap();
    world.until_rebooted(&[0], 1, REBOOT).await;
}

#[tokio::test(start_paused = true)]
async fn i8_i14_a_hook_that_others_can_change_is_not_run_and_closes_the_gate() {
    let world = world(1, "").await;
    hook(&world, "10-ceph", 0o757);
    world.want(0);
    world.pass(HOUR).await;
    untouched(&world);
    world.require(runs(&world, "gate_d_10_ceph") == 0, "it is not run");
    world.require(world.said(0, "chmod go-w"), "the cure is said");
    hook(&world, "10-ceph", 0o755);
    world.until_rebooted(&[0], 1, REBOOT).await;
}

/// A reload that takes the command away opens the gate.
#[tokio::test(start_paused = true)]
async fn a_command_that_is_configured_no_more_has_nothing_to_say() {
    let world = world(1, "").await;
    let drop_in = "/etc/kube-rebootd/config.d/50-ceph.toml";
    world.hosts[0].write(drop_in, COMMAND);
    world.hosts[0].reload();
    says(&world, Unit::exited(75));
    world.pass(MINUTE).await;
    world.want(0);
    world.pass(HOUR).await;
    untouched(&world);
    fs::remove_file(world.hosts[0].path(drop_in)).unwrap();
    world.hosts[0].reload();
    world.until_rebooted(&[0], 1, REBOOT).await;
}
