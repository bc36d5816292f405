//! Who is told of a reboot (I7, I14): the command on a fake systemd, and what becomes of notices that nobody takes.

use std::fs;
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd::host::Bus;
use kube_rebootd::host::check::{self, NoticeError};
use kube_rebootd::notices::Notices;
use kube_rebootd::root::Root;
use kube_rebootd_core::config::{self, Notify};
use kube_rebootd_core::notice::Notice;
use kube_rebootd_core::topic::Topic;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::fake_bus::FakeHostBus;

fn notice(topic: Topic) -> Notice {
    Notice {
        topic,
        node: "n1".to_owned(),
        group: "default".to_owned(),
        reason: "Draining".to_owned(),
        message: "draining: $HOME \"a\" %h".to_owned(),
        at: Timestamp::UNIX_EPOCH,
    }
}

fn configured(text: &str) -> Notify {
    let file = std::path::Path::new("config.toml");
    let text = format!("[notify]\n{text}\n");
    config::parse(file, &text).expect("valid").config.notify
}

/// A host's root with a /run.
fn root() -> (tempfile::TempDir, Root) {
    let tree = tempfile::tempdir().expect("a directory");
    fs::create_dir(tree.path().join("run")).expect("made");
    let root = Root::at(tree.path());
    (tree, root)
}

#[tokio::test]
async fn a_command_gets_the_facts_as_they_are() {
    let host = FakeHostBus::start().await;
    let (_tree, root) = root();
    let bus = Bus::at(host.address());
    let run = async |script: &str| {
        let command = ["/bin/sh", "-c", script].map(str::to_owned);
        let facts = notice(Topic::Draining).environment();
        check::notice(
            &root,
            &bus,
            "command",
            &command,
            facts,
            Duration::from_secs(60),
        )
        .await
    };
    let script = "test \"$KUBE_REBOOTD_EVENT $KUBE_REBOOTD_NODE\" = 'draining n1' || exit 2
        test \"$KUBE_REBOOTD_MESSAGE\" = 'draining: $HOME \"a\" %h' || exit 3";
    run(script).await.expect("told");
    let refused = run("exit 7").await;
    assert!(matches!(refused, Err(NoticeError::Code(7))), "{refused:?}");
    assert_eq!(fs::read_dir(root.path("/run")).expect("listed").count(), 0);
}

/// Below /tmp, where anybody can make files.
#[tokio::test]
async fn i14_a_command_that_others_can_change_is_not_run() {
    let host = FakeHostBus::start().await;
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("tell");
    fs::write(&program, "#!/bin/sh\nexit 0\n").expect("written");
    let command = [program.to_str().expect("text").to_owned()];
    let bus = Bus::at(host.address());
    let said = check::notice(
        &Root::host(),
        &bus,
        "command",
        &command,
        Vec::new(),
        Duration::MAX,
    )
    .await;
    assert!(matches!(said, Err(NoticeError::Program(_))), "{said:?}");
    assert!(host.knobs().started.is_empty(), "nothing was run");
}

/// What is refused is tried again, what nobody asked for is not sent, and nothing waits.
#[tokio::test]
async fn i7_a_notice_is_tried_again_and_nobody_waits_for_it() {
    let host = FakeHostBus::start().await;
    let (_tree, root) = root();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let notices = Notices::start(&root, &Bus::at(host.address()));
    let config = configured(&format!(
        "webhook = \"http://{address}/\"\non = [\"failed\", \"person\"]"
    ));
    notices.tell(&config, &notice(Topic::Draining));
    // More than wait: the loop goes on, the rest is dropped.
    for _ in 0..100 {
        notices.tell(&config, &notice(Topic::Failed));
    }
    for status in ["503 Busy", "200 OK"] {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"}") {
            assert_ne!(stream.read_buf(&mut bytes).await.expect("a request"), 0);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.contains("\"event\":\"failed\""), "{text}");
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.expect("answered");
    }
}
