//! Clients of rebootmgr, as `rebootmgrctl` and transactional-update are: what they ask for waits for its turn (I1, I3, I6, I10, I12).

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener as Listener;
use std::time::Duration;

use kube_rebootd_core::rebootmgr::SOCKET;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::cluster::Pod;
use super::host::Order;
use super::world::{HOUR, MINUTE, World};

const CONFIG: &str = "[triggers]\nrebootmgr = true\n";
const DROP_IN: &str = "/etc/kube-rebootd/config.d/50-rebootmgr.toml";
const SECOND: Duration = Duration::from_secs(1);

/// What is answered; none: nobody is there.
async fn calls(world: &World, host: usize, method: &str, parameters: &Value) -> Option<Value> {
    let mut stream = UnixStream::connect(world.hosts[host].path(SOCKET))
        .await
        .ok()?;
    let method = format!("org.openSUSE.rebootmgr.{method}");
    let call = json!({"method": method, "parameters": parameters});
    stream
        .write_all(format!("{call}\0").as_bytes())
        .await
        .ok()?;
    let mut answer = Vec::new();
    loop {
        match stream.read_u8().await.ok()? {
            0 => return serde_json::from_slice(&answer).ok(),
            byte => answer.push(byte),
        }
    }
}

/// It is done.
async fn does(world: &World, host: usize, method: &str, parameters: &Value) {
    let answer = calls(world, host, method, parameters).await;
    let done = answer.as_ref().is_some_and(|it| it.get("error").is_none());
    world.require(done, &format!("{method}: {answer:?}"));
}

async fn reboot(world: &World, host: usize) {
    does(world, host, "Reboot", &json!({"Reboot": 1, "Force": false})).await;
}

async fn error(world: &World, host: usize, method: &str, parameters: &Value) -> String {
    let answer = calls(world, host, method, parameters).await;
    let name = answer.and_then(|it| Some(it["error"].as_str()?.to_owned()));
    name.unwrap_or_default()
}

/// `RebootStatus`; none: nobody is there.
async fn status(world: &World, host: usize) -> Option<i64> {
    let answer = calls(world, host, "Status", &json!({})).await?;
    answer["parameters"]["RebootStatus"].as_i64()
}

/// Until it is served, or not any more.
async fn until_served(world: &World, host: usize, served: bool) {
    for _ in 0..120 {
        if status(world, host).await.is_some() == served {
            return;
        }
        world.pass(SECOND).await;
    }
    world.fail(&format!("served: {served}"));
}

fn untouched(world: &World, host: usize) -> bool {
    world.holder("default").is_none() && !world.cordoned(host)
}

/// transactional-update has made a snapshot on both hosts.
#[tokio::test(start_paused = true)]
async fn i1_i10_hosts_reboot_one_after_another_each_once() {
    let world = World::pair(CONFIG).await;
    Pod::slow(&world.server, 60);
    for host in [0, 1] {
        until_served(&world, host, true).await;
        assert_eq!(status(&world, host).await, Some(0));
    }
    reboot(&world, 0).await;
    // At once, and not only when the loop comes to it.
    assert_eq!(status(&world, 0).await, Some(2));
    let again = error(&world, 0, "Reboot", &json!({"Reboot": 1})).await;
    assert_eq!(again, "org.openSUSE.rebootmgr.AlreadyInProgress");
    world.until_phase(0, "Draining", MINUTE).await;
    assert_eq!(status(&world, 0).await, Some(1));
    reboot(&world, 1).await;
    world.pass(5 * SECOND).await;
    let waits = calls(&world, 1, "FullStatus", &json!({})).await;
    let waits = waits.expect("it is served")["parameters"].clone();
    assert_eq!(waits["RebootStatus"], 2, "{waits}");
    let when = waits["RebootTime"].as_str().unwrap_or_default();
    assert!(when.contains("n0"), "{when}");
    world.until_rebooted(&[0, 1], 1, HOUR).await;
    for host in [0, 1] {
        assert_eq!(world.hosts[host].logind().reboots, 1);
        until_served(&world, host, true).await;
        assert_eq!(status(&world, host).await, Some(0));
        world.require(world.said(host, "rebootmgrctl reboot"), "it says who asked");
    }
    world.pass(HOUR).await;
    assert_eq!((world.boots(0), world.boots(1)), (1, 1));
}

