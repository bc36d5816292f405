//! An updater that asks over FleetLock, as Zincati does: it is told to go on when the node is drained, and reboots the host by
//! itself (I1-I4, I6).

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::cluster::Pod;
use super::host::Order;
use super::world::{HOUR, MINUTE, World};
use crate::memory::condition;

const CONFIG: &str = "[fleet_lock]\nlisten = \"unix:/fleet.sock\"\nid = \"me\"\n";
/// Zincati waits so long between two questions.
const AGAIN: Duration = Duration::from_secs(315);
const SECOND: Duration = Duration::from_secs(1);

async fn pair(config: &'static str) -> World {
    let world = World::pair("").await;
    for host in &world.hosts {
        let me = nix::unistd::getuid();
        host.write(
            "/etc/passwd",
            &format!("zincati:x:{me}:{me}::/:/bin/false\n"),
        );
        host.write("/etc/kube-rebootd/config.toml", &testbed::at_once(config));
        host.reload();
    }
    world.pass(MINUTE).await;
    world
}

/// Status and kind of the answer; none: there is nobody to answer.
async fn asks(world: &World, host: usize, call: &str) -> Option<(u16, String)> {
    let mut stream = UnixStream::connect(world.hosts[host].path("/fleet.sock"))
        .await
        .ok()?;
    let body = "{\"client_params\":{\"id\":\"me\",\"group\":\"default\"}}";
    let length = body.len();
    let request = format!(
        "POST /v1/{call} HTTP/1.1\r\nfleet-lock-protocol: true\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let status = answer.get(9..12)?.parse().ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let kind = serde_json::from_str::<Value>(body).ok();
    let kind = kind.and_then(|fields| Some(fields["kind"].as_str()?.to_owned()));
    Some((status, kind.unwrap_or_default()))
}

async fn asks_until_yes(world: &World, host: usize, limit: Duration) {
    let began = tokio::time::Instant::now();
    loop {
        let answer = asks(world, host, "pre-reboot").await;
        if answer.as_ref().is_some_and(|(status, _)| *status == 200) {
            // I2: never before.
            world.require(world.cordoned(host), "it is cordoned");
            return;
        }
        world.require(began.elapsed() < limit, &format!("never yes: {answer:?}"));
        world.pass(AGAIN).await;
    }
}

/// The updater reboots the host, as rpm-ostree does.
fn reboots(world: &World, host: usize) {
    let mut logind = world.hosts[host].logind();
    logind.preparing = true;
    logind.going_down.notify_one();
}

fn untouched(world: &World, host: usize) -> bool {
    world.holder("default").is_none() && !world.cordoned(host)
}

/// Both hosts have an update at the same time.
#[tokio::test(start_paused = true)]
async fn i1_i4_updaters_reboot_one_host_after_another_each_when_drained() {
    let world = pair(CONFIG).await;
    assert_eq!(
        asks(&world, 0, "steady-state").await,
        Some((200, String::new()))
    );
    asks_until_yes(&world, 0, MINUTE).await;
    // As often as it asks.
    assert_eq!(
        asks(&world, 0, "pre-reboot").await,
        Some((200, String::new()))
    );
    let other = asks(&world, 1, "pre-reboot").await;
    assert_eq!(other, Some((423, "slot_taken".to_owned())));
    assert_eq!(world.hosts[0].logind().reboots, 0, "logind is not asked");
    reboots(&world, 0);
    world
        .until("it is down", MINUTE, |world| world.boots(0) == 1)
        .await;
    world.until_phase(0, "Verifying", 5 * MINUTE).await;
    // It waits for its answer until the slot is given up.
    let yes = asks(&world, 0, "steady-state").await;
    assert_eq!(yes, Some((200, String::new())));
    world.require(!world.cordoned(0), "it is uncordoned before");
    let held = world.holder("default");
    world.require(held.as_deref() != Some("n0"), "and holds nothing");
    world.until_rebooted_with(&[0], 1, HOUR, &[1]).await;
    assert_eq!(
        asks(&world, 0, "steady-state").await,
        Some((200, String::new()))
    );
    asks_until_yes(&world, 1, HOUR).await;
    reboots(&world, 1);
    world.until_rebooted(&[0, 1], 1, HOUR).await;
    for host in [0, 1] {
        assert_eq!(world.hosts[host].logind().reboots, 0);
        world.require(world.said(host, "FleetLock"), "it says who asked");
    }
}

/// Found with the real Zincati: while the other Nodes were listed before the take it was told no, and the node was drained for the
/// five minutes until it asked again.
#[tokio::test(start_paused = true)]
async fn who_asks_while_a_slot_is_free_is_told_to_go_on_by_the_first_answer() {
    let world = pair(CONFIG).await;
    for host in [0, 1] {
        let answer = asks(&world, host, "pre-reboot").await;
        assert_eq!(answer, Some((200, String::new())), "host {host}");
        reboots(&world, host);
        world.until_rebooted(&[host], 1, HOUR).await;
    }
}

/// A drain that takes longer than the client waits, and the gates before it.
#[tokio::test(start_paused = true)]
async fn i2_the_answer_is_no_until_the_last_pod_has_gone() {
    let world = pair(CONFIG).await;
    let slow = Pod {
        ends: 1500,
        grace: 1500,
        ..Pod::new("slow", "n0")
    };
    slow.make(&world.server);
    let inhibitor = ["shutdown", "backup", "a backup", "block"].map(str::to_owned);
    let [what, who, why, mode] = inhibitor;
    world.hosts[0].logind().inhibitors = vec![(what, who, why, mode, 0, 1)];
    let no = asks(&world, 0, "pre-reboot").await;
    assert_eq!(no, Some((423, "gate_closed".to_owned())));
    world.require(untouched(&world, 0), "nothing is begun");
    world.hosts[0].logind().inhibitors.clear();
    world.until_phase(0, "Draining", HOUR).await;
    for _ in 0..4 {
        let no = asks(&world, 0, "pre-reboot").await;
        assert_eq!(no, Some((423, "draining".to_owned())));
        world.pass(AGAIN).await;
    }
    asks_until_yes(&world, 0, HOUR).await;
    reboots(&world, 0);
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// Zincati was started anew: it looks for updates again, and does not know that it was told to go on.
#[tokio::test(start_paused = true)]
async fn i3_a_steady_state_in_the_same_boot_undoes() {
    for granted in [false, true] {
        let world = pair(CONFIG).await;
        if granted {
            asks_until_yes(&world, 0, MINUTE).await;
        } else {
            let slow = Pod {
                ends: 600,
                grace: 600,
                ..Pod::new("slow", "n0")
            };
            slow.make(&world.server);
            asks(&world, 0, "pre-reboot").await;
            world.until_phase(0, "Draining", MINUTE).await;
        }
        let mut answer = asks(&world, 0, "steady-state").await;
        for _ in 0..20 {
            if answer == Some((200, String::new())) {
                break;
            }
            world.pass(SECOND).await;
            answer = asks(&world, 0, "steady-state").await;
        }
        assert_eq!(answer, Some((200, String::new())));
        world.require(untouched(&world, 0), "all is taken back");
        world.pass(HOUR).await;
        world.require(untouched(&world, 0) && world.boots(0) == 0, "it stays so");
    }
}

/// What the Node's condition says.
fn told(world: &World) -> String {
    let node = world.node(0);
    let told = condition(&node, "RebootRequired");
    let message = told.map(|one| one["message"].clone());
    message.map_or_else(String::new, |it| it.as_str().unwrap_or_default().to_owned())
}

/// Found by reading: a drained node was "about to reboot" for as long as its updater did nothing. The words stay the same, as each
/// change is written to the Node.
#[tokio::test(start_paused = true)]
async fn a_drained_node_says_for_whom_it_waits_and_until_when() {
    let world = pair(CONFIG).await;
    let slow = Pod {
        ends: 120,
        grace: 120,
        ..Pod::new("slow", "n0")
    };
    slow.make(&world.server);
    asks(&world, 0, "pre-reboot").await;
    let words =
        "drained: the updater of this host must ask once more, which Zincati does every 5 minutes";
    let says = |world: &World| told(world).starts_with(words);
    world.until(words, 5 * MINUTE, says).await;
    let first = told(&world);
    let until = "; after 20m without a question the drain is undone; asked for by";
    world.require(first.contains(until), &first);
    for _ in 0..80 {
        world.pass(5 * SECOND).await;
        assert_eq!(told(&world), first);
    }
    // The condition says it before the yes, and is not written again (I2); the status says until when.
    asks_until_yes(&world, 0, MINUTE).await;
    let words = "drained: the updater of this host is told to reboot it; if it has not done so within 30m, the drain is undone; asked for by";
    world.require(told(&world).starts_with(words), &told(&world));
    let words = "the updater of this host was told to reboot it; if it has not done so by";
    world
        .until(words, MINUTE, |world| world.said(0, words))
        .await;
}

/// It was told to go on, and does not: the next node has waited long enough.
#[tokio::test(start_paused = true)]
async fn i3_who_does_not_reboot_is_undone_and_told_so() {
    let world = pair(CONFIG).await;
    asks_until_yes(&world, 0, MINUTE).await;
    for _ in 0..4 {
        world.pass(AGAIN).await;
        assert_eq!(
            asks(&world, 0, "pre-reboot").await,
            Some((200, String::new()))
        );
    }
    // The reboot would come in the middle of the undoing.
    world.pass(AGAIN).await;
    let no = asks(&world, 0, "pre-reboot").await;
    assert_eq!(no, Some((423, "undone".to_owned())));
    world
        .until("it is undone", 10 * MINUTE, |world| untouched(world, 0))
        .await;
    world.require(world.said(0, "has not done so within 30m"), "and says why");
    let no = asks(&world, 0, "pre-reboot").await;
    assert_eq!(no.map(|(status, _)| status), Some(423));
    // After the pause it is its turn again.
    asks_until_yes(&world, 0, HOUR).await;
    reboots(&world, 0);
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// Found by reading: a reload with another `reboot_within` undid the drain before what the updater had been promised was over, and
/// it would have rebooted the host in the middle of that, or after it.
#[tokio::test(start_paused = true)]
async fn i1_what_the_updater_was_promised_is_not_shortened_by_a_reload() {
    let world = pair(CONFIG).await;
    asks_until_yes(&world, 0, MINUTE).await;
    let shorter = format!("{CONFIG}reboot_within = \"2m\"\n");
    let config = "/etc/kube-rebootd/config.toml";
    world.hosts[0].write(config, &testbed::at_once(&shorter));
    world.hosts[0].reload();
    let words = "if it has not done so within 30m, the drain is undone";
    for _ in 0..2 {
        world.pass(AGAIN).await;
        world.require(told(&world).contains(words), &told(&world));
        let yes = asks(&world, 0, "pre-reboot").await;
        assert_eq!(yes, Some((200, String::new())));
    }
    // The promise is on record: another process, which tells it once more, keeps it as well.
    world.hosts[0].order(Order::Kill(10 * SECOND));
    world.pass(11 * SECOND).await;
    asks_until_yes(&world, 0, 5 * MINUTE).await;
    world.pass(10 * MINUTE).await;
    world.require(world.cordoned(0), "it waits as it was told");
    world
        .until("it is undone", 11 * MINUTE, |world| untouched(world, 0))
        .await;
    world.require(world.said(0, "has not done so within"), "and says why");
    // Whoever is told from now on has the time that is configured now.
    asks_until_yes(&world, 0, HOUR).await;
    world
        .until("it is undone", 4 * MINUTE, |world| untouched(world, 0))
        .await;
    world.require(world.said(0, "has not done so within 2m"), "so soon");
}

/// The updater is gone for good: nothing waits for it.
#[tokio::test(start_paused = true)]
async fn i3_an_updater_that_asks_no_more_is_forgotten() {
    for config in [CONFIG, "[fleet_lock]\n"] {
        let world = pair(CONFIG).await;
        let slow = Pod {
            ends: 300,
            grace: 300,
            ..Pod::new("slow", "n0")
        };
        slow.make(&world.server);
        asks(&world, 0, "pre-reboot").await;
        world.until_phase(0, "Draining", MINUTE).await;
        if config != CONFIG {
            world.hosts[0].write("/etc/kube-rebootd/config.toml", &testbed::at_once(config));
            world.hosts[0].reload();
        }
        world
            .until("it is given up", 25 * MINUTE, |world| untouched(world, 0))
            .await;
        world.pass(HOUR).await;
        world.require(untouched(&world, 0) && world.boots(0) == 0, "it stays so");
    }
}

/// I6: killed in every phase, the host reboots once, when the updater does it.
#[tokio::test(start_paused = true)]
async fn i6_killed_in_every_phase_it_goes_on() {
    for phase in [
        "Queued",
        "Claiming",
        "Draining",
        "Rebooting",
        "Verifying",
        "Releasing",
    ] {
        let world = pair(CONFIG).await;
        let slow = Pod {
            ends: 30,
            grace: 30,
            ..Pod::new("slow", "n0")
        };
        slow.make(&world.server);
        let killed = async {
            world.until_phase(0, phase, HOUR).await;
            world.hosts[0].order(Order::Kill(10 * SECOND));
            world.pass(11 * SECOND).await;
        };
        let goes_on = async {
            asks_until_yes(&world, 0, HOUR).await;
            // Zincati waits for users: it asks again and reboots only after a yes.
            world.pass(MINUTE).await;
            asks_until_yes(&world, 0, HOUR).await;
            reboots(&world, 0);
            world
                .until("it is down", MINUTE, |world| world.boots(0) == 1)
                .await;
        };
        tokio::join!(killed, goes_on);
        world.until_rebooted(&[0], 1, HOUR).await;
        assert_eq!(world.hosts[0].logind().reboots, 0, "{phase}");
        assert_eq!(
            asks(&world, 0, "steady-state").await,
            Some((200, String::new()))
        );
    }
}

/// A sentinel asks as well: the updater's reboot serves both; where it says that it does not reboot, logind is asked.
#[tokio::test(start_paused = true)]
async fn what_else_asks_is_served_by_the_same_reboot() {
    for called_off in [false, true] {
        let world = pair(CONFIG).await;
        asks_until_yes(&world, 0, MINUTE).await;
        world.want(0);
        world.pass(MINUTE).await;
        assert_eq!(world.hosts[0].logind().reboots, 0);
        if called_off {
            asks(&world, 0, "steady-state").await;
        } else {
            reboots(&world, 0);
        }
        world.until_rebooted(&[0], 1, HOUR).await;
    }
}
