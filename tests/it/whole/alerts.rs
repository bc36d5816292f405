//! A Prometheus that has alerts before anything is begun, after the take, in mid-drain and right before logind; that is away,
//! and that hangs (I2, I7, I8).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::cluster::Pod;
use super::host::Order;
use super::world::{HOUR, MINUTE, Plan, World};

/// From question to answer.
const SLOW: Duration = Duration::from_secs(2);
/// From an answer that opens the gate to a host that is back.
const REBOOT: Duration = Duration::from_secs(4 * 60);
/// Far above what the loop needs to see that something has changed.
const AT_ONCE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Nothing,
    Fires,
    Hangs,
}

/// One that a test speaks for. What it says is what is true when it answers.
#[derive(Clone)]
struct Prometheus {
    port: u16,
    /// And how often it was asked.
    knobs: Arc<Mutex<(Says, usize)>>,
}

impl Prometheus {
    async fn start(says: Says) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let knobs = Arc::new(Mutex::new((says, 0)));
        let server = Self { port, knobs };
        let answers = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let one = answers.clone();
                tokio::spawn(async move { one.answer(stream).await });
            }
        });
        server
    }

    async fn answer(&self, mut stream: TcpStream) {
        let mut bytes = [0; 4096];
        let _ = stream.read(&mut bytes).await;
        self.knobs.lock().unwrap().1 += 1;
        sleep(SLOW).await;
        let says = self.knobs.lock().unwrap().0;
        let samples = match says {
            Says::Nothing => "",
            Says::Fires => {
                r#"{"metric":{"alertname":"NodeDown","alertstate":"firing"},"value":[0,"1"]}"#
            }
            Says::Hangs => std::future::pending().await,
        };
        let body = format!(
            r#"{{"status":"success","data":{{"resultType":"vector","result":[{samples}]}}}}"#
        );
        let length = body.len();
        let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
        let _ = stream.write_all(text.as_bytes()).await;
    }

    fn says(&self, says: Says) {
        self.knobs.lock().unwrap().0 = says;
    }

    fn asked(&self) -> usize {
        self.knobs.lock().unwrap().1
    }
}

/// Hosts that ask the server at this port.
async fn hosts(hosts: usize, port: u16, more: &str) -> World {
    let table = format!(
        "[[gates.prometheus]]\nname = \"main\"\nurl = \"http://127.0.0.1:{port}\"\n{more}\n"
    );
    World::with(Plan {
        hosts,
        slots: 1,
        quorum: 0,
        config: table.leak(),
    })
    .await
}

async fn world(says: Says, more: &str) -> (World, Prometheus) {
    let server = Prometheus::start(says).await;
    let world = hosts(1, server.port, more).await;
    (world, server)
}

