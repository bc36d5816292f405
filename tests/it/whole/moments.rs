//! Every gate at each of the three moments at which it may close: before the queue, after the take and before the cordon, and
//! on a drained node before logind is asked (I2, I3, I8). The world begins at 11:06:40 UTC.

use std::fs;
use std::time::Duration;

use jiff::SignedDuration;
use kube_rebootd_core::gates::Gate;
use kube_rebootd_core::names;
use serde_json::{Value, json};

use super::cluster::Pod;
use super::host::Order;
use super::world::{HOUR, MINUTE, Plan, World};
use crate::fake_login::FakeSession;
use crate::fake_units::{Run, Unit};
use crate::memory::{Fate, Fault, Verb};

/// What becomes of a hold whose gate closes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Then {
    /// It is given up at once, or as soon as its patience is over.
    Undone,
    /// It waits for up to five minutes.
    Waits,
    /// Nobody asks this gate any more.
    GoesOn,
}

struct Row {
    gate: Gate,
    /// Of both hosts; `[reboot]` is added to it.
    config: &'static str,
    shut: fn(&World),
    open: fn(&World),
    /// What the node says while it waits before the queue.
    says: &'static str,
    /// After the take, before the cordon.
    claiming: Then,
    drained: Then,
}

/// Long enough for a gate to close on a drained node before its answers are asked for.
const DELAY: &str = "[reboot]\ndelay = \"3m\"\n";
/// Gates that need a server of their own, and where the same is tried for them.
const ELSEWHERE: [(Gate, &str); 2] = [
    (Gate::Alerts, "whole::alerts"),
    (Gate::SoftReboot, "whole::soft_reboots"),
];

