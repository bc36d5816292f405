//! Orders: from busctl and the command line to the loop, and back.

use std::process::Stdio;

use kube_rebootd_core::order::{Order, OrderError};
use kube_rebootd_core::trigger::Keeper;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::*;
use crate::cli_host::binary;

fn call<'a>(method: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    let (path, interface) = NODE;
    [&["call", NAME, path, interface, method], arguments].concat()
}

#[tokio::test]
async fn what_root_asks_for_comes_to_the_loop_and_its_answer_back() {
    let bus = FakeHostBus::start().await;
    let (publisher, mut orders) = dbus::serve(Bus::at(bus.address()), Control::unused());
    publisher.publish(&view(Phase::Idle), "idle");
    let client = Client::root(bus.address());
    client.until("the name", "Phase", "idle").await;
    let loops = tokio::spawn(async move {
        for done in [
            Ok(vec!["asked to reboot".to_owned(), "paused".to_owned()]),
            Err(OrderError::Proving),
        ] {
            let given = orders.next().await;
            assert!(!given.late());
            given.answer(done);
        }
        // The daemon ends with this one.
        orders.next().await.order.clone()
    });
    let reboot = call("Reboot", &["sb", "new firmware", "true"]);
    let done = client.busctl(&reboot).await;
    assert_eq!(done.unwrap().trim(), r#"as 2 "asked to reboot" "paused""#);
    let said = client.busctl(&call("Retry", &[])).await.unwrap_err();
    assert!(said.contains("not proved healthy yet"), "{said}");
    let said = client.busctl(&call("Reboot", &["s", "x"])).await;
    assert!(said.unwrap_err().contains("Reboot wants a reason"));
    let said = client.busctl(&call("Cancel", &[])).await.unwrap_err();
    assert!(said.contains("kube-rebootd ends"), "{said}");
    // What is refused here does not come to the loop.
    assert_eq!(loops.await.expect("an order"), Order::Cancel);
}

async fn run(bus: &FakeHostBus, words: &[&str]) -> (Option<i32>, String) {
    let mut command = binary();
    command
        .env("DBUS_SYSTEM_BUS_ADDRESS", bus.address())
        .args(words);
    let said = command.output().await.expect("it runs");
    let text = String::from_utf8([said.stdout, said.stderr].concat()).expect("UTF-8");
    (said.status.code(), text)
}

/// Each verb with its exit code, whatever the daemon says.
#[tokio::test]
async fn the_command_line_says_what_became_of_it() {
    let bus = FakeHostBus::start().await;
    for verb in [&["reboot"][..], &["cancel"], &["retry"]] {
        let (code, said) = run(&bus, verb).await;
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("the daemon does not run"), "{said}");
    }
    let (publisher, mut orders) = dbus::serve(Bus::at(bus.address()), Control::unused());
    publisher.publish(&view(Phase::Idle), "idle");
    let client = Client::root(bus.address());
    client.until("the name", "Phase", "idle").await;
    let loops = tokio::spawn(async move {
        let mut given = Vec::new();
        for done in [
            Ok(vec!["asked to reboot".to_owned()]),
            Err(OrderError::Starting),
            Err(OrderError::Observing),
        ] {
            let next = orders.next().await;
            given.push(next.order.clone());
            next.answer(done);
        }
        given
    });
    let words = ["reboot", "--now", "--reason", "new firmware"];
    assert_eq!(
        run(&bus, &words).await,
        (Some(0), "asked to reboot\n".to_owned())
    );
    let (code, said) = run(&bus, &["reboot"]).await;
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains("has not answered yet"), "{said}");
    let (code, said) = run(&bus, &["retry"]).await;
    assert_eq!(code, Some(1), "{said}");
    let given = loops.await.expect("three orders");
    assert_eq!(given[0], Order::reboot("new firmware", true, None));
    let Order::Reboot {
        reason,
        now: false,
        kind: None,
    } = &given[1]
    else {
        panic!("{:?}", given[1]);
    };
    assert!(reason.starts_with("by root, 2"), "{reason}");
    assert_eq!(given[2], Order::Retry);
}

/// Somebody has the name who knows no order.
#[tokio::test]
async fn an_older_daemon_is_named() {
    let bus = FakeHostBus::start().await;
    let connection = Bus::at(bus.address())
        .connect()
        .await
        .expect("a connection");
    connection.request_name(NAME).await.expect("the name");
    // zbus answers calls once there is somebody to answer for.
    let _server = connection.object_server();
    let (code, said) = run(&bus, &["retry"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("older than this program"), "{said}");
}

#[tokio::test]
async fn a_cluster_without_a_node_is_a_wrong_usage() {
    let bus = FakeHostBus::start().await;
    for verb in ["reboot", "cancel"] {
        let (code, said) = run(&bus, &[verb, "--context", "prod"]).await;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("NODE is missing"), "{said}");
    }
    let (code, said) = run(&bus, &["reboot", "--now", "n1"]).await;
    assert_eq!(code, Some(2), "{said}");
}

/// Found by review: a script that was ended while it waited for the daemon's answer left its wish behind.
#[tokio::test]
async fn a_script_that_is_ended_takes_its_wish_back() {
    let bus = FakeHostBus::start().await;
    let (publisher, mut orders) = dbus::serve(Bus::at(bus.address()), Control::unused());
    publisher.publish(&view(Phase::Idle), "idle");
    let client = Client::root(bus.address());
    client.until("the name", "Phase", "idle").await;
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let mut command = binary();
        command
            .env("DBUS_SYSTEM_BUS_ADDRESS", bus.address())
            .args(["hold", "--wait", "5m", "--reason", "firmware"]);
        let mut script = command.stdout(Stdio::null()).spawn().expect("it runs");
        // The daemon has the order and does not come to it.
        let given = orders.next().await;
        assert_eq!(given.order, Order::drain(Keeper::Script, "firmware"));
        let pid = i32::try_from(script.id().expect("a process")).expect("a number");
        kill(Pid::from_raw(pid), signal).expect("signalled");
        let back = orders.next();
        // One call is answered after the other.
        given.answer(Ok(vec!["asked".to_owned()]));
        let back = back.await;
        assert_eq!(back.order, Order::Undrain(Keeper::Script));
        back.answer(Ok(vec!["taken back".to_owned()]));
        let ended = script.wait().await.expect("it ends");
        assert_eq!(ended.code(), Some(75), "{signal}");
    }
}