/// Two hosts, and a pod that takes ten minutes to leave the first.
async fn draining(more: &str) -> (World, Prometheus) {
    let server = Prometheus::start(Says::Nothing).await;
    let world = hosts(2, server.port, more).await;
    Pod {
        ends: 600,
        grace: 660,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    (world, server)
}

fn untouched(world: &World) {
    let free = world.holder("default").is_none() && !world.cordoned(0);
    world.require(free && world.boots(0) == 0, "nothing is begun");
}

fn was(world: &World, phase: &str) -> bool {
    world.phases(0).iter().any(|one| one == phase)
}

#[tokio::test(start_paused = true)]
async fn i2_a_reboot_waits_for_an_alert_and_says_so() {
    let (world, server) = world(Says::Fires, "").await;
    world.pass(10 * MINUTE).await;
    world.require(server.asked() == 0, "nobody asks for nothing");
    world.want(0);
    world.pass(2 * HOUR).await;
    untouched(&world);
    let asked = server.asked();
    world.require(
        (200..=242).contains(&asked),
        &format!("it was asked {asked} times"),
    );
    let why = "Prometheus \"main\": active alerts: NodeDown";
    world.require(world.said(0, why), "it says why");
    server.says(Says::Nothing);
    world.until_rebooted(&[0], 1, REBOOT).await;
}

/// Nobody answers at that address.
#[tokio::test(start_paused = true)]
async fn i8_a_prometheus_that_is_away_closes_the_gate_before_the_queue() {
    let world = hosts(1, 1, "").await;
    world.want(0);
    world.pass(2 * HOUR).await;
    untouched(&world);
    world.require(!was(&world, "Queued"), "it never waits for a slot");
    let why = "Prometheus \"main\" cannot be asked";
    world.require(world.said(0, why), "it says why");
}

#[tokio::test(start_paused = true)]
async fn a_prometheus_that_is_away_keeps_nobody_waiting_where_it_may_be() {
    let world = hosts(1, 1, "on_error = \"open\"").await;
    world.want(0);
    world.until_rebooted(&[0], 1, REBOOT).await;
    let words = "counts as if nothing were active";
    world.require(world.said(0, words), "it is said");
}

#[tokio::test(start_paused = true)]
async fn i2_an_alert_that_begins_after_the_take_is_heard_before_the_cordon() {
    let (world, server) = world(Says::Nothing, "").await;
    world.want(0);
    world.until_phase(0, "Claiming", HOUR).await;
    server.says(Says::Fires);
    world.until_phase(0, "Undoing", MINUTE).await;
    world.pass(HOUR).await;
    untouched(&world);
    world.require(!was(&world, "Draining"), "it was never cordoned");
    server.says(Says::Nothing);
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i2_an_alert_that_begins_in_mid_drain_ends_it() {
    let (world, server) = draining("").await;
    server.says(Says::Fires);
    world.until_phase(0, "Undoing", MINUTE).await;
    world.pass(HOUR).await;
    untouched(&world);
    server.says(Says::Nothing);
    world.until_rebooted(&[0], 1, 2 * HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i2_an_alert_that_begins_when_all_pods_have_left_is_heard_before_logind_is_asked() {
    let (world, server) = draining("").await;
    world
        .until("the pod has left", HOUR, |world| {
            let state = world.server.state();
            state.object(("pods", "shop", "web")).is_none()
        })
        .await;
    server.says(Says::Fires);
    world.until_phase(0, "Undoing", MINUTE).await;
    world.pass(HOUR).await;
    untouched(&world);
    let asked = world.hosts[0].logind().reboots;
    world.require(asked == 0, "logind was never asked");
}

/// While its question waits, what else ends a wait and a drain does so at once.
#[tokio::test(start_paused = true)]
async fn i7_a_prometheus_that_hangs_delays_nothing_else() {
    let (waits, _server) = world(Says::Hangs, "timeout = \"30s\"").await;
    waits.want(0);
    waits.until_phase(0, "Pending", MINUTE).await;
    waits.unwant(0);
    waits.until_phase(0, "Idle", AT_ONCE).await;

    let (drains, server) = draining("timeout = \"30s\"\non_error = \"open\"").await;
    server.says(Says::Hangs);
    drains.pass(MINUTE).await;
    let state = drains.phase(0);
    drains.require(state == "Draining", "the drain goes on");
    drains.unwant(0);
    drains.until_phase(0, "Undoing", AT_ONCE).await;
}

/// Nobody answers what was to be asked anew: the hold ends by the rules of the gate, and nothing is rebooted.
#[tokio::test(start_paused = true)]
async fn i7_i8_a_prometheus_that_hangs_from_mid_drain_on_ends_the_hold() {
    let (world, server) = draining("").await;
    server.says(Says::Hangs);
    world
        .until("the slot is free", 20 * MINUTE, |world| {
            world.holder("default").is_none() && !world.cordoned(0)
        })
        .await;
    world.pass(HOUR).await;
    untouched(&world);
    server.says(Says::Nothing);
    world.until_rebooted(&[0], 1, 2 * HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i7_a_prometheus_that_hangs_keeps_no_drained_node_where_it_may_be_away() {
    let (world, server) = draining("on_error = \"open\"").await;
    server.says(Says::Hangs);
    world.until_rebooted(&[0], 1, 11 * MINUTE + REBOOT).await;
    world.require(!was(&world, "Undoing"), "nothing was given up");
}

/// What the last process had heard is lost with it: the next one asks anew, and gives nothing up for that.
#[tokio::test(start_paused = true)]
async fn i6_a_daemon_that_is_killed_asks_anew_and_goes_on() {
    for phase in ["Pending", "Claiming", "Draining", "Rebooting"] {
        let (world, _server) = world(Says::Nothing, "").await;
        world.want(0);
        world.until_phase(0, phase, HOUR).await;
        world.hosts[0].order(Order::Kill(Duration::from_secs(1)));
        world.until_rebooted(&[0], 1, 10 * MINUTE).await;
        world.require(
            !was(&world, "Undoing"),
            &format!("it was undone, killed in {phase}"),
        );
    }
}

/// Neither an alert nor a server that hangs keeps it waiting any more, at none of the moments at which it is asked anew.
#[tokio::test(start_paused = true)]
async fn i7_an_old_request_waits_for_no_answer_of_a_listed_gate() {
    for says in [Says::Fires, Says::Hangs] {
        let force = "[gates]\nforce_after = \"1h\"\nforce = [\"alerts\"]";
        let (world, _server) = world(says, force).await;
        world.want(0);
        world.pass(59 * MINUTE).await;
        let free = world.holder("default").is_none() && !world.cordoned(0);
        world.require(free && world.boots(0) == 0, "nothing is begun");
        world.until_rebooted(&[0], 1, 8 * MINUTE).await;
        let why = "the request is older than gates.force_after, which passes over: ";
        world.require(world.said(0, why), "the journal says why it came now");
    }
}
