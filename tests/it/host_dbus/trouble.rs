//! A bus that has gone, refuses, or stands still, and who floods it: nobody waits (I7, I14).

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use zbus::Message;
use zbus::connection::Builder;

use super::*;

/// Of a flood; some seconds of one.
const CALLS: usize = 20_000;
const BUS: &str = "org.freedesktop.DBus";
const TAKEN: &str = "the name org.kuberebootd1 is taken on D-Bus";

/// Waits until the daemon of this host has said so.
async fn said(host: &CliHost, words: &str) {
    let begin = Instant::now();
    while !host.log().contains(words) {
        assert!(begin.elapsed() < PATIENCE, "{words}: {}", host.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn i7_a_bus_that_comes_back_has_the_name_again() {
    let mut bus = FakeHostBus::start().await;
    bus.stop_bus();
    // There is none at first, and then it restarts.
    let (publisher, client) = served(&bus);
    for _ in 0..2 {
        bus.start_bus().await;
        client.until("the name", "Phase", "queued").await;
        bus.stop_bus();
        publisher.publish(&view(Phase::Claiming), "claiming default");
        publisher.publish(&view(Phase::Queued), "queued again");
    }
    bus.start_bus().await;
    client.until("the name", "Status", "queued again").await;
}

#[tokio::test]
async fn a_name_that_another_has_is_said_once_and_taken_when_it_is_free() {
    let host = CliHost::start().await;
    let address = host.bus.address();
    let other = Builder::address(address.as_str()).name(NAME).build().await;
    let other = other.expect("on the bus");
    let daemon = host.daemon();
    said(&host, TAKEN).await;
    other.close().await.expect("gone");
    let client = Client::root(address);
    client.until("the name", "Group", "default").await;
    said(&host, "on D-Bus as org.kuberebootd1 again").await;
    assert_eq!(host.log().matches(TAKEN).count(), 1, "{}", host.log());
    terminate(daemon).await;
}

#[tokio::test]
async fn a_refused_name_is_said_once_and_nothing_waits_for_it() {
    let rules = format!("<policy context=\"mandatory\"><deny own=\"{NAME}\"/></policy>");
    let host = CliHost::on(FakeHostBus::configured(&rules).await);
    let daemon = host.daemon();
    let refused = "not on D-Bus as org.kuberebootd1: the bus refuses the name";
    let begin = Instant::now();
    // Long enough for a second attempt.
    while !host.log().contains(refused) || begin.elapsed() < Duration::from_secs(5) {
        assert!(begin.elapsed() < PATIENCE, "{}", host.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(host.log().matches(refused).count(), 1, "{}", host.log());
    assert!(host.root().path("/run/kube-rebootd.view.json").exists());
    terminate(daemon).await;
}

/// Calls whose answers are never read. The connection, which stays as it is, and how many calls the bus took.
fn flood(address: &str) -> (UnixStream, usize) {
    let socket = address.replace("unix:path=", "");
    let mut stream = UnixStream::connect(socket).expect("a bus");
    let uid = nix::unistd::getuid().to_string();
    let uid: Vec<String> = uid.bytes().map(|digit| format!("{digit:02x}")).collect();
    let auth = format!("\0AUTH EXTERNAL {}\r\n", uid.concat());
    stream.write_all(auth.as_bytes()).expect("written");
    let mut answer = [0; 100];
    let size = stream.read(&mut answer).expect("an answer");
    assert!(answer[..size].starts_with(b"OK "), "{answer:?}");
    stream.write_all(b"BEGIN\r\n").expect("written");
    let hello = Message::method_call("/org/freedesktop/DBus", "Hello");
    let hello = hello
        .destination("org.freedesktop.DBus")
        .interface("org.freedesktop.DBus");
    let hello = hello.build(&()).expect("a message");
    stream.write_all(hello.data()).expect("written");
    let wait = Some(Duration::from_secs(2));
    stream.set_write_timeout(wait).expect("a limit");
    for calls in 0..CALLS {
        let call = Message::method_call(NODE.0, "GetAll");
        let call = call.destination(NAME);
        let call = call.interface("org.freedesktop.DBus.Properties");
        let call = call.build(&NODE.1).expect("a message");
        if stream.write_all(call.data()).is_err() {
            return (stream, calls);
        }
    }
    (stream, CALLS)
}

#[tokio::test]
async fn i14_who_floods_it_and_reads_nothing_keeps_nobody_else_from_it() {
    // Less than the answers are.
    let limits = ["max_outgoing_bytes", "max_incoming_bytes"];
    let limits = limits.map(|name| format!("<limit name=\"{name}\">2000000</limit>"));
    let bus = FakeHostBus::configured(&limits.concat()).await;
    let (publisher, client) = served(&bus);
    client.until("the name", "Phase", "queued").await;
    let address = bus.address();
    let flood = tokio::task::spawn_blocking(move || flood(&address));
    while !flood.is_finished() {
        client.until("an answer", "Phase", "queued").await;
    }
    let (connection, calls) = flood.await.expect("done");
    assert_eq!(calls, CALLS);
    publisher.publish(&view(Phase::Claiming), "claiming default");
    client.until("an answer", "Phase", "claiming").await;
    drop(connection);
}

/// The bus is there and takes nothing.
#[tokio::test]
async fn i7_who_publishes_waits_for_no_bus() {
    let bus = FakeHostBus::start().await;
    let (publisher, client) = served(&bus);
    client.until("the name", "Phase", "queued").await;
    bus.stand_still(true);
    let mut large = view(Phase::Draining);
    large.blockers = vec![large.blockers[0].clone(); 1_000];
    let begin = Instant::now();
    for number in 0..1_000 {
        large.group = number.to_string();
        publisher.publish(&large, "draining");
    }
    let took = begin.elapsed();
    bus.stand_still(false);
    assert!(took < Duration::from_secs(5), "{took:?}");
    client.until("the last of them", "Group", "999").await;
}

/// dbus-daemon reads no more from a connection while others leave too much of what it sent unread, and does not see it end.
#[tokio::test]
async fn i14_whose_answers_nobody_fetches_is_there_again_when_the_bus_reads_on() {
    let limits = [
        ("max_outgoing_bytes", 100_000_000),
        ("max_incoming_bytes", 200_000),
    ];
    let limits = limits.map(|(name, bytes)| format!("<limit name=\"{name}\">{bytes}</limit>"));
    let bus = FakeHostBus::configured(&limits.concat()).await;
    let (publisher, client) = served(&bus);
    client.until("the name", "Phase", "queued").await;
    let address = bus.address();
    let flood = tokio::task::spawn_blocking(move || flood(&address));
    let (connection, _) = flood.await.expect("done");
    // What the bus does not take makes a second connection, which waits behind the first.
    let owners = ["call", BUS, "/", BUS, "ListQueuedOwners", "s", NAME];
    let mut large = view(Phase::Draining);
    large.blockers = vec![large.blockers[0].clone(); 1_000];
    let begin = Instant::now();
    while !client
        .busctl(&owners)
        .await
        .expect("it answers")
        .starts_with("as 2 ")
    {
        assert!(begin.elapsed() < PATIENCE);
        large.group = begin.elapsed().as_millis().to_string();
        publisher.publish(&large, "draining");
    }
    drop(connection);
    client.until("the last of them", "Group", large.group).await;
}
