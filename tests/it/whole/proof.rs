//! What must be back after the boot, under a kubelet with `GracefulNodeShutdown`: it ends the pods of DaemonSets, their
//! controller deletes them, and makes new ones only some time after the Node is Ready (I4).

use std::time::Duration;

use super::cluster::{Pod, make_daemon_set, ready};
use super::world::{HOUR, MINUTE, Plan, World};
use crate::memory::{Answer, Fate, Fault, Verb};

const SECOND: Duration = Duration::from_secs(1);

pub(super) const AGENT: Pod<'static> = Pod {
    name: "agent",
    app: "agent",
    node: "n0",
    owner: "DaemonSet",
    ends: 1,
    grace: 30,
    unmounts: Some(0),
    finalizer: None,
};

/// One of two hosts has rebooted, and the pod of its DaemonSet went with the shutdown.
pub(super) async fn rebooted() -> World {
    let world = World::new(2, 1).await;
    make_daemon_set(&world.server, "agent");
    AGENT.make(&world.server);
    world.want(0);
    world.until_phase(0, "Rebooting", HOUR).await;
    world
        .until("it has booted", 5 * MINUTE, |world| world.boots(0) == 1)
        .await;
    world
        .server
        .set(|state| state.remove(("pods", "shop", "agent")));
    world.until_phase(0, "Verifying", 5 * MINUTE).await;
    world
}

fn looks(world: &World) -> usize {
    let state = world.server.state();
    let lines = state.trace.iter();
    lines.filter(|line| line.contains("get daemonsets")).count()
}

/// Held, uncordoned, and waiting.
fn waits(world: &World, why: &str) {
    let held = world.holder("default").as_deref() == Some("n0");
    world.require(world.phase(0) == "Verifying" && held, why);
    world.require(!world.cordoned(0), "the new pod must be able to come");
}

#[tokio::test(start_paused = true)]
async fn i4_a_daemon_set_without_a_pod_keeps_the_slot_until_its_pod_is_ready() {
    let world = rebooted().await;
    world.pass(40 * MINUTE).await;
    waits(&world, "longer than health.timeout: it exists");
    let words = "verifying: DaemonSet shop/agent has no pod here";
    world.require(world.said(0, words), "the journal tells what it waits for");
    let looked = looks(&world);
    world.require(
        (2..=90).contains(&looked),
        &format!("{looked} looks in 40 minutes"),
    );
    Pod {
        name: "agent-2",
        ..AGENT
    }
    .make(&world.server);
    world.until_rebooted(&[0], 1, MINUTE).await;
    world.require(looks(&world) <= looked + 1, "nobody asks any more");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_that_is_deleted_is_not_waited_for() {
    let world = rebooted().await;
    world.pass(2 * MINUTE).await;
    waits(&world, "it exists");
    world
        .server
        .set(|state| state.remove(("daemonsets", "shop", "agent")));
    world.until_rebooted(&[0], 1, 2 * MINUTE).await;
}

/// Where its daemon may not read DaemonSets, or gets no answer, says so.
fn unread(world: &World, answer: Answer) {
    world.server.set(|state| {
        state.refusals_wanted = true;
        let fault = Fault::of(Fate::Says(answer), Verb::Get, "daemonsets");
        state.faults.push(fault);
    });
}

#[tokio::test(start_paused = true)]
async fn i4_where_daemon_sets_may_not_be_read_one_is_waited_for_until_the_timeout() {
    let world = rebooted().await;
    unread(
        &world,
        Answer::status(403, "Forbidden", "daemonsets.apps is forbidden"),
    );
    world.pass(13 * MINUTE).await;
    waits(&world, "health.timeout is 15 minutes");
    world.until_rebooted(&[0], 1, 4 * MINUTE).await;
    let words =
        "not waited for any longer after health.timeout: DaemonSet shop/agent has no pod here";
    world.require(world.said(0, words), "what was not waited for");
}

#[tokio::test(start_paused = true)]
async fn i8_an_answer_about_a_daemon_set_that_does_not_come_is_waited_for() {
    let world = rebooted().await;
    unread(&world, Answer::busy(503, 1));
    world.pass(HOUR).await;
    waits(&world, "nobody knows whether it exists");
    world.server.set(|state| {
        state.faults.clear();
        state.remove(("daemonsets", "shop", "agent"));
    });
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
}

const BARE: Pod<'static> = Pod {
    name: "bare",
    app: "bare",
    owner: "",
    ..AGENT
};

/// Proved with a real kubelet: a pod without a controller that it ended at the shutdown never runs again.
#[tokio::test(start_paused = true)]
async fn a_pod_that_nobody_starts_again_is_named_before_the_cordon() {
    let world = World::new(2, 1).await;
    BARE.make(&world.server);
    for host in &world.hosts {
        let row = [
            "shutdown",
            "kubelet",
            "Kubelet needs time to handle node shutdown",
            "delay",
        ];
        let [what, who, why, mode] = row.map(str::to_owned);
        host.logind().inhibitors.push((what, who, why, mode, 0, 1));
    }
    world.pass(MINUTE).await;
    let said = "pod shop/bare has no controller and will not run again after the reboot";
    world.require(!world.said(0, said), "nothing is wanted yet");
    world.want(0);
    world.until_phase(0, "Claiming", MINUTE).await;
    world.require(
        world.said(0, said) && !world.cordoned(0),
        "before the cordon",
    );
    world.until_rebooted(&[0], 1, HOUR).await;
    world.require(!world.said(1, said), "of the node's own pods");
}