#[rustfmt::skip] // A table.
const ROWS: [Row; 18] = [
    Row { gate: Gate::NodePaused, config: "", shut: |w| annotate(w, "nodes", "", "n0", true),
        open: |w| annotate(w, "nodes", "", "n0", false),
        says: "node paused: the rack is moved", claiming: Then::Undone, drained: Then::Undone },
    // A pause of a slot never affects the node that holds it.
    Row { gate: Gate::GroupPaused, config: "", shut: |w| annotate(w, "leases", "kube-rebootd", "default", true),
        open: |w| annotate(w, "leases", "kube-rebootd", "default", false),
        says: "group paused: the rack is moved", claiming: Then::GoesOn, drained: Then::GoesOn },
    Row { gate: Gate::Windows, config: "[[windows]]\nname = \"day\"\nstart = \"11:00\"\nend = \"20:00\"\n",
        shut: |w| w.hosts[0].set_wall(10 * 3600), open: |w| w.hosts[0].set_wall(-10 * 3600),
        says: "outside of the windows; \"day\" opens", claiming: Then::Undone, drained: Then::Undone },
    // One that was synchronized is looked at every five minutes, and stays right for hours.
    Row { gate: Gate::Clock, config: "[[windows]]\nstart = \"11:00\"\nend = \"20:00\"\n",
        shut: |w| w.hosts[0].logind().synchronized = Some(false), open: |w| w.hosts[0].logind().synchronized = Some(true),
        says: "the clock is not synchronized", claiming: Then::GoesOn, drained: Then::GoesOn },
    Row { gate: Gate::Inhibitors, config: "", shut: inhibit, open: |w| w.hosts[0].logind().inhibitors.clear(),
        says: "shutdown inhibited by backup", claiming: Then::Undone, drained: Then::Waits },
    Row { gate: Gate::PackageManager, config: "", shut: |w| w.hosts[0].write(LOCK, ""), open: |w| drop_file(w, LOCK),
        says: "pacman", claiming: Then::Undone, drained: Then::Waits },
    Row { gate: Gate::MinUptime, config: "", shut: |w| restart(w, "[gates]\nmin_uptime = \"9h\"\n"), open: no_drop_in,
        says: "the host has been up for less than gates.min_uptime (9h)", claiming: Then::Undone, drained: Then::Undone },
    // What had settled before the cordon has settled.
    Row { gate: Gate::Settle, config: "", shut: |w| restart(w, "[triggers]\nsettle = \"9h\"\n"), open: no_drop_in,
        says: "has not settled yet", claiming: Then::Undone, drained: Then::GoesOn },
    Row { gate: Gate::LivePatches, config: "[gates]\nlive_patch_wait = \"2d\"\n", shut: patch,
        open: |w| w.hosts[0].write(PATCH, "0\n"),
        says: "live patches are applied to the running one (kpatch_1): it waits until 2026-11-20", claiming: Then::Undone,
        drained: Then::GoesOn },
    // A drained node looks unused: an undone drain would begin again without end.
    Row { gate: Gate::Autoscaler, config: "", shut: |w| taint(w, true), open: |w| taint(w, false),
        says: "karpenter.sh/disrupted", claiming: Then::Undone, drained: Then::GoesOn },
    Row { gate: Gate::Conditions, config: "[gates]\nconditions = [\"KernelDeadlock\"]\n", shut: |w| report(w, "True"),
        open: |w| report(w, "False"),
        says: "KernelDeadlock is True", claiming: Then::Undone, drained: Then::Undone },
    // On a cordoned node not by the gate, but by the drain, which does not end.
    Row { gate: Gate::BlockingPods, config: "[drain]\nunmanaged = \"block\"\n", shut: bare, open: |w| remove(w, "bare"),
        says: "1 pod would block the drain: shop/bare", claiming: Then::Undone, drained: Then::Undone },
    // It is evicted as any other pod.
    Row { gate: Gate::ProtectedPods, config: "", shut: protected, open: |w| remove(w, "work"),
        says: "1 pod is protected", claiming: Then::Undone, drained: Then::GoesOn },
    // What the drain has done would only be done twice.
    Row { gate: Gate::Rivals, config: "", shut: kured, open: |w| remove(w, "kured"),
        says: "kured (pod shop/kured) may reboot this host", claiming: Then::Undone, drained: Then::GoesOn },
    // This drain may be what they wait for.
    Row { gate: Gate::Capacity, config: "[gates]\ncapacity_wait = \"15m\"\n", shut: pending, open: |w| remove(w, "big"),
        says: "pods have waited for room on a node", claiming: Then::Undone, drained: Then::GoesOn },
    Row { gate: Gate::ApiServers, config: "[gates]\napi_servers = [\"https://192.0.2.7:6443\"]\n",
        shut: |w| w.hosts[0].other_api_server(false), open: |w| w.hosts[0].other_api_server(true),
        says: "another API server is not ready: https://192.0.2.7:6443/readyz answers 503", claiming: Then::Undone,
        drained: Then::Waits },
    Row { gate: Gate::Commands, config: "[[gates.command]]\nname = \"ceph\"\ncommand = [\"/bin/gate\"]\n",
        shut: |w| says(w, 75), open: |w| says(w, 0),
        says: "command ceph says not now", claiming: Then::Undone, drained: Then::Waits },
    Row { gate: Gate::Users, config: "[gates]\nusers = \"block\"\n", shut: |w| w.hosts[0].logind().sessions = vec![ALICE],
        open: |w| w.hosts[0].logind().sessions.clear(),
        says: "alice (pts/0 from desk) is at work on this host", claiming: Then::Undone, drained: Then::Waits },
];

const LOCK: &str = "/var/lib/pacman/db.lck";
const PATCH: &str = "/sys/kernel/livepatch/kpatch_1/enabled";
const DROP_IN: &str = "/etc/kube-rebootd/config.d/50-gate.toml";
const ALICE: FakeSession = FakeSession {
    id: "1",
    class: "user",
    idle: Duration::ZERO,
};

fn annotate(world: &World, resource: &str, namespace: &str, name: &str, paused: bool) {
    let pause = |object: &mut Value| {
        let annotations = &mut object["metadata"]["annotations"];
        if paused {
            annotations[names::PAUSED] = json!("the rack is moved");
        } else if let Some(annotations) = annotations.as_object_mut() {
            annotations.remove(names::PAUSED);
        }
    };
    let at = (resource, namespace, name);
    world.server.set(|state| state.edit(at, "kubectl", pause));
}

fn node(world: &World, to: impl FnOnce(&mut Value)) {
    let at = ("nodes", "", "n0");
    world.server.set(|state| state.edit(at, "neighbour", to));
}