/// I6: what was answered is done, also by a daemon that is started anew.
#[tokio::test(start_paused = true)]
async fn i6_killed_right_after_the_answer_and_in_every_phase_it_reboots_once() {
    for phase in ["", "Claiming", "Draining", "Rebooting", "Verifying"] {
        let world = World::pair(CONFIG).await;
        Pod::slow(&world.server, 30);
        until_served(&world, 0, true).await;
        reboot(&world, 0).await;
        if !phase.is_empty() {
            world.until_phase(0, phase, HOUR).await;
        }
        world.hosts[0].order(Order::Kill(10 * SECOND));
        world.pass(11 * SECOND).await;
        world.until_rebooted(&[0], 1, HOUR).await;
        world.pass(HOUR).await;
        assert_eq!(world.boots(0), 1, "{phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn i3_a_reboot_is_taken_back_in_its_drain() {
    let world = World::pair(CONFIG).await;
    Pod::slow(&world.server, 600);
    until_served(&world, 0, true).await;
    let none = error(&world, 0, "Cancel", &json!({})).await;
    assert_eq!(none, "org.openSUSE.rebootmgr.NoRebootScheduled");
    reboot(&world, 0).await;
    world.until_phase(0, "Draining", MINUTE).await;
    does(&world, 0, "Cancel", &json!({})).await;
    assert_eq!(status(&world, 0).await, Some(0));
    world
        .until("it is undone", MINUTE, |world| untouched(world, 0))
        .await;
    world.pass(HOUR).await;
    world.require(untouched(&world, 0) && world.boots(0) == 0, "it stays so");
}

/// `rebootmgrctl soft-reboot`: one, and not a full one; a full one after it takes its place.
#[tokio::test(start_paused = true)]
async fn i8_a_soft_reboot_is_one_or_is_refused() {
    let world = World::pair(CONFIG).await;
    Pod::slow(&world.server, 30);
    until_served(&world, 0, true).await;
    world.hosts[0].logind().version = "252.39-1~deb12u1".to_owned();
    world.hosts[0].order(Order::Kill(SECOND));
    world.pass(MINUTE).await;
    let soft = json!({"Reboot": 2, "Force": false});
    let refused = error(&world, 0, "Reboot", &soft).await;
    assert_eq!(refused, "org.openSUSE.rebootmgr.InvalidParameter");
    world.hosts[0].logind().version = "257".to_owned();
    world.hosts[0].order(Order::Kill(SECOND));
    world.pass(MINUTE).await;
    does(&world, 0, "Reboot", &soft).await;
    let again = error(&world, 0, "Reboot", &soft).await;
    assert_eq!(again, "org.openSUSE.rebootmgr.AlreadyInProgress");
    let idle = |world: &World| world.phase(0) == "Idle" && world.hosts[0].state().soft_reboots == 1;
    world.until("the soft-reboot", HOUR, idle).await;
    world.pass(HOUR).await;
    world.at_rest();
    assert_eq!(
        (world.boots(0), world.hosts[0].state().soft_reboots),
        (0, 1)
    );
    // Both ask, and the stronger is done.
    Pod::slow(&world.server, 30);
    does(&world, 0, "Reboot", &soft).await;
    reboot(&world, 0).await;
    world.until_rebooted(&[0], 1, HOUR).await;
    assert_eq!(world.hosts[0].state().soft_reboots, 1);
}

/// A pause keeps it back and is shown; a daemon that only looks refuses.
#[tokio::test(start_paused = true)]
async fn what_is_refused_changes_nothing() {
    let world = World::pair("mode = \"observe\"\n[triggers]\nrebootmgr = true\n").await;
    until_served(&world, 0, true).await;
    for method in [1, 2] {
        let observes = error(&world, 0, "Reboot", &json!({"Reboot": method})).await;
        assert_eq!(observes, "org.openSUSE.rebootmgr.InternalError");
    }
    let answer = calls(&world, 0, "Status", &json!({})).await;
    let answer = answer.expect("it is served")["parameters"].clone();
    assert_eq!(answer, json!({"RebootStatus": 0, "RebootDisabled": true}));
    world.require(world.said(0, "is refused"), "the journal has it");
}

/// I12: it begins and ends with the configuration, and what was asked for stays.
#[tokio::test(start_paused = true)]
async fn i12_a_reload_begins_and_ends_it() {
    let world = World::pair("[gates]\nmin_uptime = \"2h\"\n").await;
    assert_eq!(status(&world, 0).await, None);
    // A daemon was killed that had it.
    let socket = world.hosts[0].path(SOCKET);
    std::fs::create_dir_all(socket.parent().expect("a directory")).expect("made");
    drop(Listener::bind(&socket).expect("bound"));
    world.hosts[0].write(DROP_IN, CONFIG);
    world.hosts[0].reload();
    until_served(&world, 0, true).await;
    reboot(&world, 0).await;
    world.hosts[0].write(DROP_IN, "");
    world.hosts[0].reload();
    until_served(&world, 0, false).await;
    assert!(!socket.exists());
    world.until_rebooted(&[0], 1, 4 * HOUR).await;
}

/// The real one, or another: its socket stays its own.
#[tokio::test(start_paused = true)]
async fn i14_somebody_elses_socket_is_left_to_him() {
    let world = World::pair("").await;
    let socket = world.hosts[0].path(SOCKET);
    std::fs::create_dir_all(socket.parent().expect("a directory")).expect("made");
    let other = UnixListener::bind(&socket).expect("bound");
    let inode = || std::fs::symlink_metadata(&socket).map(|it| it.ino()).ok();
    let its = inode();
    world.hosts[0].write(DROP_IN, CONFIG);
    world.hosts[0].reload();
    // A task beside the loop says it, which has no host's name.
    let words = "another process listens there";
    world
        .until("it says so", MINUTE, |world| {
            let records = world.log.of("");
            records.iter().any(|record| record.text.contains(words))
        })
        .await;
    world.pass(10 * MINUTE).await;
    assert_eq!(inode(), its);
    drop(other);
    until_served(&world, 0, true).await;
    assert_ne!(inode(), its);
}