#[tokio::test(start_paused = true)]
async fn without_a_graceful_shutdown_the_kubelet_starts_pods_again() {
    let world = World::new(2, 1).await;
    BARE.make(&world.server);
    world.want(0);
    world.until_rebooted(&[0], 1, HOUR).await;
    world.require(!world.said(0, "will not run again"), "it runs again");
}

/// A kubelet that comes and goes just after the boot: the Node is Ready, is not, and is again.
#[tokio::test(start_paused = true)]
async fn i4_a_node_that_flaps_after_the_boot_is_not_uncordoned_before_it_stayed_ready() {
    let world = World::new(2, 1).await;
    world.want(0);
    world.until_phase(0, "Verifying", HOUR).await;
    let kubelet = |status| ready(&world.server, "n0", status, None);
    let is_ready = |world: &World| {
        let conditions = world.node(0)["status"]["conditions"].clone();
        let conditions = conditions.as_array().cloned().unwrap_or_default();
        (conditions.iter()).any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    world.until("its kubelet is back", MINUTE, is_ready).await;
    for _ in 0..10 {
        world.pass(25 * SECOND).await;
        world.require(world.cordoned(0), "it was not Ready for 30 s yet");
        // So short that no look of the daemon's may have seen it.
        kubelet("False");
        kubelet("True");
    }
    world.pass(28 * SECOND).await;
    world.require(world.cordoned(0), "nor after the last of them");
    world.pass(8 * SECOND).await;
    world.require(!world.cordoned(0), "it is now");
    world.until_rebooted(&[0], 1, MINUTE).await;
    let words = "verifying: the Node has been Ready for less than health.ready_for of 30s";
    world.require(world.said(0, words), "the journal tells what it waits for");
}

#[tokio::test(start_paused = true)]
async fn with_ready_for_at_nothing_one_look_is_enough() {
    let world = World::with(Plan {
        hosts: 2,
        slots: 1,
        quorum: 0,
        config: "[health]\nready_for = \"0s\"\n",
    })
    .await;
    world.want(0);
    world.until_phase(0, "Verifying", HOUR).await;
    world
        .until("it is uncordoned", 20 * SECOND, |world| !world.cordoned(0))
        .await;
}

/// systemd's state and what has failed, from now on and over boots. The daemon looks again within some seconds, or when it
/// takes a slot.
fn fails(world: &World, units: &[&str]) {
    let mut systemd = world.hosts[0].logind();
    let state = if units.is_empty() {
        "running"
    } else {
        "degraded"
    };
    state.clone_into(&mut systemd.system_state);
    systemd.failed = units.iter().map(|unit| (*unit).to_owned()).collect();
}

#[tokio::test(start_paused = true)]
async fn a_unit_that_had_failed_before_the_reboot_keeps_no_slot() {
    let world = World::new(2, 1).await;
    fails(&world, &["old.service"]);
    world.pass(MINUTE).await;
    world.want(0);
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i4_a_unit_that_fails_anew_keeps_the_slot_until_it_runs_or_is_reset() {
    let world = World::new(2, 1).await;
    fails(&world, &["old.service"]);
    world.pass(MINUTE).await;
    world.want(0);
    world.until_phase(0, "Rebooting", HOUR).await;
    fails(&world, &["old.service", "new.service"]);
    world.until_phase(0, "Verifying", 5 * MINUTE).await;
    world.pass(20 * MINUTE).await;
    let held = world.holder("default").as_deref() == Some("n0");
    world.require(held && world.cordoned(0), "it is not healthy");
    let words = "not healthy within health.timeout after the reboot: units have failed that had not failed before: new.service";
    world.require(world.said(0, words), "it says which");
    fails(&world, &["old.service"]);
    world.until_rebooted(&[0], 1, 3 * MINUTE).await;
}

/// The daemon that looked before the reboot is gone, and so is its state file: the Node has the record.
#[tokio::test(start_paused = true)]
async fn i8_what_had_failed_before_is_read_from_the_node_where_the_state_file_is_lost() {
    let world = World::new(2, 1).await;
    fails(&world, &["old.service"]);
    world.pass(MINUTE).await;
    world.want(0);
    world.until_phase(0, "Rebooting", HOUR).await;
    world
        .until("it has booted", 5 * MINUTE, |world| world.boots(0) == 1)
        .await;
    std::fs::remove_file(world.hosts[0].path("/var/lib/kube-rebootd/state.json")).unwrap();
    world.until_rebooted(&[0], 1, 10 * MINUTE).await;
}