fn taint(world: &World, there: bool) {
    let key = "karpenter.sh/disrupted";
    node(world, |node| {
        let mut taints = node["spec"]["taints"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        taints.retain(|taint| taint["key"] != key);
        if there {
            taints.push(json!({"key": key, "effect": "NoSchedule"}));
        }
        node["spec"]["taints"] = json!(taints);
    });
}

fn report(world: &World, status: &str) {
    node(world, |node| {
        let all = node["status"]["conditions"].as_array_mut().unwrap();
        all.retain(|one| one["type"] != "KernelDeadlock");
        all.push(json!({"type": "KernelDeadlock", "status": status}));
    });
}

fn inhibit(world: &World) {
    let [what, who, why, mode] = ["shutdown", "backup", "runs", "block"].map(str::to_owned);
    world.hosts[0].logind().inhibitors = vec![(what, who, why, mode, 0, 1)];
}

fn drop_file(world: &World, path: &str) {
    fs::remove_file(world.hosts[0].path(path)).unwrap();
}

/// A daemon that is killed, and starts with this besides: a reload is heard in a wait alone, and there is none before the cordon.
fn restart(world: &World, text: &str) {
    world.hosts[0].write(DROP_IN, text);
    world.hosts[0].order(Order::Kill(Duration::from_secs(1)));
}

fn no_drop_in(world: &World) {
    drop_file(world, DROP_IN);
    world.hosts[0].reload();
}

fn patch(world: &World) {
    let host = &world.hosts[0];
    host.write("/sys/kernel/livepatch/kpatch_1/transition", "0\n");
    host.write(PATCH, "1\n");
}

fn remove(world: &World, pod: &str) {
    let at = ("pods", "shop", pod);
    world.server.set(|state| state.remove(at));
}

fn edit(world: &World, pod: &str, to: impl FnOnce(&mut Value)) {
    let at = ("pods", "shop", pod);
    world.server.set(|state| state.edit(at, "author", to));
}

fn bare(world: &World) {
    let pod = Pod {
        owner: "",
        ..Pod::new("bare", "n0")
    };
    pod.make(&world.server);
}

fn protected(world: &World) {
    Pod::new("work", "n0").make(&world.server);
    edit(world, "work", |pod| {
        let key = "cluster-autoscaler.kubernetes.io/safe-to-evict";
        pod["metadata"]["annotations"][key] = json!("false");
    });
}

fn kured(world: &World) {
    let pod = Pod {
        owner: "DaemonSet",
        ..Pod::new("kured", "n0")
    };
    pod.make(&world.server);
    edit(world, "kured", |pod| {
        pod["metadata"]["labels"] = json!({"app.kubernetes.io/name": "kured"});
        pod["spec"]["hostPID"] = json!(true);
    });
}

/// A pod that has waited for room for 16 minutes.
fn pending(world: &World) {
    let since = world.server.now() - SignedDuration::from_mins(16);
    let body = json!({"spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "lastTransitionTime": since.to_string()}]}});
    let at = ("pods", "shop", "big");
    world
        .server
        .set(|state| state.make(at, "kube-scheduler", body));
}

/// How commands on the first host end from now on.
fn says(world: &World, code: i32) {
    world.hosts[0].logind().run = Run::Says(vec![Unit::RUNNING, Unit::exited(code)]);
}

/// Two control-plane nodes, all of whose gates are open.
async fn world(row: &Row) -> World {
    let config = format!("{}{DELAY}", row.config);
    let world = World::with(Plan {
        hosts: 2,
        slots: 1,
        quorum: 2,
        config: Box::leak(config.into_boxed_str()),
    })
    .await;
    world.server.set(|state| state.grants_pods(true));
    says(&world, 0);
    // What live patches may keep waiting; to all others it is a file.
    world.hosts[0].write(
        "/run/reboot-required.pkgs",
        "linux-image-6.8.0-47-generic\n",
    );
    world
}

/// Nothing is held, nothing was rebooted; the cordon of a paused node stays as the pause does.
fn untouched(world: &World, row: &Row) -> bool {
    let cordon = row.gate == Gate::NodePaused || !world.cordoned(0);
    world.holder("default").is_none() && cordon && world.boots(0) == 0
}

fn came_to(world: &World, phase: &str) -> bool {
    world.phases(0).iter().any(|one| one == phase)
}

/// It was undone, stays so while the gate is closed, and begins anew when it opens.
async fn is_undone(world: &World, row: &Row, limit: Duration) {
    let (gate, done) = (row.gate.name(), |world: &World| untouched(world, row));
    world.until(&format!("{gate}: undone"), limit, done).await;
    world.pass(30 * MINUTE).await;
    world.require(untouched(world, row), &format!("{gate}: nothing is begun"));
    (row.open)(world);
    world.until_rebooted(&[0], 1, 2 * HOUR).await;
}

async fn goes_on(world: &World, row: &Row) {
    let what = format!("{}: it has rebooted", row.gate.name());
    let rebooted = |world: &World| world.boots(0) == 1;
    world.until(&what, 15 * MINUTE, rebooted).await;
    world.require(!came_to(world, "Undoing"), &what);
    (row.open)(world);
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[test]
fn every_gate_has_a_row() {
    let rows = ROWS.iter().map(|row| row.gate);
    let mut all: Vec<Gate> = rows.chain(ELSEWHERE.map(|(gate, _)| gate)).collect();
    all.sort_unstable();
    assert_eq!(all, Gate::ALL);
}

#[tokio::test(start_paused = true)]
async fn i2_i8_each_gate_keeps_a_reboot_out_of_the_queue() {
    for row in &ROWS {
        let (gate, world) = (row.gate.name(), world(row).await);
        (row.shut)(&world);
        world.pass(MINUTE).await;
        world.want(0);
        world.pass(30 * MINUTE).await;
        world.require(untouched(&world, row), &format!("{gate}: nothing is begun"));
        world.require(!came_to(&world, "Claiming"), &format!("{gate}: no slot"));
        world.require(world.said(0, row.says), &format!("{gate}: {}", row.says));
        (row.open)(&world);
        world.until_rebooted(&[0], 1, HOUR).await;
    }
}

#[tokio::test(start_paused = true)]
async fn i2_i3_each_gate_after_the_take_and_before_the_cordon() {
    for row in &ROWS {
        let (gate, world) = (row.gate.name(), world(row).await);
        // Between the take and the cordon there is time, so that the host is looked at once more.
        let slow = Fault {
            from: "n0".to_owned(),
            ..Fault::of(Fate::Slow(Duration::from_secs(12)), Verb::Patch, "nodes")
        };
        world.server.set(|state| state.faults.push(slow));
        world.want(0);
        let taken = |world: &World| world.holder("default").is_some();
        world.until("the slot to be taken", 5 * MINUTE, taken).await;
        (row.shut)(&world);
        world.server.set(|state| state.faults.clear());
        match row.claiming {
            Then::GoesOn => goes_on(&world, row).await,
            Then::Undone | Then::Waits => {
                let cordoned = |world: &World| !untouched(world, row) && world.cordoned(0);
                world.require(!cordoned(&world), &format!("{gate}: no cordon"));
                is_undone(&world, row, 2 * MINUTE).await;
                let phases = world.phases(0);
                let undone = phases.iter().position(|phase| phase == "Undoing");
                let drained = phases.iter().position(|phase| phase == "Draining");
                let first = undone.is_some() && undone < drained;
                world.require(first, &format!("{gate}: undone before a cordon"));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn i2_i3_each_gate_on_a_drained_node() {
    for row in &ROWS {
        let (gate, world) = (row.gate.name(), world(row).await);
        world.want(0);
        world.until_phase(0, "Draining", HOUR).await;
        world.pass(MINUTE / 2).await;
        (row.shut)(&world);
        match row.drained {
            Then::GoesOn => goes_on(&world, row).await,
            Then::Undone => is_undone(&world, row, 20 * MINUTE).await,
            Then::Waits => {
                // The delay is over after two and a half of them.
                world.pass(5 * MINUTE).await;
                let waits = world.cordoned(0) && world.boots(0) == 0;
                world.require(waits, &format!("{gate}: it waits, drained"));
                (row.open)(&world);
                world.until_rebooted(&[0], 1, 10 * MINUTE).await;
                world.require(!came_to(&world, "Undoing"), &format!("{gate}: undone"));
            }
        }
    }
}

/// Five minutes on a drained node, then slot and cordon are given back.
#[tokio::test(start_paused = true)]
async fn i2_i7_no_drained_node_waits_for_a_gate_for_long() {
    for row in ROWS.iter().filter(|row| row.drained == Then::Waits) {
        let world = world(row).await;
        world.want(0);
        world.until_phase(0, "Draining", HOUR).await;
        world.pass(MINUTE / 2).await;
        (row.shut)(&world);
        is_undone(&world, row, 9 * MINUTE).await;
    }
}
